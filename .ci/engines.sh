#!/usr/bin/env bash
# The lesson's prompt on a real engine, and real clients on ours: llama.cpp's server runs SmolLM2 and is measured by package
# engine; the official OpenAI client for Python talks to the server of package serve; a hundred clients do so for a minute. All on
# the loopback interface. Needs `go run ./notebooks -model smollm2` first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
env=.forwardpass/engines
models=$PWD/.forwardpass/models
model=$models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
[ -e "$model" ] || { echo "$model is missing"; exit 1; }

want="llama-cpp-python 0.3.36 openai 3.57.0"
if [ "$(cat $env/stamp 2>/dev/null)" != "$want" ]; then
    python3 -m venv --clear $env
    # llama-cpp-python comes as source and is built here, which takes several minutes.
    CMAKE_ARGS="-DGGML_NATIVE=ON" $env/bin/pip install --quiet --disable-pip-version-check "llama-cpp-python[server]==0.3.36" openai==3.57.0
    echo "$want" >$env/stamp
fi

echo "== the official client for Python on our server; a hundred clients for a minute; measured and simulated; SmolLM2"
FORWARDPASS_MODELS=$models FORWARDPASS_PYTHON=$PWD/$env/bin/python FORWARDPASS_LOAD=${FORWARDPASS_LOAD:-1m} \
    go test ./pkg/serve -run 'TestPython|TestHundredClients|TestMeasured|TestSmolLM2' -count=1 -v -timeout 15m

echo "== our client on llama.cpp's server"
port=$($env/bin/python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
log=$(mktemp)
$env/bin/python -m llama_cpp.server --model "$model" --host 127.0.0.1 --port "$port" --n_ctx 1024 --logits_all true --interrupt_requests false >"$log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true; rm -f "$log"' EXIT
for _ in $(seq 120); do
    kill -0 $server 2>/dev/null || { cat "$log"; exit 1; }
    $env/bin/python - "$port" 2>/dev/null <<'PY' && break
import sys, urllib.request
urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/v1/models", timeout=2).read()
PY
    sleep 1
done
FORWARDPASS_ENGINE=http://127.0.0.1:$port/v1 FORWARDPASS_MODELS=$models \
    go test ./pkg/engine -run TestRealEngine -count=1 -v -timeout 10m || { tail -n 40 "$log"; exit 1; }
