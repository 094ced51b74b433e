//go:build ignore

// Command gen writes the kernels of package element.
package main

import (
	"fmt"
	"slices"
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
		{Name: "unzip", Doc: "takes n > 0 groups of eight pairs of 32 bits apart.", Params: "first, second, pairs *byte, n int", Portable: `panic("element: no kernel")`},
		{Name: "unzipThree", Doc: "takes n > 0 groups of sixteen triples of bytes apart.", Params: "first, second, third, triples *byte, n int", Portable: `panic("element: no kernel")`},
		{Name: "zipThree", Doc: "makes n > 0 groups of sixteen triples of bytes.", Params: "triples, first, second, third *byte, n int", Portable: `panic("element: no kernel")`},
		{Name: "turn", Doc: "transposes eight rows of n > 0 groups of eight elements of 16 bits; rows lie lds and ldd elements apart.", Params: "dst, src *uint16, ldd, lds, n int", Portable: `panic("element: no kernel")`},
		{Name: "twice", Doc: "writes each element of n > 0 groups of eight of 32 bits two times.", Params: "dst, src *uint32, n int", Portable: `panic("element: no kernel")`},
		{Name: "mix", Doc: "writes a + (b-a)*by for n > 0 vectors of 8 floats.", Params: "dst, a, b *float32, by float32, n int", Portable: `panic("element: no kernel")`},
		{Name: "bilinear", Doc: "writes sums of products of four elements of plane, the one at first, the one behind it, and those so many floats farther, for n > 0 groups of four.",
			Params: "dst, plane *float32, first *int32, weights *float32, width, n int", Portable: `panic("element: no kernel")`},
		{Name: "maxScaled", Doc: "writes the largest of dst, src*low and src*high for n > 0 vectors of 8 floats, and NaN where one of them is.",
			Params: "dst, src *float32, low, high float32, n int", Portable: `panic("element: no kernel")`},
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
		twice(f)
		mix(f)
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
	fn.Ret()
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
	default:
		fn.I("VP%s%s %s, %s, %s", strings.ToUpper(op), letter, b, a, a)
	}
}

// inOrder is the order of doublewords behind two packings.
const inOrder = "inOrder"

func comparisons(f *asm.File) {
	f.Data(inOrder, 0, 4, 1, 5, 2, 6, 3, 7)
	code := "switch k {\n"
	for _, kind := range []string{"floats", "words", "unsignedWords", "signedBytes", "unsignedBytes", "doubles", "longs"} {
		code += "case " + kind + ":\nswitch c {\n"
		for _, c := range []string{"Equal", "Less", "AtMost", "Greater", "AtLeast"} {
			name := strings.ToLower(c) + strings.ToUpper(kind[:1]) + kind[1:]
			for _, one := range []bool{false, true} {
				comparison(f, name, kind, c, one)
			}
			code += fmt.Sprintf("case %s:\n%s", c, both(name, "dst, a, b, n"))
		}
		code += "}\n"
	}
	for _, kind := range []string{"magnitudes", "longMagnitudes"} {
		name := strings.ToUpper(kind[:1]) + kind[1:]
		code += fmt.Sprintf("case %[1]s:\nif c == Equal {\nequal%[2]sOne(dst, a, b, n)\n} else {\ngreater%[2]sOne(dst, a, b, n)\n}\n", kind, name)
		comparison(f, "equal"+name, kind, "Equal", true)
		comparison(f, "greater"+name, kind, "Greater", true)
	}
	served(f, "compare", code+"}")
}

func comparison(f *asm.File, name, kind, c string, one bool) {
	if one {
		name += "One"
	}
	fn := start(f, name, "compares n groups of 32 elements; n > 0.")
	unsigned, bytes := strings.HasPrefix(kind, "unsigned") && c != "Equal", strings.HasSuffix(kind, "Bytes")
	fn.I("VPCMPEQB Y15, Y15, Y15")
	fn.I("VPABSB Y15, Y15") // ones
	fn.I("VMOVDQU %s, Y11", asm.DataAt(inOrder, 0))
	if unsigned {
		if bytes {
			fn.I("VPSLLW $7, Y15, Y%d", upperBits)
		} else {
			fn.I("VPCMPEQD Y%[1]d, Y%[1]d, Y%[1]d", upperBits)
			fn.I("VPSLLD $31, Y%[1]d, Y%[1]d", upperBits)
		}
	}
	magnitudes, letter := strings.HasSuffix(strings.ToLower(kind), "magnitudes"), sizeOf(kind)
	if magnitudes {
		fn.I("VPCMPEQ%[2]s Y%[1]d, Y%[1]d, Y%[1]d", lowBits, letter)
		fn.I("VPSRL%[2]s $1, Y%[1]d, Y%[1]d", lowBits, letter)
	}
	if one {
		fn.I("VMOVDQU (DX), Y%d", single)
		if unsigned {
			fn.I("VPXOR Y%d, Y%[2]d, Y%[2]d", upperBits, single)
		}
	}
	vectors := map[string]int{"B": 1, "D": 4, "Q": 8}[letter]
	fn.Loop("CX", func() {
		negated := false
		for i := range vectors {
			a, b := fmt.Sprintf("Y%d", i), fmt.Sprintf("Y%d", single)
			if letter == "Q" {
				a = []string{fmt.Sprintf("Y%d", i/2), "Y8"}[i%2] // of two vectors one is made
			}
			if magnitudes {
				fn.I("VPAND %d(SI), Y%d, %s", 32*i, lowBits, a)
			} else {
				fn.I("VMOVDQU %d(SI), %s", 32*i, a)
			}
			if unsigned {
				fn.I("VPXOR Y%d, %s, %s", upperBits, a, a)
			}
			if !one {
				b = fmt.Sprintf("Y%d", 4+i%4)
				fn.I("VMOVDQU %d(DX), %s", 32*i, b)
				if unsigned {
					fn.I("VPXOR Y%d, %s, %s", upperBits, b, b)
				}
			}
			negated = holds(fn, kind, c, a, b)
			if letter == "Q" && i%2 == 1 {
				fn.I("VSHUFPS $0x88, %s, Y%d, Y%[2]d", a, i/2)
				fn.I("VPERMQ $0xd8, Y%d, Y%[1]d", i/2)
			}
		}
		if !bytes {
			fn.I("VPACKSSDW Y1, Y0, Y0")
			fn.I("VPACKSSDW Y3, Y2, Y2")
			fn.I("VPACKSSWB Y2, Y0, Y0")
			fn.I("VPERMD Y0, Y11, Y0")
		}
		if negated {
			fn.I("VPANDN Y15, Y0, Y0")
		} else {
			fn.I("VPAND Y15, Y0, Y0")
		}
		fn.I("VMOVDQU Y0, (DI)")
		fn.I("ADDQ $32, DI")
		fn.I("ADDQ $%d, SI", 32*vectors)
		if !one {
			fn.I("ADDQ $%d, DX", 32*vectors)
		}
	})
	fn.Ret()
}

// sizeOf returns the letter of a kind's size.
func sizeOf(kind string) string {
	switch {
	case strings.HasSuffix(kind, "Bytes"):
		return "B"
	case kind == "doubles" || strings.HasPrefix(kind, "long"):
		return "Q"
	}
	return "D"
}

// holds emits the comparison of a vector a with b, in a: all bits of an element are set where it holds, or, where that is what is returned, where it does not.
func holds(fn *asm.Func, kind, c, a, b string) (negated bool) {
	if kind == "floats" || kind == "doubles" {
		suffix := map[string]string{"floats": "S", "doubles": "D"}[kind]
		fn.I("VCMPP%s $%#x, %s, %s, %s", suffix, map[string]int{"Equal": 0, "Less": 0x11, "AtMost": 0x12, "Greater": 0x1e, "AtLeast": 0x1d}[c], b, a, a)
		return false
	}
	letter := sizeOf(kind)
	switch c {
	case "Equal":
		fn.I("VPCMPEQ%s %s, %s, %s", letter, b, a, a)
	case "Greater", "AtMost":
		fn.I("VPCMPGT%s %s, %s, %s", letter, b, a, a)
	default:
		fn.I("VPCMPGT%s %s, %s, %s", letter, a, b, a)
	}
	return c == "AtMost" || c == "AtLeast"
}

func choices(f *asm.File) {
	code := "switch size {\n"
	for i := range 4 {
		code += fmt.Sprintf("case %d:\nswitch {\n", 1<<i)
		for _, one := range [][2]bool{{true, true}, {true, false}, {false, true}, {false, false}} {
			code += map[[2]bool]string{{true, true}: "case oneA && oneB:\n", {true, false}: "case oneA:\n", {false, true}: "case oneB:\n", {false, false}: "default:\n"}[one]
			code += choice(f, i, one[0], one[1]) + "(dst, c, a, b, n)\n"
		}
		code += "}\n"
	}
	served(f, "choose", code+"}")
}

// choice writes a kernel of elements of 1<<size bytes and returns its name.
func choice(f *asm.File, size int, oneA, oneB bool) string {
	name := fmt.Sprintf("choose%d", 8<<size)
	if oneA {
		name += "OneA"
	}
	if oneB {
		name += "OneB"
	}
	fn := start(f, name, "chooses between the elements of n vectors; n > 0.", "c")
	fn.Load("c", "BX")
	if oneA {
		fn.I("VMOVDQU (SI), Y13")
	}
	if oneB {
		fn.I("VMOVDQU (DX), Y14")
	}
	vectors(fn, 2, func(u int) {
		mask, a, b := fmt.Sprintf("Y%d", 3*u), "Y13", "Y14"
		if !oneA {
			a = fmt.Sprintf("%d(SI)", 32*u)
		}
		if !oneB {
			b = fmt.Sprintf("Y%d", 3*u+1)
			fn.I("VMOVDQU %d(DX), %s", 32*u, b)
		}
		at := fmt.Sprintf("%d(BX)", 32*u>>size)
		blend := "VPBLENDVB"
		switch size {
		case 0:
			fn.I("VMOVDQU %s, %s", at, mask)
			fn.I("VPSLLW $7, %s, %s", mask, mask)
		case 1:
			fn.I("VPMOVZXBW %s, %s", at, mask)
			fn.I("VPSLLW $15, %s, %s", mask, mask)
			fn.I("VPSRAW $15, %s, %s", mask, mask)
		case 2:
			fn.I("VPMOVZXBD %s, %s", at, mask)
			fn.I("VPSLLD $31, %s, %s", mask, mask)
			blend = "VBLENDVPS"
		case 3:
			fn.I("VPMOVZXBQ %s, %s", at, mask)
			fn.I("VPSLLQ $63, %s, %s", mask, mask)
			blend = "VBLENDVPD"
		}
		fn.I("%s %s, %s, %s, %s", blend, mask, a, b, mask)
		fn.I("VMOVDQU %s, %d(DI)", mask, 32*u)
	}, func(n int) {
		fn.I("ADDQ $%d, DI", 32*n)
		fn.I("ADDQ $%d, BX", 32*n>>size)
		if !oneA {
			fn.I("ADDQ $%d, SI", 32*n)
		}
		if !oneB {
			fn.I("ADDQ $%d, DX", 32*n)
		}
	})
	return name
}

func unzip(f *asm.File) {
	fn := f.Func("unzipPairs", "unzipPairs takes n groups of eight pairs apart; n > 0.", asm.Typed("first", "*byte"), asm.Typed("second", "*byte"), asm.Typed("pairs", "*byte"), asm.Int("n"))
	fn.Load("first", "DI")
	fn.Load("second", "DX")
	fn.Load("pairs", "SI")
	fn.Load("n", "CX")
	fn.Loop("CX", func() {
		fn.I("VMOVUPS (SI), Y0")
		fn.I("VMOVUPS 32(SI), Y1")
		for i, at := range []string{"DI", "DX"} {
			fn.I("VSHUFPS $%#x, Y1, Y0, Y%d", []int{0x88, 0xdd}[i], 2+i)
			fn.I("VPERMQ $0xd8, Y%d, Y%[1]d", 2+i)
			fn.I("VMOVUPS Y%d, (%s)", 2+i, at)
			fn.I("ADDQ $32, %s", at)
		}
		fn.I("ADDQ $64, SI")
	})
	fn.Ret()
	served(f, "unzip", "unzipPairs(first, second, pairs, n)")
}

// triples writes the kernels that take triples of bytes apart, and make them: each of three vectors of results gets its bytes from three.
func triples(f *asm.File) {
	planes := []string{"DI", "DX", "BX"}
	for _, zips := range []bool{false, true} {
		name, doc := "unzipTriples", "unzipTriples takes n groups of sixteen triples apart; n > 0."
		args, entry, call := []string{"first", "second", "third", "triples"}, "unzipThree", "unzipTriples(first, second, third, triples, n)"
		regs := append(slices.Clone(planes), "SI")
		if zips {
			name, doc = "zipTriples", "zipTriples makes n groups of sixteen triples; n > 0."
			args, entry, call = []string{"triples", "first", "second", "third"}, "zipThree", "zipTriples(triples, first, second, third, n)"
			regs = append([]string{"SI"}, planes...)
		}
		table := name + "Bytes"
		f.Data(table, tripleBytes(zips)...)
		var typed []asm.Arg
		for _, a := range args {
			typed = append(typed, asm.Typed(a, "*byte"))
		}
		fn := f.Func(name, doc, append(typed, asm.Int("n"))...)
		for i, a := range args {
			fn.Load(a, regs[i])
		}
		fn.Load("n", "CX")
		fn.Loop("CX", func() {
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
		})
		fn.Ret()
		served(f, entry, call)
	}
}

// tripleBytes are, for each vector of results and each of operands, the numbers of the bytes that the one gets from the other, 128 where it gets none.
func tripleBytes(zips bool) []uint32 {
	var b []byte
	for d := range 3 {
		for s := range 3 {
			for i := range 16 {
				from := 3*i + d // of 48
				if zips {
					from = (16*d+i)%3*16 + (16*d+i)/3
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

// turn writes the kernel of transpositions of eight by eight elements of 16 bits: three times, two vectors are interleaved by ever larger parts.
func turn(f *asm.File) {
	fn := f.Func("turnShorts", "turnShorts transposes eight rows of n groups of eight elements; n > 0.",
		asm.Typed("dst", "*uint16"), asm.Typed("src", "*uint16"), asm.Int("ldd"), asm.Int("lds"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("ldd", "R8")
	fn.Load("lds", "R9")
	fn.Load("n", "CX")
	fn.I("ADDQ R8, R8")
	fn.I("ADDQ R9, R9")
	fn.Loop("CX", func() {
		fn.I("MOVQ SI, R10")
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
		fn.I("ADDQ $16, SI")
	})
	fn.Ret()
	served(f, "turn", "turnShorts(dst, src, ldd, lds, n)")
}

// scaledMaximum writes the kernel of maxima of products with two factors. VMAXPS returns what is written first where an operand is NaN.
func scaledMaximum(f *asm.File) {
	fn := f.Func("maxScaledFloats", "maxScaledFloats writes the largest of dst, src*low and src*high for n vectors of 8 floats; n > 0.",
		asm.Ptr("dst"), asm.Ptr("src"), asm.Float("low"), asm.Float("high"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("n", "CX")
	fn.I("VBROADCASTSS %s, Y14", fn.Addr("low"))
	fn.I("VBROADCASTSS %s, Y15", fn.Addr("high"))
	vectors(fn, 2, func(u int) {
		so, low, high, mask := 4*u, 4*u+1, 4*u+2, 4*u+3
		fn.I("VMOVUPS %d(SI), Y%d", 32*u, high)
		fn.I("VMOVUPS %d(DI), Y%d", 32*u, so)
		fn.I("VMULPS Y14, Y%d, Y%d", high, low)
		fn.I("VMULPS Y15, Y%[1]d, Y%[1]d", high)
		fn.I("VMAXPS Y%[2]d, Y%[1]d, Y%[1]d", high, low)
		fn.I("VCMPPS $3, Y%[1]d, Y%[1]d, Y%[2]d", so, mask)
		fn.I("VMAXPS Y%[1]d, Y%[2]d, Y%[1]d", high, so)
		fn.I("VBLENDVPS Y%[1]d, Y%[2]d, Y%[3]d, Y%[3]d", mask, so, high)
		fn.I("VMOVUPS Y%d, %d(DI)", high, 32*u)
	}, func(n int) {
		fn.I("ADDQ $%d, DI", 32*n)
		fn.I("ADDQ $%d, SI", 32*n)
	})
	served(f, "maxScaled", "maxScaledFloats(dst, src, low, high, n)")
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

// twice writes the kernel that repeats each element of 32 bits.
func twice(f *asm.File) {
	f.Data("lowerTwice", 0, 0, 1, 1, 2, 2, 3, 3)
	f.Data("upperTwice", 4, 4, 5, 5, 6, 6, 7, 7)
	fn := f.Func("twiceWords", "twiceWords writes each element of n groups of eight two times; n > 0.", asm.Typed("dst", "*uint32"), asm.Typed("src", "*uint32"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("n", "CX")
	fn.I("VMOVDQU %s, Y2", asm.DataAt("lowerTwice", 0))
	fn.I("VMOVDQU %s, Y3", asm.DataAt("upperTwice", 0))
	fn.Loop("CX", func() {
		fn.I("VPERMD (SI), Y2, Y0")
		fn.I("VPERMD (SI), Y3, Y1")
		fn.I("VMOVDQU Y0, (DI)")
		fn.I("VMOVDQU Y1, 32(DI)")
		fn.I("ADDQ $32, SI")
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
	served(f, "twice", "twiceWords(dst, src, n)\n")
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
