// Package conv computes float32 convolutions, transposed convolutions, pooling and the channel-wise operators that go
// with them on tensors in the blocked layout NCHW16c.
//
// # Layouts
//
// NCHW16c is [N][ceil(C/16)][H][W][16] ("aBcd16b"): channel c of a pixel is lane c%16 of block c/16. Lanes behind C in
// the last block are zero in every source and are made zero in every destination. There is no halo: kernels know which
// taps of an output pixel fall outside the map and leave them out.
//
// Weights of a convolution are [OC/16][IC/16][KH][KW][16 ic][16 oc], of a depthwise one [C/16][KH][KW][16], of one in groups of
// n = 2, 4 or 8 channels and as many results [C/16][KH][KW][n][16], of one in other groups that fill no blocks for each block of
// results [pieces][KH][KW][channels][16 oc], where a piece is what its groups have in a block of the source, of one that reads
// planar NCHW [OC/16][IC][KH][KW][16 oc];
// Plan.PackWeights makes each from OIHW (transposed: from IOHW).
//
// Of bfloat16 (Spec.Pairs) a block of channels is 8 words of two, in the source and so in weights: [OC/16][IC/16][KH][KW][8][16 oc].
// Where the target has tiles of AMX (package amx), convolutions of bfloat16 whose windows lie inside of their source, and those of a single tap on Pixels,
// are computed by them, with the same weights. They add up products of even and of odd channels of up to 32 numbers apart.
// Of float16 the two channels of a word of weights lie behind each other: [8][2][16 oc]. NEON adds up 8 taps in float16, and these in float32.
//
// # Plans
//
// A Plan is made once from shapes and attributes (NewConv, NewPool), is immutable and may be used by many goroutines at
// once. Plan.Run computes chunks [lo, hi) out of Chunks(); chunks are independent, write disjoint parts of the
// destination, may run in any order and on any goroutine, and the result does not depend on how they are cut: every
// output is one chain of multiply-adds in the order input channel block, kernel row, kernel column, channel. Run does
// not allocate, and one uninterruptible stretch of assembly stays near or under 100 µs.
//
// The instruction sets AVX2 and AVX-512 give the same bits, for convolutions; portable Go rounds each product. A Spec is
// planned for a target, which says which of them runs it.
//
// Three-dimensional convolutions are sums of two-dimensional ones over the kernel's depth: run the first with the bias, and
// each further one with the destination as residual.
//
// A tensor may be a channel slice of a bigger one: pass the slice of memory that starts at its first channel block of
// image 0 and the distance between images in the Spec.
//
// The package depends on internal/cpuid and, of internal/kernel, on amx, isa, pairs and reorder (which transposes weights); asm is needed
// to generate its assembly.
package conv

//go:generate go run gen_main.go gen_neon.go gen_neon_float16.go gen_tile.go gen_taps.go gen_point.go gen_line.go gen_along.go gen_planar.go gen_rows.go gen_serve.go gen_channel.go gen_portable.go
