//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Offsets of the fields of squareParams.
const (
	offSquareLine    = 0
	offSquarePixel   = 8
	offSquareGroups  = 16
	offSquarePoint   = 24
	offSquareTile    = 32
	offSquarePairs   = 40
	offSquareWeights = 48
	offSquareSums    = 56
	offSquareTo      = 64
	offSquareBelow   = 72
)

// squarePoints is the number of products of a tile and two channels.
const squarePoints = 16

// squares writes the kernels of convolutions of 3 x 3 taps by Winograd's algorithm F(2x2, 3x3), in integers of 16 bits, for AVX2.
func squares(f *asm.File) {
	for _, k := range kinds {
		squarePixels(f, k.name, k.words)
	}
	f.Serve("squarePixels", asm.AVX2(), "if signed {\nsquarePixelsSigned(p, dst, src, n)\n} else {\nsquarePixelsUnsigned(p, dst, src, n)\n}")
	for _, k := range kinds {
		squareWeights(f, k.name, k.words)
	}
	f.Serve("squareWeights", asm.AVX2(), "if signed {\nsquareWeightsSigned(dst, src, tap)\n} else {\nsquareWeightsUnsigned(dst, src, tap)\n}")
	var code string
	for height := 1; height <= tileHeight; height++ {
		code += fmt.Sprintf("case %d:\n%s(p, a, b, c, points, tiles)\n", height, squareProducts(f, height))
	}
	f.Serve("squareProducts", asm.AVX2(), "switch height {\n"+code+"}")
	squareSums(f)
	f.Serve("squareSums", asm.AVX2(), "squareSums2(p, dst, src, start, n)")
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, c := range []struct {
		name string
		off  int
	}{{"line", offSquareLine}, {"pixel", offSquarePixel}, {"groups", offSquareGroups}, {"point", offSquarePoint}, {"tile", offSquareTile}, {"pairs", offSquarePairs},
		{"weights", offSquareWeights}, {"sums", offSquareSums}, {"to", offSquareTo}, {"below", offSquareBelow}} {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(squareParams{}.%s)-%d]\n", c.name, c.off)
	}
	f.Import("unsafe")
	f.Go(src + ")\n")
}

// squarePixels writes what transforms pixels: Bᵀ d B of tiles of 4 x 4 pixels, two pixels apart, of 16 channels at a time.
//
// Registers: DI params, SI a tile and R8 its channels, R9 the distance of lines and R10 of pixels, DX where the results go, AX where one goes, BX the
// distance of points, CX tiles left, R11 groups left, R12 to R15 lines of a tile. Vectors 0 to 3 are the second line, 4 to 7 the third, 8 to 11 the sums of two lines, 12 to 15 results.
func squarePixels(f *asm.File, kind, words string) {
	name := "squarePixels" + kind
	fn := f.Func(name, name+" transforms n tiles of 4 x 4 pixels; n > 0; see squareParams.",
		pointer("p", "squareParams"), pointer("dst", "int16"), pointer("src", "byte"), asm.Int("n"))
	fn.Load("p", "DI")
	fn.Load("dst", "DX")
	fn.Load("src", "SI")
	fn.I("MOVQ %d(DI), R9", offSquareLine)
	fn.I("MOVQ %d(DI), R10", offSquarePixel)
	fn.I("MOVQ %d(DI), BX", offSquarePoint)
	fn.Load("n", "CX")
	fn.Loop("CX", func() {
		fn.I("MOVQ %d(DI), R11", offSquareGroups)
		fn.I("MOVQ SI, R12")
		for i := range 3 {
			fn.I("LEAQ (R%d)(R9*1), R%d", 12+i, 13+i)
		}
		fn.Loop("R11", func() {
			fn.I("MOVQ DX, AX")
			fn.I("LEAQ (R10)(R10*2), R8")
			pixel := func(line, x int) string {
				return fmt.Sprintf("(R%d)%s", 12+line, []string{"", "(R10*1)", "(R10*2)", "(R8*1)"}[x])
			}
			for x := range 4 {
				fn.I("%s %s, Y%d", words, pixel(1, x), x)
				fn.I("%s %s, Y%d", words, pixel(2, x), 4+x)
			}
			for u := range 4 {
				for x := range 4 {
					switch u {
					case 0:
						fn.I("%s %s, Y%d", words, pixel(0, x), 12+x)
						fn.I("VPSUBW Y%d, Y%d, Y%d", 4+x, 12+x, 8+x)
					case 1:
						fn.I("VPADDW Y%d, Y%d, Y%d", 4+x, x, 8+x)
					case 2:
						fn.I("VPSUBW Y%d, Y%d, Y%d", x, 4+x, 8+x)
					case 3:
						fn.I("%s %s, Y%d", words, pixel(3, x), 12+x)
						fn.I("VPSUBW Y%d, Y%d, Y%d", 12+x, x, 8+x)
					}
				}
				fn.I("VPSUBW Y10, Y8, Y12")
				fn.I("VPADDW Y10, Y9, Y13")
				fn.I("VPSUBW Y9, Y10, Y14")
				fn.I("VPSUBW Y11, Y9, Y15")
				for x := range 4 {
					fn.I("VMOVDQU Y%d, (AX)", 12+x)
					fn.I("ADDQ BX, AX")
				}
			}
			fn.I("ADDQ $32, DX")
			for i := range 4 {
				fn.I("ADDQ $16, R%d", 12+i)
			}
		})
		fn.I("LEAQ (SI)(R10*2), SI")
	})
	fn.Ret()
}

// squareWeights writes what transforms a quad of weights of a panel: (2G) g (2G)ᵀ, of 4 columns at a time.
//
// Registers: DI and SI as dst and src, R8 the distance of taps, AX and BX places of a tap, CX times left. Vectors 0 to 11 are lines, 12 to 14 weights and results, 15 the order of pairs.
func squareWeights(f *asm.File, kind, words string) {
	name := "squareWeights" + kind
	f.Data("evenFirst", 0, 2, 4, 6, 1, 3, 5, 7)
	fn := f.Func(name, name+" transforms 64 weights of 9 taps, tap bytes apart, to as many of each point, which stand behind each other: pairs 0 of all columns before pairs 1.",
		pointer("dst", "int16"), pointer("src", "byte"), asm.Int("tap"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("tap", "R8")
	fn.I("VMOVDQU %s, Y15", asm.DataAt("evenFirst", 0))
	fn.I("MOVQ $4, CX")
	lines := func(a, b, c int, to [4]int) { // twice G times three, of which those of a and c are overwritten last
		fn.I("VPADDW Y%d, Y%d, Y%d", c, a, to[1])
		fn.I("VPSUBW Y%d, Y%d, Y%d", b, to[1], to[2])
		fn.I("VPADDW Y%[1]d, Y%[2]d, Y%[2]d", b, to[1])
		fn.I("VPADDW Y%[1]d, Y%[1]d, Y%d", a, to[0])
		fn.I("VPADDW Y%[1]d, Y%[1]d, Y%d", c, to[3])
	}
	fn.Loop("CX", func() {
		fn.I("MOVQ SI, AX")
		for x := range 3 {
			fn.I("LEAQ (AX)(R8*2), BX")
			fn.I("LEAQ (BX)(R8*1), BX")
			fn.I("%s (AX), Y12", words)
			fn.I("%s (BX), Y13", words)
			fn.I("LEAQ (BX)(R8*2), BX")
			fn.I("LEAQ (BX)(R8*1), BX")
			fn.I("%s (BX), Y14", words)
			lines(12, 13, 14, [4]int{4 * x, 4*x + 1, 4*x + 2, 4*x + 3})
			fn.I("ADDQ R8, AX")
		}
		for y := range 4 {
			lines(y, 4+y, 8+y, [4]int{y, 12, 13, 8 + y})
			for x, v := range []int{y, 12, 13, 8 + y} {
				fn.I("VPERMD Y%d, Y15, Y14", v)
				fn.I("VMOVDQU X14, %d(DI)", 128*(4*y+x))
				fn.I("VEXTRACTI128 $1, Y14, %d(DI)", 128*(4*y+x)+64)
			}
		}
		fn.I("ADDQ $16, SI")
		fn.I("ADDQ $16, DI")
	})
	fn.Ret()
}

// squareProducts writes the kernel of products of height rows of words and a panel, so many tiles one below the other, at some points, and returns its name.
//
// Registers: DI params, R8 to R13 rows of A, AX b, BX the place in the rows, CX pairs left, R14 c, DX tiles left, SI the distance of tiles of rows. Vectors
// 0 to 11 are sums, 12 and 13 pairs of B, 14 one of A, 15 products.
func squareProducts(f *asm.File, height int) string {
	name := fmt.Sprintf("squareProducts_%d", height)
	fn := f.Func(name, fmt.Sprintf("%s multiplies tiles of %d rows, one below the other, by a panel, at so many points; points, tiles > 0; see squareParams.", name, height),
		pointer("p", "squareParams"), pointer("a", "int16"), pointer("b", "int16"), pointer("c", "int32"), asm.Int("points"), asm.Int("tiles"))
	fn.Load("p", "DI")
	fn.I("IMUL3Q $%d, %d(DI), SI", height, offSquareTile)
	fn.Label("point")
	fn.Load("a", row(0))
	for r := range height - 1 {
		fn.I("MOVQ %s, %s", row(r), row(r+1))
		fn.I("ADDQ %d(DI), %s", offSquareTile, row(r+1))
	}
	fn.Load("c", "R14")
	fn.Load("tiles", "DX")
	fn.Loop("DX", func() {
		for i := range 2 * height {
			fn.I("VPXOR Y%[1]d, Y%[1]d, Y%[1]d", i)
		}
		fn.Load("b", "AX")
		fn.I("XORQ BX, BX")
		fn.I("MOVQ %d(DI), CX", offSquarePairs)
		unrolled(fn, 2, func(u int) { squarePair(fn, height, u) }, func(n int) {
			fn.I("ADDQ $%d, BX", 4*n)
			fn.I("ADDQ $%d, AX", 64*n)
		})
		for i := range 2 * height {
			fn.I("VMOVDQU Y%d, %d(R14)", i, 32*i)
		}
		fn.I("ADDQ $%d, R14", 64*height)
		for r := range height {
			fn.I("ADDQ SI, %s", row(r))
		}
	})
	for _, x := range []struct {
		arg string
		off int
	}{{"a", offSquarePoint}, {"b", offSquareWeights}, {"c", offSquareSums}} {
		fn.I("MOVQ %d(DI), AX", x.off)
		fn.I("ADDQ AX, %s", fn.Addr(x.arg))
	}
	fn.I("DECQ %s", fn.Addr("points"))
	fn.I("JNZ point")
	fn.Ret()
	return name
}

// squarePair emits two k.
func squarePair(fn *asm.Func, height, u int) {
	for j := range 2 {
		fn.I("VMOVDQU %d(AX), Y%d", 64*u+32*j, 12+j)
	}
	for r := range height {
		fn.I("VPBROADCASTD %d(%s)(BX*1), Y14", 4*u, row(r))
		fn.I("VPMADDWD Y12, Y14, Y15")
		fn.I("VPMADDWD Y13, Y14, Y14")
		fn.I("VPADDD Y15, Y%[1]d, Y%[1]d", 2*r)
		fn.I("VPADDD Y14, Y%[1]d, Y%[1]d", 2*r+1)
	}
}

// squareSums writes what transforms products back: a quarter of Aᵀ m A, and what sums begin with, of tiles of 2 x 2 sums of 16 columns.
//
// Registers: DI params, SI products of a tile and AX of a point, BX the distance of points, DX sums, R8 the distance of pixels and R9 of lines, R10 sums of the second line, CX tiles
// left. Vectors 0 to 7 are sums of lines, 8 to 11 products, 12 and 13 sums, 14 and 15 what they begin with.
func squareSums(f *asm.File) {
	fn := f.Func("squareSums2", "squareSums2 makes sums of the products of n tiles; n > 0; see squareParams.",
		pointer("p", "squareParams"), pointer("dst", "int32"), pointer("src", "int32"), pointer("start", "int32"), asm.Int("n"))
	fn.Load("p", "DI")
	fn.Load("dst", "DX")
	fn.Load("src", "SI")
	fn.Load("start", "AX")
	fn.I("VMOVDQU (AX), Y14")
	fn.I("VMOVDQU 32(AX), Y15")
	fn.I("MOVQ %d(DI), BX", offSquareSums)
	fn.I("MOVQ %d(DI), R8", offSquareTo)
	fn.I("MOVQ %d(DI), R9", offSquareBelow)
	fn.Load("n", "CX")
	fn.Loop("CX", func() {
		fn.I("LEAQ (DX)(R9*1), R10")
		for half := range 2 {
			fn.I("LEAQ %d(SI), AX", 32*half)
			squareHalf(fn, half)
		}
		fn.I("ADDQ $64, SI")
		fn.I("LEAQ (DX)(R8*2), DX")
	})
	fn.Ret()
}

// squareHalf emits the sums of a tile and 8 columns.
func squareHalf(fn *asm.Func, half int) {
	three := func(a, b, c, to int, minus bool) {
		op := "VPADDD"
		if minus {
			op = "VPSUBD"
		}
		fn.I("%s Y%d, Y%d, Y%d", op, b, a, to)
		fn.I("%s Y%d, Y%d, Y%d", op, c, to, to)
	}
	for y := range 4 { // a line of points becomes two sums
		for x := range 4 {
			fn.I("VMOVDQU (AX), Y%d", 8+x)
			if y < 3 || x < 3 {
				fn.I("ADDQ BX, AX")
			}
		}
		three(8, 9, 10, 2*y, false)
		three(9, 10, 11, 2*y+1, true)
	}
	for x := range 2 {
		three(x, 2+x, 4+x, 12, false)
		three(2+x, 4+x, 6+x, 13, true)
		for y, at := range []string{"DX", "R10"} {
			fn.I("VPSRAD $2, Y%[1]d, Y%[1]d", 12+y)
			fn.I("VPADDD Y%d, Y%[2]d, Y%[2]d", 14+half, 12+y)
			fn.I("VMOVDQU Y%d, %d(%s)%s", 12+y, 32*half, at, []string{"", "(R8*1)"}[x])
		}
	}
}
