#!/usr/bin/env bash
# Makes .forwardpass/reference: a Python environment with PyTorch (CPU) and transformers, in which the
# scripts of this folder make and check the golden values. Go's tests never need it.
#
#   testdata/reference/setup.sh            prints the interpreter's path when done
#
# Needs Python 3.11 or newer (torch 2.15 has no build for older ones), its venv module, gcc and readelf.
# A second run returns at once; a half-finished one is redone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
env=$here/../../.forwardpass/reference
mkdir -p "$env" && env=$(cd "$env" && pwd)

fail() { echo "reference set-up: $*" >&2; exit 1; }

python=${PYTHON:-python3}
command -v "$python" >/dev/null || fail "$python not found: install Python 3.11 or newer"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$("$python" --version) is too old for torch 2.15: set PYTHON to a Python 3.11 or newer"
"$python" -c 'import ensurepip, venv' 2>/dev/null || fail "Python's venv module is missing: apt-get install python3-venv"
for tool in gcc readelf; do
  command -v $tool >/dev/null || fail "$tool not found: apt-get install gcc binutils"
done

want=$({ "$python" --version; cat "$here/setup.sh" "$here/requirements.txt" "$here/cpu_stubs.py"; } | sha256sum | cut -d' ' -f1)
exec 9>"$env/../reference.lock" && flock 9 # one set-up at a time
if [ "$(cat "$env/stamp" 2>/dev/null)" = "$want" ]; then
  echo "$env/bin/python"
  exit
fi

rm -f "$env/stamp"
"$python" -m venv --clear "$env"
"$env/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt" >&2
site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$env/bin/python" "$here/cpu_stubs.py" "$site" >&2
"$env/bin/python" - >&2 <<'PY'
import accelerate, gguf, sentencepiece, tiktoken, tokenizers, torch, transformers
from transformers import LlamaConfig, LlamaForCausalLM
model = LlamaForCausalLM(LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2))
assert model(torch.tensor([[1, 2]])).logits.shape == (1, 2, 8)
print("torch", torch.__version__, "transformers", transformers.__version__, "tokenizers", tokenizers.__version__)
PY
echo "$want" >"$env/stamp"
echo "$env/bin/python"
