// Package checkpoint opens the files that trained weights come in and hands them out by name, where they
// lie: the file is memory-mapped, a matrix is a window on it in the type that is stored, and opening a
// model of any size takes milliseconds, since no weight is read before the forward pass needs it.
//
//	safetensors   a JSON table of names, types, shapes and byte ranges, then the numbers (Hugging Face)
//	              F32, F16, BF16; in shards with an index; config.json says which model it is
//	GGUF          hyperparameters, vocabulary and (mostly quantised) weights in one file (llama.cpp)
//	llama2.c      seven integers and all the float32 weights in a fixed order (run.c)
//
// Every byte range is checked when the file is opened, so that a broken file is an error here, with file,
// tensor and offset, and never a wrong number later. Not covered: a mapped file that another program
// shortens while it is in use; the operating system then ends this program.
package checkpoint

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"forwardpass/pkg/internal/mmap"
	"forwardpass/pkg/tensor"
)

// Format is the kind of checkpoint.
type Format int

const (
	HuggingFace Format = iota // safetensors and config.json
	GGUF
	Llama2C
)

func (f Format) String() string {
	return [...]string{"Hugging Face", "GGUF", "llama2.c"}[f]
}

// Tensor is a named tensor as it is stored. Data is a window on the mapped file: it must not be written,
// and not be used after Close.
type Tensor struct {
	Name   string
	Type   tensor.DType
	Shape  []int // row-major, outermost first, as in PyTorch (GGUF stores the reverse)
	Data   []byte
	File   string
	Offset int64 // of Data in File
}

// Checkpoint is an open checkpoint. Its methods may be called from several goroutines, except Close.
type Checkpoint struct {
	Path       string
	Format     Format
	Config     []byte // config.json as it is; Hugging Face only
	ConfigFile string // the path of that file
	Generation []byte // generation_config.json, or nil
	// Meta is GGUF's metadata: string, bool, int64 (all integers), float64 (all floats), []string,
	// []int64, []float64, []bool, or []any of arrays. Of a safetensors file it is __metadata__: strings.
	// Of a llama2.c file it is the header under GGUF's names of the llama architecture.
	Meta map[string]any

	entries map[string]*entry
	files   []*mmap.File

	mu    sync.Mutex
	asked map[string]bool
}

// entry is a tensor of any type, also of those that no model computes with.
type entry struct {
	Tensor
	stored   string // the type's name in the file
	computes bool   // Type is valid
}

// Open opens the checkpoint at path:
//   - a directory with config.json and model.safetensors, or model.safetensors.index.json and its shards
//   - a .safetensors file, with config.json beside it
//   - a .gguf file, or the first of the parts of a model that llama.cpp has split
//   - a .bin file of llama2.c (the legacy format that run.c reads)
//
// It reads and checks the tables of all files, but no weights. Close it when the weights are not needed
// any more; a program that keeps its model until it ends need not.
func Open(path string) (*Checkpoint, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	c := &Checkpoint{Path: path, Meta: map[string]any{}, entries: map[string]*entry{}, asked: map[string]bool{}}
	switch ext := strings.ToLower(filepath.Ext(path)); {
	case info.IsDir():
		err = c.openDirectory(path)
	case ext == ".safetensors":
		if err = c.readConfig(filepath.Dir(path)); err == nil {
			err = c.addSafetensors(path)
		}
	case ext == ".gguf":
		err = c.openGGUF(path)
	case ext == ".bin":
		err = c.openLlama2C(path)
	default:
		err = fmt.Errorf("%s: want a directory with config.json, or a .safetensors, .gguf or llama2.c .bin file", path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("checkpoint: %w", err), c.Close())
	}
	return c, nil
}

// Names lists all tensors, sorted.
func (c *Checkpoint) Names() []string { return slices.Sorted(maps.Keys(c.entries)) }

// Has says whether there is a tensor of that name.
func (c *Checkpoint) Has(name string) bool { return c.entries[name] != nil }

// Unused lists the tensors that nobody has asked for, sorted: weights that a model forgot.
func (c *Checkpoint) Unused() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(c.Names(), func(name string) bool { return c.asked[name] })
}

// Close unmaps the files. Tensors and matrices of this checkpoint must not be used afterwards.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.Close())
	}
	c.files, c.entries = nil, nil
	return errors.Join(errs...)
}

// load maps a file and hands its bytes to parse, whose tensors it adds.
func (c *Checkpoint) load(path string, parse func(data []byte, file string) ([]*entry, error)) error {
	f, err := mmap.Open(path)
	if err != nil {
		return err
	}
	c.files = append(c.files, f)
	entries, err := parse(f.Data, path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, e := range entries {
		if other := c.entries[e.Name]; other != nil {
			return fmt.Errorf("%s: tensor %q is in %s too", path, e.Name, other.File)
		}
		c.entries[e.Name] = e
	}
	return nil
}
