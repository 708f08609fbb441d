// Package kernels holds the compiled device code: kernels.cu as PTX, which the driver turns into the device's own
// instructions when it is loaded. scripts/ptx.sh makes it.
package kernels

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"sync"
)

//go:embed kernels.ptx.gz
var compressed []byte

//go:embed resources.txt
var resources string

// Resources are the registers of a thread and the bytes of shared memory of a block of a kernel, as ptxas gives them out
// for compute capability 8.0; 0 for a kernel that there isn't.
func Resources(name string) (registers, shared int) {
	for line := range strings.Lines(resources) {
		var n string
		var r, s int
		if k, _ := fmt.Sscan(line, &n, &r, &s); k == 3 && n == name {
			return r, s
		}
	}
	return 0, 0
}

// PTX is the text of the module. It is unpacked once.
var PTX = sync.OnceValues(func() (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
})
