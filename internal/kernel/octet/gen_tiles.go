//go:build ignore

package main

import "github.com/carve-dev/carve/internal/kernel/asm"

// tiles writes the kernels beside tiles of AMX.
func tiles(f *asm.File) {
	f.Serve("callSplit", asm.AVX512(), split(f)+"(dst, src, n)")
	f.Serve("callScale", asm.AVX512(), tileScale(f)+"(dst, sums, ld, head, lda, scale, zero, n)")
}

// split writes the kernel that makes bytes of weights of 4 bits, and returns its name.
func split(f *asm.File) string {
	k := f.Func("split512", "split512 writes the lower and the upper halves of the bytes of n vectors, each behind the other; n > 0.",
		asm.Typed("dst", "*byte"), asm.Typed("src", "*byte"), asm.Int("n"))
	for _, x := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {"n", "CX"}} {
		k.Load(x[0], x[1])
	}
	broadcast(k, 0x0f0f0f0f, 29)
	k.Loop("CX", func() {
		k.I("VMOVDQU32 (SI), Z0")
		k.I("VPSRLD $4, Z0, Z1")
		k.I("VPANDD Z29, Z0, Z0")
		k.I("VPANDD Z29, Z1, Z1")
		k.I("VMOVDQU32 Z0, (DI)")
		k.I("VMOVDQU32 Z1, 64(DI)")
		k.I("ADDQ $64, SI")
		k.I("ADDQ $128, DI")
	})
	k.Ret()
	return "split512"
}

// tileScale writes the kernel that adds the sums of a block to results, in the order in which kernels of vectors do, and returns its name.
func tileScale(f *asm.File) string {
	const name = "tileScale"
	k := f.Func(name, name+" takes off what zero points add to n rows of 16 sums of a block, scales them and adds them to results; n > 0. Results and sums lie ld bytes apart, the heads of rounded rows lda.",
		asm.Typed("dst", "*float32"), asm.Typed("sums", "*int32"), asm.Int("ld"), asm.Typed("head", "*byte"), asm.Int("lda"), asm.Typed("scale", "*float32"),
		asm.Typed("zero", "*byte"), asm.Int("n"))
	for _, x := range [][2]string{{"dst", "DI"}, {"sums", "SI"}, {"ld", "R8"}, {"head", "R12"}, {"lda", "R9"}, {"scale", "R10"}, {"zero", "R11"}, {"n", "CX"}} {
		k.Load(x[0], x[1])
	}
	k.I("VPMOVZXBD (R11), Z28")
	k.I("VMOVUPS (R10), Z29")
	k.Loop("CX", func() {
		k.I("VPMULLD.BCST 4(R12), Z28, Z0")
		k.I("VMOVUPS (DI), Z1")
		k.I("VPADDD (SI), Z0, Z0")
		k.I("VCVTDQ2PS Z0, Z0")
		k.I("VMULPS.BCST (R12), Z0, Z0")
		k.I("VFMADD231PS Z29, Z0, Z1")
		k.I("VMOVUPS Z1, (DI)")
		k.I("ADDQ R8, DI")
		k.I("ADDQ R8, SI")
		k.I("ADDQ R9, R12")
	})
	k.Ret()
	return name
}
