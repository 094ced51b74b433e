//go:build ignore

// Command gen writes the kernels of package pairwise.
package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("pairwise", asm.Table{Entries: []asm.Entry{
		{Name: "tile", Doc: "writes products, or squares of distances, of Rows(set) rows or one row with panels of vectors that are stride apart.",
			Params: "distances, whole bool, dst *float64, ldd int, a *float64, lda int, w *float64, stride, k, panels int", Portable: "genericTile(distances, dst, a, w, stride, k, panels)"},
		{Name: "widen", Doc: "converts n numbers.", Params: "dst *float64, src *float32, n int", Portable: "genericWiden(dst, src, n)"},
		{Name: "narrow", Doc: "converts n numbers.", Params: "dst *float32, src *float64, n int", Portable: "genericNarrow(dst, src, n)"},
		{Name: "standardize", Doc: "writes (src - offset)*scale of n numbers.", Params: "dst, src *float32, offset, scale *float64, n int",
			Portable: "genericStandardize(dst, src, offset, scale, n)"},
		{Name: "dots", Doc: "writes the products of rows of k numbers, ldx apart, with one vector, and adds bias.",
			Params: "dst *float64, x *float32, ldx int, w *float64, k, rows int, bias float64", Portable: "genericDots(dst, x, ldx, w, k, rows, bias)"},
		{Name: "powers", Doc: "replaces each of n numbers x by (x + shift)^degree.", Params: "x *float64, n int, shift float64, degree int",
			Portable: "genericPowers(x, n, shift, degree)"},
		{Name: "score", Doc: "adds a vector of n numbers to the first of each row of eight, and says where the greatest is; best may be nil.",
			Params: "dst *float64, best *int64, x, bias *float64, n, rows int", Portable: "genericScore(dst, best, x, bias, n, rows)"},
		{Name: "dot", Doc: "writes the product of two vectors of n numbers.", Params: "dst, x, y *float64, n int", Portable: "genericDot(dst, x, y, n)"},
	}}, asm.Unit{Base: "pairwise", Arch: "amd64", Generate: func(f *asm.File) {
		for _, v := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
			tiles(f, v)
			conversions(f, v)
			dots(f, v)
			powers(f, v)
			dot(f, v)
		}
		score(f)
		for _, vectors := range []int{1, 2} {
			scoreWithoutMasks(f, vectors)
		}
		f.Serve("score", asm.AVX2(), "scoreRows(dst, best, x, bias, n, rows)")
	}}, asm.Unit{Base: "pairwise", Arch: "arm64", Generate: neon})
}

// lanes returns how many float64 a vector holds.
func lanes(v asm.ISA) int { return v.Lanes / 2 }

// named returns the name of a kernel of a set.
func named(name string, v asm.ISA) string { return fmt.Sprintf("%s%d", name, 8*v.Size()) }

// half returns the register of number i of half the width.
func half(v asm.ISA, i int) string {
	if v.Masks {
		return asm.Y(i)
	}
	return asm.X(i)
}

func doubles(name string) asm.Arg { return asm.Typed(name, "*float64") }

// tiles writes the tiles of one row and of as many as there are registers for: 8 of one vector, or 4 of two.
func tiles(f *asm.File, v asm.ISA) {
	rows := map[bool]int{true: 8, false: 4}[v.Masks]
	code := ""
	for _, distances := range []bool{false, true} {
		code += fmt.Sprintf("if distances == %v {\nif whole {\n%s(dst, 8*ldd, a, 8*lda, w, 8*stride, k, panels)\n} else {\n%s(dst, 8*ldd, a, 8*lda, w, 8*stride, k, panels)\n}\n}\n",
			distances, tile(f, v, distances, rows), tile(f, v, distances, 1))
	}
	f.Serve("tile", v, code)
}

// tile writes a kernel. Registers: DI the result, R12 the distance of its rows; R10 rows and R11 those from the fifth on, R8 their
// distance and R9 three times that; SI a panel; R13 and R15 the place in rows; CX and BX count numbers and panels.
func tile(f *asm.File, v asm.ISA, distances bool, rows int) string {
	name := fmt.Sprintf("%s%d_%d", map[bool]string{false: "products", true: "distances"}[distances], rows, 8*v.Size())
	what := map[bool]string{false: "products", true: "squares of distances"}[distances]
	fn := f.Func(name, fmt.Sprintf("%s writes %s of %d rows with panels of eight vectors; strides are in bytes; panels > 0.", name, what, rows),
		doubles("dst"), asm.Int("ldd"), doubles("a"), asm.Int("lda"), doubles("w"), asm.Int("stride"), asm.Int("k"), asm.Int("panels"))
	for _, x := range [][2]string{{"dst", "DI"}, {"ldd", "R12"}, {"a", "R10"}, {"lda", "R8"}, {"w", "SI"}, {"panels", "BX"}} {
		fn.Load(x[0], x[1])
	}
	fn.I("LEAQ (R8)(R8*2), R9")
	fn.I("LEAQ (R10)(R8*4), R11")
	vectors := 8 / lanes(v)
	fn.Loop("BX", func() {
		for i := range rows * vectors {
			fn.Clear(v, v.R(i))
		}
		fn.I("MOVQ R10, R13")
		fn.I("MOVQ R11, R15")
		fn.I("MOVQ SI, DX")
		fn.Load("k", "CX")
		fn.While("CX", 1, func() {
			column(fn, v, distances, rows, vectors)
			fn.I("ADDQ $64, DX")
			fn.I("ADDQ $8, R13")
			if rows > 4 {
				fn.I("ADDQ $8, R15")
			}
		})
		fn.I("MOVQ DI, AX")
		for r := range rows {
			for i := range vectors {
				fn.I("VMOVUPD %s, %d(AX)", v.R(r*vectors+i), i*v.Size())
			}
			if r < rows-1 {
				fn.I("ADDQ R12, AX")
			}
		}
		fn.I("ADDQ $64, DI")
		fn.I("ADDQ %s, SI", fn.Addr("stride"))
	})
	fn.Ret()
	return name
}

// column adds what one number of each vector makes with that of each row.
func column(fn *asm.Func, v asm.ISA, distances bool, rows, vectors int) {
	w, x, t := rows*vectors, rows*vectors+vectors, rows*vectors+vectors+1
	for i := range vectors {
		fn.I("VMOVUPD %d(DX), %s", i*v.Size(), v.R(w+i))
	}
	for r := range rows {
		at := []string{"(R13)", "(R13)(R8*1)", "(R13)(R8*2)", "(R13)(R9*1)", "(R15)", "(R15)(R8*1)", "(R15)(R8*2)", "(R15)(R9*1)"}[r]
		if v.Masks {
			if distances {
				fn.I("VSUBPD.BCST %s, %s, %s", at, v.R(w), v.R(t+r))
				fn.I("VFMADD231PD %[1]s, %[1]s, %[2]s", v.R(t+r), v.R(r))
			} else {
				fn.I("VFMADD231PD.BCST %s, %s, %s", at, v.R(w), v.R(r))
			}
			continue
		}
		fn.I("VBROADCASTSD %s, %s", at, v.R(x))
		for i := range vectors {
			sum := v.R(r*vectors + i)
			if distances {
				fn.I("VSUBPD %s, %s, %s", v.R(x), v.R(w+i), v.R(t))
				fn.I("VFMADD231PD %[1]s, %[1]s, %[2]s", v.R(t), sum)
			} else {
				fn.I("VFMADD231PD %s, %s, %s", v.R(x), v.R(w+i), sum)
			}
		}
	}
}

// conversions writes kernels of n numbers, n a multiple of the lanes, above zero.
func conversions(f *asm.File, v asm.ISA) {
	begin := func(name, what string, args ...asm.Arg) *asm.Func {
		name = named(name, v)
		fn := f.Func(name, fmt.Sprintf("%s %s n numbers; n is a multiple of eight, above zero.", name, what), append(args, asm.Int("n"))...)
		fn.Load(args[0].Name, "DI")
		fn.Load(args[1].Name, "SI")
		fn.Load("n", "CX")
		fn.I("SHRQ $%d, CX", map[int]int{8: 3, 4: 2}[lanes(v)])
		return fn
	}
	size, narrow := v.Size(), map[bool]string{true: "VCVTPD2PS", false: "VCVTPD2PSY"}[v.Masks]
	fn := begin("widen", "converts", doubles("dst"), asm.Ptr("src"))
	fn.Loop("CX", func() {
		fn.I("VCVTPS2PD (SI), %s", v.R(0))
		fn.I("VMOVUPD %s, (DI)", v.R(0))
		fn.I("ADDQ $%d, SI", size/2)
		fn.I("ADDQ $%d, DI", size)
	})
	fn.Ret()
	f.Serve("widen", v, named("widen", v)+"(dst, src, n)")

	fn = begin("narrow", "converts", asm.Ptr("dst"), doubles("src"))
	fn.Loop("CX", func() {
		fn.I("VMOVUPD (SI), %s", v.R(0))
		fn.I("%s %s, %s", narrow, v.R(0), half(v, 0))
		fn.I("VMOVUPS %s, (DI)", half(v, 0))
		fn.I("ADDQ $%d, SI", size)
		fn.I("ADDQ $%d, DI", size/2)
	})
	fn.Ret()
	f.Serve("narrow", v, named("narrow", v)+"(dst, src, n)")

	fn = begin("standardize", "writes (src - offset)*scale of", asm.Ptr("dst"), asm.Ptr("src"), doubles("offset"), doubles("scale"))
	fn.Load("offset", "AX")
	fn.Load("scale", "BX")
	fn.Loop("CX", func() {
		fn.I("VCVTPS2PD (SI), %s", v.R(0))
		fn.I("VSUBPD (AX), %[1]s, %[1]s", v.R(0))
		fn.I("VMULPD (BX), %[1]s, %[1]s", v.R(0))
		fn.I("%s %s, %s", narrow, v.R(0), half(v, 0))
		fn.I("VMOVUPS %s, (DI)", half(v, 0))
		for _, p := range []string{"SI", "DI"} {
			fn.I("ADDQ $%d, %s", size/2, p)
		}
		for _, p := range []string{"AX", "BX"} {
			fn.I("ADDQ $%d, %s", size, p)
		}
	})
	fn.Ret()
	f.Serve("standardize", v, named("standardize", v)+"(dst, src, offset, scale, n)")
}

// dots writes the products of rows of float32 with one vector: a sum in each lane, and these added up. What is left of a row is read under
// a mask, where there are such, else number by number.
func dots(f *asm.File, v asm.ISA) {
	name := named("dots", v)
	fn := f.Func(name, name+" writes the products of rows of k numbers with w, and adds bias; ldx is in bytes; rows > 0.",
		doubles("dst"), asm.Ptr("x"), asm.Int("ldx"), doubles("w"), asm.Int("k"), asm.Int("rows"), asm.Typed("bias", "float64"))
	for _, x := range [][2]string{{"dst", "DI"}, {"x", "SI"}, {"ldx", "R8"}, {"w", "R9"}, {"rows", "R10"}} {
		fn.Load(x[0], x[1])
	}
	size := v.Size()
	if v.Masks {
		fn.Load("k", "CX")
		fn.I("ANDQ $%d, CX", lanes(v)-1)
		fn.I("MOVL $1, AX")
		fn.I("SHLL CX, AX")
		fn.I("DECL AX")
		fn.I("KMOVW AX, K1")
	}
	fn.Loop("R10", func() {
		fn.Clear(v, v.R(0))
		fn.I("MOVQ SI, AX")
		fn.I("MOVQ R9, BX")
		fn.Load("k", "CX")
		fn.While("CX", lanes(v), func() {
			fn.I("VCVTPS2PD (AX), %s", v.R(1))
			fn.I("VFMADD231PD (BX), %s, %s", v.R(1), v.R(0))
			fn.I("ADDQ $%d, AX", size/2)
			fn.I("ADDQ $%d, BX", size)
		})
		if v.Masks {
			end := fn.NewLabel("end")
			fn.I("TESTQ CX, CX")
			fn.I("JZ %s", end)
			fn.I("VCVTPS2PD.Z (AX), K1, Z1")
			fn.I("VFMADD231PD (BX), Z1, K1, Z0")
			fn.Label(end)
		}
		addLanes(fn, v)
		if !v.Masks {
			fn.While("CX", 1, func() {
				fn.I("VXORPD X1, X1, X1") // what was there is not waited for
				fn.I("VCVTSS2SD (AX), X1, X1")
				fn.I("VFMADD231SD (BX), X1, X0")
				fn.I("ADDQ $4, AX")
				fn.I("ADDQ $8, BX")
			})
		}
		fn.I("VADDSD %s, X0, X0", fn.Addr("bias"))
		fn.I("VMOVSD X0, (DI)")
		fn.I("ADDQ $8, DI")
		fn.I("ADDQ R8, SI")
	})
	fn.Ret()
	f.Serve("dots", v, name+"(dst, x, 4*ldx, w, k, rows, bias)")
}

// addLanes adds up the lanes of vector 0.
func addLanes(fn *asm.Func, v asm.ISA) {
	if v.Masks {
		fn.I("VEXTRACTF64X4 $1, Z0, Y1")
		fn.I("VADDPD Y1, Y0, Y0")
	}
	fn.I("VEXTRACTF128 $1, Y0, X1")
	fn.I("VADDPD X1, X0, X0")
	fn.I("VPERMILPD $1, X0, X1")
	fn.I("VADDSD X1, X0, X0")
}

// powers multiplies in registers, four vectors at a time and what is left one by one.
func powers(f *asm.File, v asm.ISA) {
	name := named("powers", v)
	fn := f.Func(name, name+" replaces each of n numbers by a power; n is a multiple of eight, degree > 0.",
		doubles("x"), asm.Int("n"), asm.Typed("shift", "float64"), asm.Int("degree"))
	fn.Load("x", "DI")
	fn.Load("n", "CX")
	fn.I("VBROADCASTSD %s, %s", fn.Addr("shift"), v.R(8))
	for _, vectors := range []int{4, 1} {
		fn.While("CX", vectors*lanes(v), func() {
			for i := range vectors {
				fn.I("VADDPD %d(DI), %s, %s", i*v.Size(), v.R(8), v.R(i))
				fn.I("VMOVAPD %s, %s", v.R(i), v.R(4+i))
			}
			fn.Load("degree", "BX")
			fn.I("DECQ BX")
			fn.While("BX", 1, func() {
				for i := range vectors {
					fn.I("VMULPD %s, %[2]s, %[2]s", v.R(i), v.R(4+i))
				}
			})
			for i := range vectors {
				fn.I("VMOVUPD %s, %d(DI)", v.R(4+i), i*v.Size())
			}
			fn.I("ADDQ $%d, DI", vectors*v.Size())
		})
	}
	fn.Ret()
	f.Serve("powers", v, name+"(x, n, shift, degree)")
}

// dot has four sums, and one of them for what is left.
func dot(f *asm.File, v asm.ISA) {
	name := named("dot", v)
	fn := f.Func(name, name+" writes the product of two vectors of n numbers; n is a multiple of eight.",
		doubles("dst"), doubles("x"), doubles("y"), asm.Int("n"))
	for _, x := range [][2]string{{"dst", "DI"}, {"x", "SI"}, {"y", "R8"}, {"n", "CX"}} {
		fn.Load(x[0], x[1])
	}
	for i := range 4 {
		fn.Clear(v, v.R(i))
	}
	for _, vectors := range []int{4, 1} {
		fn.While("CX", vectors*lanes(v), func() {
			for i := range vectors {
				fn.I("VMOVUPD %d(SI), %s", i*v.Size(), v.R(4+i))
				fn.I("VFMADD231PD %d(R8), %s, %s", i*v.Size(), v.R(4+i), v.R(i))
			}
			for _, p := range []string{"SI", "R8"} {
				fn.I("ADDQ $%d, %s", vectors*v.Size(), p)
			}
		})
	}
	for _, pair := range [][2]int{{1, 0}, {3, 2}, {2, 0}} {
		fn.I("VADDPD %s, %[2]s, %[2]s", v.R(pair[0]), v.R(pair[1]))
	}
	addLanes(fn, v)
	fn.I("VMOVSD X0, (DI)")
	fn.Ret()
	f.Serve("dot", v, name+"(dst, x, y, n)")
}

// score writes sums, n of each row next to each other, and the first places of the greatest. A NaN in front is passed by none, others are
// passed over.
func score(f *asm.File) {
	v := asm.AVX512()
	name := named("score", v)
	fn := f.Func(name, name+" adds bias to rows of eight numbers, of which it keeps n, and says where the greatest is; n ≤ 8, rows > 0.",
		doubles("dst"), asm.Typed("best", "*int64"), doubles("x"), doubles("bias"), asm.Int("n"), asm.Int("rows"))
	for _, x := range [][2]string{{"dst", "DI"}, {"best", "R9"}, {"x", "SI"}, {"bias", "R10"}, {"n", "CX"}} {
		fn.Load(x[0], x[1])
	}
	fn.I("MOVL $1, AX")
	fn.I("SHLL CX, AX")
	fn.I("DECL AX")
	fn.I("KMOVW AX, K1")
	fn.I("LEAQ (CX*8), R8")
	fn.I("VMOVUPD.Z (R10), K1, Z30")
	least := math.Float64bits(math.Inf(-1))
	fn.I("VBROADCASTSD %s, Z31", f.Data("least", uint32(least), uint32(least>>32)))
	fn.Load("rows", "CX")
	fn.Loop("CX", func() {
		fn.I("VADDPD (SI), Z30, Z0")
		fn.I("VMOVUPD Z0, K1, (DI)")
		fn.I("VMOVAPD Z31, Z1")
		fn.I("VMOVAPD Z0, K1, Z1")
		fn.I("VCMPPD $3, Z1, Z1, K2")
		fn.I("VMOVAPD Z31, K2, Z1")
		fn.I("VMOVAPD Z1, Z2")
		for _, how := range []string{"VSHUFF64X2 $0x4E, Z2, Z2, Z3", "VSHUFF64X2 $0xB1, Z2, Z2, Z3", "VPERMILPD $0x55, Z2, Z3"} {
			fn.I(how)
			fn.I("VMAXPD Z3, Z2, Z2")
		}
		fn.I("VCMPPD $0, Z2, Z1, K3")
		fn.I("KMOVW K2, BX")
		fn.I("KMOVW K3, AX")
		fn.I("ANDL $1, BX")
		fn.I("ORL BX, AX")
		fn.I("TZCNTL AX, AX")
		fn.I("TESTQ R9, R9")
		fn.I("JZ next")
		fn.I("MOVQ AX, (R9)")
		fn.I("ADDQ $8, R9")
		fn.Label("next")
		fn.I("ADDQ $64, SI")
		fn.I("ADDQ R8, DI")
	})
	fn.Ret()
	f.Serve("score", v, name+"(dst, best, x, bias, n, rows)")
}

// scoreWithoutMasks is score of rows of so many vectors of four numbers, which are stored whole: what stands behind n is the next row's, or
// was there.
func scoreWithoutMasks(f *asm.File, vectors int) {
	name := fmt.Sprintf("score%d_256", 4*vectors)
	fn := f.Func(name, fmt.Sprintf("%s adds bias to rows of eight numbers, of which it keeps n, and says where the greatest is; %d are stored for each; %d < n ≤ %[2]d, rows > 0.",
		name, 4*vectors, 4*vectors-4), doubles("dst"), asm.Typed("best", "*int64"), doubles("x"), doubles("bias"), asm.Int("n"), asm.Int("rows"))
	for _, x := range [][2]string{{"dst", "DI"}, {"best", "R9"}, {"x", "SI"}, {"bias", "R10"}, {"n", "CX"}} {
		fn.Load(x[0], x[1])
	}
	fn.I("LEAQ (CX*8), R8")
	var lanes []uint32
	for i := range 32 {
		lanes = append(lanes, map[bool]uint32{true: math.MaxUint32}[i < 16])
	}
	fn.I("LEAQ %s, AX", f.Data("lanes", lanes...))
	fn.I("SUBQ R8, AX")
	least := math.Float64bits(math.Inf(-1))
	fn.I("VBROADCASTSD %s, Y15", f.Data("least", uint32(least), uint32(least>>32)))
	sum, none, mask, bias := []string{"Y0", "Y1"}, []string{"Y2", "Y3"}, []string{"Y11", "Y12"}, []string{"Y13", "Y14"}
	for i := range vectors {
		fn.I("VMOVUPD %d(AX), %s", 64+32*i, mask[i])
		fn.I("VMASKMOVPD %d(R10), %s, %s", 32*i, mask[i], bias[i])
	}
	fn.Load("rows", "CX")
	fn.Loop("CX", func() {
		for i := range vectors {
			fn.I("VADDPD %d(SI), %s, %s", 32*i, bias[i], sum[i])
			fn.I("VMOVUPD %s, %d(DI)", sum[i], 32*i)
			fn.I("VBLENDVPD %s, %s, Y15, %[2]s", mask[i], sum[i])
			fn.I("VCMPPD $3, %[1]s, %[1]s, %[2]s", sum[i], none[i])
			fn.I("VBLENDVPD %s, Y15, %[2]s, %[2]s", none[i], sum[i])
		}
		if vectors > 1 {
			fn.I("VMAXPD Y1, Y0, Y4")
		} else {
			fn.I("VMOVAPD Y0, Y4")
		}
		fn.I("VEXTRACTF128 $1, Y4, X5")
		fn.I("VMAXPD X5, X4, X4")
		fn.I("VPERMILPD $1, X4, X5")
		fn.I("VMAXPD X5, X4, X4")
		fn.I("VBROADCASTSD X4, Y4")
		for i := vectors - 1; i >= 0; i-- {
			fn.I("VCMPPD $0, Y4, %[1]s, %[1]s", sum[i])
			fn.I("VMOVMSKPD %s, %s", sum[i], []string{"AX", "BX"}[i])
		}
		if vectors > 1 {
			fn.I("SHLL $4, BX")
			fn.I("ORL BX, AX")
		}
		fn.I("VMOVMSKPD Y2, BX")
		fn.I("ANDL $1, BX")
		fn.I("ORL BX, AX")
		fn.I("TZCNTL AX, AX")
		fn.I("TESTQ R9, R9")
		fn.I("JZ next")
		fn.I("MOVQ AX, (R9)")
		fn.I("ADDQ $8, R9")
		fn.Label("next")
		fn.I("ADDQ $64, SI")
		fn.I("ADDQ R8, DI")
	})
	fn.Ret()
}
