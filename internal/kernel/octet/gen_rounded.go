//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// roundedFields are the fields of roundedParams, in order, of 8 bytes each.
var roundedFields = []string{"ldd", "lda", "heads", "blocks", "groups", "skip"}

func offsetOf(field string) int {
	for i, f := range roundedFields {
		if f == field {
			return 8 * i
		}
	}
	panic("no field " + field)
}

// rounded writes the kernels that multiply weights by rows of integers, with VNNI.
func rounded(f *asm.File) {
	roundedOffsets(f)
	code := "switch [3]int{bits, digits, rows} {\n"
	for _, bits := range []int{8, 4} {
		for _, x := range [][2]int{{1, 1}, {1, 4}, {1, 8}, {3, 1}, {3, 4}} {
			k := &roundedDot{bits: bits, digits: x[0], rows: x[1]}
			code += fmt.Sprintf("case [3]int{%d, %d, %d}:\n%s(p, dst, a, w, scale, zero, n)\n", bits, k.digits, k.rows, k.emit(f))
		}
	}
	f.Serve("callRounded", asm.AVX512(), code+"}")
	code = "switch digits {\n"
	for _, digits := range []int{1, 3} {
		code += fmt.Sprintf("case %d:\n%s(dst, heads, src, order, blocks, vectors)\n", digits, round(f, digits))
	}
	f.Serve("callRound", asm.AVX512(), code+"}")
}

// roundedOffsets emits Go source that does not compile where roundedParams and this program disagree.
func roundedOffsets(f *asm.File) {
	f.Import("unsafe")
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, field := range roundedFields {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(roundedParams{}.%s)-%d]\n", field, offsetOf(field))
	}
	f.Go(src + ")\n")
}

// roundedDot is a kernel being written: products of some rows of integers, of one digit or three, with panels of weights.
//
// Registers: DI params, SI weights, DX the result, R10 scales, R11 zero points, R13 the place in the rows and R15 that in the fifth, R12
// heads of the rows, R8 and R9 the distance of rows and three times that, CX panels, BX blocks, AX groups of a block. Vectors 0
// to 7 are the rows' results, those from 8 on sums of integers, for a single row several of each digit, so that instructions need not wait
// for each other; 26 and 27 are weights, 28 zero points, 29 and 30 the bits of lower and upper halves, 31 what a digit is to the next.
type roundedDot struct {
	*asm.Func
	bits, digits, rows int
}

// chains returns the sums of a digit. With 4 bits those of a single row are of lower halves and of upper ones by turns: the latter are of
// sixteenfold weights.
func (k *roundedDot) chains() int {
	switch {
	case k.rows == 1 && k.digits == 1:
		return 4
	case k.rows == 1, k.rows*k.digits == 4:
		return 2
	}
	return 1
}

// sum returns a sum of integers.
func (k *roundedDot) sum(row, digit, chain int) string {
	return asm.Z(8 + (row*k.digits+digit)*k.chains() + chain)
}

func (k *roundedDot) emit(f *asm.File) string {
	name := fmt.Sprintf("rounded%d_%dx%d", k.bits, k.digits, k.rows)
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	k.Func = f.Func(name, fmt.Sprintf("%s multiplies %d rows of integers of %d digits by n panels of weights of %d bits; n > 0; see roundedParams.", name, k.rows, k.digits, k.bits),
		ptr("p", "roundedParams"), ptr("dst", "float32"), ptr("a", "byte"), ptr("w", "byte"), ptr("scale", "float32"), ptr("zero", "byte"), asm.Int("n"))
	for _, x := range [][2]string{{"p", "DI"}, {"dst", "DX"}, {"w", "SI"}, {"scale", "R10"}, {"zero", "R11"}, {"n", "CX"}} {
		k.Load(x[0], x[1])
	}
	k.I("MOVQ %d(DI), R8", offsetOf("lda"))
	k.I("LEAQ (R8)(R8*2), R9")
	if k.bits == 4 {
		broadcast(k.Func, 0x0f0f0f0f, 29)
		broadcast(k.Func, 0xf0f0f0f0, 30)
	}
	if k.digits == 3 {
		broadcastFloat(k.Func, 256, 31)
	}
	k.Loop("CX", k.panel)
	k.Ret()
	return name
}

// at returns the address off bytes behind a place in row r, that in the fifth being in another register.
func (k *roundedDot) at(first, fifth string, r, off int) string {
	if r >= 4 {
		first = fifth
	}
	return fmt.Sprintf("%d(%s)%s", off, first, []string{"", "(R8*1)", "(R8*2)", "(R9*1)"}[r%4])
}

func (k *roundedDot) panel() {
	for r := range k.rows {
		k.I("VPXORD %[1]s, %[1]s, %[1]s", asm.Z(r))
	}
	k.Load("a", "R13")
	if k.rows > 4 {
		k.I("LEAQ (R13)(R8*4), R15")
	}
	k.I("MOVQ %d(DI), R12", offsetOf("heads"))
	k.I("MOVQ %d(DI), BX", offsetOf("blocks"))
	k.Loop("BX", func() {
		k.start()
		k.I("MOVQ %d(DI), AX", offsetOf("groups"))
		k.While("AX", 4, func() { k.groups(4, 16*k.digits) })
		if k.bits == 4 {
			k.While("AX", 2, func() { k.groups(2, 8) })
		} else {
			k.While("AX", 1, func() { k.groups(1, 4) })
		}
		if k.digits > 1 {
			k.I("ADDQ %d(DI), R13", offsetOf("skip"))
		}
		k.block()
	})
	k.I("MOVQ DX, R12")
	for r := range k.rows {
		k.I("VMOVUPS %s, (R12)", asm.Z(r))
		k.I("ADDQ %d(DI), R12", offsetOf("ldd"))
	}
	k.I("ADDQ $64, DX")
}

// start begins the sums of a block with what zero points take off: of three digits, that of the upper two from the middle one.
func (k *roundedDot) start() {
	k.I("VPMOVZXBD (R11), Z28")
	if k.rows > 4 {
		k.I("LEAQ (R12)(R8*4), AX")
	}
	for r := range k.rows {
		for d := range k.digits {
			for c := range k.chains() {
				if c > 0 || d == 2 {
					k.I("VPXORD %[1]s, %[1]s, %[1]s", k.sum(r, d, c))
					continue
				}
				off := 4
				if d < k.digits/2 {
					off = 8
				}
				k.I("VPMULLD.BCST %s, Z28, %s", k.at("R12", "AX", r, off), k.sum(r, d, c))
			}
		}
	}
}

// prefetched is how far ahead weights are asked for, in bytes, every second line of 64: processors bring the one beside it.
const prefetched = 4096

// groups emits the products of n groups of a block, and moves on so many bytes in the rows.
func (k *roundedDot) groups(n, step int) {
	size := 8 * k.bits
	if k.rows == 1 { // faster than weights come
		for at := 0; at < n*size; at += 128 {
			k.I("PREFETCHT1 %d(SI)", prefetched+at)
		}
	}
	for i := range n {
		w := k.weights(i)
		for r := range k.rows {
			for d := range k.digits {
				k.I("VPDPBUSD.BCST %s, %s, %s", k.at("R13", "R15", r, 16*d+4*i), w, k.sum(r, d, i%k.chains()))
			}
		}
	}
	k.I("ADDQ $%d, SI", n*size)
	k.I("ADDQ $%d, R13", step)
	if k.rows > 4 {
		k.I("ADDQ $%d, R15", step)
	}
}

// weights returns the vector of the weights of group i.
func (k *roundedDot) weights(i int) string {
	switch {
	case k.bits == 8:
		w := asm.Z(26 + i%2)
		k.I("VMOVDQU32 %d(SI), %s", 64*i, w)
		return w
	case i%2 != 0:
		return "Z27"
	}
	k.I("VMOVDQU32 %d(SI), Z26", 32*i)
	if k.rows == 1 {
		k.I("VPANDD Z30, Z26, Z27")
	} else {
		k.I("VPSRLD $4, Z26, Z27")
		k.I("VPANDD Z29, Z27, Z27")
	}
	k.I("VPANDD Z29, Z26, Z26")
	return "Z26"
}

// block scales the sums of a block, and adds them to the results. Of three digits the upper two are one number first.
func (k *roundedDot) block() {
	if k.rows > 4 {
		k.I("LEAQ (R12)(R8*4), AX")
	}
	for r := range k.rows {
		for d := range k.digits {
			k.join(r, d)
		}
		x := k.sum(r, 0, 0)
		if k.digits == 3 {
			top := k.sum(r, 2, 0)
			x = k.sum(r, 1, 0)
			k.I("VPSLLD $8, %[1]s, %[1]s", top)
			k.I("VPADDD %s, %[2]s, %[2]s", top, x)
			k.I("VCVTDQ2PS %[1]s, %[1]s", k.sum(r, 0, 0))
		}
		k.I("VCVTDQ2PS %[1]s, %[1]s", x)
		if k.digits == 3 {
			k.I("VFMADD213PS %s, Z31, %s", k.sum(r, 0, 0), x)
		}
		k.I("VMULPS.BCST %s, %[2]s, %[2]s", k.at("R12", "AX", r, 0), x)
		k.I("VFMADD231PS (R10), %s, %s", x, asm.Z(r))
	}
	k.I("ADDQ $%d, R12", map[int]int{1: 8, 3: 16}[k.digits])
	k.I("ADDQ $64, R10")
	k.I("ADDQ $16, R11")
}

// join adds the sums of a digit up.
func (k *roundedDot) join(r, d int) {
	n := k.chains()
	if k.bits == 4 && k.rows == 1 {
		for ; n > 2; n -= 2 {
			k.I("VPADDD %s, %s, %[2]s", k.sum(r, d, n-2), k.sum(r, d, 0))
			k.I("VPADDD %s, %s, %[2]s", k.sum(r, d, n-1), k.sum(r, d, 1))
		}
		k.I("VPSRAD $4, %[1]s, %[1]s", k.sum(r, d, 1))
	}
	for step := 1; step < n; step *= 2 {
		for i := 0; i+step < n; i += 2 * step {
			k.I("VPADDD %s, %s, %[2]s", k.sum(r, d, i+step), k.sum(r, d, i))
		}
	}
}
