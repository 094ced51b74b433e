// Package vec holds the float32 kernels that touch each element a fixed number of times: element-wise functions, binary
// operators, softmax, normalisation and reduction of rows, and the gates of recurrent cells.
//
// Each kernel exists for AVX-512, for AVX2, for NEON and in portable Go: they are methods of Kernels, which are chosen once, for a
// target. A call costs some nanoseconds beside its work, allocates nothing, and divides long work so that no single call of
// assembly exceeds about 100 µs. Nothing is parallel here: the caller divides rows or elements over its workers.
// Element-wise results depend on the element alone; results of rows depend on the row alone; so no division changes a bit.
//
// Slices start at the first element and must reach to the last that the sizes imply; a shorter one is the caller's bug and
// panics before anything is written. Strides (ld…) are in elements, from row to row. No alignment is needed, and nothing
// outside of the named elements is read or written, also between rows. dst may be the same slice as a source, with the
// same stride, wherever a function works element by element or row by row; any other overlap is not allowed.
//
// Accuracy against the exact result: Exp 2 ulp; Log, Sigmoid, Silu, Swish of an exact product A·x, Softplus, Elu, Rsqrt, Mish 4 ulp; Sin, Cos 2 ulp; Asin, Acos, Atan 3 ulp; Sqrt, Reciprocal and
// the rest without an approximation 1 ulp; Tanh, Erf, GeluErf, GeluTanh 1e-6, absolute or relative, whichever is larger.
// Results of Sigmoid, Silu, Swish and Mish below 1e-36 may be 0. NaN gives NaN;
// infinities give the limit, but for x·f(x) at the end where f is 0 (Silu, Swish, Mish and both Gelus at -Inf), which is NaN, as
// the product is.
//
// The package imports packages double and isa of internal/kernel.
package vec

//go:generate go run gen.go gen_math.go gen_neon.go gen_unary.go gen_binary.go gen_rows.go gen_softmax.go gen_gates.go gen_stage.go gen_columns.go
