// Package shortrow computes on rows of up to 16 float32, or 32 that are divided by their norms, where to call a kernel for each costs more than
// what it does: with AVX-512 a row is one vector, or a few of float64. Columns are taken of rows of any length.
//
// The package imports packages asm and isa of internal/kernel.
package shortrow

//go:generate go run gen.go
