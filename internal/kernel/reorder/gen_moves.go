//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Elements of one and two bytes change places as they are, by instructions of AVX2 for both sets: wider registers bring nothing where rows of
// results have 16 elements.
//
// Eight registers hold a tile, and each element has a place of some bits: three number its register, the others its lane of 128 bits and its
// position there. A round interleaves the elements of registers whose numbers differ in one bit. With that, this bit becomes the lowest one of
// the position, the others move up, and the highest comes out in its place in the register's number: perfect shuffles. Three or four rounds
// exchange rows and columns.

// round emits one round over a bit of the registers' numbers, from eight registers that begin at one to eight others.
func round(fn *asm.Func, bytes, bit, from, to int) {
	interleave(fn, asm.Y, map[int]string{1: "BW", 2: "WD"}[bytes], 8, bit, from, to)
}

// interleave emits a round of so many registers.
func interleave(fn *asm.Func, reg func(int) string, unit string, registers, bit, from, to int) {
	for k := range registers {
		if k&bit == 0 {
			fn.I("VPUNPCKL%s %s, %s, %s", unit, reg(from+k|bit), reg(from+k), reg(to+k))
			fn.I("VPUNPCKH%s %s, %s, %s", unit, reg(from+k|bit), reg(from+k), reg(to+k|bit))
		}
	}
}

// rounds emits rounds over bits, between Y0 to Y7 and Y8 to Y15 by turns, and returns where the last one's results begin.
func rounds(fn *asm.Func, bytes int, bits ...int) (at int) {
	for _, bit := range bits {
		round(fn, bytes, bit, at, 8-at)
		at = 8 - at
	}
	return at
}

// move is a kernel that moves tiles: how its name begins, and what it does.
type move struct {
	name, what string
	bytes      int
	tile       func(fn *asm.Func)
}

var moves = []move{
	{"moveBytes", "16 by 16 bytes", 1, bytesTile},
	{"moveWords", "16 by 16 words of 16 bits", 2, func(fn *asm.Func) {
		fn.I("MOVQ DI, AX")
		wordsTile(fn, 0)
		wordsTile(fn, 16)
	}},
	{"bytesToEights", "8 rows of 32 bytes, to 32 that adjoin,", 1, func(fn *asm.Func) { toEights(fn, 1) }},
	{"wordsToEights", "8 rows of 16 words of 16 bits, to 16 that adjoin,", 2, func(fn *asm.Func) { toEights(fn, 2) }},
	{"bytesFromEights", "32 rows of 8 bytes that adjoin", 1, bytesFromEights},
	{"wordsFromEights", "16 rows of 8 words of 16 bits", 2, func(fn *asm.Func) {
		fn.I("MOVQ DI, AX")
		wordsTile(fn, 0)
	}},
}

// moveTiles writes the kernels of moves.
func moveTiles(f *asm.File) {
	f.Import("unsafe")
	for _, m := range moves {
		name := m.name + "256"
		fn := f.Func(name, name+` transposes n tiles of `+m.what+`: row r of one starts at src + r*srcStride bytes, row r of its
transpose at dst + r*dstStride bytes. From tile to tile src moves by srcStep bytes and dst by dstStep. n is at least 1.
With each row, what lies ahead bytes behind it is asked for.`, asm.Typed("dst", "unsafe.Pointer"), asm.Int("dstStride"), asm.Int("dstStep"),
			asm.Typed("src", "unsafe.Pointer"), asm.Int("srcStride"), asm.Int("srcStep"), asm.Int("ahead"), asm.Int("n"))
		for _, load := range [][2]string{{"dst", "DI"}, {"dstStride", "R8"}, {"dstStep", "DX"}, {"src", "SI"}, {"srcStride", "R9"}, {"srcStep", "R13"},
			{"ahead", "BX"}, {"n", "R12"}} {
			fn.Load(load[0], load[1])
		}
		fn.I("LEAQ (R9*8), R10") // eight rows
		fn.I("LEAQ (BX)(R10*1), R11")
		fn.Loop("R12", func() {
			m.tile(fn)
			fn.I("ADDQ R13, SI")
			fn.I("ADDQ DX, DI")
		})
		fn.Ret()
	}
	for _, bytes := range []int{1, 2} {
		wholeEights(f, bytes)
		tallTile(f, bytes)
	}
	tallBytes256(f)
	for _, isa := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
		const args = "256(dst, dstStride, dstStep, src, srcStride, srcStep, ahead, n)\n"
		code := "switch {\n"
		if isa.Lanes == 16 {
			code += "case t == wholeEights && k == move8:\nbytesToEights512(dst, dstStep, src, srcStride, srcStep, ahead, n)\n" +
				"case t == wholeEights:\nwordsToEights512(dst, dstStep, src, srcStride, srcStep, ahead, n)\n" +
				"case t == tall && k == move8:\nmoveBytes512(dst, dstStride, dstStep, src, srcStride, srcStep, n)\n" +
				"case t == tall:\nmoveWords512(dst, dstStride, dstStep, src, srcStride, srcStep, n)\n"
		} else {
			code += "case t == tall:\ntallBytes256(dst, dstStride, dstStep, src, srcStride, srcStep, n)\n"
		}
		for i, when := range []string{"k == move8 && t == square", "t == square", "k == move8 && t == toEights", "t == toEights", "k == move8", ""} {
			if when == "" {
				code += "default:\n"
			} else {
				code += "case " + when + ":\n"
			}
			code += moves[i].name + args
		}
		f.Serve("moveTiles", isa, code+"}")
		f.Serve("hasMoves", isa, "return true")
	}
}

// loadPairs loads 16 bytes of each of 16 rows, from at bytes behind (SI) on: rows 0 to 7 to the lower halves of Y0 to Y7, 8 to 15 to the upper ones.
func loadPairs(fn *asm.Func, at int) {
	fn.I("MOVQ SI, CX")
	for r := range 8 {
		fn.I("VMOVDQU %d(CX), X%d", at, r)
		fn.I("VINSERTI128 $1, %d(CX)(R10*1), Y%d, Y%d", at, r, r)
		if at == 0 {
			fn.I("PREFETCHT1 (CX)(BX*1)")
			fn.I("PREFETCHT1 (CX)(R11*1)")
		}
		fn.I("ADDQ R9, CX")
	}
}

// bytesTile moves 16 by 16 bytes. Behind the rounds register k has columns 2k and 2k+1, of rows 0 to 7 below and of the others above. Columns that adjoin
// are stored two by two.
func bytesTile(fn *asm.Func) {
	loadPairs(fn, 0)
	at := rounds(fn, 1, 4, 2, 1)
	for k := range 8 {
		fn.I("VPERMQ $0xd8, Y%d, Y%d", at+k, at+k)
	}
	apart, done := fn.NewLabel("apart"), fn.NewLabel("done")
	fn.I("CMPQ R8, $16")
	fn.I("JNE %s", apart)
	for k := range 8 {
		fn.I("VMOVDQU Y%d, %d(DI)", at+k, 32*k)
	}
	fn.I("JMP %s", done)
	fn.Label(apart)
	fn.I("MOVQ DI, AX")
	for k := range 8 {
		fn.I("VMOVDQU X%d, (AX)", at+k)
		fn.I("VEXTRACTI128 $1, Y%d, (AX)(R8*1)", at+k)
		fn.I("LEAQ (AX)(R8*2), AX")
	}
	fn.Label(done)
}

// tallBytes256 writes the kernel of tiles of bytes whose columns fill vectors of AVX2, in two halves of 8 rows of each lane, of which the first waits in
// memory: behind the rounds, those of bytesTile, register k has 8 rows of columns 2k and 2k+1 in each lane.
func tallBytes256(f *asm.File) {
	fn := f.Func("tallBytes256", `tallBytes256 transposes n tiles of 32 rows of 16 bytes: row r of one starts at src + r*srcStride bytes, row r of its
transpose at dst + r*dstStride bytes. From tile to tile src moves by srcStep bytes and dst by dstStep. n is at least 1.`,
		asm.Typed("dst", "unsafe.Pointer"), asm.Int("dstStride"), asm.Int("dstStep"), asm.Typed("src", "unsafe.Pointer"), asm.Int("srcStride"), asm.Int("srcStep"), asm.Int("n"))
	for _, load := range [][2]string{{"dst", "DI"}, {"dstStride", "R8"}, {"dstStep", "DX"}, {"src", "SI"}, {"srcStride", "R9"}, {"srcStep", "R13"}, {"n", "R12"}} {
		fn.Load(load[0], load[1])
	}
	const waiting = 8 * 32
	fn.Frame(waiting)
	fn.I("MOVQ R9, R10")
	fn.I("SHLQ $4, R10") // the rows of a lane
	fn.Loop("R12", func() {
		fn.I("MOVQ SI, CX")
		at := 0
		for half := range 2 {
			for r := range 8 {
				fn.I("VMOVDQU (CX), X%d", r)
				fn.I("VINSERTI128 $1, (CX)(R10*1), Y%d, Y%d", r, r)
				fn.I("ADDQ R9, CX")
			}
			at = rounds(fn, 1, 4, 2, 1)
			for k := range 8 * (1 - half) {
				fn.I("VMOVDQU Y%d, %d(SP)", at+k, 32*k)
			}
		}
		fn.I("MOVQ DI, AX")
		for k := range 8 {
			fn.I("VMOVDQU %d(SP), Y%d", 32*k, 8-at)
			for i, half := range []string{"L", "H"} {
				fn.I("VPUNPCK%sQDQ Y%d, Y%d, Y%d", half, at+k, 8-at, 8-at+1+i)
				fn.I("VMOVDQU Y%d, (AX)", 8-at+1+i)
				fn.I("ADDQ R8, AX")
			}
		}
		fn.I("ADDQ R13, SI")
		fn.I("ADDQ DX, DI")
	})
	fn.Ret()
}

// wordsTile moves 16 rows of 8 words that begin at bytes behind (SI) to 8 rows at (AX), which moves behind them.
func wordsTile(fn *asm.Func, at int) {
	loadPairs(fn, at)
	first := rounds(fn, 2, 4, 2, 1)
	for k := range 8 {
		fn.I("VMOVDQU Y%d, (AX)", first+k)
		fn.I("ADDQ R8, AX")
	}
}

// toEights moves 8 rows of 32 bytes to rows of 8 elements that adjoin: behind the rounds the lower and the upper halves of registers follow each other.
func toEights(fn *asm.Func, bytes int) {
	fn.I("MOVQ SI, CX")
	for r := range 8 {
		fn.I("VMOVDQU (CX), Y%d", r)
		fn.I("PREFETCHT1 (CX)(BX*1)")
		fn.I("ADDQ R9, CX")
	}
	at := rounds(fn, bytes, 4, 2, 1)
	for k := range 8 {
		fn.I("VMOVDQU X%d, %d(DI)", at+k, 16*k)
		fn.I("VEXTRACTI128 $1, Y%d, %d(DI)", at+k, 128+16*k)
	}
}

// wholeEights writes toEights by whole vectors. One is made of 16 bytes of every second row when these are read: with that of the others interleaved, pairs of
// rows' elements come to their places at once.
func wholeEights(f *asm.File, bytes int) {
	unit, pair := map[int]string{1: "BW", 2: "WD"}[bytes], map[int]string{1: "W", 2: "D"}[bytes]
	name := map[int]string{1: "bytesToEights512", 2: "wordsToEights512"}[bytes]
	fn := f.Func(name, fmt.Sprintf(`%s transposes n tiles of 8 rows of 32 bytes, srcStride bytes apart, to 256 that adjoin. From tile to tile src moves by srcStep
bytes and dst by dstStep. n is at least 1. With each row, what lies ahead bytes behind it is asked for.`, name), asm.Typed("dst", "unsafe.Pointer"), asm.Int("dstStep"),
		asm.Typed("src", "unsafe.Pointer"), asm.Int("srcStride"), asm.Int("srcStep"), asm.Int("ahead"), asm.Int("n"))
	per := 8 / bytes // elements of half a part, of 16 bytes
	places := make([]uint32, 16)
	for i := range 4 * per {
		at := 2 * bytes * i
		places[at/4] |= uint32(i%4*per+i/4) << (8 * (at % 4))
	}
	f.Data("places"+name, places...)
	fn.I("VMOVDQU64 %s, Z31", asm.DataAt("places"+name, 0))
	for _, load := range [][2]string{{"dst", "DI"}, {"dstStep", "DX"}, {"src", "SI"}, {"srcStride", "R9"}, {"srcStep", "R13"}, {"ahead", "BX"}, {"n", "R12"}} {
		fn.Load(load[0], load[1])
	}
	fn.I("LEAQ (R9)(R9*2), R15")
	fn.Loop("R12", func() {
		fn.I("LEAQ (SI)(R9*4), AX")
		rows := []string{"(SI)", "(SI)(R9*1)", "(SI)(R9*2)", "(SI)(R15*1)", "(AX)", "(AX)(R9*1)", "(AX)(R9*2)", "(AX)(R15*1)"}
		for part := range 2 {
			for odd := range 2 {
				reg := 4*part + odd
				fn.I("VMOVDQU %d%s, X%d", 16*part, rows[odd], reg)
				fn.I("VINSERTI128 $1, %d%s, Y%d, Y%d", 16*part, rows[2+odd], reg, reg)
				fn.I("VINSERTI32X4 $2, %d%s, Z%d, Z%d", 16*part, rows[4+odd], reg, reg)
				fn.I("VINSERTI32X4 $3, %d%s, Z%d, Z%d", 16*part, rows[6+odd], reg, reg)
			}
			for i, half := range []string{"L", "H"} {
				fn.I("VPUNPCK%s%s Z%d, Z%d, Z%d", half, unit, 4*part+1, 4*part, 4*part+2+i)
				fn.I("VPERM%s Z%d, Z31, Z%d", pair, 4*part+2+i, 4*part+2+i)
				fn.I("VMOVDQU64 Z%d, %d(DI)", 4*part+2+i, 128*part+64*i)
			}
		}
		fn.I("LEAQ (SI)(BX*1), CX")
		fn.I("LEAQ (AX)(BX*1), AX")
		for _, base := range []string{"CX", "AX"} {
			for _, row := range []string{"", "(R9*1)", "(R9*2)", "(R15*1)"} {
				fn.I("PREFETCHT1 (%s)%s", base, row)
			}
		}
		fn.I("ADDQ R13, SI")
		fn.I("ADDQ DX, DI")
	})
	fn.Ret()
}

// tallTile writes the kernels of tiles whose columns fill vectors: 64 rows of 16 bytes, and 32 rows of 16 words. A lane of 128 bits has every fourth part of
// a column, and the rounds are those of round.
func tallTile(f *asm.File, bytes int) {
	per := 16 / bytes // rows that a lane has, and columns that are moved at a time
	name := map[int]string{1: "moveBytes512", 2: "moveWords512"}[bytes]
	fn := f.Func(name, name+fmt.Sprintf(` transposes n tiles of %d rows of 16 elements of %d bytes: row r of one starts at src + r*srcStride bytes, row r of its
transpose at dst + r*dstStride bytes. From tile to tile src moves by srcStep bytes and dst by dstStep. n is at least 1.`, 4*per, bytes),
		asm.Typed("dst", "unsafe.Pointer"), asm.Int("dstStride"), asm.Int("dstStep"), asm.Typed("src", "unsafe.Pointer"), asm.Int("srcStride"), asm.Int("srcStep"), asm.Int("n"))
	for _, load := range [][2]string{{"dst", "DI"}, {"dstStride", "R8"}, {"dstStep", "DX"}, {"src", "SI"}, {"srcStride", "R9"}, {"srcStep", "R13"}, {"n", "R12"}} {
		fn.Load(load[0], load[1])
	}
	fn.I("MOVQ R9, R10")
	fn.I("SHLQ $%d, R10", map[int]int{16: 4, 8: 3}[per]) // the rows of a lane
	fn.I("LEAQ (R10)(R10*2), R11")
	fn.Loop("R12", func() {
		fn.I("MOVQ DI, AX")
		for part := range bytes {
			fn.I("LEAQ %d(SI), CX", 16*part)
			for r := range per {
				fn.I("VMOVDQU (CX), X%d", r)
				fn.I("VINSERTI128 $1, (CX)(R10*1), Y%d, Y%d", r, r)
				fn.I("VINSERTI32X4 $2, (CX)(R10*2), Z%d, Z%d", r, r)
				fn.I("VINSERTI32X4 $3, (CX)(R11*1), Z%d, Z%d", r, r)
				fn.I("ADDQ R9, CX")
			}
			at := 0
			for bit := per / 2; bit > 0; bit /= 2 {
				interleave(fn, asm.Z, map[int]string{1: "BW", 2: "WD"}[bytes], per, bit, at, per-at)
				at = per - at
			}
			for c := range per {
				fn.I("VMOVDQU64 Z%d, (AX)", at+c)
				fn.I("ADDQ R8, AX")
			}
		}
		fn.I("ADDQ R13, SI")
		fn.I("ADDQ DX, DI")
	})
	fn.Ret()
}

// bytesFromEights moves 32 rows of 8 bytes that adjoin. A register begins with two rows: the lowest bit of a row's number is one of a position,
// and comes out first.
func bytesFromEights(fn *asm.Func) {
	for k := range 8 {
		fn.I("VMOVDQU %d(SI), X%d", 16*k, k)
		fn.I("VINSERTI128 $1, %d(SI), Y%d, Y%d", 128+16*k, k, k)
	}
	for line := range 4 {
		fn.I("PREFETCHT1 %d(SI)(BX*1)", 64*line)
	}
	at := rounds(fn, 1, 4, 2, 1, 4)
	fn.I("MOVQ DI, AX")
	for c := range 8 {
		fn.I("VMOVDQU Y%d, (AX)", at+c&1<<2+c>>1)
		fn.I("ADDQ R8, AX")
	}
}

// shortRows writes the copies of rows of 8 and of 16 bytes.
func shortRows(f *asm.File) {
	for _, bytes := range []int{8, 16} {
		op := map[int]string{8: "VMOVQ", 16: "VMOVDQU"}[bytes]
		name := fmt.Sprint("rows", 8*bytes)
		fn := f.Func(name, fmt.Sprintf("%s copies n rows of %d bytes that start srcStride bytes apart to rows that start dstStride bytes apart. n is at least 1.", name, bytes),
			asm.Typed("dst", "unsafe.Pointer"), asm.Int("dstStride"), asm.Typed("src", "unsafe.Pointer"), asm.Int("srcStride"), asm.Int("n"))
		for _, load := range [][2]string{{"dst", "DI"}, {"dstStride", "R8"}, {"src", "SI"}, {"srcStride", "R9"}, {"n", "CX"}} {
			fn.Load(load[0], load[1])
		}
		fn.I("LEAQ (R8)(R8*2), R10")
		fn.I("LEAQ (R9)(R9*2), R11")
		fn.While("CX", 4, func() {
			for i, at := range []string{"(SI)", "(SI)(R9*1)", "(SI)(R9*2)", "(SI)(R11*1)"} {
				fn.I("%s %s, X%d", op, at, i)
			}
			for i, at := range []string{"(DI)", "(DI)(R8*1)", "(DI)(R8*2)", "(DI)(R10*1)"} {
				fn.I("%s X%d, %s", op, i, at)
			}
			fn.I("LEAQ (SI)(R9*4), SI")
			fn.I("LEAQ (DI)(R8*4), DI")
		})
		fn.While("CX", 1, func() {
			fn.I("%s (SI), X0", op)
			fn.I("%s X0, (DI)", op)
			fn.I("ADDQ R9, SI")
			fn.I("ADDQ R8, DI")
		})
		fn.Ret()
	}
	for _, isa := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
		f.Serve("copyShort", isa, `switch bytes {
case 8:
	rows64(dst, dstStride, src, srcStride, n)
case 16:
	rows128(dst, dstStride, src, srcStride, n)
case 32:
	eights256((*float32)(dst), dstStride, (*float32)(src), srcStride, n)
default:
	portableShort(bytes, dst, dstStride, src, srcStride, n)
}`)
	}
}
