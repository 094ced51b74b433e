//go:build ignore

// Command gen writes the kernels of package shortrow.
package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("shortrow", asm.Table{Entries: []asm.Entry{
		{Name: "mark", Doc: "writes 1 at the first of the greatest elements of each row.", Params: "dst, src *float32, n, rows int",
			Portable: "genericMark(dst, src, n, rows)"},
		{Name: "divide", Doc: "divides rows by their norms.", Params: "norm Norm, dst, src *float32, n, rows int", Portable: "genericDivide(norm, dst, src, n, rows)"},
		{Name: "normalise", Doc: "normalises rows.", Params: "dst, src, scale, bias *float32, n, rows int, epsilon float32",
			Portable: "genericNormalise(dst, src, scale, bias, n, rows, epsilon)"},
		{Name: "take", Doc: "writes count elements of each row, those at places of which the last is n-1 at most.",
			Params: "dst *float32, ldd int, src *float32, lds int, places *int32, count, n, rows int", Portable: "genericTake(dst, ldd, src, lds, places, count, rows)"},
	}}, asm.Unit{Base: "rows", Arch: "amd64", Generate: func(f *asm.File) {
		mark(f)
		code := "switch norm {\n"
		for _, norm := range []string{"L1", "L2", "Max"} {
			code += fmt.Sprintf("case %s:\nif n > 16 {\n%s(dst, src, n, rows)\nreturn\n}\n%s(dst, src, n, rows)\n", norm, divide(f, norm, 4), divide(f, norm, 2))
		}
		f.Serve("divide", asm.AVX512(), code+"}")
		normalise(f)
		take(f)
	}})
}

// begin writes the head of a kernel: DI the results, SI the rows, R8 the bytes of one, CX their number; AX the lanes of a row, K1 the first 16.
func begin(f *asm.File, name, what string, most int, more ...asm.Arg) *asm.Func {
	fn := f.Func(name, fmt.Sprintf("%s %s n ≤ %d, rows > 0.", name, what, most), append([]asm.Arg{asm.Ptr("dst"), asm.Ptr("src"), asm.Int("n"), asm.Int("rows")}, more...)...)
	for _, x := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {"n", "CX"}} {
		fn.Load(x[0], x[1])
	}
	fn.I("MOVL $1, AX")
	fn.I("SHLQ CX, AX")
	fn.I("DECQ AX")
	fn.I("KMOVW AX, K1")
	fn.I("LEAQ (CX*4), R8")
	fn.Load("rows", "CX")
	return fn
}

// next goes to the next row.
func next(fn *asm.Func) {
	fn.I("ADDQ R8, SI")
	fn.I("ADDQ R8, DI")
}

// all combines the lanes of a vector of float32 so that each has the result; t is another vector.
func all(fn *asm.Func, op string, v, t int) {
	for _, how := range []string{"VSHUFF64X2 $0x4E, Z%[1]d, Z%[1]d, Z%[2]d", "VSHUFF64X2 $0xB1, Z%[1]d, Z%[1]d, Z%[2]d", "VPERMILPS $0x4E, Z%[1]d, Z%[2]d", "VPERMILPS $0xB1, Z%[1]d, Z%[2]d"} {
		fn.I(how, v, t)
		fn.I("%s Z%d, Z%[3]d, Z%[3]d", op, t, v)
	}
}

func mark(f *asm.File) {
	fn := begin(f, "mark512", "marks the first of the greatest elements.", 16)
	fn.I("VBROADCASTSS %s, Z31", f.Data("infinity", math.Float32bits(float32(math.Inf(-1)))))
	fn.Clear(asm.AVX512(), "Z30")
	fn.Loop("CX", func() {
		fn.I("VMOVAPS Z31, Z0")
		fn.I("VMOVUPS (SI), K1, Z0")
		fn.I("VCMPPS $3, Z0, Z0, K2")
		fn.I("VMOVAPS Z31, K2, Z0") // what is no number is least, but in front
		fn.I("VMOVAPS Z0, Z1")
		all(fn, "VMAXPS", 1, 2)
		fn.I("VCMPPS $0, Z1, Z0, K3")
		fn.I("KMOVW K2, BX")
		fn.I("KMOVW K3, AX")
		fn.I("ANDL $1, BX")
		fn.I("ORL BX, AX")
		fn.I("TZCNTL AX, AX")
		fn.I("VMOVUPS Z30, K1, (DI)")
		fn.I("MOVL $0x3f800000, (DI)(AX*4)")
		next(fn)
	})
	fn.Ret()
	f.Serve("mark", asm.AVX512(), "mark512(dst, src, n, rows)")
}

// divide writes a kernel in float64: the first few vectors are the parts of a row, whose lanes are K1 and so on; as many behind them are of the norm.
func divide(f *asm.File, norm string, parts int) string {
	name := fmt.Sprintf("divide%s%d512", norm, 8*parts)
	fn := begin(f, name, "divides rows by a norm.", 8*parts)
	wide := func(name string, x float64) string {
		return f.Data(name, uint32(math.Float64bits(x)), uint32(math.Float64bits(x)>>32))
	}
	for h := 1; h < parts; h++ {
		fn.I("SHRL $8, AX")
		fn.I("KMOVW AX, K%d", 1+h)
	}
	fn.I("VBROADCASTSD %s, Z31", wide("one", 1))
	fn.Clear(asm.AVX512(), "Z30")
	switch norm {
	case "L1":
		fn.I("VBROADCASTSD %s, Z29", wide("magnitude", math.Float64frombits(math.MaxInt64)))
	case "Max":
		fn.I("VBROADCASTSD %s, Z29", wide("least", -math.MaxFloat32))
	}
	fn.Loop("CX", func() {
		for h := range parts {
			fn.I("VCVTPS2PD.Z %d(SI), K%d, Z%d", 32*h, 1+h, h)
		}
		add := "VADDPD"
		for h := range parts {
			switch norm {
			case "L1":
				fn.I("VANDPD Z29, Z%d, Z%d", h, parts+h)
			case "L2":
				fn.I("VMULPD Z%[1]d, Z%[1]d, Z%[2]d", h, parts+h)
			case "Max":
				fn.I("VMOVAPD Z29, Z%d", parts+h)
				fn.I("VMAXPD Z29, Z%d, K%d, Z%d", h, 1+h, parts+h) // the second operand where the first is no number
				add = "VMAXPD"
			}
		}
		for n := parts / 2; n > 0; n /= 2 {
			for h := range n {
				fn.I("%s Z%d, Z%[3]d, Z%[3]d", add, parts+n+h, parts+h)
			}
		}
		for _, how := range []string{"VSHUFF64X2 $0x4E", "VSHUFF64X2 $0xB1"} {
			fn.I("%s, Z%[2]d, Z%[2]d, Z%[3]d", how, parts, parts+1)
			fn.I("%s Z%d, Z%[3]d, Z%[3]d", add, parts+1, parts)
		}
		fn.I("VPERMILPD $0x55, Z%d, Z%d", parts, parts+1)
		fn.I("%s Z%d, Z%[3]d, Z%[3]d", add, parts+1, parts)
		fn.I("VCMPPD $0, Z30, Z%d, K7", parts)
		if norm == "L2" {
			fn.I("VSQRTSD X%[1]d, X%[1]d, X%[1]d", parts)
		}
		fn.I("VDIVSD X%[1]d, X31, X%[1]d", parts)
		fn.I("VBROADCASTSD X%[1]d, Z%[1]d", parts)
		fn.I("VMOVAPD Z31, K7, Z%d", parts)
		for h := range parts {
			fn.I("VMULPD Z%[2]d, Z%[1]d, Z%[1]d", h, parts)
			fn.I("VCVTPD2PS Z%d, Y%[1]d", h)
			fn.I("VMOVUPS Y%d, K%d, %d(DI)", h, 1+h, 32*h)
		}
		next(fn)
	})
	fn.Ret()
	return name
}

func normalise(f *asm.File) {
	fn := begin(f, "normalise512", "normalises rows.", 16, asm.Ptr("scale"), asm.Ptr("bias"), asm.Typed("epsilon", "float32"))
	fn.Load("scale", "R9")
	fn.Load("bias", "R10")
	fn.Load("n", "AX")
	fn.I("VCVTSI2SSL AX, X31, X31")
	fn.I("VMOVSS %s, X30", fn.Addr("epsilon"))
	fn.Loop("CX", func() {
		fn.I("VMOVUPS.Z (SI), K1, Z0")
		fn.I("VMOVAPS Z0, Z1")
		all(fn, "VADDPS", 1, 2)
		fn.I("VDIVSS X31, X1, X1")
		fn.I("VBROADCASTSS X1, Z1")
		fn.I("VSUBPS.Z Z1, Z0, K1, Z0")
		fn.I("VMULPS Z0, Z0, Z1")
		all(fn, "VADDPS", 1, 2)
		fn.I("VDIVSS X31, X1, X1")
		fn.I("VADDSS X30, X1, X1")
		fn.I("VSQRTSS X1, X1, X1")
		fn.I("VMOVSS (R9), X2")
		fn.I("VDIVSS X1, X2, X1")
		fn.I("VBROADCASTSS X1, Z1")
		fn.I("VBROADCASTSS (R10), Z2")
		fn.I("VFMADD213PS Z2, Z1, Z0")
		fn.I("VMOVUPS Z0, K1, (DI)")
		fn.I("ADDQ $4, R9")
		fn.I("ADDQ $4, R10")
		next(fn)
	})
	fn.Ret()
	f.Serve("normalise", asm.AVX512(), "normalise512(dst, src, n, rows, scale, bias, epsilon)")
}

// take permutes two vectors of each row by the places of 16 results.
func take(f *asm.File) {
	fn := f.Func("take512", "take512 writes elements of rows; strides are in bytes; there are 16 places; count ≤ 16, n ≤ 32, rows > 0.",
		asm.Ptr("dst"), asm.Int("ldd"), asm.Ptr("src"), asm.Int("lds"), asm.Typed("places", "*int32"), asm.Int("count"), asm.Int("n"), asm.Int("rows"))
	for _, x := range [][2]string{{"dst", "DI"}, {"ldd", "R9"}, {"src", "SI"}, {"lds", "R8"}, {"places", "DX"}} {
		fn.Load(x[0], x[1])
	}
	lanes := func(of string) {
		fn.Load(of, "CX")
		fn.I("MOVL $1, AX")
		fn.I("SHLQ CX, AX")
		fn.I("DECQ AX")
	}
	lanes("count")
	fn.I("KMOVW AX, K3")
	lanes("n")
	fn.I("KMOVW AX, K1")
	fn.I("SHRQ $16, AX")
	fn.I("KMOVW AX, K2")
	fn.I("VMOVDQU32 (DX), Z31")
	fn.Load("rows", "CX")
	fn.Loop("CX", func() {
		fn.I("VMOVUPS.Z (SI), K1, Z0")
		fn.I("VMOVUPS.Z 64(SI), K2, Z1")
		fn.I("VMOVDQA32 Z31, Z2")
		fn.I("VPERMI2PS Z1, Z0, Z2")
		fn.I("VMOVUPS Z2, K3, (DI)")
		fn.I("ADDQ R8, SI")
		fn.I("ADDQ R9, DI")
	})
	fn.Ret()
	f.Serve("take", asm.AVX512(), "take512(dst, 4*ldd, src, 4*lds, places, count, n, rows)")
}
