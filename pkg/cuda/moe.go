//go:build linux && cuda && cgo

package cuda

import (
	"fmt"

	"forwardpass/pkg/block"
	"forwardpass/pkg/tensor"
)

// experts is a mixture's weights: for each projection the experts' addresses, [3, E]: quants, scales, minima.
type experts struct {
	gate, up, down *expertLayer
	correction     ptr
}

type expertLayer struct {
	kind     string
	ld       int
	out, in  int
	pointers ptr
}

// moeScratch holds the steps of a mixture.
type moeScratch struct {
	logits        *tensor.Tensor // [T, E]
	pick, weight  *tensor.Tensor // [T, k]
	order, first  *tensor.Tensor // [T·k], [E+1]
	gate, up, out *tensor.Tensor // [T·k, I], [T·k, I], [T·k, C]
}

func (b *Backend) mixture(m *block.MoE) (*experts, error) {
	if e, ok := b.experts[m]; ok {
		return e, nil
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	e := &experts{}
	layer := func(of func(*block.MLP) *tensor.Linear) (*expertLayer, error) {
		first := of(&m.Experts[0])
		if first == nil {
			return nil, nil
		}
		l := &expertLayer{out: first.W.Rows, in: first.W.Cols}
		n := len(m.Experts)
		list := make([]ptr, 3*n)
		for i := range m.Experts {
			p := of(&m.Experts[i])
			if p == nil || p.Bias != nil || p.W.Rows != l.out || p.W.Cols != l.in || p.W.Type != first.W.Type || m.Experts[i].Act != m.Experts[0].Act {
				return nil, fmt.Errorf("cuda: experts with biases or of different shapes, types or activations are not supported (expert %d)", i)
			}
			w, err := b.weight(p.W)
			if err != nil {
				return nil, err
			}
			l.kind, l.ld = w.kind, w.ld
			list[i], list[n+i], list[2*n+i] = w.w, w.d, w.m
		}
		var err error
		l.pointers, err = b.addresses(list)
		return l, err
	}
	var err error
	if e.gate, err = layer(func(x *block.MLP) *tensor.Linear { return x.Gate }); err != nil {
		return nil, err
	}
	if e.up, err = layer(func(x *block.MLP) *tensor.Linear { return &x.Up }); err != nil {
		return nil, err
	}
	if e.down, err = layer(func(x *block.MLP) *tensor.Linear { return &x.Down }); err != nil {
		return nil, err
	}
	if e.correction, err = b.vector(m.Correction); err != nil {
		return nil, err
	}
	b.experts[m] = e
	return e, nil
}

// MoE sends each token to TopK experts: x [T, C] → dst [T, C]. Nothing about the routing comes to the host, unless router
// asks for the logits [T, experts].
func (b *Backend) MoE(dst, x *tensor.Tensor, m *block.MoE, router func(*tensor.Tensor) error) error {
	e, err := b.mixture(m)
	if err != nil {
		return err
	}
	s := &b.moe
	if err := b.Linear(x, m.Router.To(s.logits)); err != nil { // [T, E]
		return err
	}
	t, n, k := x.Rows(), len(m.Experts), m.TopK
	if n > 4096 {
		return fmt.Errorf("cuda: %d experts are not supported, want at most 4096", n)
	}
	pick, err := b.resize(s.pick, t, k)
	if err != nil {
		return err
	}
	weight, err := b.resize(s.weight, t, k)
	if err != nil {
		return err
	}
	groups := max(m.Groups, 1)
	err = b.dev.launch("route", dim{t, 1, 1}, 32, 4*(2*n+groups), pick, weight, at(s.logits), e.correction, n, k, m.Sigmoid,
		m.Normalize, m.RoutedScale, groups, m.TopGroups)
	if err != nil {
		return err
	}
	if router != nil {
		host, err := b.Read(s.logits)
		if err != nil {
			return err
		}
		if err := router(host); err != nil {
			return err
		}
	}
	if t > gemvTokens {
		order, err := b.resize(s.order, t*k)
		if err != nil {
			return err
		}
		first, err := b.resize(s.first, n+1)
		if err != nil {
			return err
		}
		if err := b.dev.launch("sort_picks", dim{1, 1, 1}, min((n+31)/32*32, 1024), 4*n, order, first, pick, t*k, n); err != nil {
			return err
		}
	}
	inner := s.up
	if err := b.expert(s.up, at(x), e.up, t, k, k, n); err != nil { // [T·k, I]
		return err
	}
	if e.gate != nil {
		if err := b.expert(s.gate, at(x), e.gate, t, k, k, n); err != nil { // [T·k, I]
			return err
		}
		inner = s.gate
	}
	gated := s.up
	if e.gate == nil {
		gated = nil
	}
	if err := b.activate(inner, gated, m.Experts[0].Act); err != nil {
		return err
	}
	if err := b.expert(s.out, at(inner), e.down, t, k, 1, n); err != nil { // [T·k, C]
		return err
	}
	c := x.Dim(-1)
	if m.Shared != nil {
		if err := b.MLP(dst, x, m.Shared); err != nil {
			return err
		}
	} else if _, err := b.resize(dst, t, c); err != nil {
		return err
	}
	return b.dev.launch("moe_sum", dim{t, 1, 1}, threads(c), 0, at(dst), at(s.out), weight, k, c, m.Shared != nil)
}

// expert is one projection of every pick: pick p reads row p/div of x → dst [T·k, out]
func (b *Backend) expert(dst *tensor.Tensor, x ptr, l *expertLayer, t, k, div, n int) error {
	y, err := b.resize(dst, t*k, l.out)
	if err != nil {
		return err
	}
	s := &b.moe
	if t <= gemvTokens {
		return b.dev.launch("moe_gemv_"+l.kind, dim{(l.out + gemvBlock - 1) / gemvBlock, t * k, 1}, 128, 0,
			y, x, l.pointers, at(s.pick), div, n, l.ld, l.out, l.in)
	}
	if l.kind == "f16" || l.kind == "bf16" {
		grid := dim{(l.out + tensorTile - 1) / tensorTile, (t + tensorTile - 1) / tensorTile, n}
		return b.dev.launch(b.tensorKernel("moe_tensor_", l.kind), grid, 256, 0, y, x, l.pointers, at(s.order), at(s.first), div, l.ld, l.out, l.in)
	}
	return b.dev.launch("moe_gemm_"+l.kind, dim{(l.out + gemmTile - 1) / gemmTile, (t + gemmTile - 1) / gemmTile, n}, 256, 0,
		y, x, l.pointers, at(s.order), at(s.first), div, n, l.ld, l.out, l.in)
}
