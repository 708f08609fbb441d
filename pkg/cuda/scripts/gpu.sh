#!/usr/bin/env bash
# Checks the GPU backend on a machine with an NVIDIA GPU. It needs the driver and a copy of the repository; neither Go nor a
# C compiler, once the programs have been built and carried along.
#
#   pkg/cuda/scripts/gpu.sh build      where Go is: makes .forwardpass/gpu (after .ci/cuda.sh setup)
#   pkg/cuda/scripts/gpu.sh [OUT]      where the GPU is: runs everything, results in OUT (default .forwardpass/gpu/out)
set -euo pipefail
cd "$(dirname "$0")/../../.."
root=$PWD
bin=$root/.forwardpass/gpu

if [ "${1:-}" = build ]; then
  cuda=${CUDA_DIR:-$root/.forwardpass/cuda}
  export CGO_CFLAGS="-O2 -I$cuda/nvidia/cuda_runtime/include"
  mkdir -p "$bin"
  for p in cuda model generate; do go test -c -tags cuda -ldflags="-s -w" -o "$bin/$p.test" ./pkg/$p; done
  go build -tags cuda -ldflags="-s -w" -o "$bin/gpureport" ./pkg/cuda/gpureport
  if [ ! -e "$bin/sanitizer" ]; then # NVIDIA's checker, from its Python wheel
    wheel=$(mktemp -d)
    python3 -m pip download -q --no-deps --only-binary=:all: --platform manylinux_2_25_x86_64 -d "$wheel" nvidia-cuda-sanitizer-api-cu12==12.9.79
    python3 -m zipfile -e "$wheel"/*.whl "$bin/sanitizer"
    rm -r "$wheel" "$bin/sanitizer/nvidia/cuda_sanitizer_api/include"
    chmod +x "$bin/sanitizer/nvidia/cuda_sanitizer_api/bin"/*
  fi
  du -sh "$bin"
  exit
fi

out=${1:-$bin/out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
export FORWARDPASS_GPU=required
unset CUDA_DRIVER_LIB
failed=0
try() { # NAME COMMAND...: runs it, keeps what it says
  local name=$1
  shift
  if "$@" >"$out/$name.txt" 2>&1; then echo "ok    $name"; else
    echo "FAIL  $name: $out/$name.txt"
    failed=1
  fi
}

nvidia-smi >"$out/nvidia-smi.txt" 2>&1 || true
cd "$root/pkg/cuda"
try kernels "$bin/cuda.test" -test.v -test.timeout 10m
(cd ../model && try model "$bin/model.test" -test.v -test.timeout 10m -test.run '^(TestFamilies|TestStoryland|TestBatch|TestCausal)$')
(cd ../generate && try generate "$bin/generate.test" -test.v -test.timeout 10m -test.run 'EqualsTransformers$')
sanitizer=$bin/sanitizer/nvidia/cuda_sanitizer_api/bin/compute-sanitizer
[ -x "$sanitizer" ] || sanitizer=$(command -v compute-sanitizer || true)
if [ -n "$sanitizer" ]; then
  small='Linear|Fast|Embed|Elements|Norm|Rope|MLP|MoE|Latent|Attend|Softmax|Sample$'
  try memcheck "$sanitizer" --tool memcheck --error-exitcode 9 "$bin/cuda.test" -test.run "$small" -test.timeout 20m
  try racecheck "$sanitizer" --tool racecheck --error-exitcode 9 "$bin/cuda.test" -test.run "$small" -test.timeout 30m
  try synccheck "$sanitizer" --tool synccheck --error-exitcode 9 "$bin/cuda.test" -test.run "$small" -test.timeout 20m
else
  echo "skip  memcheck, racecheck: there is no compute-sanitizer"
fi
if "$bin/gpureport" "$root/testdata/storyland" >"$out/report.json" 2>"$out/report.txt"; then echo "ok    report"; else
  echo "FAIL  report: $out/report.txt"
  failed=1
fi
FORWARDPASS_GPU_SPEED=$out/big try speed "$bin/cuda.test" -test.v -test.run '^TestSpeed$' -test.timeout 20m
python=${PYTHON:-python3}
if "$python" -c 'import torch, transformers; assert torch.cuda.is_available()' 2>/dev/null; then
  try torch "$python" scripts/torch_speed.py "$out/big"
  cat "$out/torch.txt"
else
  echo "skip  torch: no PyTorch with CUDA and transformers"
fi
exit $failed
