//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// signsHeight is the most rows of a tile of magnitudes.
const signsHeight = 4

// pairsTurned is the number of the kind of operands that are turned: kernels of signs end as it does.
const pairsTurned = 2

// signs writes the kernels that multiply magnitudes of A by elements of B with A's signs, for AVX2.
func signs(f *asm.File) {
	var code string
	for height := 1; height <= signsHeight; height++ {
		t := &signed{paired{kind: pairsTurned, height: height, optional: true}}
		code += fmt.Sprintf("case %d:\n%s(p, a, b, start, c, n, p.columns)\n", height, t.emit(f))
	}
	f.Serve("callSigns", asm.AVX2(), "switch height {\n"+code+"}")
	f.Serve("magnitudes", asm.AVX2(), fmt.Sprintf("return %s(dst, src, distance, turned, n)", magnitudes(f)))
}

// signed is a kernel as paired is, of rows of magnitudes whose signs lie so many bytes behind them; see signs.go.
//
// Registers: R12 to R15 are, within the loop, the rows' signs, DX the first half of the next panel and SI the distance of the second. Vectors 0 to 7 are sums, 8 signs of a quad of A, 9 its magnitudes, 10 and 11 products, 12 and 13 a quad
// of B, 15 words of one.
type signed struct{ paired }

func (t *signed) emit(f *asm.File) string {
	name := fmt.Sprintf("signs_%d", t.height)
	t.begin(f, name)
	wordsOfOne(t.Func)
	for r := range t.height {
		t.I("MOVQ %s, %s", row(r), signRow(r))
		t.I("ADDQ %d(DI), %s", offPairsSigns, signRow(r))
	}
	t.I("LEAQ (AX)(SI*1), DX")
	t.I("MOVQ CX, SI")
	t.I("SHLQ $5, SI")
	unrolled(t.Func, 2, t.quad, func(n int) {
		if n == 2 { // the next panel is fetched, as nextPanel does
			t.I("PREFETCHT1 (DX)")
			t.I("PREFETCHT1 (DX)(SI*1)")
			t.I("ADDQ $64, DX")
		}
		t.I("ADDQ $%d, BX", 4*n)
		t.I("ADDQ $%d, AX", 64*n)
	})
	t.I("MOVQ %d(DI), SI", offPairsLDB)
	t.end()
	return name
}

// signRow is the register of a row's signs.
func signRow(r int) string { return fmt.Sprintf("R%d", 12+r) }

// quad emits four k.
func (t *signed) quad(u int) {
	for j := range 2 {
		t.I("VMOVDQU %d(AX), Y%d", 64*u+32*j, 12+j)
	}
	for r := range t.height {
		t.I("VPBROADCASTD %d(%s)(BX*1), Y8", 4*u, signRow(r))
		t.I("VPBROADCASTD %d(%s)(BX*1), Y9", 4*u, row(r))
		for j := range 2 {
			t.I("VPXOR Y8, Y%d, Y%d", 12+j, 10+j)
			t.I("VPMADDUBSW Y%[1]d, Y9, Y%[1]d", 10+j)
			addWords(t.Func, 10+j, 2*r+j)
		}
	}
}

// magnitudes writes the kernel that makes magnitudes and signs of a row, and returns its name.
//
// Registers: DI dst, SI src, R8 distance, CX groups left. Vectors: 0 elements, 1 magnitudes, 2 signs, 11 upper bits or zeros, 12 sums of the magnitudes of negative
// elements and 13 of all, 14 zeros, 15 what signs are turned by.
func magnitudes(f *asm.File) string {
	const name = "magnitudes2"
	fn := f.Func(name, name+" writes the magnitudes of n groups of 32 signed bytes, n > 0, and so many bytes behind them their signs, all bits or none, with upper bits turned around where turned is 1. It returns the sum of all magnitudes and, in the upper half, of those of negative elements.",
		asm.Typed("dst", "*byte"), asm.Typed("src", "*byte"), asm.Int("distance"), asm.Int("turned"), asm.Int("n"))
	fn.Result("sums", "int")
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("distance", "R8")
	fn.Load("turned", "AX")
	fn.Load("n", "CX")
	fn.I("VPXOR Y14, Y14, Y14")
	fn.I("VPXOR Y12, Y12, Y12")
	fn.I("VPXOR Y13, Y13, Y13")
	fn.I("VPXOR Y15, Y15, Y15")
	fn.I("TESTQ AX, AX")
	fn.I("JZ plain")
	fn.I("VMOVDQU %s, Y15", asm.DataAt(upperBits, 0))
	fn.Label("plain")
	fn.Loop("CX", func() {
		fn.I("VMOVDQU (SI), Y0")
		fn.I("VPABSB Y0, Y1")
		fn.I("VPCMPGTB Y0, Y14, Y2")
		fn.I("VPAND Y1, Y2, Y3")
		fn.I("VPSADBW Y14, Y1, Y4")
		fn.I("VPSADBW Y14, Y3, Y3")
		fn.I("VPADDQ Y4, Y13, Y13")
		fn.I("VPADDQ Y3, Y12, Y12")
		fn.I("VPXOR Y15, Y2, Y2")
		fn.I("VMOVDQU Y1, (DI)")
		fn.I("VMOVDQU Y2, (DI)(R8*1)")
		fn.I("ADDQ $32, SI")
		fn.I("ADDQ $32, DI")
	})
	for v := 12; v < 14; v++ {
		fn.I("VEXTRACTI128 $1, Y%d, X0", v)
		fn.I("VPADDQ X0, X%[1]d, X%[1]d", v)
		fn.I("VPSRLDQ $8, X%d, X0", v)
		fn.I("VPADDQ X0, X%[1]d, X%[1]d", v)
	}
	fn.I("VMOVQ X12, AX")
	fn.I("VMOVQ X13, BX")
	fn.I("SHLQ $32, AX")
	fn.I("ORQ BX, AX")
	fn.I("MOVQ AX, %s", fn.Addr("sums"))
	fn.Ret()
	return name
}
