//go:build ignore

// This program writes the assembly of package reorder.
package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("reorder",
		asm.Unit{Base: "transpose", Generate: func(f *asm.File) {
			transpose512(f)
			transpose256(f)
		}},
		asm.Unit{Base: "tiles", Generate: func(f *asm.File) {
			for _, v := range []variant{{}, {fetch: true}, {stream: true}, {stream: true, fetch: true}} {
				tiles512(f, v)
			}
			for _, v := range []variant{{}, {fetch: true}} {
				tiles256(f, v)
			}
			for _, v := range []variant{{}, {stream: true}} {
				rows512(f, v)
				rows256(f, v)
			}
			fence(f)
		}},
		asm.Unit{Base: "cast", Generate: func(f *asm.File) {
			f.Import("unsafe")
			for _, k := range casts {
				cast512(f, k)
				cast256(f, k)
			}
		}},
		asm.Unit{Base: "lanes", Generate: func(f *asm.File) {
			copy512(f)
			copy256(f)
			gather512(f)
			gather256(f)
		}},
	)
}

// lowBits emits mask = the low count bits, count a register with 0 to 16; it clobbers CX.
func lowBits(fn *asm.Func, count, mask, k string) {
	fn.I("MOVQ %s, CX", count)
	fn.I("MOVL $1, %s", mask)
	fn.I("SHLL CX, %s", mask)
	fn.I("DECL %s", mask)
	fn.I("KMOVW %s, %s", mask, k)
}

// transposeArgs are the arguments of both transposing kernels.
func transposeArgs() []asm.Arg {
	return []asm.Arg{asm.Ptr("dst"), asm.Int("dstStride"), asm.Int("dstStep"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("srcStep"),
		asm.Int("rows"), asm.Int("cols"), asm.Int("lanes"), asm.Int("n")}
}

const transposeDoc = ` transposes n tiles. A tile has rows by cols floats, at most %[1]d each: row r
starts at src + r*srcStride bytes, and its transpose is stored as cols rows of lanes floats (rows <= lanes; what is behind
rows is zero) at dst + c*dstStride bytes. From tile to tile src moves by srcStep bytes and dst by dstStep. n is at least 1.`

func begin(fn *asm.Func) {
	fn.Load("dst", "DI")
	fn.Load("dstStride", "R8")
	fn.Load("src", "SI")
	fn.Load("srcStride", "R9")
	fn.Load("rows", "R10")
	fn.Load("cols", "R11")
	fn.Load("n", "R12")
}

// transpose512 transposes 16x16 tiles in four rounds of 16 shuffles.
func transpose512(f *asm.File) {
	fn := f.Func("transpose512", "transpose512"+fmt.Sprintf(transposeDoc, 16), transposeArgs()...)
	begin(fn)
	fn.Load("lanes", "DX")
	lowBits(fn, "R11", "AX", "K1")
	lowBits(fn, "DX", "AX", "K2")
	fn.Load("srcStep", "R13")
	fn.Load("dstStep", "DX")
	fn.Loop("R12", func() {
		loaded := fn.NewLabel("loaded")
		zero := fn.NewLabel("zero")
		fn.I("CMPQ R10, $16")
		fn.I("JLT %s", zero)
		row := func(r int) {
			if r == 0 {
				fn.I("MOVQ SI, AX")
			} else {
				fn.I("ADDQ R9, AX")
			}
			fn.I("VMOVUPS.Z (AX), K1, Z%d", r)
		}
		for r := range 16 {
			row(r)
		}
		fn.I("JMP %s", loaded)
		fn.Label(zero)
		for r := range 16 {
			fn.I("VPXORD Z%d, Z%d, Z%d", r, r, r)
		}
		for r := range 15 {
			fn.I("CMPQ R10, $%d", r)
			fn.I("JLE %s", loaded)
			row(r)
		}
		fn.Label(loaded)
		shuffle16(fn)
		stored := fn.NewLabel("stored")
		part := fn.NewLabel("part")
		store := func(c int) {
			if c == 0 {
				fn.I("MOVQ DI, AX")
			} else {
				fn.I("ADDQ R8, AX")
			}
			fn.I("VMOVUPS Z%d, K2, (AX)", c)
		}
		fn.I("CMPQ R11, $16")
		fn.I("JLT %s", part)
		for c := range 16 {
			store(c)
		}
		fn.I("JMP %s", stored)
		fn.Label(part)
		for c := range 15 {
			fn.I("CMPQ R11, $%d", c)
			fn.I("JLE %s", stored)
			store(c)
		}
		fn.Label(stored)
		fn.I("ADDQ R13, SI")
		fn.I("ADDQ DX, DI")
	})
	fn.Ret()
}

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
transpose at dst + r*dstStride bytes. From tile to tile src moves by srcStep bytes and dst by dstStep. n is at least 1.`

func tilesArgs() []asm.Arg {
	return []asm.Arg{asm.Ptr("dst"), asm.Int("dstStride"), asm.Int("dstStep"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("srcStep"),
		asm.Int("ahead"), asm.Int("n")}
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
	fn.I("ADDQ R13, SI")
	fn.I("ADDQ DX, DI")
}

// tiles512 and tiles256 transpose whole tiles.
func tiles512(f *asm.File, v variant) {
	name := v.name("tiles", 512)
	fn := f.Func(name, name+fmt.Sprintf(tilesDoc, 16)+v.doc(16), tilesArgs()...)
	beginTiles(fn, v)
	fn.Loop("R12", func() { tile(fn, 16, v, shuffle16) })
	fn.Ret()
}

func tiles256(f *asm.File, v variant) {
	name := v.name("tiles", 256)
	fn := f.Func(name, name+fmt.Sprintf(tilesDoc, 8)+v.doc(8), tilesArgs()...)
	beginTiles(fn, v)
	fn.Loop("R12", func() { tile(fn, 8, v, shuffle8) })
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

// shuffle16 transposes Z0..Z15, using Z16..Z31.
func shuffle16(fn *asm.Func) {
	// Pairs of rows interleaved: Z16+r from Z0..Z15.
	for r := 0; r < 16; r += 2 {
		fn.I("VUNPCKLPS Z%d, Z%d, Z%d", r+1, r, 16+r)
		fn.I("VUNPCKHPS Z%d, Z%d, Z%d", r+1, r, 17+r)
	}
	// Rows 4i..4i+3: Z(4i+j) has columns j, 4+j, 8+j, 12+j of four rows, one per 128-bit part.
	for i := range 4 {
		a := 16 + 4*i
		fn.I("VUNPCKLPD Z%d, Z%d, Z%d", a+2, a, 4*i)
		fn.I("VUNPCKHPD Z%d, Z%d, Z%d", a+2, a, 4*i+1)
		fn.I("VUNPCKLPD Z%d, Z%d, Z%d", a+3, a+1, 4*i+2)
		fn.I("VUNPCKHPD Z%d, Z%d, Z%d", a+3, a+1, 4*i+3)
	}
	// 4x4 transposes of 128-bit parts among Z(j), Z(4+j), Z(8+j), Z(12+j).
	for j := range 4 {
		fn.I("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 4+j, j, 16+j)    // parts 0 and 2 of rows 0-7
		fn.I("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 4+j, j, 20+j)    // parts 1 and 3
		fn.I("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 12+j, 8+j, 24+j) // of rows 8-15
		fn.I("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 12+j, 8+j, 28+j)
	}
	for j := range 4 {
		fn.I("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 24+j, 16+j, j)
		fn.I("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 28+j, 20+j, 4+j)
		fn.I("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 24+j, 16+j, 8+j)
		fn.I("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 28+j, 20+j, 12+j)
	}
}

// laneMasks is a table of 16 ones and 16 zeros: at 4*(16-n) starts a mask of n lanes.
func laneMasks(f *asm.File) string {
	words := make([]uint32, 32)
	for i := range 16 {
		words[i] = 0xffffffff
	}
	f.Data("laneMasks", words...)
	return "laneMasks<>(SB)"
}

// transpose256 transposes 8x8 tiles.
func transpose256(f *asm.File) {
	fn := f.Func("transpose256", "transpose256"+fmt.Sprintf(transposeDoc, 8), transposeArgs()...)
	begin(fn)
	fn.Load("lanes", "DX")
	table := laneMasks(f)
	for i, count := range []string{"R11", "DX"} {
		fn.I("LEAQ %s, AX", table)
		fn.I("MOVQ $16, CX")
		fn.I("SUBQ %s, CX", count)
		fn.I("VMOVUPS (AX)(CX*4), Y%d", 14+i)
	}
	// Masked stores take some 20 cycles on several processors: full tiles have a loop of their own.
	masked := fn.NewLabel("masked")
	for _, count := range []string{"R10", "R11", "DX"} {
		fn.I("CMPQ %s, $8", count)
		fn.I("JNE %s", masked)
	}
	fn.Load("srcStep", "R13")
	fn.Load("dstStep", "DX")
	step := func() {
		fn.I("ADDQ R13, SI")
		fn.I("ADDQ DX, DI")
	}
	fn.Loop("R12", func() {
		fn.I("MOVQ SI, AX")
		for r := range 8 {
			fn.I("VMOVUPS (AX), Y%d", r)
			fn.I("ADDQ R9, AX")
		}
		shuffle8(fn)
		fn.I("MOVQ DI, AX")
		for c := range 8 {
			fn.I("VMOVUPS Y%d, (AX)", c)
			fn.I("ADDQ R8, AX")
		}
		step()
	})
	fn.Ret()
	fn.Label(masked)
	fn.Load("srcStep", "R13")
	fn.Load("dstStep", "DX")
	fn.Loop("R12", func() {
		loaded := fn.NewLabel("loaded")
		for r := range 8 {
			fn.I("VXORPS Y%d, Y%d, Y%d", r, r, r)
		}
		fn.I("MOVQ SI, AX")
		for r := range 8 {
			fn.I("CMPQ R10, $%d", r)
			fn.I("JLE %s", loaded)
			fn.I("VMASKMOVPS (AX), Y14, Y%d", r)
			fn.I("ADDQ R9, AX")
		}
		fn.Label(loaded)
		shuffle8(fn)
		stored := fn.NewLabel("stored")
		fn.I("MOVQ DI, AX")
		for c := range 8 {
			fn.I("CMPQ R11, $%d", c)
			fn.I("JLE %s", stored)
			fn.I("VMASKMOVPS Y%d, Y15, (AX)", c)
			fn.I("ADDQ R8, AX")
		}
		fn.Label(stored)
		step()
	})
	fn.Ret()
}

// shuffle8 transposes Y0..Y7, using Y8..Y13.
func shuffle8(fn *asm.Func) {
	// Rows 0-3 become Y8..Y11, four columns of four rows in each 128-bit half; then rows 4-7 become Y0..Y3.
	quad := func(in, out int) {
		fn.I("VUNPCKLPS Y%d, Y%d, Y12", in+1, in)
		fn.I("VUNPCKHPS Y%d, Y%d, Y13", in+1, in)
		fn.I("VUNPCKLPS Y%d, Y%d, Y%d", in+3, in+2, in)
		fn.I("VUNPCKHPS Y%d, Y%d, Y%d", in+3, in+2, in+1)
		fn.I("VUNPCKHPD Y%d, Y12, Y%d", in, out+1)
		fn.I("VUNPCKLPD Y%d, Y12, Y%d", in, out)
		fn.I("VUNPCKLPD Y%d, Y13, Y%d", in+1, out+2)
		fn.I("VUNPCKHPD Y%d, Y13, Y%d", in+1, out+3)
	}
	quad(0, 8)
	// The outputs Y0..Y3 are free now; the inputs are Y4..Y7.
	quad(4, 0)
	for j := range 4 {
		fn.I("VPERM2F128 $0x31, Y%d, Y%d, Y%d", j, 8+j, 4+j)
		fn.I("VINSERTF128 $1, X%d, Y%d, Y%d", j, 8+j, j)
	}
}

func copyArgs() []asm.Arg {
	return []asm.Arg{asm.Ptr("dst"), asm.Int("dstStride"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("lanes"), asm.Int("stored"), asm.Int("n")}
}

const copyDoc = ` copies n rows of lanes floats (at most 16) that start srcStride bytes apart to rows that start dstStride bytes
apart, and stores zeros behind them up to stored floats. n is at least 1.`

func copy512(f *asm.File) {
	fn := f.Func("copy512", "copy512"+copyDoc, copyArgs()...)
	fn.Load("dst", "DI")
	fn.Load("dstStride", "R8")
	fn.Load("src", "SI")
	fn.Load("srcStride", "R9")
	fn.Load("lanes", "R10")
	fn.Load("stored", "R11")
	lowBits(fn, "R10", "AX", "K1")
	lowBits(fn, "R11", "AX", "K2")
	fn.Load("n", "R12")
	fn.Loop("R12", func() {
		fn.I("VMOVUPS.Z (SI), K1, Z0")
		fn.I("VMOVUPS Z0, K2, (DI)")
		fn.I("ADDQ R9, SI")
		fn.I("ADDQ R8, DI")
	})
	fn.Ret()
}

func copy256(f *asm.File) {
	fn := f.Func("copy256", "copy256"+copyDoc, copyArgs()...)
	fn.Load("dst", "DI")
	fn.Load("dstStride", "R8")
	fn.Load("src", "SI")
	fn.Load("srcStride", "R9")
	fn.Load("lanes", "R10")
	fn.Load("stored", "R11")
	table := laneMasks(f)
	fn.I("LEAQ %s, AX", table)
	for i, count := range []string{"R10", "R11"} {
		fn.I("MOVQ $16, CX")
		fn.I("SUBQ %s, CX", count)
		fn.I("VMOVUPS (AX)(CX*4), Y%d", 12+2*i)
		fn.I("VMOVUPS 32(AX)(CX*4), Y%d", 13+2*i)
	}
	fn.Load("n", "R12")
	masked := fn.NewLabel("masked")
	for _, count := range []string{"R10", "R11"} {
		fn.I("CMPQ %s, $16", count)
		fn.I("JNE %s", masked)
	}
	fn.Loop("R12", func() {
		fn.I("VMOVUPS (SI), Y0")
		fn.I("VMOVUPS 32(SI), Y1")
		fn.I("VMOVUPS Y0, (DI)")
		fn.I("VMOVUPS Y1, 32(DI)")
		fn.I("ADDQ R9, SI")
		fn.I("ADDQ R8, DI")
	})
	fn.Ret()
	fn.Label(masked)
	fn.Loop("R12", func() {
		fn.I("VMASKMOVPS (SI), Y12, Y0")
		fn.I("VMASKMOVPS 32(SI), Y13, Y1")
		fn.I("VMASKMOVPS Y0, Y14, (DI)")
		fn.I("VMASKMOVPS Y1, Y15, 32(DI)")
		fn.I("ADDQ R9, SI")
		fn.I("ADDQ R8, DI")
	})
	fn.Ret()
}

func gatherArgs() []asm.Arg {
	return []asm.Arg{asm.Ptr("dst"), asm.Ptr("a"), asm.Ptr("b"), asm.Typed("m", "*mixture"), asm.Int("keep"), asm.Int("n")}
}

const gatherDoc = ` computes n pixels of 16 channels from two source blocks as m says. With keep 1, lanes that m does not name keep
what dst holds; with 0 they become zero. n is at least 1.`

func gather512(f *asm.File) {
	fn := f.Func("gather512", "gather512"+gatherDoc, gatherArgs()...)
	fn.Load("dst", "DI")
	fn.Load("a", "SI")
	fn.Load("b", "BX")
	fn.Load("m", "DX")
	fn.I("VMOVDQU32 (DX), Z31")
	fn.I("VPMOVD2M Z31, K2") // bit 31 set: the lane is not named
	fn.I("KNOTW K2, K1")
	fn.Load("n", "CX")
	fn.Load("keep", "AX")
	fn.I("TESTQ AX, AX")
	fn.I("JNE keep")
	fn.Loop("CX", func() {
		fn.I("VMOVUPS (SI), Z0")
		fn.I("VMOVDQA32 Z31, Z1")
		fn.I("VPERMI2PS.Z (BX), Z0, K1, Z1")
		fn.I("VMOVUPS Z1, (DI)")
		fn.I("ADDQ $64, SI")
		fn.I("ADDQ $64, BX")
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
	fn.Label("keep")
	fn.Loop("CX", func() {
		fn.I("VMOVUPS (SI), Z0")
		fn.I("VMOVDQA32 Z31, Z1")
		fn.I("VPERMI2PS (BX), Z0, Z1")
		fn.I("VMOVUPS Z1, K1, (DI)")
		fn.I("ADDQ $64, SI")
		fn.I("ADDQ $64, BX")
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
}

// gather256 makes each half of the result from the four halves of the sources: permuted all alike by the low three bits of
// the index, chosen by bits 3 and 4.
func gather256(f *asm.File) {
	fn := f.Func("gather256", "gather256"+gatherDoc, gatherArgs()...)
	fn.Load("dst", "DI")
	fn.Load("a", "SI")
	fn.Load("b", "BX")
	fn.Load("m", "DX")
	for h := range 2 {
		fn.I("VMOVDQU %d(DX), Y%d", 32*h, 12+h)  // index; bit 31: not named
		fn.I("VPSLLD $28, Y%d, Y%d", 12+h, 10+h) // sign: bit 3, the half
		fn.I("VPSLLD $27, Y%d, Y%d", 12+h, 8+h)  // sign: bit 4, the source
	}
	fn.Load("n", "CX")
	fn.Load("keep", "AX")
	fn.Loop("CX", func() {
		named := fn.NewLabel("named")
		done := fn.NewLabel("done")
		for h := range 2 {
			fn.I("VPERMPS (SI), Y%d, Y0", 12+h)
			fn.I("VPERMPS 32(SI), Y%d, Y1", 12+h)
			fn.I("VPERMPS (BX), Y%d, Y2", 12+h)
			fn.I("VPERMPS 32(BX), Y%d, Y3", 12+h)
			fn.I("VBLENDVPS Y%d, Y1, Y0, Y0", 10+h)
			fn.I("VBLENDVPS Y%d, Y3, Y2, Y2", 10+h)
			fn.I("VBLENDVPS Y%d, Y2, Y0, Y%d", 8+h, 4+h)
		}
		fn.I("VXORPS Y6, Y6, Y6")
		fn.I("VXORPS Y7, Y7, Y7")
		fn.I("TESTQ AX, AX")
		fn.I("JEQ %s", named)
		fn.I("VMOVUPS (DI), Y6")
		fn.I("VMOVUPS 32(DI), Y7")
		fn.Label(named)
		fn.I("VBLENDVPS Y12, Y6, Y4, Y4")
		fn.I("VBLENDVPS Y13, Y7, Y5, Y5")
		fn.I("VMOVUPS Y4, (DI)")
		fn.I("VMOVUPS Y5, 32(DI)")
		fn.Label(done)
		fn.I("ADDQ $64, SI")
		fn.I("ADDQ $64, BX")
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
}

// castKind is a change of element type: the bytes of an element on both sides, and the instructions between a load of source
// elements and a store of target elements, all in registers 0 to 3; constants are prepared in registers from 8 on.
type castKind struct {
	name     string
	from, to int
	constant []string // 32-bit words that are broadcast to registers 8, 9, …
	wide     []string // AVX-512
	narrow   []string // AVX2
}

// Both narrowing float casts first make every NaN the quiet one, of the same sign. A float that has no int64 becomes the
// nearest before its higher bits are cut off: all ones from 2⁶³ on, zeros in all other cases that an int32 does not hold.
var casts = []castKind{
	{"castFromF16", 2, 4, nil, []string{"VCVTPH2PS Y0, Z0"}, []string{"VCVTPH2PS X0, Y0"}},
	{"castFromBF16", 2, 4, nil, []string{"VPMOVZXWD Y0, Z0", "VPSLLD $16, Z0, Z0"}, []string{"VPMOVZXWD X0, Y0", "VPSLLD $16, Y0, Y0"}},
	{"castFromU8", 1, 4, nil, []string{"VPMOVZXBD X0, Z0", "VCVTDQ2PS Z0, Z0"}, []string{"VPMOVZXBD X0, Y0", "VCVTDQ2PS Y0, Y0"}},
	{"castFromS8", 1, 4, nil, []string{"VPMOVSXBD X0, Z0", "VCVTDQ2PS Z0, Z0"}, []string{"VPMOVSXBD X0, Y0", "VCVTDQ2PS Y0, Y0"}},
	{"castToF16", 4, 2, []string{"0x80000000", "0x7fc00000"},
		[]string{"VCMPPS $3, Z0, Z0, K2", "VPTERNLOGD $0xea, Z9, Z8, K2, Z0", "VCVTPS2PH $0, Z0, Y0"},
		[]string{"VCMPPS $3, Y0, Y0, Y1", "VPAND Y8, Y0, Y2", "VPOR Y9, Y2, Y2", "VBLENDVPS Y1, Y2, Y0, Y0", "VCVTPS2PH $0, Y0, X0"}},
	{"castToBF16", 4, 2, []string{"0x80000000", "0x7fc00000", "1", "0x7fff"},
		[]string{"VCMPPS $3, Z0, Z0, K2", "VPTERNLOGD $0xea, Z9, Z8, K2, Z0", "VPSRLD $16, Z0, Z1", "VPANDD Z10, Z1, Z1", "VPADDD Z11, Z0, Z0",
			"VPADDD Z1, Z0, Z0", "VPSRLD $16, Z0, Z0", "VPMOVDW Z0, Y0"},
		[]string{"VCMPPS $3, Y0, Y0, Y1", "VPAND Y8, Y0, Y2", "VPOR Y9, Y2, Y2", "VBLENDVPS Y1, Y2, Y0, Y0", "VPSRLD $16, Y0, Y1", "VPAND Y10, Y1, Y1",
			"VPADDD Y11, Y0, Y0", "VPADDD Y1, Y0, Y0", "VPSRLD $16, Y0, Y0", "VEXTRACTI128 $1, Y0, X1", "VPACKUSDW X1, X0, X0"}},
	{"castToByte", 4, 1, []string{"0x5f000000", "0xff"},
		[]string{"VCMPPS $13, Z8, Z0, K2", "VCVTTPS2DQ Z0, Z0", "VPTERNLOGD $0xff, Z0, Z0, K2, Z0", "VPMOVDB Z0, X0"},
		[]string{"VCMPPS $13, Y8, Y0, Y1", "VCVTTPS2DQ Y0, Y0", "VPOR Y1, Y0, Y0", "VPAND Y9, Y0, Y0", "VEXTRACTI128 $1, Y0, X1", "VPACKUSDW X1, X0, X0",
			"VPACKUSWB X0, X0, X0"}},
}

func castArgs() []asm.Arg {
	return []asm.Arg{asm.Typed("dst", "unsafe.Pointer"), asm.Int("dstStride"), asm.Typed("src", "unsafe.Pointer"), asm.Int("srcStride"), asm.Int("lanes"), asm.Int("n")}
}

const castDoc = ` changes the type of n rows of lanes elements that start srcStride bytes apart, to rows that start dstStride
bytes apart. lanes and n are at least 1.`

func beginCast(fn *asm.Func, k castKind, reg func(int) string) {
	for i, c := range k.constant {
		fn.I("MOVL $%s, AX", c)
		fn.I("VMOVD AX, %s", asm.X(8+i))
		fn.I("VPBROADCASTD %s, %s", asm.X(8+i), reg(8+i))
	}
	fn.Load("dst", "DI")
	fn.Load("dstStride", "R8")
	fn.Load("src", "SI")
	fn.Load("srcStride", "R9")
	fn.Load("lanes", "R10")
	fn.Load("n", "R12")
}

func cast512(f *asm.File, k castKind) {
	name := k.name + "512"
	fn := f.Func(name, name+castDoc, castArgs()...)
	beginCast(fn, k, asm.Z)
	fn.I("MOVQ R10, AX")
	fn.I("ANDQ $15, AX")
	lowBits(fn, "AX", "BX", "K1")
	part := map[int]string{1: "X0", 2: "Y0", 4: "Z0"}
	moves := map[int]string{1: "VMOVDQU8", 2: "VMOVDQU16", 4: "VMOVUPS"}
	move := func(from, to string) {
		fn.I("%s (%s), %s", moves[k.from], from, part[k.from])
		for _, i := range k.wide {
			fn.I("%s", i)
		}
		fn.I("%s %s, (%s)", moves[k.to], part[k.to], to)
	}
	// Rows of one register, a block of channels, have a loop of their own.
	fn.I("CMPQ R10, $16")
	fn.I("JNE any")
	fn.Loop("R12", func() {
		move("SI", "DI")
		fn.I("ADDQ R9, SI")
		fn.I("ADDQ R8, DI")
	})
	fn.Ret()
	fn.Label("any")
	fn.Loop("R12", func() {
		fn.I("MOVQ SI, AX")
		fn.I("MOVQ DI, BX")
		fn.I("MOVQ R10, CX")
		fn.While("CX", 16, func() {
			move("AX", "BX")
			fn.I("ADDQ $%d, AX", 16*k.from)
			fn.I("ADDQ $%d, BX", 16*k.to)
		})
		none := fn.NewLabel("none")
		fn.I("TESTQ CX, CX")
		fn.I("JZ %s", none)
		fn.I("%s.Z (AX), K1, %s", moves[k.from], part[k.from])
		for _, i := range k.wide {
			fn.I("%s", i)
		}
		fn.I("%s %s, K1, (BX)", moves[k.to], part[k.to])
		fn.Label(none)
		fn.I("ADDQ R9, SI")
		fn.I("ADDQ R8, DI")
	})
	fn.Ret()
}

// cast256 leaves lanes behind the last multiple of eight to others.
func cast256(f *asm.File, k castKind) {
	name := k.name + "256"
	fn := f.Func(name, name+castDoc+" Lanes behind the last\nmultiple of eight are left out.", castArgs()...)
	beginCast(fn, k, asm.Y)
	load := map[int]string{1: "VMOVQ (AX), X0", 2: "VMOVDQU (AX), X0", 4: "VMOVUPS (AX), Y0"}
	store := map[int]string{1: "VMOVQ X0, (BX)", 2: "VMOVDQU X0, (BX)", 4: "VMOVUPS Y0, (BX)"}
	fn.Loop("R12", func() {
		fn.I("MOVQ SI, AX")
		fn.I("MOVQ DI, BX")
		fn.I("MOVQ R10, CX")
		fn.While("CX", 8, func() {
			fn.I("%s", load[k.from])
			for _, i := range k.narrow {
				fn.I("%s", i)
			}
			fn.I("%s", store[k.to])
			fn.I("ADDQ $%d, AX", 8*k.from)
			fn.I("ADDQ $%d, BX", 8*k.to)
		})
		fn.I("ADDQ R9, SI")
		fn.I("ADDQ R8, DI")
	})
	fn.Ret()
}
