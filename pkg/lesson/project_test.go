package lesson_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/lesson"
	"forwardpass/pkg/tensor"
)

// TestProject: points in a plane of a larger space keep their distances, and the directions hold all their variance.
func TestProject(t *testing.T) {
	u, v := []float32{0.6, 0, 0.8, 0}, []float32{0, 1, 0, 0} // of length 1, at right angles
	points := [][2]float32{{0, 0}, {4, 0}, {0, 1}, {-3, 2}, {5, -1}}
	x := tensor.New(len(points), 4)
	for i, p := range points {
		for j := range 4 {
			x.Row(i)[j] = p[0]*u[j] + p[1]*v[j]
		}
	}
	a, b, share, err := lesson.Project(x)
	if err != nil || math.Abs(share-1) > 1e-9 {
		t.Fatalf("want the whole variance, got %g (%v)", share, err)
	}
	for i := range points {
		for j := range points {
			want := math.Hypot(float64(points[i][0]-points[j][0]), float64(points[i][1]-points[j][1]))
			if got := math.Hypot(a[i]-a[j], b[i]-b[j]); math.Abs(got-want) > 1e-5 {
				t.Errorf("distance of %d and %d: want %g, got %g", i, j, want, got)
			}
		}
	}
	if _, _, _, err := lesson.Project(tensor.New(2, 4)); err == nil {
		t.Error("want an error for two rows")
	}
}

func TestCorpus(t *testing.T) {
	corpus := lesson.Corpus()
	if len(corpus) != 250 || corpus[249] == "" || !strings.Contains(strings.Join(corpus, " "), "I love datawhale.") {
		t.Errorf("want 250 stories with the chapter's sentence, got %d", len(corpus))
	}
	if !slices.Equal(corpus[:len(lesson.Stories())], lesson.Stories()) {
		t.Error("the stories are not the first of the corpus")
	}
}
