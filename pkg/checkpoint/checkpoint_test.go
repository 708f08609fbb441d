package checkpoint_test

import (
	"encoding/binary"
	"math"

	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/tensor"
)

// f32 is a tensor to be written.
func f32(name string, x []float32, shape ...int) *checkpoint.Tensor {
	t := &checkpoint.Tensor{Name: name, Type: tensor.F32, Shape: shape}
	for _, v := range x {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t
}
