//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// points reports whether the kernel has code of its own for convolutions with a single tap, which all pixels of a tile reach. Tiles of wide vectors
// gain nothing by it.
func (k *kernel) points() bool { return k.kind == dense && k.isa == asm.AVX2() && !k.passes }

// point emits the tile of a convolution with a single tap: what start, lists and the tap's body do, with a loop over blocks of channels in
// registers. Of a short sum the rest is a third of the instructions otherwise. A row is cut into tiles that are whole or lack one pixel; others
// are left to the general code.
func (k *kernel) point() {
	fn := k.fn
	k.text("point")
	fn.I("MOVQ %d(R14), DX", offAt)
	fn.I("MOVQ %d(R14), AX", offBias)
	k.fromBias("AX")
	k.multiples(offDstCol)
	k.fetchResults()
	k.multiples(offSrcCol)
	fn.I("MOVQ %d(R14), SI", offSrc)
	fn.I("ADDQ 16(DX), SI")
	k.groupB()
	fn.I("MOVQ %d(R14), DI", offW)
	fn.I("MOVQ %d(R14), R11", offWOC)
	fn.I("MOVQ %d(R14), R12", offSrcBlk)
	fn.I("MOVQ %d(R14), CX", offFull)
	fn.I("MOVQ 32(DX), AX")
	fn.I("ADDQ 40(DX), AX")
	for _, n := range []int{k.pixels, k.pixels - 1} {
		label := fmt.Sprintf("%s_not%d", k.name, n)
		fn.I("CMPQ AX, $%d", n)
		fn.I("JNE %s", label)
		k.pointSum(n)
		fn.I("JMP %s_fin<>(SB)", k.name)
		fn.Label(label)
	}
	fn.I("JMP %s_tile<>(SB)", k.name)
}

// pointSum emits the sums of n pixels, over CX blocks of channels and what is left of another.
func (k *kernel) pointSum(n int) {
	fn := k.fn
	label := func(s string) string { return fmt.Sprintf("%s_%s%d", k.name, s, n) }
	steps := func(count int) {
		for u := range count {
			k.channel(u, func(op func(p int)) {
				for p := range n {
					op(p)
				}
			})
		}
	}
	fn.I("TESTQ CX, CX")
	fn.I("JEQ %s", label("rest"))
	fn.I("PCALIGN $64")
	fn.Label(label("block"))
	steps(16)
	k.fetchBehind(label, "SI")
	fn.I("ADDQ R12, SI")
	fn.I("ADDQ R12, BX")
	fn.I("ADDQ $%d, DI", 16*64)
	fn.I("DECQ CX")
	fn.I("JNE %s", label("block"))
	fn.Label(label("rest"))
	fn.I("MOVQ %d(R14), CX", offRest)
	fn.I("TESTQ CX, CX")
	fn.I("JEQ %s", label("sum"))
	fn.Label(label("channel"))
	steps(1)
	fn.I("ADDQ $4, SI")
	fn.I("ADDQ $4, BX")
	fn.I("ADDQ $64, DI")
	fn.I("DECQ CX")
	fn.I("JNE %s", label("channel"))
	fn.Label(label("sum"))
}
