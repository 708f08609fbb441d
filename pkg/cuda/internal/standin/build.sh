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
g++ "${flags[@]}" -fno-stack-protector -c "$here/runtime.cpp" -o "$tmp/r.o"
g++ "${flags[@]}" -fvisibility=default -I"$include" -c "$here/driver.cpp" -o "$tmp/d.o"
wait $kernels
g++ -shared -o "$out" "$tmp"/k.o "$tmp"/r.o "$tmp"/d.o -pthread -Wl,-Bsymbolic
