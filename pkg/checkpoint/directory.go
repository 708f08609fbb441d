package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

const (
	weightsFile = "model.safetensors"
	indexFile   = "model.safetensors.index.json"
)

// openDirectory opens a Hugging Face directory: config.json and one file of weights, or an index and
// its shards.
func (c *Checkpoint) openDirectory(dir string) error {
	if err := c.readConfig(dir); err != nil {
		return err
	}
	if exists(filepath.Join(dir, weightsFile)) {
		return c.addSafetensors(filepath.Join(dir, weightsFile))
	}
	text, err := os.ReadFile(filepath.Join(dir, indexFile))
	switch {
	case errors.Is(err, fs.ErrNotExist) && exists(filepath.Join(dir, "pytorch_model.bin")):
		return fmt.Errorf("%s holds pytorch_model.bin only: a pickle runs code when it is read; save the model as safetensors", dir)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s holds neither %s nor %s", dir, weightsFile, indexFile)
	case err != nil:
		return err
	}
	shards, err := parseIndex(text)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, indexFile), err)
	}
	return c.addShards(dir, shards)
}

// readConfig reads config.json, which must be there, and generation_config.json, which may be.
func (c *Checkpoint) readConfig(dir string) (err error) {
	c.ConfigFile = filepath.Join(dir, "config.json")
	c.Config, err = os.ReadFile(c.ConfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		if ggufs, _ := filepath.Glob(filepath.Join(dir, "*.gguf")); len(ggufs) > 0 {
			return fmt.Errorf("%s has no config.json; open its GGUF file by name: %s", dir, ggufs[0])
		}
		return fmt.Errorf("%s has no config.json, which says what model this is", dir)
	}
	if err != nil {
		return err
	}
	c.Generation, err = os.ReadFile(filepath.Join(dir, "generation_config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		c.Generation, err = nil, nil
	}
	return err
}

// parseIndex reads model.safetensors.index.json: the tensors of each shard.
func parseIndex(text []byte) (shards map[string][]string, err error) {
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("bad JSON: %w", err)
	}
	if len(index.WeightMap) == 0 {
		return nil, fmt.Errorf("weight_map is missing or empty")
	}
	shards = map[string][]string{}
	for name, file := range index.WeightMap {
		if file == "." || filepath.Base(file) != file || !filepath.IsLocal(file) {
			return nil, fmt.Errorf("tensor %q: %q is no name of a file in this directory", name, file)
		}
		shards[file] = append(shards[file], name)
	}
	return shards, nil
}

// addShards maps every shard and checks that the tensors are where the index says.
func (c *Checkpoint) addShards(dir string, shards map[string][]string) error {
	for _, file := range slices.Sorted(maps.Keys(shards)) {
		names := shards[file]
		path := filepath.Join(dir, file)
		slices.Sort(names)
		if !exists(path) {
			return fmt.Errorf("shard %s is absent: the index places %d tensors in it, %q first", path, len(names), names[0])
		}
		if err := c.addSafetensors(path); err != nil {
			return err
		}
		for _, name := range names {
			if e := c.entries[name]; e == nil || e.File != path {
				return fmt.Errorf("%s: the index places tensor %q here, but it is absent", path, name)
			}
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
