package block

import (
	"fmt"
	"math"

	"forwardpass/pkg/tensor"
)

// Norm keeps each token's vector at a steady scale (chapter section 2.4).
//
//	LayerNorm (Ba et al. 2016, arXiv:1607.06450):       (x-mean)/√(var+ε) · w + b
//	RMSNorm (Zhang & Sennrich 2019, arXiv:1910.07467):  x/√(mean(x²)+ε) · w
type Norm struct {
	Weight []float32 // [C]; nil: ones (OLMo's norm has no parameters)
	Bias   []float32 // [C] or nil
	Eps    float64
	Center bool // LayerNorm: subtract the mean
}

// PlusOne is the weight of Gemma's RMSNorm, which stores w-1.
func PlusOne(w []float32) []float32 {
	out := make([]float32, len(w))
	for i, v := range w {
		out[i] = 1 + v
	}
	return out
}

// Forward returns the normalised rows. x [..., C] → the same shape.
func (n *Norm) Forward(x *tensor.Tensor) (*tensor.Tensor, error) {
	y := &tensor.Tensor{}
	return y, n.ForwardInto(y, x)
}

// ForwardInto writes the normalised rows of x into dst, which may be x. x [..., C] → dst, resized
func (n *Norm) ForwardInto(dst, x *tensor.Tensor) error {
	if err := tensor.CheckRows("block: norm", x); err != nil {
		return err
	}
	if dst == nil {
		return fmt.Errorf("block: norm: want a tensor to write to, got none")
	}
	if x.Dim(-1) == 0 {
		return fmt.Errorf("block: norm of a tensor of shape %v", x.Shape)
	}
	c := x.Dim(-1)
	if n.Weight != nil && len(n.Weight) != c || n.Bias != nil && len(n.Bias) != c {
		return fmt.Errorf("block: norm of rows of %d numbers with %d weights and %d biases", c, len(n.Weight), len(n.Bias))
	}
	if dst != x {
		dst.Resize(x.Shape...)
	}
	for i := range x.Rows() {
		n.row(dst.Row(i), x.Row(i))
	}
	return nil
}

func (n *Norm) row(y, x []float32) {
	c := float64(len(x))
	copy(y, x)
	if n.Center {
		var sum float64
		for _, v := range y {
			sum += float64(v)
		}
		mean := float32(sum / c)
		for i := range y {
			y[i] -= mean
		}
	}
	tensor.Scale(y, float32(1/math.Sqrt(squares(y)/c+n.Eps)))
	if n.Weight != nil {
		tensor.Mul(y, n.Weight)
	}
	if n.Bias != nil {
		tensor.Add(y, n.Bias)
	}
}

// squares is Σx², as four sums that don't wait for each other.
func squares(x []float32) float64 {
	var s0, s1, s2, s3 float64
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d := float64(x[0]), float64(x[1]), float64(x[2]), float64(x[3])
		s0, s1, s2, s3 = s0+a*a, s1+b*b, s2+c*c, s3+d*d
	}
	for _, v := range x {
		s0 += float64(v) * float64(v)
	}
	return s0 + s1 + s2 + s3
}
