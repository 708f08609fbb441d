package tokenize

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// use runs what a loader has accepted: nothing may panic, ids must be tokens,
// offsets must lie in the text.
func use(t *testing.T, tok *Tokenizer, s string) {
	t.Helper()
	for _, o := range []Options{{}, {NoSpecial: true}, {Ordinary: true}} {
		e, err := tok.EncodeWith(s, o)
		if err != nil {
			continue
		}
		if len(e.Offsets) != len(e.IDs) || len(e.Tokens) != len(e.IDs) {
			t.Fatalf("%q: %d ids, %d tokens, %d offsets", s, len(e.IDs), len(e.Tokens), len(e.Offsets))
		}
		for i, at := range e.Offsets {
			if at[0] < 0 || at[0] > at[1] || at[1] > len(s) {
				t.Fatalf("%q: token %d has offsets %v", s, i, at)
			}
		}
		ids, err := tok.Encode(s)
		if err != nil || o == (Options{}) && len(ids) != len(e.IDs) {
			t.Fatalf("%q: %d ids without offsets (%v), %d with", s, len(ids), err, len(e.IDs))
		}
		text := tok.Decode(e.IDs)
		stream, got := tok.Stream(), ""
		for _, id := range e.IDs {
			got += stream.Next(id)
		}
		got += stream.Flush()
		if utf8.ValidString(text) && got != text && !strings.Contains(text, "\uFFFD") {
			t.Fatalf("%q: streamed %q, decoded %q", s, got, text)
		}
	}
	tok.Chat([]Message{{"user", s}}, true)
	tok.ID(s)
}

func seed(f *testing.F, name string) string {
	data, err := os.ReadFile(small + name)
	if err != nil {
		f.Fatal(err)
	}
	return string(data)
}

func FuzzTokenizerJSON(f *testing.F) {
	f.Add(tiny, "a ABC <end>")
	for _, stage := range []struct{ old, new string }{
		{`{"type":"Lowercase"}`, `{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Strip","strip_left":true,"strip_right":true},{"type":"Prepend","prepend":"_"},{"type":"Replace","pattern":{"Regex":" {2,}"},"content":"▁"},{"type":"StripAccents"},{"type":"Nmt"}]}`},
		{`{"type":"Lowercase"}`, `{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true}`},
		{`{"type":"WhitespaceSplit"}`, `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"a+|\\s"},"behavior":"Contiguous","invert":true},{"type":"Punctuation"},{"type":"Digits","individual_digits":true},{"type":"ByteLevel"}]}`},
		{`{"type":"WhitespaceSplit"}`, `{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}`},
		{`{"type":"WhitespaceSplit"}`, `{"type":"FixedLength","length":2}`},
		{`{"type":"Fuse"}`, `{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Strip","content":"_","start":1,"stop":1},{"type":"WordPiece"},{"type":"CTC","pad_token":"a","word_delimiter_token":"|","cleanup":true},{"type":"Metaspace"},{"type":"BPEDecoder"}]}`},
		{`"unk_token":null`, `"unk_token":"a","fuse_unk":true,"byte_fallback":true,"continuing_subword_prefix":"##","end_of_word_suffix":"</w>","ignore_merges":true`},
		{`"lstrip":false,"rstrip":false,"normalized":false`, `"lstrip":true,"rstrip":true,"normalized":true`},
		{`"type":"BPE"`, `"type":"WordPiece"`}, {`"type":"BPE"`, `"type":"WordLevel"`},
		{`{"type":"BPE","unk_token":null,"vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":["a b","ab c"]}`, `{"type":"Unigram","unk_id":0,"vocab":[["a",-1.5],["b",-2],["ab",-2.25e0]],"byte_fallback":true}`},
	} {
		f.Add(strings.Replace(tiny, stage.old, stage.new, 1), "  aAb_ c\u0301▁ab ½<end> 12 \xff")
	}
	f.Fuzz(func(t *testing.T, data, s string) {
		if tok, err := parseHF(data); err == nil {
			use(t, tok, s)
		}
	})
}

func FuzzSentencePiece(f *testing.F) {
	for _, name := range []string{"unigram.model", "bpe.model"} {
		f.Add([]byte(seed(f, name)), "I ½ love  datawhale \xff<user>")
	}
	f.Add([]byte("\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02\n\x08\n\x01a\x15\x00\x00\x80\xbf\x12\x02\x18\x02"), "aab")
	f.Fuzz(func(t *testing.T, data []byte, s string) {
		if m, err := parseSP(data); err == nil {
			if tok, err := m.build(); err == nil {
				use(t, tok, s)
			}
		}
	})
}

func FuzzRanks(f *testing.F) {
	f.Add(seed(f, "ranks.tiktoken"), `\w+|\s`, "hello  world")
	f.Add("YQ== 0\nYWE= 1\n", "a|b", "aaab")
	f.Fuzz(func(t *testing.T, data, pattern, s string) {
		if len(pattern) > 12 || len(s) > 40 {
			return // a backtracking engine may take for ever on a long one
		}
		if tok, err := FromRanks(data, Ranks{Pattern: pattern, Special: map[string]int{"<s>": 1000}, EOS: "<s>"}); err == nil {
			use(t, tok, s)
		}
	})
}

func FuzzVocabTxt(f *testing.F) {
	f.Add("[UNK]\n[CLS]\n[SEP]\na\n##b\n", "ab [CLS] c")
	f.Fuzz(func(t *testing.T, data, s string) {
		if tok, err := parseVocabTxt(data); err == nil {
			use(t, tok, s)
		}
	})
}

func FuzzTekken(f *testing.F) {
	f.Add(`{"config":{"pattern":"\\w+|\\s","default_vocab_size":3,"default_num_special_tokens":1},"vocab":[{"rank":0,"token_bytes":"YQ=="},{"rank":1,"token_bytes":"YWE=","token_str":"aa"}]}`, "aaa")
	f.Fuzz(func(t *testing.T, data, s string) {
		if len(s) > 40 || len(data) > 300 {
			return
		}
		if tok, err := parseTekken(data); err == nil {
			use(t, tok, s)
		}
	})
}

func FuzzMerges(f *testing.F) {
	f.Add("#version: 0.2\na b\nab c\n")
	f.Fuzz(func(t *testing.T, data string) {
		pairs, err := parseMerges(data)
		if err == nil && len(pairs)%2 != 0 {
			t.Fatalf("%d tokens in merges", len(pairs))
		}
	})
}

func FuzzCharsmap(f *testing.F) {
	m, err := parseSP([]byte(seed(f, "unigram.model")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m.charsmap, "e\u0301½ ｶ")
	f.Fuzz(func(t *testing.T, blob []byte, s string) {
		c, err := parseCharsmap(blob)
		if err != nil {
			return
		}
		for _, longest := range []bool{false, true} {
			if _, n := c.lookup(s, longest); n > len(s) {
				t.Fatalf("%d bytes of %d replaced", n, len(s))
			}
		}
	})
}

// FuzzEncode feeds the encoders any text.
func FuzzEncode(f *testing.F) {
	var toks []*Tokenizer
	for _, name := range smallFiles {
		toks = append(toks, openSmall(f, name))
	}
	f.Add("I love datawhale, 我爱 datawhale <|endoftext|> [MASK] <user>\xff\xe4\xb8 \u0301")
	f.Fuzz(func(t *testing.T, s string) {
		for _, tok := range toks {
			use(t, tok, s)
		}
		e, err := toks[0].EncodeWith(s, Options{NoSpecial: true, Ordinary: true})
		if err != nil || toks[0].Decode(e.IDs) != s {
			t.Fatalf("%q comes back as %q (%v)", s, toks[0].Decode(e.IDs), err)
		}
	})
}
