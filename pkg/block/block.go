// Package block holds what a Transformer block is made of besides attention: normalisation, the MLP, the
// mixture of experts that may stand in its place, and the ways to put them around the residual stream
// (chapter section 2.4).
//
// With x [T, C] the residual stream:
//
//	pre-norm   x += attn(norm(x));        x += mlp(norm(x))            Llama, GPT-2
//	post-norm  x = norm(x + attn(x));     x = norm(x + mlp(x))         the 2017 Transformer, GPT-1
//	sandwich   x += norm(attn(norm(x)));  x += norm(mlp(norm(x)))      Gemma 2
//	parallel   x += attn(norm(x)) + mlp(norm'(x))                      GPT-NeoX, Phi
package block

import "fmt"

// Residual is the way a block's parts are put around the residual stream.
type Residual uint8

const (
	PreNorm  Residual = iota // also the sandwich, whose second norms are there or not
	PostNorm                 // the norm comes after the addition
	Parallel                 // attention and MLP read the same stream
)

func (r Residual) String() string {
	if r > Parallel {
		return fmt.Sprintf("Residual(%d)", uint8(r))
	}
	return [...]string{"pre-norm", "post-norm", "parallel"}[r]
}
