package kvcache

// Dims says what one token keeps in the cache: for each layer, KVHeads keys of KDim numbers and
// KVHeads values of VDim numbers.
//
// MHA has KVHeads = the number of query heads, GQA fewer, MQA one. Multi-head latent attention
// (DeepSeek-V2, arXiv:2405.04434, section 2.1) keeps one compressed vector a token from which keys and
// values are both made: KVHeads 1, KDim = kv_lora_rank + qk_rope_head_dim, VDim 0.
type Dims struct {
	Layers, KVHeads, KDim, VDim int
}

// PerToken is the count of numbers that one token adds to the cache.
func (d Dims) PerToken() int { return d.Layers * d.KVHeads * (d.KDim + d.VDim) }

// Bytes is the memory formula of the chapter's notes,
//
//	2 · L · B · T · n_kv · d_head · bytes
//
// for batch sequences of tokens each with elementBytes a number (2 for FP16); K and V are the factor 2.
func (d Dims) Bytes(batch, tokens, elementBytes int) int64 {
	return int64(d.PerToken()) * int64(batch) * int64(tokens) * int64(elementBytes)
}
