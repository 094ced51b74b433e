//go:build ignore

// Command gen writes the kernels of package cast.
package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("cast", asm.Table{Entries: []asm.Entry{
		{Name: "load", Doc: "brings n > 0 groups of 16 elements to lanes, but stops before a group of floats that do not fit. It returns how many it has brought. Where fold is set, both halves of 64 bits are joined.",
			Params: "from Type, fold bool, lanes *int32, src *byte, n int", Result: "int", Portable: "return genericLoad(from, fold, lanes, src, 16*n) / 16"},
		{Name: "store", Doc: "takes n > 0 groups of 16 elements from lanes: what they are as integers of so many bits, or as floats. Those of 64 bits are extended by zeros where unsigned is set.",
			Params: "to kind, unsigned bool, dst *byte, lanes *int32, n int", Portable: "genericStore(to, unsigned, dst, lanes, 16*n)"},
		{Name: "bits", Doc: "writes which of n > 0 groups of 64 bytes are not 0.", Params: "dst, src *byte, n int", Portable: "genericBits(dst, src, 64*n)"},
		{Name: "truths", Doc: "writes which of n > 0 groups of 16 lanes are not 0; where shift is set their uppermost bits do not count.",
			Params: "shift bool, dst *byte, lanes *int32, n int", Portable: "genericTruths(shift, dst, lanes, 16*n)"},
		{Name: "words", Doc: "makes 16 bits of 8, or the other way round, of n > 0 groups of 64 integers.", Params: "change change, dst, src *byte, n int", Portable: "genericWords(change, dst, src, 64*n)"},
		{Name: "wholes", Doc: "makes float64 of n > 0 groups of 16 integers of 64 bits, or of 32 without a sign.", Params: "from Type, dst *float64, src *byte, n int", Portable: "genericWholes(from, dst, src, 16*n)"},
		{Name: "differ", Doc: "writes which of n > 0 groups of 16 float64 are not 0.", Params: "dst *byte, src *float64, n int", Portable: "genericDiffer(dst, src, 16*n)"},
		{Name: "doubles", Doc: "makes float64 of n > 0 groups of 16 float32.", Params: "dst *float64, src *float32, n int", Portable: "genericConvert(dst, src, 16*n)"},
		{Name: "singles", Doc: "rounds n > 0 groups of 16 float64 to float32.", Params: "dst *float32, src *float64, n int", Portable: "genericConvert(dst, src, 16*n)"},
		{Name: "odds", Doc: "rounds n > 0 groups of 16 float64 to float32, to odd ones where those do not hold them.", Params: "dst *float32, src *float64, n int", Portable: "genericOdds(dst, src, 16*n)"},
		{Name: "accumulate", Doc: "adds rows > 0 rows of n groups of 16 float32 and some quads of four, one of either at least, by elements apart, to totals, or multiplies these by them, and rounds totals to dst after each of them, or before it where exclusive is set.",
			Params: "multiplies, exclusive bool, dst, src *float32, totals *float64, n, quads, rows, by int", Portable: "genericTotals(multiplies, exclusive, dst, src, totals, 16*n+4*quads, rows, by)"},
	}}, asm.Unit{Base: "lanes", Arch: "amd64", Generate: func(f *asm.File) {
		ofDoubles(f)
		for _, v := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
			loads(f, v)
			stores(f, v)
			truths(f, v)
			bits(f, v)
			words(f, v)
			doubles(f, v)
			totals(f, v)
		}
	}})
}

// kernel is one being written: SI what it reads and DI what it writes, CX groups, and its parts are those of a group in vectors.
type kernel struct {
	*asm.Func
	v asm.ISA
}

func start(f *asm.File, v asm.ISA, name, doc string, args ...asm.Arg) (kernel, string) {
	name = fmt.Sprintf("%s%d", name, 8*v.Size())
	k := kernel{f.Func(name, name+" "+doc, append(args, asm.Int("n"))...), v}
	k.Load(args[0].Name, "DI")
	k.Load(args[1].Name, "SI")
	k.Load("n", "CX")
	return k, name
}

// parts calls body for each vector of a group.
func (k kernel) parts(body func(i int, x string)) {
	for i := range 16 / k.v.Lanes {
		body(i, k.v.R(i))
	}
}

// groups writes the loop over groups, which lie so many bytes apart, and the return.
func (k kernel) groups(dst, src int, body func()) {
	k.Loop("CX", func() {
		body()
		k.I("ADDQ $%d, DI", dst)
		k.I("ADDQ $%d, SI", src)
	})
	k.Ret()
}

// constant fills a register with a lane.
func (k kernel) constant(lane uint32, x int) {
	k.I("MOVL $%#x, AX", lane)
	k.I("VMOVD AX, X%d", x)
	k.I("VPBROADCASTD X%d, %s", x, k.v.R(x))
}

func loads(f *asm.File, v asm.ISA) {
	code := "switch from {\n"
	for _, t := range []struct {
		types, name, extend string
		size                int
	}{{"Int8", "Int8", "VPMOVSXBD", 1}, {"Uint8, Bool", "Uint8", "VPMOVZXBD", 1}, {"Int16", "Int16", "VPMOVSXWD", 2}, {"Uint16", "Uint16", "VPMOVZXWD", 2}} {
		k, name := start(f, v, "load"+t.name, "extends integers.", asm.Typed("lanes", "*int32"), asm.Typed("src", "*byte"))
		k.groups(64, 16*t.size, func() {
			k.parts(func(i int, x string) {
				k.I("%s %d(SI), %s", t.extend, i*v.Lanes*t.size, x)
				k.I("VMOVDQU%s %s, %d(DI)", suffix(v), x, i*v.Size())
			})
		})
		code += fmt.Sprintf("case %s:\n%s(lanes, src, n)\n", t.types, name)
	}
	code += fmt.Sprintf("case Float32:\nreturn %s(lanes, src, n)\ncase Float64:\nreturn "+truncateDoubles+"(lanes, src, n)\ndefault:\nif fold {\n%s(lanes, src, n)\n} else {\n%s(lanes, src, n)\n}\n}\nreturn n", truncate(f, v), lower(f, v, true), lower(f, v, false))
	f.Serve("load", v, code)
}

// suffix is what moves of whole vectors of lanes are called by.
func suffix(v asm.ISA) string {
	if v.Masks {
		return "32"
	}
	return ""
}

// lower writes what keeps the lower halves of integers of 64 bits, or what is set in either half.
func lower(f *asm.File, v asm.ISA, fold bool) string {
	what := map[bool][2]string{false: {"lower", "keeps the lower halves of integers of 64 bits."}, true: {"either", "joins both halves of integers of 64 bits."}}[fold]
	k, name := start(f, v, what[0], what[1], asm.Typed("lanes", "*int32"), asm.Typed("src", "*byte"))
	join := func(i int) {
		if fold {
			k.I("VPSRLQ $32, %s, %s", v.R(i), v.R(i+1))
			k.I("VPOR%s %s, %[3]s, %[3]s", map[bool]string{true: "Q"}[v.Masks], v.R(i+1), v.R(i))
		}
	}
	k.groups(64, 128, func() {
		for i := range 2 {
			if v.Masks {
				k.I("VMOVDQU64 %d(SI), Z0", 64*i)
				join(0)
				k.I("VPMOVQD Z0, %d(DI)", 32*i)
				continue
			}
			k.I("VMOVUPS %d(SI), Y0", 64*i)
			k.I("VMOVUPS %d(SI), Y2", 64*i+32)
			join(0)
			join(2)
			k.I("VSHUFPS $0x88, Y2, Y0, Y0")
			k.I("VPERMQ $0xd8, Y0, Y0")
			k.I("VMOVDQU Y0, %d(DI)", 32*i)
		}
	})
	return name
}

// truncate writes what truncates floats of less than 2^31, and stops before others.
func truncate(f *asm.File, v asm.ISA) string {
	name := fmt.Sprintf("truncate%d", 8*v.Size())
	fn := f.Func(name, name+" truncates floats, and returns before how many groups, from the last on, there is one of 2^31 or more, or NaN.",
		asm.Typed("lanes", "*int32"), asm.Typed("src", "*byte"), asm.Int("n"))
	fn.Result("done", "int")
	k := kernel{fn, v}
	k.Load("lanes", "DI")
	k.Load("src", "SI")
	k.Load("n", "CX")
	k.constant(0x7fffffff, 4)
	k.constant(0x4f000000, 5) // 2^31
	k.Loop("CX", func() {
		k.parts(func(i int, x string) {
			k.I("VMOVUPS %d(SI), %s", i*v.Size(), x)
			k.I("VPAND%s %s, %s, %s", map[bool]string{true: "D"}[v.Masks], v.R(4), x, v.R(2))
			if v.Masks {
				k.I("VCMPPS $1, %s, %s, K1", v.R(5), v.R(2))
				k.I("KMOVW K1, AX")
				k.I("CMPL AX, $0xffff")
			} else {
				k.I("VCMPPS $1, %s, %s, %s", v.R(5), v.R(2), v.R(2))
				k.I("VMOVMSKPS %s, AX", v.R(2))
				k.I("CMPL AX, $0xff")
			}
			k.I("JNE end")
			k.I("VCVTTPS2DQ %[1]s, %[1]s", x)
		})
		k.parts(func(i int, x string) { k.I("VMOVDQU%s %s, %d(DI)", suffix(v), x, i*v.Size()) })
		k.I("ADDQ $64, DI")
		k.I("ADDQ $64, SI")
	})
	k.Label("end")
	k.Load("n", "AX")
	k.I("SUBQ CX, AX")
	k.I("MOVQ AX, %s", k.Addr("done"))
	k.Ret()
	return name
}

// pack stores the lowest bytes or words of the 16 lanes in vector 0, or in 0 and 1, which are not more.
func (k kernel) pack(size int) {
	if k.v.Masks {
		k.I("VPMOVD%s Z0, (DI)", map[int]string{1: "B", 2: "W"}[size])
		return
	}
	k.I("VPACKUSDW Y1, Y0, Y0")
	k.I("VPERMQ $0xd8, Y0, Y0")
	if size == 2 {
		k.I("VMOVDQU Y0, (DI)")
		return
	}
	k.I("VEXTRACTI128 $1, Y0, X1")
	k.I("VPACKUSWB X1, X0, X0")
	k.I("VMOVDQU X0, (DI)")
}

func stores(f *asm.File, v asm.ISA) {
	args := []asm.Arg{asm.Typed("dst", "*byte"), asm.Typed("lanes", "*int32")}
	code := "switch to {\n"
	for _, size := range []int{1, 2} {
		k, name := start(f, v, fmt.Sprintf("low%d", 8*size), "keeps the lowest bits.", args...)
		k.constant(1<<(8*size)-1, 4)
		k.groups(16*size, 64, func() {
			k.parts(func(i int, x string) {
				k.I("VMOVDQU%s %d(SI), %s", suffix(v), i*v.Size(), x)
				if !v.Masks {
					k.I("VPAND Y4, %[1]s, %[1]s", x)
				}
			})
			k.pack(size)
		})
		code += fmt.Sprintf("case bits%d:\n%s(dst, lanes, n)\n", 8*size, name)
	}
	for _, e := range []struct{ name, extend, doc string }{{"zeros", "VPMOVZXDQ", "zeros"}, {"signs", "VPMOVSXDQ", "signs"}} {
		k, name := start(f, v, e.name, "extends lanes to 64 bits by "+e.doc+".", args...)
		k.groups(128, 64, func() {
			for i := range 32 / v.Lanes {
				k.I("%s %d(SI), %s", e.extend, i*v.Size()/2, v.R(i))
				k.I("VMOVDQU%s %s, %d(DI)", suffix(v), v.R(i), i*v.Size())
			}
		})
		code += map[string]string{"zeros": "case bits64:\nif unsigned {\n" + name + "(dst, lanes, n)\n} else {\n", "signs": name + "(dst, lanes, n)\n}\n"}[e.name]
	}
	k, name := start(f, v, "floats", "makes floats of lanes, in their place or elsewhere.", args...)
	k.groups(64, 64, func() {
		k.parts(func(i int, x string) {
			k.I("VCVTDQ2PS %d(SI), %s", i*v.Size(), x)
			k.I("VMOVUPS %s, %d(DI)", x, i*v.Size())
		})
	})
	f.Serve("store", v, fmt.Sprintf("%scase half:\n%s(dst, lanes, n)\ncase brain:\n%s(dst, lanes, n)\ncase double:\n"+doublesOf+"(dst, lanes, n)\ndefault:\n%s(dst, lanes, n)\n}", code, half(f, v, args), brain(f, v, args), name))
}

// half writes what makes float16 of lanes: those of 2^17 are infinite, and those between are the same in float32.
func half(f *asm.File, v asm.ISA, args []asm.Arg) string {
	k, name := start(f, v, "half", "makes float16 of lanes.", args...)
	k.constant(1<<17, 4)
	k.constant(-(1<<17)&0xffffffff, 5)
	k.groups(32, 64, func() {
		k.parts(func(i int, x string) {
			k.I("VMOVDQU%s %d(SI), %s", suffix(v), i*v.Size(), x)
			k.I("VPMINSD %s, %[2]s, %[2]s", v.R(4), x)
			k.I("VPMAXSD %s, %[2]s, %[2]s", v.R(5), x)
			k.I("VCVTDQ2PS %[1]s, %[1]s", x)
			k.I("VCVTPS2PH $0, %s, %d(DI)", x, i*v.Size()/2)
		})
	})
	return name
}

// brain writes what makes bfloat16 of lanes. Of those with more digits than float32 has the last seven are joined in one that is set where one of
// them is, which rounds alike.
func brain(f *asm.File, v asm.ISA, args []asm.Arg) string {
	k, name := start(f, v, "brain", "makes bfloat16 of lanes.", args...)
	k.constant(0x7f, 4)
	k.constant(0xffffff80, 5)
	k.constant(1, 6)
	k.constant(0x7fff, 7)
	k.I("VPXOR%s %[2]s, %[2]s, %[2]s", map[bool]string{true: "D"}[v.Masks], v.R(8))
	d := map[bool]string{true: "D"}[v.Masks] // bitwise operations name lanes where there are masks for them
	k.groups(32, 64, func() {
		k.parts(func(i int, x string) {
			joined, most := v.R(2), v.R(3)
			k.I("VMOVDQU%s %d(SI), %s", suffix(v), i*v.Size(), x)
			k.I("VPAND%s %s, %s, %s", d, v.R(4), x, joined)
			k.I("VPADDD %s, %[2]s, %[2]s", v.R(4), joined)
			k.I("VPOR%s %s, %[3]s, %[3]s", d, x, joined)
			k.I("VPAND%s %s, %[3]s, %[3]s", d, v.R(5), joined)
			k.I("VPABSD %s, %s", x, most)
			k.I("VPSRLD $24, %[1]s, %[1]s", most)
			if v.Masks {
				k.I("VPTESTMD %[1]s, %[1]s, K1", most)
				k.I("VMOVDQA32 %s, K1, %s", joined, x)
			} else {
				k.I("VPCMPEQD %s, %[2]s, %[2]s", v.R(8), most)
				k.I("VPBLENDVB %s, %[2]s, %[3]s, %[2]s", most, x, joined)
			}
			k.I("VCVTDQ2PS %[1]s, %[1]s", x)
			k.I("VPSRLD $16, %s, %s", x, joined)
			k.I("VPAND%s %s, %[3]s, %[3]s", d, v.R(6), joined)
			k.I("VPADDD %s, %[2]s, %[2]s", v.R(7), joined)
			k.I("VPADDD %s, %[2]s, %[2]s", joined, x)
			k.I("VPSRLD $16, %[1]s, %[1]s", x)
		})
		k.pack(2)
	})
	return name
}

func truths(f *asm.File, v asm.ISA) {
	call := map[bool]string{}
	for _, shift := range []bool{false, true} {
		k, name := start(f, v, map[bool]string{false: "truths", true: "shiftedTruths"}[shift], "writes which lanes are not 0.", asm.Typed("dst", "*byte"), asm.Typed("lanes", "*int32"))
		k.constant(1, 4)
		k.Clear(v, v.R(5))
		k.groups(16, 64, func() {
			k.parts(func(i int, x string) {
				k.I("VMOVDQU%s %d(SI), %s", suffix(v), i*v.Size(), x)
				if shift {
					k.I("VPADDD %[1]s, %[1]s, %[1]s", x)
				}
				if v.Masks {
					k.I("VPTESTMD %[1]s, %[1]s, K1", x)
					k.I("VMOVDQA32.Z %s, K1, %s", v.R(4), x)
				} else {
					k.I("VPCMPEQD Y5, %[1]s, %[1]s", x)
					k.I("VPANDN Y4, %[1]s, %[1]s", x)
				}
			})
			k.pack(1)
		})
		call[shift] = name + "(dst, lanes, n)"
	}
	f.Serve("truths", v, fmt.Sprintf("if shift {\n%s\n} else {\n%s\n}", call[true], call[false]))
}

func bits(f *asm.File, v asm.ISA) {
	k, name := start(f, v, "bits", "writes which bytes are not 0: the smaller of each and 1.", asm.Typed("dst", "*byte"), asm.Typed("src", "*byte"))
	k.constant(0x01010101, 4)
	k.groups(64, 64, func() {
		for i := range 64 / v.Size() {
			k.I("VPMINUB %d(SI), %s, %s", i*v.Size(), v.R(4), v.R(i))
			k.I("VMOVDQU%s %s, %d(DI)", suffix(v), v.R(i), i*v.Size())
		}
	})
	f.Serve("bits", v, name+"(dst, src, n)")
}
