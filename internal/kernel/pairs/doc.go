// Package pairs rounds float32 to bfloat16 or float16 in the order in which kernels multiply them: in words of two numbers that are neighbours along
// what a product sums over, the first in the lower half. So a matrix of such numbers is one of half as many words, and what moves or
// packs 32-bit elements moves them.
//
// Numbers are rounded to nearest, ties to even; NaN stays NaN and infinity infinity, and what is too large becomes infinity. Whether
// numbers below 2⁻¹²⁶ stay or become zero as bfloat16 depends on the instruction set (AVX-512 BF16 has none of them).
//
// It imports packages isa and reorder, which casts rows to float16, and asm to generate its assembly.
package pairs

//go:generate go run gen.go
