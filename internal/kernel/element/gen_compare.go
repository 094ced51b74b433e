//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// inOrder is the order of doublewords behind two packings.
const inOrder = "inOrder"

func comparisons(f *asm.File) {
	f.Data(inOrder, 0, 4, 1, 5, 2, 6, 3, 7)
	code := "switch k {\n"
	for _, kind := range []string{"floats", "words", "unsignedWords", "signedBytes", "unsignedBytes", "doubles", "longs", "shorts", "unsignedShorts"} {
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
	for _, kind := range []string{"magnitudes", "longMagnitudes", "shortMagnitudes"} {
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
	unsigned := strings.HasPrefix(kind, "unsigned") && c != "Equal"
	magnitudes, letter := strings.HasSuffix(strings.ToLower(kind), "magnitudes"), sizeOf(kind)
	fn.I("VPCMPEQB Y15, Y15, Y15")
	fn.I("VPABSB Y15, Y15") // ones
	fn.I("VMOVDQU %s, Y11", asm.DataAt(inOrder, 0))
	if unsigned {
		if letter == "B" {
			fn.I("VPSLLW $7, Y15, Y%d", upperBits)
		} else {
			fn.I("VPCMPEQD Y%[1]d, Y%[1]d, Y%[1]d", upperBits)
			fn.I("VPSLL%[2]s $%[3]d, Y%[1]d, Y%[1]d", upperBits, letter, map[string]int{"W": 15, "D": 31}[letter])
		}
	}
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
	vectors := map[string]int{"B": 1, "W": 2, "D": 4, "Q": 8}[letter]
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
		switch letter {
		case "W":
			fn.I("VPACKSSWB Y1, Y0, Y0")
			fn.I("VPERMQ $0xd8, Y0, Y0")
		case "D", "Q":
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
	case strings.HasPrefix(strings.ToLower(strings.TrimPrefix(kind, "unsigned")), "short"):
		return "W"
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
