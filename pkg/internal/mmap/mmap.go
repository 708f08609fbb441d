// Package mmap shows a file as a slice of bytes. On Unix the file is mapped: nothing is read until it
// is touched, the operating system drops pages it needs elsewhere, and two programs that map one file
// share its memory. On other systems the file is read.
//
// The bytes must not be written. A file that somebody else shortens while it is mapped kills the
// program when the lost part is touched (SIGBUS); that can't be turned into an error here.
package mmap

import (
	"fmt"
	"os"
)

// File is a file in memory.
type File struct {
	Data  []byte
	unmap func([]byte) error
}

// Open maps the file at path. A file of no bytes is an error, and so is a directory.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // a mapping outlives its descriptor
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	case info.Size() == 0:
		return nil, fmt.Errorf("%s: the file is empty", path)
	case int64(int(info.Size())) != info.Size():
		return nil, fmt.Errorf("%s: %d bytes are more than this system can address", path, info.Size())
	}
	return mapFile(f, int(info.Size()))
}

// Close gives the memory back; Data must not be used afterwards. A second call does nothing.
func (f *File) Close() error {
	data := f.Data
	f.Data = nil
	if data == nil || f.unmap == nil {
		return nil
	}
	return f.unmap(data)
}
