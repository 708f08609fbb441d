package lesson

import (
	"fmt"
	"math"
	"math/rand/v2"

	"forwardpass/pkg/block"
	"forwardpass/pkg/tensor"
)

// Depth sends a random vector of 64 numbers through a stack of random MLPs, wired in one of four ways, and returns the vector
// before the first layer and after each: what norms and residual connections are for shows without any training. The
// weights are the same for each wiring, and of the usual size (variance 1/in).
//
//	"plain"     x = mlp(x)
//	"residual"  x = x + mlp(x)
//	"post-norm" x = norm(x + mlp(x))
//	"pre-norm"  x = x + mlp(norm(x))
func Depth(wiring string, layers int) ([]*tensor.Tensor, error) {
	const width = 64
	rng := rand.New(rand.NewPCG(5, 5))
	x := random(rng, 1, width, 1) // [1, C]
	var norm block.Norm
	stream := []*tensor.Tensor{x.Clone()}
	for range layers {
		up, err := tensor.FromFloats(random(rng, 4*width, width, width).Data, 4*width, width)
		if err != nil {
			return nil, err
		}
		down, err := tensor.FromFloats(random(rng, width, 4*width, 4*width).Data, width, 4*width)
		if err != nil {
			return nil, err
		}
		mlp := block.MLP{Up: tensor.Linear{W: up}, Down: tensor.Linear{W: down}, Act: block.ReLU}
		if x, err = wired(wiring, x, &mlp, &norm); err != nil {
			return nil, err
		}
		stream = append(stream, x.Clone())
	}
	return stream, nil
}

func wired(wiring string, x *tensor.Tensor, mlp *block.MLP, norm *block.Norm) (*tensor.Tensor, error) {
	in := x
	if wiring == "pre-norm" {
		var err error
		if in, err = norm.Forward(x); err != nil {
			return nil, err
		}
	}
	y, err := mlp.Forward(in)
	if err != nil {
		return nil, err
	}
	switch wiring {
	case "plain":
		return y, nil
	case "residual", "pre-norm":
		tensor.Add(y.Data, x.Data)
		return y, nil
	case "post-norm":
		tensor.Add(y.Data, x.Data)
		return norm.Forward(y)
	}
	return nil, fmt.Errorf("lesson: no wiring %q: there are plain, residual, post-norm, pre-norm", wiring)
}

// random is a matrix [rows, cols] of normally distributed numbers with variance 1/fan.
func random(rng *rand.Rand, rows, cols, fan int) *tensor.Tensor {
	t := tensor.New(rows, cols)
	for i := range t.Data {
		t.Data[i] = float32(rng.NormFloat64() / math.Sqrt(float64(fan)))
	}
	return t
}

// Cosine is the cosine of the angle between two vectors: 1 for the same direction, 0 for none in common.
func Cosine(a, b []float32) float64 {
	return float64(tensor.Dot(a, b)) / (rms(a) * rms(b) * float64(len(a)))
}
