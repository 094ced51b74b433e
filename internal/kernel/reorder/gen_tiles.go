//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// variant says how a kernel treats the caches.
type variant struct {
	stream bool // stores bypass them
	fetch  bool // what will be read later is asked for
	quads  bool // and that in memory by four lines of a row, long before, and with these near the tiles in the second-level cache
}

// name makes a function's name.
func (v variant) name(base string, bits int) string {
	if v.stream {
		base += "Stream"
	}
	if v.fetch {
		base += "Fetch"
	}
	if v.quads {
		base += "Quads"
	}
	return fmt.Sprint(base, bits)
}

// doc is the end of its doc comment.
func (v variant) doc() string {
	s := ""
	if v.stream {
		s += "\nStores bypass the caches: dst and its strides are multiples of 64, and storeFence has to follow."
	}
	switch {
	case v.quads:
		s += "\nWith each tile, four rows of four cache lines, srcStride apart, are asked for from memory, from ahead bytes behind src on, and with each row\n" +
			"what lies near bytes behind it, from the second-level cache."
	case v.fetch:
		s += "\nWith each row, what lies ahead bytes behind it is asked for."
	}
	return s
}

// choose returns the Go statement that calls the variant which the parameters to and ahead ask for. Variants come with the
// most demanding first and the plain one last; where a set has no variant that streams, nobody asks it to.
func choose(variants []variant, call func(variant) string) string {
	var cases strings.Builder
	for _, v := range variants {
		var terms []string
		if v.stream {
			terms = append(terms, "to == streamed")
		}
		if v.fetch {
			terms = append(terms, "ahead != 0")
		}
		if len(terms) == 0 {
			cases.WriteString("default:\n")
		} else {
			fmt.Fprintf(&cases, "case %s:\n", strings.Join(terms, " && "))
		}
		cases.WriteString(call(v) + "\n")
	}
	return "switch {\n" + cases.String() + "}"
}

func (v variant) store() string {
	if v.stream {
		return "VMOVNTPS"
	}
	return "VMOVUPS"
}

const tilesDoc = ` transposes n tiles of %[1]d by %[1]d floats: row r of one starts at src + r*srcStride bytes, row r of its
transpose at dst + r*dstStride bytes. From tile to tile src moves by srcStep bytes and dst by dstStep. n is at least 1.`

const pairsDoc = ` With
pairs 1, not 0, tiles are taken two by two, the second of two before the first.`

func tilesArgs(v variant) []asm.Arg {
	args := []asm.Arg{asm.Ptr("dst"), asm.Int("dstStride"), asm.Int("dstStep"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("srcStep"), asm.Int("ahead")}
	if v.quads {
		args = append(args, asm.Int("near"))
	}
	return append(args, asm.Int("pairs"), asm.Int("n"))
}

func beginTiles(fn *asm.Func, v variant) {
	fn.Load("dst", "DI")
	fn.Load("dstStride", "R8")
	fn.Load("src", "SI")
	fn.Load("srcStride", "R9")
	fn.Load("srcStep", "R13")
	fn.Load("dstStep", "DX")
	fn.Load("ahead", "BX")
	if v.quads {
		fn.I("ADDQ SI, BX")
		fn.Load("near", "R14")
	}
	fn.Load("n", "R12")
}

// shuffledTile emits the moves of one tile, as many rows as a vector has lanes, between memory and registers. The fetching goes with the rows that are
// read; by quads, with those that are written: beside the loads it held them up.
func shuffledTile(shuffle func(*asm.Func)) func(*asm.Func, asm.ISA, variant) {
	return func(fn *asm.Func, isa asm.ISA, v variant) {
		fn.I("MOVQ SI, AX")
		if isa.Lanes == 8 && !v.fetch {
			eightRows(fn, "R9", func(r int, at string) { fn.I("VMOVUPS %s, %s", at, isa.R(r)) })
		} else {
			for r := range isa.Lanes {
				fn.I("VMOVUPS (AX), %s", isa.R(r))
				if v.fetch {
					fn.I("PREFETCHT1 (AX)(BX*1)")
				}
				fn.I("ADDQ R9, AX")
			}
		}
		shuffle(fn)
		fn.I("MOVQ DI, AX")
		if isa.Lanes == 8 && !v.quads {
			eightRows(fn, "R8", func(r int, at string) { fn.I("%s %s, %s", v.store(), isa.R(r), at) })
			return
		}
		if v.quads {
			fn.I("LEAQ (SI)(R14*1), R15")
		}
		for c := range isa.Lanes {
			fn.I("%s %s, (AX)", v.store(), isa.R(c))
			fn.I("ADDQ R8, AX")
			if v.quads {
				fetchQuad(fn, c)
				fn.I("PREFETCHT0 (R15)")
				fn.I("ADDQ R9, R15")
			}
		}
	}
}

// eightRows emits op with the operands of eight rows that lie as far apart as a register says, the first at AX, which it moves: with two additions.
func eightRows(fn *asm.Func, stride string, op func(r int, at string)) {
	at := func(from, r int) {
		if r == from {
			op(r, "(AX)")
			return
		}
		op(r, fmt.Sprintf("(AX)(%s*%d)", stride, r-from))
	}
	for _, r := range []int{0, 1, 2, 4} {
		at(0, r)
	}
	fn.I("ADDQ %s, AX", stride)
	at(1, 3)
	at(1, 5)
	fn.I("LEAQ (AX)(%s*4), AX", stride)
	at(5, 6)
	at(5, 7)
}

// fetchQuad asks for the line of number i of those from memory.
func fetchQuad(fn *asm.Func, i int) {
	fn.I("PREFETCHT1 %d(BX)", i%4*64)
	if i%4 == 3 {
		fn.I("ADDQ R9, BX")
	}
}

// linesTile emits the moves of a tile of AVX2 of 16 rows of 16: four columns of all rows make four lines, whose halves follow each other. It is read in
// whole lines too, which may drive each other out of the caches. An addition moves on by several rows: with one for each, a tile has 270 instructions in
// place of some 200, which counts inside of the caches, above all where another thread has its share of the core.
func linesTile(fn *asm.Func, isa asm.ISA, v variant) {
	for four := range 4 {
		fn.I("LEAQ %d(SI), AX", 16*four)
		fn.I("LEAQ (AX)(R9*4), R15")
		pair := func(r int, at string) {
			fn.I("VMOVUPS (AX)%s, X%d", at, r)
			fn.I("VINSERTF128 $1, (R15)%s, Y%d, Y%d", at, r, r)
		}
		both := func(format string) {
			for _, r := range []string{"AX", "R15"} {
				fn.I(format, r)
			}
		}
		switch {
		case four == 0 && (v.fetch || v.quads): // with each row what is read later
			for i := range 2 {
				for r := range 4 {
					pair(r, "")
					if v.fetch {
						both("PREFETCHT1 (%[1]s)(BX*1)")
					} else {
						both("PREFETCHT0 (%[1]s)(R14*1)")
					}
					both("ADDQ R9, %[1]s")
				}
				quads(fn, asm.Y, 0, 4+4*i, 12)
				if i == 0 {
					both("LEAQ (%[1]s)(R9*4), %[1]s")
				}
			}
		default:
			pair(0, "")
			pair(1, "(R9*1)")
			pair(2, "(R9*2)")
			both("ADDQ R9, %[1]s")
			pair(3, "(R9*2)")
			both("LEAQ (%[1]s)(R9*8), %[1]s")
			quads(fn, asm.Y, 0, 4, 12)
			pair(1, "")
			pair(2, "(R9*1)")
			pair(3, "(R9*2)")
			both("SUBQ R9, %[1]s")
			pair(0, "")
			quads(fn, asm.Y, 0, 8, 12)
		}
		fn.I("MOVQ DI, AX")
		if four >= 2 {
			fn.I("LEAQ (AX)(R8*8), AX")
		}
		if four%2 == 1 {
			fn.I("LEAQ (AX)(R8*4), AX")
		}
		for c, at := range []string{"", "(R8*1)", "(R8*2)", "(R8*1)"} {
			if c == 3 {
				fn.I("LEAQ (AX)(R8*2), AX")
			}
			for half := range 2 {
				fn.I("%s Y%d, %d(AX)%s", v.store(), 4+4*half+c, 32*half, at)
			}
			if v.quads {
				fetchQuad(fn, c)
			}
		}
	}
}

// tilesLoop emits the loop over tiles.
func tilesLoop(fn *asm.Func, body func()) {
	loop, done := fn.NewLabel("loop"), fn.NewLabel("done")
	fn.I("LEAQ (R13)(R13*1), R10")
	fn.I("LEAQ (DX)(DX*1), R11")
	fn.I("XORL CX, CX") // how many are left when the last one, without a partner, comes next; 0: there is none
	fn.Load("pairs", "AX")
	fn.I("TESTQ AX, AX")
	fn.I("JZ %s", loop)
	fn.I("CMPQ R12, $1")
	fn.I("JEQ %s", loop)
	fn.I("MOVQ R12, CX")
	fn.I("ANDQ $1, CX")
	fn.I("ADDQ R13, SI")
	fn.I("ADDQ DX, DI")
	fn.I("NEGQ R13")
	fn.I("NEGQ DX")
	fn.I("PCALIGN $64")
	fn.Label(loop)
	body()
	// Always one on, or one back and three on by turns.
	fn.I("ADDQ R13, SI")
	fn.I("ADDQ DX, DI")
	fn.I("NEGQ R13")
	fn.I("NEGQ DX")
	fn.I("ADDQ R10, R13")
	fn.I("ADDQ R11, DX")
	fn.I("DECQ R12")
	fn.I("JZ %s", done)
	fn.I("CMPQ R12, CX")
	fn.I("JNE %s", loop)
	fn.I("ADDQ R13, SI")
	fn.I("ADDQ DX, DI")
	fn.I("JMP %s", loop)
	fn.Label(done)
}

// tiles512 and tiles256 write the kernels that transpose whole tiles. Past the caches AVX2 moves tiles of AVX-512's size, whose rows are whole lines.
func tiles512(f *asm.File) {
	k := tileKernel{"tiles", 16, shuffledTile(shuffle16)}
	wholeTiles(f, asm.AVX512(), k, k)
}

func tiles256(f *asm.File) {
	isa := asm.AVX2()
	wholeTiles(f, isa, tileKernel{"tiles", 8, shuffledTile(shuffle8)}, tileKernel{"lines", 16, linesTile})
	// Of few planes each two tiles make a line.
	f.Serve("hasFewPlanes", isa, "return true")
	f.Serve("planesToRows", isa, "tiles256(dst, dstStride, 8*dstStride, src, srcStride, 32, 0, 0, 2*n)")
	f.Serve("rowsToPlanes", isa, "tiles256(dst, dstStride, 32, src, srcStride, 8*srcStride, 0, 0, 2*n)")
}

// tileKernel is how a tile is moved: how its name begins, the side of the tile, and what it does.
type tileKernel struct {
	name string
	side int
	tile func(*asm.Func, asm.ISA, variant)
}

// wholeTiles writes the kernels of a set: those that stream are of the second kind, and so are those of whole lines.
func wholeTiles(f *asm.File, isa asm.ISA, kept, streamed tileKernel) {
	variants := []variant{{stream: true, fetch: true}, {stream: true}, {fetch: true}, {}}
	names := map[variant]string{}
	quads := variant{stream: true, quads: true}
	for _, v := range append(variants, quads) {
		k := kept
		if v.stream {
			k = streamed
		}
		names[v] = k.emit(f, isa, v)
	}
	lines := names
	if kept.side < streamed.side {
		lines = map[variant]string{}
		for _, v := range variants[2:] {
			lines[v] = streamed.emit(f, isa, v)
		}
	}
	f.Serve("callLines", isa, choose(variants[2:], func(v variant) string {
		return lines[v] + "(dst, dstStride, dstStep, src, srcStride, srcStep, ahead, pairs, n)"
	}))
	f.Serve("callTiles", isa, choose(variants, func(v variant) string {
		return names[v] + "(dst, dstStride, dstStep, src, srcStride, srcStep, ahead, pairs, n)"
	}))
	f.Serve("streamTiles", isa, names[quads]+"(dst, dstStride, dstStep, src, srcStride, srcStep, ahead, near, pairs, n)")
	f.Serve("streamsTiles", isa, "return true")
}

// emit writes one variant and returns its name.
func (k tileKernel) emit(f *asm.File, isa asm.ISA, v variant) string {
	name := v.name(k.name, 8*isa.Size())
	fn := f.Func(name, name+fmt.Sprintf(tilesDoc+pairsDoc, k.side)+v.doc(), tilesArgs(v)...)
	beginTiles(fn, v)
	tilesLoop(fn, func() { k.tile(fn, isa, v) })
	fn.Ret()
	return name
}

// fence orders stores that bypass the caches.
func fence(f *asm.File) {
	fn := f.Func("storeFence", "storeFence makes stores that bypass the caches visible to others before any later store.")
	fn.I("SFENCE")
	fn.Ret()
	for _, isa := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
		f.Serve("fence", isa, "storeFence()")
	}
}

// flush writes the kernel that writes whole lines of rows that do not begin at any.
func flush(f *asm.File) {
	fn := f.Func("flushLines512", `flushLines512 copies, for each of some rows, so many cache lines: to the first that ends behind dst and those behind it, from as
many bytes behind src as that one ends behind dst. From row to row dst moves by dstStride and src by srcStride bytes. lines and rows are at least 1.
Stores bypass the caches, and storeFence has to follow.`, asm.Ptr("dst"), asm.Int("dstStride"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("lines"), asm.Int("rows"))
	for _, load := range [][2]string{{"dst", "DI"}, {"dstStride", "R8"}, {"src", "SI"}, {"srcStride", "R9"}, {"lines", "R10"}, {"rows", "R11"}} {
		fn.Load(load[0], load[1])
	}
	fn.Loop("R11", func() {
		fn.I("MOVQ DI, DX") // the line that dst lies in, which ends 1 to 64 bytes behind it
		fn.I("ANDQ $-64, DX")
		fn.I("MOVQ DX, AX")
		fn.I("SUBQ DI, AX")
		fn.I("LEAQ 64(SI)(AX*1), AX")
		fn.I("MOVQ R10, CX")
		fn.Loop("CX", func() {
			fn.I("VMOVUPS (AX), Z0")
			fn.I("VMOVNTPS Z0, (DX)")
			fn.I("ADDQ $64, AX")
			fn.I("ADDQ $64, DX")
		})
		fn.I("ADDQ R8, DI")
		fn.I("ADDQ R9, SI")
	})
	fn.Ret()
	f.Serve("flushLines", asm.AVX512(), "flushLines512(dst, dstStride, src, srcStride, lines, rows)")
}

const rowsDoc = ` copies, for each of some blocks, n rows of 16 floats that start srcStride bytes apart to rows that start dstStride
bytes apart. From block to block src moves by srcBlock bytes and dst by dstBlock. blocks and n are at least 1.`

func rowsArgs() []asm.Arg {
	return []asm.Arg{asm.Ptr("dst"), asm.Int("dstStride"), asm.Int("dstBlock"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("srcBlock"),
		asm.Int("blocks"), asm.Int("n")}
}

// rowsLoop emits the loops over blocks and rows; move copies one row from (from) to (to), which are registers.
func rowsLoop(fn *asm.Func, move func(from, to string, k int)) {
	fn.Load("dst", "DX")
	fn.Load("dstStride", "R8")
	fn.Load("dstBlock", "R11")
	fn.Load("src", "BX")
	fn.Load("srcStride", "R9")
	fn.Load("srcBlock", "R12")
	fn.Load("blocks", "R10")
	fn.Loop("R10", func() {
		fn.I("MOVQ BX, SI")
		fn.I("MOVQ DX, DI")
		fn.Load("n", "CX")
		fn.While("CX", 4, func() {
			for k := range 4 {
				move("SI", "DI", k)
				fn.I("ADDQ R9, SI")
				fn.I("ADDQ R8, DI")
			}
		})
		rest, none := fn.NewLabel("rest"), fn.NewLabel("none")
		fn.I("TESTQ CX, CX")
		fn.I("JZ %s", none)
		fn.Label(rest)
		move("SI", "DI", 0)
		fn.I("ADDQ R9, SI")
		fn.I("ADDQ R8, DI")
		fn.I("DECQ CX")
		fn.I("JNZ %s", rest)
		fn.Label(none)
		fn.I("ADDQ R12, BX")
		fn.I("ADDQ R11, DX")
	})
	fn.Ret()
}

// rows writes the kernels that copy rows, plain and streaming.
func rows(f *asm.File) {
	for _, v := range []variant{{}, {stream: true}} {
		rows512(f, v)
		rows256(f, v)
	}
	for _, isa := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
		bits := 8 * isa.Size()
		f.Serve("copyRows", isa, choose([]variant{{stream: true}, {}}, func(v variant) string {
			return v.name("rows", bits) + "(dst, dstStride, dstBlock, src, srcStride, srcBlock, blocks, n)"
		}))
		f.Serve("streamsRows", isa, "return true")
	}
}

func rows512(f *asm.File, v variant) {
	name := v.name("rows", 512)
	fn := f.Func(name, name+rowsDoc+v.doc(), rowsArgs()...)
	rowsLoop(fn, func(from, to string, k int) {
		fn.I("VMOVUPS (%s), Z%d", from, k)
		fn.I("%s Z%d, (%s)", v.store(), k, to)
	})
}

func rows256(f *asm.File, v variant) {
	name := v.name("rows", 256)
	fn := f.Func(name, name+rowsDoc+v.doc(), rowsArgs()...)
	rowsLoop(fn, func(from, to string, k int) {
		for h := range 2 {
			fn.I("VMOVUPS %d(%s), Y%d", 32*h, from, 2*k+h)
		}
		for h := range 2 {
			fn.I("%s Y%d, %d(%s)", v.store(), 2*k+h, 32*h, to)
		}
	})
}
