// Package winograd computes float32 convolutions of 3 by 3 taps with stride 1 by Winograd's minimal filtering algorithms
// (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016) on tensors in the blocked layout NCHW16c: it makes
// fewer multiply-adds than package conv, whose Spec, Tensors and errors it shares.
//
// # Algorithm
//
// F(2) computes tiles of 2 by 2 results from 4 by 4 source pixels with 16 products per pair of channels in place of 36, F(4)
// tiles of 4 by 4 from 6 by 6 with 36 in place of 144: y = Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A. Weights are transformed once
// (Weights.Pack); a run transforms the source of some tiles into scratch memory, multiplies matrices of package gemm, one for each
// of the 16 or 36 points, and transforms the products back, with bias, residual and limits.
//
// # Error
//
// The matrices evaluate polynomials at 0, ±1 and ∞ for F(2), at 0, ±5/8, ±3/2 and ∞ for F(4): fractions that are exact in
// binary, whose products are, and that keep the entries of all three matrices close to one. With |·| of each entry and u = 2^-24,
//
//	|error of y| ≤ 1.01·(C + 24)·u · Σ_c |A|ᵀ[(|G||g_c||G|ᵀ) ⊙ (|B|ᵀ|d_c||B|)]|A|
//
// for C channels, by the usual analysis of sums of rounded products (Higham, Accuracy and Stability of Numerical Algorithms, chapter 3).
// Bound computes the sum. On independent normal numbers the root mean square of the error is 0.6 times that of a
// convolution in its order of definition for F(2), and 1.8 times for F(4). A source pixel that is infinite or NaN may make
// every result of its tiles NaN.
//
// # Plans
//
// A Plan is immutable and may be used by many goroutines at once. Run computes chunks, which are independent; the result does
// not depend on how they are cut, and is the same, bit for bit, for AVX2 and AVX-512. Run does not allocate.
//
// The package imports conv, gemm, isa, pairs and reorder of internal/kernel, and its own points; asm is needed to generate its assembly.
package winograd

//go:generate go run gen.go
