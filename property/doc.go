// Package property says how nodes are grouped: SubgraphProperty and Selector as MXNet's users know them, with the holes
// closed, the claims that they make, and ready-made properties.
//
// # Where to start
//
// Most users need no selector of their own:
//
//   - Nodes makes a property of a Predicate such as Ops("Conv", "Relu"), StaticShapes or Named("/encoder/**"); predicates
//     are combined with All, Any and Not.
//   - Pattern and Sequence describe small trees of operators (convolution, normalisation, addition, activation) that are
//     fused into one node; NewPattern makes a property of them, with a check function.
//   - Found makes a property of a function that finds sets by code.
//   - And, Where, Limit, WithKind and MinBenefit turn properties into others.
//   - Pin binds nodes to a backend by name or operator, and ReadConfig reads pins and registered properties from a file.
//
// Whatever these cannot say is written as a SubgraphProperty of its own, with optional interfaces beside it: Kinded,
// Reviewer, Signer, NodeCreator, Adjuster, EdgeFilter, PrePartitioner, PostPartitioner. Properties of a backend are handed
// to the compiler in its Options, by the backend's name.
//
// # What becomes of the sets
//
// A property belongs to one backend. What its selectors choose are claims, by the property's Kind. Atomic claims are fused
// units that are never split. Bounding claims are borders that no final group of that backend crosses. Admitting claims say
// which nodes the backend may take at all. Every node that a property turns down carries a typed Reason.
//
// Sets drives a property over a graph; package partition does so, and tests of properties may.
//
// The package imports graph and nothing above it.
package property
