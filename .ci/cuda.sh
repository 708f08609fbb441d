#!/usr/bin/env bash
# Builds and tests the GPU backend where there is no GPU, no driver and no CUDA toolkit: NVIDIA's compilers come as
# Python wheels (87 MB, into .forwardpass/cuda), the driver is pkg/cuda/internal/standin. Needs go, g++, python3 with pip.
#
#   .ci/cuda.sh          everything
#   .ci/cuda.sh setup    only bring the wheels, make the PTX, build the stand-in and what lesson 13 runs
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export CUDA_DIR=${CUDA_DIR:-$root/.forwardpass/cuda}
start=$SECONDS
say() { printf '== %s (%d s)\n' "$*" $((SECONDS - start)); }

# The compilers. NVRTC 12.2 makes PTX 8.2, which drivers from 535 on load; ptxas 12.8 knows sm_120.
wheels=(nvidia-cuda-runtime-cu12==12.2.140 nvidia-cuda-nvrtc-cu12==12.2.140 nvidia-cuda-nvcc-cu12==12.8.93)
if [ "$(cat "$CUDA_DIR/wheels" 2>/dev/null)" != "${wheels[*]}" ]; then
  say "fetching ${wheels[*]}"
  rm -rf "$CUDA_DIR"
  mkdir -p "$CUDA_DIR/w"
  python3 -m pip download -q --no-deps --only-binary=:all: --platform manylinux1_x86_64 --platform manylinux2010_x86_64 \
    --platform manylinux_2_12_x86_64 --platform manylinux2014_x86_64 -d "$CUDA_DIR/w" "${wheels[@]}"
  for w in "$CUDA_DIR"/w/*.whl; do python3 -m zipfile -e "$w" "$CUDA_DIR"; done
  rm -r "$CUDA_DIR/w"
  chmod +x "$CUDA_DIR/nvidia/cuda_nvcc/bin/ptxas"
  echo "${wheels[*]}" >"$CUDA_DIR/wheels"
fi
include=$CUDA_DIR/nvidia/cuda_runtime/include
export CGO_CFLAGS="-O2 -I$include"

say "the embedded PTX is what kernels.cu gives"
pkg/cuda/scripts/ptx.sh "$CUDA_DIR"
zcat pkg/cuda/internal/kernels/kernels.ptx.gz | cmp - "$CUDA_DIR/kernels.ptx" && cmp pkg/cuda/internal/kernels/resources.txt "$CUDA_DIR/resources.txt" ||
  { echo "kernels.ptx.gz or resources.txt is stale: run pkg/cuda/scripts/ptx.sh" >&2; exit 1; }

say "the stand-in driver"
pkg/cuda/internal/standin/build.sh "$CUDA_DIR/libcudacpu.so" pkg/cuda/internal/kernels/kernels.cu "$CUDA_DIR/kernels.ptx" "$include"

say "the report of lesson 13"
go build -tags cuda -o "$CUDA_DIR/gpureport" ./pkg/cuda/gpureport
[ "${1:-}" = setup ] && exit

say "the default build has nothing of CUDA and needs no C compiler"
CGO_ENABLED=0 CC=/bin/false go build ./pkg/cuda ./pkg/model
if CGO_ENABLED=0 go list -deps ./... | grep gorgonia; then exit 1; fi

say "ptxas for every chip"
printf '%s\n' 80 86 89 90 120 | xargs -P 2 -I{} "$CUDA_DIR/nvidia/cuda_nvcc/bin/ptxas" -arch=sm_{} -o /dev/null "$CUDA_DIR/kernels.ptx"

say "vet and build with -tags cuda"
go vet -tags cuda ./pkg/cuda/... ./pkg/model ./pkg/generate
go build -tags cuda ./...

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for p in cuda model generate; do go test -c -race -tags cuda -o "$tmp/$p.test" ./pkg/$p; done
export FORWARDPASS_GPU=required CUDA_DRIVER_LIB=$CUDA_DIR/libcudacpu.so
run() { # PACKAGE ARGUMENTS...: its tests, what they say into a file
  (cd "pkg/$1" && "$tmp/$1.test" -test.timeout 20m "${@:2}") >"$tmp/$1.log" 2>&1 || { cat "$tmp/$1.log" >&2; return 1; }
}
for order in forward reverse random; do
  export CUDACPU_ORDER=$order
  say "tests on the stand-in, threads in $order order, with -race"
  run generate -test.run 'EqualsTransformers$' & # one of them leaves a core idle
  other=$!
  run cuda
  run model -test.run '^(TestFamilies|TestLens|TestStoryland|TestGreedy|TestLoss)$'
  wait $other
  cat "$tmp"/{cuda,model,generate}.log
done

say "without a driver the tests start and skip"
env -u FORWARDPASS_GPU CUDA_DRIVER_LIB=/nonexistent/libcuda.so.1 go test -count=1 -tags cuda ./pkg/cuda
say "done"
