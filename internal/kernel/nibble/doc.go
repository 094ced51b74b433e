// Package nibble multiplies rows of floats by weights of 4 bits that have a scale, and may have a zero point, for each block: weights are
// read as 4 bits, and turned into floats in registers.
//
// Weights are a row for each column of the product, of whole blocks, two in a byte, the first in the lower half. Rows of floats are
// brought into the order in which registers see weights first, by Spread.
//
// For many rows weights are unpacked into panels of floats, which products of floats read while they are near (Unpack).
//
// With NEON's SDOT rows may be rounded to integers of 8 bits first (Round), as a model may allow.
//
// The package imports package cpuid, and packages asm, isa and quant of internal/kernel.
package nibble

//go:generate go run gen.go gen_neon.go
