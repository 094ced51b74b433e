// Package fewconv computes float32 convolutions of few results, which package conv would have in lanes that are idle for the most part.
//
// Plan computes those of one to three results, such as the last ones of networks that make images, depths or masks: of a source in the blocked layout NCHW16c of
// package conv, with results in planar NCHW. Lanes of a vector are channels of the source. A result is 16 sums, one of each lane over blocks of channels, rows
// and columns of the kernel in this order, which are added up at its end.
//
// Planar computes convolutions at stride 1 of row-major tensors, such as the last ones of networks that make sound, and filters of images of few channels: its lanes are
// pixels beside each other, or positions of a line, so that neither the source nor the results change their layout.
//
// Sums have the same order in every instruction set and for every division of the work: AVX2, AVX-512 and NEON give the same bits, and portable Go rounds each
// product.
//
// Weights of a Plan are [C/16][KH][KW][OC][16]; lanes behind C are zero in the source and in the weights. The package imports packages asm, conv and isa of
// internal/kernel.
package fewconv

//go:generate go run gen.go gen_neon.go gen_planar.go
