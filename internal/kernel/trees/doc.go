// Package trees walks decision trees, 32 walks side by side: of one row through as many trees, or of as many rows through each tree.
//
// A node is eight bytes (Branch, Leaf), and both ways from it lead to nodes that stand side by side, so that a walk goes on by an addition
// and a comparison. Kernels for AVX-512 read vectors of nodes, from places that lie apart. That pays from 16 lanes on, and is slow where it
// is old: those for AVX2 have eight walks in general registers, whose steps do not wait for each other.
//
// The package imports packages asm and isa of internal/kernel.
package trees

//go:generate go run gen.go gen_single.go
