#!/usr/bin/env bash
# build.sh OUT.so KERNELS.cu KERNELS.ptx CUDA_INCLUDE: the stand-in driver with the host-compiled kernels in it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1 cu=$(realpath "$2") ptx=$3 include=$4
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
grep -oP '\.entry \K\w+' "$ptx" | sed 's/.*/HC_KERNEL(&)/' >"$tmp/kernels.list"
flags=(-std=c++17 "${HC_OPT:--O2}" -march=native -ffp-contract=fast -fPIC -fvisibility=hidden -Wall -Wno-unknown-pragmas -I"$here" -I"$tmp")
[ "$(uname -m)" = x86_64 ] && flags+=(-mtls-dialect=gnu2) # cheap thread_local in a dlopened library
g++ "${flags[@]}" -DKERNELS_CU="\"$cu\"" -c "$here/kernels_host.cpp" -o "$tmp/k.o" &
kernels=$!
o=${HC_OBJECTS:-$tmp} # where several builds share what doesn't depend on the kernels
[ -e "$o/r.o" ] || g++ "${flags[@]}" -fno-stack-protector -c "$here/runtime.cpp" -o "$o/r.o"
[ -e "$o/d.o" ] || g++ "${flags[@]}" -fvisibility=default -I"$include" -c "$here/driver.cpp" -o "$o/d.o"
wait $kernels
g++ -shared -o "$out" "$tmp/k.o" "$o/r.o" "$o/d.o" -pthread -Wl,-Bsymbolic
