//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// neon writes the kernels for NEON, whose vectors have two numbers: a panel's row is four of them.
func neon(f *asm.File) {
	code := ""
	for _, distances := range []bool{false, true} {
		const with = "(dst, 8*ldd, a, 8*lda, w, 8*stride, k, panels)"
		code += fmt.Sprintf("if distances == %v {\nif whole {\n%s%s\n} else {\n%s%s\n}\n}\n", distances, neonTile(f, distances, 4), with, neonTile(f, distances, 1), with)
	}
	f.Serve("tile", asm.NEON(), code)
	neonConversions(f)
	neonDots(f)
	neonPowers(f)
	neonDot(f)
}

// neonTile is tile. Registers: R0 the result, R1 the distance of its rows, R2 rows, R3 their distance, R4 a panel, R5 what lies between
// panels, R6 numbers of a row, R7 panels left; R8 counts numbers, R9 walks the panel, R10 to R13 rows. Vectors: four sums for each row,
// then the panel's row, then what is read of rows.
func neonTile(f *asm.File, distances bool, rows int) string {
	name := fmt.Sprintf("%s%d_NEON", map[bool]string{false: "products", true: "distances"}[distances], rows)
	what := map[bool]string{false: "products", true: "squares of distances"}[distances]
	fn := f.Loaded(name, fmt.Sprintf("writes %s of %d rows with panels of eight vectors; strides are in bytes; panels > 0.", what, rows),
		doubles("dst"), asm.Int("ldd"), doubles("a"), asm.Int("lda"), doubles("w"), asm.Int("stride"), asm.Int("k"), asm.Int("panels"))
	const vectors, w, x, t = 4, 16, 20, 24
	row := func(r int) string { return fmt.Sprintf("R%d", 10+r) }
	fn.Loop("R7", func() {
		for i := range rows * vectors {
			fn.Clear(asm.NEON(), fmt.Sprint("V", i))
		}
		fn.I("MOVD R4, R9")
		fn.I("MOVD R2, %s", row(0))
		for r := 1; r < rows; r++ {
			fn.I("ADD R3, %s, %s", row(r-1), row(r))
		}
		fn.I("MOVD R6, R8")
		fn.While("R8", 1, func() {
			for i := 0; i < vectors; i += 2 {
				fn.I("FLDPQ.P 32(R9), (F%d, F%d)", w+i, w+i+1)
			}
			for r := range rows {
				if !distances {
					fn.I("FMOVD.P 8(%s), F%d", row(r), x+r)
					for i := range vectors {
						fn.VLane("fmla.2d", r*vectors+i, w+i, x+r, 0)
					}
					continue
				}
				fn.I("VLD1R.P 8(%s), [V%d.D2]", row(r), x+r)
				for i := range vectors {
					fn.V("fsub.2d", t+i, w+i, x+r)
					fn.V("fmla.2d", r*vectors+i, t+i, t+i)
				}
			}
		})
		fn.I("MOVD R0, R8")
		for r := range rows {
			for i := 0; i < vectors; i += 2 {
				fn.I("FSTPQ (F%d, F%d), %d(R8)", r*vectors+i, r*vectors+i+1, 16*i)
			}
			fn.I("ADD R1, R8")
		}
		fn.I("ADD $64, R0")
		fn.I("ADD R5, R4")
	})
	fn.Ret()
	return name
}

// neonConversions writes kernels of n numbers, four at a time.
func neonConversions(f *asm.File) {
	each := func(name, what, count string, body func(fn *asm.Func), args ...asm.Arg) {
		fn := f.Loaded(name+"NEON", what+" n numbers; n is a multiple of eight, above zero.", append(args, asm.Int("n"))...)
		fn.While(count, 4, func() { body(fn) })
		fn.Ret()
	}
	wide := func(fn *asm.Func) {
		fn.I("FMOVQ.P 16(R1), F2")
		fn.V("fcvtl.2d", 0, 2)
		fn.V("fcvtl2.2d", 1, 2)
	}
	narrow := func(fn *asm.Func) {
		fn.V("fcvtn.2s", 2, 0)
		fn.V("fcvtn2.4s", 2, 1)
		fn.I("FMOVQ.P F2, 16(R0)")
	}
	each("widen", "converts", "R2", func(fn *asm.Func) {
		wide(fn)
		fn.I("FSTPQ.P (F0, F1), 32(R0)")
	}, doubles("dst"), asm.Ptr("src"))
	f.Serve("widen", asm.NEON(), "widenNEON(dst, src, n)")

	each("narrow", "converts", "R2", func(fn *asm.Func) {
		fn.I("FLDPQ.P 32(R1), (F0, F1)")
		narrow(fn)
	}, asm.Ptr("dst"), doubles("src"))
	f.Serve("narrow", asm.NEON(), "narrowNEON(dst, src, n)")

	each("standardize", "writes (src - offset)*scale of", "R4", func(fn *asm.Func) {
		wide(fn)
		fn.I("FLDPQ.P 32(R2), (F4, F5)")
		fn.I("FLDPQ.P 32(R3), (F6, F7)")
		for i := range 2 {
			fn.V("fsub.2d", i, i, 4+i)
			fn.V("fmul.2d", i, i, 6+i)
		}
		narrow(fn)
	}, asm.Ptr("dst"), asm.Ptr("src"), doubles("offset"), doubles("scale"))
	f.Serve("standardize", asm.NEON(), "standardizeNEON(dst, src, offset, scale, n)")
}

// neonDots writes the products of rows of float32 with one vector: four sums of two numbers, added up, and what is left of a row number by
// number.
func neonDots(f *asm.File) {
	fn := f.Loaded("dotsNEON", "writes the products of rows of k numbers with w, and adds bias; ldx is in bytes; rows > 0.",
		doubles("dst"), asm.Ptr("x"), asm.Int("ldx"), doubles("w"), asm.Int("k"), asm.Int("rows"), asm.Typed("bias", "float64"))
	fn.I("FMOVD %s, F31", fn.Addr("bias"))
	fn.Loop("R5", func() {
		for i := range 4 {
			fn.Clear(asm.NEON(), fmt.Sprint("V", i))
		}
		fn.I("MOVD R1, R6")
		fn.I("MOVD R3, R7")
		fn.I("MOVD R4, R8")
		fn.While("R8", 8, func() {
			for i := 0; i < 4; i += 2 {
				fn.I("FMOVQ.P 16(R6), F%d", 4+i)
				fn.I("FLDPQ.P 32(R7), (F%d, F%d)", 8+i, 9+i)
				fn.V("fcvtl2.2d", 5+i, 4+i)
				fn.V("fcvtl.2d", 4+i, 4+i)
				fn.V("fmla.2d", i, 4+i, 8+i)
				fn.V("fmla.2d", i+1, 5+i, 9+i)
			}
		})
		fn.V("fadd.2d", 0, 0, 1)
		fn.V("fadd.2d", 2, 2, 3)
		fn.V("fadd.2d", 0, 0, 2)
		fn.V("faddp.2d", 0, 0, 0)
		fn.While("R8", 1, func() {
			fn.I("FMOVS.P 4(R6), F4")
			fn.I("FCVTSD F4, F4")
			fn.I("FMOVD.P 8(R7), F5")
			fn.I("FMADDD F4, F0, F5, F0")
		})
		fn.I("FADDD F31, F0")
		fn.I("FMOVD.P F0, 8(R0)")
		fn.I("ADD R2, R1")
	})
	fn.Ret()
	f.Serve("dots", asm.NEON(), "dotsNEON(dst, x, 4*ldx, w, k, rows, bias)")
}

// neonPowers multiplies eight numbers at a time in registers.
func neonPowers(f *asm.File) {
	fn := f.Loaded("powersNEON", "replaces each of n numbers by a power; n is a multiple of eight, degree > 0.",
		doubles("x"), asm.Int("n"), asm.Typed("shift", "float64"), asm.Int("degree"))
	fn.I("FMOVD %s, F8", fn.Addr("shift"))
	fn.I("VDUP V8.D[0], V8.D2")
	fn.While("R1", 8, func() {
		for i := 0; i < 4; i += 2 {
			fn.I("FLDPQ %d(R0), (F%d, F%d)", 16*i, i, i+1)
			for j := i; j < i+2; j++ {
				fn.V("fadd.2d", j, j, 8)
				fn.I("VMOV V%d.B16, V%d.B16", j, 4+j)
			}
		}
		fn.I("SUB $1, R3, R4")
		fn.While("R4", 1, func() {
			for i := range 4 {
				fn.V("fmul.2d", 4+i, 4+i, i)
			}
		})
		for i := 0; i < 4; i += 2 {
			fn.I("FSTPQ.P (F%d, F%d), 32(R0)", 4+i, 5+i)
		}
	})
	fn.Ret()
	f.Serve("powers", asm.NEON(), "powersNEON(x, n, shift, degree)")
}

// neonDot has four sums of two numbers.
func neonDot(f *asm.File) {
	fn := f.Loaded("dotNEON", "writes the product of two vectors of n numbers; n is a multiple of eight.",
		doubles("dst"), doubles("x"), doubles("y"), asm.Int("n"))
	for i := range 4 {
		fn.Clear(asm.NEON(), fmt.Sprint("V", i))
	}
	fn.While("R3", 8, func() {
		for i := 0; i < 4; i += 2 {
			fn.I("FLDPQ.P 32(R1), (F%d, F%d)", 4+i, 5+i)
			fn.I("FLDPQ.P 32(R2), (F%d, F%d)", 8+i, 9+i)
			fn.V("fmla.2d", i, 4+i, 8+i)
			fn.V("fmla.2d", i+1, 5+i, 9+i)
		}
	})
	fn.V("fadd.2d", 0, 0, 1)
	fn.V("fadd.2d", 2, 2, 3)
	fn.V("fadd.2d", 0, 0, 2)
	fn.V("faddp.2d", 0, 0, 0)
	fn.I("FMOVD F0, (R0)")
	fn.Ret()
	f.Serve("dot", asm.NEON(), "dotNEON(dst, x, y, n)")
}
