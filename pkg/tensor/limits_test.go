package tensor

import "testing"

func TestMeasure(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		if v := MeasureRead(1<<24, workers); !(v > 1e8 && v < 1e13) {
			t.Errorf("%d workers read %g bytes/s", workers, v)
		}
		if v := MeasureFMA(workers); !(v > 1e8 && v < 1e13) {
			t.Errorf("%d workers make %g FLOP/s", workers, v)
		}
	}
}
