// Package partition carves a graph into subgraphs, each owned by one backend: claims, assignment, grouping, formats, and
// construction, with a verifier of the result.
//
// # Where to start
//
// Partition is the entry point; Options say who may take what, and Result what came of it. In order, Partition
//
//  1. asks the backends, in the order of priority, for claims (claim.go, fuse.go): their properties' and their own atomic
//     claims become fused nodes, then every single node that is supported is theirs;
//  2. merges the nodes of each backend into groups that are acyclic all together, whatever other backends' groups do
//     (group.go; the method is that of package dag, below internal), shows them to the properties that review groups, and
//     gives what is turned down to backends further down the list (review.go);
//  3. chooses among the signatures so that conversions cost little (formats.go), and asks the backends that negotiate which
//     formats they want at the edges of finished groups (negotiate.go);
//  4. puts one Convert node for each value and format, packs constants, and makes a Subgraph node of every group (build.go);
//  5. verifies the result (Verify).
//
// Every node that a backend or property turns down on the way leaves a reason in Result.Rejected.
//
// The order of priority decides who gets a node. Assignment by measured cost would take the place of step 1, over the same
// claims.
//
// It is deterministic: the same graph and options give the same result. Steps 2 and 5 cost O(V+E) for each backend; nothing
// recurses, so a million nodes are welcome.
package partition
