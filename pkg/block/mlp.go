package block

import (
	"fmt"

	"forwardpass/pkg/tensor"
)

// Activation is the nonlinear function of an MLP.
type Activation uint8

const (
	SiLU     Activation = iota // x·sigmoid(x); with a gate: SwiGLU (Shazeer 2020, arXiv:2002.05202)
	GELU                       // x·Φ(x); with a gate: GeGLU
	GELUTanh                   // GELU by the tanh approximation
	ReLU                       // max(x, 0)
)

func (a Activation) String() string {
	if a > ReLU {
		return fmt.Sprintf("Activation(%d)", uint8(a))
	}
	return [...]string{"SiLU", "GELU", "GELU (tanh)", "ReLU"}[a]
}

// Apply replaces every number of x by its activation.
func (a Activation) Apply(x []float32) {
	switch a {
	case SiLU:
		tensor.SiLU(x)
	case GELU:
		tensor.GELU(x)
	case GELUTanh:
		tensor.GELUTanh(x)
	case ReLU:
		for i := range x {
			x[i] = max(x[i], 0)
		}
	}
}

// MLP works on each token alone (chapter section 2.4):
//
//	plain:  down(act(up(x)))              GPT-2, GPT-NeoX, Phi
//	gated:  down(act(gate(x)) ⊙ up(x))    Llama and most since
type MLP struct {
	Gate *tensor.Linear // C → I, nil for the plain form
	Up   tensor.Linear  // C → I
	Down tensor.Linear  // I → C
	Act  Activation
}

// Scratch holds the buffers of MLP and MoE from call to call.
type Scratch struct {
	gate, up       tensor.Tensor
	in, out        tensor.Tensor
	inner          *Scratch
	logits, scores tensor.Tensor
	picks          []Pick
}

// Forward returns the MLP of every row. x [T, C] → [T, C]
func (m *MLP) Forward(x *tensor.Tensor) (*tensor.Tensor, error) {
	y := &tensor.Tensor{}
	return y, m.ForwardInto(y, x, &Scratch{})
}

// ForwardInto is Forward into dst, resized, with buffers that are kept (nil: new ones).
func (m *MLP) ForwardInto(dst, x *tensor.Tensor, s *Scratch) error {
	if s == nil {
		s = &Scratch{}
	}
	if m.Gate == nil {
		if err := tensor.MatMuls(x, m.Up.To(&s.up)); err != nil { // [T, I]
			return fmt.Errorf("block: mlp: %w", err)
		}
		m.Act.Apply(s.up.Data)
		return tensor.MatMuls(&s.up, m.Down.To(dst)) // [T, C]
	}
	if err := tensor.MatMuls(x, m.Gate.To(&s.gate), m.Up.To(&s.up)); err != nil { // [T, I] both
		return fmt.Errorf("block: mlp: %w", err)
	}
	if m.Gate.W.Rows != m.Up.W.Rows {
		return fmt.Errorf("block: mlp: the gate makes %d features, up %d: they must be the same", m.Gate.W.Rows, m.Up.W.Rows)
	}
	m.Act.Apply(s.gate.Data)
	tensor.Mul(s.gate.Data, s.up.Data)             // [T, I]
	return tensor.MatMuls(&s.gate, m.Down.To(dst)) // [T, C]
}
