//go:build ignore

// This program writes the assembly of package reorder.
package main

import (
	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("reorder",
		asm.Unit{Base: "transpose", Generate: func(f *asm.File) {
			transpose512(f)
			transpose256(f)
		}},
		asm.Unit{Base: "tiles", Generate: func(f *asm.File) {
			for _, v := range []variant{{}, {fetch: true}, {stream: true}, {stream: true, fetch: true}} {
				tiles512(f, v)
			}
			for _, v := range []variant{{}, {fetch: true}} {
				tiles256(f, v)
			}
			for _, v := range []variant{{}, {stream: true}} {
				rows512(f, v)
				rows256(f, v)
			}
			fence(f)
		}},
		asm.Unit{Base: "weave", Generate: func(f *asm.File) {
			for planes := 2; planes <= 4; planes++ {
				for _, apart := range []bool{false, true} {
					weave{planes, 16, apart}.emit(f, false)
					weave{planes, 16, apart}.emit(f, true)
					weave{planes, 8, apart}.emit(f, false)
				}
			}
		}},
		asm.Unit{Base: "cast", Generate: func(f *asm.File) {
			f.Import("unsafe")
			for _, k := range casts {
				cast512(f, k)
				cast256(f, k)
			}
		}},
		asm.Unit{Base: "lanes", Generate: func(f *asm.File) {
			copy512(f)
			copy256(f)
			gather512(f)
			gather256(f)
		}},
	)
}

// lowBits emits mask = the low count bits, count a register with 0 to 16; it clobbers CX.
func lowBits(fn *asm.Func, count, mask, k string) {
	fn.I("MOVQ %s, CX", count)
	fn.I("MOVL $1, %s", mask)
	fn.I("SHLL CX, %s", mask)
	fn.I("DECL %s", mask)
	fn.I("KMOVW %s, %s", mask, k)
}
