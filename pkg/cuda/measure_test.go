//go:build linux && cuda && cgo

package cuda

import "testing"

// TestMeasure: the report of this device is complete, and no kernel differs from its CPU stage.
func TestMeasure(t *testing.T) {
	if gpu(t, Options{}).Device().StandIn || testing.Verbose() { // minutes of CPU time at full size
		r, err := Measure("../../testdata/storyland", Options{})
		if err != nil {
			t.Fatal(err)
		}
		check(t, r)
	}
}
