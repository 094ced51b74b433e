// Package dag groups the nodes of an abstract directed acyclic graph that are coloured by backend, so that the graph of all
// groups together has no cycle, and verifies such groupings.
//
// The words: a node has a colour (its backend) or none (it stays with the host). A bound is a set that no group of its colour
// crosses (a bounding claim), a cut an edge whose ends never share a group. Atomic claims are single nodes here: whoever
// makes them contracts them before. The quotient is the graph whose nodes are the groups.
//
// # Method
//
// The colours are grouped one after another, each on the quotient that the ones before left, so that groups of different
// colours cannot depend on each other in a circle. For one colour:
//
//  1. Levels. The level of a node is the largest number of times that a path to it leaves the colour (or crosses an edge
//     that must not be inside a group). Two nodes of the colour and of one level are connected by no path that leaves the
//     colour, so the connected components inside a level can be contracted all at once. The levels counted from the sinks
//     do as well; whichever gives fewer components is used. Number of levels = the fewest groups possible when groups need
//     not be connected.
//  2. Contraction. Remaining edges inside the colour are tried in topological order. Contracting an edge is legal if there is
//     no second path between its ends. The quotient's topological order is kept up to date, in the manner of Pearce and
//     Kelly (A dynamic topological sort algorithm for directed acyclic graphs, JEA 11, 2006, doi:10.1145/1187436.1210590),
//     and limits the search to what lies between the ends. The search runs from both ends by turns and stops as soon as one
//     side is exhausted. The order is a list with labels (Bender, Cole, Demaine, Farach-Colton and Zito, Two simplified
//     algorithms for maintaining order in a list, ESA 2002, doi:10.1007/3-540-45749-6_17), so that only the exhausted
//     side's nodes move.
//
// Searching has a budget of steps that is linear in the size of the graph. Running out of it costs merges, never soundness.
// Everything else is linear, nothing recurses, and no map is iterated: equal problems give equal groupings.
//
// The package knows nothing of carve's graphs; package partition adapts them. It depends on the standard library alone.
package dag
