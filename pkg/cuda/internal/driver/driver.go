//go:build cuda && cgo

// Package driver provides the CUDA driver symbols gorgonia.org/cu links against by loading
// libcuda at run time, so that one binary starts with and without a driver.
package driver

/*
#cgo LDFLAGS: -L${SRCDIR}/stub -ldl
const char *driver_message(void);
const char *driver_path(void);
*/
import "C"
import "errors"

// Err says why no CUDA driver is usable, or nil.  Valid once gorgonia.org/cu is initialised.
func Err() error {
	if m := C.GoString(C.driver_message()); m != "" {
		return errors.New(m)
	}
	return nil
}

// Path is the library that was loaded.
func Path() string { return C.GoString(C.driver_path()) }
