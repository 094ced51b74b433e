// Package gemm multiplies matrices of float32, or of float64 (Spec.Double): C[M, N] = act(A[M, K] · B[K, N] + bias[N] + residual[M, N]).
//
// A is read in place, row by row, with any row stride; it is never copied. B comes in one of three layouts (Layout): packed
// into panels of 16 columns (8 of float64), which is how weights are kept (PackB and PackBT make it, once), as plain rows [K, N], or as
// plain columns [N, K]. C is written once, with the epilogue applied before the store.
//
// A product is planned (NewPlan) and then run any number of times. A Plan is immutable; it divides the product into
// independent chunks of some tens of microseconds, and Run computes a range of them, so that the caller's worker pool
// decides who computes what. Run allocates nothing and calls assembly in pieces of well under 100 µs.
//
// Every element of C is one chain of fused multiply-adds over k in ascending order, starting from the bias (Columns:
// a fixed number of interleaved chains, then a fixed tree). So the result depends neither on the number of threads nor on
// how M and N are divided, and is the same, bit for bit, for the AVX2, AVX-512 and NEON kernels of Packed and Rows.
//
// A product of bfloat16 (Spec.Pairs) is one of words of two numbers, whose products are added to float32 one after the other: by AVX-512 BF16,
// by FEAT_BF16 of arm64, or else by portable Go, which rounds in another order. Where the target has tiles of AMX (package amx), those multiply
// products of four rows or more: of each 32 numbers of k the products of even and those of odd place are added up before they are added to the rest, for all
// elements alike, so that a row has the same bits in every such product, but not those that it has in one of fewer rows. Of float16 NEON adds products of 128 numbers of k, those of even
// and those of odd place, in float16, and their sum to that in float32, for every division alike; portable Go adds in float32.
//
// Where B is float16 (Spec.Half), elements are those of the product with B in float32.
//
// Memory outside of the given ranges is neither read nor written; tails are masked. No alignment is needed. Packed B
// that starts on a 64-byte boundary is read without crossing cache lines, which is worth some percent.
//
// The package imports package cpuid, and packages amx, isa, pairs and reorder of internal/kernel.
package gemm

//go:generate go run gen.go gen_dot.go gen_loop.go gen_results.go gen_steps.go gen_neon.go gen_neon_dot.go gen_neon_float16.go
