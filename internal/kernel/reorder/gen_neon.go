//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// neonTransposes writes the kernel that transposes whole tiles, of eight rows of two vectors: squares of one float, of two and of four
// beside the diagonals of larger ones change places. Parts of tiles are portable.
func neonTransposes(f *asm.File) {
	const side = 8
	fn := f.Loaded("tilesNEON", fmt.Sprintf(tilesDoc, side),
		asm.Ptr("dst"), asm.Int("dstStride"), asm.Int("dstStep"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("srcStep"), asm.Int("n"))
	fn.Loop("R6", func() {
		fn.I("MOVD R3, R7")
		for r := range side {
			fn.I("FLDPQ (R7), (F%d, F%d)", 2*r, 2*r+1)
			fn.I("ADD R4, R7")
		}
		// Vector h of row r is 2r + h. Rows that lie one and two apart exchange lanes of vectors; those four apart, whole vectors.
		for r := 0; r < side; r += 2 {
			for h := range 2 {
				fn.V("trn1.4s", 16+2*r+h, 2*r+h, 2*r+2+h)
				fn.V("trn2.4s", 16+2*r+2+h, 2*r+h, 2*r+2+h)
			}
		}
		for r := range side {
			for h := range 2 {
				if r&2 == 0 {
					fn.V("trn1.2d", 2*r+h, 16+2*r+h, 16+2*r+4+h)
					fn.V("trn2.2d", 2*r+4+h, 16+2*r+h, 16+2*r+4+h)
				}
			}
		}
		fn.I("MOVD R0, R7")
		for c := range side {
			fn.I("FMOVQ F%d, (R7)", 2*(c%4)+c/4)
			fn.I("FMOVQ F%d, 16(R7)", 8+2*(c%4)+c/4)
			fn.I("ADD R1, R7")
		}
		fn.I("ADD R5, R3")
		fn.I("ADD R2, R0")
	})
	fn.Ret()
	f.Serve("tileSide", asm.NEON(), fmt.Sprint("return ", side))
	f.Serve("lineSide", asm.NEON(), fmt.Sprint("return ", side))
	for _, entry := range []string{"callTiles", "callLines"} {
		f.Serve(entry, asm.NEON(), "tilesNEON(dst, dstStride, dstStep, src, srcStride, srcStep, n)")
	}
	f.Serve("transposeTiles", asm.NEON(), fmt.Sprintf(`if rows == %[1]d && cols == %[1]d && lanes == %[1]d {
			tilesNEON(dst, dstStride, dstStep, src, srcStride, srcStep, n)
		} else {
			portableTranspose(dst, dstStride, dstStep, src, srcStride, srcStep, rows, cols, lanes, n)
		}`, side))
}

// neonRows writes the copy of rows of 16 floats.
func neonRows(f *asm.File) {
	fn := f.Loaded("rowsNEON", rowsDoc, rowsArgs()...)
	fn.Loop("R6", func() {
		fn.I("MOVD R3, R8")
		fn.I("MOVD R0, R9")
		fn.I("MOVD R7, R10")
		fn.Loop("R10", func() {
			for h := range 2 {
				fn.I("FLDPQ %d(R8), (F%d, F%d)", 32*h, 2*h, 2*h+1)
			}
			for h := range 2 {
				fn.I("FSTPQ (F%d, F%d), %d(R9)", 2*h, 2*h+1, 32*h)
			}
			fn.I("ADD R4, R8")
			fn.I("ADD R1, R9")
		})
		fn.I("ADD R5, R3")
		fn.I("ADD R2, R0")
	})
	fn.Ret()
	f.Serve("copyRows", asm.NEON(), "rowsNEON(dst, dstStride, dstBlock, src, srcStride, srcBlock, blocks, n)")
}

// neonCopies writes the copy of lanes in whole vectors; others are portable.
func neonCopies(f *asm.File) {
	fn := f.Loaded("copyNEON", copyDoc+" lanes and stored\nare multiples of four, and lanes is not above stored.", copyArgs()...)
	fn.Clear(asm.NEON(), "V1")
	fn.I("SUB R4, R5")
	fn.Loop("R6", func() {
		fn.I("MOVD R2, R7")
		fn.I("MOVD R0, R8")
		fn.I("MOVD R4, R9")
		fn.While("R9", 4, func() {
			fn.I("FMOVQ.P 16(R7), F0")
			fn.I("FMOVQ.P F0, 16(R8)")
		})
		fn.I("MOVD R5, R9")
		fn.While("R9", 4, func() { fn.I("FMOVQ.P F1, 16(R8)") })
		fn.I("ADD R3, R2")
		fn.I("ADD R1, R0")
	})
	fn.Ret()
	f.Serve("copyLanes", asm.NEON(), `if lanes%4 == 0 && stored%4 == 0 && lanes <= stored {
			copyNEON(dst, dstStride, src, srcStride, lanes, stored, n)
		} else {
			portableCopy(dst, dstStride, src, srcStride, lanes, stored, n)
		}`)
}

// neonGathers writes the choices of channels. Tables are of 64 bytes: one has the block of a source or, where blocks are of eight, those of
// both. What lies outside of a table is nought, or stays.
func neonGathers(f *asm.File) {
	bytes := f.Data("bytes", 0x03020100, 0x03020100, 0x03020100, 0x03020100)
	for _, w := range []int{16, 8} {
		vectors := w / 4
		name := fmt.Sprintf("gather%dNEON", w)
		fn := f.Loaded(name, fmt.Sprintf(gatherDoc, w), gatherArgs()...)
		fn.I("MOVD $%s, R6", bytes)
		fn.I("FMOVQ (R6), F30")
		fn.I("VMOVI $4, V31.B16")
		fn.I("VMOVI $64, V29.B16")
		index, second := 8, 12 // of bytes in the first table and the second; outputs are from 16 on
		for j := range vectors {
			fn.I("FMOVQ %d(R3), F28", 16*j)
			fn.V("mul.4s", index+j, 28, 31)
			fn.V("add.4s", index+j, index+j, 30)
			fn.VShift("sshr.4s", 28, 28, 31) // all ones: not named
			fn.V("orr.16b", index+j, index+j, 28)
			fn.I("VSUB V29.B16, V%d.B16, V%d.B16", index+j, second+j)
		}
		if w == 16 { // a lane's place in both blocks is below 32: of bytes in one of them, below 64
			neonGather(fn, index, second, vectors)
			continue
		}
		neonGatherEights(fn, index)
	}
	f.Serve("gatherLanes", asm.NEON(), "if w == 16 {\ngather16NEON(dst, a, b, m, keep, n)\n} else {\ngather8NEON(dst, a, b, m, keep, n)\n}")
}

// neonGather emits the loops over pixels of two tables, one with each of two ways to begin.
func neonGather(fn *asm.Func, index, second, vectors int) {
	pixels := func(begin func()) {
		fn.Loop("R5", func() {
			fn.I("VLD1.P 64(R1), [V0.B16, V1.B16, V2.B16, V3.B16]")
			fn.I("VLD1.P 64(R2), [V4.B16, V5.B16, V6.B16, V7.B16]")
			begin()
			for j := range vectors {
				fn.I("VTBX V%d.B16, [V4.B16, V5.B16, V6.B16, V7.B16], V%d.B16", second+j, 16+j)
			}
			fn.I("VST1.P [V16.B16, V17.B16, V18.B16, V19.B16], 64(R0)")
		})
		fn.Ret()
	}
	choose := func(op string) {
		for j := range vectors {
			fn.I("%s V%d.B16, [V0.B16, V1.B16, V2.B16, V3.B16], V%d.B16", op, index+j, 16+j)
		}
	}
	fn.I("CBNZ R4, keep")
	pixels(func() { choose("VTBL") })
	fn.Label("keep")
	pixels(func() {
		fn.I("VLD1 (R0), [V16.B16, V17.B16, V18.B16, V19.B16]")
		choose("VTBX")
	})
}

// neonGatherEights emits the loops over pixels of one table.
func neonGatherEights(fn *asm.Func, index int) {
	pixels := func(op string, begin func()) {
		fn.Loop("R5", func() {
			fn.I("FLDPQ.P 32(R1), (F0, F1)")
			fn.I("FLDPQ.P 32(R2), (F2, F3)")
			begin()
			for j := range 2 {
				fn.I("%s V%d.B16, [V0.B16, V1.B16, V2.B16, V3.B16], V%d.B16", op, index+j, 16+j)
			}
			fn.I("FSTPQ.P (F16, F17), 32(R0)")
		})
		fn.Ret()
	}
	fn.I("CBNZ R4, keep")
	pixels("VTBL", func() {})
	fn.Label("keep")
	pixels("VTBX", func() { fn.I("FLDPQ (R0), (F16, F17)") })
}

// neonWeaves writes joins and parts of planes, for which there are stores and loads.
func neonWeaves(f *asm.File) {
	var joins, parts strings.Builder
	for planes := 2; planes <= 4; planes++ {
		var list []string
		for i := range planes {
			list = append(list, fmt.Sprintf("V%d.S4", i))
		}
		pixels := "[" + strings.Join(list, ", ") + "]"
		for _, apart := range []bool{false, true} {
			w := weave{asm.NEON(), planes, apart}
			name := w.name(variant{})
			doc, stride, many := ` writes, of each pixel, %[1]d floats in a row, from %[1]d planes that lie srcStride bytes apart.`, "srcStride", "R1"
			if apart {
				doc, stride, many = ` writes %[1]d planes that lie dstStride bytes apart from pixels of %[1]d floats in a row.`, "dstStride", "R0"
			}
			fn := f.Loaded(name, fmt.Sprintf(doc+"\nThere are n times 4 pixels; n is at least 1.", planes), asm.Ptr("dst"), asm.Ptr("src"), asm.Int(stride), asm.Int("n"))
			plane := func(p int) string { return []string{many, "R4", "R5", "R6"}[p] }
			for p := 1; p < planes; p++ {
				fn.I("ADD R2, %s, %s", plane(p-1), plane(p))
			}
			fn.Loop("R3", func() {
				if apart {
					fn.I("VLD%d.P %d(R1), %s", planes, 16*planes, pixels)
				}
				for p := range planes {
					if apart {
						fn.I("FMOVQ.P F%d, 16(%s)", p, plane(p))
					} else {
						fn.I("FMOVQ.P 16(%s), F%d", plane(p), p)
					}
				}
				if !apart {
					fn.I("VST%d.P %s, %d(R0)", planes, pixels, 16*planes)
				}
			})
			fn.Ret()
			if apart {
				fmt.Fprintf(&parts, "case %d:\n%s(dst, src, dstStride, n)\n", planes, name)
			} else {
				fmt.Fprintf(&joins, "case %d:\n%s(dst, src, srcStride, n)\n", planes, name)
			}
		}
	}
	f.Serve("join", asm.NEON(), "switch planes {\n"+joins.String()+"}")
	f.Serve("part", asm.NEON(), "switch planes {\n"+parts.String()+"}")
	f.Serve("weaveLanes", asm.NEON(), "return 4")
}

// neonCasts are what stands between loads of eight elements and stores of eight, by the kinds of casts: floats in vectors 0 and 1, shorter
// ones in vector 0, with constants from vector 8 on.
var neonCasts = map[string]func(fn *asm.Func){
	"castFromF16": func(fn *asm.Func) {
		fn.V("fcvtl2.4s", 1, 0)
		fn.V("fcvtl.4s", 0, 0)
	},
	"castFromBF16": func(fn *asm.Func) {
		fn.V("uxtl2.4s", 1, 0)
		fn.V("uxtl.4s", 0, 0)
		fn.VShift("shl.4s", 0, 0, 16)
		fn.VShift("shl.4s", 1, 1, 16)
	},
	"castWiden16": func(fn *asm.Func) {
		fn.V("uxtl2.4s", 1, 0)
		fn.V("uxtl.4s", 0, 0)
	},
	"castNarrow16": func(fn *asm.Func) {
		fn.V("xtn.4h", 0, 0)
		fn.V("xtn2.8h", 0, 1)
	},
	"castFromU8": func(fn *asm.Func) { neonFromByte(fn, "u") },
	"castFromS8": func(fn *asm.Func) { neonFromByte(fn, "s") },
	"castToF16": func(fn *asm.Func) {
		neonQuiet(fn)
		fn.V("fcvtn.4h", 0, 0)
		fn.V("fcvtn2.8h", 0, 1)
	},
	"castToBF16": func(fn *asm.Func) {
		neonQuiet(fn)
		for i := range 2 {
			fn.VShift("ushr.4s", 2, i, 16)
			fn.V("and.16b", 2, 2, 10)
			fn.V("add.4s", i, i, 11)
			fn.V("add.4s", i, i, 2)
			fn.VShift("ushr.4s", i, i, 16)
		}
		fn.V("xtn.4h", 0, 0)
		fn.V("xtn2.8h", 0, 1)
	},
	"castToByte": func(fn *asm.Func) { // conversion saturates: what an int32 does not hold is 0, and all ones from 2⁶³ on
		for i := range 2 {
			fn.V("fcmge.4s", 2, i, 8)
			fn.V("fcmge.4s", 3, i, 9)
			fn.V("fcvtzs.4s", i, i)
			fn.V("bic.16b", i, i, 3)
			fn.V("orr.16b", i, i, 2)
		}
		fn.V("xtn.4h", 0, 0)
		fn.V("xtn2.8h", 0, 1)
		fn.V("xtn.8b", 0, 0)
	},
}

// neonQuiet makes every NaN the quiet one, of the same sign.
func neonQuiet(fn *asm.Func) {
	for i := range 2 {
		fn.V("fcmeq.4s", 2, i, i)
		fn.V("and.16b", 3, i, 8)
		fn.V("orr.16b", 3, 3, 9)
		fn.I("VBIF V2.B16, V3.B16, V%d.B16", i)
	}
}

func neonFromByte(fn *asm.Func, letter string) {
	fn.V(letter+"xtl.8h", 0, 0)
	fn.V(letter+"xtl2.4s", 1, 0)
	fn.V(letter+"xtl.4s", 0, 0)
	fn.V("scvtf.4s", 0, 0)
	fn.V("scvtf.4s", 1, 1)
}

// neonCast writes a cast, which leaves lanes behind the last multiple of eight to others.
func neonCast(f *asm.File, k castKind) {
	name := k.name + "NEON"
	fn := f.Loaded(name, castDoc+" Lanes behind the last\nmultiple of eight are left out.", castArgs()...)
	constants := k.constant
	if k.name == "castToByte" {
		constants = []string{"0x5f000000", "0x4f000000"}
	}
	for i, c := range constants {
		fn.I("MOVD $%s, R6", c)
		fn.I("VDUP R6, V%d.S4", 8+i)
	}
	load := map[int]string{1: "FMOVD.P 8(R6), F0", 2: "FMOVQ.P 16(R6), F0", 4: "FLDPQ.P 32(R6), (F0, F1)"}[k.from]
	store := map[int]string{1: "FMOVD.P F0, 8(R7)", 2: "FMOVQ.P F0, 16(R7)", 4: "FSTPQ.P (F0, F1), 32(R7)"}[k.to]
	fn.Loop("R5", func() {
		fn.I("MOVD R2, R6")
		fn.I("MOVD R0, R7")
		fn.I("MOVD R4, R8")
		fn.While("R8", 8, func() {
			fn.I("%s", load)
			neonCasts[k.name](fn)
			fn.I("%s", store)
		})
		fn.I("ADD R3, R2")
		fn.I("ADD R1, R0")
	})
	fn.Ret()
}
