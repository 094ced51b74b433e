//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// shortWeave is a weave of elements of one or two bytes: two of them, of 16 bytes of each plane, in the halves of registers. A result is made of all
// sources, each shuffled to the places that are its.
type shortWeave struct {
	planes, bytes int
	apart         bool // from pixels to planes
}

// shortWeaves writes all of them, for both sets.
func shortWeaves(f *asm.File) {
	for _, apart := range []bool{false, true} {
		entry, args := "joinShort", "(dst, src, srcStride, n)\n"
		if apart {
			entry, args = "partShort", "(dst, dstStride, src, n)\n"
		}
		var code strings.Builder
		code.WriteString("switch {\n")
		for planes := 2; planes <= 4; planes++ {
			for i, kind := range []string{"move8", "move16"} {
				w := shortWeave{planes, 1 + i, apart}
				w.emit(f)
				w.wide(f)
				fmt.Fprintf(&code, "case planes == %d && k == %s:\n%s", planes, kind, w.name()+args)
			}
		}
		code.WriteString("}")
		for _, isa := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
			f.Serve(entry, isa, code.String())
		}
		f.Serve(strings.Replace(entry, "Short", "Wide", 1), asm.AVX512(), strings.ReplaceAll(code.String(), "(dst", "512(dst"))
	}
}

func (w shortWeave) name() string {
	base := "join"
	if w.apart {
		base = "part"
	}
	return base + [...]string{2: "Pairs", 3: "Triples", 4: "Quads"}[w.planes] + "Of" + [...]string{1: "Bytes", 2: "Words"}[w.bytes]
}

// source is where byte i of result k comes from.
func (w shortWeave) source(k, i int) (source, at int) {
	lanes := 16 / w.bytes
	e := weave{ISA: asm.ISA{Lanes: lanes}, planes: w.planes, apart: w.apart}
	return e.source(k, i/w.bytes), e.index(k, i/w.bytes)*w.bytes + i%w.bytes
}

// table has, for each result and each source, the places of bytes in a half of a register, for both halves; others become zero.
func (w shortWeave) table(f *asm.File) string {
	var words []uint32
	for k := range w.planes {
		for s := range w.planes {
			for i := 0; i < 32; i += 4 {
				word := uint32(0)
				for b := range 4 {
					place := uint32(0x80)
					if from, at := w.source(k, (i+b)%16); from == s {
						place = uint32(at)
					}
					word |= place << (8 * b)
				}
				words = append(words, word)
			}
		}
	}
	name := "weave" + w.name()
	f.Data(name, words...)
	return name
}

func (w shortWeave) emit(f *asm.File) {
	doc, args := ` writes, of each pixel, %[1]d elements in a row, from %[1]d planes that lie srcStride bytes apart.`,
		[]asm.Arg{asm.Typed("dst", "unsafe.Pointer"), asm.Typed("src", "unsafe.Pointer"), asm.Int("srcStride"), asm.Int("n")}
	if w.apart {
		doc, args = ` writes %[1]d planes that lie dstStride bytes apart from pixels of %[1]d elements in a row.`,
			[]asm.Arg{asm.Typed("dst", "unsafe.Pointer"), asm.Int("dstStride"), asm.Typed("src", "unsafe.Pointer"), asm.Int("n")}
	}
	fn := f.Func(w.name(), w.name()+fmt.Sprintf(doc+"\nThere are n times %[2]d pixels; n is at least 1.", w.planes, 32/w.bytes), args...)
	table := w.table(f)
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	stride, one, many := "srcStride", "DI", "SI" // the side with pixels in a row, and with planes
	if w.apart {
		stride, one, many = "dstStride", "SI", "DI"
	}
	fn.Load(stride, "R8")
	fn.Load("n", "CX")
	plane := func(p int) string {
		return []string{fmt.Sprintf("(%s)", many), fmt.Sprintf("(%s)(R8*1)", many), fmt.Sprintf("(%s)(R8*2)", many), "(R9)(R8*1)"}[p]
	}
	below := func(p int) string { return fmt.Sprintf("%d(%s)", 16*p, one) }
	above := func(p int) string { return fmt.Sprintf("%d(%s)", 16*(w.planes+p), one) }
	fn.Loop("CX", func() {
		if w.planes == 4 {
			fn.I("LEAQ (%s)(R8*2), R9", many)
		}
		for s := range w.planes {
			if w.apart {
				fn.I("VMOVDQU %s, X%d", below(s), s)
				fn.I("VINSERTI128 $1, %s, Y%d, Y%d", above(s), s, s)
			} else {
				fn.I("VMOVDQU %s, Y%d", plane(s), s)
			}
		}
		for k := range w.planes {
			out := 4 + k
			for s := range w.planes {
				part := out
				if s > 0 {
					part = 8
				}
				fn.I("VPSHUFB %s, Y%d, Y%d", asm.DataAt(table, 32*(k*w.planes+s)), s, part)
				if s > 0 {
					fn.I("VPOR Y%d, Y%d, Y%d", part, out, out)
				}
			}
			if w.apart {
				fn.I("VMOVDQU Y%d, %s", out, plane(k))
			} else {
				fn.I("VMOVDQU X%d, %s", out, below(k))
				fn.I("VEXTRACTI128 $1, Y%d, %s", out, above(k))
			}
		}
		fn.I("ADDQ $%d, %s", 32*w.planes, one)
		fn.I("ADDQ $32, %s", many)
	})
	fn.Ret()
}

// wide is emit with vectors of 64 bytes, each part of which comes from anywhere in all sources, as in a weave of floats.
func (w shortWeave) wide(f *asm.File) {
	name, lanes := w.name()+"512", 64/w.bytes
	e := weave{ISA: asm.ISA{Lanes: lanes}, planes: w.planes, apart: w.apart}
	args := []asm.Arg{asm.Typed("dst", "unsafe.Pointer"), asm.Typed("src", "unsafe.Pointer"), asm.Int("srcStride"), asm.Int("n")}
	stride, one, many := "srcStride", "DI", "SI" // the side with pixels in a row, and with planes
	if w.apart {
		args = []asm.Arg{asm.Typed("dst", "unsafe.Pointer"), asm.Int("dstStride"), asm.Typed("src", "unsafe.Pointer"), asm.Int("n")}
		stride, one, many = "dstStride", "SI", "DI"
	}
	fn := f.Func(name, fmt.Sprintf("%s is %s of n times %d pixels.", name, w.name(), lanes), args...)
	words := make([]uint32, 16*w.planes)
	for k := range w.planes {
		for i := range lanes {
			at := i * w.bytes
			words[16*k+at/4] |= uint32(e.index(k, i)) << (8 * (at % 4))
		}
	}
	table := "weave" + name
	f.Data(table, words...)
	masks := map[uint64]string{}
	for k := range w.planes {
		fn.I("VMOVDQU64 %s, Z%d", asm.DataAt(table, 64*k), 8+k)
		for s := 1; s < w.planes; s++ {
			if m := w.mask(e, k, s); masks[m] == "" {
				masks[m] = asm.K(1 + len(masks))
				fn.I("MOVQ $%#x, AX", m)
				fn.I("KMOVQ AX, %s", masks[m])
			}
		}
	}
	for _, load := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {stride, "R8"}, {"n", "CX"}} {
		fn.Load(load[0], load[1])
	}
	fn.I("LEAQ (R8)(R8*2), R9")
	at := func(p int, pixels bool) string {
		if pixels {
			return fmt.Sprintf("%d(%s)", 64*p, one)
		}
		return fmt.Sprintf("(%s)%s", many, []string{"", "(R8*1)", "(R8*2)", "(R9*1)"}[p])
	}
	op := map[int]string{1: "VPERMB", 2: "VPERMW"}[w.bytes]
	fn.Loop("CX", func() {
		for s := range w.planes {
			fn.I("VMOVDQU64 %s, Z%d", at(s, w.apart), s)
		}
		for k := range w.planes {
			fn.I("%s Z0, Z%d, Z%d", op, 8+k, 4+k)
			for s := 1; s < w.planes; s++ {
				fn.I("%s Z%d, Z%d, %s, Z%d", op, s, 8+k, masks[w.mask(e, k, s)], 4+k)
			}
			fn.I("VMOVDQU64 Z%d, %s", 4+k, at(k, !w.apart))
		}
		fn.I("ADDQ $%d, %s", 64*w.planes, one)
		fn.I("ADDQ $64, %s", many)
	})
	fn.Ret()
}

// mask has a bit for each element of result k that comes from source s.
func (w shortWeave) mask(e weave, k, s int) (m uint64) {
	for i := range e.Lanes {
		if e.source(k, i) == s {
			m |= 1 << i
		}
	}
	return m
}
