#!/usr/bin/env bash
# ptx.sh [DIR]: kernels.cu → DIR/kernels.ptx and DIR/resources.txt (registers and shared memory of each kernel on sm_80), with the
# compilers of .forwardpass/cuda (made by .ci/cuda.sh setup). Without DIR, what is embedded in internal/kernels is written.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
cuda=${CUDA_DIR:-$here/../../.forwardpass/cuda}
out=${1:-$(mktemp -d)}
python3 "$here/scripts/nvrtc_ptx.py" "$cuda/nvidia/cuda_nvrtc/lib/libnvrtc.so.12" "$here/internal/kernels/kernels.cu" "$out/kernels.ptx" --gpu-architecture=compute_80
"$cuda/nvidia/cuda_nvcc/bin/ptxas" -v -arch=sm_80 -o /dev/null "$out/kernels.ptx" 2>&1 |
  awk '/Compiling entry/ { name = $7; gsub("\047", "", name) }
       /Used/ { smem = 0; for (i = 1; i < NF; i++) if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) smem = $i; print name, $5, smem }' |
  sort >"$out/resources.txt"
if [ $# -eq 0 ]; then
  gzip -9nc "$out/kernels.ptx" >"$here/internal/kernels/kernels.ptx.gz"
  cp "$out/resources.txt" "$here/internal/kernels/resources.txt"
  rm -r "$out"
fi
