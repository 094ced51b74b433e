//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// points reports whether the kernel has code of its own for convolutions with a single tap, which all pixels of a tile reach.
func (k *kernel) points() bool {
	return k.kind == dense && !k.passes && (k.isa == asm.AVX2() || k.isa == asm.AVX512())
}

// pointsFlag is the flag of a call that asks for it.
func (k *kernel) pointsFlag() int {
	if k.isa == asm.AVX2() {
		return flagPoints
	}
	return flagWidePoints
}

// pointSizes are how many pixels tiles may have for which there is code: a row is cut into tiles that are whole or lack one pixel, and where wide vectors
// leave room for many, small maps into shorter ones. Others are left to the general code.
func (k *kernel) pointSizes() (list []int) {
	least := k.pixels - 1
	if k.isa != asm.AVX2() {
		least = k.pixels/2 + 1
	}
	for n := k.pixels; n >= least; n-- {
		list = append(list, n)
	}
	return list
}

// pointKey is what a tile of so many pixels in a row is known by: their number, or with wide vectors the numbers of both groups.
func (k *kernel) pointKey(n int) int {
	if k.isa == asm.AVX2() {
		return n
	}
	return min(n, k.group)<<4 + max(n-k.group, 0)
}

// point emits the tile of a convolution with a single tap: what start, lists and the tap's body do, with a loop over blocks of channels in
// registers. Of a short sum the rest is a third of the instructions otherwise. Tiles of other sizes than pointSizes are left to the general code.
func (k *kernel) point() {
	fn := k.fn
	k.text("point")
	if k.lines() {
		fn.I("TESTQ $%d, %d(R14)", flagLine, offFlags)
		fn.I("JNE %s_along", k.name)
	}
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
	if k.isa != asm.AVX2() { // where tiles of two rows may have as many pixels as one of a single row, in other groups
		fn.I("SHLQ $4, AX")
	}
	fn.I("ADDQ 40(DX), AX")
	for _, n := range k.pointSizes() {
		label := fmt.Sprintf("%s_not%d", k.name, n)
		fn.I("CMPQ AX, $%d", k.pointKey(n))
		fn.I("JNE %s", label)
		k.pointSum(n)
		fn.I("JMP %s_fin<>(SB)", k.name)
		fn.Label(label)
	}
	fn.I("JMP %s_tile<>(SB)", k.name)
	if k.lines() {
		fn.Label(k.name + "_along")
		fn.I("JMP %s_line<>(SB)", k.name)
	}
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
	if k.isa == asm.AVX2() {
		steps(16)
		k.fetchBehind(label, "SI")
		fn.I("ADDQ R12, SI")
		fn.I("ADDQ R12, BX")
		fn.I("ADDQ $%d, DI", 16*64)
	} else {
		k.pointBlock(label, n, steps)
	}
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

// pointBlock emits the sums over a block of channels with wide vectors, and has the first-level cache fetch the pixels of the next one, or of the next
// tile: they lie apart, and all are wanted at once, while a step of the sums has so many multiply-adds that few of the next are under way.
func (k *kernel) pointBlock(label func(string) string, n int, steps func(count int)) {
	fn := k.fn
	const unroll = 2
	fn.I("LEAQ (SI)(R12*1), AX")
	fn.I("CMPQ CX, $1")
	fn.I("JNE %s", label("more"))
	fn.I("MOVQ %d(R14), AX", offAt)
	fn.I("MOVQ %d(AX), AX", tileSize+16)
	fn.I("ADDQ %d(R14), AX", offSrc)
	fn.Label(label("more"))
	fn.I("LEAQ %d(DI), DX", 16*64)
	fn.I("PCALIGN $64")
	fn.Label(label("steps"))
	steps(unroll)
	for range unroll {
		fn.I("PREFETCHT0 (AX)")
		fn.I("ADDQ R8, AX")
	}
	fn.I("ADDQ $%d, SI", 4*unroll)
	fn.I("ADDQ $%d, BX", 4*unroll)
	fn.I("ADDQ $%d, DI", 64*unroll)
	fn.I("CMPQ DI, DX")
	fn.I("JNE %s", label("steps"))
	fn.I("SUBQ $64, SI")
	k.fetchBehind(label, "SI")
	fn.I("ADDQ R12, SI")
	fn.I("LEAQ -64(BX)(R12*1), BX")
}
