package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The committed files are what the generator writes.
func TestGenerated(t *testing.T) {
	text, stubs := generate()
	for file, want := range map[string][]byte{"../../kernels_arm64.s": text, "../../stubs_arm64.go": stubs} {
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the generator writes (%v): run go generate", file, err)
		}
	}
}

// One of each form, as binutils 2.40 encodes it.
func TestEncodings(t *testing.T) {
	a := new(asm)
	p := reg(2)
	a.op("fadd", 1, 2, 3)
	a.op("scvtf.24", 1, 2)
	a.op("tbl", 1, 2, 3)
	a.byLane("fmla", 1, 2, 19, 1)
	a.byLane("fmls", 1, 2, 3, 3)
	a.byLane("fmul", 1, 2, 3, 0)
	a.dup(1, 2, 3)
	a.move(1, 2)
	a.insert(1, 1, p)
	a.bytes(1, 48)
	a.shift(1, 2, 4)
	a.shift(1, 2, -2)
	a.load('q', 1, p, 16)
	a.load('q', 1, p, 18)
	a.load('h', 1, p, 208)
	a.load('h', 1, p, -1)
	a.store('s', 1, p, 16)
	a.loadNext('q', 1, p)
	a.loadNext('d', 1, p)
	a.storeNext('s', 1, p)
	a.loadAt(1, p, 3)
	a.loadPair(1, 4, p, 32)
	a.storePair(1, 4, p, 32)
	a.loadPairNext(1, 4, p)
	a.storePairNext(1, 4, p)
	a.broadcastNext(1, p)
	want := `4e23d441 fadd v1.4s, v2.4s, v3.4s
4f28e441 scvtf v1.4s, v2.4s, #24
4e030041 tbl v1.16b, {v2.16b}, v3.16b
4fb31041 fmla v1.4s, v2.4s, v19.s[1]
4fa35841 fmls v1.4s, v2.4s, v3.s[3]
4f839041 fmul v1.4s, v2.4s, v3.s[0]
4e1c0441 dup v1.4s, v2.s[3]
4ea21c41 mov v1.16b, v2.16b
4e181c41 mov v1.d[1], x2
4f01e601 movi v1.16b, #48
4f0c5441 shl v1.16b, v2.16b, #4
6f0e0441 ushr v1.16b, v2.16b, #2
3dc00441 ldr q1, [x2, #16]
3cc12041 ldur q1, [x2, #18]
7d41a041 ldr h1, [x2, #208]
7c5ff041 ldur h1, [x2, #-1]
bd001041 str s1, [x2, #16]
3cc10441 ldr q1, [x2], #16
fc408441 ldr d1, [x2], #8
bc004441 str s1, [x2], #4
3ce36841 ldr q1, [x2, x3]
ad411041 ldp q1, q4, [x2, #32]
ad011041 stp q1, q4, [x2, #32]
acc11041 ldp q1, q4, [x2], #32
ac811041 stp q1, q4, [x2], #32
4ddfc841 ld1r {v1.4s}, [x2], #4
`
	want = regexp.MustCompile(`(?m)^(\w+) (.*)$`).ReplaceAllString(want, "\tWORD $$0x$1 // $2")
	if got := a.text.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// GNU's assembler makes the same number of every vector instruction in the kernels.
func TestAssembler(t *testing.T) {
	as, err := exec.LookPath("aarch64-linux-gnu-as")
	if err != nil {
		t.Skip("no aarch64-linux-gnu-as (package binutils-aarch64-linux-gnu)")
	}
	text, _ := generate()
	ours := map[string]string{}
	var lines []string
	for _, m := range regexp.MustCompile(`WORD \$0x(\w+) // (.*)`).FindAllStringSubmatch(string(text), -1) {
		if ours[m[2]] == "" {
			ours[m[2]] = m[1]
			lines = append(lines, m[2])
		}
	}
	dir := t.TempDir()
	listing := filepath.Join(dir, "list")
	cmd := exec.Command(as, "-march=armv8.2-a+dotprod", "-aln="+listing, "-o", filepath.Join(dir, "object"), "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := os.ReadFile(listing)
	if err != nil {
		t.Fatal(err)
	}
	// Each line of the listing: its number, the address, the four bytes in the order of memory, the text.
	found := regexp.MustCompile(`(?m)^ *(\d+) [0-9a-f]+ (..)(..)(..)(..) `).FindAllStringSubmatch(string(out), -1)
	if len(found) != len(lines) {
		t.Fatalf("%d of %d instructions are in the listing", len(found), len(lines))
	}
	for i, m := range found {
		if theirs := strings.ToLower(m[5] + m[4] + m[3] + m[2]); m[1] != strconv.Itoa(i+1) || theirs != ours[lines[i]] {
			t.Errorf("%s: %s, GNU's is %s", lines[i], ours[lines[i]], theirs)
		}
	}
}
