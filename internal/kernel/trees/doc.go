// Package trees walks decision trees, 32 walks side by side: of one row through as many trees, or of as many rows through each tree.
//
// A node is eight bytes (Branch, Leaf), and both ways from it lead to nodes that stand side by side, so that a walk goes on by an addition
// and a comparison, and a vector of nodes is read by two instructions. There are kernels for AVX-512 alone: reading vectors of memory from
// places that lie apart pays from 16 lanes on, and is slow where it is old.
//
// The package imports packages asm and isa of internal/kernel.
package trees

//go:generate go run gen.go
