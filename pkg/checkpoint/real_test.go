package checkpoint_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"forwardpass/pkg/checkpoint"
)

// models is the directory of real checkpoints, or the test is skipped.
func models(t testing.TB) string {
	dir := os.Getenv("FORWARDPASS_MODELS")
	if dir == "" {
		t.Skip("FORWARDPASS_MODELS is not set")
	}
	return dir
}

func TestSmolLM2(t *testing.T) {
	path := filepath.Join(models(t), "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
	start := time.Now()
	c, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	t.Logf("opened in %v", time.Since(start))
	t.Log(len(c.Names()), c.Meta["general.architecture"])
	for k, v := range c.Meta {
		switch v := v.(type) {
		case []string:
			t.Log(k, len(v))
		case []int64:
			t.Log(k, len(v))
		default:
			t.Log(k, v)
		}
	}
	types := map[string]int{}
	for _, n := range c.Names() {
		x, err := c.Tensor(n)
		if err != nil {
			t.Fatal(err)
		}
		types[x.Type.String()]++
	}
	t.Log(types)
	start = time.Now()
	if err := c.CheckFinite(t.Context(), nil); err != nil {
		t.Error(err)
	}
	t.Log(time.Since(start))
}
