//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Offsets of the fields of tileParams, in bytes; checkOffsets emits a compile-time check.
const (
	offSegments = 0
	offCount    = 8
	offQuads    = 16
	offLDC      = 24
	offLDB      = 32
)

// checkOffsets emits Go source that does not compile where tileParams and this program disagree.
func checkOffsets(f *asm.File) {
	f.Import("unsafe")
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, c := range []struct {
		name string
		off  int
	}{{"segments", offSegments}, {"count", offCount}, {"quads", offQuads}, {"ldc", offLDC}, {"ldb", offLDB}} {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(tileParams{}.%s)-%d]\n", c.name, c.off)
	}
	f.Go(src + ")\n")
}

// family is a way to multiply quads of bytes, and the tiles that it has: so many rows at most, and widths in panels.
type family struct {
	asm.ISA
	name    string // as it stands in the names of kernels
	heights int
	widths  []int
	begin   func(t *tile) // makes the sums what they begin with
	quad    func(t *tile, u int)
	end     func(t *tile, r int) // stores the sums of row r at CX; AX is where start points
}

// families are those of the kernels. A panel of sums takes one vector of 512 bits with VNNI. Without it products are added in pairs
// of 16-bit integers, so that each column has two sums, of the first and of the last two of four k: two vectors of 512 bits, or
// four of 256, which leave room for three rows.
var families = []family{
	{asm.AVX512(), "VNNI", 6, []int{1, 2, 4}, (*tile).beginVNNI, (*tile).quadVNNI, (*tile).endVNNI},
	{asm.AVX512(), "512", 6, []int{1}, (*tile).clear, (*tile).quad512, (*tile).end512},
	{asm.AVX2(), "256", 3, []int{1}, (*tile).clear, (*tile).quad256, (*tile).end256},
}

// tiles writes the tile kernels, and a function for each family that selects one.
func tiles(f *asm.File) {
	for _, fam := range families {
		var table strings.Builder
		call := "callTile" + fam.name
		fmt.Fprintf(&table, "// %s runs the kernel of tiles of height rows and width panels, for signed or unsigned B.\n", call)
		fmt.Fprintf(&table, "func %s(signed bool, height, width int, p *tileParams, a *byte, rows *int, b *byte, start, c *int32, n int) {\n", call)
		table.WriteString("\tif signed {\n\t\theight += 8\n\t}\n\tswitch 16*width + height {\n")
		for _, signed := range []bool{false, true} {
			for _, w := range fam.widths {
				for r := 1; r <= fam.heights; r++ {
					t := &tile{family: fam, height: r, width: w, signed: signed}
					name, key := fmt.Sprintf("tileUnsigned%s_%dx%d", fam.name, r, 16*w), 16*w+r
					if signed {
						name, key = fmt.Sprintf("tileSigned%s_%dx%d", fam.name, r, 16*w), key+8
					}
					t.emit(f, name)
					fmt.Fprintf(&table, "\tcase %d:\n\t\t%s(p, a, rows, b, start, c, n)\n", key, name)
				}
			}
		}
		table.WriteString("\t}\n}\n")
		f.Go(table.String())
	}
	checkOffsets(f)
	const with = "(signed, height, width, p, a, rows, b, start, c, n)"
	f.Serve("callTile", asm.AVX512(), "if vnni {\ncallTileVNNI"+with+"\n} else {\ncallTile512"+with+"\n}")
	f.Serve("callTile", asm.AVX2(), "callTile256"+with)
}

// tile is one kernel being written: sums of height rows of A times width panels of B, n tiles one below the other.
//
// Registers: AX b, BX element of the segment, CX quads left, DX segments left, DI params, R8 to R13 the rows of A, R14 segments; of
// several panels SI and R15 are one and three times their distance. Where a tile begins and ends these hold other things.
type tile struct {
	*asm.Func
	family
	height, width int
	signed        bool // B is, and A is not; else it is the other way around
}

func (t *tile) row(r int) string { return fmt.Sprintf("R%d", 8+r) }

// widen returns the instruction that makes 16-bit integers of bytes of B, or of A.
func (t *tile) widen(b bool) string {
	if b == t.signed {
		return "VPMOVSXBW"
	}
	return "VPMOVZXBW"
}

func (t *tile) emit(f *asm.File, name string) {
	t.Func = f.Func(name, fmt.Sprintf("%s sums n tiles of %d rows; n > 0; see tileParams.", name, t.height),
		asm.Typed("p", "*tileParams"), asm.Typed("a", "*byte"), asm.Typed("rows", "*int"), asm.Typed("b", "*byte"),
		asm.Typed("start", "*int32"), asm.Typed("c", "*int32"), asm.Int("n"))
	if t.name == "256" && t.height > 2 {
		t.Frame(32)
	}
	t.Load("p", "DI")
	if t.width > 1 {
		t.I("MOVQ %d(DI), SI", offLDB)
		t.I("LEAQ (SI)(SI*2), R15")
	}
	t.Label("tile")
	t.Load("a", "BX")
	t.Load("rows", "DX")
	for r := range t.height {
		t.I("MOVQ %d(DX), %s", 8*r, t.row(r))
		t.I("ADDQ BX, %s", t.row(r))
	}
	t.I("ADDQ $%d, DX", 8*t.height)
	t.I("MOVQ DX, %s", t.Addr("rows"))
	t.begin(t)
	t.Load("b", "AX")
	t.I("MOVQ %d(DI), R14", offSegments)
	t.I("MOVQ %d(DI), DX", offCount)
	t.Loop("DX", t.segment)
	t.Load("start", "AX")
	t.Load("c", "CX")
	for r := range t.height {
		t.end(t, r)
		t.I("ADDQ %d(DI), CX", offLDC)
	}
	t.I("MOVQ CX, %s", t.Addr("c"))
	t.I("DECQ %s", t.Addr("n"))
	t.I("JNZ tile")
	t.Ret()
}

// segment emits the loop over the quads of a segment, unrolled where a turn is short, and its remainder.
func (t *tile) segment() {
	t.I("MOVQ (R14), BX")
	t.I("ADDQ $8, R14")
	t.I("MOVQ %d(DI), CX", offQuads)
	next := func(n int) {
		t.I("ADDQ $%d, BX", 4*n)
		t.I("ADDQ $%d, AX", 64*n)
	}
	unroll := 4
	if t.name != "VNNI" {
		unroll = 2
	}
	if t.height*t.width <= 6 {
		t.While("CX", unroll, func() {
			for u := range unroll {
				t.quad(t, u)
			}
			next(unroll)
		})
		end := t.NewLabel("kend")
		t.I("TESTQ CX, CX")
		t.I("JZ %s", end)
		t.Loop("CX", func() {
			t.quad(t, 0)
			next(1)
		})
		t.Label(end)
		return
	}
	t.Loop("CX", func() {
		t.quad(t, 0)
		next(1)
	})
}

// clear emits zeros for all sums.
func (t *tile) clear() {
	vectors := 16 / t.Lanes * 2 // of a row
	for i := range vectors * t.height {
		t.Clear(t.ISA, t.R(i))
	}
}

// sumVNNI is the register of the sums of a row and a panel.
func (t *tile) sumVNNI(r, w int) string { return t.R(r*t.width + w) }

func (t *tile) beginVNNI() {
	t.Load("start", "AX")
	for r := range t.height {
		for w := range t.width {
			if r == 0 {
				t.I("VMOVDQU32 %d(AX), %s", 64*w, t.sumVNNI(0, w))
			} else {
				t.I("VMOVDQA32 %s, %s", t.sumVNNI(0, w), t.sumVNNI(r, w))
			}
		}
	}
}

// quadVNNI emits four k: each panel's row is loaded once, each quad of A broadcast once.
func (t *tile) quadVNNI(u int) {
	b := func(w int) string { return t.R(24 + w) }
	for w := range t.width {
		t.I("VMOVDQU32 %d(AX)%s, %s", 64*u, []string{"", "(SI*1)", "(SI*2)", "(R15*1)"}[w], b(w))
	}
	for r := range t.height {
		x := t.R(28 + r%4)
		t.I("VPBROADCASTD %d(%s)(BX*1), %s", 4*u, t.row(r), x)
		for w := range t.width {
			if t.signed {
				t.I("VPDPBUSD %s, %s, %s", b(w), x, t.sumVNNI(r, w))
			} else {
				t.I("VPDPBUSD %s, %s, %s", x, b(w), t.sumVNNI(r, w))
			}
		}
	}
}

func (t *tile) endVNNI(r int) {
	for w := range t.width {
		t.I("VMOVDQU32 %s, %d(CX)", t.sumVNNI(r, w), 64*w)
	}
}

// quad512 emits four k of eight columns a vector, as 16-bit integers.
func (t *tile) quad512(u int) {
	for h := range 2 {
		t.I("%s %d(AX), Z%d", t.widen(true), 64*u+32*h, 28+h)
	}
	for r := range t.height {
		t.I("VPBROADCASTD %d(%s)(BX*1), Y30", 4*u, t.row(r))
		t.I("%s Y30, Z30", t.widen(false))
		for h := range 2 {
			t.I("VPMADDWD Z%d, Z30, Z31", 28+h)
			t.I("VPADDD Z31, Z%d, Z%d", 2*r+h, 2*r+h)
		}
	}
}

// end512 adds the two sums of each column, which lie side by side.
func (t *tile) end512(r int) {
	for h := range 2 {
		t.I("VPSRLQ $32, Z%d, Z31", 2*r+h)
		t.I("VPADDD Z31, Z%d, Z31", 2*r+h)
		t.I("VPMOVQD Z31, Y30")
		t.I("VPADDD %d(AX), Y30, Y30", 32*h)
		t.I("VMOVUPS Y30, %d(CX)", 32*h)
	}
}

// quad256 emits four k of four columns a vector, as 16-bit integers. Two rows of A stay in registers, the third in memory.
func (t *tile) quad256(u int) {
	const third = "third-32(SP)"
	for r := range t.height {
		x := 12 + r
		if r == 2 {
			x = 15
		}
		t.I("VPBROADCASTD %d(%s)(BX*1), X%d", 4*u, t.row(r), x)
		t.I("%s X%d, Y%d", t.widen(false), x, x)
		if r == 2 {
			t.I("VMOVDQU Y15, %s", third)
		}
	}
	for q := range 4 {
		t.I("%s %d(AX), Y14", t.widen(true), 64*u+16*q)
		for r := range t.height {
			if r < 2 {
				t.I("VPMADDWD Y14, Y%d, Y15", 12+r)
			} else {
				t.I("VPMADDWD %s, Y14, Y15", third)
			}
			t.I("VPADDD Y15, Y%d, Y%d", 4*r+q, 4*r+q)
		}
	}
}

// end256 adds the two sums of each column, which lie side by side.
func (t *tile) end256(r int) {
	for h := range 2 {
		t.I("VPHADDD Y%d, Y%d, Y15", 4*r+2*h+1, 4*r+2*h)
		t.I("VPERMQ $0xd8, Y15, Y15")
		t.I("VPADDD %d(AX), Y15, Y15", 32*h)
		t.I("VMOVUPS Y15, %d(CX)", 32*h)
	}
}
