//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// lines reports whether the kernel has code of its own for convolutions with a single tap on a map that is one long row: pixels of the source and of the result
// lie beside each other, so that they are addressed from one register, and what else tiles need stays in registers from one to the next.
func (k *kernel) lines() bool { return k.points() && k.isa == asm.AVX2() }

// line emits the tiles of such a call. SI and BX are 128 bytes behind the first and the fifth pixel, so that offsets take a byte each; DX is the tile, R9 how many there are left, R8 and R10 where results and the source begin, R12 and R13 the bytes between
// blocks of channels of the source and the weights. A short sum of 16 channels has 320 instructions, and what is beside them here 70; by way of the tile of point it is
// about 130, which counts where another thread has its share of the core. Tiles of other sizes than pointSizes and masks are left to the general code.
func (k *kernel) line() {
	fn := k.fn
	label := func(s string) string { return k.name + "_line" + s }
	k.text("line")
	fn.I("MOVQ %d(R14), DX", offAt)
	fn.I("MOVQ %d(R14), R9", offN)
	fn.I("MOVQ %d(R14), R8", offDst)
	fn.I("MOVQ %d(R14), R10", offSrc)
	fn.I("MOVQ %d(R14), R11", offWOC)
	fn.I("MOVQ %d(R14), R12", offSrcBlk)
	fn.I("MOVQ %d(R14), R13", offW)
	fn.Label(label("tile"))
	fn.I("MOVQ %d(DX), AX", tileSize+24)
	fn.I("MOVQ %d(R14), DI", offBias)
	fn.I("MOVQ %d(R14), SI", offRes)
	k.fromBias("DI")
	fetch := func(at string) { // see fetchResults
		for q := range k.blocks {
			for p := range k.pixels {
				fn.I("PREFETCHT0 %d(%s)", 64*p, at)
			}
			if q+1 < k.blocks {
				fn.I("ADDQ %d(R14), %s", offDstOC, at)
			}
		}
	}
	fn.I("TESTQ SI, SI")
	fn.I("JEQ %s", label("alone"))
	fn.I("ADDQ AX, SI")
	fetch("SI")
	fn.Label(label("alone"))
	fn.I("ADDQ R8, AX")
	fetch("AX")
	fn.I("MOVQ 16(DX), SI")
	fn.I("LEAQ 128(SI)(R10*1), SI") // see pixel
	fn.I("LEAQ 256(SI), BX")
	fn.I("MOVQ 32(DX), AX")
	fn.I("ADDQ 40(DX), AX")
	fn.I("MOVQ %d(R14), CX", offFull)
	fn.I("MOVQ R13, DI")
	for _, n := range k.pointSizes() {
		fn.I("CMPQ AX, $%d", n)
		fn.I("JEQ %s", label(fmt.Sprint("of", n)))
	}
	fn.I("MOVQ DX, %d(R14)", offAt)
	fn.I("MOVQ R9, %d(R14)", offN)
	fn.I("JMP %s_tile<>(SB)", k.name)
	k.beside = true
	for _, n := range k.pointSizes() {
		fn.Label(label(fmt.Sprint("of", n)))
		k.lineSum(n)
		k.lineResults(n)
		fn.I("ADDQ $%d, DX", tileSize)
		fn.I("DECQ R9")
		fn.I("JNE %s", label("tile"))
		fn.Ret()
	}
	k.beside = false
	fn.Label(label("general"))
	fn.I("MOVQ DX, %d(R14)", offAt)
	fn.I("MOVQ R9, %d(R14)", offN)
	fn.I("JMP %s_fin<>(SB)", k.name)
}

// lineSum emits the sums of n pixels, over CX blocks of channels and what is left of another.
func (k *kernel) lineSum(n int) {
	fn := k.fn
	label := func(s string) string { return fmt.Sprintf("%s_line%s%d", k.name, s, n) }
	steps := func(count int) {
		for u := range count {
			k.channel(u, func(op func(p int)) {
				for p := range n {
					op(p)
				}
			})
		}
		fn.I("ADDQ $%d, DI", 64*count)
	}
	fn.I("TESTQ CX, CX")
	fn.I("JEQ %s", label("rest"))
	fn.I("PCALIGN $64")
	fn.Label(label("block"))
	steps(16)
	k.fetchBehind(label, "SI")
	fn.I("ADDQ R12, SI")
	fn.I("ADDQ R12, BX")
	fn.I("DECQ CX")
	fn.I("JNE %s", label("block"))
	fn.Label(label("rest"))
	fn.I("MOVQ %d(R14), CX", offRest)
	const unroll = 4
	fn.I("SUBQ $%d, CX", unroll)
	fn.I("JLT %s", label("few"))
	fn.Label(label("four"))
	steps(unroll)
	fn.I("ADDQ $%d, SI", 4*unroll)
	fn.I("ADDQ $%d, BX", 4*unroll)
	fn.I("SUBQ $%d, CX", unroll)
	fn.I("JGE %s", label("four"))
	fn.Label(label("few"))
	fn.I("ADDQ $%d, CX", unroll)
	fn.I("JEQ %s", label("sum"))
	fn.Label(label("channel"))
	steps(1)
	fn.I("ADDQ $4, SI")
	fn.I("ADDQ $4, BX")
	fn.I("DECQ CX")
	fn.I("JNE %s", label("channel"))
	fn.Label(label("sum"))
}

// lineResults emits what finish does for n pixels beside each other, without mask.
func (k *kernel) lineResults(n int) {
	fn := k.fn
	label := func(s string) string { return fmt.Sprintf("%s_line%s%d", k.name, s, n) }
	fn.I("MOVQ %d(R14), AX", offFlags)
	fn.I("TESTQ $8, AX")
	fn.I("JNE %s_linegeneral", k.name)
	fn.I("MOVQ %d(R14), SI", offRes)
	fn.I("TESTQ SI, SI")
	fn.I("JEQ %s", label("nores"))
	fn.I("ADDQ 24(DX), SI")
	for q := range k.blocks {
		for p := range n {
			for h := range k.halvesOf(q) {
				a := k.acc(p, q*k.halves()+h)
				fn.I("VADDPS %s, %s, %s", k.pixel(p, 32*h, "SI", ""), a, a)
			}
		}
		if q+1 < k.blocks {
			fn.I("ADDQ %d(R14), SI", offDstOC)
		}
	}
	fn.Label(label("nores"))
	fn.I("MOVQ 24(DX), SI")
	fn.I("ADDQ R8, SI")
	k.limits(n, label)
	k.storeBeside(n)
}

// storeBeside stores n pixels that lie beside each other, from SI on, and zeros where half of a block is not computed.
func (k *kernel) storeBeside(n int) {
	fn := k.fn
	was := k.beside
	k.beside = true
	if k.lower {
		fn.I("VXORPS %s, %s, %s", k.free(0), k.free(0), k.free(0))
	}
	for q := range k.blocks {
		for p := range n {
			for h := range k.halvesOf(q) {
				fn.I("VMOVUPS %s, %s", k.acc(p, q*k.halves()+h), k.pixel(p, 32*h, "SI", ""))
			}
			if k.lower && q == k.blocks-1 {
				fn.I("VMOVUPS %s, %s", k.free(0), k.pixel(p, 32, "SI", ""))
			}
		}
		if q+1 < k.blocks {
			fn.I("ADDQ %d(R14), SI", offDstOC)
		}
	}
	k.beside = was
}
