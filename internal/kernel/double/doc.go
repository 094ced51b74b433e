// Package double holds the float64 kernels that touch each element a fixed number of times: element-wise functions, binary
// operators, sums and extremes, and on top of them softmax and normalisation of rows. Products of float64 are in package gemm.
//
// Each kernel exists for AVX-512, for AVX2, for NEON and in portable Go: they are methods of Kernels, which are chosen once, for a
// target. All work on contiguous slices; a shorter one than the lengths imply is the caller's bug and panics before anything is
// written. dst may be a source. A call allocates nothing, and divides long work so that no single call of assembly exceeds about
// 100 µs. Element-wise results depend on the element alone, results of rows on the row alone, so that no division changes a bit.
//
// Accuracy against the exact result: Exp and Sigmoid 2 ulp, Tanh 4 ulp, Log 5 ulp, Sin and Cos 2 ulp, the rest 1 ulp. Results of Sigmoid below 1e-300 may be 0.
// NaN gives NaN, infinities the limit.
//
// This is a leaf: it imports package isa of internal/kernel only.
package double

//go:generate go run gen.go gen_math.go gen_neon.go
