package main

import (
	"bytes"
	"fmt"
	"strings"
)

// asm writes functions in the syntax of Go's assembler, and their declarations for Go. Go's assembler knows few
// vector instructions, so that all of them are written as numbers, with GNU's syntax beside; addresses, counters and
// jumps are written as Go has them.
type asm struct {
	text, stubs bytes.Buffer
	args        map[string]arg
	result      int // where the function's result lies
	used        int // general registers given out
}

type arg struct {
	offset int
	float  bool
}

// reg is a general register; vector registers are plain numbers.
type reg int

func (r reg) String() string { return fmt.Sprintf("R%d", int(r)) }

// general are the registers that a function may use: 18 is the system's, 27 the assembler's, 28 Go's.
var general = []reg{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26}

// begin opens a function. params are written as in Go: pointers, int and float32; result is "" or float32.
func (a *asm) begin(name, params, result, doc string) {
	a.args, a.used = map[string]arg{}, 0
	fields := strings.Split(params, ", ")
	types := make([]string, len(fields))
	for i := len(fields) - 1; i >= 0; i-- { // "a, b int": the type is the next one that is named
		var named bool
		if fields[i], types[i], named = strings.Cut(fields[i], " "); !named {
			types[i] = types[i+1]
		}
	}
	size := 0
	for i, f := range fields {
		a.args[f] = arg{size, types[i] == "float32"}
		if types[i] == "float32" {
			size += 4
		} else {
			size += 8
		}
	}
	if result != "" {
		a.result = (size + 7) &^ 7
		size = a.result + 4
		result = " " + result
	}
	fmt.Fprintf(&a.text, "\n// func %s(%s)%s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", name, params, result, name, size)
	fmt.Fprintf(&a.stubs, "\n// %s %s\n//\n//go:noescape\nfunc %s(%s)%s\n", name, doc, name, params, result)
}

// code writes a line of Go's assembler.
func (a *asm) code(format string, v ...any) { fmt.Fprintf(&a.text, "\t"+format+"\n", v...) }

func (a *asm) label(name string) { fmt.Fprintf(&a.text, "%s:\n", name) }

// reg gives a general register out, until release.
func (a *asm) reg() reg {
	a.used++
	return general[a.used-1]
}

// copyOf is a new register with the value of another.
func (a *asm) copyOf(r reg) reg {
	c := a.reg()
	a.code("MOVD %v, %v", r, c)
	return c
}

// scope runs f and takes back the registers that it was given.
func (a *asm) scope(f func()) {
	used := a.used
	f()
	a.used = used
}

// arg loads an argument into a new register.
func (a *asm) arg(name string) reg {
	r := a.reg()
	a.code("MOVD %s+%d(FP), %v", name, a.args[name].offset, r)
	return r
}

// stride is arg for a number of float32, in bytes.
func (a *asm) stride(name string) reg {
	r := a.arg(name)
	a.code("LSL $2, %v, %v", r, r)
	return r
}

// floatArg loads a float32 argument into every lane of vector register v.
func (a *asm) floatArg(name string, v int) {
	a.code("FMOVS %s+%d(FP), F%d", name, a.args[name].offset, v)
	a.dup(v, v, 0)
}

// floatResult returns lane 0 of vector register v.
func (a *asm) floatResult(v int) { a.code("FMOVS F%d, ret+%d(FP)", v, a.result) }

// table writes constant bytes; address makes a pointer to them.
func (a *asm) table(name string, b []byte) {
	fmt.Fprintln(&a.text)
	for i := 0; i < len(b); i += 4 {
		fmt.Fprintf(&a.text, "DATA %s<>+%d(SB)/4, $0x%02x%02x%02x%02x\n", name, i, b[i+3], b[i+2], b[i+1], b[i])
	}
	fmt.Fprintf(&a.text, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n", name, len(b))
}

func (a *asm) address(table string) reg {
	r := a.reg()
	a.code("MOVD $%s<>(SB), %v", table, r)
	return r
}

func (a *asm) word(w uint32, format string, v ...any) {
	fmt.Fprintf(&a.text, "\tWORD $0x%08x // %s\n", w, fmt.Sprintf(format, v...))
}

// instruction is a vector instruction on registers: its bits without the registers' numbers, which stand at
// bits 0, 5 and 16 in the order of the operands (Arm Architecture Reference Manual, C7.2), and the operands, # for a number.
type instruction struct {
	bits     uint32
	operands string
}

const (
	words3 = "v#.4s, v#.4s, v#.4s"
	words2 = "v#.4s, v#.4s"
	bytes3 = "v#.16b, v#.16b, v#.16b"
	longs3 = "v#.2d, v#.2d, v#.2d"
	lane3  = "s#, s#, s#"
)

// What follows the point of a name tells two forms of an instruction apart.
var instructions = map[string]instruction{
	"add":       {0x4ea08400, words3},
	"addv":      {0x4eb1b800, "s#, v#.4s"},
	"and":       {0x4e201c00, bytes3},
	"bic":       {0x4e601c00, bytes3},
	"cmtst":     {0x4e208c00, bytes3},
	"fabs":      {0x4ea0f800, words2},
	"fadd":      {0x4e20d400, words3},
	"fadd.s":    {0x1e202800, lane3},
	"faddp":     {0x6e20d400, words3},
	"faddp.s":   {0x7e30d800, "s#, v#.2s"},
	"fcmgt":     {0x6ea0e400, words3},
	"fcvt":      {0x1ee24000, "s#, h#"},
	"fcvtl":     {0x0e217800, "v#.4s, v#.4h"},
	"fcvtl2":    {0x4e217800, "v#.4s, v#.8h"},
	"fcvtns":    {0x4e21a800, words2},
	"fdiv":      {0x6e20fc00, words3},
	"fdiv.s":    {0x1e201800, lane3},
	"fmax":      {0x4e20f400, words3},
	"fmax.s":    {0x1e204800, lane3},
	"fmaxv":     {0x6e30f800, "s#, v#.4s"},
	"fmin":      {0x4ea0f400, words3},
	"fmla":      {0x4e20cc00, words3},
	"fmls":      {0x4ea0cc00, words3},
	"fmul":      {0x6e20dc00, words3},
	"fmul.s":    {0x1e200800, lane3},
	"fneg":      {0x6ea0f800, words2},
	"frintn":    {0x4e218800, words2},
	"fsub":      {0x4ea0d400, words3},
	"orr":       {0x4ea01c00, bytes3},
	"sadalp":    {0x4e606800, "v#.4s, v#.8h"},
	"saddlp":    {0x4e602800, "v#.4s, v#.8h"},
	"scvtf":     {0x4e21d800, words2},
	"scvtf.s":   {0x5e21d800, "s#, s#"},
	"scvtf.24":  {0x4f28e400, "v#.4s, v#.4s, #24"}, // the integer is the number times 2²⁴
	"sdot":      {0x4e809400, "v#.4s, v#.16b, v#.16b"},
	"shl.23":    {0x4f375400, "v#.4s, v#.4s, #23"},
	"shll":      {0x2e613800, "v#.4s, v#.4h, #16"},
	"shll2":     {0x6e613800, "v#.4s, v#.8h, #16"},
	"smlal2":    {0x4e208000, "v#.8h, v#.16b, v#.16b"},
	"smull":     {0x0e20c000, "v#.8h, v#.8b, v#.8b"},
	"sqxtn.4h":  {0x0e614800, "v#.4h, v#.4s"},
	"sqxtn2.8h": {0x4e614800, "v#.8h, v#.4s"},
	"sqxtn.8b":  {0x0e214800, "v#.8b, v#.8h"},
	"sqxtn2":    {0x4e214800, "v#.16b, v#.8h"},
	"sub.16b":   {0x6e208400, bytes3},
	"tbl":       {0x4e000000, "v#.16b, {v#.16b}, v#.16b"},
	"trn1":      {0x4e802800, words3},
	"trn2":      {0x4e806800, words3},
	"trn1.2d":   {0x4ec02800, longs3},
	"trn2.2d":   {0x4ec06800, longs3},
	"zip1":      {0x4e803800, words3},
	"zip2":      {0x4e807800, words3},
}

// op writes an instruction on vector registers, the destination first.
func (a *asm) op(name string, regs ...int) {
	in, ok := instructions[name]
	if !ok || len(regs) != strings.Count(in.operands, "#")-strings.Count(in.operands, ", #") {
		panic(fmt.Sprint("no instruction ", name, regs))
	}
	mnemonic, _, _ := strings.Cut(name, ".")
	w, text := in.bits, in.operands
	for i, r := range regs {
		w |= uint32(r) << [...]int{0, 5, 16}[i]
		text = strings.Replace(text, "#", fmt.Sprint(r), 1)
	}
	a.word(w, "%s %s", mnemonic, text)
}

// byLane is fmla, fmls or fmul of d and n with lane i of m.
func (a *asm) byLane(name string, d, n, m, i int) {
	bits := map[string]uint32{"fmla": 0x4f801000, "fmls": 0x4f805000, "fmul": 0x4f809000}[name]
	a.word(bits|uint32(i&1<<21|i>>1<<11|m<<16|n<<5|d), "%s v%d.4s, v%d.4s, v%d.s[%d]", name, d, n, m, i)
}

// dup copies lane i of n to all of d.
func (a *asm) dup(d, n, i int) {
	a.word(0x4e040400|uint32(i<<19|n<<5|d), "dup v%d.4s, v%d.s[%d]", d, n, i)
}

// move copies a register.
func (a *asm) move(d, n int) {
	a.word(0x4ea01c00|uint32(n<<16|n<<5|d), "mov v%d.16b, v%d.16b", d, n)
}

// insert writes half i of d.
func (a *asm) insert(d, i int, r reg) {
	a.word(0x4e081c00|uint32(i<<20|int(r)<<5|d), "mov v%d.d[%d], x%d", d, i, int(r))
}

// bytes fills d with one byte.
func (a *asm) bytes(d, imm int) {
	a.word(0x4f00e400|uint32(imm>>5<<16|imm&31<<5|d), "movi v%d.16b, #%d", d, imm)
}

// shift moves the bits of every byte of n left by a positive number, right by a negative one.
func (a *asm) shift(d, n, by int) {
	switch {
	case by > 0:
		a.word(0x4f005400|uint32((8+by)<<16|n<<5|d), "shl v%d.16b, v%d.16b, #%d", d, n, by)
	case by < 0:
		a.word(0x6f000400|uint32((16+by)<<16|n<<5|d), "ushr v%d.16b, v%d.16b, #%d", d, n, -by)
	default:
		a.move(d, n)
	}
}

// The sizes of loads and stores: a whole vector, or its first number of so many bytes with zeros above.
var sizes = map[byte]struct {
	bits uint32
	size int
}{'q': {0x3c800000, 16}, 'd': {0xfc000000, 8}, 's': {0xbc000000, 4}, 'h': {0x7c000000, 2}}

const loads = 0x00400000

// load and store reach off bytes from p.
func (a *asm) load(size byte, v int, p reg, off int)  { a.memory("ldr", loads, size, v, p, off) }
func (a *asm) store(size byte, v int, p reg, off int) { a.memory("str", 0, size, v, p, off) }

func (a *asm) memory(name string, bits uint32, size byte, v int, p reg, off int) {
	s := sizes[size]
	bits |= s.bits | uint32(int(p)<<5|v)
	switch {
	case off >= 0 && off%s.size == 0 && off/s.size < 1<<12:
		bits |= 0x01000000 | uint32(off/s.size)<<10
	case off >= -256 && off < 256:
		name = strings.Replace(name, "r", "ur", 1) // ldur, stur
		bits |= uint32(off&0x1ff) << 12
	default:
		panic(fmt.Sprint("offset ", off))
	}
	a.word(bits, "%s %c%d, [x%d, #%d]", name, size, v, int(p), off)
}

// loadNext and storeNext move p on by what they read or write.
func (a *asm) loadNext(size byte, v int, p reg)  { a.next("ldr", loads, size, v, p) }
func (a *asm) storeNext(size byte, v int, p reg) { a.next("str", 0, size, v, p) }

func (a *asm) next(name string, bits uint32, size byte, v int, p reg) {
	s := sizes[size]
	a.word(bits|s.bits|uint32(0x400|s.size<<12|int(p)<<5|v), "%s %c%d, [x%d], #%d", name, size, v, int(p), s.size)
}

// loadAt loads a vector at p plus a register's number of bytes.
func (a *asm) loadAt(v int, p, off reg) {
	a.word(0x3ce06800|uint32(int(off)<<16|int(p)<<5|v), "ldr q%d, [x%d, x%d]", v, int(p), int(off))
}

// Two vectors at once, v and v2, at p plus off or at p, which moves on.
func (a *asm) loadPair(v, v2 int, p reg, off int) {
	a.word(0xad400000|uint32(off/16<<15|v2<<10|int(p)<<5|v), "ldp q%d, q%d, [x%d, #%d]", v, v2, int(p), off)
}

func (a *asm) storePair(v, v2 int, p reg, off int) {
	a.word(0xad000000|uint32(off/16<<15|v2<<10|int(p)<<5|v), "stp q%d, q%d, [x%d, #%d]", v, v2, int(p), off)
}

func (a *asm) loadPairNext(v, v2 int, p reg) {
	a.word(0xacc10000|uint32(v2<<10|int(p)<<5|v), "ldp q%d, q%d, [x%d], #32", v, v2, int(p))
}

func (a *asm) storePairNext(v, v2 int, p reg) {
	a.word(0xac810000|uint32(v2<<10|int(p)<<5|v), "stp q%d, q%d, [x%d], #32", v, v2, int(p))
}

// loadsNext loads n vectors that follow each other.
func (a *asm) loadsNext(v, n int, p reg) {
	for ; n >= 2; v, n = v+2, n-2 {
		a.loadPairNext(v, v+1, p)
	}
	if n > 0 {
		a.loadNext('q', v, p)
	}
}

// broadcastNext loads a number into every lane.
func (a *asm) broadcastNext(v int, p reg) {
	a.word(0x4ddfc800|uint32(int(p)<<5|v), "ld1r {v%d.4s}, [x%d], #4", v, int(p))
}

// while repeats body as long as `count` of the numbers that n counts are left, and counts them off.
func (a *asm) while(name string, count int, n reg, body func()) {
	a.code("SUBS $%d, %v", count, n)
	a.code("BLT less%s", name)
	a.label(name)
	body()
	a.code("SUBS $%d, %v", count, n)
	a.code("BGE %s", name)
	a.label("less" + name)
	a.code("ADD $%d, %v", count, n)
}

// zero clears n registers.
func (a *asm) zero(v, n int) {
	for i := range n {
		a.bytes(v+i, 0)
	}
}

// total adds the lanes of v into its lane 0.
func (a *asm) total(v int) {
	a.op("faddp", v, v, v)
	a.op("faddp.s", v, v)
}
