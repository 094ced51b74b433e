//go:build ignore

package main

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// triples writes the kernels that take triples of bytes, or of words, apart, and make them: each of three vectors of results gets its bytes from three.
func triples(f *asm.File) {
	planes := []string{"DI", "DX", "BX"}
	for _, zips := range []bool{false, true} {
		code := "if short {\n"
		for _, size := range []int{2, 1} {
			name, doc := fmt.Sprintf("unzipTriples%d", 8*size), fmt.Sprintf("takes n groups of %d triples apart; n > 0.", 16/size)
			args, entry, call := []string{"first", "second", "third", "triples"}, "unzipThree", "(first, second, third, triples, n)\n"
			regs := append(slices.Clone(planes), "SI")
			if zips {
				name, doc = fmt.Sprintf("zipTriples%d", 8*size), fmt.Sprintf("makes n groups of %d triples; n > 0.", 16/size)
				args, entry, call = []string{"triples", "first", "second", "third"}, "zipThree", "(triples, first, second, third, n)\n"
				regs = append([]string{"SI"}, planes...)
			}
			table := name + "Bytes"
			f.Data(table, tripleBytes(zips, size)...)
			var typed []asm.Arg
			for _, a := range args {
				typed = append(typed, asm.Typed(a, "*byte"))
			}
			fn := f.Func(name, name+" "+doc, append(typed, asm.Int("n"))...)
			for i, a := range args {
				fn.Load(a, regs[i])
			}
			fn.Load("n", "CX")
			fn.Loop("CX", func() { triple(fn, zips, table, planes) })
			fn.Ret()
			if code += name + call; size == 1 {
				served(f, entry, code+"}")
			} else {
				code += "} else {\n"
			}
		}
	}
}

// triple writes what moves 16 bytes of each plane.
func triple(fn *asm.Func, zips bool, table string, planes []string) {
	at := func(i int, plane bool) string {
		if plane {
			return "(" + planes[i] + ")"
		}
		return fmt.Sprintf("%d(SI)", 16*i)
	}
	for s := range 3 {
		fn.I("VMOVDQU %s, X%d", at(s, zips), s)
	}
	for d := range 3 {
		for s := range 3 {
			fn.I("VPSHUFB %s, X%d, X%d", asm.DataAt(table, 16*(3*d+s)), s, 3+s)
		}
		fn.I("VPOR X4, X3, X3")
		fn.I("VPOR X5, X3, X3")
		fn.I("VMOVDQU X3, %s", at(d, !zips))
	}
	for _, plane := range planes {
		fn.I("ADDQ $16, %s", plane)
	}
	fn.I("ADDQ $48, SI")
}

// tripleBytes are, for each vector of results and each of operands, the numbers of the bytes that the one gets from the other, 128 where it gets none; elements have size bytes.
func tripleBytes(zips bool, size int) []uint32 {
	var b []byte
	for d := range 3 {
		for s := range 3 {
			for i := range 16 {
				from := (3*(i/size)+d)*size + i%size // of 48
				if zips {
					element := (16*d + i) / size
					from = element%3*16 + element/3*size + i%size
				}
				if from/16 != s {
					from = 128
				}
				b = append(b, byte(from&128|from&15))
			}
		}
	}
	var words []uint32
	for ; len(b) > 0; b = b[4:] {
		words = append(words, uint32(b[0])|uint32(b[1])<<8|uint32(b[2])<<16|uint32(b[3])<<24)
	}
	return words
}

// turn writes the kernels of transpositions of eight rows: of eight elements of 16 bits each, or of four of 64 bits, so that lines of the result are written once.
func turn(f *asm.File) {
	kernel := func(name, doc string, group int, body func(fn *asm.Func)) {
		fn := f.Func(name, name+" transposes eight rows of n groups of "+doc+"; n > 0.", asm.Typed("dst", "*byte"), asm.Typed("src", "*byte"), asm.Int("ldd"), asm.Int("lds"), asm.Int("n"))
		fn.Load("dst", "DI")
		fn.Load("src", "SI")
		fn.Load("ldd", "R8")
		fn.Load("lds", "R9")
		fn.Load("n", "CX")
		fn.Loop("CX", func() {
			fn.I("MOVQ SI, R10")
			body(fn)
			fn.I("ADDQ $%d, SI", group)
		})
		fn.Ret()
	}
	kernel("turnShorts", "eight elements of 16 bits", 16, turnShorts)
	kernel("turnLongs", "four elements of 64 bits", 32, turnLongs)
	served(f, "turn", "if long {\nturnLongs(dst, src, ldd, lds, n)\n} else {\nturnShorts(dst, src, ldd, lds, n)\n}\n")
}

// turnShorts interleaves two vectors, three times, by ever larger parts.
func turnShorts(fn *asm.Func) {
	for i := range 8 {
		fn.I("VMOVDQU (R10), X%d", i)
		fn.I("ADDQ R9, R10")
	}
	from, to := 0, 8
	for step, part := range []string{"WD", "DQ", "QDQ"} {
		// Vector i has, after each step, what stood in twice as many rows: of those whose numbers differ in bit step.
		for i := range 8 {
			if i>>step&1 == 0 {
				a, b := from+i, from+i+1<<step
				fn.I("VPUNPCKL%s X%d, X%d, X%d", part, b, a, to+i)
				fn.I("VPUNPCKH%s X%d, X%d, X%d", part, b, a, to+i+1<<step)
			}
		}
		from, to = to, from
	}
	for i := range 8 { // the bits of a column's number are, reversed, those of the vector that has it
		fn.I("VMOVDQU X%d, (DI)", from+i&1<<2+i&2+i>>2)
		fn.I("ADDQ R8, DI")
	}
}

// turnLongs loads two columns of two rows to the halves of a vector, which takes no shuffle, and interleaves it with that of the two rows between and behind.
func turnLongs(fn *asm.Func) {
	fn.I("LEAQ (SI)(R9*4), R11")
	fn.I("LEAQ (R9)(R9*2), R12")
	for half, at := range []string{"R10", "R11"} {
		for pair := range 2 {
			a, b := 8*half+4*pair, 8*half+4*pair+1
			fn.I("VMOVUPD %d(%s), X%d", 16*pair, at, a)
			fn.I("VMOVUPD %d(%s)(R9*1), X%d", 16*pair, at, b)
			fn.I("VINSERTF128 $1, %d(%s)(R9*2), Y%d, Y%[3]d", 16*pair, at, a)
			fn.I("VINSERTF128 $1, %d(%s)(R12*1), Y%d, Y%[3]d", 16*pair, at, b)
			fn.I("VUNPCKLPD Y%d, Y%d, Y%d", b, a, a+2)
			fn.I("VUNPCKHPD Y%d, Y%d, Y%d", b, a, a+3)
		}
	}
	for c := range 4 {
		column := c/2*4 + 2 + c%2
		fn.I("VMOVUPD Y%d, (DI)", column)
		fn.I("VMOVUPD Y%d, 32(DI)", 8+column)
		fn.I("ADDQ R8, DI")
	}
}

// scaledMaximum writes the kernels of maxima of products with two factors. VMAXPS returns what is written first where an operand is NaN.
func scaledMaximum(f *asm.File) {
	for _, of := range []struct{ name, element, suffix string }{{"Floats", "float32", "S"}, {"Doubles", "float64", "D"}} {
		fn := f.Func("maxScaled"+of.name, "maxScaled"+of.name+" writes the largest of dst, src*low and src*high for n vectors of 32 bytes; n > 0.",
			asm.Typed("dst", "*"+of.element), asm.Typed("src", "*"+of.element), asm.Typed("low", "*"+of.element), asm.Typed("high", "*"+of.element), asm.Int("n"))
		fn.Load("dst", "DI")
		fn.Load("src", "SI")
		fn.Load("low", "R8")
		fn.Load("high", "R9")
		fn.Load("n", "CX")
		fn.I("VBROADCASTS%s (R8), Y14", of.suffix)
		fn.I("VBROADCASTS%s (R9), Y15", of.suffix)
		vectors(fn, 2, func(u int) {
			so, low, high, mask := 4*u, 4*u+1, 4*u+2, 4*u+3
			i := func(name, format string, args ...any) { fn.I(name+of.suffix+" "+format, args...) }
			i("VMOVUP", "%d(SI), Y%d", 32*u, high)
			i("VMOVUP", "%d(DI), Y%d", 32*u, so)
			i("VMULP", "Y14, Y%d, Y%d", high, low)
			i("VMULP", "Y15, Y%[1]d, Y%[1]d", high)
			i("VMAXP", "Y%[2]d, Y%[1]d, Y%[1]d", high, low)
			i("VCMPP", "$3, Y%[1]d, Y%[1]d, Y%[2]d", so, mask)
			i("VMAXP", "Y%[1]d, Y%[2]d, Y%[1]d", high, so)
			i("VBLENDVP", "Y%[1]d, Y%[2]d, Y%[3]d, Y%[3]d", mask, so, high)
			i("VMOVUP", "Y%d, %d(DI)", high, 32*u)
		}, func(n int) {
			fn.I("ADDQ $%d, DI", 32*n)
			fn.I("ADDQ $%d, SI", 32*n)
		})
	}
	served(f, "maxScaled", "maxScaledFloats(dst, src, low, high, n)")
	served(f, "maxScaledWide", "maxScaledDoubles(dst, src, low, high, n)")
}

// bilinear writes the kernel of points between four elements: both of a row in one half of a vector, and halves of four such are added.
func bilinear(f *asm.File) {
	fn := f.Func("bilinearFloats", "bilinearFloats writes sums of four products for n groups of four points; n > 0.",
		asm.Ptr("dst"), asm.Ptr("plane"), asm.Typed("first", "*int32"), asm.Ptr("weights"), asm.Int("width"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("plane", "SI")
	fn.Load("first", "DX")
	fn.Load("weights", "R8")
	fn.Load("width", "R9")
	fn.Load("n", "CX")
	fn.I("SHLQ $2, R9")
	fn.Loop("CX", func() {
		for u := range 4 {
			at := []string{"R10", "R11", "R12", "R13"}[u]
			fn.I("MOVLQSX %d(DX), %s", 4*u, at)
			fn.I("LEAQ (SI)(%s*4), %[1]s", at)
			fn.I("VMOVSD (%s), X%d", at, u)
			fn.I("VMOVHPS (%s)(R9*1), X%d, X%[2]d", at, u)
			fn.I("VMULPS %d(R8), X%d, X%[2]d", 16*u, u)
		}
		fn.I("VHADDPS X1, X0, X0")
		fn.I("VHADDPS X3, X2, X2")
		fn.I("VHADDPS X2, X0, X0")
		fn.I("VMOVUPS X0, (DI)")
		fn.I("ADDQ $16, DX")
		fn.I("ADDQ $64, R8")
		fn.I("ADDQ $16, DI")
	})
	fn.Ret()
	served(f, "bilinear", "bilinearFloats(dst, plane, first, weights, width, n)")
}

// bilinearWide writes the kernel of such points of float64: pairs of both rows are the halves of a vector.
func bilinearWide(f *asm.File) {
	fn := f.Func("bilinearDoubles", "bilinearDoubles writes sums of four products for n groups of four points; n > 0.",
		asm.Typed("dst", "*float64"), asm.Typed("plane", "*float64"), asm.Typed("first", "*int32"), asm.Typed("weights", "*float64"), asm.Int("width"), asm.Int("n"))
	for _, x := range [][2]string{{"dst", "DI"}, {"plane", "SI"}, {"first", "DX"}, {"weights", "R8"}, {"width", "R9"}, {"n", "CX"}} {
		fn.Load(x[0], x[1])
	}
	fn.I("SHLQ $3, R9")
	fn.Loop("CX", func() {
		for u := range 4 {
			at := []string{"R10", "R11", "R12", "R13"}[u]
			fn.I("MOVLQSX %d(DX), %s", 4*u, at)
			fn.I("LEAQ (SI)(%s*8), %[1]s", at)
			fn.I("VMOVUPD (%s), X%d", at, u)
			fn.I("VINSERTF128 $1, (%s)(R9*1), Y%d, Y%[2]d", at, u)
			fn.I("VMULPD %d(R8), Y%d, Y%[2]d", 32*u, u)
		}
		fn.I("VHADDPD Y1, Y0, Y0") // of the first rows of two points, and of the second ones
		fn.I("VHADDPD Y3, Y2, Y2")
		fn.I("VPERM2F128 $0x20, Y2, Y0, Y1")
		fn.I("VPERM2F128 $0x31, Y2, Y0, Y3")
		fn.I("VADDPD Y3, Y1, Y0")
		fn.I("VMOVUPD Y0, (DI)")
		fn.I("ADDQ $16, DX")
		fn.I("ADDQ $128, R8")
		fn.I("ADDQ $32, DI")
	})
	fn.Ret()
	served(f, "bilinearWide", "bilinearDoubles(dst, plane, first, weights, width, n)")
}

// near writes the kernel that compares a box with four at a time, as Box.near does.
func near(f *asm.File) {
	fn := f.Func("nearBoxes", "nearBoxes returns the number of the first of n groups that has a box near to one, n if none has; n > 0.",
		asm.Typed("one", "*Box"), asm.Typed("groups", "*Boxes"), asm.Typed("limit", "float64"), asm.Int("n"))
	fn.Result("ret", "int")
	fn.Load("one", "SI")
	fn.Load("groups", "DX")
	fn.Load("n", "CX")
	for k := range 5 {
		fn.I("VBROADCASTSD %d(SI), Y%d", 8*k, k)
	}
	fn.I("VBROADCASTSD %s, Y5", fn.Addr("limit"))
	fn.I("VXORPD Y6, Y6, Y6")
	found := fn.NewLabel("found")
	fn.Loop("CX", func() {
		for k := range 4 {
			fn.I("VMINPD %d(DX), Y%d, Y%d", 32*k, k, 7+k)
		}
		fn.I("VADDPD Y9, Y7, Y7") // the height
		fn.I("VADDPD Y10, Y8, Y8")
		fn.I("VMAXPD Y6, Y7, Y7")
		fn.I("VMULPD Y8, Y7, Y7") // what is common
		fn.I("VADDPD 128(DX), Y4, Y8")
		fn.I("VSUBPD Y7, Y8, Y8")
		fn.I("VMULPD Y5, Y8, Y8")
		fn.I("VCMPPD $5, Y8, Y7, Y7") // not less, or no number
		fn.I("VMOVMSKPD Y7, AX")
		fn.I("TESTL AX, AX")
		fn.I("JNZ %s", found)
		fn.I("ADDQ $160, DX")
	})
	fn.Label(found)
	fn.Load("n", "AX")
	fn.I("SUBQ CX, AX")
	fn.I("MOVQ AX, %s", fn.Addr("ret"))
	fn.Ret()
	served(f, "near", "return nearBoxes(one, groups, limit, n)")
}

// twice writes the kernels that repeat each element of 32 bits. Rows of no whole groups end with a group that reaches back.
func twice(f *asm.File) {
	f.Data("lowerTwice", 0, 0, 1, 1, 2, 2, 3, 3)
	f.Data("upperTwice", 4, 4, 5, 5, 6, 6, 7, 7)
	for _, times := range []int{1, 2} {
		name := []string{"twiceWords", "twiceRowsWords"}[times-1]
		fn := f.Func(name, name+" writes each element of rows of n groups of eight two times; n, rows > 0.",
			asm.Typed("dst", "*uint32"), asm.Typed("src", "*uint32"), asm.Int("below"), asm.Int("n"), asm.Int("back"), asm.Int("rows"))
		for _, x := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {"below", "DX"}, {"back", "R8"}, {"rows", "R9"}} {
			fn.Load(x[0], x[1])
		}
		fn.I("VMOVDQU %s, Y2", asm.DataAt("lowerTwice", 0))
		fn.I("VMOVDQU %s, Y3", asm.DataAt("upperTwice", 0))
		group := func() {
			fn.I("VPERMD (SI), Y2, Y0")
			fn.I("VPERMD (SI), Y3, Y1")
			fn.I("VMOVDQU Y0, (DI)")
			fn.I("VMOVDQU Y1, 32(DI)")
			if times == 2 {
				fn.I("VMOVDQU Y0, (DI)(DX*1)")
				fn.I("VMOVDQU Y1, 32(DI)(DX*1)")
			}
			fn.I("ADDQ $32, SI")
			fn.I("ADDQ $64, DI")
		}
		fn.Loop("R9", func() {
			fn.Load("n", "CX")
			fn.Loop("CX", group)
			whole := fn.NewLabel("whole")
			fn.I("TESTQ R8, R8")
			fn.I("JZ %s", whole)
			fn.I("SHLQ $2, R8")
			fn.I("SUBQ R8, SI")
			fn.I("SUBQ R8, DI")
			fn.I("SUBQ R8, DI")
			fn.I("SHRQ $2, R8")
			group()
			fn.Label(whole)
			fn.I("ADDQ DX, DI")
		})
		fn.Ret()
	}
	served(f, "twice", "if below == 0 {\ntwiceWords(dst, src, below, n, back, rows)\n} else {\ntwiceRowsWords(dst, src, below, n, back, rows)\n}\n")
}

// mix writes the kernel of numbers between those of two operands.
func mix(f *asm.File) {
	fn := f.Func("mixFloats", "mixFloats writes a + (b-a)*by for n vectors of 8 floats; n > 0.", asm.Ptr("dst"), asm.Ptr("a"), asm.Ptr("b"), asm.Float("by"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("a", "SI")
	fn.Load("b", "DX")
	fn.Load("n", "CX")
	fn.I("VBROADCASTSS %s, Y%d", fn.Addr("by"), single)
	vectors(fn, 4, func(u int) {
		fn.I("VMOVUPS %d(SI), Y%d", 32*u, u)
		fn.I("VMOVUPS %d(DX), Y%d", 32*u, 4+u)
		fn.I("VSUBPS Y%d, Y%d, Y%[2]d", u, 4+u)
		fn.I("VMULPS Y%d, Y%d, Y%[2]d", single, 4+u)
		fn.I("VADDPS Y%d, Y%d, Y%[2]d", 4+u, u)
		fn.I("VMOVUPS Y%d, %d(DI)", u, 32*u)
	}, func(n int) {
		fn.I("ADDQ $%d, SI", 32*n)
		fn.I("ADDQ $%d, DX", 32*n)
		fn.I("ADDQ $%d, DI", 32*n)
	})
	served(f, "mix", "mixFloats(dst, a, b, by, n)\n")
}

// affine writes the kernel of products and sums in float64, rounded to float32, whose factors and terms come again after twelve numbers, as after two and three.
func affine(f *asm.File) {
	fn := f.Func("affineFloats", "affineFloats writes at*by + from, rounded, for n vectors of 4; by and from are 12 numbers; n > 0.",
		asm.Ptr("dst"), asm.Typed("at", "*float64"), asm.Typed("by", "*float64"), asm.Typed("from", "*float64"), asm.Int("n"))
	for _, x := range [][2]string{{"dst", "DI"}, {"at", "SI"}, {"by", "R8"}, {"from", "R9"}, {"n", "CX"}} {
		fn.Load(x[0], x[1])
	}
	const period = 3
	for u := range period {
		fn.I("VMOVUPD %d(R8), Y%d", 32*u, 8+u)
		fn.I("VMOVUPD %d(R9), Y%d", 32*u, 12+u)
	}
	one := func(u int) {
		fn.I("VMULPD %d(SI), Y%d, Y%d", 32*u, 8+u, u)
		fn.I("VADDPD Y%d, Y%d, Y%[2]d", 12+u, u)
		fn.I("VCVTPD2PSY Y%d, X%[1]d", u)
		fn.I("VMOVUPS X%d, %d(DI)", u, 16*u)
	}
	fn.While("CX", period, func() {
		for u := range period {
			one(u)
		}
		fn.I("ADDQ $%d, SI", 32*period)
		fn.I("ADDQ $%d, DI", 16*period)
	})
	for u := range period - 1 {
		fn.I("TESTQ CX, CX")
		fn.I("JZ end")
		one(u)
		fn.I("DECQ CX")
	}
	fn.Label("end")
	fn.Ret()
	served(f, "affine", "affineFloats(dst, at, by, from, n)\n")
}

// products writes kernels of sums of products: of four vectors at a time, which stay in registers, and of one.
func products(f *asm.File) {
	code := "switch kind {\n"
	for _, of := range []struct {
		name string
		size int
	}{{"Words", 4}, {"Longs", 8}, {"Floats", 4}} {
		name := "products" + of.name
		productsOf(f, name, of.size, of.name == "Floats")
		code += fmt.Sprintf("case %s:\n%s(dst, left, right, ld, k, n)\n", strings.ToLower(of.name), name)
	}
	served(f, "products", code+"}\n")
}

func productsOf(f *asm.File, name string, size int, floats bool) {
	fn := f.Func(name, name+" adds sums of left[j]*right[j*ld+c] over k numbers j to n vectors of numbers c; k, n > 0.",
		asm.Typed("dst", "*byte"), asm.Typed("left", "*byte"), asm.Typed("right", "*byte"), asm.Int("ld"), asm.Int("k"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("left", "SI")
	fn.Load("right", "DX")
	fn.Load("ld", "R8")
	fn.Load("k", "R9")
	fn.Load("n", "CX")
	fn.I("SHLQ $%d, R8", bits.TrailingZeros(uint(size)))
	strip := func(wide int) {
		for u := range wide {
			fn.I("VMOVDQU %d(DI), Y%d", 32*u, u)
		}
		fn.I("MOVQ SI, R10")
		fn.I("MOVQ DX, R11")
		fn.I("MOVQ R9, R12")
		fn.Loop("R12", func() {
			if size == 8 {
				fn.I("VPBROADCASTQ (R10), Y4")
				fn.I("VPSRLQ $32, Y4, Y5")
			} else {
				fn.I("VPBROADCASTD (R10), Y4")
			}
			for u := range wide {
				if floats {
					fn.I("VMULPS %d(R11), Y4, Y%d", 32*u, 6+u)
					fn.I("VADDPS Y%d, Y%d, Y%[2]d", 6+u, u)
				} else {
					addProduct(fn, size, u)
				}
			}
			fn.I("ADDQ $%d, R10", size)
			fn.I("ADDQ R8, R11")
		})
		for u := range wide {
			fn.I("VMOVDQU Y%d, %d(DI)", u, 32*u)
		}
		fn.I("ADDQ $%d, DI", 32*wide)
		fn.I("ADDQ $%d, DX", 32*wide)
	}
	fn.While("CX", 4, func() { strip(4) })
	end := fn.NewLabel("end")
	fn.I("TESTQ CX, CX")
	fn.I("JZ %s", end)
	fn.Loop("CX", func() { strip(1) })
	fn.Label(end)
	fn.Ret()
}

// addProduct emits the sum of vector u and the product of vector 4, whose elements' upper halves vector 5 has, and what lies at R11.
func addProduct(fn *asm.Func, size, u int) {
	if size == 4 {
		fn.I("VPMULLD %d(R11), Y4, Y%d", 32*u, 6+u)
		fn.I("VPADDD Y%d, Y%d, Y%[2]d", 6+u, u)
		return
	}
	b, upper, low := 6+u%2*3, 7+u%2*3, 8+u%2*3
	fn.I("VMOVDQU %d(R11), Y%d", 32*u, b)
	fn.I("VPSRLQ $32, Y%d, Y%d", b, upper)
	fn.I("VPMULUDQ Y%d, Y4, Y%d", b, low)
	fn.I("VPMULUDQ Y%d, Y4, Y%[1]d", upper)
	fn.I("VPMULUDQ Y%d, Y5, Y%[1]d", b)
	fn.I("VPADDQ Y%d, Y%d, Y%[1]d", upper, b)
	fn.I("VPSLLQ $32, Y%d, Y%[1]d", upper)
	fn.I("VPADDQ Y%d, Y%d, Y%[2]d", low, u)
	fn.I("VPADDQ Y%d, Y%d, Y%[2]d", upper, u)
}
