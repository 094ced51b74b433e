//go:build ignore

package main

import (
	"github.com/carve-dev/carve/internal/kernel/asm"
)

// words writes the kernels between integers of 8 and 16 bits, 64 elements at a time.
func words(f *asm.File, v asm.ISA) {
	dst, src := asm.Typed("dst", "*byte"), asm.Typed("src", "*byte")
	code := "switch change {\n"
	for _, c := range []struct{ change, name, doc, extend string }{
		{"bytesToWords", "bytesToWords", "extends bytes by zeros.", "VPMOVZXBW"}, {"signedToWords", "signedToWords", "extends bytes by signs.", "VPMOVSXBW"}} {
		k, name := start(f, v, c.name, c.doc, dst, src)
		k.groups(128, 64, func() {
			for i := range 128 / v.Size() {
				k.I("%s %d(SI), %s", c.extend, i*v.Size()/2, v.R(i))
				k.I("VMOVDQU%s %s, %d(DI)", suffix(v), v.R(i), i*v.Size())
			}
		})
		code += "case " + c.change + ":\n" + name + "(dst, src, n)\n"
	}
	k, name := start(f, v, "wordsToBytes", "keeps the lower bytes of words.", dst, src)
	k.constant(0x00ff00ff, 4)
	k.groups(64, 128, func() {
		for i := range 64 / v.Size() {
			if v.Masks {
				k.I("VMOVDQU32 %d(SI), Z0", 64*2*i)
				k.I("VMOVDQU32 %d(SI), Z1", 64*(2*i+1))
				k.I("VPMOVWB Z0, %d(DI)", 64*i)
				k.I("VPMOVWB Z1, %d(DI)", 64*i+32)
				continue
			}
			k.I("VPAND %d(SI), Y4, Y0", 64*i)
			k.I("VPAND %d(SI), Y4, Y1", 64*i+32)
			k.I("VPACKUSWB Y1, Y0, Y0")
			k.I("VPERMQ $0xd8, Y0, Y0")
			k.I("VMOVDQU Y0, %d(DI)", 32*i)
		}
	})
	code += "case wordsToBytes:\n" + name + "(dst, src, n)\n"
	k, name = start(f, v, "wordsToTruths", "writes which words are not 0.", dst, src)
	k.constant(0x01010101, 4)
	k.Clear(v, v.R(5))
	k.groups(64, 128, func() {
		if v.Masks {
			for i := range 2 {
				k.I("VMOVDQU32 %d(SI), Z%d", 64*i, i)
				k.I("VPTESTMW Z%d, Z%[1]d, K%d", i, i+1)
			}
			k.I("KUNPCKDQ K1, K2, K3")
			k.I("VMOVDQU8.Z Z4, K3, Z0")
			k.I("VMOVDQU32 Z0, (DI)")
			return
		}
		for i := range 2 {
			k.I("VPCMPEQW %d(SI), Y5, Y0", 64*i)
			k.I("VPCMPEQW %d(SI), Y5, Y1", 64*i+32)
			k.I("VPACKSSWB Y1, Y0, Y0")
			k.I("VPERMQ $0xd8, Y0, Y0")
			k.I("VPANDN Y4, Y0, Y0")
			k.I("VMOVDQU Y0, %d(DI)", 32*i)
		}
	})
	f.Serve("words", v, code+"case wordsToTruths:\n"+name+"(dst, src, n)\n}")
}
