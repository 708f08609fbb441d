package tokenize

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/internal/gguf"
)

// tiny is a whole tokenizer.json that the tables below break in one place each.
const tiny = `{"version":"1.0","truncation":null,"padding":null,"added_tokens":[
{"id":5,"content":"<end>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
"normalizer":{"type":"Lowercase"},
"pre_tokenizer":{"type":"WhitespaceSplit"},
"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<end>","type_id":0}}],"pair":[],"special_tokens":{"<end>":{"id":"<end>","ids":[5],"tokens":["<end>"]}}},
"decoder":{"type":"Fuse"},
"model":{"type":"BPE","unk_token":null,"vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":["a b","ab c"]}}`

// TestErrors: what is wrong with a file is named, and nothing panics.
func TestErrors(t *testing.T) {
	if _, err := parseHF(tiny); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ old, new, want string }{
		{`"b":1`, `"b":0`, `id 0 is given to both "a" and "b"`},
		{`"b":1`, `"a":1`, `token "a" has two ids, 0 and 1`},
		{`"b":1`, `"b":-1`, `token "b" has id -1`},
		{`"b":1`, `"b":4000000000`, `token "b" has id 4000000000`},
		{`"b":1`, `"b":1.5`, `"1.5" is not an integer`},
		{`"b":1`, `"b":"1"`, `want a number`},
		{`"a b"`, `"a z"`, `merge 0 ("a" + "z"): "z" is not in the vocabulary`},
		{`"ab c"`, `"b c"`, `merge 1 ("b" + "c"): "bc" is not in the vocabulary`},
		{`"ab c"`, `"abc"`, `merge 1: "abc" is not two tokens`},
		{`"ab c"`, `["ab"]`, `merge 1: ["ab"] is not two tokens`},
		{`"Lowercase"`, `"Uppercase"`, `normalizer: unknown type "Uppercase"`},
		{`{"type":"Lowercase"}`, `{"kind":1}`, `a stage without a type`},
		{`{"type":"Lowercase"}`, `{"type":"Replace","content":""}`, `Replace: no pattern`},
		{`{"type":"Lowercase"}`, `{"type":"Replace","pattern":{"Regex":"("},"content":""}`, `Replace: `},
		{`{"type":"Lowercase"}`, `{"type":"Precompiled","precompiled_charsmap":"!"}`, `Precompiled: `},
		{`{"type":"Lowercase"}`, `{"type":"Precompiled","precompiled_charsmap":"AAAA"}`, `charsmap`},
		{`"WhitespaceSplit"`, `"Sudachi"`, `pre_tokenizer: unknown type "Sudachi"`},
		{`{"type":"WhitespaceSplit"}`, `{"type":"Split","pattern":{"String":"x"},"behavior":"Sideways"}`, `unknown behavior "Sideways"`},
		{`{"type":"WhitespaceSplit"}`, `{"type":"Metaspace","prepend_scheme":"perhaps"}`, `unknown prepend_scheme "perhaps"`},
		{`{"type":"WhitespaceSplit"}`, `{"type":"FixedLength","length":0}`, `length 0`},
		{`"Fuse"`, `"Fuze"`, `decoder: unknown type "Fuze"`},
		{`"TemplateProcessing"`, `"Template"`, `post_processor: unknown type "Template"`},
		{`{"SpecialToken":{"id":"<end>"`, `{"SpecialToken":{"id":"<fin>"`, `special token "<fin>" is not defined`},
		{`"type":"BPE"`, `"type":"Morpheme"`, `model: unknown type "Morpheme"`},
		{`"unk_token":null`, `"unk_token":"<unk>"`, `unknown token "<unk>" is not in the vocabulary`},
		{`"unk_token":null`, `"dropout":0.1`, `dropout 0.1`},
		{`"id":5`, `"id":4`, `id 4 is given to both "abc" and the added token "<end>"`},
		{`"content":"<end>"`, `"content":"ab"`, `added token "ab" has id 5, but the vocabulary gives it 3`},
		{`"id":5`, `"id":-5`, `added token "<end>" has id -5`},
		{`"model":{`, `"modell":{`, `no "model" in it`},
		{`"ab c"]}}`, `"ab c"]}`, `unexpected end`},
		{`"ab c"]}}`, `"ab c"]}}x`, `after the end`},
		{`"vocab":{"a"`, `"vocab":{"\ud800"`, `bad \u escape`},
		{`"vocab":{"a"`, "\"vocab\":{\"\xff\"", `not valid UTF-8`},
		{`"vocab":{"a"`, "\"vocab\":{\"\n\"", `control character`},
		{`"vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":["a b","ab c"]`, `"merges":[]`, `no vocabulary`},
		{`"type":"BPE","unk_token":null,"vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":["a b","ab c"]`, `"type":"Unigram","unk_id":9,"vocab":[["a",-1]]`, `unk_id 9`},
		{`"type":"BPE","unk_token":null,"vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":["a b","ab c"]`, `"type":"Unigram","unk_id":0,"vocab":[["a",-1],["b","x"]]`, `want a number`},
	} {
		data := strings.Replace(tiny, test.old, test.new, 1)
		if data == tiny {
			t.Fatalf("%q is not in the file", test.old)
		}
		if _, err := parseHF(data); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s for %s:\n error %v\n want one with %s", test.new, test.old, err, test.want)
		}
	}
}

// TestOpenErrors: files that are not there, not vocabularies or cut off.
func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, data string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	model, err := os.ReadFile(small + "bpe.model")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ path, want string }{
		{filepath.Join(dir, "nothing.json"), "no such file"},
		{filepath.Dir(write("none/README", "")), "no vocabulary in this directory"},
		{write("picture.png", "\x89PNG"), "not a vocabulary that can be read"},
		{write("a/vocab.json", `{"a":0}`), "no merges.txt or vocab.bpe beside it"},
		{write("empty.txt", ""), "[UNK]"},
		{write("twice.txt", "[UNK]\na\na\n"), `line 3: token "a" has two ids`},
		{write("cut.model", string(model[:len(model)/2])), "protobuf, byte"},
		{write("bad.tiktoken", "!!! 0\n"), "not a vocabulary"},
		{write("bad2.tiktoken", "YQ== 0\nYg==\n"), "line 2"},
		{write("bad3.tiktoken", "YQ== 0\nYg== 0\n"), "line 2: id 0 is given to both"},
		{write("short.tiktoken", "YQ== 0\n"), "no vocabulary of 1 ranks is known"},
		{write("x.gguf", "GGUF"), "byte"},
		{write("two/a.model", "x"), "not a vocabulary"},
		{write("tekken.json", `{"config":{"pattern":"a","default_vocab_size":9,"default_num_special_tokens":1},"vocab":[]}`), "vocabulary of 9"},
		{write("c/tokenizer_config.json", `{"bos_token":5}`), "a tokenizer's settings, not a vocabulary: want tokenizer.json"},
		{write("d/config.json", `{"model_type": "llama", "vocab_size": 5}`), "a model's configuration, not a vocabulary: give " + write("d/tokenizer.json", tiny)},
		{write("e/model.safetensors", ""), "a file of weights, not a vocabulary: want tokenizer.json"},
		{write("other.json", `{"a": "b"}`), "neither a tokenizer.json nor a vocabulary"},
	} {
		_, err := Open(test.path)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.path, err, test.want)
		} else if !strings.Contains(err.Error(), filepath.Base(test.path)) {
			t.Errorf("%v doesn't name the file", err)
		}
	}
	write("two/b.model", "x")
	if _, err := Open(filepath.Join(dir, "two")); err == nil || !strings.Contains(err.Error(), "a.model and b.model") {
		t.Errorf("two vocabularies: error %v", err)
	}
	write("c/tokenizer.json", tiny)
	if _, err := Open(filepath.Join(dir, "c")); err == nil || !strings.Contains(err.Error(), "tokenizer_config.json") {
		t.Errorf("broken tokenizer_config.json: error %v", err)
	}
}

// TestConfig: BOS, EOS and the chat template come from the files beside.
func TestConfig(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{
		"tokenizer.json":         tiny,
		"tokenizer_config.json":  `{"bos_token":{"content":"a"},"eos_token":"<end>","chat_template":[{"name":"tools","template":"x"},{"name":"default","template":"{{ eos_token }}"}]}`,
		"generation_config.json": `{"eos_token_id":[5,4]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if eos := tok.EOS(); len(eos) != 2 || eos[0] != 5 || eos[1] != 4 {
		t.Errorf("EOS %v, want [5 4]", eos)
	}
	if bos := tok.BOS(); len(bos) != 1 || bos[0] != 0 {
		t.Errorf("BOS %v, want [0]", bos)
	}
	if got, err := tok.Chat(nil, false); err != nil || got != "<end>" {
		t.Errorf("chat %q, %v", got, err)
	}
	if !tok.HasChat() || !tok.Special(5) || tok.Special(0) || tok.VocabSize() != 6 {
		t.Errorf("HasChat %v, Special(5) %v, Special(0) %v, VocabSize %d", tok.HasChat(), tok.Special(5), tok.Special(0), tok.VocabSize())
	}
	if id, ok := tok.ID("abc"); !ok || id != 4 {
		t.Errorf("ID(abc) = %d, %v", id, ok)
	}
	if _, ok := tok.ID("zzz"); ok {
		t.Error("zzz has an id")
	}
	if got := tok.Decode([]int{4, 99, -1, 5}); got != "abc" {
		t.Errorf("unknown ids decode to %q", got)
	}
	if got := tok.DecodeAll([]int{4, 5}); got != "abc<end>" {
		t.Errorf("with special tokens: %q", got)
	}
}

// TestSentencePieceDirectory: a .model file with a checkpoint's configuration
// puts BOS in front and reads special tokens from text.
func TestSentencePieceDirectory(t *testing.T) {
	dir := t.TempDir()
	model, err := os.ReadFile(small + "bpe.model")
	if err != nil {
		t.Fatal(err)
	}
	config := `{"bos_token":"<s>","eos_token":"</s>","add_bos_token":true,"add_eos_token":true,"added_tokens_decoder":{
		"1":{"content":"<s>","special":true},"2":{"content":"</s>","special":true},"1400":{"content":"<|new|>","special":true}}}`
	for name, data := range map[string][]byte{"tokenizer.model": model, "tokenizer_config.json": []byte(config)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tok.Encode("cat</s><|new|>")
	want, _ := openSmall(t, "bpe.model").Encode("cat")
	want = slices.Concat([]int{1}, want, []int{2, 1400, 2})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, want %v (%v)", got, want, err)
	}
}

// TestGGUF writes vocabularies into GGUF files and reads them back.
func TestGGUF(t *testing.T) {
	data, err := os.ReadFile(small + "bpe.model")
	if err != nil {
		t.Fatal(err)
	}
	sp, err := parseSP(data)
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	var scores []float32
	var types []int32
	for _, p := range sp.pieces {
		tokens, scores, types = append(tokens, p.text), append(scores, p.score), append(types, int32(p.kind))
	}
	meta := map[string]any{
		"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(2),
		"tokenizer.chat_template": "{{ bos_token }}",
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := gguf.Write(f, meta, nil); err != nil {
		t.Fatal(err)
	}
	f.Close()
	tok, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	want := openSmall(t, "bpe.model")
	for _, s := range []string{"I love datawhale", "The cat chases the dog.", "  two  spaces ", "中文 🦀", "a=b"} {
		got, err := tok.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		ids, _ := want.Encode(s)
		if len(got) == 0 || got[0] != 1 || !slices.Equal(got[1:], ids) {
			t.Errorf("%q: %v, want BOS and %v", s, got, ids)
		}
		if back := tok.Decode(got); back != s {
			t.Errorf("%q comes back as %q", s, back)
		}
	}
	// The special tokens that a chat template writes are found in the text.
	if got, _ := tok.EncodeWith("<s>a</s>", Options{NoSpecial: true}); got.IDs[0] != 1 || got.IDs[len(got.IDs)-1] != 2 {
		t.Errorf("<s>a</s>: %v", got)
	}
	for key, v := range map[string]any{
		"tokenizer.ggml.model": "rwkv", "tokenizer.ggml.tokens": []string{}, "tokenizer.ggml.scores": []float32{1},
		"tokenizer.ggml.token_type": []int32{1}, "tokenizer.ggml.bos_token_id": uint32(1 << 20),
	} {
		old := meta[key]
		meta[key] = v
		if _, err := FromGGUF(meta); err == nil {
			t.Errorf("%s = %v was taken", key, v)
		}
		meta[key] = old
	}
	lines, err := os.ReadFile(small + "vocab.txt")
	if err != nil {
		t.Fatal(err)
	}
	var bert []string
	var kinds []int32
	for _, line := range strings.Split(strings.TrimSpace(string(lines)), "\n") {
		kind := int32(ggufNormal)
		if short, inside := strings.CutPrefix(line, "##"); inside {
			line = short
		} else if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") && len(line) > 2 {
			kind = ggufControl
		} else {
			line = "▁" + line
		}
		bert, kinds = append(bert, line), append(kinds, kind)
	}
	tok, err = FromGGUF(map[string]any{"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": bert, "tokenizer.ggml.token_type": kinds})
	if err != nil {
		t.Fatal(err)
	}
	s := "The cats chase the dogs; [MASK] runs, unaffable."
	got, err := tok.Encode(s)
	ids, _ := openSmall(t, "vocab.txt").Encode(s)
	if err != nil || !slices.Equal(got, ids) {
		t.Errorf("BERT: %v, want %v (%v)", tok.Tokens(got), tok.Tokens(ids), err)
	}
}
