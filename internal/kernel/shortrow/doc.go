// Package shortrow computes on rows of up to 16 float32, where to call a kernel for each costs more than what it does: with AVX-512 a row is one
// vector. Rows of any length are divided by their norms, with AVX2 too, and columns taken of them.
//
// The package imports packages asm and isa of internal/kernel.
package shortrow

//go:generate go run gen.go
