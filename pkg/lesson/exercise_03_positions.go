package lesson

import (
	"fmt"
	"math"
	"slices"

	"forwardpass/pkg/embed"
	"forwardpass/pkg/rope"
)

// positionExercises are those of lesson 03.
func positionExercises() map[string]exercise {
	rows := []struct{ pos, width int }{{0, 4}, {1, 2}, {3, 8}, {100, 6}, {7, 32}}
	turns := []struct {
		x    []float64
		pos  int
		base float64
	}{
		{[]float64{1, 0}, 1, 10_000},
		{[]float64{1, 2, 3, 4}, 0, 10_000}, // position 0 turns nothing
		{[]float64{1, 2, 3, 4}, 5, 10_000},
		{[]float64{0.5, -1, 2, 0, 1, 3, -2, 0.25}, 3, 10_000},
		{[]float64{0.5, -1, 2, 0, 1, 3, -2, 0.25}, 17, 500_000},
	}
	return map[string]exercise{
		"sinusoid": task("column 2i is a sine and column 2i+1 the cosine of the same angle, pos divided by 10000 to the power 2i/width",
			len(rows), func(f func(int, int) []float64, i int) error {
				c := rows[i]
				table, err := embed.Sinusoidal(c.pos+1, c.width) // [pos+1, width]
				if err != nil {
					return err
				}
				return equal(fmt.Sprintf("Sinusoid(%d, %d)", c.pos, c.width), f(c.pos, c.width), widen(table.Row(c.pos)))
			}),
		"rotate": task("numbers i and i+D/2 are a point in the plane; both new numbers need both old ones, so keep the old ones until both are computed",
			len(turns), func(f func([]float64, int, float64) []float64, i int) error {
				c := turns[i]
				want, err := rotated(c.x, c.pos, c.base)
				if err != nil {
					return err
				}
				in := slices.Clone(c.x)
				call := fmt.Sprintf("Rotate(%v, %d, %g)", c.x, c.pos, c.base)
				if err := equal(call, f(in, c.pos, c.base), want); err != nil {
					return err
				}
				return same(call+" changed its input", in, c.x)
			}),
	}
}

// rotated turns one head's half-split pairs by the angles of package rope.
func rotated(x []float64, pos int, base float64) ([]float64, error) {
	table, err := rope.New(rope.Config{HeadDim: len(x), Theta: base})
	if err != nil {
		return nil, err
	}
	out, half := make([]float64, len(x)), len(x)/2
	for i, angle := range table.Angles(pos, pos+1) {
		sin, cos := math.Sincos(angle)
		out[i], out[i+half] = x[i]*cos-x[i+half]*sin, x[i]*sin+x[i+half]*cos
	}
	return out, nil
}

func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
