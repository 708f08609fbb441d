// Package kernels holds the compiled device code: kernels.cu as PTX, which the driver turns into the device's own
// instructions when it is loaded. scripts/ptx.sh makes it.
package kernels

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"sync"
)

//go:embed kernels.ptx.gz
var compressed []byte

// PTX is the text of the module. It is unpacked once.
var PTX = sync.OnceValues(func() (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
})
