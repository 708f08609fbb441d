//go:build !amd64 && !arm64

package kernel

func detect() []Level { return []Level{Go} }

// The functions below are never reached at level Go.

func panelWidth() int { return 16 }

func gemmPanel(c *float32, ldc int, a *float32, lda int, b *float32, ldb, m, k, n int, add bool) {}

func packRows(dst, src *float32, ld, k int) {}

func dotRows(y *float32, ldy int, x *float32, ldx int, w *float32, ldw, t, rows, k int) {}

func matVec(y []float32, in *Input, typ Type, w []byte, rows int) bool { return false }

func fewKernel(typ Type, k int) bool { return false }

func dotFew(y *float32, ldy int, x *float32, ldx, t int, typ Type, w *byte, ldw, rows, k int) {}

func groupSums(dst, x []float32) {}

var widths [Q6_K + 1]int

var dequants [Q6_K + 1]func(dst *float32, src *byte, blocks int)

// Pause does nothing here.
func Pause() {}

func vecAdd(y, x []float32)                        {}
func vecMul(y, x []float32)                        {}
func vecAxpy(y []float32, a float32, x []float32)  {}
func vecScale(x []float32, a float32)              {}
func vecMax(x []float32) float32                   { return 0 }
func vecExpSum(x []float32, shift float32) float32 { return 0 }
func vecSiLU(x []float32)                          {}
func vecGELUTanh(x []float32)                      {}

func readAll(b []byte)     { plainRead(b) }
func fmaAll(n int) float64 { return plainFMA(n) }

func quantizeRow(q []int8, scales, sums32, sums16, x []float32) {}

func int8Rows(y []float32, in *Input, i int, typ Type, w []byte, rows int) {}

var byteDots = false

func fewRows() int { return 0 }

func fewPanel(c *float32, ldc int, a *float32, lda int, b *float32, ldb, m, k, n int) {}
