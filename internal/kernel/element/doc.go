// Package element has what is done element by element with two vectors of integers of 8 to 64 bits: sums, products, the larger, bits; comparisons, of
// float32 too; the choice between two vectors; maxima of products of float32; and pairs that are taken apart. Results are the same on every instruction
// set. Where there is no kernel for a type, loops in Go take its place; those of comparisons and choices have no branch that data would mislead.
//
// This is a leaf: it imports package isa only.
package element

//go:generate go run gen.go gen_columns.go gen_compare.go gen_moves.go gen_pairs.go
