//go:build ignore

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// variant says how a kernel treats the caches.
type variant struct {
	stream bool // stores bypass them
	fetch  bool // what will be read later is asked for
	quads  bool // and that in memory by four lines of a row, long before, and with these near the tiles in the second-level cache
}

// name makes a function's name, doc the end of its doc comment.
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

func (v variant) doc(side int) string {
	s := ""
	if v.stream {
		s += "\nStores bypass the caches: dst and its strides are multiples of 64, and storeFence has to follow."
	}
	switch {
	case v.quads:
		s += fmt.Sprintf("\nWith each tile, %d rows of four cache lines, srcStride apart, are asked for from memory, from ahead bytes behind src on, and with each row\n"+
			"what lies near bytes behind it, from the second-level cache.", side/4)
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

// tile emits the moves of one tile, as many rows as a vector has lanes, between memory and registers. The fetching goes with the rows that are read;
// by quads, with those that are written: beside the loads it held them up.
func tile(fn *asm.Func, isa asm.ISA, v variant, shuffle func(*asm.Func)) {
	fn.I("MOVQ SI, AX")
	for r := range isa.Lanes {
		fn.I("VMOVUPS (AX), %s", isa.R(r))
		if v.fetch {
			fn.I("PREFETCHT1 (AX)(BX*1)")
		}
		fn.I("ADDQ R9, AX")
	}
	shuffle(fn)
	fn.I("MOVQ DI, AX")
	if v.quads {
		fn.I("LEAQ (SI)(R14*1), R15")
	}
	for c := range isa.Lanes {
		fn.I("%s %s, (AX)", v.store(), isa.R(c))
		fn.I("ADDQ R8, AX")
		if v.quads {
			fn.I("PREFETCHT1 %d(BX)", c%4*64)
			if c%4 == 3 {
				fn.I("ADDQ R9, BX")
			}
			fn.I("PREFETCHT0 (R15)")
			fn.I("ADDQ R9, R15")
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

// tiles512 and tiles256 write the kernels that transpose whole tiles. A tile of AVX2 is half a line wide: it does not stream.
func tiles512(f *asm.File) {
	variants := []variant{{}, {fetch: true}, {stream: true}, {stream: true, fetch: true}}
	wholeTiles(f, asm.AVX512(), variants, shuffle16)
	quads := variant{stream: true, quads: true}
	f.Serve("streamTiles", asm.AVX512(), oneOfTiles(f, asm.AVX512(), quads, shuffle16)+"(dst, dstStride, dstStep, src, srcStride, srcStep, ahead, near, pairs, n)")
	f.Serve("streamsTiles", asm.AVX512(), "return true")
}

func tiles256(f *asm.File) { wholeTiles(f, asm.AVX2(), []variant{{}, {fetch: true}}, shuffle8) }

func wholeTiles(f *asm.File, isa asm.ISA, variants []variant, shuffle func(*asm.Func)) {
	for _, v := range variants {
		oneOfTiles(f, isa, v, shuffle)
	}
	slices.Reverse(variants)
	f.Serve("callTiles", isa, choose(variants, func(v variant) string {
		return v.name("tiles", 8*isa.Size()) + "(dst, dstStride, dstStep, src, srcStride, srcStep, ahead, pairs, n)"
	}))
}

// oneOfTiles writes one variant and returns its name.
func oneOfTiles(f *asm.File, isa asm.ISA, v variant, shuffle func(*asm.Func)) string {
	name := v.name("tiles", 8*isa.Size())
	fn := f.Func(name, name+fmt.Sprintf(tilesDoc+pairsDoc, isa.Lanes)+v.doc(isa.Lanes), tilesArgs(v)...)
	beginTiles(fn, v)
	tilesLoop(fn, func() { tile(fn, isa, v, shuffle) })
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
	fn := f.Func(name, name+rowsDoc+v.doc(0), rowsArgs()...)
	rowsLoop(fn, func(from, to string, k int) {
		fn.I("VMOVUPS (%s), Z%d", from, k)
		fn.I("%s Z%d, (%s)", v.store(), k, to)
	})
}

func rows256(f *asm.File, v variant) {
	name := v.name("rows", 256)
	fn := f.Func(name, name+rowsDoc+v.doc(0), rowsArgs()...)
	rowsLoop(fn, func(from, to string, k int) {
		for h := range 2 {
			fn.I("VMOVUPS %d(%s), Y%d", 32*h, from, 2*k+h)
		}
		for h := range 2 {
			fn.I("%s Y%d, %d(%s)", v.store(), 2*k+h, 32*h, to)
		}
	})
}
