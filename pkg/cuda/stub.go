//go:build !(linux && cuda && cgo)

package cuda

import (
	"fmt"

	"forwardpass/pkg/model"
)

func unavailable() error {
	return fmt.Errorf("%w: this program was built without it (go build -tags cuda, on linux with cgo)", ErrUnavailable)
}

// Open makes a backend on a device.
func Open(Options) (model.Backend, error) { return nil, unavailable() }

// Devices lists the GPUs that the driver shows.
func Devices() ([]Device, error) { return nil, unavailable() }

// StatsOf is what a backend of this package has done; false for others.
func StatsOf(model.Backend) (Stats, bool) { return Stats{}, false }

// Measure runs every kernel against its CPU stage, and prefill and decode of the model at path, on a device.
func Measure(path string, o Options) (*Report, error) { return nil, unavailable() }
