//go:build ignore

// Command gen writes the kernels of package octet.
package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("octet", asm.Table{Entries: []asm.Entry{{Name: "callDot",
		Doc:      "multiplies rows of floats, lda apart, by n panels of weights, into rows ldd apart.",
		Params:   "rows int, dst *float32, ldd int, a *float32, lda int, w *byte, scale *float32, zero *byte, blocks, groups, n int",
		Portable: "genericDot(rows, dst, ldd, a, lda, w, scale, zero, blocks, groups, n)"},
		{Name: "unpack", Doc: "writes four rows of 16 floats for each of n groups.",
			Params: "dst *float32, src *byte, scale *float32, zero *byte, n int", Portable: "genericUnpack(dst, src, scale, zero, n)"},
		{Name: "callRounded", Doc: "multiplies rows of integers of some digits by n panels of weights of a number of bits, where something multiplies bytes.",
			Params: "bits, digits, rows int, p *roundedParams, dst *float32, a, w *byte, scale *float32, zero *byte, n int", Portable: `panic("octet: no kernel multiplies bytes")`},
		{Name: "callRound", Doc: "rounds blocks of so many vectors of 16 floats to integers of some digits.",
			Params: "digits int, dst, heads *byte, src *float32, order *int32, blocks, vectors int", Portable: `panic("octet: no kernel rounds to bytes")`},
		{Name: "callSplit", Doc: "writes the lower and the upper halves of the bytes of n vectors, each behind the other.",
			Params: "dst, src *byte, n int", Portable: `panic("octet: no kernel splits bytes for tiles")`},
		{Name: "callScale", Doc: "adds sums of a block, of n rows of 16, to results; see tileScale.",
			Params: "dst *float32, sums *int32, ld int, head *byte, lda int, scale *float32, zero *byte, n int", Portable: `panic("octet: no kernel scales sums of tiles")`}}},
		asm.Unit{Base: "dot", Arch: "amd64", Generate: func(f *asm.File) {
			rounded(f)
			pairsOfBytes(f)
			roundBytes(f)
			tiles(f)
			lowestBytes(f)
			for _, v := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
				code := "switch rows {\n"
				for _, rows := range map[bool][]int{true: {1, 4}, false: {1, 2}}[v.Masks] {
					k := &dot{v: v, rows: rows}
					code += fmt.Sprintf("case %d:\n%s(dst, 4*ldd, a, 4*lda, w, scale, zero, blocks, groups, n)\n", rows, k.emit(f))
				}
				f.Serve("callDot", v, code+"}")
				k := &dot{v: v}
				f.Serve("unpack", v, k.unpack(f)+"(dst, src, scale, zero, n)")
			}
		}},
		asm.Unit{Base: "dot", Arch: "arm64", Generate: neon})
}

// lowest is a table of four vectors that each bring one byte of every lane to its lowest place.
const lowest = "lowest"

func lowestBytes(f *asm.File) {
	var words []uint32
	for i := range uint32(4) {
		for lane := range uint32(8) {
			words = append(words, 0x80808000|(lane%4*4+i))
		}
	}
	f.Data(lowest, words...)
}

// dot is a kernel being written: products of some rows with panels of weights. A vector has a group of as many columns as it has lanes: with
// half the lanes the columns of a panel are two halves, one after the other.
//
// Registers: DX the result, DI the rows of floats and R13 the place in them, SI weights, R10 scales, R11 zero points, R8 the distance of
// rows and R9 three times that; CX, BX and AX count panels, blocks and groups. Vectors from 0 on are the rows' results; behind these are
// the sums of a block, four for each row; of the last ones come zero points, and what bytes become floats with.
type dot struct {
	*asm.Func
	v    asm.ISA
	rows int
}

// wholes is the number above which a float has no bits behind the point, so that a byte in its lowest bits is added to it.
const wholes = 1 << 23

func (k *dot) emit(f *asm.File) string {
	name := fmt.Sprintf("dot%d_%d", k.rows, 32*k.v.Lanes)
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	k.Func = f.Func(name, fmt.Sprintf("%s multiplies %d rows by n panels of weights; distances are in bytes.", name, k.rows), ptr("dst", "float32"), asm.Int("ldd"),
		ptr("a", "float32"), asm.Int("lda"), ptr("w", "byte"), ptr("scale", "float32"), ptr("zero", "byte"), asm.Int("blocks"),
		asm.Int("groups"), asm.Int("n"))
	for _, x := range [][2]string{{"dst", "DX"}, {"a", "DI"}, {"lda", "R8"}, {"w", "SI"}, {"scale", "R10"}, {"zero", "R11"}, {"n", "CX"}} {
		k.Load(x[0], x[1])
	}
	k.I("LEAQ (R8)(R8*2), R9")
	k.constants()
	if k.rows == 1 && !k.v.Masks {
		k.panels()
	} else {
		k.Loop("CX", func() {
			if k.v.Masks {
				k.columns()
				k.I("ADDQ $64, DX")
				return
			}
			k.halves()
		})
	}
	k.Ret()
	return name
}

// halves emits a panel with AVX2, one half of the columns after the other. The second one begins 32 bytes behind where the first one did.
func (k *dot) halves() {
	for half := range 2 {
		k.I("MOVQ SI, R12")
		k.columns()
		k.I("ADDQ $32, DX")
		if half > 0 {
			k.I("SUBQ $32, SI")
			k.I("SUBQ $32, R10")
			k.I("SUBQ $8, R11")
			continue
		}
		k.I("LEAQ 32(R12), SI")
		k.Load("blocks", "AX")
		k.I("SHLQ $4, AX")
		k.I("SUBQ AX, R11")
		k.I("ADDQ $8, R11")
		k.I("SHLQ $2, AX")
		k.I("SUBQ AX, R10")
		k.I("ADDQ $32, R10")
	}
}

// panels emits all panels for one row with AVX2, both halves of a panel's columns at a time, and has the next panel fetched meanwhile. Each sum is made as that of a half alone:
// vectors 0 and 1 are results, 2 to 9 sums of a block, 10 and 11 zero points, 12 and 15 weights, 13 floats made of them, and 14 those of the row.
func (k *dot) panels() {
	k.Load("blocks", "R15")
	k.Load("groups", "AX")
	k.I("IMULQ AX, R15")
	k.I("SHLQ $5, R15")
	sum := func(half, i int) string { return k.v.R(2 + 4*half + i) }
	weights := []string{"Y12", "Y15"}
	k.Loop("CX", func() {
		k.I("LEAQ (SI)(R15*2), R14")
		for half := range 2 {
			k.Clear(k.v, k.v.R(half))
		}
		k.I("MOVQ DI, R13")
		k.Load("blocks", "BX")
		k.Loop("BX", func() {
			for half := range 2 {
				k.I("VPMOVZXBD %d(R11), Y%d", 8*half, 10+half)
				k.I("VCVTDQ2PS Y%[1]d, Y%[1]d", 10+half)
				for i := range 4 {
					k.Clear(k.v, sum(half, i))
				}
			}
			k.Load("groups", "AX")
			group := func() {
				for half := range 2 {
					k.I("VMOVDQU %d(SI), %s", 32*half, weights[half])
				}
				for i := range 4 {
					k.I("VBROADCASTSS %d(R13), Y14", 4*i)
					for half, w := range weights {
						if i < 3 {
							k.I("VPSHUFB %s, %s, Y13", asm.DataAt(lowest, 32*i), w)
						} else {
							k.I("VPSRLD $24, %s, Y13", w)
						}
						k.I("VCVTDQ2PS Y13, Y13")
						k.I("VSUBPS Y%d, Y13, Y13", 10+half)
						k.I("VFMADD231PS Y14, Y13, %s", sum(half, i))
					}
				}
				k.I("ADDQ $64, SI")
				k.I("ADDQ $16, R13")
			}
			k.While("AX", 2, func() {
				fetchNext(k.Func)
				group()
				group()
			})
			k.While("AX", 1, group)
			for half := range 2 {
				for _, i := range []int{0, 2} {
					k.I("VADDPS %s, %s, %s", sum(half, i+1), sum(half, i), sum(half, i))
				}
				k.I("VADDPS %s, %s, %s", sum(half, 2), sum(half, 0), sum(half, 0))
				k.I("VFMADD231PS %d(R10), %s, %s", 32*half, sum(half, 0), k.v.R(half))
			}
			k.I("ADDQ $64, R10")
			k.I("ADDQ $16, R11")
		})
		for half := range 2 {
			k.I("VMOVUPS %s, %d(DX)", k.v.R(half), 32*half)
		}
		k.I("ADDQ $64, DX")
	})
}

// constants loads what bytes become floats with.
func (k *dot) constants() {
	if !k.v.Masks {
		return
	}
	broadcastFloat(k.Func, wholes, 31)
	broadcast(k.Func, 0xff, 30)
}

// zeros loads zero points to the vector that they are taken off from.
func (k *dot) zeros() {
	zero := map[bool]string{true: "Z29", false: "Y15"}[k.v.Masks]
	k.I("VPMOVZXBD (R11), %s", zero)
	k.I("VCVTDQ2PS %[1]s, %[1]s", zero)
	if k.v.Masks {
		k.I("VADDPS %[1]s, Z31, %[1]s", zero)
	}
}

// weight makes weight i of each group a float, less the zero point: of the vector that load brought, in vector x.
func (k *dot) weight(i int, x string) {
	if !k.v.Masks {
		k.I("VPSHUFB %s, Y14, %s", asm.DataAt(lowest, 32*i), x)
		k.I("VCVTDQ2PS %[1]s, %[1]s", x)
		k.I("VSUBPS Y15, %[1]s, %[1]s", x)
		return
	}
	switch i {
	case 0:
		k.I("VMOVDQA32 Z28, %s", x)
	default:
		k.I("VPSRLD $%d, Z28, %s", 8*i, x)
	}
	k.I("VPTERNLOGD $0xea, Z31, Z30, %s", x) // those bits that are in a byte, or in the other vector
	k.I("VSUBPS Z29, %[1]s, %[1]s", x)
}

// load brings a group of each column, and moves on.
func (k *dot) load() {
	k.I("%s (SI), %s", map[bool]string{true: "VMOVDQU32", false: "VMOVDQU"}[k.v.Masks], k.v.R(map[bool]int{true: 28, false: 14}[k.v.Masks]))
	k.I("ADDQ $64, SI")
}

// columns emits the sums of as many columns as a vector has lanes.
func (k *dot) columns() {
	v, rows := k.v, k.rows
	sum := func(r, i int) string { return v.R(rows + 4*r + i) }
	for r := range rows {
		k.Clear(v, v.R(r))
	}
	k.I("MOVQ DI, R13")
	k.Load("blocks", "BX")
	k.Loop("BX", func() {
		k.zeros()
		for i := range 4 * rows {
			k.Clear(v, v.R(rows+i))
		}
		k.Load("groups", "AX")
		k.Loop("AX", func() {
			k.I("PREFETCHT0 1024(SI)")
			k.load()
			for i := range 4 {
				x := v.R(5*rows + i%(v.Registers/8))
				k.weight(i, x)
				for r := range rows {
					at := fmt.Sprintf("%d%s", 4*i, []string{"(R13)", "(R13)(R8*1)", "(R13)(R8*2)", "(R13)(R9*1)"}[r])
					if v.Masks {
						k.I("VFMADD231PS.BCST %s, %s, %s", at, x, sum(r, i))
					} else {
						k.I("VBROADCASTSS %s, Y13", at)
						k.I("VFMADD231PS Y13, %s, %s", x, sum(r, i))
					}
				}
			}
			k.I("ADDQ $16, R13")
		})
		for r := range rows {
			for _, i := range []int{0, 2} {
				k.I("VADDPS %s, %s, %s", sum(r, i+1), sum(r, i), sum(r, i))
			}
			k.I("VADDPS %s, %s, %s", sum(r, 2), sum(r, 0), sum(r, 0))
			k.I("VFMADD231PS (R10), %s, %s", sum(r, 0), v.R(r))
		}
		k.I("ADDQ $64, R10")
		k.I("ADDQ $16, R11")
	})
	k.I("MOVQ DX, R13")
	k.Load("ldd", "AX")
	for r := range rows {
		k.I("VMOVUPS %s, (R13)", v.R(r))
		if r+1 < rows {
			k.I("ADDQ AX, R13")
		}
	}
}

// unpack writes the kernel that makes floats of a panel's weights, and returns its name.
func (k *dot) unpack(f *asm.File) string {
	name := fmt.Sprintf("unpack_%d", 32*k.v.Lanes)
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	k.Func = f.Func(name, name+" writes four rows of 16 floats for each of n groups; n > 0.",
		ptr("dst", "float32"), ptr("src", "byte"), ptr("scale", "float32"), ptr("zero", "byte"), asm.Int("n"))
	k.constants()
	for half := 0; half < 64; half += k.v.Size() {
		for _, x := range []struct {
			name, reg string
			by        int // of the half
		}{{"dst", "DI", half}, {"src", "SI", half}, {"scale", "R10", half}, {"zero", "R11", half / 4}, {"n", "CX", 0}} {
			k.Load(x.name, x.reg)
			if x.by > 0 {
				k.I("ADDQ $%d, %s", x.by, x.reg)
			}
		}
		k.zeros()
		k.I("VMOVUPS (R10), %s", k.v.R(0))
		k.Loop("CX", func() {
			k.load()
			for i := range 4 {
				x := k.v.R(1 + i)
				k.weight(i, x)
				k.I("VMULPS %[2]s, %[1]s, %[1]s", x, k.v.R(0))
				k.I("VMOVUPS %s, %d(DI)", x, 64*i)
			}
			k.I("ADDQ $256, DI")
		})
	}
	k.Ret()
	return name
}
