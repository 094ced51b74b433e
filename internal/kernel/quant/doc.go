// Package quant has the kernels of networks on integers of 8 bits: sums of products of such integers in 32 bits, which are exact,
// and the ways between integers and float32.
//
// A product multiplies rows of A, whose elements are widened to 16 bits with their zero point taken off (Widen, Quantize16), by
// B, which stays in 8 bits: panels of 16 columns, in each of which two k stand side by side for every column (Panel). One
// instruction multiplies sixteen such elements and adds them in pairs, in 32 bits: no sum saturates, whatever the signs. Rows
// of A may lie anywhere, in segments (Product): those of a matrix do, and the windows of a convolution in an image whose channels
// come last, without a copy of each window.
//
// Results of all kernels, sums and roundings alike, are the same, bit for bit, on every instruction set.
//
// This is a leaf: it imports package isa of internal/kernel only.
package quant

//go:generate go run gen.go gen_tile.go gen_rows.go
