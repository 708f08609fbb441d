package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// gemm is C (+)= A·B for one panel of B that is two vectors wide: m rows of A at a stride, k numbers
// each; k rows of B at a stride. A tile of C (12 × 32 numbers with AVX-512, 6 × 16 with AVX2) stays in
// registers over the whole of k; each step loads two vectors of B and broadcasts one number of A per row.
func gemm(s isa) {
	s.start("gemm", "func(c *float32, ldc int, a *float32, lda int, b *float32, ldb int, m, k int, mask *uint32, add int)",
		"computes C = A·B, or C += A·B if add is not 0, for the columns of one panel that mask selects. Strides in numbers.")
	c, a, lda, ldb, m := param("c"), param("a"), param("lda"), param("ldb"), param("m")
	SHLQ(Imm(2), lda)
	SHLQ(Imm(2), ldb)
	rows := 6
	if s.wide {
		rows = 12
		w := GP32()
		MOVL(Mem{Base: param("mask")}, w)
		KMOVW(w, K1)
		SHRL(Imm(16), w)
		KMOVW(w, K2)
	}
	g := gemmTile{s: s, c: c, a: a, lda: lda, ldb: ldb}
	Label("gemm_full" + s.name)
	CMPQ(m, Imm(uint64(rows)))
	JLT(LabelRef("gemm_rest" + s.name))
	g.tile(rows, "full")
	SUBQ(U32(rows), m)
	JMP(LabelRef("gemm_full" + s.name))
	Label("gemm_rest" + s.name)
	for r := rows - 1; r >= 1; r-- {
		next := fmt.Sprintf("gemm_rest%d%s", r, s.name)
		CMPQ(m, Imm(uint64(r)))
		JNE(LabelRef(next))
		g.tile(r, fmt.Sprintf("rest%d", r))
		VZEROUPPER()
		RET()
		Label(next)
	}
	VZEROUPPER()
	RET()
}

type gemmTile struct {
	s              isa
	c, a, lda, ldb Register
}

// tile computes rows × two vectors of C and moves c and a on by that many rows.
func (g gemmTile) tile(rows int, name string) {
	s, l := g.s, label("gemm"+g.s.name+name)
	acc := func(i, j int) VecPhysical { return s.v(2*i + j) }
	b0, b1, av := s.v(2*rows), s.v(2*rows+1), s.v(2*rows+2)
	if !s.wide {
		b0, b1, av = s.v(12), s.v(13), s.v(14)
	}
	for i := range rows {
		s.zero(acc(i, 0))
		s.zero(acc(i, 1))
	}
	ap := newRows(g.a, g.lda, rows)
	bp, n := param("b"), param("k")
	step := func(u int) {
		m0, m1 := Mem{Base: bp}, Mem{Base: bp, Disp: s.bytes()}
		if s.wide {
			VMOVUPS_Z(m0, K1, b0)
			VMOVUPS_Z(m1, K2, b1)
		} else {
			VMOVUPS(m0, b0)
			VMOVUPS(m1, b1)
		}
		ADDQ(g.ldb, bp)
		for i := range rows {
			VBROADCASTSS(ap.at(i, 4*u), av)
			VFMADD231PS(b0, av, acc(i, 0))
			VFMADD231PS(b1, av, acc(i, 1))
		}
	}
	const unroll = 4
	SUBQ(Imm(unroll), n)
	JLT(LabelRef(l("tail")))
	Label(l("loop"))
	for u := range unroll {
		step(u)
	}
	ap.advance(4 * unroll)
	SUBQ(Imm(unroll), n)
	JGE(LabelRef(l("loop")))
	Label(l("tail"))
	add(unroll, n)
	JZ(LabelRef(l("store")))
	Label(l("one"))
	step(0)
	ap.advance(4)
	DECQ(n)
	JNZ(LabelRef(l("one")))
	Label(l("store"))
	add := param("add")
	TESTQ(add, add)
	JZ(LabelRef(l("set")))
	g.rows(rows, func(i int, m0, m1 Mem) {
		if s.wide {
			VMOVUPS_Z(m0, K1, b0)
			VMOVUPS_Z(m1, K2, b1)
		} else {
			VMOVUPS(m0, b0)
			VMOVUPS(m1, b1)
		}
		VADDPS(b0, acc(i, 0), acc(i, 0))
		VADDPS(b1, acc(i, 1), acc(i, 1))
	})
	Label(l("set"))
	g.rows(rows, func(i int, m0, m1 Mem) {
		if s.wide {
			VMOVUPS(acc(i, 0), K1, m0)
			VMOVUPS(acc(i, 1), K2, m1)
		} else {
			VMOVUPS(acc(i, 0), m0)
			VMOVUPS(acc(i, 1), m1)
		}
	})
	// The next tile: c += rows·ldc, a += rows·lda.
	next := param("ldc")
	IMUL3Q(Imm(uint64(4*rows)), next, next)
	ADDQ(next, g.c)
	IMUL3Q(Imm(uint64(rows)), g.lda, next)
	ADDQ(next, g.a)
}

func (g gemmTile) rows(rows int, f func(i int, m0, m1 Mem)) {
	p, ldc := copyOf(g.c), param("ldc")
	SHLQ(Imm(2), ldc)
	for i := range rows {
		f(i, Mem{Base: p}, Mem{Base: p, Disp: g.s.bytes()})
		if i < rows-1 {
			ADDQ(ldc, p)
		}
	}
}

// pack transposes lanes rows of k numbers (k a multiple of lanes) into a panel of B that is two vectors
// wide: dst[j·2·lanes + row] = src[row·lds + j].
func pack(s isa) {
	s.start("pack", "func(dst, src *float32, lds, k int)",
		"transposes one vector's worth of rows of src into half a panel; k is a multiple of the vector.")
	dst, src, lds, k := param("dst"), param("src"), param("lds"), param("k")
	SHLQ(Imm(2), lds)
	n, panel := s.lanes, 2*s.bytes()
	row := func(base Register, r3 Register, i int) Mem {
		switch i {
		case 0:
			return Mem{Base: base}
		case 1, 2:
			return Mem{Base: base, Index: lds, Scale: uint8(i)}
		}
		return Mem{Base: base, Index: r3, Scale: 1}
	}
	lds3 := GP64()
	LEAQ(Mem{Base: lds, Index: lds, Scale: 2}, lds3)
	Label("pack_loop" + s.name)
	p := copyOf(src)
	if !s.wide {
		for i := range n {
			VMOVUPS(row(p, lds3, i%4), ys[i])
			if i%4 == 3 && i < n-1 {
				LEAQ(Mem{Base: p, Index: lds, Scale: 4}, p)
			}
		}
		// Pairs, then quadruples, then halves of rows.
		for i := 0; i < 8; i += 2 {
			VUNPCKLPS(ys[i+1], ys[i], ys[8+i])
			VUNPCKHPS(ys[i+1], ys[i], ys[9+i])
		}
		for i := 0; i < 8; i += 4 {
			VUNPCKLPD(ys[8+i+2], ys[8+i], ys[i])
			VUNPCKHPD(ys[8+i+2], ys[8+i], ys[i+1])
			VUNPCKLPD(ys[8+i+3], ys[8+i+1], ys[i+2])
			VUNPCKHPD(ys[8+i+3], ys[8+i+1], ys[i+3])
		}
		for i := range 4 {
			VPERM2F128(Imm(0x20), ys[4+i], ys[i], ys[8])
			VPERM2F128(Imm(0x31), ys[4+i], ys[i], ys[9])
			VMOVUPS(ys[8], Mem{Base: dst, Disp: i * panel})
			VMOVUPS(ys[9], Mem{Base: dst, Disp: (4 + i) * panel})
		}
	} else {
		for i := range n {
			VMOVUPS(row(p, lds3, i%4), zs[i])
			if i%4 == 3 && i < n-1 {
				LEAQ(Mem{Base: p, Index: lds, Scale: 4}, p)
			}
		}
		for i := 0; i < 16; i += 2 {
			VUNPCKLPS(zs[i+1], zs[i], zs[16+i])
			VUNPCKHPS(zs[i+1], zs[i], zs[17+i])
		}
		for i := 0; i < 16; i += 4 {
			VUNPCKLPD(zs[16+i+2], zs[16+i], zs[i])
			VUNPCKHPD(zs[16+i+2], zs[16+i], zs[i+1])
			VUNPCKLPD(zs[16+i+3], zs[16+i+1], zs[i+2])
			VUNPCKHPD(zs[16+i+3], zs[16+i+1], zs[i+3])
		}
		// Register 4g+c holds, in its quarter q, column 4q+c of rows 4g…4g+3.
		for c := range 4 {
			VSHUFF32X4(Imm(0x88), zs[4+c], zs[c], zs[16]) // columns c, 8+c of row groups 0, 1
			VSHUFF32X4(Imm(0xdd), zs[4+c], zs[c], zs[17]) // 4+c, 12+c
			VSHUFF32X4(Imm(0x88), zs[12+c], zs[8+c], zs[18])
			VSHUFF32X4(Imm(0xdd), zs[12+c], zs[8+c], zs[19])
			VSHUFF32X4(Imm(0x88), zs[18], zs[16], zs[20])
			VSHUFF32X4(Imm(0x88), zs[19], zs[17], zs[21])
			VSHUFF32X4(Imm(0xdd), zs[18], zs[16], zs[22])
			VSHUFF32X4(Imm(0xdd), zs[19], zs[17], zs[23])
			for i := range 4 {
				VMOVUPS(zs[20+i], Mem{Base: dst, Disp: (4*i + c) * panel})
			}
		}
	}
	add(s.bytes(), src)
	add(n*panel, dst)
	SUBQ(U32(n), k)
	JG(LabelRef("pack_loop" + s.name))
	VZEROUPPER()
	RET()
}
