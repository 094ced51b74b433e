//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// alongs reports whether the kernel has code of its own for tiles of a row whose list is one tap, of whole rows of a depthwise kernel.
func (k *kernel) alongs() bool {
	return k.kind == depth && k.isa == asm.AVX2() && k.passes && len(k.rows()) > 0
}

// along emits the beginning of such a tile, at DX: start and next without what only other lists need. Three rows of three taps are 135 instructions,
// and what is beside them some 80 here; by way of start and finish it is 115.
func (k *kernel) along() {
	fn := k.fn
	k.text("along")
	fn.I("MOVQ %d(R14), DX", offAt)
	fn.Label(k.name + "_alongtile")
	fn.I("CMPQ %d(DX), $0", tileSingle)
	fn.I("JEQ %s_alongother", k.name)
	fn.I("MOVQ %d(R14), BX", offPass)
	fn.I("MOVQ %d(R14), CX", offTaps)
	fn.I("MOVQ %d(R14), SI", offSrc)
	fn.I("MOVQ %d(R14), DI", offW)
	fn.I("MOVQ %d(R14), AX", offBias)
	fn.I("ADDQ (DX), CX")
	fn.I("ADDQ 16(DX), SI")
	fn.I("ADDQ (CX), SI")
	fn.I("ADDQ 8(CX), DI")
	fn.I("ADDQ BX, SI")
	fn.I("ADDQ BX, DI")
	fn.I("ADDQ BX, AX")
	k.fromBias("AX")
	fn.I("TESTQ BX, BX")
	fn.I("JNE %s_alongfetched", k.name)
	fn.I("MOVQ 24(DX), AX")
	fn.I("ADDQ %d(R14), AX", offDst)
	for p := range k.pixels {
		fn.I("PREFETCHT0 %d(AX)", 64*p)
	}
	fn.Label(k.name + "_alongfetched")
	fn.I("MOVQ 24(CX), AX")
	fn.I("ADDQ $32, CX")
	fn.I("JMP AX")
	fn.Label(k.name + "_alongother")
	fn.I("JMP %s_tile<>(SB)", k.name)
}

// leastAlong is the fewest pixels of a tile that alongResults stores, as a part of those of a whole one.
func (k *kernel) leastAlong() int { return k.pixels/2 + 2 }

// alongResults emits what finish does where flagLine says that results lie beside each other: for tiles of many pixels, without residual and mask. Others
// are left to what comes behind it.
func (k *kernel) alongResults() {
	fn := k.fn
	other := k.name + "_other"
	fn.I("MOVQ %d(R14), AX", offFlags)
	fn.I("TESTQ $%d, AX", flagLine)
	fn.I("JEQ %s", other)
	fn.I("TESTQ $8, AX")
	fn.I("JNE %s", other)
	fn.I("CMPQ %d(R14), $0", offRes)
	fn.I("JNE %s", other)
	fn.I("MOVQ 32(DX), DI")
	fn.I("ADDQ 40(DX), DI")
	fn.I("MOVQ 24(DX), SI")
	fn.I("ADDQ %d(R14), SI", offDst)
	fn.I("ADDQ %d(R14), SI", offPass)
	k.beside = true
	for n := k.pixels; n >= k.leastAlong(); n-- {
		label := func(s string) string { return fmt.Sprintf("%s_along%s%d", k.name, s, n) }
		fn.I("CMPQ DI, $%d", n)
		fn.I("JNE %s", label("not"))
		k.limits(n, label)
		for p := range n {
			fn.I("VMOVUPS %s, %s", k.acc(p, 0), k.pixel(p, 0, "SI", ""))
		}
		fn.I("JMP %s_alongnext", k.name)
		fn.Label(label("not"))
	}
	k.beside = false
	fn.I("JMP %s", other)
	fn.Label(k.name + "_alongnext")
	fn.I("XORQ $%d, %d(R14)", k.isa.Size(), offPass)
	fn.I("JNE %s_alongagain", k.name)
	fn.I("ADDQ $%d, %d(R14)", tileSize, offAt)
	fn.I("DECQ %d(R14)", offN)
	fn.I("JLE %s_alongreturn", k.name)
	fn.Label(k.name + "_alongagain")
	fn.I("JMP %s_along<>(SB)", k.name)
	fn.Label(k.name + "_alongreturn")
	fn.Ret()
	fn.Label(other)
}
