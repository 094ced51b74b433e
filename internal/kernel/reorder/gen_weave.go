//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// A weave permutes as many vectors as there are planes to as many others: lane i of result k is lane index(k, i) of source
// source(k, i). Few planes to one row of pixels, and back, are weaves.
type weave struct {
	asm.ISA
	planes int
	apart  bool // from pixels to planes, not from planes to pixels
}

// weaves writes all weaves.
func weaves(f *asm.File) {
	variants := []variant{{stream: true}, {}}
	for _, isa := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
		for planes := 2; planes <= 4; planes++ {
			for _, apart := range []bool{false, true} {
				for _, v := range variants {
					weave{isa, planes, apart}.emit(f, v)
				}
			}
		}
		serveWeaves(f, isa, variants)
	}
}

// serveWeaves makes the weaves of a set known.
func serveWeaves(f *asm.File, isa asm.ISA, variants []variant) {
	for _, apart := range []bool{false, true} {
		entry, args := "join", "(dst, src, srcStride, n)"
		if apart {
			entry, args = "part", "(dst, src, dstStride, n)"
		}
		var cases strings.Builder
		for planes := 2; planes <= 4; planes++ {
			w := weave{isa, planes, apart}
			code := choose(variants, func(v variant) string { return w.name(v) + args })
			fmt.Fprintf(&cases, "case %d:\n%s\n", planes, code)
		}
		f.Serve(entry, isa, "switch planes {\n"+cases.String()+"}")
	}
	f.Serve("weaveLanes", isa, fmt.Sprint("return ", isa.Lanes))
}

// name is the name of the weave's function.
func (w weave) name(v variant) string {
	base := "join"
	if w.apart {
		base = "part"
	}
	return v.name(base+[...]string{2: "Pairs", 3: "Triples", 4: "Quads"}[w.planes], 32*w.Lanes)
}

// flat is the place of lane i of result k among the lanes of all sources.
func (w weave) flat(k, i int) int {
	if w.apart {
		return i*w.planes + k
	}
	at := k*w.Lanes + i
	return at%w.planes*w.Lanes + at/w.planes
}

func (w weave) index(k, i int) int  { return w.flat(k, i) % w.Lanes }
func (w weave) source(k, i int) int { return w.flat(k, i) / w.Lanes }

// mask has a bit for each lane of result k that comes from source s.
func (w weave) mask(k, s int) (m int) {
	for i := range w.Lanes {
		if w.source(k, i) == s {
			m |= 1 << i
		}
	}
	return m
}

// emit emits the function of a weave.
func (w weave) emit(f *asm.File, v variant) {
	doc, stride := ` writes, of each pixel, %[1]d floats in a row, from %[1]d planes that lie srcStride bytes apart.`, "srcStride"
	if w.apart {
		doc, stride = ` writes %[1]d planes that lie dstStride bytes apart from pixels of %[1]d floats in a row.`, "dstStride"
	}
	name := w.name(v)
	fn := f.Func(name, name+fmt.Sprintf(doc+"\nThere are n times %[2]d pixels; n is at least 1.", w.planes, w.Lanes)+v.doc(),
		asm.Ptr("dst"), asm.Ptr("src"), asm.Int(stride), asm.Int("n"))
	reg, bytes := w.R, w.Size()
	// Sources lie in registers from 0 on, indices from 8 on, results from 4 on.
	var words []uint32
	for k := range w.planes {
		for i := range w.Lanes {
			words = append(words, uint32(w.index(k, i)))
		}
	}
	table := "weave" + name
	f.Data(table, words...)
	for k := range w.planes {
		fn.I("VMOVUPS %s, %s", asm.DataAt(table, k*bytes), reg(8+k))
	}
	masks := map[int]string{}
	if w.Lanes == 16 {
		for k := range w.planes {
			for s := 1; s < w.planes; s++ {
				if m := w.mask(k, s); masks[m] == "" {
					masks[m] = asm.K(1 + len(masks))
					fn.I("MOVL $%d, AX", m)
					fn.I("KMOVW AX, %s", masks[m])
				}
			}
		}
	}
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load(stride, "R8")
	fn.Load("n", "CX")
	one, many := "SI", "DI" // the side with pixels in a row, and with planes
	if !w.apart {
		one, many = "DI", "SI"
	}
	at := func(p int, pixels bool) string {
		if pixels {
			return fmt.Sprintf("%d(%s)", p*bytes, one)
		}
		return []string{fmt.Sprintf("(%s)", many), fmt.Sprintf("(%s)(R8*1)", many), fmt.Sprintf("(%s)(R8*2)", many), "(R9)(R8*1)"}[p]
	}
	far := func() {
		if w.planes == 4 {
			fn.I("LEAQ (%s)(R8*2), R9", many)
		}
	}
	fn.Loop("CX", func() {
		far()
		for s := range w.planes {
			fn.I("VMOVUPS %s, %s", at(s, w.apart), reg(s))
		}
		for k := range w.planes {
			out := reg(4 + k)
			fn.I("VPERMPS %s, %s, %s", reg(0), reg(8+k), out)
			for s := 1; s < w.planes; s++ {
				if w.Lanes == 16 {
					fn.I("VPERMPS %s, %s, %s, %s", reg(s), reg(8+k), masks[w.mask(k, s)], out)
				} else {
					fn.I("VPERMPS %s, %s, %s", reg(s), reg(8+k), reg(12))
					fn.I("VBLENDPS $%d, %s, %s, %s", w.mask(k, s), reg(12), out, out)
				}
			}
			fn.I("%s %s, %s", v.store(), out, at(k, !w.apart))
		}
		fn.I("ADDQ $%d, %s", w.planes*bytes, one)
		fn.I("ADDQ $%d, %s", bytes, many)
	})
	fn.Ret()
}
