// Package graph is carve's intermediate representation: a typed SSA graph of operators with symbolic shapes, the schemas
// of the operators with type and shape inference, a verifier, a text form for golden tests, rewriting, and simplification.
//
// # Glossary
//
// node, op: one operation and the operator that it is an instance of. value: an edge, defined once. operand, use: a value
// as a node reads it. attr: a named parameter of a node. shape, axis, rank, dtype: of tensors. constant: a value with
// data; initializer is what a model file calls it. dims value: a small integer tensor known as expressions of symbols.
// region: a nested graph of a node. layout: the order of elements in storage; format: a device and a layout. signature: a
// format for every port of a node. claim, group, subgraph, boundary, convex, seed, selector, property: see packages
// property and partition. lifetime, buffer, arena, alias, in-place: see memplan.
//
// # Invariants
//
// The verifier checks them by number; see Verify.
//
// The package imports graph/tensor and nothing else of carve; kernels for constant folding come in through Evaluator.
package graph
