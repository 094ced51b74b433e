//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// stages writes what moves a stage past the caches. NEON has no such stores: what is written line after line is not read there before.
func stages(f *asm.File, isa asm.ISA, suffix string) {
	name := "flushLines" + suffix
	fn := f.Func(name, name+" copies lines of 64 bytes past the caches, and has as many from a and from b on fetched; dst begins at one; lines > 0.",
		asm.Typed("dst", "*float32"), asm.Typed("src", "*float32"), asm.Typed("a", "*float32"), asm.Typed("b", "*float32"), asm.Typed("lines", "int"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("a", "AX")
	fn.Load("b", "BX")
	fn.Load("lines", "CX")
	fn.Loop("CX", func() {
		fn.I("PREFETCHNTA (AX)")
		fn.I("PREFETCHNTA (BX)")
		for at := 0; at < 64; at += isa.Size() {
			fn.I("VMOVUPS %d(SI), %s", at, isa.R(at/isa.Size()))
		}
		for at := 0; at < 64; at += isa.Size() {
			fn.I("VMOVNTPS %s, %d(DI)", isa.R(at/isa.Size()), at)
		}
		fn.I("ADDQ $64, SI")
		fn.I("ADDQ $64, AX")
		fn.I("ADDQ $64, BX")
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
	f.Serve("flushLines", isa, name+"(dst, src, a, b, lines)")
	f.Serve("streams", isa, "return true")
	name = "storeFence" + suffix
	fn = f.Func(name, name+" has stores past the caches seen before any later one.")
	fn.I("SFENCE")
	fn.Ret()
	f.Serve("fence", isa, fmt.Sprintf("%s()", name))
}
