#!/bin/sh
# Makes the virtual environment that `go run ./docs/bench` times llama.cpp with: .forwardpass/bench.
# llama-cpp-python comes as source and is built here for this machine's processor, which takes several minutes.
set -e
cd "$(dirname "$0")/../.."
dir=.forwardpass/bench
[ -x $dir/bin/python ] || python3 -m venv $dir
CMAKE_ARGS="-DGGML_NATIVE=ON" $dir/bin/pip install --quiet "llama-cpp-python==0.3.36" "numpy==2.3.5"
