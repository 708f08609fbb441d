package lesson

import (
	"fmt"
	"slices"

	"forwardpass/pkg/block"
	"forwardpass/pkg/model"
	"forwardpass/pkg/rope"
)

// Anatomy says which variant of each part a model has, as read from its layers: a row of the chapter's table 2.6 under
// AnatomyHeader.
func Anatomy(m *model.Model) []any {
	l := m.Layers[len(m.Layers)-1] // where some layers are dense and others sparse, the last is sparse
	return []any{m.Config.Family, attentionOf(m), mlpOf(&l), normOf(m), placementOf(&l), positionsOf(m)}
}

// AnatomyHeader is the header of Anatomy's row.
func AnatomyHeader() []string {
	return []string{"family", "attention", "MLP", "normalization", "placement", "positions"}
}

func attentionOf(m *model.Model) string {
	c, l := m.Config, m.Layers[0]
	kind := fmt.Sprintf("GQA %d:%d", c.NumHeads, c.NumKVHeads)
	switch {
	case l.Latent != nil:
		kind = "MLA"
	case c.NumKVHeads == c.NumHeads:
		kind = "MHA"
	case c.NumKVHeads == 1:
		kind = "MQA"
	}
	if slices.ContainsFunc(c.Windows, func(w int) bool { return w > 0 }) {
		kind += ", window"
	}
	return kind
}

func mlpOf(l *model.Layer) string {
	switch {
	case l.MoE != nil && l.MoE.Shared != nil:
		return fmt.Sprintf("MoE %d of %d + shared", l.MoE.TopK, len(l.MoE.Experts))
	case l.MoE != nil:
		return fmt.Sprintf("MoE %d of %d", l.MoE.TopK, len(l.MoE.Experts))
	case l.MLP.Gate != nil:
		return "dense, gated"
	}
	return "dense"
}

func normOf(m *model.Model) string {
	for _, n := range []*block.Norm{m.FinalNorm, m.Layers[0].AttnNorm, m.Layers[0].AttnPost} {
		if n != nil && n.Center {
			return "LayerNorm"
		}
	}
	return "RMSNorm"
}

func placementOf(l *model.Layer) string {
	switch {
	case l.Residual == block.PreNorm && l.AttnNorm == nil:
		return "on what a part adds"
	case l.Residual == block.PreNorm && l.AttnPost != nil:
		return "before and on what it adds"
	}
	return l.Residual.String()
}

func positionsOf(m *model.Model) string {
	if m.Positions != nil {
		return "learned"
	}
	for _, l := range m.Layers {
		if l.Rope == nil {
			continue
		}
		if c := l.Rope.Config(); c.Scaling.Type != rope.None {
			return "RoPE, " + string(c.Scaling.Type)
		} else if c.Dim < c.HeadDim {
			return fmt.Sprintf("RoPE on %d of %d", c.Dim, c.HeadDim)
		}
		return "RoPE"
	}
	return "none"
}
