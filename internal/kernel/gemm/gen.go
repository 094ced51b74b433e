//go:build ignore

// Command gen writes the micro-kernels of package gemm.
package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("gemm", asm.Table{Entries: entries},
		asm.Unit{Base: "avx512", Arch: "amd64", Generate: func(f *asm.File) { tiles(f, shapes[0]) }},
		asm.Unit{Base: "avx2", Arch: "amd64", Generate: func(f *asm.File) { tiles(f, shapes[1]) }},
		asm.Unit{Base: "neon", Arch: "arm64", Generate: func(f *asm.File) { tiles(f, shapes[2]) }},
		asm.Unit{Base: "double512", Arch: "amd64", Generate: func(f *asm.File) { doubles(f, shapes[0]) }},
		asm.Unit{Base: "double2", Arch: "amd64", Generate: func(f *asm.File) { doubles(f, shapes[1]) }},
		asm.Unit{Base: "double", Arch: "arm64", Generate: func(f *asm.File) { doubles(f, shapes[2]) }},
		asm.Unit{Base: "pairs512", Arch: "amd64", Generate: func(f *asm.File) { pairTiles(f, shapes[0]) }},
		asm.Unit{Base: "half", Arch: "amd64", Generate: func(f *asm.File) {
			for _, s := range on("amd64") {
				halfTiles(f, s)
			}
		}},
		asm.Unit{Base: "pairs", Arch: "arm64", Generate: func(f *asm.File) { pairTiles(f, shapes[2]) }},
		asm.Unit{Base: "float16", Arch: "arm64", Generate: func(f *asm.File) { float16Tiles(f, shapes[2]) }},
		asm.Unit{Base: "half", Arch: "arm64", Generate: func(f *asm.File) { halfTiles(f, shapes[2]) }},
		asm.Unit{Base: "dot", Arch: "amd64", Generate: dots},
		asm.Unit{Base: "pack", Arch: "amd64", Generate: packs},
		asm.Unit{Base: "dot", Arch: "arm64", Generate: func(f *asm.File) {
			dotTables(f, "arm64", func(s shape, mr, nr int, name string) { (&neonDot{shape: s, mr: mr, nr: nr}).emit(f, name) })
		}},
		asm.Unit{Base: "pack", Arch: "arm64", Generate: neonPacks},
		asm.Unit{Base: "peak", Arch: "amd64", Generate: peaks},
		asm.Unit{Base: "peak", Arch: "arm64", Generate: neonPeak},
	)
}

// entries are what plans call.
var entries = []asm.Entry{
	{Name: "kernelsOf", Doc: "describes the kernels of an instruction set.", Result: "kernels", Portable: "return portableKernels()"},
	{Name: "callTile", Doc: "runs the kernel of tiles of rows x 16*panels elements below each other, whose height is at most kernels.tileRows[panels]; see ahead for next.",
		Params: "rows, panels, tiles int, p *tileParams, a, b, bias, res, c *float32, next uintptr", Portable: "genericTile(rows, p, a, b, bias, res, c)"},
	{Name: "doublesOf", Doc: "describes the kernels of float64 of an instruction set.", Result: "kernels", Portable: "return portableKernels()"},
	{Name: "callDouble", Doc: "runs the kernel of tiles of rows x 8*panels elements of float64 below each other, whose height is at most kernels.tileRows[panels].",
		Params: "rows, panels, tiles int, p *tileParams, a, b, bias, res, c *float64", Portable: "genericTile(rows, p, a, b, bias, res, c)"},
	{Name: "callPairs", Doc: "runs the kernel of tiles of rows x 16*panels elements, of words of two bfloat16; see callTile.",
		Params: "rows, panels, tiles int, p *tileParams, a, b, bias, res, c *float32, next uintptr", Portable: "genericPairs(rows, p, a, b, bias, res, c)"},
	{Name: "callFloat16", Doc: "runs the kernel of tiles of rows x 16*panels elements, of words of two float16; see callTile.",
		Params: "rows, panels, tiles int, p *tileParams, a, b, bias, res, c *float32, next uintptr", Portable: "genericFloat16(rows, p, a, b, bias, res, c)"},
	{Name: "callHalf", Doc: "runs the kernel of tiles of rows x 16*panels elements, with panels of float16; see callTile.",
		Params: "rows, panels, tiles int, p *tileParams, a, b, bias, res, c *float32, next uintptr", Portable: "genericHalf(rows, p, a, b, bias, res, c)"},
	{Name: "callDot", Doc: "runs the dot kernel of up to kernels.dotRows rows on n groups of 1 or 4 columns.",
		Params: "rows, cols int, p *tileParams, a, b, bias, res, c *float32, n int", Portable: "genericDot(cols, p, a, b, bias, res, c, n)"},
	{Name: "copyPanels", Doc: "copies k rows of np full panels; strides in elements.",
		Params: "dst, src *float32, k, np, lds, ldd int", Portable: "genericPanels(dst, src, k, np, lds, ldd)"},
	{Name: "fmaLoop", Doc: "runs n rounds of the multiply-add loop and returns the operations done.",
		Params: "n int", Result: "int", Portable: "return genericFMALoop(n)"},
}

// shape is what the kernels of an instruction set compute at a time.
type shape struct {
	asm.ISA
	suffix string
	// tileRows holds, for each number of panels of 16 columns, the highest number of rows of a tile, 0 for no tile: what the
	// vector registers hold beside the columns of B and a broadcast element of A, and not above 8: rows whose stride is a
	// multiple of 4 KiB share one set of the first-level cache, which has 8 ways (14x32 fell from 98 to 75 % of peak there).
	tileRows [5]int
	dotRows  int // the highest number of rows of a dot kernel
	fmaSums  int // independent sums of the loop that peaks are measured with
}

// shapes are the sets that there are kernels for. To add a tile, raise the number of its rows here, and generate anew: its
// code, its case in the dispatch and its entry in the planner's table (kernels.tileRows) come together.
var shapes = []shape{
	{ISA: asm.AVX512(), suffix: "512", tileRows: [5]int{0, 8, 8, 8, 6}, dotRows: 4, fmaSums: 24},
	{ISA: asm.AVX2(), suffix: "2", tileRows: [5]int{0, 6, 2, 0, 1}, dotRows: 2, fmaSums: 12},
	{ISA: asm.NEON(), suffix: "NEON", tileRows: [5]int{0, 6, 2, 0, 1}, dotRows: 2, fmaSums: 24},
}

// on returns the shapes of an architecture.
func on(arch string) (list []shape) {
	for _, s := range shapes {
		if s.Arch == arch {
			list = append(list, s)
		}
	}
	return list
}

// loadMask makes the mask of the last vectors of a row, for parameters at R13: the mask register, or R15, the address of one
// vector or more of the table.
func (s shape) loadMask(fn *asm.Func, table string) {
	if s.Masks {
		fn.I("MOVL %d(R13), R14", offMask)
		fn.I("KMOVW R14, %s", s.Mask())
		return
	}
	fn.I("LEAQ %s, R15", asm.DataAt(table, 0))
	fn.I("ADDQ %d(R13), R15", offMaskRow)
}

// fewRows is the highest number of rows of a tile that has lines of all panels fetched.
const fewRows = 4

// Offsets of the fields of tileParams, in bytes; checkOffsets emits a compile-time check.
const (
	offLDA     = 0
	offBStep   = 8
	offBPanel  = 16
	offLDC     = 24
	offLDR     = 32
	offK       = 40
	offLo      = 48
	offHi      = 52
	offFlags   = 56
	offMask    = 60
	offMaskRow = 64
	offMasked  = 72
	offAhead   = 80
	offApart   = 88
	offRound   = 96
)

// checkOffsets emits Go source that does not compile where tileParams and this program disagree.
func checkOffsets(f *asm.File) {
	f.Import("unsafe")
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, c := range []struct {
		name string
		off  int
	}{
		{"lda", offLDA}, {"bstep", offBStep}, {"bpanel", offBPanel}, {"ldc", offLDC}, {"ldr", offLDR}, {"k", offK}, {"lo", offLo},
		{"hi", offHi}, {"flags", offFlags}, {"mask", offMask}, {"maskRow", offMaskRow}, {"masked", offMasked}, {"ahead", offAhead},
		{"apart", offApart}, {"round", offRound},
	} {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(tileParams{}.%s)-%d]\n", c.name, c.off)
	}
	src += fmt.Sprintf("_ = [1]byte{}[chainWords-%d]\n", chainWords)
	f.Go(src + ")\n")
}

// Bits of tileParams.flags.
const (
	flagAccumulate = 1
	flagClip       = 2
	flagTailC      = 4
	flagTailB      = 8
	flagBelow      = 16
	flagAcross     = 32
)

// tiles writes all tile kernels of an instruction set, a function that selects one, and the description of the set.
func tiles(f *asm.File, s shape) {
	s.tailMask(f)
	s.serveTiles(f, "Tile", "elements", func(name string, mr, np int) {
		s.tile(tile{mr: mr, np: np, size: 4}).emit(f, name)
	})
	checkOffsets(f)
	f.Serve("kernelsOf", s.ISA, fmt.Sprintf("return kernels{lanes: %d, tileRows: %#v, fewRows: %d, dotRows: %d, repeat: %v, across: %v}", s.Lanes, s.tileRows, fewRows, s.dotRows, s.repeats(), s.across()))
}

// serveTiles has the tiles of a set written, a function that selects one, and its place in the dispatch.
func (s shape) serveTiles(f *asm.File, kind, elements string, emit func(name string, mr, np int)) {
	var table strings.Builder
	count := s.tilesArgument()
	fmt.Fprintf(&table, "// call%s%s runs the %v kernel of tiles of rows x 16*panels %s.\n", kind, s.suffix, s.Set, elements)
	fmt.Fprintf(&table, "func call%s%s(rows, panels%s int, p *tileParams, a, b, bias, res, c *float32, next uintptr) {\n", kind, s.suffix, count)
	fmt.Fprintf(&table, "\tswitch panels<<8 | rows {\n")
	for np, mr := range s.tileRows {
		for r := 1; r <= mr; r++ {
			name := fmt.Sprintf("%s%s_%dx%d", strings.ToLower(kind), s.suffix, r, 16*np)
			emit(name, r, np)
			fmt.Fprintf(&table, "\tcase %d<<8 | %d:\n\t\t%s(p, a, b, bias, res, c, next%s)\n", np, r, name, count)
		}
	}
	table.WriteString("\t}\n}\n")
	f.Go(table.String())
	f.Serve("call"+kind, s.ISA, fmt.Sprintf("call%s%s(rows, panels%s, p, a, b, bias, res, c, next)", kind, s.suffix, count))
}

// tilesArgument is the last argument of the kernels of a set that compute tiles below each other, as a list goes on, "" where they compute one.
func (s shape) tilesArgument() string {
	if s.repeats() {
		return ", tiles"
	}
	return ""
}

// repeats reports whether kernels of the set compute tiles below each other.
func (s shape) repeats() bool { return s.Arch == "amd64" }

// across reports whether those of a single panel compute tiles beside each other, too.
func (s shape) across() bool { return s.ISA == asm.AVX2() }

// pairTiles writes the tile kernels of words of two bfloat16, as those of float32 but for the instruction that multiplies.
func pairTiles(f *asm.File, s shape) {
	s.serveTiles(f, "Pairs", "elements, of words of two bfloat16", func(name string, mr, np int) {
		s.tile(tile{mr: mr, np: np, size: 4, pairs: true}).emit(f, name)
	})
}

// float16Tiles writes the tile kernels of words of two float16, which are NEON's.
func float16Tiles(f *asm.File, s shape) {
	s.serveTiles(f, "Float16", "elements, of words of two float16", func(name string, mr, np int) {
		(&neonFloat16{neonTile{shape: s, mr: mr, np: np, size: 4}}).emit(f, name)
	})
}

// halfTiles writes the tile kernels on panels of float16, as those of float32 but for the instruction that reads B. Panels are padded, and so
// is B never masked.
func halfTiles(f *asm.File, s shape) {
	s.tailMask(f)
	s.serveTiles(f, "Half", "elements, with panels of float16", func(name string, mr, np int) {
		s.tile(tile{mr: mr, np: np, size: 4, half: true}).emit(f, name)
	})
}

// tile is the writer of a tile for the set.
func (s shape) tile(t tile) interface {
	emit(f *asm.File, name string)
} {
	t.shape = s
	if s.ISA == asm.NEON() {
		return &neonTile{shape: s, mr: t.mr, np: t.np, size: t.size, pairs: t.pairs, half: t.half}
	}
	return &t
}

// tailMask writes the table of masks that a set without mask registers loads.
func (s shape) tailMask(f *asm.File) {
	if s.ISA != asm.AVX2() {
		return
	}
	var words []uint32
	for range 16 {
		words = append(words, 0xffffffff)
	}
	f.Data("tailmask", append(words, make([]uint32, 16)...)...)
}

// doubles writes the tile kernels on float64 of an instruction set: as those of float32, with panels of as many bytes.
func doubles(f *asm.File, s shape) {
	s.tailMask(f)
	var table strings.Builder
	count := s.tilesArgument()
	fmt.Fprintf(&table, "// callDouble%s runs the %v kernel of tiles of rows x 8*panels elements of float64.\n", s.suffix, s.Set)
	fmt.Fprintf(&table, "func callDouble%s(rows, panels%s int, p *tileParams, a, b, bias, res, c *float64) {\n", s.suffix, count)
	fmt.Fprintf(&table, "\tswitch panels<<8 | rows {\n")
	for np, mr := range s.tileRows {
		for r := 1; r <= mr; r++ {
			name := fmt.Sprintf("double%s_%dx%d", s.suffix, r, 8*np)
			s.tile(tile{mr: r, np: np, size: 8}).emit(f, name)
			fmt.Fprintf(&table, "\tcase %d<<8 | %d:\n\t\t%s(p, a, b, bias, res, c%s)\n", np, r, name, count)
		}
	}
	table.WriteString("\t}\n}\n")
	f.Go(table.String())
	f.Serve("callDouble", s.ISA, fmt.Sprintf("callDouble%s(rows, panels%s, p, a, b, bias, res, c)", s.suffix, count))
	f.Serve("doublesOf", s.ISA, fmt.Sprintf("return kernels{lanes: %d, tileRows: %#v, repeat: %v, across: %v}", s.Lanes/2, s.tileRows, s.repeats(), s.across()))
}

// tile is one kernel being written: C[mr][16*np] from A[mr][k] and np panels of B; of float64, with 8 columns a panel. It computes as many
// tiles below each other, or beside each other where it can (see beside), as it is told, so that a tile of few k does not wait for a call.
//
// Registers: AX a, BX lda, CX 3*lda, DX 5*lda, SI 7*lda, R8 b, R9 step of b from one k to the next, R11 and
// R12 one and three times the step from panel to panel, DI k, R13 params. In the loop R10 walks what is to be fetched. After the loop AX walks res, R8 walks c.
// Where rows of B are indexed (see indexed) R12 is 3*R9, R11 the step of what is to be fetched, and R14 in the loop three times that.
// The arguments are moved on where they lie.
// Vectors: the accumulators row by row, then one row of B, then broadcast elements of A.
type tile struct {
	*asm.Func
	shape
	mr, np int
	size   int  // bytes of an element
	pairs  bool // elements of A and B are two bfloat16 in a word
	half   bool // elements of B are float16
	row    int  // the row of B at hand, counted from R8
}

// multiply emits acc += b*x.
func (t *tile) multiply(b, x, acc string) {
	if t.pairs {
		t.DotPairs(b, x, acc)
		return
	}
	t.I("%s %s, %s, %s", t.op("VFMADD231P"), b, x, acc)
}

// pointer is a parameter that points to elements.
func (t *tile) pointer(name string) asm.Arg {
	if t.size == 8 {
		return asm.Typed(name, "*float64")
	}
	return asm.Ptr(name)
}

// op names an instruction on elements: S and D are the last letters of those on float32 and float64.
func (t *tile) op(name string) string {
	if t.size == 8 {
		return name + "D"
	}
	return name + "S"
}

func (t *tile) nv() int              { return t.np * 16 / t.Lanes }
func (t *tile) acc(r, j int) string  { return t.R(r*t.nv() + j) }
func (t *tile) b(j int) string       { return t.R(t.mr*t.nv() + j) }
func (t *tile) free() int            { return t.mr * t.nv() }
func (t *tile) inPlace() bool        { return t.mr == 1 }
func (t *tile) lastPanel(j int) bool { return j*t.Lanes >= (t.np-1)*16 }

func (t *tile) emit(f *asm.File, name string) {
	args := []asm.Arg{asm.Typed("p", "*tileParams"), t.pointer("a"), t.pointer("b"), t.pointer("bias"), t.pointer("res"), t.pointer("c")}
	if t.fetches() {
		args = append(args, asm.Typed("next", "uintptr"))
	}
	args = append(args, asm.Int("tiles"))
	t.Func = f.Func(name, fmt.Sprintf("%s computes tiles of %d rows and %d columns below each other; see tileParams.", name, t.mr, 64/t.size*t.np), args...)
	t.Load("p", "R13")
	t.I("MOVQ %d(R13), R9", offBStep)
	if t.np > 1 {
		t.I("MOVQ %d(R13), R11", offBPanel)
	}
	if t.np > 3 {
		t.I("LEAQ (R11)(R11*2), R12")
	}
	if t.indexed() {
		t.I("LEAQ (R9)(R9*2), R12")
		if t.fetches() {
			t.I("MOVQ %d(R13), R11", offApart)
		}
	}
	if t.mr > 1 {
		t.I("MOVQ %d(R13), BX", offLDA)
	}
	if t.mr > 3 {
		t.I("LEAQ (BX)(BX*2), CX")
	}
	if t.mr > 5 {
		t.I("LEAQ (BX)(BX*4), DX")
	}
	if t.mr > 7 {
		t.I("LEAQ (CX)(BX*4), SI")
	}
	t.loadMask(t.Func, "tailmask")
	t.Label("tile")
	t.Load("a", "AX")
	t.Load("b", "R8")
	t.I("MOVQ %d(R13), DI", offK)
	t.I("SUBQ %d(R13), DI", offMasked)
	t.fetchResults()
	t.start()
	t.loop()
	t.loopMasked()
	t.finish()
	t.advance()
	t.Ret()
}

// start sets the accumulators: from C, from bias, or to zero.
func (t *tile) start() {
	t.I("MOVL %d(R13), R14", offFlags)
	t.I("TESTL $%d, R14", flagAccumulate)
	t.I("JZ fresh")
	t.Load("c", "R14")
	t.withTail("accfull", "started", func(tail bool) {
		for r := range t.mr {
			for j := range t.nv() {
				t.loadTail("R14", j, t.acc(r, j), tail)
			}
			if r < t.mr-1 {
				t.I("ADDQ %d(R13), R14", offLDC)
			}
		}
	})
	t.Label("fresh")
	t.Load("bias", "R14")
	t.I("TESTQ R14, R14")
	t.I("JZ zero")
	t.withTail("biasfull", "started", func(tail bool) {
		for j := range t.nv() {
			t.loadTail("R14", j, t.acc(0, j), tail)
		}
		for r := 1; r < t.mr; r++ {
			for j := range t.nv() {
				t.I("VMOVAPS %s, %s", t.acc(0, j), t.acc(r, j))
			}
		}
	})
	t.Label("zero")
	for r := range t.mr {
		for j := range t.nv() {
			t.Clear(t.ISA, t.acc(r, j))
		}
	}
	t.Label("started")
}

// withTail emits body for a masked and for a full last panel; both end in a jump to end. full is the label of the second.
// R12 is left alone, as are the registers of the loop; the flags are tested anew.
func (t *tile) withTail(full, end string, body func(tail bool)) {
	t.I("TESTL $%d, %d(R13)", flagTailC, offFlags)
	t.I("JZ %s", full)
	body(true)
	t.I("JMP %s", end)
	t.Label(full)
	body(false)
	t.I("JMP %s", end)
}

// loadTail loads vector j of a row at base into x, masked in the last panel where tail is set.
func (t *tile) loadTail(base string, j int, x string, tail bool) {
	t.LoadVector(t.ISA, fmt.Sprintf("%d(%s)", j*t.Size(), base), x, t.mask(j, tail && t.lastPanel(j)))
}

// mask returns the mask of vector j, which it loads where the set has no mask registers; "" where masked is not set.
func (t *tile) mask(j int, masked bool) string {
	if !masked {
		return ""
	}
	if !t.Masks {
		t.I("VMOVUPS %d(R15), %s", j*t.Size()%64, t.Mask())
	}
	return t.Mask()
}

// storeTail is the store that goes with loadTail.
func (t *tile) storeTail(x, base string, j int, tail bool) {
	t.StoreVector(t.ISA, x, fmt.Sprintf("%d(%s)", j*t.Size(), base), t.mask(j, tail && t.lastPanel(j)))
}

// aAddr addresses element k of row r of A.
func (t *tile) aAddr(r, k int) string {
	row := []string{"(AX)", "(AX)(BX*1)", "(AX)(BX*2)", "(AX)(CX*1)", "(AX)(BX*4)", "(AX)(DX*1)", "(AX)(CX*2)", "(AX)(SI*1)"}
	return fmt.Sprintf("%d%s", t.size*k, row[r])
}

// bAddr addresses vector j of the current row of B.
func (t *tile) bAddr(j int) string {
	perPanel := 16 / t.Lanes
	if t.row > 0 {
		return fmt.Sprintf("%d%s", j*t.Lanes*t.sizeB(), []string{"", "(R8)(R9*1)", "(R8)(R9*2)", "(R8)(R12*1)"}[t.row])
	}
	panel := []string{"(R8)", "(R8)(R11*1)", "(R8)(R11*2)", "(R8)(R12*1)"}[j/perPanel]
	return fmt.Sprintf("%d%s", j%perPanel*t.Lanes*t.sizeB(), panel)
}

// sizeB returns the bytes of an element of B, in a vector of lanes of 4 bytes.
func (t *tile) sizeB() int {
	if t.half {
		return 2
	}
	return 4
}

// loadB loads vector j of the current row of B.
func (t *tile) loadB(j int, x string, masked bool) {
	if t.half {
		t.I("VCVTPH2PS %s, %s", t.bAddr(j), x)
		return
	}
	t.LoadVector(t.ISA, t.bAddr(j), x, t.mask(j, masked))
}
