package model

import (
	"fmt"

	"forwardpass/pkg/tensor"
)

// Stages that a Trace is shown, in order. Those of a layer come with its number.
const (
	StageEmbed     = "embed"             // [T, C] the residual stream before the first layer
	StageAttnNorm  = "attention.norm"    // [T, C] input of attention
	StageQ         = "attention.q"       // [T, H, D] after norm and rotation
	StageK         = "attention.k"       // [T, n_kv, D] likewise
	StageV         = "attention.v"       // [T, n_kv, D]
	StageWeights   = "attention.weights" // [H, T, S] for each sequence
	StageAttention = "attention.out"     // [T, C] what attention adds
	StageMLPNorm   = "mlp.norm"          // [T, C] input of the MLP
	StageRouter    = "mlp.router"        // [T, experts] router logits
	StageMLP       = "mlp.out"           // [T, C] what the MLP adds
	StageLayer     = "out"               // [T, C] the residual stream after the layer
	StageFinal     = "final_norm"        // [rows, C] of the rows whose logits are wanted
	StageLogits    = "logits"            // [rows, V]
)

// Trace watches a forward pass. Without one, nothing is computed or copied for it.
type Trace struct {
	// See is called with the stage, the layer (-1 outside of the layers) and its tensor, which is the model's own:
	// read it or copy it, it changes afterwards.
	See func(stage string, layer int, t *tensor.Tensor)
	// Weights asks for attention weights, which the fast form of attention never has.
	Weights bool
}

// StageName is the full name of a stage, as in "layers.2.attention.weights".
func StageName(stage string, layer int) string {
	if layer < 0 {
		return stage
	}
	return fmt.Sprintf("layers.%d.%s", layer, stage)
}
