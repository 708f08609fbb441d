package tensor

// Linear is a fully connected layer, y = x·Wᵀ + b, as PyTorch's nn.Linear stores it.
type Linear struct {
	W    *Matrix   // [out, in]
	Bias []float32 // [out] or nil
}

// To is the layer as a product that writes into dst: what MatMuls takes.
func (l Linear) To(dst *Tensor) Product { return Product{Dst: dst, W: l.W, Bias: l.Bias} }

// Forward returns y [T, out] for x [T, in].
func (l Linear) Forward(x *Tensor) (*Tensor, error) {
	p := l.To(&Tensor{})
	if err := MatMuls(x, p); err != nil {
		return nil, err
	}
	return p.Dst, nil
}
