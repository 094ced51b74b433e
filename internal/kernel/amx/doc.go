// Package amx multiplies matrices by AMX: rows of A of integers of 8 bits, or of bfloat16, by panels of B of 16 columns, in sums of 32 bits.
//
// A tile is 16 rows of 64 bytes: of A, as many bytes of k of 16 rows; of B, a panel's words of four integers or two bfloat16 that follow each other along
// k, as packages quant and gemm pack them; of sums, 16 rows of a panel. The kernels keep two tiles of rows times two panels of sums in registers, and
// multiply 64 bytes of k of one tile of each in 16 cycles, or as many as there are rows. Tiles of A may lie anywhere, with rows at one distance (Pair), so
// that windows of a convolution are read where they lie, a tile for each stretch of them.
//
// Sums of integers are exact and wrap around, as those of package quant. Of bfloat16, the products of the even numbers of each 64 bytes of k are added
// up in float32, and those of the odd ones, both then to the sum; subnormal numbers count as 0. So results do not depend on how rows and columns
// are divided, but they do on where k is: it has to be divided at multiples of 64 bytes.
//
// The registers are configured and released in each call: no state is left behind for another goroutine on the same thread, and none is lost where one
// is preempted. Who calls has seen that the target has tiles (isa.Target.Int8Tiles, BFloat16Tiles).
//
// This is a leaf: it imports package isa alone.
package amx

//go:generate go run gen.go gen_finish.go
