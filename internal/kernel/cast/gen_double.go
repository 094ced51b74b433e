//go:build ignore

package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Kernels that AVX-512 has no other ones for.
const (
	truncateDoubles = "truncateDoubles"
	doublesOf       = "doublesOf"
)

// ofDoubles writes kernels of float64 for AVX2, which serve both sets.
func ofDoubles(f *asm.File) {
	v := asm.AVX2()
	truncatedDoubles(f, v)
	k := named(f, v, doublesOf, "makes float64 of lanes.", asm.Typed("dst", "*byte"), asm.Typed("lanes", "*int32"))
	k.groups(128, 64, func() {
		for i := range 4 {
			k.I("VCVTDQ2PD %d(SI), Y%d", 16*i, i)
			k.I("VMOVUPD Y%d, %d(DI)", i, 32*i)
		}
	})
	code := "switch from {\n"
	for _, of := range []string{"Int64", "Uint64", "Uint32"} {
		code += fmt.Sprintf("case %s:\n%s(dst, src, n)\n", of, wholes(f, v, of))
	}
	k = named(f, v, "differDoubles", "writes which float64 are not 0.", asm.Typed("dst", "*byte"), asm.Typed("src", "*float64"))
	k.constant(0x01010101, 8)
	k.I("VXORPD Y9, Y9, Y9")
	k.groups(16, 128, func() {
		for i := range 4 {
			k.I("VCMPPD $4, %d(SI), Y9, Y%d", 32*i, i)
		}
		for i := 0; i < 4; i += 2 { // doublewords, in order
			k.I("VSHUFPS $0x88, Y%d, Y%[2]d, Y%[2]d", i+1, i)
			k.I("VPERMQ $0xd8, Y%d, Y%[1]d", i)
		}
		k.I("VPACKSSDW Y2, Y0, Y0")
		k.I("VPERMQ $0xd8, Y0, Y0")
		k.I("VEXTRACTI128 $1, Y0, X1")
		k.I("VPACKSSWB X1, X0, X0")
		k.I("VPAND X8, X0, X0")
		k.I("VMOVDQU X0, (DI)")
	})
	odds(f, v)
	for _, v := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
		f.Serve("wholes", v, code+"}")
		f.Serve("differ", v, "differDoubles(dst, src, n)")
		f.Serve("odds", v, "oddSingles(dst, src, n)")
	}
}

// odds writes what rounds float64 so that they may be rounded again: what is nearest is made the one below, in magnitude, where it is above, and its last digit set where
// it is another number.
func odds(f *asm.File, v asm.ISA) {
	k := named(f, v, "oddSingles", "rounds float64 to odd float32.", asm.Typed("dst", "*float32"), asm.Typed("src", "*float64"))
	k.broadcast(math.MaxInt64, 15)
	k.constant(1, 14)
	// both makes lanes of 32 bits of two vectors' comparisons.
	both := func(a, b int) {
		k.I("VSHUFPS $0x88, Y%d, Y%d, Y%[2]d", b, a)
		k.I("VPERMQ $0xd8, Y%d, Y%[1]d", a)
	}
	k.groups(64, 128, func() {
		for half := range 2 {
			for i := range 2 {
				x, y, differs, above := 4*i, 4*i+1, 4*i+2, 4*i+3
				k.I("VMOVUPD %d(SI), Y%d", 64*half+32*i, x)
				k.I("VCVTPD2PSY Y%d, X%d", x, 8+i)
				k.I("VCVTPS2PD X%d, Y%d", 8+i, y)
				k.I("VCMPPD $12, Y%d, Y%d, Y%d", x, y, differs)
				k.I("VANDPD Y15, Y%d, Y%[1]d", x)
				k.I("VANDPD Y15, Y%d, Y%[1]d", y)
				k.I("VCMPPD $30, Y%d, Y%d, Y%d", x, y, above)
			}
			both(2, 6)
			both(3, 7)
			k.I("VINSERTF128 $1, X9, Y8, Y8")
			k.I("VPADDD Y3, Y8, Y8") // -1 where it is above
			k.I("VPAND Y14, Y2, Y2")
			k.I("VPOR Y2, Y8, Y8")
			k.I("VMOVUPS Y8, %d(DI)", 32*half)
		}
	})
}

// named is start for a kernel that serves both sets.
func named(f *asm.File, v asm.ISA, name, doc string, args ...asm.Arg) kernel {
	k := kernel{f.Func(name, name+" "+doc, append(args, asm.Int("n"))...), v}
	k.Load(args[0].Name, "DI")
	k.Load(args[1].Name, "SI")
	k.Load("n", "CX")
	return k
}

// broadcast fills a vector with 64 bits.
func (k kernel) broadcast(bits uint64, x int) {
	k.I("MOVQ $%#x, AX", bits)
	k.I("VMOVQ AX, X%d", x)
	k.I("VPBROADCASTQ X%d, Y%[1]d", x)
}

// wholes writes what makes float64 of integers, and returns its name. Each half is put into the lower digits of a number, 2^52 or 2^84 more than it: those are taken off, and
// the halves added, which rounds once.
func wholes(f *asm.File, v asm.ISA, from string) string {
	name := "doublesOf" + from
	k := named(f, v, name, "makes float64 of integers.", asm.Typed("dst", "*float64"), asm.Typed("src", "*byte"))
	const low = 0x4330000000000000 // 2^52
	k.broadcast(low, 8)
	if from == "Uint32" {
		k.groups(128, 64, func() {
			for i := range 4 {
				k.I("VPMOVZXDQ %d(SI), Y%d", 16*i, i)
				k.I("VPOR Y8, Y%d, Y%[1]d", i)
				k.I("VSUBPD Y8, Y%d, Y%[1]d", i)
				k.I("VMOVUPD Y%d, %d(DI)", i, 32*i)
			}
		})
		return name
	}
	high, off := uint64(0x4530000000000000), uint64(0x4530000000100000) // 2^84, and 2^52 more
	if from == "Int64" {                                                // 2^63 more, so that the upper half has no sign
		high, off = 0x4530000080000000, 0x4530000080100000
	}
	k.broadcast(high, 9)
	k.broadcast(off, 10)
	k.groups(128, 128, func() {
		for i := range 4 {
			k.I("VMOVDQU %d(SI), Y%d", 32*i, i)
			k.I("VPSRLQ $32, Y%d, Y%d", i, 4+i)
			k.I("VPBLENDD $0xaa, Y8, Y%d, Y%[1]d", i)
			k.I("VPXOR Y9, Y%d, Y%[1]d", 4+i)
			k.I("VSUBPD Y10, Y%d, Y%[1]d", 4+i)
			k.I("VADDPD Y%d, Y%d, Y%[1]d", i, 4+i)
			k.I("VMOVUPD Y%d, %d(DI)", i, 32*i)
		}
	})
	return name
}

// truncatedDoubles writes truncate for float64.
func truncatedDoubles(f *asm.File, v asm.ISA) {
	fn := f.Func(truncateDoubles, truncateDoubles+" truncates float64, and returns before how many groups, from the last on, there is one of 2^31 or more, or NaN.",
		asm.Typed("lanes", "*int32"), asm.Typed("src", "*byte"), asm.Int("n"))
	fn.Result("done", "int")
	k := kernel{fn, v}
	k.Load("lanes", "DI")
	k.Load("src", "SI")
	k.Load("n", "CX")
	k.broadcast(0x7fffffffffffffff, 8)
	k.broadcast(0x41e0000000000000, 9) // 2^31
	k.Loop("CX", func() {
		for i := range 4 {
			k.I("VMOVUPD %d(SI), Y%d", 32*i, i)
			k.I("VANDPD Y8, Y%d, Y%d", i, 4+i)
			k.I("VCMPPD $1, Y9, Y%d, Y%[1]d", 4+i)
		}
		for i := 5; i < 8; i++ {
			k.I("VANDPD Y%d, Y4, Y4", i)
		}
		k.I("VMOVMSKPD Y4, AX")
		k.I("CMPL AX, $0xf")
		k.I("JNE end")
		for i := range 4 {
			k.I("VCVTTPD2DQY Y%d, X%[1]d", i)
			k.I("VMOVDQU X%d, %d(DI)", i, 16*i)
		}
		k.I("ADDQ $64, DI")
		k.I("ADDQ $128, SI")
	})
	k.Label("end")
	k.Load("n", "AX")
	k.I("SUBQ CX, AX")
	k.I("MOVQ AX, %s", k.Addr("done"))
	k.Ret()
}

// doubles writes what converts between float32 and float64.
func doubles(f *asm.File, v asm.ISA) {
	half := map[bool]string{false: "X", true: "Y"}[v.Masks]
	k, name := start(f, v, "widen", "makes float64 of float32.", asm.Typed("dst", "*float64"), asm.Typed("src", "*float32"))
	k.groups(128, 64, func() {
		for i := range 32 / v.Lanes {
			k.I("VCVTPS2PD %d(SI), %s", i*v.Size()/2, v.R(i))
			k.I("VMOVUPD %s, %d(DI)", v.R(i), i*v.Size())
		}
	})
	f.Serve("doubles", v, name+"(dst, src, n)")
	k, name = start(f, v, "narrow", "rounds float64 to float32.", asm.Typed("dst", "*float32"), asm.Typed("src", "*float64"))
	convert := map[bool]string{false: "VCVTPD2PSY", true: "VCVTPD2PS"}[v.Masks]
	k.groups(64, 128, func() {
		for i := range 32 / v.Lanes {
			k.I("%s %d(SI), %s%d", convert, i*v.Size(), half, i)
			k.I("VMOVUPS %s%d, %d(DI)", half, i, i*v.Size()/2)
		}
	})
	f.Serve("singles", v, name+"(dst, src, n)")
}

// totals writes what adds up float32 in float64.
func totals(f *asm.File, v asm.ISA) {
	var code strings.Builder
	code.WriteString("switch {\n")
	for _, c := range []struct {
		when, name, instruction string
		exclusive               bool
	}{{"case multiplies && exclusive", "productsBefore", "VMULPD", true}, {"case multiplies", "products", "VMULPD", false}, {"case exclusive", "sumsBefore", "VADDPD", true}, {"default", "sums", "VADDPD", false}} {
		name := fmt.Sprintf("%s%d", c.name, 8*v.Size())
		k := kernel{f.Func(name, name+" adds rows to totals, or multiplies these by them, and rounds them.", asm.Typed("dst", "*float32"), asm.Typed("src", "*float32"),
			asm.Typed("totals", "*float64"), asm.Int("n"), asm.Int("quads"), asm.Int("rows"), asm.Int("by")), v}
		k.Load("dst", "DI")
		k.Load("src", "SI")
		k.Load("totals", "DX")
		k.Load("by", "R8") // in bytes
		k.columns("n", 16, v, c.instruction, c.exclusive)
		k.columns("quads", 4, asm.AVX2(), c.instruction, c.exclusive)
		k.Ret()
		fmt.Fprintf(&code, "%s:\n%s(dst, src, totals, n, quads, rows, 4*by)\n", c.when, name)
	}
	f.Serve("accumulate", v, code.String()+"}")
}

// columns adds groups of so many columns to the totals, of which an argument is the number.
func (k kernel) columns(number string, columns int, v asm.ISA, instruction string, exclusive bool) {
	vectors, end := columns*8/v.Size(), k.NewLabel("end")
	k.Load(number, "CX")
	k.I("TESTQ CX, CX")
	k.I("JZ %s", end)
	k.Loop("CX", func() {
		k.I("MOVQ DI, BX")
		k.I("MOVQ SI, R9")
		k.Load("rows", "AX")
		for i := range vectors {
			k.I("VMOVUPD %d(DX), %s", i*v.Size(), v.R(i))
		}
		k.Loop("AX", func() { k.totalsRow(vectors, v, instruction, exclusive) })
		for i := range vectors {
			k.I("VMOVUPD %s, %d(DX)", v.R(i), i*v.Size())
		}
		k.I("ADDQ $%d, DI", 4*columns)
		k.I("ADDQ $%d, SI", 4*columns)
		k.I("ADDQ $%d, DX", 8*columns)
	})
	k.Label(end)
}

// totalsRow adds what register 9 points to to so many vectors of totals, the first ones.
func (k kernel) totalsRow(vectors int, v asm.ISA, instruction string, exclusive bool) {
	half, convert := "X", "VCVTPD2PSY"
	if v.Masks {
		half, convert = "Y", "VCVTPD2PS"
	}
	for i := range vectors {
		sum, x := v.R(i), v.R(8+i)
		k.I("VCVTPS2PD %d(R9), %s", i*v.Size()/2, x)
		if exclusive {
			k.I("%s %s, %s%d", convert, sum, half, 12+i)
			k.I("%s %s, %[3]s, %[3]s", instruction, x, sum)
		} else {
			k.I("%s %s, %[3]s, %[3]s", instruction, x, sum)
			k.I("%s %s, %s%d", convert, sum, half, 12+i)
		}
		k.I("VMOVUPS %s%d, %d(BX)", half, 12+i, i*v.Size()/2)
	}
	k.I("ADDQ R8, R9")
	k.I("ADDQ R8, BX")
}
