//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// foursHeight is the most rows of a tile of fours.
const foursHeight = 4

// fours writes the kernels that add products of bytes in fours, for AVX2.
func fours(f *asm.File) {
	var code string
	for i := range pairKinds {
		for height := 1; height <= foursHeight; height++ {
			t := &four{paired{kind: i, height: height}}
			code += fmt.Sprintf("case %d:\n%s(p, a, b, start, c, n, p.columns)\n", 8*i+height, t.emit(f))
		}
	}
	f.Serve("callFours", asm.AVX2(), "switch 8*int(kind) + height {\n"+code+"}")
	f.Serve("findExcessOfFours", asm.AVX2(), fmt.Sprintf("if signed {\nreturn %s(masks, src, n)\n}\nreturn %s(masks, src, n)", findFours(f, true), findFours(f, false)))
}

// four is a kernel as paired is, of which two quads of k are multiplied at a time: their products are added in 16 bits before they become
// 32. That takes three multiplications for 64 products where pairs take four.
//
// Vectors 0 to 7 are sums, 8 to 11 two quads of B, 12 to 14 products, 15 words of one. Up to three rows leave vector 6 to products, and 7 to upper bits.
type four struct{ paired }

// lowFours is the most rows of a tile of fours that leaves two vectors.
const lowFours = 3

// low reports whether the tile does.
func (t *four) low() bool { return t.height <= lowFours }

func (t *four) emit(f *asm.File) string {
	name := fmt.Sprintf("fours%s_%d", pairKinds[t.kind].name, t.height)
	t.begin(f, name)
	wordsOfOne(t.Func)
	if t.low() {
		loadUpper(t.Func, t.kind, 7)
	}
	next := nextPanel(t.Func, asm.AVX2(), t.height)
	t.I("SHRQ $1, CX")
	t.I("JZ last")
	t.Loop("CX", func() {
		t.octet()
		next(2)
		t.I("ADDQ $8, BX")
		t.I("ADDQ $128, AX")
	})
	t.Label("last")
	t.I("TESTQ $1, %d(DI)", offPairsQuads)
	t.I("JZ done")
	t.quad()
	t.Label("done")
	t.end()
	return name
}

// octet emits eight k.
func (t *four) octet() {
	for j := range 4 {
		t.loadB(8+j, 32*j)
	}
	for r := range t.height {
		t.I("VPBROADCASTD (%s)(BX*1), Y12", row(r))
		t.products(8, 12, 13)
		t.products(9, 12, 12)
		t.I("VPBROADCASTD 4(%s)(BX*1), Y14", row(r))
		if t.low() {
			t.products(10, 14, 6)
			t.I("VPADDW Y6, Y13, Y13")
		} else { // A's quad is read twice
			t.products(10, 14, 14)
			t.I("VPADDW Y14, Y13, Y13")
			t.I("VPBROADCASTD 4(%s)(BX*1), Y14", row(r))
		}
		t.products(11, 14, 14)
		t.I("VPADDW Y14, Y12, Y12")
		addWords(t.Func, 13, 2*r)
		addWords(t.Func, 12, 2*r+1)
	}
}

// quad emits four k.
func (t *four) quad() {
	t.loadB(8, 0)
	t.loadB(9, 32)
	for r := range t.height {
		t.I("VPBROADCASTD (%s)(BX*1), Y12", row(r))
		t.products(8, 12, 13)
		t.products(9, 12, 12)
		addWords(t.Func, 13, 2*r)
		addWords(t.Func, 12, 2*r+1)
	}
}

// loadB loads half a quad of B to a vector.
func (t *four) loadB(to, off int) {
	upper := -1
	if t.low() {
		upper = 7
	}
	loadHalf(t.Func, t.kind, off, "AX", to, upper)
}

// products multiplies vectors of B and A.
func (t *four) products(b, a, to int) { multiplyBytes(t.Func, t.kind, b, a, to) }

// findFours writes the kernel that finds fours whose sum is too large, and returns its name.
func findFours(f *asm.File, signed bool) string {
	kind, most, doc := "Unsigned", 256, "add up to more than 256"
	if signed {
		kind, most, doc = "Signed", 128, "have positive or negative elements that add up to more than 128"
	}
	name := "findFours" + kind
	doc = fmt.Sprintf("%s writes for each of n groups of 32 bytes which fours %s: four bits each, two for each pair; n > 0. It returns the number of these bits.", name, doc)
	return finder(f, name, doc, most, func(fn *asm.Func) {
		if signed {
			fn.I("VPXOR Y13, Y13, Y13")
		}
	}, func(fn *asm.Func) {
		fn.I("VMOVDQU (SI), Y0")
		if signed {
			fn.I("VPMINSB Y13, Y0, Y1")
			fn.I("VPMAXSB Y13, Y0, Y0")
			fn.I("VPABSB Y1, Y1") // 128 of -128, as unsigned
			sumFours(fn, 1)
		}
		sumFours(fn, 0)
		if signed {
			fn.I("VPMAXSW Y1, Y0, Y0")
		}
	})
}

// sumFours makes words of the unsigned bytes of a vector: the sums of the fours that they belong to.
func sumFours(fn *asm.Func, v int) {
	fn.I("VPMADDUBSW Y15, Y%[1]d, Y%[1]d", v)
	fn.I("VPSHUFD $0xb1, Y%d, Y%d", v, v+2)
	fn.I("VPADDW Y%[2]d, Y%[1]d, Y%[1]d", v, v+2)
}
