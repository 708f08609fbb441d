"""The strings that tokenizers are compared on.

curated() is a fixed list, small enough to commit ids for: every kind of text that
has broken a tokenizer somewhere. noise(n) is a stream of random strings for the
differential run, drawn from the same material and from all of Unicode.
"""

import random

ENGLISH = """I love datawhale
The quick brown fox jumps over the lazy dog.
Don't you think it's what we've all said they'd do? I'm sure you'll see, they're right.
DON'T SHOUT, IT'S RUDE, WE'RE HERE, I'LL GO, YOU'D STAY, I'VE LEFT, I'M OUT
o'clock rock'n'roll 'tis 'twas d'Artagnan O'Neill 'S 'ſ 'Re 'lL 'vE
antidisestablishmentarianism floccinaucinihilipilification
camelCase PascalCase snake_case SCREAMING_SNAKE kebab-case HTTPServer iPhone eBay McDonald
She said: "Tokenization—splitting text—isn't 'hard'…" (or is it?)
A   B    C     D      E
 leading space
trailing space 
  two leading, two trailing  
Mr. Smith paid $1,234.56 on 2024-02-29 at 23:59:59 UTC+02:00.
café naïve résumé coöperate façade jalapeño
cafe\u0301 nai\u0308ve re\u0301sume\u0301 e\u0323\u0301 q\u0307\u0323
Ångström ÅNGSTRÖM A\u030angstro\u0308m \u212bngstrom
ﬁne ﬂow oﬃce ﬆop ½ ⅓ ² ³ ⁴ ₂ № ™ ℃ Ⅷ ⅷ ㎏ ㍿ ㋿ ｆｕｌｌｗｉｄｔｈ
straße STRASSE ẞ ǆ ǅ Ǆ İstanbul ISTANBUL ıstanbul Σίσυφος ΣΊΣΥΦΟΣ
hello hello hello hello hello hello
a b c d e f g h i j k l m n o p q r s t u v w x y z
unaffable unhappiness tokenization pre-training fine-tuned ##ing ## #
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"""

CHINESE_JAPANESE_KOREAN = """我爱 datawhale
我爱datawhale，我爱自然语言处理。
今天天气很好，我们去公园散步吧！
中华人民共和国国家统计局二〇二四年数据
繁體中文測試：臺灣、香港與澳門
GPT模型的前向传播：嵌入→注意力→MLP→logits
龘靐齉爩 𠀀𠀁𠀂 𪚥 㐀㐁 豈更車賈
こんにちは世界。東京タワーに行きました。
カタカナ ﾊﾝｶｸｶﾀｶﾅ ひらがな 漢字かな交じり文
がぎぐげご か\u3099き\u3099 パピプペポ ハ\u309aヒ\u309a
「引用」『二重』【隅付き】〜波線〜・中黒・々〆ヶ
吾輩は猫である。名前はまだ無い。
안녕하세요 세계! 한국어 형태소 분석기
\u1112\u1161\u11ab\u1100\u1173\u11af 한글 ㅎㅏㄴㄱㅡㄹ
\u3000全角スペース\u3000"""

OTHER_SCRIPTS = """مرحبا بالعالم، كيف حالك اليوم؟
السَّلَامُ عَلَيْكُمْ وَرَحْمَةُ اللهِ
۱۲۳۴۵۶۷۸۹۰ ٠١٢٣٤٥٦٧٨٩
سلام دنیا\u200cها می\u200cخواهم
नमस्ते दुनिया, आप कैसे हैं?
हिन्दी में टोकन बनाना: क्षत्रिय, ज्ञान, श्रीमान् १२३
বাংলা ভাষা தமிழ் மொழி తెలుగు ಕನ್ನಡ മലയാളം ਪੰਜਾਬੀ ગુજરાતી
สวัสดีชาวโลก ภาษาไทยไม่มีเว้นวรรค กำแพง
ສະບາຍດີ မင်္ဂလာပါ ជំរាបសួរ བོད་སྐད
Привет, мир! Ёлка и ёжик; Йод, йога — «кавычки»
Γειά σου Κόσμε, καλημέρα
שלום עולם, מה שלומך היום? בְּרֵאשִׁית
გამარჯობა მსოფლიო Բարեւ աշխարհ
አማርኛ ቋንቋ ⴰⵣⵓⵍ ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ
Việt Nam tiếng Việt nguyễn đường phố ệ ậ ữ
Zażółć gęślą jaźń Příliš žluťoučký kůň Árvíztűrő tükörfúrógép
𝕳𝖊𝖑𝖑𝖔 𝒲𝑜𝓇𝓁𝒹 𝟏𝟐𝟑 𐍈𐌰𐌿𐍄 𓀀𓂀 𒀀𒁀 𞤀𞤣 🄰🅱"""

EMOJI = """😀😃😄 😂🤣 ❤️ ❤ ☕️ ☕︎
👍👍🏻👍🏽👍🏿 👩‍💻👨🏾‍🚀 👩‍👩‍👧‍👦 🏳️‍🌈 🏴‍☠️
🇨🇳🇫🇷🇯🇵🇺🇳 🏴󠁧󠁢󠁥󠁮󠁧󠁿 1️⃣ #️⃣ *️⃣
text😀text 🤖: hi🙂! 🫠🫡🪿🫨
¯\\_(ツ)_/¯ (╯°□°)╯︵ ┻━┻ ʕ•ᴥ•ʔ"""

COMBINING_AND_CONTROL = """Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘
\u0301leading mark a\u0301\u0302\u0303 \u0301 x\u20dd
\u0915\u093c \u0958 \u0928\u093c \u0929 \u1e9b\u0323 \u0344 \u0340
a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg\u034fh
\u202eright to left\u202c \u2066isolate\u2069 \u061c \u200e\u200f
bell\x07 null\x00 escape\x1b[31mred\x1b[0m delete\x7f vertical\x0b form\x0c
\x01\x02\x03\x04\x05\x06\x0e\x0f\x10\x1c\x1d\x1e\x1f\x80\x85\x8f\x9f
\u00a0non\u00a0breaking\u202fthin\u2009space\u205fmath\u1680ogham\u2028line\u2029para
\ufffd replacement \ufffe noncharacter \uffff \U0010ffff private \ue000 \U000f0000
\ufe0f\u200d\u20e3 lone modifiers 🏻 \U000e0061\U000e007f"""

NUMBERS = """0 1 12 123 1234 12345 123456 1234567 12345678901234567890
3.14159 -1 +1 1e-10 6.02e23 0x1F 0b1010 1_000_000 1,000,000.00 1.000.000,00
1st 2nd 3rd 4th 10x 5G mp3 B2B 4K 1080p v1.2.3-rc.4+build.5
٣٫١٤ १२.५ 一二三 Ⅳ ½¾ ①②③ 𝟙𝟚𝟛 ９８７
100% $5 €6 £7 ¥8 ₹9 ¢10 §11 ±12 ×13 ÷14 ∞ ≤15 ≠16"""

CODE = """def forward(self, x: torch.Tensor) -> torch.Tensor:\\n    return self.mlp(self.norm(x)) + x\\n
for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; } // dot
func (t *Tensor) At(i, j int) float32 { return t.Data[i*t.Cols+j] }
if err != nil {\\n\\treturn nil, fmt.Errorf("tokenize: %w", err)\\n}
SELECT t.id, COUNT(*) FROM tokens t WHERE t.text LIKE '%ing' GROUP BY 1 HAVING COUNT(*) > 1;
<div class="a b" id='c'>&nbsp;&amp;<!-- note --></div>
{"key": [1, 2.5, null, true], "nested": {"a\\\\b": "\\u00e9"}}
#!/bin/sh\\nset -eu; grep -rn "x" . | awk '{print $1}' >> out.txt 2>&1
x = y ?? z?.w ?: !a && ~b || c ^ d << 2 >>> 3 ... => -> <- := == === != !== <=>
__init__ _private $scope @decorator #define %s %02d \\\\n \\\\t \\\\x41 \\\\u0041 \\\\\\\\
\\t\\ttabs\\t\\tand  spaces\\t \\n\\n\\n   \\n\\t\\n end
/* comment */ // todo: fix #123 @me /path/to/file.go:42:7 C:\\\\Users\\\\me
import numpy as np; a = np.zeros((3, 4), dtype=np.float32)[::-1, ...]
template<typename T, size_t N> constexpr auto f(T (&&a)[N]) noexcept -> decltype(a[0]);
λx.x → ∀x∈ℝ: x²≥0 ∑_{i=1}^{n} i = n(n+1)/2 ∫₀^∞ e^{-x} dx
[[-1,0],[0,-1]]{{}}(()))))]]]]}}}} ;;;; ,,,, .... !!!! ???? ---- ==== ____ **** ////"""

URLS = """https://example.com/a/b?c=d&e=f#g http://user:pass@host:8080/%20x%E4%B8%AD
ftp://files.example.org/pub/ mailto:someone+tag@example.co.uk www.example.com
https://例え.テスト/パス?クエリ=値 git@example.com:owner/repo.git urn:isbn:0451450523
192.168.0.1 ::1 2001:db8::ff00:42:8329 aa:bb:cc:dd:ee:ff 550e8400-e29b-41d4-a716-446655440000"""

SPECIAL = """<|endoftext|>
text<|endoftext|>text
 <|endoftext|> <|endoftext|>
<|endoftext|><|endoftext|>
<|im_start|>user\\nhi<|im_end|>\\n<|im_start|>assistant\\n
<|begin_of_text|><|start_header_id|>system<|end_header_id|>\\n\\nBe brief.<|eot_id|>
<s>hello</s> <unk> <pad> <bos> <eos> [INST] hi [/INST] <<SYS>>
[CLS] one [SEP] two [SEP] [PAD] [UNK] the [MASK] sat [MASK]ed un[MASK]
<start_of_turn>user\\nhi<end_of_turn>\\n<start_of_turn>model\\n
<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜><think>\\n</think>
<tool_call>{"name": "f"}</tool_call> <|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>
<|endoftext <|endoftext| > < |endoftext|> endoftext|> <|ENDOFTEXT|> <|user|> <|assistant|>
<mask> <0x41> <0xE4><0xB8><0xAD> ▁▁ ▁word wo▁rd Ġword Ċ ĠĠ <extra_id_0> \\ufffc
</s>\\n<s> </s><s>  </s>  <s>"""

WORDS = [
    w
    for block in (ENGLISH, CHINESE_JAPANESE_KOREAN, OTHER_SCRIPTS, EMOJI, COMBINING_AND_CONTROL, NUMBERS, CODE, URLS, SPECIAL)
    for line in block.split("\n")
    for w in line.split(" ")
    if w
]

SPACES = [" ", " ", " ", " ", "", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", " \n", "\n ", "\n    ", "    "]

# Blocks of Unicode that text comes from, then everything.
RANGES = [
    (0x20, 0x7E), (0x20, 0x7E), (0x41, 0x7A), (0x30, 0x39), (0x00, 0x1F), (0x80, 0x24F), (0x250, 0x36F), (0x370, 0x52F),
    (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0x10FF), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x2BFF), (0x2E80, 0x30FF),
    (0x3100, 0x4DBF), (0x4E00, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7A3), (0xF900, 0xFFFF), (0x10000, 0x1FFFF),
    (0x1F300, 0x1FAFF), (0x1D400, 0x1D7FF), (0x20000, 0x2FFFF), (0xE0000, 0xE01EF), (0x0, 0x10FFFF),
]


def curated():
    """At least 300 strings, always the same."""
    out = [""]
    for block in (ENGLISH, CHINESE_JAPANESE_KOREAN, OTHER_SCRIPTS, EMOJI, COMBINING_AND_CONTROL, NUMBERS, CODE, URLS, SPECIAL):
        for line in block.split("\n"):
            out.append(line.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\"))
    for c in (" ", "\n", "\t", "\r\n", "▁", "a", "é", "中", "😀", ".", "=", "0", "\u0301", "\x00"):
        for n in (1, 2, 3, 4, 7, 16, 33, 100):
            out.append(c * n)
    for a in ("", "x"):
        for gap in (" ", "  ", "   ", "\n", "\n\n", " \n ", "\t\t", "\r\n\r\n", "\u00a0", " \u3000 ", "\n   ", "   \n"):
            out.append(a + gap)
            out.append(gap + a)
            out.append(f"{a}{gap}y")
    random.seed(20240229)
    while len(out) < 400:
        out.append("".join(random.choice(WORDS) + random.choice(SPACES) for _ in range(random.randint(2, 12))))
    return list(dict.fromkeys(out))


def noise(n, seed=1):
    """n random strings."""
    r = random.Random(seed)
    for _ in range(n):
        kind = r.random()
        if kind < 0.45:  # words of many kinds, run together or not
            yield "".join(r.choice(WORDS) + r.choice(SPACES) for _ in range(r.randint(1, 10)))
        elif kind < 0.65:  # mutated words
            s = list("".join(r.choice(WORDS) + r.choice(SPACES) for _ in range(r.randint(1, 5))))
            for _ in range(r.randint(1, 4)):
                i = r.randrange(len(s) + 1)
                low, high = r.choice(RANGES)
                s[i : i + r.randint(0, 1)] = _char(r, low, high)
            yield "".join(s)
        elif kind < 0.85:  # characters of one or two blocks
            blocks = [r.choice(RANGES) for _ in range(r.randint(1, 2))]
            yield "".join(_char(r, *r.choice(blocks)) for _ in range(r.randint(1, 24)))
        elif kind < 0.95:  # characters of any block
            yield "".join(_char(r, *r.choice(RANGES)) for _ in range(r.randint(1, 24)))
        else:  # runs
            yield "".join(r.choice(WORDS + SPACES)[:3] * r.randint(1, 30) for _ in range(r.randint(1, 3)))


def _char(r, low, high):
    while True:
        c = r.randint(low, high)
        if not 0xD800 <= c <= 0xDFFF:
            return chr(c)


# Bytes that are not UTF-8: lone continuations, cut sequences, overlong forms,
# surrogates, bytes that never occur, alone and inside text.
INVALID = [
    b"\x80", b"\xff", b"\xfe\xff", b"\xc3", b"\xc3(", b"\xe4\xb8", b"\xe4\xb8 x", b"\xf0\x9f\x98", b"\xf0\x9f\x98\x80\x98",
    b"\xc0\xaf", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80",
    b"abc\xffdef", b"I love \xe4\xb8datawhale", b"\xe6\x88\x91\xe7\x88 datawhale", b"  \xff  \xff\n\xff",
    b"caf\xe9 na\xefve", b"\x00\xff\x00\xfe", bytes(range(128, 256)), bytes(range(256)), b"'\xff's \xa0\xa0 1\xff2",
]


if __name__ == "__main__":
    print(len(curated()), "strings,", len(INVALID), "that are not UTF-8")
