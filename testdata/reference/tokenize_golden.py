"""Writes testdata/golden/tokenize: what the reference tokenizers make of the
curated strings.

    python tokenize_golden.py VOCABS [NAME...]

strings.json holds the strings; NAME.json, for each tokenizer, the ids, offsets
and tokens of every string. Tokens of vocabularies that are not the project's own
are given as a checksum. "decoded" has the strings that do not come back from
decoding as they were.
"""

import json
import sys
import zlib

import tokenize_reference as reference
from tokenize_strings import INVALID, curated

OUT = reference.REPO / "testdata/golden/tokenize"


def write(path, fields):
    """JSON with one line an entry of a list, so that diffs can be read."""
    lines = []
    for key, value in fields.items():
        if isinstance(value, list):
            rows = ",\n".join(json.dumps(v, ensure_ascii=True, separators=(",", ":")) for v in value)
            lines.append(f"{json.dumps(key)}:[\n{rows}\n]")
        else:
            lines.append(f"{json.dumps(key)}:{json.dumps(value)}")
    path.write_text("{" + ",\n".join(lines) + "}\n")


def golden(name, vocabs, strings):
    kind, file = reference.TOKENIZERS[name]
    ref = reference.load(name, vocabs)
    fields = {"script": "tokenize_golden.py", "versions": reference.versions(), "file": file}
    ids, offsets, tokens, decoded = [], [], [], {}
    for i, s in enumerate(strings):
        got, names, where = ref.encode(s)
        ids.append(got)
        offsets.append([x for pair in where for x in pair] if where is not None else None)
        tokens.append(names if file.startswith("testdata/") else zlib.crc32("\n".join(names).encode()))
        back = ref.decode(got)
        if back != s:
            decoded[str(i)] = back
    fields.update(ids=ids, tokens=tokens, decoded=decoded)
    if offsets[0] is not None:
        fields["offsets"] = offsets
    write(OUT / f"{name}.json", fields)
    print(f"{name}: {len(strings)} strings, {sum(map(len, ids))} tokens, {len(decoded)} decoded differently")


def split_bytes(data, pattern):
    """Cuts bytes as a pre-tokenizer does that sees U+FFFD for each byte that is not UTF-8."""
    from tokenizers import Regex, pre_tokenizers

    chars = []  # (character, its bytes)
    at = 0
    while at < len(data):
        for n in (1, 2, 3, 4):
            try:
                c = data[at : at + n].decode()
            except UnicodeDecodeError:
                continue
            chars.append((c, data[at : at + n]))
            at += n
            break
        else:
            chars.append(("\ufffd", data[at : at + 1]))
            at += 1
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return [b"".join(b for _, b in chars[i:j]) for _, (i, j) in split.pre_tokenize_str("".join(c for c, _ in chars))]


def invalid(vocabs):
    """invalid.json: ids of bytes that are not UTF-8, from the references that take bytes."""
    ids, files = {}, {}
    for name, (kind, file) in reference.TOKENIZERS.items():
        if kind == "sentencepiece":
            ref = reference.load(name, vocabs)
            ids[name] = [ref.encode_bytes(b) for b in INVALID]
        elif name in ("llama3-ranks", "o200k-ranks", "tekken"):
            ref = reference.load(name, vocabs)
            ids[name] = [ref.encode_pieces(split_bytes(b, ref.e._pat_str)) for b in INVALID]
        else:
            continue
        files[name] = file
    write(OUT / "invalid.json", {"script": "tokenize_golden.py", "inputs": [b.hex() for b in INVALID], "files": files, "ids": ids})


CHATS = [
    [{"role": "user", "content": "Who chases the dog?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " hi \n"}],
    [
        {"role": "system", "content": "You tell stories."},
        {"role": "user", "content": "Once upon a time"},
        {"role": "assistant", "content": "there was a <b>cat</b> & a 'dog'."},
        {"role": "user", "content": "And then?\n\n我爱 datawhale"},
    ],
    [
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "<think>\nEasy.\n</think>\n\n4"},
        {"role": "user", "content": "Sure?"},
    ],
    [{"role": "assistant", "content": "I start"}, {"role": "assistant", "content": "twice"}],
]

# Templates of our own, each with other corners of Jinja. {X} is a real one's file.
TEMPLATES = {
    "plain": "{% for m in messages %}{{ m.role }}: {{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}",
    "blocks": (
        "{{ bos_token }}\n{% for m in messages %}\n    {% if m.role == 'system' %}\n<<{{ m.content | trim }}>>\n    {% elif loop.first %}\n"
        "first {{ loop.index }}/{{ loop.length }}\n    {% else %}\n[{{ m.content | upper }}]\n    {% endif %}\n{% endfor %}\n{{ eos_token }}"
    ),
    "trimmed": (
        "{%- if messages[0]['role'] == 'system' -%}\n  {%- set system = messages[0]['content'] -%}\n  {%- set rest = messages[1:] -%}\n"
        "{%- else -%}\n  {%- set system = '' -%}\n  {%- set rest = messages -%}\n{%- endif -%}\n{%- for m in rest -%}\n"
        "  {{- '[' + m.role + ']' + (system + ' ' if loop.first and system else '') + m.content.strip() + eos_token -}}\n{%- endfor -%}"
    ),
    "namespace": (
        "{% set ns = namespace(n=0, last='') %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.n = ns.n + 1 %}"
        "{% set ns.last = m.content %}{% endif %}{% endfor %}{{ ns.n }} {{ ns.last | length }} {{ ns.last }}"
    ),
    "tests": (
        "{% if tools is defined and tools %}tools{% endif %}{% for m in messages %}{% if m.content is string and m.content is not none %}"
        "{{ m.content | tojson }}{% endif %}{% if m.tool_calls is defined %}calls{% endif %}{% endfor %}{{ messages | length > 1 }}"
    ),
    "alternate": (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}"
        "{{ '<s>' if loop.index0 == 0 else '' }}{% if m.role == 'user' %}{{ '[INST] ' ~ m.content ~ ' [/INST]' }}{% else %}"
        "{{ ' ' ~ m.content ~ eos_token }}{% endif %}{% endfor %}"
    ),
    "macro": (
        "{% macro turn(role, content) %}<|{{ role }}|>{{ content }}<|end|>{% endmacro %}{% for m in messages %}{% if m.role == 'tool' %}"
        "{% continue %}{% endif %}{{ turn(m.role, m.content) }}{% endfor %}{{ messages[-1].role }}{{ messages[::-1][0].content[:3] }}"
    ),
    "strings": (
        "{% for m in messages %}{% if m.content.startswith('<think>') and '</think>' in m.content %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}"
        "{% else %}{{ m.content.replace('a', 'A') | trim }}{% endif %}{% if not loop.last %}|{% endif %}{% endfor %}"
    ),
    "gemma3": "{gemma3}", "llama3.1": "{llama3.1}", "qwen3": "{qwen3}", "deepseek-v3": "{deepseek-v3}", "smollm2": "{smollm2}",
}


def chats(vocabs):
    """chat.json: what transformers makes of conversations; "error" where it refuses."""
    from transformers.utils.chat_template_utils import _compile_jinja_template

    cases = []
    for name, source in TEMPLATES.items():
        file, bos, eos = "", "<s>", "</s>"
        if source.startswith("{") and source == "{" + name + "}":
            if name == "smollm2":
                file = reference.TOKENIZERS["smollm2-gguf"][1]
                meta = reference.read_gguf(f"{vocabs}/{file}")
                source = meta["tokenizer.chat_template"]
                tokens = meta["tokenizer.ggml.tokens"]
                bos, eos = (tokens[meta[f"tokenizer.ggml.{k}_token_id"]] for k in ("bos", "eos"))
            else:
                file = f"{name}/tokenizer.json"
                config = json.loads(open(f"{vocabs}/{name}/tokenizer_config.json").read())
                source = config["chat_template"]
                bos, eos = ((t["content"] if isinstance(t, dict) else t) or "" for t in (config["bos_token"], config["eos_token"]))
        template = _compile_jinja_template(source)
        for i, chat in enumerate(CHATS):
            for generation in (False, True):
                case = {"template": name, "file": file, "source": "" if file else source, "chat": i, "generation": generation}
                try:
                    case["text"] = template.render(messages=chat, add_generation_prompt=generation, bos_token=bos, eos_token=eos)
                except Exception as e:
                    case["error"] = type(e).__name__
                cases.append(case)
    write(OUT / "chat.json", {"script": "tokenize_golden.py", "chats": CHATS, "cases": cases})


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    strings = curated()
    write(OUT / "strings.json", {"script": "tokenize_golden.py", "strings": strings})
    for name in sys.argv[2:] or reference.TOKENIZERS:
        golden(name, sys.argv[1], strings)
    invalid(sys.argv[1])
    chats(sys.argv[1])
