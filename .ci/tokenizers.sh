#!/usr/bin/env bash
# The tokenizers against their references: golden files of the real vocabularies, and
# 100,000 random strings a vocabulary (0 differences allowed). Brings what it needs; about
# four minutes. Speed: testdata/reference/tokenize_bench.py, see docs/benchmarks.md.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

python=$(testdata/reference/setup.sh)
export FORWARDPASS_VOCABS=$root/.forwardpass/vocabs
.ci/vocabs.sh "$FORWARDPASS_VOCABS"

FORWARDPASS_DIFF=$(mktemp -d)
export FORWARDPASS_DIFF
trap 'rm -rf "$FORWARDPASS_DIFF"' EXIT
"$python" testdata/reference/tokenize_diff.py "$FORWARDPASS_VOCABS" "$FORWARDPASS_DIFF" 100000
go test ./pkg/tokenize -count=1 -run 'Golden|Differential|InvalidUTF8|Chat' -v > "$FORWARDPASS_DIFF/log" 2>&1 || {
    grep -v '^=== ' "$FORWARDPASS_DIFF/log" | head -200
    exit 1
}
grep -E '^ *--- |strings,|^ok' "$FORWARDPASS_DIFF/log" | grep -v 'PASS: TestChat/'
if grep -q -- '--- SKIP' "$FORWARDPASS_DIFF/log"; then
    echo "a comparison was skipped" >&2
    exit 1
fi
