// Package graph is carve's intermediate representation: a typed SSA graph of operators with symbolic shapes, the schemas
// of the operators with type and shape inference, a verifier, a text form for golden tests, rewriting, and simplification.
//
// # Where to start
//
// A Graph comes from a file (package onnx or mxnet), from Parse, which reads the text form below, or is built: New, AddInput,
// AddConst, AddNode and SetOutputs. InferGraph finds types and shapes, Simplify folds, merges and fuses, Verify checks the
// invariants, and Print writes the text. Nodes and Topo go through the nodes; ReplaceUses, Remove and Extract rewrite. Whoever
// only runs models needs none of it.
//
// # Glossary
//
// node, op: one operation and the operator that it is an instance of. value: an edge, defined once. operand, use: a value
// as a node reads it. attr: a named parameter of a node. shape, axis, rank, dtype: of tensors. constant: a value with
// data; initializer is what a model file calls it. dims value: a small integer tensor known as expressions of symbols. Symbols
// "?7" are dims that depend on data, "?i7" elements of integer values of which nothing is known, which may be negative.
// region: a nested graph of a node. layout: the order of elements in storage; format: a device and a layout. signature: a
// format for every port of a node. claim, group, subgraph, boundary, convex, seed, selector, property: see packages
// property and partition. lifetime, buffer, arena, alias, in-place: see memplan.
//
// # Invariants
//
// Verify checks them by number, and names the first that does not hold; passes may rely on all of them.
//
//  1. nodes: every listed node belongs to the graph, knows its position, and has an id of its own below NodeIDs.
//  2. values: inputs, captures, constants and results are listed where their kind says, by the graph that they belong to,
//     with ids below ValueIDs.
//  3. ssa: every value is defined once; a result knows its producer and which output it is.
//  4. operands: what a node reads is a value of the same graph that is still there; captures are never omitted. So a
//     region is isolated: it names no value of the graph around it.
//  5. uses: every operand is listed as a use by its value, at the place that the node knows, and nothing else is.
//  6. outputs: they are values of the graph, and every value knows how often it is one.
//  7. acyclic: no node needs its own result, captures included.
//  8. attrs: attributes are sorted by name, without repetition, each of a known kind.
//  9. regions: each belongs to its node alone, under a name of its own, with one parameter per capture of the node, of the
//     same kind and element type where both are known; they nest no deeper than MaxRegionDepth. Bodies of carve's Fused
//     and Subgraph have the inputs and outputs of their node.
//  10. constants: a constant has well-formed data, whose type is the value's; no other value has data.
//  11. dims: a value with known content is an int64 or int32 scalar or vector of that length, and a dims value has one.
//  12. schema: nodes satisfy their schemas: see CheckNode.
//  13. formats: they change across Convert nodes only, which keep the type. A node with a chosen signature has its ports'
//     formats at its operands and results; one without has a single format at those that are no constants; values have the
//     same format inside and outside the body of a Subgraph node, and of a Fused node without a chosen signature. Data
//     of constants in another format than the host's come with packing.
//
// Names of values and nodes are labels, and may repeat.
//
// # Text form
//
// Print writes, and Parse reads, one statement a line:
//
//	graph "name" {
//	  opset 13
//	  opset "com.example" 1
//	  meta "author" = "somebody"
//	  doc "what it is for"
//	  input %x: f32[N,3,2*N+1] @host:NCHW16c
//	  input %shape: i64[2] dims [N,3]
//	  const %w = f32[2]{1, 0.5}
//	  const %big = f32[64,64]{... 16384 bytes #0123456789abcdef}
//	  dims %t = i64 [N,-1]
//	  %y: f32[N,3], _ = Dropout(%x, _; seed=1) "drop1" from("drop1", "id2") on "npu" as "blocked"
//	  %z: f32[N] = If(%cond | %y) "if1" {
//	    then_branch: graph {
//	      capture %y: f32[N,3]
//	      …
//	      output %r
//	    }
//	    …
//	  }
//	  $0 = com.example::Op/3(%z) ports(@host:NHWC -> @host:NHWC)
//	  output %z, $0
//	}
//
// A value is %name, %"odd name", %name'2 for the second of a name, or $0, $1 … for those without one. Behind its colon
// stands the type (? and [*] for what is not known), then the format where it is not row-major on the host, then the
// integers that it is known to hold. An operator is domain::Name, with /version where the operator sets of the graph do
// not tell it. In its brackets stand inputs, _ for an omitted one, captures behind |, attributes behind ;. Then follow
// label, provenance where it is not the label, backend and signature, the latter's formats where they are not those of the
// values. Integers have no dot, floats have a dot or an exponent, lists of nothing say of what: ints[]. Comments run from
// // to the end of the line.
//
// # Simplification
//
// Simplify's passes stand in one table, in simplify.go, each in a file of its own: simplify_… for folding, merging and
// removal, fuse_… for patterns. A new pass is a method of simplifier in that table: it visits nodes with each, replaces
// values with replace, and accounts for every node that it removes with vanish, absorb or forward.
//
// # What is not there
//
// Functions that return errors return one that wraps ErrNil for a nil graph or node. Methods that build and edit a graph, or
// ask one of its nodes and values, panic for nil ones, for values of another graph and for places that are none: those are
// programmer's errors.
//
// The package imports graph/tensor and nothing else of carve; kernels for constant folding come in through Evaluator.
package graph
