package lesson

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Check tells whether a learner's function is right. It belongs into a cell that begins with %test:
//
//	func TestSoftmax(t *testing.T) { lesson.Check(t, "softmax", Softmax) }
//
// The function is compared with golden values; what comes back names the first input it gets wrong, what was
// wanted and what came, and a hint. Exercises lists the names.
func Check(t testing.TB, name string, fn any) {
	t.Helper()
	e, ok := exercises()[name]
	if !ok {
		t.Fatalf("there is no exercise %q (there are: %s)", name, strings.Join(Exercises(), ", "))
	}
	if err := e.run(fn); err != nil {
		t.Fatalf("not yet: %v\n    hint: %s", err, e.hint)
	}
	fmt.Printf("✓ %s: all %d cases are right\n", name, e.cases)
}

// Exercises lists the exercises that Check knows.
func Exercises() []string { return slices.Sorted(maps.Keys(exercises())) }

// exercise compares a function with golden values.
type exercise struct {
	hint  string
	cases int
	run   func(fn any) error
}

// exercises are all there are; those of a lesson are in a file of their own.
func exercises() map[string]exercise {
	all := map[string]exercise{}
	for _, m := range []map[string]exercise{
		tourExercises(),
		embeddingExercises(),
		tokenExercises(),
		positionExercises(),
		attentionExercises(),
		blockExercises(),
		logitsExercises(),
		variantsExercises(),
		samplingExercises(),
		loopExercises(),
		cacheExercises(),
		lossExercises(),
		servingExercises(),
		gpuExercises(),
		realExercises(),
	} {
		maps.Copy(all, m)
	}
	return all
}

// task makes an exercise of n cases for functions of type F. check runs one case and reports what is wrong with it.
func task[F any](hint string, n int, check func(f F, i int) error) exercise {
	return exercise{hint: hint, cases: n, run: func(fn any) (err error) {
		f, ok := fn.(F)
		if !ok {
			return fmt.Errorf("want a %v, got a %v", reflect.TypeFor[F](), reflect.TypeOf(fn))
		}
		for i := range n {
			if err := attempt(f, i, check); err != nil {
				return err
			}
		}
		return nil
	}}
}

// attempt runs one case; a panic in the learner's function is a wrong answer, too.
func attempt[F any](f F, i int, check func(f F, i int) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("case %d: your function panics: %v", i+1, p)
		}
	}()
	return check(f, i)
}

// equal reports the first number of got that differs from want.
func equal(call string, got, want []float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s: want %d numbers, got %d", call, len(want), len(got))
	}
	for i := range want {
		if got[i] != want[i] && !(math.Abs(got[i]-want[i]) <= 1e-6*max(1, math.Abs(want[i]))) { // ∞ equals ∞
			return fmt.Errorf("%s: number %d: want %.6g, got %.6g", call, i, want[i], got[i])
		}
	}
	return nil
}

// same reports the first element of got that is not want's.
func same[T comparable](call string, got, want []T) error {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("%s: element %d: want %v, got %v", call, i, want[i], got[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%s: want %v, got %v", call, want, got)
	}
	return nil
}
