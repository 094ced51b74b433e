//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Offsets of the fields of Finish, in bytes.
const (
	offRows   = 0
	offPanels = 8
	offLDSums = 16
	offLDRes  = 24
	offLDOut  = 32
	offPanelR = 40
	offPanelC = 48
	offLo     = 56
	offHi     = 60
	offSums   = 64
	offStored = 68
)

// finishEntry is what plans call.
var finishEntry = asm.Entry{Name: "finish", Doc: "finishes sums; see Finish.Run.", Params: "f *Finish, sums, residual, results *float32",
	Portable: "genericFinish(f, sums, residual, results)"}

// finish writes the kernel that finishes sums, a row after the other.
//
// Registers: DI what is to be done, SI, BX and DX the row's sums, residual (0: none) and results, R10 to R12 those of a panel, R8 rows and R9 panels
// left; K2 and K3 the lanes of the last panel that are written and that are results, Z30 and Z31 the bounds.
func finish(f *asm.File) {
	fn := f.Func("finish512", "finish512 finishes sums, see Finish.", asm.Typed("f", "*Finish"), asm.Ptr("sums"), asm.Ptr("residual"), asm.Ptr("results"))
	for _, x := range [][2]string{{"f", "DI"}, {"sums", "SI"}, {"residual", "BX"}, {"results", "DX"}} {
		fn.Load(x[0], x[1])
	}
	fn.I("VBROADCASTSS %d(DI), Z30", offLo)
	fn.I("VBROADCASTSS %d(DI), Z31", offHi)
	fn.I("KMOVW %d(DI), K2", offStored)
	fn.I("KMOVW %d(DI), K3", offSums)
	fn.I("MOVQ %d(DI), R8", offRows)
	fn.Loop("R8", func() {
		fn.I("MOVQ SI, R10")
		fn.I("MOVQ BX, R11")
		fn.I("MOVQ DX, R12")
		fn.I("MOVQ %d(DI), R9", offPanels)
		fn.I("DECQ R9")
		fn.I("JZ last")
		fn.Loop("R9", func() {
			fn.I("VMOVUPS (R10), Z0")
			fn.I("TESTQ BX, BX")
			none := fn.NewLabel("none")
			fn.I("JZ %s", none)
			fn.I("VADDPS (R11), Z0, Z0")
			fn.I("ADDQ %d(DI), R11", offPanelR)
			fn.Label(none)
			bound(fn)
			fn.I("VMOVUPS Z0, (R12)")
			fn.I("ADDQ $64, R10")
			fn.I("ADDQ %d(DI), R12", offPanelC)
		})
		fn.Label("last")
		fn.I("VMOVUPS (R10), Z0")
		fn.I("TESTQ BX, BX")
		fn.I("JZ bound")
		fn.I("VMOVUPS.Z (R11), K2, Z1")
		fn.I("VADDPS Z1, Z0, Z0")
		fn.I("ADDQ %d(DI), BX", offLDRes)
		fn.Label("bound")
		bound(fn)
		fn.I("VMOVUPS.Z Z0, K3, Z0")
		fn.I("VMOVUPS Z0, K2, (R12)")
		fn.I("ADDQ %d(DI), SI", offLDSums)
		fn.I("ADDQ %d(DI), DX", offLDOut)
	})
	fn.Ret()
	f.Serve("finish", asm.AVX512(), "finish512(f, sums, residual, results)")
	f.Import("unsafe")
	var src strings.Builder
	src.WriteString("// The offsets that the assembly assumes.\nvar (\n")
	for _, c := range []struct {
		name string
		off  int
	}{{"Rows", offRows}, {"Panels", offPanels}, {"LDS", offLDSums}, {"LDR", offLDRes}, {"LDC", offLDOut}, {"PanelR", offPanelR}, {"PanelC", offPanelC},
		{"Lo", offLo}, {"Hi", offHi}, {"Sums", offSums}, {"Stored", offStored}} {
		fmt.Fprintf(&src, "_ = [1]byte{}[unsafe.Offsetof(Finish{}.%s)-%d]\n", c.name, c.off)
	}
	f.Go(src.String() + ")\n")
}

// bound bounds Z0; NaN is the second operand, which stays.
func bound(fn *asm.Func) {
	fn.I("VMAXPS Z0, Z30, Z0")
	fn.I("VMINPS Z0, Z31, Z0")
}
