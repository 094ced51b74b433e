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
		{Name: "divideWide", Doc: "divides rows of float64 by their norms.", Params: "norm Norm, dst *float32, src *float64, n, rows int", Portable: "genericDivide(norm, dst, src, n, rows)"},
		{Name: "normalise", Doc: "normalises rows.", Params: "dst, src, scale, bias *float32, n, rows int, epsilon float32",
			Portable: "genericNormalise(dst, src, scale, bias, n, rows, epsilon)"},
		{Name: "take", Doc: "writes count elements of each row, those at places of which the last is n-1 at most.",
			Params: "dst *float32, ldd int, src *float32, lds int, places *int32, count, n, rows int", Portable: "genericTake(dst, ldd, src, lds, places, count, rows)"},
	}}, asm.Unit{Base: "rows", Arch: "amd64", Generate: func(f *asm.File) {
		mark(f)
		serveDivide(f, "divide", source{asm.Ptr("src"), 4, "VCVTPS2PD", ""})
		serveDivide(f, "divideWide", source{asm.Typed("src", "*float64"), 8, "VMOVUPD", "Wide"})
		normalise(f)
		take(f)
	}})
}

// begin writes the head of a kernel: DI the results, SI the rows, R8 the bytes of one, CX their number; AX the lanes of a row, K1 the first 16.
func begin(f *asm.File, name, what string, most int, src asm.Arg, more ...asm.Arg) *asm.Func {
	fn := f.Func(name, fmt.Sprintf("%s %s n ≤ %d, rows > 0.", name, what, most), append([]asm.Arg{asm.Ptr("dst"), src, asm.Int("n"), asm.Int("rows")}, more...)...)
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
	fn := begin(f, "mark512", "marks the first of the greatest elements.", 16, asm.Ptr("src"))
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

// source is what rows are divided of: an argument, the size of a number, what loads numbers as float64, and what names of kernels say of it.
type source struct {
	arg        asm.Arg
	size       int
	load, name string
}

// serveDivide writes the kernels of one source, and what selects them.
func serveDivide(f *asm.File, name string, from source) {
	code, any := "switch {\n", ""
	for _, norm := range []string{"L1", "L2", "Max"} {
		for _, parts := range []int{1, 2, 4} {
			code += fmt.Sprintf("case norm == %s && n <= %d:\n%s(dst, src, n, rows)\n", norm, 8*parts, divide(f, norm, parts, from))
		}
		any += fmt.Sprintf("case %s:\n%s(dst, src, n, rows)\n", norm, divideAny(f, norm, from))
	}
	any = "switch norm {\n" + any + "}"
	f.Serve(name, asm.AVX512(), code+"default:\n"+any+"\n}")
	f.Serve(name, asm.AVX2(), any)
}

// divide writes a kernel in float64: the first few vectors are the parts of a row, whose lanes are K1 and so on; as many behind them are of the norm.
func divide(f *asm.File, norm string, parts int, from source) string {
	name := fmt.Sprintf("divide%s%s%d512", from.name, norm, 8*parts)
	fn := begin(f, name, "divides rows by a norm.", 8*parts, from.arg)
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
			fn.I("%s.Z %d(SI), K%d, Z%d", from.load, 8*from.size*h, 1+h, h)
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
		fn.I("LEAQ (SI)(R8*%d), SI", from.size/4)
		fn.I("ADDQ R8, DI")
	})
	fn.Ret()
	return name
}

// divideAny writes a kernel for rows of any length, by AVX2: four numbers at a time, and again when their norm is known.
func divideAny(f *asm.File, norm string, from source) string {
	const sum, mask, tail, one, magnitude, least, zero = 0, 15, 14, 13, 12, 12, 11
	name := fmt.Sprintf("divide%s%s256", from.name, norm)
	fn := f.Func(name, name+" divides rows by a norm; n, rows > 0.", asm.Ptr("dst"), from.arg, asm.Int("n"), asm.Int("rows"))
	for _, x := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {"n", "R8"}} {
		fn.Load(x[0], x[1])
	}
	wide := func(name string, x float64) string {
		return f.Data(name, uint32(math.Float64bits(x)), uint32(math.Float64bits(x)>>32))
	}
	fn.I("VBROADCASTSD %s, Y%d", wide("one", 1), one)
	fn.I("VXORPD Y%[1]d, Y%[1]d, Y%[1]d", zero)
	switch norm {
	case "L1":
		fn.I("VBROADCASTSD %s, Y%d", wide("magnitude", math.Float64frombits(math.MaxInt64)), magnitude)
	case "Max":
		fn.I("VBROADCASTSD %s, Y%d", wide("least", -math.MaxFloat32), least)
	}
	fn.I("MOVQ R8, R9")
	fn.I("ANDQ $3, R9") // of the last numbers
	fn.I("MOVQ R9, AX")
	fn.I("NEGQ AX")
	fn.I("LEAQ %s, DX", f.Data("last", math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32, 0, 0, 0, 0))
	fn.I("VMOVUPS 16(DX)(AX*4), X%d", mask)
	fn.I("VPMOVSXDQ X%d, Y%d", mask, tail)
	fn.Load("rows", "CX")
	add := "VADDPD"
	if norm == "Max" {
		add = "VMAXPD"
	}
	// each goes through a row: body has four numbers in vector 1, the last of which may not be there.
	each := func(body func(last bool), behind func()) {
		rest, end := fn.NewLabel("rest"), fn.NewLabel("end")
		fn.I("MOVQ R8, BX")
		fn.I("SHRQ $2, BX")
		fn.I("JZ %s", rest)
		fn.Loop("BX", func() {
			fn.I("%s (SI), Y1", from.load)
			body(false)
			behind()
		})
		fn.Label(rest)
		fn.I("TESTQ R9, R9")
		fn.I("JZ %s", end)
		if from.size == 8 {
			fn.I("VMASKMOVPD (SI), Y%d, Y1", tail)
		} else {
			fn.I("VMASKMOVPS (SI), X%d, X1", mask)
			fn.I("VCVTPS2PD X1, Y1")
		}
		body(true)
		fn.Label(end)
	}
	fn.Loop("CX", func() {
		if norm == "Max" {
			fn.I("VMOVAPD Y%d, Y%d", least, sum)
		} else {
			fn.I("VXORPD Y%[1]d, Y%[1]d, Y%[1]d", sum)
		}
		fn.I("MOVQ SI, R10")
		each(func(last bool) {
			switch norm {
			case "L1":
				fn.I("VANDPD Y%d, Y1, Y1", magnitude)
			case "L2":
				fn.I("VMULPD Y1, Y1, Y1")
			case "Max":
				fn.I("VMAXPD Y%d, Y1, Y1", least) // the second operand where the first is no number
				if last {
					fn.I("VBLENDVPD Y%d, Y1, Y%d, Y1", tail, least)
				}
			}
			fn.I("%s Y1, Y%d, Y%[2]d", add, sum)
		}, func() { fn.I("ADDQ $%d, SI", 4*from.size) })
		fn.I("VEXTRACTF128 $1, Y0, X1")
		fn.I("%s X1, X0, X0", add)
		fn.I("VUNPCKHPD X0, X0, X1")
		fn.I("%s X1, X0, X0", add)
		fn.I("VCMPSD $0, X%d, X0, X2", zero)
		if norm == "L2" {
			fn.I("VSQRTSD X0, X0, X0")
		}
		fn.I("VDIVSD X0, X%d, X0", one)
		fn.I("VBLENDVPD X2, X%d, X0, X0", one)
		fn.I("VBROADCASTSD X0, Y0")
		fn.I("MOVQ R10, SI")
		each(func(last bool) {
			fn.I("VMULPD Y0, Y1, Y1")
			fn.I("VCVTPD2PSY Y1, X1")
			if last {
				fn.I("VMASKMOVPS X1, X%d, (DI)", mask)
			} else {
				fn.I("VMOVUPS X1, (DI)")
			}
		}, func() {
			fn.I("ADDQ $%d, SI", 4*from.size)
			fn.I("ADDQ $16, DI")
		})
		fn.I("LEAQ (SI)(R9*%d), SI", from.size)
		fn.I("LEAQ (DI)(R9*4), DI")
	})
	fn.Ret()
	return name
}

func normalise(f *asm.File) {
	fn := begin(f, "normalise512", "normalises rows.", 16, asm.Ptr("src"), asm.Ptr("scale"), asm.Ptr("bias"), asm.Typed("epsilon", "float32"))
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
