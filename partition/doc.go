// Package partition carves a graph into subgraphs, each owned by one backend: claims, assignment, grouping, formats, and
// construction, with a verifier of the result.
//
// # Where to start
//
// Partition is the entry point; Options say who may take what, and Result what came of it. It runs the stages (Stages), each of
// which is a method of State, so that a compiler can list them among its passes, verify (State.Verify) and dump
// (State.WriteText) what each has made:
//
//   - prepare-properties: properties look at the graph, and edit it, before anything is chosen;
//   - assign: backends and their properties name candidates, which are sets of nodes, or single ones, with signatures and cost
//     (candidates.go, collect.go, fuse.go), and a Chooser decides who gets them; sets that are taken become fused nodes;
//   - group: the nodes of each backend are merged into groups that are acyclic all together, whatever other backends' groups
//     do (group.go; the method is that of package dag, below internal);
//   - review-groups: groups are shown to the properties that review them (review.go);
//   - choose-formats: of the signatures that each node has, those that make conversions cheap (formats.go);
//   - negotiate-formats: backends that negotiate say which formats they want at the edges of finished groups (negotiate.go);
//   - check-converters: conversions that nobody can make are found (converters.go);
//   - insert-conversions: one Convert node for each value and format, and a list of constants to pack (insert.go);
//   - extract-groups: a Subgraph node for every group (extract.go), verified (Verify);
//   - finish-properties: properties look at the partitioned graph, and edit it; the result is verified.
//
// # Bans
//
// What a backend may not have stands in one table, Bans, with the reasons: pins from the start, then what a review, a
// negotiation, a missing converter or, beyond this package, a failed compilation adds. Where a stage has added something the
// partition begins anew with the graph as it was. Since bans only grow, and there is one for a node and a backend, it ends.
//
// Every node that a backend or property turns down on the way leaves a reason in Result.Rejected; Result.Explain adds the
// backends that were not asked.
//
// The order of priority decides who gets a node (Priority), or what it costs (Modelled), with the formats: two Choosers over the
// same candidates.
//
// It is deterministic: the same graph and options give the same result. Grouping and verification cost O(V+E) for each backend;
// nothing recurses, so a million nodes are welcome.
package partition
