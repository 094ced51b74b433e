// Package octet multiplies rows of floats by weights of 8 bits, or 4, that have a scale, and may have a zero point, for each block.
//
// Weights are packed once, in panels of 16 columns of the product, in which quads of k lie side by side, as instructions that multiply
// bytes want them. Sums of a block are scaled as a whole.
//
// With VNNI, AVX2 or NEON's SDOT rows may be rounded to integers of 8 bits first (Round), as a model may allow; with VNNI they may also be integers
// of three digits of 8 bits, whose products are as near as those of floats and cost less. Many rows of one digit are multiplied by tiles of AMX
// where there are some, with the same results. Elsewhere bytes are turned into floats in
// registers, and for many rows weights are unpacked into panels of floats, which products of floats read while they are near (Unpack).
//
// The package imports package cpuid, and packages amx, asm and isa of internal/kernel.
package octet

//go:generate go run gen.go gen_rounded.go gen_halves.go gen_bytes.go gen_bytesround.go gen_round.go gen_tiles.go gen_neon.go
