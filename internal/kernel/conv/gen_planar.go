//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// planarRows lists the rows of a kernel on a planar source for which there is code: of three, five and seven taps, in tiles that are whole or lack one pixel, as
// those of a row are but at its ends. What a list costs for each row of three taps is a quarter of its instructions otherwise, of seven an eighth.
func (k *kernel) planarRows() []rowBody {
	if k.isa != asm.AVX2() || !k.points() {
		return nil
	}
	var out []rowBody
	for _, kernel := range []int{3, 5, 7} {
		out = append(out, rowBody{kernel: kernel, width: k.pixels}, rowBody{kernel: kernel, width: k.pixels - 1})
	}
	return out
}

// planarRow emits the i-th body of rows: as many rows of the kernel below each other as the tap says, in one channel of the source.
func (k *kernel) planarRow(i int, r rowBody) {
	fn := k.fn
	label := fmt.Sprintf("%s_r%d_row", k.name, i)
	fn.I("MOVQ -16(CX), DX")
	fn.I("ADDQ DI, DX")
	k.groupB()
	fn.I("MOVQ %d(R14), R15", offSrcBlk)
	fn.I("PCALIGN $64")
	fn.Label(label)
	for t := range r.kernel {
		k.channel(t, func(op func(p int)) {
			for p := range r.width {
				op(p)
			}
		})
	}
	fn.I("ADDQ $%d, DI", 64*r.kernel)
	fn.I("ADDQ R15, SI")
	fn.I("ADDQ R15, BX")
	fn.I("CMPQ DI, DX")
	fn.I("JNE %s", label)
	k.next()
}
