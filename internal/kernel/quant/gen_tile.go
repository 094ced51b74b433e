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
	offLDA      = 40
	offLDS      = 48
	offRounding = 56
	offFactors  = 64
	offBias     = 72
	offColumns  = 80
)

// Offsets of the fields of limits.
const (
	offTop    = 0
	offMiddle = 4
	offLeast  = 6
	offMost   = 7
	offTurn   = 8
	offOrder  = 12
	offPlain  = 76
)

// checkOffsets emits Go source that does not compile where tileParams and this program disagree.
func checkOffsets(f *asm.File) {
	f.Import("unsafe")
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, c := range []struct {
		name string
		off  int
	}{{"tileParams{}.segments", offSegments}, {"tileParams{}.count", offCount}, {"tileParams{}.quads", offQuads}, {"tileParams{}.ldc", offLDC},
		{"tileParams{}.ldb", offLDB}, {"tileParams{}.lda", offLDA}, {"tileParams{}.lds", offLDS}, {"tileParams{}.rounding", offRounding},
		{"tileParams{}.factors", offFactors}, {"tileParams{}.bias", offBias}, {"tileParams{}.columns", offColumns},
		{"limits{}.top", offTop}, {"limits{}.middle", offMiddle}, {"limits{}.least", offLeast}, {"limits{}.most", offMost},
		{"limits{}.turn", offTurn}, {"limits{}.order", offOrder}, {"limits{}.plain", offPlain}} {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(%s)-%d]\n", c.name, c.off)
	}
	f.Go(src + ")\n")
}

// tileHeight is the most rows of a tile.
const tileHeight = 6

// tiles writes the tile kernels: those that multiply bytes, with VNNI, and those that multiply integers of 16 bits.
func tiles(f *asm.File) {
	table(f, "callTileVNNI", "p, a, rows, b, start, c, n", "p *tileParams, a *byte, rows *int, b *byte, start, c *int32, n int", []int{1, 2, 4},
		func(height, width int, signed bool) string {
			t := &tile{height: height, width: width, signed: signed}
			return t.emit(f)
		})
	f.Serve("callTile", asm.AVX512(), "callTileVNNI(signed, height, width, p, a, rows, b, start, c, n)")
	for _, v := range sets {
		widths := []int{1}
		if v.Masks {
			widths = []int{1, 2}
		}
		name := named("callWide", v)
		table(f, name, "p, a, b, start, c, n, tiles, c, tiles", "p *tileParams, a *int16, b *byte, start, c *int32, n, tiles int", widths, func(height, width int, signed bool) string {
			t := &wide{ISA: v, height: height, width: width, signed: signed}
			return t.emit(f)
		})
		f.Serve("callWide", v, name+"(signed, height, width, p, a, b, start, c, n, tiles)")
	}
	table(f, "callRounded", "p, a, b, start, c, tiles", "p *tileParams, a *int16, b *byte, start *int32, c *byte, tiles int", []int{1}, func(height, width int, signed bool) string {
		t := &wide{ISA: asm.AVX2(), height: height, width: width, signed: signed}
		return t.emitRounded(f)
	})
	f.Serve("callWideRounded", asm.AVX2(), "callRounded(signed, height, 1, p, a, b, start, c, tiles)")
	code := "switch height {\n"
	for height := 1; height <= tileHeight; height++ {
		t := &wide{ISA: asm.AVX2(), height: height, width: 1, words: true}
		code += fmt.Sprintf("case %d:\n%s(p, a, b, start, c, tiles)\n", height, t.emitRounded(f))
	}
	f.Serve("callWordsRounded", asm.AVX2(), code+"}")
	checkOffsets(f)
}

// table writes a function that selects a kernel by its height, its width in panels and the signedness of B.
func table(f *asm.File, name, with, params string, widths []int, emit func(height, width int, signed bool) string) {
	tables(f, name, with, params, tileHeight, widths, emit)
}

// tables is table for kernels of another height.
func tables(f *asm.File, name, with, params string, height int, widths []int, emit func(height, width int, signed bool) string) {
	var code strings.Builder
	fmt.Fprintf(&code, "// %s runs the kernel of tiles of height rows and width panels, for signed or unsigned B.\n", name)
	fmt.Fprintf(&code, "func %s(signed bool, height, width int, %s) {\n\tif signed {\n\t\theight += 8\n\t}\n\tswitch 16*width + height {\n", name, params)
	for _, signed := range []bool{false, true} {
		for _, w := range widths {
			for r := 1; r <= height; r++ {
				key := 16*w + r
				if signed {
					key += 8
				}
				fmt.Fprintf(&code, "\tcase %d:\n\t\t%s(%s)\n", key, emit(r, w, signed), with)
			}
		}
	}
	code.WriteString("\t}\n}\n")
	f.Go(code.String())
}

// kernelName returns the name of a kernel of a tile.
func kernelName(family string, height, width int, signed bool) string {
	kind := "Unsigned"
	if signed {
		kind = "Signed"
	}
	return fmt.Sprintf("tile%s%s_%dx%d", kind, family, height, 16*width)
}

// tile is a kernel of bytes being written: sums of height rows of A times width panels of B, n tiles one below the other.
//
// Registers: AX b, BX element of the segment, CX quads left, DX segments left, DI params, R8 to R13 the rows of A, R14 segments; of
// several panels SI and R15 are one and three times their distance. Where a tile begins and ends these hold other things. Where
// params say how, the sums become integers of 8 bits before they are stored.
type tile struct {
	*asm.Func
	height, width int
	signed        bool // B is, and A is not; else it is the other way around
}

func row(r int) string { return fmt.Sprintf("R%d", 8+r) }

func (t *tile) emit(f *asm.File) string {
	name := kernelName("VNNI", t.height, t.width, t.signed)
	t.Func = f.Func(name, fmt.Sprintf("%s sums n tiles of %d rows; n > 0; see tileParams.", name, t.height),
		asm.Typed("p", "*tileParams"), asm.Typed("a", "*byte"), asm.Typed("rows", "*int"), asm.Typed("b", "*byte"),
		asm.Typed("start", "*int32"), asm.Typed("c", "*int32"), asm.Int("n"))
	t.Load("p", "DI")
	if t.width > 1 {
		t.I("MOVQ %d(DI), SI", offLDB)
		t.I("LEAQ (SI)(SI*2), R15")
	}
	t.Label("tile")
	t.Load("a", "BX")
	t.Load("rows", "DX")
	for r := range t.height {
		t.I("MOVQ %d(DX), %s", 8*r, row(r))
		t.I("ADDQ BX, %s", row(r))
	}
	t.I("ADDQ $%d, DX", 8*t.height)
	t.I("MOVQ DX, %s", t.Addr("rows"))
	t.begin()
	t.Load("b", "AX")
	t.I("MOVQ %d(DI), R14", offSegments)
	t.I("MOVQ %d(DI), DX", offCount)
	t.Loop("DX", t.segment)
	t.Load("c", "CX")
	t.I("MOVQ %d(DI), AX", offRounding)
	t.I("TESTQ AX, AX")
	t.I("JNZ rounded")
	for r := range t.height {
		for w := range t.width {
			t.I("VMOVDQU32 %s, %d(CX)", t.sum(r, w), 64*w)
		}
		t.I("ADDQ %d(DI), CX", offLDC)
	}
	t.Label("stored")
	t.I("MOVQ CX, %s", t.Addr("c"))
	t.I("DECQ %s", t.Addr("n"))
	t.I("JNZ tile")
	t.Ret()
	t.Label("rounded")
	t.round()
	t.I("JMP stored")
	return name
}

// round emits what makes bytes of the sums and stores them, with the limits at AX.
func (t *tile) round() {
	loadLimits(t.Func, "Z", 24)
	t.I("VMOVDQU32 %d(AX), Z29", offOrder)
	t.I("MOVQ %d(DI), DX", offFactors)
	t.I("MOVQ %d(DI), BX", offBias)
	t.I("KMOVQ %d(DI), K1", offColumns)
	for r := range t.height {
		for w := range t.width {
			toNumbers(t.Func, t.sum(r, w), "Z24", fmt.Sprintf("%d(DX)", 64*w), fmt.Sprintf("%d(BX)", 64*w))
		}
		packBytes(t.Func, t.width, func(w int) string { return t.sum(r, w) })
		t.I("VMOVDQU8 %s, K1, (CX)", t.sum(r, 0))
		t.I("ADDQ %d(DI), CX", offLDC)
	}
}

// packBytes makes bytes of the integers of some panels, bounded, in the first's vector, with limits from vector 25 on and the order in 29.
func packBytes(fn *asm.Func, width int, panel func(w int) string) {
	sum := func(w int) string { return panel(w % width) }
	for w := 0; w < width; w += 2 {
		fn.I("VPACKSSDW %s, %s, %s", sum(w+1), sum(w), sum(w))
		fn.I("VPADDSW Z25, %s, %s", sum(w), sum(w))
	}
	x := sum(0)
	fn.I("VPACKSSWB %s, %s, %s", sum(2), x, x)
	bound(fn, "Z", 26, x)
	fn.I("VPERMD %s, Z29, %s", x, x) // a panel of each row of doublewords
}

// loadLimits loads the limits at AX to vectors from number first on, of a letter: the largest float, the zero point in words, the least
// and the greatest byte, and what turns bytes to the result's signedness.
func loadLimits(fn *asm.Func, letter string, first int) {
	v := func(i int) string { return fmt.Sprintf("%s%d", letter, first+i) }
	fn.I("VBROADCASTSS %d(AX), %s", offTop, v(0))
	fn.I("VPBROADCASTW %d(AX), %s", offMiddle, v(1))
	fn.I("VPBROADCASTB %d(AX), %s", offLeast, v(2))
	fn.I("VPBROADCASTB %d(AX), %s", offMost, v(3))
	fn.I("VPBROADCASTB %d(AX), %s", offTurn, v(4))
}

// toNumbers rounds sum·factor + bias, of vectors, half to even. What is larger than top counts as that; what is less than integers are
// becomes the least.
func toNumbers(fn *asm.Func, sum, top, factors, bias string) {
	roundSums(fn, sum, sum, top, factors, bias)
}

// plainNumbers is toNumbers where limits say that rounding is plain.
func plainNumbers(fn *asm.Func, sum, factors string) {
	fn.I("VCVTDQ2PS %s, %s", sum, sum)
	fn.I("VMULPS %s, %s, %s", factors, sum, sum)
	fn.I("VCVTPS2DQ %s, %s", sum, sum)
}

// roundSums is toNumbers for sums that may lie in memory.
func roundSums(fn *asm.Func, from, sum, top, factors, bias string) {
	fn.I("VCVTDQ2PS %s, %s", from, sum)
	fn.I("VMULPS %s, %s, %s", factors, sum, sum)
	fn.I("VADDPS %s, %s, %s", bias, sum, sum)
	fn.I("VMINPS %s, %s, %s", top, sum, sum)
	fn.I("VCVTPS2DQ %s, %s", sum, sum)
}

// bound bounds bytes and turns them, by limits in vectors from number first on.
func bound(fn *asm.Func, letter string, first int, x string) {
	fn.I("VPMAXSB %s%d, %s, %s", letter, first, x, x)
	fn.I("VPMINSB %s%d, %s, %s", letter, first+1, x, x)
	fn.I("VPXORD %s%d, %s, %s", letter, first+2, x, x)
}

// segment emits the loop over the quads of a segment, unrolled where a turn is short, and its remainder.
func (t *tile) segment() {
	t.I("MOVQ (R14), BX")
	t.I("ADDQ $8, R14")
	t.I("MOVQ %d(DI), CX", offQuads)
	unroll := 1
	if t.height*t.width <= 6 {
		unroll = 4
	}
	unrolled(t.Func, unroll, t.quad, func(n int) {
		t.I("ADDQ $%d, BX", 4*n)
		t.I("ADDQ $%d, AX", 64*n)
	})
}

// fetchingHeight is the most rows of a tile that has the next panel fetched: it waits for memory rather than for its products.
const fetchingHeight = 4

// nextPanel begins to have the panel at AX + SI fetched into the second-level cache by AVX2's tiles of few rows, before CX quads of the one at AX are
// gone through: both its halves, which a processor follows as two streams, with more lines under way than of one. The function that is returned goes on with it,
// once a round of so many quads. Registers: DX is in the first half, R14 is half a panel.
func nextPanel(fn *asm.Func, v asm.ISA, height int) func(quads int) {
	if v != asm.AVX2() || height > fetchingHeight {
		return func(int) {}
	}
	fn.I("LEAQ (AX)(SI*1), DX")
	fn.I("MOVQ CX, R14")
	fn.I("SHLQ $5, R14")
	return func(quads int) {
		if quads != 2 { // a line of each half; what is left are the last quads
			return
		}
		fn.I("PREFETCHT1 (DX)")
		fn.I("PREFETCHT1 (DX)(R14*1)")
		fn.I("ADDQ $64, DX")
	}
}

// unrolled emits a loop over CX quads, some at a time, and over what is left; next moves on by so many quads.
func unrolled(fn *asm.Func, unroll int, quad func(u int), next func(n int)) {
	one := func() {
		quad(0)
		next(1)
	}
	if unroll == 1 {
		fn.Loop("CX", one)
		return
	}
	fn.While("CX", unroll, func() {
		for u := range unroll {
			quad(u)
		}
		next(unroll)
	})
	end := fn.NewLabel("kend")
	fn.I("TESTQ CX, CX")
	fn.I("JZ %s", end)
	fn.Loop("CX", one)
	fn.Label(end)
}

// sum is the register of the sums of a row and a panel.
func (t *tile) sum(r, w int) string { return asm.Z(r*t.width + w) }

func (t *tile) begin() {
	t.Load("start", "AX")
	for r := range t.height {
		for w := range t.width {
			if r == 0 {
				t.I("VMOVDQU32 %d(AX), %s", 64*w, t.sum(0, w))
			} else {
				t.I("VMOVDQA32 %s, %s", t.sum(0, w), t.sum(r, w))
			}
		}
	}
}

// quad emits four k: each panel's row is loaded once, each quad of A broadcast once.
func (t *tile) quad(u int) {
	b := func(w int) string { return asm.Z(24 + w) }
	for w := range t.width {
		t.I("VMOVDQU32 %d(AX)%s, %s", 64*u, []string{"", "(SI*1)", "(SI*2)", "(R15*1)"}[w], b(w))
	}
	for r := range t.height {
		x := asm.Z(28 + r%4)
		t.I("VPBROADCASTD %d(%s)(BX*1), %s", 4*u, row(r), x)
		for w := range t.width {
			if t.signed {
				t.I("VPDPBUSD %s, %s, %s", b(w), x, t.sum(r, w))
			} else {
				t.I("VPDPBUSD %s, %s, %s", x, b(w), t.sum(r, w))
			}
		}
	}
}

// wide is a kernel of integers of 16 bits being written: sums of height rows of A, whose quads were widened, elements 0 and 2 of all
// of them before 1 and 3, times width panels of B, n times side by side, and so many tiles of rows one below the other. Of B's quads first the even and
// then the odd elements are widened where they lie, so that pairs of products are of one column.
//
// Registers: AX b, BX and R15 places of even and odd elements in the rows, CX quads left, DI params, SI distance of panels, R8 to R13
// the rows of A; behind the last quad DX is where start points and R14 where c does.
type wide struct {
	*asm.Func
	asm.ISA
	height, width int
	signed        bool // B is
	words         bool // B has been widened, as Kernels.Words does
}

// vectors is the number of vectors of a row's sums.
func (t *wide) vectors() int { return 16 / t.Lanes * t.width }

func (t *wide) sum(r, j int) string { return t.R(r*t.vectors() + j) }

func (t *wide) emit(f *asm.File) string {
	name := kernelName(named("Wide", t.ISA), t.height, t.width, t.signed)
	t.Func = f.Func(name, fmt.Sprintf("%s sums n tiles of %d rows, side by side, and so many below each other; n, tiles > 0, to = c, left = tiles; see tileParams.", name, t.height),
		asm.Typed("p", "*tileParams"), asm.Typed("a", "*int16"), asm.Typed("b", "*byte"), asm.Typed("start", "*int32"), asm.Typed("c", "*int32"), asm.Int("n"), asm.Int("tiles"),
		asm.Typed("to", "*int32"), asm.Int("left"))
	t.Load("p", "DI")
	t.I("MOVQ %d(DI), SI", offLDB)
	t.Label("panel")
	t.Load("a", row(0))
	for r := range t.height - 1 {
		t.I("MOVQ %s, %s", row(r), row(r+1))
		t.I("ADDQ %d(DI), %s", offLDA, row(r+1))
	}
	t.Label("tile")
	for i := range t.height * t.vectors() {
		t.Clear(t.ISA, t.R(i))
	}
	t.Load("b", "AX")
	t.I("XORQ BX, BX")
	t.I("MOVQ %d(DI), CX", offQuads)
	t.I("LEAQ (CX*4), R15")
	next := nextPanel(t.Func, t.ISA, t.height)
	unrolled(t.Func, 2, t.quad, func(n int) {
		next(n)
		t.I("ADDQ $%d, BX", 4*n)
		t.I("ADDQ $%d, R15", 4*n)
		t.I("ADDQ $%d, AX", 64*n)
	})
	t.Load("start", "DX")
	t.Load("to", "R14")
	for r := range t.height {
		for j := range t.vectors() {
			t.I("VPADDD %d(DX), %s, %s", t.Size()*j, t.sum(r, j), t.sum(r, j))
			t.I("VMOVUPS %s, %d(R14)", t.sum(r, j), t.Size()*j)
		}
		t.I("ADDQ %d(DI), DX", offLDS)
		t.I("ADDQ %d(DI), R14", offLDC)
	}
	t.I("DECQ %s", t.Addr("left"))
	t.I("JZ next")
	t.I("MOVQ R14, %s", t.Addr("to"))
	t.I("IMUL3Q $%d, %d(DI), CX", t.height, offLDA)
	for r := range t.height {
		t.I("ADDQ CX, %s", row(r))
	}
	t.I("JMP tile")
	t.Label("next")
	for range t.width {
		t.I("ADDQ SI, %s", t.Addr("b"))
	}
	t.I("ADDQ $%d, %s", 64*t.width, t.Addr("start"))
	t.Load("c", "R14")
	t.I("ADDQ $%d, R14", 64*t.width)
	t.I("MOVQ R14, %s", t.Addr("c"))
	t.I("MOVQ R14, %s", t.Addr("to"))
	t.Load("tiles", "CX")
	t.I("MOVQ CX, %s", t.Addr("left"))
	t.I("DECQ %s", t.Addr("n"))
	t.I("JNZ panel")
	t.Ret()
	return name
}

// emitRounded writes the kernel whose sums, of tiles of one panel one below the other, become integers of 8 bits, with AVX2.
//
// Registers are those of emit; behind the last quad DX, AX, CX and BX are where start, limits, factors and addends point, and vectors 12 to 15 hold limits.
func (t *wide) emitRounded(f *asm.File) string {
	name, b, quad := kernelName("Rounded2", t.height, 1, t.signed), "*byte", 64
	if t.words {
		name, b, quad = fmt.Sprintf("tileWordsRounded2_%dx16", t.height), "*int16", 128
	}
	t.Func = f.Func(name, fmt.Sprintf("%s sums tiles of %d rows, one below the other, and rounds the sums; tiles > 0; see tileParams.", name, t.height),
		asm.Typed("p", "*tileParams"), asm.Typed("a", "*int16"), asm.Typed("b", b), asm.Typed("start", "*int32"), asm.Typed("c", "*byte"), asm.Int("tiles"))
	t.Load("p", "DI")
	t.Load("c", "R14")
	t.Load("a", row(0))
	for r := range t.height - 1 {
		t.I("MOVQ %s, %s", row(r), row(r+1))
		t.I("ADDQ %d(DI), %s", offLDA, row(r+1))
	}
	t.I("IMUL3Q $%d, %d(DI), SI", t.height, offLDA)
	t.Label("tile")
	t.Load("start", "DX")
	for j := range 2 {
		t.I("VMOVDQU %d(DX), %s", 32*j, t.sum(0, j))
		for r := 1; r < t.height; r++ {
			t.I("VMOVDQA %s, %s", t.sum(0, j), t.sum(r, j))
		}
	}
	t.Load("b", "AX")
	t.I("XORQ BX, BX")
	t.I("MOVQ %d(DI), CX", offQuads)
	t.I("LEAQ (CX*4), R15")
	unrolled(t.Func, 2, t.quad, func(n int) {
		t.I("ADDQ $%d, BX", quad*n/16)
		if !t.words {
			t.I("ADDQ $%d, R15", 4*n)
		}
		t.I("ADDQ $%d, AX", quad*n)
	})
	t.round()
	for r := range t.height {
		t.I("ADDQ SI, %s", row(r))
	}
	t.I("DECQ %s", t.Addr("tiles"))
	t.I("JNZ tile")
	t.Ret()
	return name
}

// round emits what makes bytes of the sums of a tile of one panel and stores them, two rows at a time.
func (t *wide) round() {
	t.I("MOVQ %d(DI), AX", offRounding)
	t.I("MOVQ %d(DI), CX", offFactors)
	t.I("MOVQ %d(DI), BX", offBias)
	t.I("VBROADCASTSS %d(AX), Y12", offTop)
	t.I("VPBROADCASTW %d(AX), Y13", offMiddle)
	t.I("VPBROADCASTB %d(AX), Y14", offLeast)
	t.I("VPBROADCASTB %d(AX), Y15", offMost)
	t.I("CMPB %d(AX), $0", offPlain)
	t.I("JNE plain")
	t.roundRows(false)
	t.I("JMP rounded")
	t.Label("plain")
	t.roundRows(true)
	t.Label("rounded")
}

// roundRows emits the rounding of rows, plain where limits say so.
func (t *wide) roundRows(plain bool) {
	for r := 0; r < t.height; r += 2 {
		last := min(r+1, t.height-1)
		for i := r; i <= last; i++ {
			for j := range 2 {
				if plain {
					plainNumbers(t.Func, t.sum(i, j), fmt.Sprintf("%d(CX)", 32*j))
				} else {
					toNumbers(t.Func, t.sum(i, j), "Y12", fmt.Sprintf("%d(CX)", 32*j), fmt.Sprintf("%d(BX)", 32*j))
				}
			}
			t.I("VPACKSSDW %s, %s, %s", t.sum(i, 1), t.sum(i, 0), t.sum(i, 0)) // columns 0 to 3 and 8 to 11, then the others
			t.I("VPADDSW Y13, %[1]s, %[1]s", t.sum(i, 0))
		}
		x, free := 2*r, 2*r+1
		t.I("VPBROADCASTB %d(AX), Y%d", offTurn, free)
		t.I("VPACKSSWB %s, Y%d, Y%d", t.sum(last, 0), x, x)
		boundBytes(t.Func, x, 14, 15, free)
		t.I("VEXTRACTI128 $1, Y%d, X%d", x, free)
		if last > r {
			t.I("VPUNPCKHDQ X%d, X%d, X%d", free, x, free+1)
		}
		t.I("VPUNPCKLDQ X%d, X%d, X%d", free, x, x)
		for i := r; i <= last; i++ {
			t.I("VMOVDQU X%d, (R14)", 2*i)
			t.I("ADDQ %d(DI), R14", offLDC)
		}
	}
}

// quad emits four k: the even ones, then the odd ones.
func (t *wide) quad(u int) {
	last := t.Registers - 1
	for odd := range 2 {
		for j := range t.vectors() {
			t.loadB(u, odd, j, t.R(last-3+j))
		}
		for r := range t.height {
			t.I("VPBROADCASTD %s, %s", t.atA(u, odd, r), t.R(last-1))
			to := func(j int) string {
				if j == t.vectors()-1 { // A's pair is not needed behind it
					return t.R(last - 1)
				}
				return t.R(last)
			}
			for j := range t.vectors() {
				t.I("VPMADDWD %s, %s, %s", t.R(last-3+j), t.R(last-1), to(j))
			}
			for j := range t.vectors() {
				t.I("VPADDD %s, %s, %s", to(j), t.sum(r, j), t.sum(r, j))
			}
		}
	}
}

// atA returns where the even or odd elements of a quad of a row are.
func (t *wide) atA(u, odd, r int) string {
	if t.words { // elements in their order: pairs are 0 and 1, and 2 and 3
		return fmt.Sprintf("%d(%s)(BX*1)", 8*u+4*odd, row(r))
	}
	return fmt.Sprintf("%d(%s)(%s*1)", 4*u, row(r), []string{"BX", "R15"}[odd])
}

// loadB loads the even or odd pairs of a quad and a vector of columns, as words.
func (t *wide) loadB(u, odd, j int, x string) {
	if t.words {
		t.I("VMOVUPS %d(AX), %s", 128*u+64*odd+t.Size()*j, x)
		return
	}
	right, panel := "VPSRLW", []string{"", "(SI*1)"}[j*t.Lanes/16]
	if t.signed {
		right = "VPSRAW"
	}
	t.I("VMOVUPS %d(AX)%s, %s", 64*u+t.Size()*(j%(16/t.Lanes)), panel, x)
	if odd == 0 {
		t.I("VPSLLW $8, %s, %s", x, x)
	}
	t.I("%s $8, %s, %s", right, x, x)
}
