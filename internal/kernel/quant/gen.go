//go:build ignore

// Command gen writes the kernels of package quant.
package main

import (
	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("quant", asm.Table{Entries: entries},
		asm.Unit{Base: "tile", Arch: "amd64", Generate: tiles},
		asm.Unit{Base: "pairs", Arch: "amd64", Generate: func(f *asm.File) {
			pairs(f)
			fours(f)
			signs(f)
		}},
		asm.Unit{Base: "round", Arch: "amd64", Generate: roundings},
		asm.Unit{Base: "rows", Arch: "amd64", Generate: rowKernels},
		asm.Unit{Base: "weigh", Arch: "amd64", Generate: func(f *asm.File) {
			weighs(f)
			lines(f)
		}},
		asm.Unit{Base: "winograd", Arch: "amd64", Generate: squares},
		asm.Unit{Base: "add", Arch: "amd64", Generate: adds},
		asm.Unit{Base: "tile", Arch: "arm64", Generate: neonTiles},
		asm.Unit{Base: "matrix", Arch: "arm64", Generate: neonMatrices},
		asm.Unit{Base: "wide", Arch: "arm64", Generate: neonWides},
		asm.Unit{Base: "rows", Arch: "arm64", Generate: func(f *asm.File) {
			levelOffsets(f)
			neonRows(f)
		}},
	)
}

// sets are the instruction sets of amd64 that the kernels of rows serve. What is written for AVX2 alone serves AVX-512 too.
var sets = []asm.ISA{asm.AVX512(), asm.AVX2()}

// entries are what Kernels call. Those of rows take whole groups of elements; callers do what is left over.
var entries = []asm.Entry{
	{Name: "callTile", Doc: "runs the kernel of tiles of height rows of bytes and width panels, n tiles one below the other, where something multiplies bytes.",
		Params:   "by multiplier, signed bool, height, width int, p *tileParams, a *byte, rows *int, b *byte, start, c *int32, n int",
		Portable: `panic("quant: no kernel multiplies bytes")`},
	{Name: "starts", Doc: "writes what the sums of a panel begin with for kernels that turn A's upper bits around: start, and 128 times the sums of columns.",
		Params: "signed bool, dst, start *int32, b *byte, quads int", Portable: `panic("quant: no kernel turns bits around")`},
	{Name: "multiplyMatrices", Doc: "multiplies with instructions that multiply matrices of bytes, where there are such; see Kernels.Multiply.",
		Params:   "p *Product, c *int32, a *byte, rows []int, b *byte, start *int32, panels int",
		Portable: `panic("quant: no kernel multiplies matrices of bytes")`},
	{Name: "callWide", Doc: "runs the kernel of tiles of height widened rows and width panels, n tiles side by side, and so many one below the other, all of which begin with the same.",
		Params:   "signed bool, height, width int, p *tileParams, a *int16, b *byte, start, c *int32, n, tiles int",
		Portable: "for i := range tiles {\ngenericWide(signed, height, width*n, p, advance(a, i*height*p.lda/2), b, start, advance(c, i*height*p.ldc/4))\n}"},
	{Name: "callWideRounded", Doc: "runs the kernel of tiles of height widened rows and a panel, so many one below the other, that rounds their sums; see Kernels.MultiplyRounded.",
		Params: "signed bool, height int, p *tileParams, a *int16, b *byte, start *int32, c *byte, tiles int", Portable: `panic("quant: no kernel rounds such sums")`},
	{Name: "callWordsRounded", Doc: "is callWideRounded for a panel that was widened; see Kernels.Words.",
		Params: "height int, p *tileParams, a, b *int16, start *int32, c *byte, tiles int", Portable: `panic("quant: no kernel rounds such sums")`},
	{Name: "callPairs", Doc: "runs the kernel of tiles of height rows of bytes, whose products are added in pairs, n panels side by side.",
		Params:   "kind pairKind, height int, p *pairsParams, a, b *byte, start, c *int32, n int",
		Portable: `panic("quant: no kernel adds products in pairs")`},
	{Name: "callSigns", Doc: "runs the kernel of tiles of height rows of magnitudes and signs, n panels side by side.",
		Params:   "height int, p *pairsParams, a, b *byte, start, c *int32, n int",
		Portable: `panic("quant: no kernel multiplies magnitudes")`},
	{Name: "magnitudes", Doc: "writes the magnitudes of n groups of 32 signed bytes, and so many bytes behind them their signs, all bits or none, with upper bits turned around where turned is 1. It returns the sum of all magnitudes and, in the upper half, of those of negative elements.",
		Params: "dst, src *byte, distance, turned, n int", Result: "int", Portable: `panic("quant: no kernel multiplies magnitudes")`},
	{Name: "callFours", Doc: "runs the kernel of tiles of height rows of bytes, whose products are added in fours, n panels side by side.",
		Params:   "kind pairKind, height int, p *pairsParams, a, b *byte, start, c *int32, n int",
		Portable: `panic("quant: no kernel adds products in pairs")`},
	{Name: "findExcessOfFours", Doc: "finds the fours, pairs of two quads, that add up to too much for their products to be added in 16 bits, two bits for each pair, in n groups of 32 bytes, and returns how many bits.",
		Params: "signed bool, masks *uint32, src *byte, n int", Result: "int", Portable: `panic("quant: no kernel adds products in pairs")`},
	{Name: "addExcess", Doc: "adds the products of what pairs were lessened by, up to an end of the list for each row, with n panels to so many rows of sums.",
		Params:   "kind pairKind, p *pairsParams, list *excess, ends *int, rows int, b *byte, c *int32, n int",
		Portable: `panic("quant: no kernel adds products in pairs")`},
	{Name: "lessenExcess", Doc: "lessens the pairs that add up to too much in so many rows of groups of 32 bytes, whose masks say where, and lists what by, with an end for each row.",
		Params: "signed bool, list *excess, src *byte, masks *uint32, ends *int, groups, rows int", Portable: `panic("quant: no kernel adds products in pairs")`},
	{Name: "findExcess", Doc: "finds the pairs that add up to too much for their products to be added in 16 bits, two bits for each, in n groups of 32 bytes, and returns how many bits.",
		Params: "signed bool, masks *uint32, src *byte, n int", Result: "int", Portable: `panic("quant: no kernel adds products in pairs")`},
	{Name: "widen", Doc: "widens n quads of bytes: elements 0 and 2 of each to dst, 1 and 3 behind an offset in bytes.",
		Params: "signed bool, dst *int16, odd int, src *byte, n int", Portable: "genericWiden(signed, dst, odd, src, n)"},
	{Name: "widenRows", Doc: "widens n rows of bytes, of all segments, one behind the other, as widen does.",
		Params: "signed bool, p *tileParams, dst *int16, a *byte, rows *int, n int", Portable: "genericWidenRows(set, signed, p, dst, a, rows, n)"},
	{Name: "plainRows", Doc: "widens n rows of bytes, of all segments, one behind the other, each element in its place.",
		Params: "signed bool, p *tileParams, dst *int16, a *byte, rows *int, n int", Portable: "genericPlainRows(signed, p, dst, a, rows, n)"},
	{Name: "flip", Doc: "writes the bytes of src with their upper bits turned around, n groups of 32.",
		Params: "dst, src *byte, n int", Portable: "genericFlip(dst, src, 32*n)"},
	{Name: "look", Doc: "writes what a table has for the bytes of src, n groups of 64; permutes says that VPERMI2B is there.",
		Params: "permutes bool, dst, src *byte, table *[256]byte, n int", Portable: "genericLook(dst, src, table, 64*n)"},
	{Name: "interleave", Doc: "puts the bytes of four rows, lds bytes apart, side by side, n groups of 16, ldd bytes apart in dst.",
		Params: "dst, src *byte, n, ldd, lds int", Portable: "genericInterleave(dst, src, n, ldd, lds)"},
	{Name: "quantize", Doc: "rounds src/scale, adds the zero point and bounds it, for n groups of 16.",
		Params: "dst *byte, src *float32, l *levels, n int", Portable: "genericQuantize(dst, src, l, 16*n)"},
	{Name: "dequantize", Doc: "writes (src - zero)*scale for n groups of 16.",
		Params: "signed bool, dst *float32, src *byte, l *levels, n int", Portable: "genericDequantize(signed, dst, src, l, 16*n)"},
	{Name: "quantizeColumns", Doc: "rounds src/scale, adds zero and bounds it, for n times 16 elements with one of both each; groups is 1.",
		Params: "words bool, dst *byte, src, scale *float32, zero *int32, least, most, groups, n int", Portable: "genericQuantizeColumns(words, dst, src, scale, zero, least, most, 16*n)"},
	{Name: "quantizeRuns", Doc: "rounds src/scale, adds zero and bounds it, for n runs of groups of 16 elements with one of both.",
		Params: "words bool, dst *byte, src, scale *float32, zero *int32, least, most, groups, n int", Portable: "genericQuantizeRuns(words, dst, src, scale, zero, least, most, 16*groups, n)"},
	{Name: "dequantizeColumns", Doc: "writes (src - zero)*scale for n times 16 elements with one of both each; groups is 1.",
		Params: "words, signed bool, dst *float32, src *byte, scale *float32, zero *int32, groups, n int", Portable: "genericDequantizeColumns(words, signed, dst, src, scale, zero, 16*n)"},
	{Name: "dequantizeRuns", Doc: "writes (src - zero)*scale for n runs of groups of 16 elements with one of both.",
		Params: "words, signed bool, dst *float32, src *byte, scale *float32, zero *int32, groups, n int", Portable: "genericDequantizeRuns(words, signed, dst, src, scale, zero, 16*groups, n)"},
	{Name: "channelSums", Doc: "writes the sums of 16 columns, or of 64, of rows of bytes that are ld apart.",
		Params: "wide, signed bool, dst *int32, src *byte, ld, rows int", Portable: "genericChannelSums(wide, signed, dst, src, ld, rows)"},
	{Name: "twice", Doc: "writes each byte of n groups of 16 two times.", Params: "dst, src *byte, n int", Portable: "genericTwice(dst, src, 16*n)"},
	{Name: "extent", Doc: "bounds what is in n groups of 8 elements of src, and says in bits which are NaN; see extremes.",
		Params: "dst *extremes, src *float32, n int", Portable: "genericExtent(dst, src, 8*n)"},
	{Name: "requantize", Doc: "rounds sums*scale + bias, adds the zero point and bounds it, for rows of n groups of 16.",
		Params:   "dst *byte, sums *int32, scale, bias *float32, l *levels, n, rows, ldd, lds int",
		Portable: "genericRequantize(dst, sums, scale, bias, l, 16*n, rows, ldd, lds)"},
	{Name: "scale", Doc: "writes float32(sums)*scale + bias for rows of n groups of 16.",
		Params:   "dst *float32, sums *int32, scale, bias *float32, n, rows, ldd, lds int",
		Portable: "genericScale(dst, sums, scale, bias, 16*n, rows, ldd, lds)"},
	{Name: "roundRows", Doc: "rounds n rows of sums of width panels that lie in memory, where kernels round sums as they make them; see tileParams.",
		Params: "width int, p *tileParams, sums *int32, c *byte, n int", Portable: `panic("quant: no kernel rounds such sums")`},
	{Name: "larger", Doc: "writes the larger of a and b for n groups of 16.",
		Params: "signed bool, dst, a, b *byte, n int", Portable: "genericLarger(signed, dst, a, b, 16*n)"},
	{Name: "sum", Doc: "returns the sum of n groups of 16 elements.", Params: "signed bool, src *byte, n int", Result: "int32",
		Portable: "return genericSum(signed, src, 16*n)"},
	{Name: "transpose", Doc: "transposes n blocks of 16 x 16 bytes that lie side by side in src, below each other in dst.",
		Params: "dst, src *byte, ldd, lds, n int", Portable: "genericTranspose(dst, src, ldd, lds, 16*n)"},
	{Name: "callTaps", Doc: "runs the kernel of depthwise convolutions, on n pixels of 16 channels.",
		Params:   "by multiplier, signed bool, p *tileParams, a *byte, rows *int, w *int16, start, c *int32, n int",
		Portable: "genericTaps(signed, p, a, rows, w, start, c, n)"},
	{Name: "add", Doc: "adds n groups of 64 integers as floats, where there is a kernel; see Kernels.Add.",
		Params: "signed bool, p *addParams, dst, a, b *byte, n int", Portable: `panic("quant: no kernel adds integers")`},
	{Name: "weigh", Doc: "weighs n windows of 16, 32 or 64 channels, and rounds the sums, where something multiplies bytes so; see Kernels.Weigh.",
		Params: "channels int, p *weighParams, a, dst *byte, n int", Portable: `panic("quant: no kernel weighs taps")`},
	{Name: "pairLine", Doc: "puts 16 channels of n pixels and of others, other bytes behind them, side by side as words, and those of the blocks behind; see LineFilters.",
		Params: "signed bool, dst *int16, src *byte, n, step, other, blocks, ldd int", Portable: "genericPairLine(signed, dst, src, n, step, other, blocks, ldd)"},
	{Name: "weighLines", Doc: "weighs n windows of so many blocks of 16 channels of lines, and rounds the sums; see Kernels.WeighLines.",
		Params: "p *lineParams, a *int16, record *int32, dst *byte, n, blocks int", Portable: `panic("quant: no kernel weighs lines")`},
	{Name: "squarePixels", Doc: "transforms n tiles of 4 x 4 pixels; see Squares.",
		Params: "signed bool, p *squareParams, dst *int16, src *byte, n int", Portable: "genericSquarePixels(signed, p, dst, src, n)"},
	{Name: "squareWeights", Doc: "transforms a quad of weights of a panel, taps so many bytes apart; see Kernels.SquareWeights.",
		Params: "signed bool, dst *int16, src *byte, tap int", Portable: "genericSquareWeights(signed, dst, src, tap)"},
	{Name: "squareProducts", Doc: "multiplies tiles of height rows, one below the other, by a panel, at so many points; see Squares.",
		Params: "height int, p *squareParams, a, b *int16, c *int32, points, tiles int", Portable: "genericSquareProducts(height*tiles, p, a, b, c, points)"},
	{Name: "squareSums", Doc: "makes sums of the products of n tiles; see Squares.",
		Params: "p *squareParams, dst, src, start *int32, n int", Portable: "genericSquareSums(p, dst, src, start, n)"},
	{Name: "subtract", Doc: "takes times*what from sums, for n groups of 8.",
		Params: "sums, what *int32, times, n int", Portable: "genericSubtract(sums, what, times, 8*n)"},
}
