//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// variant says how a kernel treats the caches.
type variant struct {
	stream bool // stores bypass them
	fetch  bool // what will be read later is asked for: near with stores into the caches, long before with others
}

// name makes a function's name, doc the end of its doc comment.
func (v variant) name(base string, bits int) string {
	if v.stream {
		base += "Stream"
	}
	if v.fetch {
		base += "Fetch"
	}
	return fmt.Sprint(base, bits)
}

func (v variant) doc(side int) string {
	s := ""
	if v.stream {
		s += "\nStores bypass the caches: dst and its strides are multiples of 64, and storeFence has to follow."
	}
	switch {
	case v.fetch && v.stream:
		s += fmt.Sprintf("\nWith each tile, %d rows of four cache lines, srcStride apart, are asked for, from ahead bytes behind src on.", side/4)
	case v.fetch:
		s += "\nWith each row, what lies ahead bytes behind it is asked for."
	}
	return s
}

func (v variant) store() string {
	if v.stream {
		return "VMOVNTPS"
	}
	return "VMOVUPS"
}

const tilesDoc = ` transposes n tiles of %[1]d by %[1]d floats: row r of one starts at src + r*srcStride bytes, row r of its
transpose at dst + r*dstStride bytes. From tile to tile src moves by srcStep bytes and dst by dstStep. n is at least 1. With
pairs 1, not 0, tiles are taken two by two, the second of two before the first.`

func tilesArgs() []asm.Arg {
	return []asm.Arg{asm.Ptr("dst"), asm.Int("dstStride"), asm.Int("dstStep"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("srcStep"),
		asm.Int("ahead"), asm.Int("pairs"), asm.Int("n")}
}

func beginTiles(fn *asm.Func, v variant) {
	fn.Load("dst", "DI")
	fn.Load("dstStride", "R8")
	fn.Load("src", "SI")
	fn.Load("srcStride", "R9")
	fn.Load("srcStep", "R13")
	fn.Load("dstStep", "DX")
	fn.Load("ahead", "BX")
	if v.stream {
		fn.I("ADDQ SI, BX")
	}
	fn.Load("n", "R12")
}

// tile emits the moves of one tile between memory and registers; side is 16 or 8, and the fetching goes with its rows.
func tile(fn *asm.Func, side int, v variant, shuffle func(*asm.Func)) {
	reg := asm.Width(side).R
	fn.I("MOVQ SI, AX")
	for r := range side {
		fn.I("VMOVUPS (AX), %s", reg(r))
		switch {
		case v.fetch && v.stream:
			fn.I("PREFETCHT1 %d(BX)", r%4*64)
			if r%4 == 3 {
				fn.I("ADDQ R9, BX")
			}
		case v.fetch:
			fn.I("PREFETCHT1 (AX)(BX*1)")
		}
		fn.I("ADDQ R9, AX")
	}
	shuffle(fn)
	fn.I("MOVQ DI, AX")
	for c := range side {
		fn.I("%s %s, (AX)", v.store(), reg(c))
		fn.I("ADDQ R8, AX")
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

// tiles512 and tiles256 transpose whole tiles.
func tiles512(f *asm.File, v variant) {
	name := v.name("tiles", 512)
	fn := f.Func(name, name+fmt.Sprintf(tilesDoc, 16)+v.doc(16), tilesArgs()...)
	beginTiles(fn, v)
	tilesLoop(fn, func() { tile(fn, 16, v, shuffle16) })
	fn.Ret()
}

func tiles256(f *asm.File, v variant) {
	name := v.name("tiles", 256)
	fn := f.Func(name, name+fmt.Sprintf(tilesDoc, 8)+v.doc(8), tilesArgs()...)
	beginTiles(fn, v)
	tilesLoop(fn, func() { tile(fn, 8, v, shuffle8) })
	fn.Ret()
}

// fence orders stores that bypass the caches.
func fence(f *asm.File) {
	fn := f.Func("storeFence", "storeFence makes stores that bypass the caches visible to others before any later store.")
	fn.I("SFENCE")
	fn.Ret()
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
