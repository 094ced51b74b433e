// Package pairwise computes on rows of float64, as classical models do: products of rows with vectors, squares of their distances,
// conversions. Functions of single numbers are those of package double.
//
// Vectors are packed into panels of eight (Panels): the same number of each stands in a row of memory, so that a lane of a register is a
// vector, and a kernel reads numbers of a few rows for all lanes.
//
// The package imports packages double and isa of internal/kernel.
package pairwise

//go:generate go run gen.go gen_neon.go
