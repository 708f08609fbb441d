package generate

// Tokenizer is what generation needs of a tokenizer: the text of ids, without special tokens. *tokenize.Tokenizer has it.
type Tokenizer interface {
	Decode(ids []int) string
}
