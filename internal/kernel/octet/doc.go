// Package octet multiplies rows of floats by weights of 8 bits that have a scale, and may have a zero point, for each block: weights are
// read as bytes, and turned into floats in registers.
//
// Weights are packed once, in panels of 16 columns of the product, in which quads of k lie side by side, as instructions that multiply
// bytes want them. Sums of a block are of whole numbers times floats, and are scaled as a whole.
//
// For many rows weights are unpacked into panels of floats, which products of floats read while they are near (Unpack).
//
// With VNNI or NEON's SDOT rows may be rounded to integers of 8 bits first (Round), as a model may allow.
//
// The package imports package cpuid, and packages asm and isa of internal/kernel.
package octet

//go:generate go run gen.go gen_rounded.go gen_round.go gen_neon.go
