// Package element has what is done element by element with two vectors of integers of 8 to 64 bits: sums, products, the larger, bits; comparisons, of
// float32 too; and the choice between two vectors. Pairs are taken apart, too. Results are the same on every instruction set. Where there is no kernel for a type, loops in
// Go take its place; those of comparisons and choices have no branch that data would mislead.
//
// This is a leaf: it imports package isa only.
package element

//go:generate go run gen.go
