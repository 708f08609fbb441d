package rope

import (
	"errors"
	"fmt"
	"math"
)

// Kind names a way to reach beyond the positions that a model was trained on.
type Kind string

const (
	None     Kind = ""         // the paper's frequencies
	Linear   Kind = "linear"   // position interpolation: all frequencies divided by the factor (Chen et al. 2023, arXiv:2306.15595)
	Dynamic  Kind = "dynamic"  // NTK-aware base, growing with the length beyond MaxPositions (as transformers does it)
	YaRN     Kind = "yarn"     // interpolation of slow pairs only, and an attention factor (Peng et al. 2023, arXiv:2309.00071)
	Llama3   Kind = "llama3"   // interpolation by wavelength (Llama 3.1, arXiv:2407.21783, section 3.4.2 and reference code)
	Factors  Kind = "factors"  // every pair's frequency divided by a factor of its own: how GGUF files carry llama3 (rope_freqs.weight)
	LongRoPE Kind = "longrope" // searched factors for each pair, short and long (Ding et al. 2024, arXiv:2402.13753)
)

// Scaling holds the parameters of all kinds; a kind ignores those of others.
type Scaling struct {
	Type            Kind
	Factor          float64 // how many times longer
	OriginalMax     int     // positions of the original training; 0: Config.MaxPositions
	AttentionFactor float64 // 0: by the kind's formula

	LowFreqFactor, HighFreqFactor float64 // llama3

	BetaFast, BetaSlow      float64   // yarn; 0: 32 and 1
	MScale, MScaleAllDim    float64   // yarn (DeepSeek)
	NoTruncate              bool      // yarn: don't round the range of pairs
	ShortFactor, LongFactor []float64 // longrope, [Dim/2]; factors uses ShortFactor
}

// frequencies returns the sets that don't depend on the exact length (two for LongRoPE: short and long),
// and the factor of cosines and sines.
func (s Scaling) frequencies(cfg Config) (sets [][]float64, factor float64, err error) {
	base := plain(cfg.Theta, cfg.Dim)
	original := s.OriginalMax
	needFactor := func() error {
		if !(s.Factor >= 1) || math.IsInf(s.Factor, 0) {
			return fmt.Errorf("rope: %s scaling needs a factor of at least 1, got %v", s.Type, s.Factor)
		}
		if original < 1 && s.Type != Linear {
			return fmt.Errorf("rope: %s scaling needs the original number of positions", s.Type)
		}
		return nil
	}
	switch s.Type {
	case None:
		return [][]float64{base}, 1, nil
	case Linear:
		if err := needFactor(); err != nil {
			return nil, 0, err
		}
		for i := range base {
			base[i] /= s.Factor
		}
		return [][]float64{base}, 1, nil
	case Dynamic:
		if cfg.MaxPositions < 1 || cfg.Dim < 4 {
			return nil, 0, fmt.Errorf("rope: dynamic scaling needs MaxPositions and at least 4 dimensions, got %d and %d", cfg.MaxPositions, cfg.Dim)
		}
		return [][]float64{base}, 1, needFactor()
	case Llama3:
		if err := needFactor(); err != nil {
			return nil, 0, err
		}
		if !(s.HighFreqFactor > s.LowFreqFactor) || !(s.LowFreqFactor > 0) {
			return nil, 0, fmt.Errorf("rope: llama3 scaling needs 0 < low_freq_factor < high_freq_factor, got %v and %v", s.LowFreqFactor, s.HighFreqFactor)
		}
		return [][]float64{s.llama3(base, float64(original))}, 1, nil
	case YaRN:
		if err := needFactor(); err != nil {
			return nil, 0, err
		}
		return [][]float64{s.yarn(base, cfg, float64(original))}, s.yarnFactor(), nil
	case Factors:
		if err := positive("factors", s.ShortFactor, len(base)); err != nil {
			return nil, 0, err
		}
		return [][]float64{divide(base, s.ShortFactor)}, 1, nil
	case LongRoPE:
		return s.longRoPE(base, cfg, original)
	}
	return nil, 0, fmt.Errorf("rope: unknown scaling type %q", s.Type)
}

// plain is θᵢ = base^(-2i/D) for the D/2 pairs, rounded to float32 as every implementation stores them.
func plain(theta float64, dim int) []float64 {
	f := make([]float64, dim/2)
	for i := range f {
		f[i] = float64(float32(1 / math.Pow(theta, float64(2*i)/float64(dim))))
	}
	return f
}

// dynamic raises the base so that the slowest pair turns once more over the given length.
func (s Scaling) dynamic(cfg Config, length int) []float64 {
	d := float64(cfg.Dim)
	grow := s.Factor*float64(length)/float64(cfg.MaxPositions) - (s.Factor - 1)
	return plain(cfg.Theta*math.Pow(grow, d/(d-2)), cfg.Dim)
}

// llama3 leaves fast pairs as they are, divides slow ones by the factor and blends in between.
func (s Scaling) llama3(base []float64, original float64) []float64 {
	out := make([]float64, len(base))
	for i, f := range base {
		turns := original * f / (2 * math.Pi) // over the original context
		switch {
		case turns > s.HighFreqFactor:
			out[i] = f
		case turns < s.LowFreqFactor:
			out[i] = f / s.Factor
		default:
			smooth := (turns - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
			out[i] = (1-smooth)*f/s.Factor + smooth*f
		}
	}
	return out
}

// yarn interpolates pairs that turn less than BetaSlow times over the original context, keeps those that turn more
// than BetaFast times, with a ramp between (section 3.2 of the paper, "NTK-by-parts").
func (s Scaling) yarn(base []float64, cfg Config, original float64) []float64 {
	fast, slow := s.BetaFast, s.BetaSlow
	if fast == 0 {
		fast = 32
	}
	if slow == 0 {
		slow = 1
	}
	pair := func(turns float64) float64 { // the pair that makes so many turns
		return float64(cfg.Dim) * math.Log(original/(turns*2*math.Pi)) / (2 * math.Log(cfg.Theta))
	}
	low, high := pair(fast), pair(slow)
	if !s.NoTruncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(cfg.Dim-1))
	if low == high {
		high += 0.001
	}
	out := make([]float64, len(base))
	for i, f := range base {
		ramp := min(max((float64(i)-low)/(high-low), 0), 1)
		out[i] = f/s.Factor*ramp + f*(1-ramp)
	}
	return out
}

// yarnFactor is 0.1·ln(factor)+1 (equation 22 of the paper), or the ratio of DeepSeek's two scales.
func (s Scaling) yarnFactor() float64 {
	if s.AttentionFactor != 0 {
		return s.AttentionFactor
	}
	if s.MScale != 0 && s.MScaleAllDim != 0 {
		return s.Magnitude(s.MScale) / s.Magnitude(s.MScaleAllDim)
	}
	return s.Magnitude(1)
}

// Magnitude is YaRN's m·0.1·ln(factor)+1, 1 where nothing is stretched. DeepSeek also multiplies its scores by the square of
// that of MScaleAllDim.
func (s Scaling) Magnitude(m float64) float64 {
	if s.Factor <= 1 {
		return 1
	}
	return 0.1*m*math.Log(s.Factor) + 1
}

// longRoPE divides each pair's frequency by its searched factor: short ones up to the original length, long ones beyond.
func (s Scaling) longRoPE(base []float64, cfg Config, original int) ([][]float64, float64, error) {
	if err := errors.Join(positive("longrope short_factor", s.ShortFactor, len(base)), positive("longrope long_factor", s.LongFactor, len(base))); err != nil {
		return nil, 0, err
	}
	if original < 2 {
		return nil, 0, fmt.Errorf("rope: longrope scaling needs the original number of positions")
	}
	factor := s.Factor
	if factor == 0 {
		factor = float64(cfg.MaxPositions) / float64(original)
	}
	attention := s.AttentionFactor
	if attention == 0 {
		attention = 1
		if factor > 1 {
			attention = math.Sqrt(1 + math.Log(factor)/math.Log(float64(original)))
		}
	}
	return [][]float64{divide(base, s.ShortFactor), divide(base, s.LongFactor)}, attention, nil
}

// positive reports a list that is not n positive numbers.
func positive(what string, v []float64, n int) error {
	if len(v) != n {
		return fmt.Errorf("rope: want a %s for each of %d pairs, got %d", what, n, len(v))
	}
	for i, x := range v {
		if !(x > 0) {
			return fmt.Errorf("rope: %s %d must be positive, got %v", what, i, x)
		}
	}
	return nil
}

func divide(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / b[i]
	}
	return out
}
