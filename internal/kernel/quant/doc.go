// Package quant has the kernels of networks on integers of 8 bits: sums of products of such integers in 32 bits, which are exact,
// and the ways between integers and float32.
//
// A product multiplies rows of A by B, both of bytes, one of them signed and the other not: that is what instructions multiply.
// Where a model's are alike, the upper bits of A's elements are turned around (Flip): it is then 128 more, or less, and so is its
// zero point. B lies in panels of 16 columns, in each of which four k stand side by side for every column (Panel). Rows of A may
// lie anywhere, in segments (Product): those of a matrix do, and the windows of a convolution in an image whose channels come last,
// without a copy of each window. Zero points of A are taken off by what the sums of a column begin with.
//
// No sum saturates, whatever the signs. Where an instruction multiplies bytes it adds four products to each of 16 sums (VNNI) or of 4 (SDOT
// and UDOT, whose operands are of one signedness, so that A's upper bits are turned around as it is read; USDOT and SUDOT); AVX2 adds two products
// in 16 bits, for pairs that cannot saturate, and what others have too much behind (pairs.go), or, where those are many, magnitudes (signs.go); elsewhere some
// rows of A are widened to 16 bits at a time, B's elements where they are read, and products are added in pairs. Results of all kernels,
// sums and roundings alike, are the same, bit for bit, on every instruction set.
//
// With VNNI, sums that become integers of 8 bits do so before they leave their registers (MultiplyRounded), as those of depthwise
// convolutions, whose taps are interleaved by fours (Weigh). With AVX2 those of products of few panels do that, and of few quads, and those of depthwise
// convolutions, which read lines in which pixels stand beside those of the next tap (WeighLines). Callers ask for that (Rounds, Weighs,
// WeighsLines); elsewhere sums are stored, and then rounded (Requantize).
//
// With AVX2 dense convolutions of 3 x 3 taps, with stride 1, are made by Winograd's algorithm F(2x2, 3x3), in words, exactly (Squares, winograd.go): 16 products in the place
// of 36. Callers ask whether there are kernels that take less time so, and prepare weights (SquareWeights). Panels of what is rounded in registers they may widen beforehand (Words).
//
// Where the processor has AMX besides, tiles multiply what is large enough (package amx): rows at one distance, of a matrix or of a line of a
// convolution's windows, 16 at most to a tile. Sums that are rounded are so from scratch memory then.
//
// This is a leaf: it imports packages amx, cpuid and isa only.
package quant

//go:generate go run gen.go gen_tile.go gen_pairs.go gen_fours.go gen_signs.go gen_round.go gen_rows.go gen_widen.go gen_taps.go gen_columns.go gen_sums.go gen_weigh.go gen_lines.go gen_winograd.go gen_add.go gen_neon_tile.go gen_neon_matrix.go gen_neon_wide.go gen_neon_rows.go
