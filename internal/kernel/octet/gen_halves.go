//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Tables of halvesDot: the bits of a lower half of each byte, and words of one.
const (
	lowerHalves = "lowerHalves"
	wordsOfOne  = "wordsOfOne"
)

// halfGroups is how many groups of a block are added in 16 bits: that many products of pairs, of 15 and 127 at most, fit.
const halfGroups = 8

// halves writes the kernels that multiply weights of 4 bits by rows of integers of one digit, with AVX2, and returns cases that call them.
func halves(f *asm.File) []string {
	masks, ones := make([]uint32, 8), make([]uint32, 8)
	for i := range masks {
		masks[i], ones[i] = 0x0f0f0f0f, 0x00010001
	}
	f.Data(lowerHalves, masks...)
	f.Data(wordsOfOne, ones...)
	var cases []string
	for _, rows := range []int{1, 2} {
		k := &halvesDot{rows: rows}
		cases = append(cases, fmt.Sprintf("case [2]int{4, %d}:\n%s(p, dst, a, w, scale, zero, n)\n", rows, k.emit(f)))
	}
	return cases
}

// halvesDot is a kernel being written: products of some rows of integers of one digit with panels of weights of 4 bits, whose products are
// added in 16 bits first.
//
// Registers: DI params, SI weights, DX the result, R10 scales, R11 zero points, R13 the place in the rows, R12 heads of the rows, R8 the
// distance of rows, CX panels, BX blocks, AX groups of a block. Vectors 0 to 3 are sums of a block, two for each row, 4 to 7 those in 16
// bits, 8 and 9 weights, 10 and 11 products, 12 to 15 the rows' results.
type halvesDot struct {
	*asm.Func
	rows int
}

func (k *halvesDot) emit(f *asm.File) string {
	name := fmt.Sprintf("halves_%d", k.rows)
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	k.Func = f.Func(name, fmt.Sprintf("%s multiplies %d rows of integers of one digit by n panels of weights of 4 bits; n > 0; see roundedParams.", name, k.rows),
		ptr("p", "roundedParams"), ptr("dst", "float32"), ptr("a", "byte"), ptr("w", "byte"), ptr("scale", "float32"), ptr("zero", "byte"), asm.Int("n"))
	for _, x := range [][2]string{{"p", "DI"}, {"dst", "DX"}, {"w", "SI"}, {"scale", "R10"}, {"zero", "R11"}, {"n", "CX"}} {
		k.Load(x[0], x[1])
	}
	k.I("MOVQ %d(DI), R8", offsetOf("lda"))
	next := nextPanel(k.Func, 4)
	k.Loop("CX", func() {
		next()
		k.each(func(r, j int) { k.I("VPXOR %[1]s, %[1]s, %[1]s", k.v(12, r, j)) })
		k.Load("a", "R13")
		k.I("MOVQ %d(DI), R12", offsetOf("heads"))
		k.I("MOVQ %d(DI), BX", offsetOf("blocks"))
		k.Loop("BX", k.block)
		k.I("MOVQ DX, R12")
		for r := range k.rows {
			for j := range 2 {
				k.I("VMOVUPS %s, %d(R12)", k.v(12, r, j), 32*j)
			}
			k.I("ADDQ %d(DI), R12", offsetOf("ldd"))
		}
		k.I("ADDQ $64, DX")
	})
	k.Ret()
	return name
}

// v is a vector of a row and a half of the columns, from number first on.
func (k *halvesDot) v(first, r, j int) string { return fmt.Sprintf("Y%d", first+2*r+j) }

func (k *halvesDot) each(do func(r, j int)) {
	for r := range k.rows {
		for j := range 2 {
			do(r, j)
		}
	}
}

// at returns the address off bytes behind a place in row r.
func (k *halvesDot) at(first string, r, off int) string {
	return fmt.Sprintf("%d(%s)%s", off, first, []string{"", "(R8*1)"}[r])
}

// block emits a block: its sums begin with what zero points take off.
func (k *halvesDot) block() {
	for j := range 2 {
		k.I("VPMOVZXBD %d(R11), Y%d", 8*j, 8+j)
	}
	for r := range k.rows {
		k.I("VPBROADCASTD %s, Y10", k.at("R12", r, 4))
		for j := range 2 {
			k.I("VPMULLD Y%d, Y10, %s", 8+j, k.v(0, r, j))
		}
	}
	k.I("MOVQ %d(DI), AX", offsetOf("groups"))
	k.While("AX", halfGroups, func() { k.groups(halfGroups) })
	k.While("AX", 2, func() { k.groups(2) })
	for r := range k.rows {
		k.I("VBROADCASTSS %s, Y10", k.at("R12", r, 0))
		for j := range 2 {
			x := k.v(0, r, j)
			k.I("VCVTDQ2PS %[1]s, %[1]s", x)
			k.I("VMULPS Y10, %[1]s, %[1]s", x)
			k.I("VFMADD231PS %d(R10), %s, %s", 32*j, x, k.v(12, r, j))
		}
	}
	k.I("ADDQ $8, R12")
	k.I("ADDQ $64, R10")
	k.I("ADDQ $16, R11")
}

// groups emits the products of n groups of a block, two at a time: lower halves, and upper ones.
func (k *halvesDot) groups(n int) {
	for i := range n / 2 {
		if i%2 == 0 && i+1 < n/2 {
			fetchNext(k.Func)
		}
		for j := range 2 {
			k.I("VMOVDQU %d(SI), Y8", 64*i+32*j)
			k.I("VPSRLW $4, Y8, Y9")
			for w := 8; w < 10; w++ {
				k.I("VPAND %s, Y%[2]d, Y%[2]d", asm.DataAt(lowerHalves, 0), w)
			}
			for r := range k.rows {
				sum := k.v(4, r, j)
				for half := range 2 {
					to := fmt.Sprintf("Y%d", 10+half)
					k.I("VPBROADCASTD %s, %s", k.at("R13", r, 8*i+4*half), to)
					if i+half == 0 {
						k.I("VPMADDUBSW %s, Y8, %s", to, sum)
						continue
					}
					k.I("VPMADDUBSW %s, Y%d, %s", to, 8+half, to)
					k.I("VPADDW %s, %[2]s, %[2]s", to, sum)
				}
			}
		}
	}
	k.I("ADDQ $%d, SI", 32*n)
	k.I("ADDQ $%d, R13", 4*n)
	k.each(func(r, j int) {
		k.I("VPMADDWD %s, %[2]s, %[2]s", asm.DataAt(wordsOfOne, 0), k.v(4, r, j))
		k.I("VPADDD %s, %[2]s, %[2]s", k.v(4, r, j), k.v(0, r, j))
	})
}
