//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// castKind is a change of element type: the bytes of an element on both sides, and the instructions between a load of source
// elements and a store of target elements, all in registers 0 to 3; constants are prepared in registers from 8 on.
type castKind struct {
	name     string
	from, to int
	constant []string // 32-bit words that are broadcast to registers 8, 9, …
	wide     []string // AVX-512
	narrow   []string // AVX2
}

// Both narrowing float casts first make every NaN the quiet one, of the same sign. A float that has no int64 becomes the
// nearest before its higher bits are cut off: all ones from 2⁶³ on, zeros in all other cases that an int32 does not hold. The last
// two move words of 16 bits to the lower halves of floats, and back.
var casts = []castKind{
	{"castFromF16", 2, 4, nil, []string{"VCVTPH2PS Y0, Z0"}, []string{"VCVTPH2PS X0, Y0"}},
	{"castFromBF16", 2, 4, nil, []string{"VPMOVZXWD Y0, Z0", "VPSLLD $16, Z0, Z0"}, []string{"VPMOVZXWD X0, Y0", "VPSLLD $16, Y0, Y0"}},
	{"castFromU8", 1, 4, nil, []string{"VPMOVZXBD X0, Z0", "VCVTDQ2PS Z0, Z0"}, []string{"VPMOVZXBD X0, Y0", "VCVTDQ2PS Y0, Y0"}},
	{"castFromS8", 1, 4, nil, []string{"VPMOVSXBD X0, Z0", "VCVTDQ2PS Z0, Z0"}, []string{"VPMOVSXBD X0, Y0", "VCVTDQ2PS Y0, Y0"}},
	{"castToF16", 4, 2, []string{"0x80000000", "0x7fc00000"},
		[]string{"VCMPPS $3, Z0, Z0, K2", "VPTERNLOGD $0xea, Z9, Z8, K2, Z0", "VCVTPS2PH $0, Z0, Y0"},
		[]string{"VCMPPS $3, Y0, Y0, Y1", "VPAND Y8, Y0, Y2", "VPOR Y9, Y2, Y2", "VBLENDVPS Y1, Y2, Y0, Y0", "VCVTPS2PH $0, Y0, X0"}},
	{"castToBF16", 4, 2, []string{"0x80000000", "0x7fc00000", "1", "0x7fff", "0x10000"},
		[]string{"VCMPPS $3, Z0, Z0, K2", "VPTERNLOGD $0xea, Z9, Z8, K2, Z0", "VPTESTMD Z12, Z0, K3", "VPADDD Z11, Z0, Z0",
			"VPADDD Z10, Z0, K3, Z0", "VPERMW Z0, Z13, Z0"},
		[]string{"VCMPPS $3, Y0, Y0, Y1", "VPAND Y8, Y0, Y2", "VPOR Y9, Y2, Y2", "VBLENDVPS Y1, Y2, Y0, Y0", "VPSRLD $16, Y0, Y1", "VPAND Y10, Y1, Y1",
			"VPADDD Y11, Y0, Y0", "VPADDD Y1, Y0, Y0", "VPSRLD $16, Y0, Y0", "VEXTRACTI128 $1, Y0, X1", "VPACKUSDW X1, X0, X0"}},
	{"castToByte", 4, 1, []string{"0x5f000000", "0xff"},
		[]string{"VCMPPS $13, Z8, Z0, K2", "VCVTTPS2DQ Z0, Z0", "VPTERNLOGD $0xff, Z0, Z0, K2, Z0", "VPMOVDB Z0, X0"},
		[]string{"VCMPPS $13, Y8, Y0, Y1", "VCVTTPS2DQ Y0, Y0", "VPOR Y1, Y0, Y0", "VPAND Y9, Y0, Y0", "VEXTRACTI128 $1, Y0, X1", "VPACKUSDW X1, X0, X0",
			"VPACKUSWB X0, X0, X0"}},
	{"castWiden16", 2, 4, nil, []string{"VPMOVZXWD Y0, Z0"}, []string{"VPMOVZXWD X0, Y0"}},
	{"castNarrow16", 4, 2, nil, []string{"VPMOVDW Z0, Y0"}, []string{"VEXTRACTI128 $1, Y0, X1", "VPACKUSDW X1, X0, X0"}},
}

func castArgs() []asm.Arg {
	return []asm.Arg{asm.Typed("dst", "unsafe.Pointer"), asm.Int("dstStride"), asm.Typed("src", "unsafe.Pointer"), asm.Int("srcStride"), asm.Int("lanes"), asm.Int("n")}
}

const castDoc = ` changes the type of n rows of lanes elements that start srcStride bytes apart, to rows that start dstStride
bytes apart. lanes and n are at least 1.`

func beginCast(fn *asm.Func, k castKind, reg func(int) string) {
	for i, c := range k.constant {
		fn.I("MOVL $%s, AX", c)
		fn.I("VMOVD AX, %s", asm.X(8+i))
		fn.I("VPBROADCASTD %s, %s", asm.X(8+i), reg(8+i))
	}
	fn.Load("dst", "DI")
	fn.Load("dstStride", "R8")
	fn.Load("src", "SI")
	fn.Load("srcStride", "R9")
	fn.Load("lanes", "R10")
	fn.Load("n", "R12")
}

func cast512(f *asm.File, k castKind, v variant) {
	name := v.name(k.name, 512)
	fn := f.Func(name, name+castDoc+v.doc(), castArgs()...)
	beginCast(fn, k, asm.Z)
	if k.name == "castToBF16" {
		beginBF16(f, fn)
	}
	fn.I("MOVQ R10, AX")
	fn.I("ANDQ $15, AX")
	lowBits(fn, "AX", "BX", "K1")
	part := map[int]string{1: "X0", 2: "Y0", 4: "Z0"}
	moves := map[int]string{1: "VMOVDQU8", 2: "VMOVDQU16", 4: "VMOVUPS"}
	move := func(from, to string) {
		fn.I("%s %s, %s", moves[k.from], from, part[k.from])
		for _, i := range k.wide {
			fn.I("%s", i)
		}
		store := moves[k.to]
		if v.stream {
			store = v.store()
		}
		fn.I("%s %s, %s", store, part[k.to], to)
	}
	// Rows of one register, a block of channels, have loops of their own.
	row := func() {
		move("(SI)", "(DI)")
		fn.I("ADDQ R9, SI")
		fn.I("ADDQ R8, DI")
	}
	fn.I("CMPQ R10, $16")
	fn.I("JNE any")
	fn.While("R12", 4, func() {
		for range 4 {
			row()
		}
	})
	fn.While("R12", 1, row)
	fn.Ret()
	fn.Label("any")
	fn.Loop("R12", func() {
		fn.I("MOVQ SI, AX")
		fn.I("MOVQ DI, BX")
		fn.I("MOVQ R10, CX")
		if k.name == "castToBF16" {
			pairToBF16(fn)
		}
		for _, unrolled := range []int{4, 1} {
			fn.While("CX", 16*unrolled, func() {
				for u := range unrolled {
					move(fmt.Sprintf("%d(AX)", 16*k.from*u), fmt.Sprintf("%d(BX)", 16*k.to*u))
				}
				fn.I("ADDQ $%d, AX", 16*k.from*unrolled)
				fn.I("ADDQ $%d, BX", 16*k.to*unrolled)
			})
		}
		none := fn.NewLabel("none")
		fn.I("TESTQ CX, CX")
		fn.I("JZ %s", none)
		fn.I("%s.Z (AX), K1, %s", moves[k.from], part[k.from])
		for _, i := range k.wide {
			fn.I("%s", i)
		}
		fn.I("%s %s, K1, (BX)", moves[k.to], part[k.to])
		fn.Label(none)
		fn.I("ADDQ R9, SI")
		fn.I("ADDQ R8, DI")
	})
	fn.Ret()
}

// castLines512 is cast512 of elements that become shorter to whole lines past the caches.
func castLines512(f *asm.File, k castKind) {
	v := variant{stream: true}
	name, perLine := v.name(k.name, 512), 64/k.to
	fn := f.Func(name, name+castDoc+fmt.Sprintf(" lanes is a multiple of %d.", perLine)+v.doc(), castArgs()...)
	beginCast(fn, k, asm.Z)
	if k.name == "castToBF16" {
		beginBF16(f, fn)
	}
	fn.Loop("R12", func() {
		fn.I("MOVQ SI, AX")
		fn.I("MOVQ DI, BX")
		fn.I("MOVQ R10, CX")
		fn.While("CX", perLine, func() {
			for u := range 4 / k.to {
				fn.I("VMOVUPS %d(AX), Z0", 64*u)
				for _, i := range k.wide {
					fn.I("%s", i)
				}
				switch {
				case u == 0:
					fn.I("VMOVDQA64 Z0, Z20")
				case k.to == 2:
					fn.I("VINSERTI64X4 $1, Y0, Z20, Z20")
				default:
					fn.I("VINSERTI32X4 $%d, X0, Z20, Z20", u)
				}
			}
			fn.I("%s Z20, (BX)", v.store())
			fn.I("ADDQ $%d, AX", 4*perLine)
			fn.I("ADDQ $64, BX")
		})
		fn.I("ADDQ R9, SI")
		fn.I("ADDQ R8, DI")
	})
	fn.Ret()
}

// beginBF16 emits the constants of casts to bfloat16: in Z13 and Z14 the numbers of upper and lower 16-bit words of two
// registers, in Z15 to Z17 words.
func beginBF16(f *asm.File, fn *asm.Func) {
	var upper, lower []uint32
	for i := range uint32(16) {
		upper = append(upper, 4*i+1|(4*i+3)<<16)
		lower = append(lower, 4*i|(4*i+2)<<16)
	}
	f.Data("upperWords", upper...)
	f.Data("lowerWords", lower...)
	fn.I("VMOVUPS upperWords<>(SB), Z13")
	fn.I("VMOVUPS lowerWords<>(SB), Z14")
	for i, word := range []int{1, 0x8000, 0xffff} {
		fn.I("MOVL $%d, AX", word)
		fn.I("VPBROADCASTW AX, Z%d", 15+i)
	}
}

// pairToBF16 emits a loop over 32 floats at a time. One is added to the upper half of a float where the lower, and one more if
// the upper is odd, are above the middle.
func pairToBF16(fn *asm.Func) {
	numbers, nan, begin := fn.NewLabel("numbers"), fn.NewLabel("nan"), fn.NewLabel("begin")
	fn.I("JMP %s", begin)
	fn.Label(nan)
	for r := range 2 {
		fn.I("VCMPPS $3, Z%d, Z%d, K2", r, r)
		fn.I("VPTERNLOGD $0xea, Z9, Z8, K2, Z%d", r)
	}
	fn.I("JMP %s", numbers)
	fn.Label(begin)
	fn.While("CX", 32, func() {
		fn.I("VMOVUPS (AX), Z0")
		fn.I("VMOVUPS 64(AX), Z1")
		fn.I("VCMPPS $3, Z1, Z0, K2")
		fn.I("KORTESTW K2, K2")
		fn.I("JNZ %s", nan)
		fn.Label(numbers)
		fn.I("VMOVDQA64 Z13, Z2")
		fn.I("VPERMI2W Z1, Z0, Z2")
		fn.I("VPERMT2W Z1, Z14, Z0")
		fn.I("VPANDD Z15, Z2, Z3")
		fn.I("VPADDUSW Z0, Z3, Z3")
		fn.I("VPCMPUW $6, Z16, Z3, K3")
		fn.I("VPSUBW Z17, Z2, K3, Z2")
		fn.I("VMOVUPS Z2, (BX)")
		fn.I("ADDQ $128, AX")
		fn.I("ADDQ $64, BX")
	})
}

// cast256 leaves lanes behind the last multiple of eight to others.
func cast256(f *asm.File, k castKind) {
	name := k.name + "256"
	fn := f.Func(name, name+castDoc+" Lanes behind the last\nmultiple of eight are left out.", castArgs()...)
	beginCast(fn, k, asm.Y)
	load := map[int]string{1: "VMOVQ (AX), X0", 2: "VMOVDQU (AX), X0", 4: "VMOVUPS (AX), Y0"}
	store := map[int]string{1: "VMOVQ X0, (BX)", 2: "VMOVDQU X0, (BX)", 4: "VMOVUPS Y0, (BX)"}
	fn.Loop("R12", func() {
		fn.I("MOVQ SI, AX")
		fn.I("MOVQ DI, BX")
		fn.I("MOVQ R10, CX")
		fn.While("CX", 8, func() {
			fn.I("%s", load[k.from])
			for _, i := range k.narrow {
				fn.I("%s", i)
			}
			fn.I("%s", store[k.to])
			fn.I("ADDQ $%d, AX", 8*k.from)
			fn.I("ADDQ $%d, BX", 8*k.to)
		})
		fn.I("ADDQ R9, SI")
		fn.I("ADDQ R8, DI")
	})
	fn.Ret()
}

// castRows writes the functions that select a kernel by castKind, and what AVX2 leaves to portable code.
func castRows(f *asm.File) {
	castTable(f, "512")
	castTable(f, "256")
	var streams strings.Builder
	for _, k := range casts {
		switch {
		case k.name == "castWiden16" || k.name == "castNarrow16":
			continue
		case k.to == 4:
			cast512(f, k, variant{stream: true})
		default:
			castLines512(f, k)
		}
		fmt.Fprintf(&streams, "case %s:\n%s(dst, dstStride, src, srcStride, lanes, n)\n", kindName(k), variant{stream: true}.name(k.name, 512))
	}
	f.Serve("castRows", asm.AVX512(), "cast512(k, dst, dstStride, src, srcStride, lanes, n)")
	f.Serve("castRows", asm.AVX2(), castEights("256"))
	f.Serve("streamCasts", asm.AVX512(), "switch k {\n"+streams.String()+"}")
}

// kindName is the name of a kind's constant.
func kindName(k castKind) string { return strings.ToLower(k.name[4:5]) + k.name[5:] }

// castTable writes the function that selects a kernel of a set. It is a switch, since a table of functions would make what they are given
// escape.
func castTable(f *asm.File, set string) {
	var table strings.Builder
	fmt.Fprintf(&table, "// cast%s runs the kernel of a kind.\n", set)
	fmt.Fprintf(&table, "func cast%s(k castKind, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lanes, n int) {\nswitch k {\n", set)
	for _, k := range casts {
		fmt.Fprintf(&table, "case %s:\n%s%s(dst, dstStride, src, srcStride, lanes, n)\n", kindName(k), k.name, set)
	}
	f.Go(table.String() + "}\n}\n")
}

// castEights is the answer of a set whose kernels leave out lanes behind the last multiple of eight: the last eight are cast once more, all of them, and
// portable code takes fewer.
func castEights(set string) string {
	return `from, to := k.sizes()
		whole := lanes &^ 7
		if whole > 0 {
			cast` + set + `(k, dst, dstStride, src, srcStride, whole, n)
		}
		switch last := lanes - 8; {
		case whole == lanes:
		case whole > 0:
			cast` + set + `(k, unsafe.Add(dst, last*to), dstStride, unsafe.Add(src, last*from), srcStride, 8, n)
		default:
			portableCast(k, dst, dstStride, src, srcStride, lanes, n)
		}`
}
