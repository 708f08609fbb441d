#!/usr/bin/env bash
# ptx.sh [OUT.ptx]: kernels.cu → PTX, with the NVRTC of .forwardpass/cuda (made by .ci/cuda.sh). Without OUT, the embedded
# internal/kernels/kernels.ptx.gz is written.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
cuda=${CUDA_DIR:-$here/../../.forwardpass/cuda}
out=${1:-$(mktemp)}
python3 "$here/scripts/nvrtc_ptx.py" "$cuda/nvidia/cuda_nvrtc/lib/libnvrtc.so.12" "$here/internal/kernels/kernels.cu" "$out" --gpu-architecture=compute_80
[ $# -gt 0 ] || { gzip -9nc "$out" >"$here/internal/kernels/kernels.ptx.gz"; rm "$out"; }
