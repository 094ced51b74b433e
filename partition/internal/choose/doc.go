// Package choose picks one alternative for each of many variables so that a sum of costs is least: which backend runs a node,
// and in which formats. It knows nothing of graphs.
//
// A variable's alternatives have costs of their own. A value is made by one variable in a state that depends on the alternative,
// and read by others that want states; each hop on the ways from the state that it is made in to the wanted ones is paid once,
// however many readers want it, and whichever ways share it. An alternative of a color pays for a launch unless the variable
// that it joins has the same color. Alternatives of one claim are taken together or not at all.
//
// # Method
//
// Alternatives that another one beats whatever the neighbours do are dropped. The rest becomes a partitioned boolean quadratic
// problem (PBQP), exactly: a value with several readers is a variable of its own, whose labels are the state that it is made in
// and the set of states that it is converted to. Variables with at most two neighbours are eliminated (R0, RI and RII: Scholz
// and Eckstein, Register allocation for irregular architectures, LCTES 2002, doi:10.1145/513829.513854; Hames and Scholz, Nearly
// optimal register allocation with PBQP, JMLC 2006, doi:10.1007/11860990_21; the choice of kernels and layouts by it: Anderson
// and Gregg, Optimal DNN primitive selection with partitioned boolean quadratic programming, CGO 2018,
// doi:10.1145/3168805), and further ones while the tables that this takes are small (Bertelè and Brioschi, Nonserial dynamic
// programming, 1972). What comes of that is the optimum.
//
// Where a core is left, and no variable around it has more than two alternatives, a minimum cut finds the optimum if the terms
// are submodular once each variable is turned the right way; two auxiliary vertices for each value count its conversions once
// (Stone, Multiprocessor scheduling with the aid of network flow algorithms, TSE 1977, doi:10.1109/TSE.1977.233840, for the
// cut). Other cores are bounded from below by sequential tree-reweighted message passing (Kolmogorov, Convergent tree-reweighted
// message passing for energy minimization, PAMI 28, 2006, doi:10.1109/TPAMI.2006.200), which gives a choice as well. It is made
// better by moves that each are a minimum cut: α-expansion (Boykov, Veksler and Zabih, Fast approximate energy minimization via
// graph cuts, PAMI 23, 2001, doi:10.1109/34.969114), generalised to any proposal (Lempitsky, Rother, Roth and Blake, Fusion moves
// for Markov random field optimization, PAMI 32, 2010, doi:10.1109/TPAMI.2009.143). Where a move is not submodular, an upper
// bound of it that is tight at the present choice is minimised instead, so that the sum never grows.
//
// Costs are whole numbers, so that their sums depend on no order. Same problem and settings, same choice, unless a budget of
// time ends the search.
//
// The package imports nothing of carve.
package choose
