//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// tileRows is the highest number of rows of a tile: what the vector registers hold beside a row of B and two products.
const tileRows = 6

// Offsets of the fields of tileParams, in bytes; checkOffsets emits a compile-time check.
const (
	offSegments = 0
	offCount    = 8
	offPairs    = 16
	offLDC      = 24
)

// checkOffsets emits Go source that does not compile where tileParams and this program disagree.
func checkOffsets(f *asm.File) {
	f.Import("unsafe")
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, c := range []struct {
		name string
		off  int
	}{{"segments", offSegments}, {"count", offCount}, {"pairs", offPairs}, {"ldc", offLDC}} {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(tileParams{}.%s)-%d]\n", c.name, c.off)
	}
	f.Go(src + ")\n")
}

// tiles writes the tile kernels, and a function that selects one.
func tiles(f *asm.File) {
	var table strings.Builder
	table.WriteString("// callTile2 runs the kernel of tiles of height rows, for signed or unsigned B.\n")
	table.WriteString("func callTile2(signed bool, height int, p *tileParams, a *int16, rows *int, b *byte, c *int32, n int) {\n")
	table.WriteString("\tif signed {\n\t\theight += 16\n\t}\n\tswitch height {\n")
	for i, kind := range []string{"Unsigned", "Signed"} {
		for r := 1; r <= tileRows; r++ {
			t := &tile{ISA: asm.AVX2(), height: r, load: []string{"VPMOVZXBW", "VPMOVSXBW"}[i]}
			name := fmt.Sprintf("tile%s2_%dx16", kind, r)
			t.emit(f, name)
			fmt.Fprintf(&table, "\tcase %d:\n\t\t%s(p, a, rows, b, c, n)\n", 16*i+r, name)
		}
	}
	table.WriteString("\t}\n}\n")
	f.Go(table.String())
	checkOffsets(f)
	for _, s := range sets {
		f.Serve("callTile", s, "callTile2(signed, height, p, a, rows, b, c, n)")
	}
}

// tile is one kernel being written: sums of height rows of A times a panel of B, n tiles one below the other.
//
// Registers: AX b, BX element of the segment, CX pairs left, DX segments left, SI rows, DI params, R8 to R13 the rows of A,
// R14 segments, R15 c. Vectors: the sums row by row, two of B, a pair of A and a product.
type tile struct {
	*asm.Func
	asm.ISA
	height int
	load   string
}

func (t *tile) sum(r, j int) string { return t.R(2*r + j) }
func (t *tile) row(r int) string    { return fmt.Sprintf("R%d", 8+r) }

func (t *tile) emit(f *asm.File, name string) {
	t.Func = f.Func(name, fmt.Sprintf("%s sums n tiles of %d rows; n > 0; see tileParams.", name, t.height),
		asm.Typed("p", "*tileParams"), asm.Typed("a", "*int16"), asm.Typed("rows", "*int"), asm.Typed("b", "*byte"),
		asm.Typed("c", "*int32"), asm.Int("n"))
	t.Load("p", "DI")
	t.Load("rows", "SI")
	t.Load("c", "R15")
	t.Label("tile")
	t.Load("a", "BX")
	for r := range t.height {
		t.I("MOVQ %d(SI), %s", 8*r, t.row(r))
		t.I("LEAQ (BX)(%s*2), %s", t.row(r), t.row(r))
	}
	t.I("ADDQ $%d, SI", 8*t.height)
	t.Load("b", "AX")
	t.I("MOVQ %d(DI), R14", offSegments)
	t.I("MOVQ %d(DI), DX", offCount)
	for i := range 2 * t.height {
		t.Clear(t.ISA, t.R(i))
	}
	t.Loop("DX", t.segment)
	for r := range t.height {
		for j := range 2 {
			t.StoreVector(t.ISA, t.sum(r, j), fmt.Sprintf("%d(R15)", j*t.Size()), "")
		}
		t.I("ADDQ %d(DI), R15", offLDC)
	}
	t.I("DECQ %s", t.Addr("n"))
	t.I("JNZ tile")
	t.Ret()
}

// segment emits the loop over the pairs of a segment, unrolled, and its remainder.
func (t *tile) segment() {
	unroll := 2
	if t.height < 3 {
		unroll = 4
	}
	t.I("MOVQ (R14), BX")
	t.I("ADDQ $8, R14")
	t.I("MOVQ %d(DI), CX", offPairs)
	t.While("CX", unroll, func() {
		for u := range unroll {
			t.pair(u)
		}
		t.I("ADDQ $%d, BX", 2*unroll)
		t.I("ADDQ $%d, AX", 32*unroll)
	})
	end := t.NewLabel("kend")
	t.I("TESTQ CX, CX")
	t.I("JZ %s", end)
	t.Loop("CX", func() {
		t.pair(0)
		t.I("ADDQ $2, BX")
		t.I("ADDQ $32, AX")
	})
	t.Label(end)
}

// pair emits two k: a row of B is loaded once, each pair of A broadcast once.
func (t *tile) pair(u int) {
	b := []string{t.R(12), t.R(13)}
	x, y := t.R(14), t.R(15)
	for j := range 2 {
		t.I("%s %d(AX), %s", t.load, 32*u+16*j, b[j])
	}
	for r := range t.height {
		t.I("VPBROADCASTD %d(%s)(BX*2), %s", 4*u, t.row(r), x)
		t.I("VPMADDWD %s, %s, %s", b[0], x, y)
		t.I("VPMADDWD %s, %s, %s", b[1], x, x)
		t.I("VPADDD %s, %s, %s", y, t.sum(r, 0), t.sum(r, 0))
		t.I("VPADDD %s, %s, %s", x, t.sum(r, 1), t.sum(r, 1))
	}
}
