package lesson

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"forwardpass/pkg/tensor"
)

// Project places the rows of x [n, C] on the two directions in which they differ most (principal components), and says
// which share of their variance that is. The sign of a direction is arbitrary; here its largest part is positive.
func Project(x *tensor.Tensor) (first, second []float64, share float64, err error) {
	n, c := x.Rows(), x.Dim(-1)
	if n < 3 || c < 2 {
		return nil, nil, 0, fmt.Errorf("lesson: two directions need three rows of two numbers, got %v", x.Shape)
	}
	data := mat.NewDense(n, c, nil)
	for i := range n {
		for j, v := range x.Row(i) {
			data.Set(i, j, float64(v))
		}
	}
	var pc stat.PC
	if !pc.PrincipalComponents(data, nil) {
		return nil, nil, 0, fmt.Errorf("lesson: the principal components of %v do not converge", x.Shape)
	}
	vars := pc.VarsTo(nil)
	var all float64
	for _, v := range vars {
		all += v
	}
	var axes mat.Dense
	pc.VectorsTo(&axes) // [C, components]
	on := func(k int) []float64 {
		axis := mat.Col(nil, k, &axes)
		var largest float64
		for _, v := range axis {
			if math.Abs(v) > math.Abs(largest) {
				largest = v
			}
		}
		out := make([]float64, n)
		for i := range out {
			out[i] = mat.Dot(data.RowView(i), mat.NewVecDense(c, axis))
		}
		if largest < 0 {
			for i := range out {
				out[i] = -out[i]
			}
		}
		return out
	}
	return on(0), on(1), (vars[0] + vars[1]) / all, nil
}
