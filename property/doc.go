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
//   - ByName takes the operators of a list, as MXNet's properties default and default_v2 do, in carve's groups or in MXNet's.
//   - Pin binds nodes to a backend by name or operator, and ReadConfig reads pins and registered properties from a file.
//
// Whatever these cannot say is written as a Rule, which has a function for each hook, or as a type of the user's own that is a
// SubgraphProperty and has the optional interfaces that it needs; RuleOf makes a Rule of any property. Properties of a backend
// are handed to the compiler in its Options, by the backend's name, and switched off there by theirs.
//
// # Hooks
//
// In the order in which they are called. Those of a claim belong to atomic properties, those of a group to the others, which
// see every finished group of their backend. In the last column is the pass of the compiler, or what calls.
//
//	Rule           interface          MXNet                                       called
//	Kind           Kinded             SgPropertyType (create)                     by whoever calls the others
//	PrePartition   PrePartitioner     PrePartition                                prepare-properties
//	Selector       SubgraphProperty   CreateSubgraphSelectorV2, SubgraphSelector  assign; bounding: group
//	Adjust         Adjuster           AdjustSubgraphNode (adjust)                 assign, in place of all that follows
//	Review         Reviewer,          reviewSubgraph, whose attributes go to      claim: assign; group: review-groups
//	               AttributeReviewer  the node
//	Attributes                        SetAttr of the property                     claim: assign; group: extract-groups
//	Create         NodeCreator        CreateSubgraphNode                          claim: assign; group: extract-groups
//	Connect        Connector          ConnectSubgraphInputs, -Outputs,            claim: assign; group: extract-groups
//	                                  InitSubgraphInputs
//	Signatures     Signer             none: layouts are the tensors'              assign
//	AllowEdge      EdgeFilter         none: SelectInput, SelectOutput             group
//	PostPartition  PostPartitioner    PostPartition                               finish-properties
//	Kernel         KernelProvider     FCompute of the node's operator             the backend, for concrete shapes
//
// MXNet's attribute disable is Options.DisabledProperties of the compiler, its inference_only is always so, and its
// dedup_subgraph too: each value crosses a border once. Nodes without operands are welcome (require_subgraph_inputs).
//
// # For those who come from MXNet
//
// A SubgraphSelector, V1 or V2, is a Selector: Select, SelectInput, SelectOutput, Filter and Reset mean what they did, nodes show their
// readers (BiDirectedNode is graph.Node), and NodeAttr is in the types of values. Reset is called before every attempt but the
// first, and what Filter tears apart becomes several sets. CreateSubgraphSelector is SubgraphProperty.NewSelector; state lives in
// the selector, since a property is shared. A property of type kAdjust is a Rule with Adjust.
//
// MXNET_REGISTER_SUBGRAPH_PROPERTY is Options.Properties of the compiler, by backend, or Register with a configuration; the order of
// the list is the order of execution. optimize_for and MXBuildSubgraphByOpNames are Compile with them: ByName is the latter, with a
// switch between groupings. supportedOps of a library is Nodes with WithKind(Admitting, …); its ids that keep nodes in one
// subgraph are a Bounding property. reviewSubgraph is Review, in which a group is accepted, trimmed or vetoed with a reason.
//
// examples/mxnet-property has a selector in C++ and in Go beside each other.
//
// Where MXNet takes one set after the other, each by itself acyclic, groups here are acyclic together; MXNetSets says what MXNet makes.
//
// # What becomes of the sets
//
// A property belongs to one backend. What its selectors choose are claims, by the property's Kind. Atomic claims are fused
// units that are never split. Bounding claims are borders that no final group of that backend crosses. Admitting claims say
// which nodes the backend may take at all. Every node that a property turns down carries a typed Reason.
//
// Sets drives a property over a graph; package partition does so, and tests of properties may.
//
// The package imports graph, the tensors and workers that kernels see, and nothing above.
package property
