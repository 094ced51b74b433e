//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// planarRows lists the rows of a kernel on a planar source for which there is code: of three, five and seven taps, in tiles that are whole or lack one pixel, as
// those of a row are, within the map and, with as much padding as keeps its size or halves it, at its ends. Within it all strides have the same code.
func (k *kernel) planarRows() []rowBody {
	if k.isa != asm.AVX2() || !k.points() {
		return nil
	}
	var out []rowBody
	for _, kernel := range []int{3, 5, 7} {
		for width := k.pixels; width >= k.pixels-1; width-- {
			out = append(out, rowBody{kernel: kernel, stride: 1, width: width})
			for stride := 1; stride <= 2; stride++ {
				out = append(out, rowBody{kernel: kernel, stride: stride, width: width, lo: kernel / 2})
				for hi := kernel / 2; hi > max(0, kernel/2-stride); hi-- { // of maps of odd and of even width
					out = append(out, rowBody{kernel: kernel, stride: stride, width: width, hi: hi})
				}
			}
		}
	}
	return out
}

// planes reports whether the kernel has code of its own for tiles of a planar source whose list is one tap, of rows of the kernel in all channels.
func (k *kernel) planes() bool { return k.kind == dense && len(k.rows()) > 0 }

// planar emits the beginning of such a tile and its end. BX is the tile, R8 to R11 and R15 stay what they are from one tile to the next. Three channels of three by three
// taps are 540 instructions, and what is beside them here 110; by way of the general code it is 215, which counts where another thread has its share of the core.
func (k *kernel) planar() {
	fn := k.fn
	k.text("planar")
	k.multiples(offSrcCol)
	fn.I("MOVQ %d(R14), R11", offWOC)
	fn.I("MOVQ %d(R14), R15", offSrcBlk)
	fn.I("JMP %s_planartile<>(SB)", k.name)
	k.text("planartile")
	fn.I("MOVQ %d(R14), BX", offAt)
	fn.I("CMPQ %d(BX), $0", tileSingle)
	fn.I("JEQ %s_planarother", k.name)
	fn.I("MOVQ %d(R14), AX", offBias)
	k.fromBias("AX")
	fn.I("MOVQ %d(R14), AX", offDst)
	fn.I("ADDQ %d(BX), AX", tileSize+24) // see fetchResults
	for q := range k.blocks {
		for p := range k.pixels {
			fn.I("PREFETCHT0 %d(AX)", 64*p)
		}
		if q+1 < k.blocks {
			fn.I("ADDQ %d(R14), AX", offDstOC)
		}
	}
	fn.I("MOVQ %d(R14), CX", offTaps)
	fn.I("MOVQ %d(R14), SI", offSrc)
	fn.I("MOVQ %d(R14), DI", offW)
	fn.I("ADDQ (BX), CX")
	fn.I("ADDQ 16(BX), SI")
	fn.I("ADDQ (CX), SI")
	fn.I("ADDQ 8(CX), DI")
	fn.I("MOVQ 16(CX), R13")
	fn.I("MOVQ 48(CX), R12")
	fn.I("MOVQ 24(CX), AX")
	fn.I("JMP AX")
	fn.Label(k.name + "_planarother")
	fn.I("JMP %s_tile<>(SB)", k.name)
	for n := k.pixels; n >= k.pixels-1; n-- {
		k.planarResults(n)
	}
}

// planarRow emits the i-th body of rows, for as many rows of the kernel below each other as the tap says, R13 bytes of weights, in R12 channels of the
// source. The place of the tap behind it has what moves on from channel to channel.
func (k *kernel) planarRow(i int, r rowBody) {
	fn := k.fn
	channel, row := fmt.Sprintf("%s_r%d_channel", k.name, i), fmt.Sprintf("%s_r%d_row", k.name, i)
	n := (r.width-1)*r.stride + r.kernel
	fn.I("PCALIGN $64")
	fn.Label(channel)
	fn.I("LEAQ (DI)(R13*1), DX")
	fn.Label(row)
	k.alone = true
	for t := range r.kernel {
		k.channel(t, func(op func(p int)) {
			for p := range r.width {
				if j := p*r.stride + t; r.lo <= j && j < n-r.hi {
					op(p)
				}
			}
		})
	}
	k.alone = false
	fn.I("ADDQ $%d, DI", 64*r.kernel)
	fn.I("ADDQ R15, SI")
	fn.I("CMPQ DI, DX")
	fn.I("JNE %s", row)
	fn.I("ADDQ 32(CX), SI")
	fn.I("ADDQ 40(CX), DI")
	fn.I("DECQ R12")
	fn.I("JNE %s", channel)
	fn.I("JMP %s_planarresults%d<>(SB)", k.name, r.width)
}

// planarResults emits what finish does for n pixels beside each other of such a tile, without residual and mask, which are left to it.
func (k *kernel) planarResults(n int) {
	fn := k.fn
	label := func(s string) string { return fmt.Sprintf("%s_planar%s%d", k.name, s, n) }
	k.text(fmt.Sprint("planarresults", n))
	fn.I("MOVQ %d(R14), AX", offFlags)
	fn.I("TESTQ $8, AX")
	fn.I("JNE %s", label("general"))
	fn.I("CMPQ %d(R14), $0", offRes)
	fn.I("JNE %s", label("general"))
	k.limits(n, label)
	fn.I("MOVQ 24(BX), SI")
	fn.I("ADDQ %d(R14), SI", offDst)
	k.storeBeside(n)
	fn.I("ADDQ $%d, %d(R14)", tileSize, offAt)
	fn.I("DECQ %d(R14)", offN)
	fn.I("JLE %s", label("return"))
	fn.I("JMP %s_planartile<>(SB)", k.name)
	fn.Label(label("return"))
	fn.Ret()
	fn.Label(label("general"))
	fn.I("JMP %s_fin<>(SB)", k.name)
}
