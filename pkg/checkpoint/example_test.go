package checkpoint_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"forwardpass/pkg/checkpoint"
)

func ExampleOpen() {
	c, err := checkpoint.Open("../../testdata/storyland")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	w, err := c.Tensor("model.embed_tokens.weight")
	fmt.Println(w.Name, w.Type, len(w.Shape), "axes", err)
	_, err = c.Tensor("transformer.wte.weight") // GPT-2's name
	fmt.Println(err)
	// Output:
	// model.embed_tokens.weight BF16 2 axes <nil>
	// checkpoint: ../../testdata/storyland has no tensor "transformer.wte.weight" among its 38
}

// A safetensors file is the length of a table, the table, and the numbers.
func ExampleWriteSafetensors() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tiny.safetensors")
	err = checkpoint.WriteSafetensors(path, map[string]string{"made by": "an example"}, []*checkpoint.Tensor{
		f32("norm.weight", []float32{1, 1}, 2),
		f32("up.weight", []float32{1, 2, 3, 4, 5, 6}, 3, 2),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	file, err := os.ReadFile(path)
	n := binary.LittleEndian.Uint64(file)
	fmt.Println(n, "bytes of table,", len(file)-8-int(n), "bytes of numbers", err)
	fmt.Printf("%s\n", file[8:8+n])
	fmt.Printf("% x …\n", file[8+n:][:12])
	// Output:
	// 168 bytes of table, 32 bytes of numbers <nil>
	// {"__metadata__":{"made by":"an example"},"norm.weight":{"data_offsets":[0,8],"dtype":"F32","shape":[2]},"up.weight":{"data_offsets":[8,32],"dtype":"F32","shape":[3,2]}}
	// 00 00 80 3f 00 00 80 3f 00 00 80 3f …
}

func ExampleCheckpoint_Matrix() {
	c, err := checkpoint.Open("../../testdata/storyland")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	up, err := c.Matrix("model.layers.0.mlp.up_proj.weight", 256, 128) // [out, in]
	fmt.Println(up.Type, up.Rows, up.Cols, len(up.Data), "bytes", err)
	// Output:
	// BF16 256 128 65536 bytes <nil>
}
