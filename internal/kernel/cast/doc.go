// Package cast converts elements between integers of 8 to 64 bits, bool and float32, as Cast does: integers keep their lowest bits, and
// floats are truncated, to the nearest of 64 bits first where they are beyond those; NaN becomes 0. Integers become half precision too,
// rounded once, to the nearest, of two the even one, and beyond the range infinite.
//
// Most pairs of types meet in lanes of 32 bits: kernels bring elements there, 16 at a time, and others take them from there, so that there
// are as many as types, not as pairs. What 32 bits do not hold, integers of 64 bits that become floats, floats that do not fit,
// is done by loops in Go; float32 and float64 become each other by kernels of their own (Doubles, Singles, Oddly),
// and so do integers of 8 and 16 bits. Results are the same on every instruction set.
//
// This is a leaf: it imports package isa only.
package cast

//go:generate go run gen.go gen_double.go gen_words.go
