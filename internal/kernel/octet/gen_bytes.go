//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// middles is a table of middles of bytes, and middleWords one of their numbers of 32 bits.
const (
	middles     = "middles"
	middleWords = "middleWords"
)

// pairsOfBytes writes the kernels that multiply rows of integers of one digit with AVX2, by weights of 8 bits and of 4.
func pairsOfBytes(f *asm.File) {
	bytes, words := make([]uint32, 8), make([]uint32, 8)
	for i := range bytes {
		bytes[i], words[i] = 0x80808080, 0x80
	}
	f.Data(middles, bytes...)
	f.Data(middleWords, words...)
	code := "switch [2]int{bits, rows} {\n"
	for _, name := range halves(f) {
		code += name
	}
	for _, rows := range []int{1, 2, 4} {
		k := &bytesDot{rows: rows, wide: 2}
		if rows == 4 {
			k.wide = 1
		}
		code += fmt.Sprintf("case [2]int{8, %d}:\n%s(p, dst, a, w, scale, zero, n)\n", rows, k.emit(f))
	}
	f.Serve("callRounded", asm.AVX2(), code+"}")
}

// nextPanel begins to have the panel behind the one at SI fetched, whose weights have so many bits: both its halves, which a processor follows as two
// streams, with more lines under way than of one. The function that is returned begins with each panel. Registers: R14 is in the first half, R15 is half a panel.
func nextPanel(fn *asm.Func, bits int) func() {
	fn.I("MOVQ %d(DI), R15", offsetOf("blocks"))
	fn.I("IMULQ %d(DI), R15", offsetOf("groups"))
	fn.I("SHLQ $%d, R15", bits/4+3)
	return func() { fn.I("LEAQ (SI)(R15*2), R14") }
}

// fetchNext has a line of each half fetched into the second-level cache, once for 128 bytes.
func fetchNext(fn *asm.Func) {
	fn.I("PREFETCHT1 (R14)")
	fn.I("PREFETCHT1 (R14)(R15*1)")
	fn.I("ADDQ $64, R14")
}

// bytesDot is a kernel being written: products of some rows of integers of one digit with panels of weights of 8 bits. Weights less 128 are
// multiplied as magnitudes, of 128 at most, by integers that have their sign: two products, of 127 and 128 at most, fit 16 bits, so that no
// sum saturates.
//
// Registers: DI params, SI weights, DX the result, R10 scales, R11 zero points, R13 the place in the rows, R12 heads of the rows, R8 the
// distance of rows, R9 three times that, CX panels, BX blocks, AX groups of a block. Vectors 0 to 3 are sums of a block, 4 and 5 weights and
// their magnitudes, 6 and 7 integers and products, 8 to 15 the rows' results. Four rows have one half of a panel's columns after the other
// within a block.
type bytesDot struct {
	*asm.Func
	rows int
	wide int // halves of a panel's columns at a time
}

func (k *bytesDot) emit(f *asm.File) string {
	name := fmt.Sprintf("bytes_%d", k.rows)
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	k.Func = f.Func(name, fmt.Sprintf("%s multiplies %d rows of integers of one digit by n panels of weights of 8 bits; n > 0; see roundedParams.", name, k.rows),
		ptr("p", "roundedParams"), ptr("dst", "float32"), ptr("a", "byte"), ptr("w", "byte"), ptr("scale", "float32"), ptr("zero", "byte"), asm.Int("n"))
	for _, x := range [][2]string{{"p", "DI"}, {"dst", "DX"}, {"w", "SI"}, {"scale", "R10"}, {"zero", "R11"}, {"n", "CX"}} {
		k.Load(x[0], x[1])
	}
	k.I("MOVQ %d(DI), R8", offsetOf("lda"))
	k.I("LEAQ (R8)(R8*2), R9")
	next := nextPanel(k.Func, 8)
	k.Loop("CX", func() {
		next()
		for r := range k.rows {
			for j := range 2 {
				k.I("VPXOR %[1]s, %[1]s, %[1]s", k.result(r, j))
			}
		}
		k.Load("a", "R13")
		k.I("MOVQ %d(DI), R12", offsetOf("heads"))
		k.I("MOVQ %d(DI), BX", offsetOf("blocks"))
		k.Loop("BX", k.block)
		k.I("MOVQ DX, R12")
		for r := range k.rows {
			for j := range 2 {
				k.I("VMOVUPS %s, %d(R12)", k.result(r, j), 32*j)
			}
			k.I("ADDQ %d(DI), R12", offsetOf("ldd"))
		}
		k.I("ADDQ $64, DX")
	})
	k.Ret()
	return name
}

// result is the vector of a row and a half of the columns.
func (k *bytesDot) result(r, j int) string { return fmt.Sprintf("Y%d", 8+2*r+j) }

// sum is the vector of a row and one of the halves that are multiplied at a time.
func (k *bytesDot) sum(r, j int) string { return fmt.Sprintf("Y%d", k.wide*r+j) }

// at returns the address off bytes behind a place in row r.
func (k *bytesDot) at(first string, r, off int) string {
	return fmt.Sprintf("%d(%s)%s", off, first, []string{"", "(R8*1)", "(R8*2)", "(R9*1)"}[r])
}

// block emits a block, its halves one after the other where they are not multiplied at a time.
func (k *bytesDot) block() {
	for half := 0; half < 2; half += k.wide {
		k.start(half)
		k.I("MOVQ %d(DI), AX", offsetOf("groups"))
		k.While("AX", 2, func() { k.groups(half, 2) })
		k.While("AX", 1, func() { k.groups(half, 1) })
		k.add(half)
		if half+k.wide < 2 { // back to the block's beginning
			k.I("MOVQ %d(DI), AX", offsetOf("groups"))
			k.I("SHLQ $2, AX")
			k.I("SUBQ AX, R13")
			k.I("SHLQ $4, AX")
			k.I("SUBQ AX, SI")
		}
	}
	k.I("ADDQ $8, R12")
	k.I("ADDQ $64, R10")
	k.I("ADDQ $16, R11")
}

// start begins the sums of a block with what zero points less 128 take off.
func (k *bytesDot) start(half int) {
	for j := range k.wide {
		k.I("VPMOVZXBD %d(R11), Y%d", 8*(half+j), 4+j)
		k.I("VPSUBD %s, Y%[2]d, Y%[2]d", asm.DataAt(middleWords, 0), 4+j)
	}
	for r := range k.rows {
		k.I("VPBROADCASTD %s, Y6", k.at("R12", r, 4))
		for j := range k.wide {
			k.I("VPMULLD Y%d, Y6, %s", 4+j, k.sum(r, j))
		}
	}
}

// groups emits the products of n groups of a block, and moves on.
func (k *bytesDot) groups(half, n int) {
	if k.wide == 2 && n == 2 {
		fetchNext(k.Func)
	}
	for i := range n {
		for j := range k.wide {
			k.I("VMOVDQU %d(SI), Y4", 64*i+32*(half+j))
			k.I("VPXOR %s, Y4, Y4", asm.DataAt(middles, 0))
			k.I("VPABSB Y4, Y5")
			for r := range k.rows {
				to := fmt.Sprintf("Y%d", 6+r%2)
				k.I("VPBROADCASTD %s, %s", k.at("R13", r, 4*i), to)
				k.I("VPSIGNB Y4, %[1]s, %[1]s", to)
				k.I("VPMADDUBSW %[1]s, Y5, %[1]s", to)
				k.I("VPMADDWD %s, %[2]s, %[2]s", asm.DataAt(wordsOfOne, 0), to)
				k.I("VPADDD %s, %[2]s, %[2]s", to, k.sum(r, j))
			}
		}
	}
	k.I("ADDQ $%d, SI", 64*n)
	k.I("ADDQ $%d, R13", 4*n)
}

// add scales the sums of a block, and adds them to the results.
func (k *bytesDot) add(half int) {
	for r := range k.rows {
		k.I("VBROADCASTSS %s, Y6", k.at("R12", r, 0))
		for j := range k.wide {
			x := k.sum(r, j)
			k.I("VCVTDQ2PS %[1]s, %[1]s", x)
			k.I("VMULPS Y6, %[1]s, %[1]s", x)
			k.I("VFMADD231PS %d(R10), %s, %s", 32*(half+j), x, k.result(r, half+j))
		}
	}
}
