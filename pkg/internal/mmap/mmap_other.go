//go:build !unix

package mmap

import (
	"io"
	"os"
)

func mapFile(f *os.File, size int) (*File, error) {
	data := make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, &os.PathError{Op: "read", Path: f.Name(), Err: err}
	}
	return &File{Data: data}, nil
}
