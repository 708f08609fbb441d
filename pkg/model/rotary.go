package model

import (
	"forwardpass/pkg/rope"
)

// rotary reads the rotary settings: rope_parameters (transformers 5), or rope_theta and rope_scaling. dim 0
// rotates the whole head. kind names an entry of rope_parameters for models that have one for each kind of
// layer; "" is the only one.
func (b *builder) rotary(kind string, headDim, dim int) *rope.Table {
	c := &b.m.Config
	cfg := rope.Config{HeadDim: headDim, MaxPositions: c.MaxPositions, Interleaved: b.string("rope_pairing", "half") == "interleaved"}
	theta := b.number("rope_theta", 10_000)
	partial := b.number("partial_rotary_factor", 1)
	var set *config
	if b.has("rope_parameters") {
		set = b.object("rope_parameters")
		if kind != "" && set.has(kind) {
			set = set.object(kind)
		}
	} else if b.has("rope_scaling") {
		set = b.object("rope_scaling")
	}
	if set != nil {
		theta = set.number("rope_theta", theta)
		partial = set.number("partial_rotary_factor", partial)
		cfg.Scaling = b.scaling(set)
	}
	cfg.Theta = theta
	cfg.Dim = dim
	if dim == 0 {
		cfg.Dim = int(float64(headDim) * partial)
	}
	if len(b.errs) > 0 {
		return nil
	}
	if c.RopeTheta == 0 {
		c.RopeTheta = theta
	}
	t, err := rope.New(cfg)
	if err != nil {
		b.fail("%w", err)
		return nil
	}
	if s := t.Config().Scaling; s.Type == rope.Dynamic || s.Type == rope.YaRN { // these reach beyond what the weights were made for
		c.MaxPositions = max(c.MaxPositions, int(min(s.Factor*float64(s.OriginalMax), maxCount)))
	}
	return t
}

// scaling reads one entry of rope_scaling or rope_parameters.
func (b *builder) scaling(set *config) rope.Scaling {
	kind := set.string("rope_type", set.string("type", "default"))
	s := rope.Scaling{
		Type:            rope.Kind(kind),
		Factor:          set.number("factor", 0),
		OriginalMax:     set.int("original_max_position_embeddings", b.int("original_max_position_embeddings", 0)),
		AttentionFactor: set.number("attention_factor", 0),
		LowFreqFactor:   set.number("low_freq_factor", 0),
		HighFreqFactor:  set.number("high_freq_factor", 0),
		BetaFast:        set.number("beta_fast", 0),
		BetaSlow:        set.number("beta_slow", 0),
		MScale:          set.number("mscale", 0),
		MScaleAllDim:    set.number("mscale_all_dim", 0),
		NoTruncate:      !set.bool("truncate", true),
		ShortFactor:     set.numbers("short_factor"),
		LongFactor:      set.numbers("long_factor"),
	}
	switch kind {
	case "default":
		s = rope.Scaling{}
	case "su":
		s.Type = rope.LongRoPE
	}
	set.used["rope_theta"], set.used["partial_rotary_factor"] = true, true
	if err := set.finish(nil); err != nil {
		b.errs = append(b.errs, err)
	}
	return s
}
