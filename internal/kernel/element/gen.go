//go:build ignore

// Command gen writes the kernels of package element.
package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("element", asm.Table{Entries: []asm.Entry{
		{Name: "binary", Doc: "writes a op b for n > 0 vectors of 32 bytes; where one is set b is one vector for all.",
			Params: "op Op, code int, one bool, dst, a, b *byte, n int", Portable: `panic("element: no kernel")`},
		{Name: "compare", Doc: "compares n > 0 groups of 32 elements; where one is set b is one vector of 32 bytes for all.",
			Params: "c Comparison, k kind, one bool, dst, a, b *byte, n int", Portable: `panic("element: no kernel")`},
		{Name: "choose", Doc: "chooses between the elements of n > 0 vectors of 32 bytes; where one of them is set that is one vector for all.",
			Params: "size int, oneA, oneB bool, dst, c, a, b *byte, n int", Portable: `panic("element: no kernel")`},
		{Name: "fold", Doc: "writes what op makes of all elements of n > 0 vectors of 32 bytes.", Params: "op Op, code int, dst, a *byte, n int", Portable: `panic("element: no kernel")`},
		{Name: "unzip", Doc: "takes rows > 0 rows of n > 0 groups of eight pairs of 32 bits apart, in the last group of each of which back pairs are those of the group before; rows of pairs lie apart bytes apart.",
			Params: "first, second, pairs *byte, apart, n, back, rows int", Portable: `panic("element: no kernel")`},
		{Name: "zip", Doc: "makes the pairs that unzip takes apart.", Params: "first, second, pairs *byte, apart, n, back, rows int", Portable: `panic("element: no kernel")`},
		{Name: "unzipThree", Doc: "takes n > 0 groups of sixteen triples of bytes apart, or of eight of 16 bits where short is set.", Params: "short bool, first, second, third, triples *byte, n int", Portable: `panic("element: no kernel")`},
		{Name: "zipThree", Doc: "makes the triples that unzipThree takes apart.", Params: "short bool, triples, first, second, third *byte, n int", Portable: `panic("element: no kernel")`},
		{Name: "turn", Doc: "transposes eight rows of n > 0 groups of eight elements of 16 bits, or of four of 64 bits where long is set; rows lie lds and ldd bytes apart.",
			Params: "long bool, dst, src *byte, ldd, lds, n int", Portable: `panic("element: no kernel")`},
		{Name: "twice", Doc: "writes each element of n > 0 groups of eight of 32 bits two times, and so again below bytes farther where that is not 0; of rows > 0 rows, in the last group of each of which back elements are those of the group before.",
			Params: "dst, src *uint32, below, n, back, rows int", Portable: `panic("element: no kernel")`},
		{Name: "mix", Doc: "writes a + (b-a)*by for n > 0 vectors of 8 floats.", Params: "dst, a, b *float32, by float32, n int", Portable: `panic("element: no kernel")`},
		{Name: "rotate", Doc: "writes pairs of a and b, turned by angles, for rows > 0 rows, by bytes apart, of n > 0 vectors of 8 floats; those of cos and sin lie angles bytes apart.", Params: "low, high, a, b, cos, sin *float32, n, rows, by, angles int", Portable: `panic("element: no kernel")`},
		{Name: "rotatePairs", Doc: "writes pairs of neighbours, turned by angles, for rows > 0 rows, by bytes apart, of n > 0 vectors of 4 pairs; those of cos and sin lie angles bytes apart.", Params: "dst, src, cos, sin *float32, n, rows, by, angles int", Portable: `panic("element: no kernel")`},
		{Name: "affine", Doc: "writes at*by + from, rounded to float32, for n > 0 vectors of 4; by and from are 12 numbers for all.", Params: "dst *float32, at, by, from *float64, n int", Portable: `panic("element: no kernel")`},
		{Name: "bilinear", Doc: "writes sums of products of four elements of plane, the one at first, the one behind it, and those so many floats farther, for n > 0 groups of four.",
			Params: "dst, plane *float32, first *int32, weights *float32, width, n int", Portable: `panic("element: no kernel")`},
		{Name: "bilinearWide", Doc: "is bilinear of float64.", Params: "dst, plane *float64, first *int32, weights *float64, width, n int", Portable: `panic("element: no kernel")`},
		{Name: "near", Doc: "returns the number of the first of n > 0 groups that has a box near to one, n if none has.",
			Params: "one *Box, groups *Boxes, limit float64, n int", Result: "int", Portable: `panic("element: no kernel")`},
		{Name: "columns", Doc: "folds rows > 0 rows of n > 0 vectors of 32 bytes, which lie ld bytes apart, into one that there is where more is not 0.",
			Params: "op Op, made Made, code int, dst, src *byte, ld, rows, more, n int", Portable: `panic("element: no kernel")`},
		{Name: "columnsWide", Doc: "is columns of sums of int32, or of their squares, in n > 0 vectors of four float64.",
			Params: "squares bool, dst *float64, src *int32, ld, rows, more, n int", Portable: `panic("element: no kernel")`},
		{Name: "extremes", Doc: "takes over to best, and their numbers from first on to at, which of rows > 0 rows of n > 0 vectors of 8 floats, ld bytes apart, stand so to best.",
			Params: "c Comparison, best *float32, at *uint32, src *float32, ld, rows, first, n int", Portable: `panic("element: no kernel")`},
		{Name: "products", Doc: "adds sums of left[j]*right[j*ld+c] over k > 0 numbers j to n > 0 vectors of numbers c of a kind.", Params: "kind kind, dst, left, right *byte, ld, k, n int", Portable: `panic("element: no kernel")`},
		{Name: "maxScaled", Doc: "writes the largest of dst, src*low and src*high for n > 0 vectors of 8 floats, and NaN where one of them is.",
			Params: "dst, src, low, high *float32, n int", Portable: `panic("element: no kernel")`},
		{Name: "maxScaledWide", Doc: "is maxScaled of n > 0 vectors of 4 float64.", Params: "dst, src, low, high *float64, n int", Portable: `panic("element: no kernel")`},
	}}, asm.Unit{Base: "elements", Arch: "amd64", Generate: func(f *asm.File) {
		binaries(f)
		folds(f)
		comparisons(f)
		choices(f)
		unzip(f)
		triples(f)
		turn(f)
		scaledMaximum(f)
		bilinear(f)
		bilinearWide(f)
		near(f)
		columns(f)
		columnsWide(f)
		extremes(f)
		twice(f)
		mix(f)
		rotate(f)
		rotatePairs(f)
		affine(f)
		products(f)
	}})
}

// served makes AVX2's kernels the answer of both sets.
func served(f *asm.File, entry, code string) {
	for _, v := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
		f.Serve(entry, v, code)
	}
}

// both returns the Go statement that calls one of two kernels.
func both(name, args string) string {
	return fmt.Sprintf("if one {\n%sOne(%s)\n} else {\n%s(%s)\n}\n", name, args, name, args)
}

// start begins a kernel: DI what it writes, SI a, DX b and CX how many.
func start(f *asm.File, name, doc string, more ...string) *asm.Func {
	args := []asm.Arg{asm.Typed("dst", "*byte")}
	for _, m := range append(more, "a", "b") {
		args = append(args, asm.Typed(m, "*byte"))
	}
	fn := f.Func(name, name+" "+doc, append(args, asm.Int("n"))...)
	fn.Load("dst", "DI")
	fn.Load("a", "SI")
	fn.Load("b", "DX")
	fn.Load("n", "CX")
	return fn
}

// vectors emits the loop over vectors, some at a time; one emits number u of them.
func vectors(fn *asm.Func, unroll int, one func(u int), next func(n int)) {
	loops(fn, unroll, one, next)
	fn.Ret()
}

// loops is vectors without the return.
func loops(fn *asm.Func, unroll int, one func(u int), next func(n int)) {
	fn.While("CX", unroll, func() {
		for u := range unroll {
			one(u)
		}
		next(unroll)
	})
	end := fn.NewLabel("end")
	fn.I("TESTQ CX, CX")
	fn.I("JZ %s", end)
	fn.Loop("CX", func() {
		one(0)
		next(1)
	})
	fn.Label(end)
}

var letters = []string{"B", "W", "D", "Q"}

// Vectors that kernels keep.
const (
	upperBits = 12 // the uppermost bit of each element
	lowBytes  = 13 // the lower byte of each word
	lowBits   = 13 // all but the uppermost bit of each number
	single    = 14 // b, where it is one
)

// perType calls kernel for an operator on each type that there are kernels for, and returns the Go cases that choose among them; kernel returns the call of its own.
func perType(op string, kernel func(name string, code int) string) string {
	code := fmt.Sprintf("case %s:\nswitch code {\n", op)
	for c := range 8 {
		signed := op == "Max" || op == "Min" // signs matter
		if c >= 4 && !signed {
			continue
		}
		cases := fmt.Sprint(c)
		if !signed {
			cases += fmt.Sprintf(", %d", c+4)
		}
		code += fmt.Sprintf("case %s:\n%s", cases, kernel(strings.ToLower(op)+[]string{"U", "S"}[c/4]+fmt.Sprint(8<<(c%4)), c))
	}
	return code + "}\n"
}

func binaries(f *asm.File) {
	var code strings.Builder
	code.WriteString("switch op {\n")
	for _, op := range []string{"Add", "Sub", "Mul", "Max", "Min"} {
		code.WriteString(perType(op, func(name string, c int) string {
			for _, one := range []bool{false, true} {
				binary(f, name, op, c, one)
			}
			return both(name, "dst, a, b, n")
		}))
	}
	for _, one := range []bool{false, true} {
		binary(f, "divS32", "Div", 6, one)
	}
	code.WriteString("case Div:\n" + both("divS32", "dst, a, b, n"))
	code.WriteString("case Apart:\nswitch code {\n")
	for c := 4; c < 8; c++ {
		name := fmt.Sprintf("apartS%d", 8<<(c%4))
		for _, one := range []bool{false, true} {
			binary(f, name, "Apart", c, one)
		}
		fmt.Fprintf(&code, "case %d:\n%s", c, both(name, "dst, a, b, n"))
	}
	code.WriteString("}\n")
	for _, op := range []string{"And", "Or", "Xor"} {
		name := strings.ToLower(op) + "Bits"
		for _, one := range []bool{false, true} {
			binary(f, name, op, 0, one)
		}
		fmt.Fprintf(&code, "case %s:\n%s", op, both(name, "dst, a, b, n"))
	}
	served(f, "binary", code.String()+"}")
}

// binary writes a kernel of two operands of a type, by its code.
func binary(f *asm.File, name, op string, code int, one bool) {
	if one {
		name += "One"
	}
	fn := start(f, name, "writes "+op+" of n vectors; n > 0.")
	letter := letters[code%4]
	if one {
		fn.I("VMOVDQU (DX), Y%d", single)
	}
	masks(fn, op, code)
	vectors(fn, 4, func(u int) {
		a, b := fmt.Sprintf("Y%d", 3*u%12), fmt.Sprintf("Y%d", single)
		fn.I("VMOVDQU %d(SI), %s", 32*u, a)
		if !one {
			b = fmt.Sprintf("Y%d", 3*u%12+1)
			fn.I("VMOVDQU %d(DX), %s", 32*u, b)
		}
		combine(fn, op, letter, code, a, b, fmt.Sprintf("Y%d", 3*u%12+2))
		fn.I("VMOVDQU %s, %d(DI)", a, 32*u)
	}, func(n int) {
		fn.I("ADDQ $%d, SI", 32*n)
		fn.I("ADDQ $%d, DI", 32*n)
		if !one {
			fn.I("ADDQ $%d, DX", 32*n)
		}
	})
}

// masks emits what combine needs.
func masks(fn *asm.Func, op string, code int) {
	if code == 3 {
		fn.I("VPCMPEQQ Y%[1]d, Y%[1]d, Y%[1]d", upperBits)
		fn.I("VPSLLQ $63, Y%[1]d, Y%[1]d", upperBits)
	}
	if op == "Mul" && code == 0 {
		fn.I("VPCMPEQW Y%[1]d, Y%[1]d, Y%[1]d", lowBytes)
		fn.I("VPSRLW $8, Y%[1]d, Y%[1]d", lowBytes)
	}
}

func folds(f *asm.File) {
	code := "switch op {\n"
	for _, op := range []string{"Add", "Mul", "Max", "Min"} {
		code += perType(op, func(name string, c int) string {
			fold(f, name+"Fold", op, c)
			return name + "Fold(dst, a, n)\n"
		})
	}
	served(f, "fold", code+"}")
}

// fold writes a kernel that makes one number of all elements: in four vectors, then one, and then halves of it.
func fold(f *asm.File, name, op string, code int) {
	fn := f.Func(name, name+" writes what "+op+" makes of all elements of n vectors; n > 0.", asm.Typed("dst", "*byte"), asm.Typed("a", "*byte"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("a", "SI")
	fn.Load("n", "CX")
	masks(fn, op, code)
	letter := letters[code%4]
	fn.I("VMOVDQU (SI), Y0")
	for u := 1; u < 4; u++ { // what changes nothing
		switch op {
		case "Add":
			fn.I("VPXOR Y%[1]d, Y%[1]d, Y%[1]d", u)
		case "Mul":
			fn.I("VPCMPEQB Y%[1]d, Y%[1]d, Y%[1]d", u)
			if letter == "Q" {
				fn.I("VPSRLQ $63, Y%[1]d, Y%[1]d", u)
			} else {
				fn.I("VPABS%[2]s Y%[1]d, Y%[1]d", u, letter)
			}
		default:
			fn.I("VMOVDQU Y0, Y%d", u)
		}
	}
	fn.I("ADDQ $32, SI")
	fn.I("DECQ CX")
	with := func(u int, b string) {
		combine(fn, op, letter, code, fmt.Sprintf("Y%d", u), b, fmt.Sprintf("Y%d", 8+u))
	}
	next := func(n int) {
		for u := range n {
			fn.I("VMOVDQU %d(SI), Y%d", 32*u, 4+u)
			with(u, fmt.Sprintf("Y%d", 4+u))
		}
		fn.I("ADDQ $%d, SI", 32*n)
	}
	fn.While("CX", 4, func() { next(4) })
	end := fn.NewLabel("end")
	fn.I("TESTQ CX, CX")
	fn.I("JZ %s", end)
	fn.Loop("CX", func() { next(1) })
	fn.Label(end)
	with(0, "Y1")
	with(2, "Y3")
	with(0, "Y2")
	fn.I("VEXTRACTI128 $1, Y0, X4")
	with(0, "Y4")
	for half := 8; half >= 1<<(code%4); half /= 2 {
		fn.I("VPSRLDQ $%d, Y0, Y4", half)
		with(0, "Y4")
	}
	fn.I("VMOVQ X0, (DI)")
	fn.Ret()
}

// combine emits a = a op b. free and vector 15 may be overwritten.
func combine(fn *asm.Func, op, letter string, code int, a, b, free string) {
	switch {
	case op == "And" || op == "Or" || op == "Xor":
		fn.I("VP%s %s, %s, %s", strings.ToUpper(op), b, a, a)
	case op == "Mul" && code == 0: // even bytes, and odd ones in the upper halves of words
		fn.I("VPMULLW %s, %s, %s", b, a, free)
		fn.I("VPAND Y%d, %s, %s", lowBytes, free, free)
		fn.I("VPSRLW $8, %s, %s", a, a)
		fn.I("VPANDN %s, Y%d, Y15", b, lowBytes)
		fn.I("VPMULLW Y15, %s, %s", a, a)
		fn.I("VPOR %s, %s, %s", free, a, a)
	case op == "Div": // of four numbers in float64, and of the others; what is divided by 0 is 0
		quotients := func(a, b, wide, by string) {
			fn.I("VCVTDQ2PD %s, Y%s", a, wide)
			fn.I("VCVTDQ2PD %s, Y%s", b, by)
			fn.I("VDIVPD Y%s, Y%s, Y%[2]s", by, wide)
			fn.I("VCVTTPD2DQY Y%s, X%[1]s", wide)
		}
		quotients("X"+a[1:], "X"+b[1:], free[1:], "15")
		fn.I("VEXTRACTI128 $1, %s, X%d", a, lowBits)
		fn.I("VEXTRACTI128 $1, %s, X15", b)
		quotients(fmt.Sprintf("X%d", lowBits), "X15", fmt.Sprint(lowBits), "15")
		fn.I("VINSERTI128 $1, X%d, %s, %[2]s", lowBits, free)
		fn.I("VPXOR Y15, Y15, Y15")
		fn.I("VPCMPEQD %s, Y15, Y15", b)
		fn.I("VPANDN %s, Y15, %s", free, a)
	case op == "Mul" && letter == "Q": // lower halves, and each of them with the other's upper one
		fn.I("VPSRLQ $32, %s, %s", a, free)
		fn.I("VPMULUDQ %s, %s, %[2]s", b, free)
		fn.I("VPSRLQ $32, %s, Y15", b)
		fn.I("VPMULUDQ %s, Y15, Y15", a)
		fn.I("VPADDQ Y15, %s, %[1]s", free)
		fn.I("VPSLLQ $32, %s, %[1]s", free)
		fn.I("VPMULUDQ %s, %s, %[2]s", b, a)
		fn.I("VPADDQ %s, %s, %[2]s", free, a)
	case op == "Mul":
		fn.I("VPMULL%s %s, %s, %s", letter, b, a, a)
	case (op == "Max" || op == "Min") && code%4 == 3:
		x, y := a, b
		if code == 3 {
			fn.I("VPXOR Y%d, %s, %s", upperBits, a, free)
			fn.I("VPXOR Y%d, %s, Y15", upperBits, b)
			x, y = free, "Y15"
		}
		if op == "Max" {
			x, y = y, x
		}
		fn.I("VPCMPGTQ %s, %s, %s", y, x, free) // where b takes a's place
		fn.I("VBLENDVPD %s, %s, %s, %s", free, b, a, a)
	case op == "Max" || op == "Min":
		fn.I("VP%s%s%s %s, %s, %s", strings.ToUpper(op), []string{"U", "S"}[code/4], letter, b, a, a)
	case op == "Apart":
		fn.I("VPSUB%s %s, %s, %s", letter, b, a, a)
		if letter != "Q" {
			fn.I("VPABS%s %s, %s", letter, a, a)
			return
		}
		fn.I("VPXOR %s, %[1]s, %[1]s", free)
		fn.I("VPCMPGTQ %s, %s, %[2]s", a, free) // of which numbers the opposites are taken
		fn.I("VPXOR %s, %s, %[2]s", free, a)
		fn.I("VPSUBQ %s, %s, %[2]s", free, a)
	default:
		fn.I("VP%s%s %s, %s, %s", strings.ToUpper(op), letter, b, a, a)
	}
}
