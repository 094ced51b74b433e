//go:build ignore

// Command gen writes the kernels of package pairs.
package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("pairs", asm.Table{Entries: []asm.Entry{
		{Name: "along", Doc: "rounds n numbers, at least one, to words of two neighbours.",
			Params: "dst *uint32, src *float32, n int", Portable: "genericAlong(dst, src, n)"},
		{Name: "across", Doc: "rounds n rows at a and as many at b, at least one, of width numbers and 2*lds apart, to rows of words.",
			Params: "dst *uint32, a, b *float32, n, lds, width int", Portable: "genericAcross(dst, a, b, n, lds, width)"},
		{Name: "beside", Doc: "rounds n rows of 16 numbers at a and as many at b, lds apart, nil for none, to n rows of words, ldd apart, those of a row of b behind those of a.",
			Params: "dst *uint32, a, b *float32, n, lds, ldd int", Portable: "genericBeside(dst, a, b, n, lds, ldd)"},
	}}, asm.Unit{Base: "pairs", Arch: "amd64", Generate: func(f *asm.File) {
		along(f)
		across(f)
		beside(f)
	}}, asm.Unit{Base: "pairs", Arch: "arm64", Generate: func(f *asm.File) {
		alongNEON(f)
		acrossNEON(f)
	}})
}

// along writes the kernel that rounds a row, 128 numbers at a time, then 32, then what is left under masks.
func along(f *asm.File) {
	fn := f.Func("along512", "along512 rounds n numbers to words of two neighbours; n > 0.", asm.Typed("dst", "*uint32"), asm.Ptr("src"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("n", "CX")
	for _, unrolled := range []int{4, 1} {
		fn.While("CX", 32*unrolled, func() {
			for u := range unrolled {
				fn.I("VMOVUPS %d(SI), Z%d", 128*u, 2*u)
				fn.I("VMOVUPS %d(SI), Z%d", 128*u+64, 2*u+1)
				fn.RoundPairs(asm.Z(2*u), asm.Z(2*u+1), asm.Z(2*u))
				fn.I("VMOVUPS Z%d, %d(DI)", 2*u, 64*u)
			}
			fn.I("ADDQ $%d, SI", 128*unrolled)
			fn.I("ADDQ $%d, DI", 64*unrolled)
		})
	}
	fn.I("TESTQ CX, CX")
	fn.I("JZ end")
	// K1 and K2 have the numbers that are left, K3 their words.
	fn.I("MOVQ $-1, AX")
	fn.I("BZHIQ CX, AX, AX")
	fn.I("KMOVW AX, K1")
	fn.I("SHRQ $16, AX")
	fn.I("KMOVW AX, K2")
	fn.I("INCQ CX")
	fn.I("SHRQ $1, CX")
	fn.I("MOVQ $-1, AX")
	fn.I("BZHIQ CX, AX, AX")
	fn.I("KMOVW AX, K3")
	fn.I("VMOVUPS.Z (SI), K1, Z0")
	fn.I("VMOVUPS.Z 64(SI), K2, Z1")
	fn.RoundPairs("Z0", "Z1", "Z0")
	fn.I("VMOVDQU32 Z0, K3, (DI)")
	fn.Label("end")
	fn.Ret()
	f.Serve("along", asm.AVX512(), "along512(dst, src, n)")
}

// across writes the kernel that rounds rows two by two, whose numbers are then woven.
func across(f *asm.File) {
	var weave []uint32
	for i := range uint32(16) {
		weave = append(weave, i|(16+i)<<16)
	}
	f.Data("weave", weave...)
	fn := f.Func("across512", "across512 rounds n rows at a and as many at b, step bytes apart, to rows of 16 words; n > 0, and mask has the lanes in use.",
		asm.Typed("dst", "*uint32"), asm.Ptr("a"), asm.Ptr("b"), asm.Int("n"), asm.Int("step"), asm.Typed("mask", "uint32"))
	fn.Load("dst", "DI")
	fn.Load("a", "SI")
	fn.Load("b", "BX")
	fn.Load("n", "CX")
	fn.Load("step", "DX")
	fn.Load("mask", "AX")
	fn.I("KMOVW AX, K1")
	fn.I("VMOVUPS %s, Z31", asm.DataAt("weave", 0))
	row := func(u int) {
		fn.I("VMOVUPS.Z (SI), K1, Z%d", 2*u)
		fn.I("VMOVUPS.Z (BX), K1, Z%d", 2*u+1)
		fn.RoundPairs(asm.Z(2*u), asm.Z(2*u+1), asm.Z(2*u))
		fn.I("VPERMW Z%d, Z31, Z%d", 2*u, 2*u)
		fn.I("VMOVUPS Z%d, %d(DI)", 2*u, 64*u)
		fn.I("ADDQ DX, SI")
		fn.I("ADDQ DX, BX")
	}
	for _, unrolled := range []int{4, 1} {
		fn.While("CX", unrolled, func() {
			for u := range unrolled {
				row(u)
			}
			fn.I("ADDQ $%d, DI", 64*unrolled)
		})
	}
	fn.Ret()
	f.Serve("across", asm.AVX512(), fmt.Sprintf("across512(dst, a, b, n, %d*lds, 1<<width-1)", 8))
}

// beside writes the kernel that rounds rows of 16 or 32 numbers, two at a time, and then one.
func beside(f *asm.File) {
	fn := f.Func("beside512", "beside512 rounds n rows of 16 numbers at a and as many at b, nil for none, to words beside each other; n > 0.",
		asm.Typed("dst", "*uint32"), asm.Ptr("a"), asm.Ptr("b"), asm.Int("n"), asm.Int("step"), asm.Int("distance"))
	for _, x := range [][2]string{{"dst", "DI"}, {"a", "SI"}, {"b", "BX"}, {"n", "CX"}, {"step", "DX"}, {"distance", "R8"}} {
		fn.Load(x[0], x[1])
	}
	fn.I("TESTQ BX, BX")
	fn.I("JZ alone")
	for _, unrolled := range []int{4, 1} {
		fn.While("CX", unrolled, func() {
			for u := range unrolled {
				fn.I("VMOVUPS (SI), Z%d", 2*u)
				fn.I("VMOVUPS (BX), Z%d", 2*u+1)
				fn.RoundPairs(asm.Z(2*u), asm.Z(2*u+1), asm.Z(2*u))
				fn.I("VMOVUPS Z%d, (DI)", 2*u)
				fn.I("ADDQ DX, SI")
				fn.I("ADDQ DX, BX")
				fn.I("ADDQ R8, DI")
			}
		})
	}
	fn.I("JMP end")
	fn.Label("alone")
	fn.Loop("CX", func() {
		fn.I("VMOVUPS (SI), Z0")
		fn.RoundPairs("Z0", "Z0", "Z0")
		fn.I("VMOVUPS Y0, (DI)")
		fn.I("ADDQ DX, SI")
		fn.I("ADDQ R8, DI")
	})
	fn.Label("end")
	fn.Ret()
	f.Serve("beside", asm.AVX512(), "beside512(dst, a, b, n, 4*lds, 4*ldd)")
}

// alongNEON is along by the instructions of FEAT_BF16, 16 numbers at a time, then four, then one.
func alongNEON(f *asm.File) {
	fn := f.Loaded("alongNEON", "rounds n numbers to words of two neighbours; n > 0.", asm.Typed("dst", "*uint32"), asm.Ptr("src"), asm.Int("n"))
	fn.I("MOVD R2, R3")
	fn.While("R2", 16, func() {
		for i := range 4 {
			fn.I("FMOVQ.P 16(R1), F%d", i)
		}
		for i := range 2 {
			fn.V("bfcvtn.4h", 2*i, 2*i)
			fn.V("bfcvtn2.8h", 2*i, 2*i+1)
			fn.I("FMOVQ.P F%d, 16(R0)", 2*i)
		}
	})
	fn.While("R2", 4, func() {
		fn.I("FMOVQ.P 16(R1), F0")
		fn.V("bfcvtn.4h", 0, 0)
		fn.I("FMOVD.P F0, 8(R0)")
	})
	fn.While("R2", 1, func() {
		fn.I("FMOVS.P 4(R1), F0")
		fn.V("bfcvtn.4h", 0, 0)
		fn.I("VST1.P V0.H[0], 2(R0)")
	})
	fn.I("TBZ $0, R3, end")
	fn.I("MOVH ZR, (R0)")
	fn.Label("end")
	fn.Ret()
	f.Serve("along", asm.NEON(), "alongNEON(dst, src, n)")
}

// acrossNEON is across likewise, of whole rows.
func acrossNEON(f *asm.File) {
	fn := f.Loaded("acrossNEON", "rounds n rows of 16 numbers at a and as many at b, step bytes apart, to rows of 16 words; n > 0.",
		asm.Typed("dst", "*uint32"), asm.Ptr("a"), asm.Ptr("b"), asm.Int("n"), asm.Int("step"))
	fn.Loop("R3", func() {
		for v := range 4 {
			fn.I("FMOVQ %d(R1), F%d", 16*v, 2*v)
			fn.I("FMOVQ %d(R2), F%d", 16*v, 2*v+1)
			fn.V("bfcvtn.4h", 2*v, 2*v)
			fn.V("bfcvtn.4h", 2*v+1, 2*v+1)
			fn.V("zip1.8h", 2*v, 2*v, 2*v+1)
			fn.I("FMOVQ.P F%d, 16(R0)", 2*v)
		}
		fn.I("ADD R4, R1")
		fn.I("ADD R4, R2")
	})
	fn.Ret()
	f.Serve("across", asm.NEON(), fmt.Sprintf("if width < Lanes {\ngenericAcross(dst, a, b, n, lds, width)\nreturn\n}\nacrossNEON(dst, a, b, n, %d*lds)", 8))
}
