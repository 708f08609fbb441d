package main

import "fmt"

// A panel of B is four vectors wide, and six rows of A meet it at a time: 24 of the 32 registers hold the tile of C, six
// hold four numbers of each row of A, and two take turns with vectors of B.
const (
	panelVectors = 4
	tileRows     = 6
)

// gemm is C (+)= A·B for one panel of B: m rows of A at a stride, k numbers each; k rows of B at a stride. A tile of C
// stays in registers over the whole of k; four steps of k load one vector of each row of A and sixteen of B for 96 multiply–adds.
func gemm(a *asm) {
	a.begin("gemmNEON", "c *float32, ldc int, a *float32, lda int, b *float32, ldb, m, k, add int", "",
		"computes C = A·B, or C += A·B if add is not 0, for the 16 columns of a panel. Strides in numbers.")
	g := gemmTile{asm: a, c: a.arg("c"), ldc: a.stride("ldc"), a: a.arg("a"), lda: a.stride("lda"), ldb: a.stride("ldb")}
	m := a.arg("m")
	a.label("full")
	a.code("SUBS $%d, %v", tileRows, m)
	a.code("BLT rest")
	g.tile(tileRows)
	a.code("B full")
	a.label("rest")
	a.code("ADD $%d, %v", tileRows, m)
	for r := 1; r < tileRows; r++ {
		a.code("CMP $%d, %v", r, m)
		a.code("BNE not%d", r)
		g.tile(r)
		a.code("RET")
		a.label(fmt.Sprint("not", r))
	}
	a.code("RET")
}

type gemmTile struct {
	*asm
	c, ldc, a, lda, ldb reg
}

// tile computes rows × a panel's columns of C and moves c and a on by that many rows.
func (g gemmTile) tile(rows int) {
	acc := func(i, j int) int { return panelVectors*i + j }
	const av, bv = panelVectors * tileRows, 30
	l := func(name string) string { return fmt.Sprint(name, rows) }
	g.scope(func() {
		g.zero(0, panelVectors*rows)
		var row []reg
		for range rows {
			row = append(row, g.copyOf(g.a))
			g.code("ADD %v, %v", g.lda, g.a)
		}
		b, k := g.arg("b"), g.arg("k")
		step := func(lane int) {
			for j := range panelVectors {
				g.load('q', bv+j%2, b, 16*j)
				for i := range rows {
					g.byLane("fmla", acc(i, j), bv+j%2, av+i, lane)
				}
			}
			g.code("ADD %v, %v", g.ldb, b)
		}
		g.code("SUBS $4, %v", k)
		g.code("BLT %s", l("tail"))
		g.label(l("loop"))
		for i := range rows {
			g.loadNext('q', av+i, row[i])
		}
		for lane := range 4 {
			step(lane)
		}
		g.code("SUBS $4, %v", k)
		g.code("BGE %s", l("loop"))
		g.label(l("tail"))
		g.code("ADDS $4, %v", k)
		g.code("BEQ %s", l("store"))
		g.label(l("one"))
		for i := range rows {
			g.loadNext('s', av+i, row[i])
		}
		step(0)
		g.code("SUBS $1, %v", k)
		g.code("BNE %s", l("one"))
		g.label(l("store"))
		add := g.arg("add")
		g.code("CBZ %v, %s", add, l("set"))
		c := g.copyOf(g.c)
		for i := range rows {
			g.addTo(acc(i, 0), panelVectors, av, c)
			g.code("ADD %v, %v", g.ldc, c)
		}
		g.label(l("set"))
		for i := range rows {
			for j := 0; j < panelVectors; j += 2 {
				g.storePair(acc(i, j), acc(i, j+1), g.c, 16*j)
			}
			g.code("ADD %v, %v", g.ldc, g.c)
		}
	})
}

// addTo adds n vectors from memory to registers v…; tmp and the one after it are overwritten.
func (a *asm) addTo(v, n, tmp int, p reg) {
	for j := 0; j < n; j += 2 {
		a.loadPair(tmp, tmp+1, p, 16*j)
		a.op("fadd", v+j, v+j, tmp)
		a.op("fadd", v+j+1, v+j+1, tmp+1)
	}
}

// fewRows is how many rows of A the kernel below takes at most.
const fewRows = 3

// few is C += A·B for a few rows of A and two panels of columns: attention's weights times values in a decode step. B
// streams through once, row by row, so that what matters is reading it in long stretches.
func few(a *asm) {
	a.begin("fewNEON", "c *float32, ldc int, a *float32, lda int, b *float32, ldb, m, k int", "",
		"computes C += A·B for 1 to 3 rows and 32 columns. Strides in numbers.")
	c, ldc, first, lda, b, ldb := a.arg("c"), a.stride("ldc"), a.arg("a"), a.stride("lda"), a.arg("b"), a.stride("ldb")
	m, k := a.arg("m"), a.arg("k")
	const vectors, bv, av = 2 * panelVectors, 24, 26
	for n := 1; n <= fewRows; n++ {
		if n < fewRows {
			a.code("CMP $%d, %v", n, m)
			a.code("BNE not%d", n)
		}
		a.scope(func() {
			a.zero(0, vectors*n)
			row := []reg{first}
			for i := 1; i < n; i++ {
				row = append(row, a.reg())
				a.code("ADD %v, %v, %v", lda, row[i-1], row[i])
			}
			a.label(fmt.Sprint("loop", n))
			for i := range n {
				a.loadNext('s', av+i, row[i])
			}
			for j := 0; j < vectors; j += 2 {
				a.loadPair(bv, bv+1, b, 16*j)
				for i := range n {
					a.byLane("fmla", vectors*i+j, bv, av+i, 0)
					a.byLane("fmla", vectors*i+j+1, bv+1, av+i, 0)
				}
			}
			a.code("ADD %v, %v", ldb, b)
			a.code("SUBS $1, %v", k)
			a.code("BNE loop%d", n)
			for i := range n {
				a.addTo(vectors*i, vectors, bv, c)
				for j := 0; j < vectors; j += 2 {
					a.storePair(vectors*i+j, vectors*i+j+1, c, 16*j)
				}
				a.code("ADD %v, %v", ldc, c)
			}
			a.code("RET")
		})
		if n < fewRows {
			a.label(fmt.Sprint("not", n))
		}
	}
}

// pack transposes 16 rows of k numbers into a panel: dst[16·j + row] = src[row·ld + j], in squares of four by four.
func pack(a *asm) {
	a.begin("packNEON", "dst, src *float32, ld, k int", "", "transposes 16 rows of src into a panel; k is a multiple of 4.")
	dst, src, ld, k := a.arg("dst"), a.arg("src"), a.stride("ld"), a.arg("k")
	ld2, ld3 := a.reg(), a.reg()
	a.code("LSL $1, %v, %v", ld, ld2)
	a.code("ADD %v, %v, %v", ld, ld2, ld3)
	var group []reg // of four rows
	for range panelVectors {
		group = append(group, a.copyOf(src))
		a.code("ADD %v<<2, %v", ld, src)
	}
	a.label("loop")
	for g, p := range group {
		a.loadAt(1, p, ld)
		a.loadAt(2, p, ld2)
		a.loadAt(3, p, ld3)
		a.loadNext('q', 0, p)
		for i := 0; i < 4; i += 2 { // pairs of rows
			a.op("trn1", 4+i, i, i+1)
			a.op("trn2", 5+i, i, i+1)
		}
		for i, name := range []string{"trn1.2d", "trn1.2d", "trn2.2d", "trn2.2d"} { // pairs of pairs
			a.op(name, i, 4+i%2, 6+i%2)
			a.store('q', i, dst, 4*(4*panelVectors)*i+16*g)
		}
	}
	a.code("ADD $%d, %v", 4*16*panelVectors, dst)
	a.code("SUBS $4, %v", k)
	a.code("BNE loop")
	a.code("RET")
}
