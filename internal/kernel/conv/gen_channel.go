//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// generateChannel writes the kernels of global pooling and of linear interpolation.
func generateChannel(f *asm.File) {
	for _, isa := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
		reduce(f, isa, "sum", "VADDPS")
		reduce(f, isa, "max", "VMAXPS")
		lost(f, isa)
		linear(f, isa)
		bits := 8 * isa.Size()
		f.Serve("losesNaN", isa, fmt.Sprintf("return lostNaN%d(src, n) != 0", bits))
		f.Serve("reducePixels", isa, fmt.Sprintf("if maximum {\nmaxPixels%d(dst, src, scale, n)\n} else {\nsumPixels%d(dst, src, scale, n)\n}", bits, bits))
		f.Serve("linearRow", isa, fmt.Sprintf("linearRow%d(dst, a, b, at, wx, wy, n)", bits))
	}
}

// reduce writes the reduction of a channel block: one chain of operations for each of eight pixels in turn, which are
// joined at the end.
func reduce(f *asm.File, isa asm.ISA, name, op string) {
	fnName := fmt.Sprintf("%sPixels%d", name, 8*isa.Size())
	fn := f.Func(fnName, fnName+" reduces n pixels of 16 channels, at least 1, to one, times scale.",
		asm.Ptr("dst"), asm.Ptr("src"), asm.Float("scale"), asm.Int("n"))
	halves := 16 / isa.Lanes
	chains := 8 / halves
	acc := func(c, h int) string { return isa.R(c*halves + h) }
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("n", "CX")
	// All chains start with the first pixel for a maximum, with zero for a sum.
	for c := range chains {
		for h := range halves {
			if name == "max" {
				fn.I("VMOVUPS %d(SI), %s", 32*h, acc(c, h))
			} else {
				fn.I("VXORPS %s, %s, %s", acc(c, h), acc(c, h), acc(c, h))
			}
		}
	}
	fn.While("CX", chains, func() {
		for c := range chains {
			for h := range halves {
				fn.I("%s %d(SI), %s, %s", op, 64*c+32*h, acc(c, h), acc(c, h))
			}
		}
		fn.I("ADDQ $%d, SI", 64*chains)
	})
	fn.While("CX", 1, func() {
		for h := range halves {
			fn.I("%s %d(SI), %s, %s", op, 32*h, acc(0, h), acc(0, h))
		}
		fn.I("ADDQ $64, SI")
	})
	for n := chains / 2; n > 0; n /= 2 {
		for c := range n {
			for h := range halves {
				fn.I("%s %s, %s, %s", op, acc(c+n, h), acc(c, h), acc(c, h))
			}
		}
	}
	fn.I("VBROADCASTSS %s, %s", fn.Addr("scale"), isa.R(15))
	for h := range halves {
		fn.I("VMULPS %s, %s, %s", isa.R(15), acc(0, h), acc(0, h))
		fn.I("VMOVUPS %s, %d(DI)", acc(0, h), 32*h)
	}
	fn.Ret()
}

// lost writes the search for NaN, which VMAXPS forgets: an instruction compares two vectors.
func lost(f *asm.File, isa asm.ISA) {
	name := fmt.Sprintf("lostNaN%d", 8*isa.Size())
	fn := f.Func(name, name+" returns something other than 0 if n pixels of 16 channels, at least 1, have a NaN.", asm.Ptr("src"), asm.Int("n"))
	fn.Result("ret", "int")
	fn.Load("src", "SI")
	fn.Load("n", "CX")
	// pair compares vectors at two places, the i-th of four times, and joins what it finds.
	pair := func(i, first, second int) {
		fn.I("VMOVUPS %d(SI), %s", first, isa.R(i))
		if isa.Masks {
			fn.I("VCMPPS $3, %d(SI), %s, K%d", second, isa.R(i), 2+i)
			fn.I("KORW K%d, K1, K1", 2+i)
			return
		}
		fn.I("VCMPPS $3, %d(SI), %s, %s", second, isa.R(i), isa.R(i))
		fn.I("VORPS %s, %s, %s", isa.R(i), isa.R(15), isa.R(15))
	}
	if isa.Masks {
		fn.I("KXORW K1, K1, K1")
	} else {
		fn.Clear(isa, isa.R(15))
	}
	size := isa.Size()
	fn.While("CX", 8*size/64, func() {
		for i := range 4 {
			pair(i, 2*i*size, (2*i+1)*size)
		}
		fn.I("ADDQ $%d, SI", 8*size)
	})
	fn.While("CX", 1, func() {
		pair(0, 0, 64-size)
		fn.I("ADDQ $64, SI")
	})
	if isa.Masks {
		fn.I("KMOVW K1, AX")
	} else {
		fn.I("VMOVMSKPS %s, AX", isa.R(15))
	}
	fn.I("MOVQ AX, %s", fn.Addr("ret"))
	fn.Ret()
}

// linear writes the interpolation of a row between two rows.
func linear(f *asm.File, isa asm.ISA) {
	name := fmt.Sprintf("linearRow%d", 8*isa.Size())
	fn := f.Func(name, name+` computes n pixels of 16 channels. Pixel i lies between the pixels at bytes at[2i] and at[2i+1] of rows a and b,
with weight wx[i] of the second; row b has weight wy. n is at least 1.`,
		asm.Ptr("dst"), asm.Ptr("a"), asm.Ptr("b"), asm.Typed("at", "*int32"), asm.Ptr("wx"), asm.Float("wy"), asm.Int("n"))
	halves := 16 / isa.Lanes
	fn.Load("dst", "DI")
	fn.Load("a", "SI")
	fn.Load("b", "BX")
	fn.Load("at", "DX")
	fn.Load("wx", "R8")
	fn.Load("n", "CX")
	fn.I("VBROADCASTSS %s, %s", fn.Addr("wy"), isa.R(15))
	fn.Loop("CX", func() {
		fn.I("MOVLQSX (DX), R9")
		fn.I("MOVLQSX 4(DX), R10")
		fn.I("VBROADCASTSS (R8), %s", isa.R(14))
		for h := range halves {
			r := func(i int) string { return isa.R(6*h + i) }
			fn.I("VMOVUPS %d(SI)(R9*1), %s", 32*h, r(0))
			fn.I("VMOVUPS %d(SI)(R10*1), %s", 32*h, r(1))
			fn.I("VMOVUPS %d(BX)(R9*1), %s", 32*h, r(2))
			fn.I("VMOVUPS %d(BX)(R10*1), %s", 32*h, r(3))
			fn.I("VSUBPS %s, %s, %s", r(0), r(1), r(1))
			fn.I("VSUBPS %s, %s, %s", r(2), r(3), r(3))
			fn.I("VFMADD231PS %s, %s, %s", isa.R(14), r(1), r(0))
			fn.I("VFMADD231PS %s, %s, %s", isa.R(14), r(3), r(2))
			fn.I("VSUBPS %s, %s, %s", r(0), r(2), r(2))
			fn.I("VFMADD231PS %s, %s, %s", isa.R(15), r(2), r(0))
			fn.I("VMOVUPS %s, %d(DI)", r(0), 32*h)
		}
		fn.I("ADDQ $8, DX")
		fn.I("ADDQ $4, R8")
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
}
