package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var treeKernels = []kernel{
	{"TreeEnsemble", 5, treeEnsemble},
	{"TreeEnsembleRegressor", 1, treeRegressor},
	{"TreeEnsembleClassifier", 1, treeClassifier},
}

type treeMode uint8

// The comparisons of a node, in the order of TreeEnsemble's enumeration.
const (
	branchLEQ treeMode = iota
	branchLT
	branchGTE
	branchGT
	branchEQ
	branchNEQ
	branchMember
	leafNode
)

var treeModes = map[string]treeMode{"BRANCH_LEQ": branchLEQ, "BRANCH_LT": branchLT, "BRANCH_GTE": branchGTE,
	"BRANCH_GT": branchGT, "BRANCH_EQ": branchEQ, "BRANCH_NEQ": branchNEQ, "LEAF": leafNode}

// treeNode is a node of any tree. yes and no are places in forest.nodes.
type treeNode struct {
	mode    treeMode
	feature int
	split   float64
	missing bool // NaN takes the branch yes
	yes, no int
	members []float64
	votes   []vote
}

type vote struct {
	target int
	weight float64
}

// forest is a set of decision trees.
type forest struct {
	nodes []treeNode
	roots []int
}

// leaf returns the leaf that a row of features reaches. Trees with cycles, and features that are not there, end the
// kernel.
func (f *forest) leaf(c *Call, root int, row []float64) *treeNode {
	at := root
	for steps := 0; ; steps++ {
		n := &f.nodes[at]
		if n.mode == leafNode {
			return n
		}
		if steps > len(f.nodes) || n.feature < 0 || n.feature >= len(row) {
			c.fail("nodes_featureids", ErrAttribute, "feature %d of %d, or a tree with a cycle", n.feature, len(row))
		}
		c.spend(1)
		x := row[n.feature]
		take := false
		switch n.mode {
		case branchLEQ:
			take = x <= n.split
		case branchLT:
			take = x < n.split
		case branchGTE:
			take = x >= n.split
		case branchGT:
			take = x > n.split
		case branchEQ:
			take = x == n.split
		case branchNEQ:
			take = x != n.split
		case branchMember:
			for _, m := range n.members {
				take = take || x == m
			}
		case leafNode: // returned above
		}
		if x != x && n.missing {
			take = true
		}
		if at = n.no; take {
			at = n.yes
		}
	}
}

// score returns the aggregated votes of all trees [N, targets], and for how many targets a row had votes.
func (f *forest) score(c *Call, targets int, aggregate string, base []float64) []float64 {
	n, columns := c.rowsAndColumns()
	v := c.floats(0)
	out := c.floatBuffer(n, targets)
	voted := make([]bool, targets)
	for r := range n {
		row, dst := v[r*columns:][:columns], out[r*targets:][:targets]
		clear(voted)
		for _, root := range f.roots {
			for _, w := range f.leaf(c, root, row).votes {
				d := &dst[w.target]
				switch {
				case aggregate == "MIN" && voted[w.target]:
					*d = math.Min(*d, w.weight)
				case aggregate == "MAX" && voted[w.target]:
					*d = math.Max(*d, w.weight)
				case aggregate == "MIN" || aggregate == "MAX":
					*d = w.weight
				default:
					*d += w.weight
				}
				voted[w.target] = true
			}
		}
		for t := range dst {
			if aggregate == "AVERAGE" {
				dst[t] /= float64(max(len(f.roots), 1))
			}
			if base != nil {
				dst[t] += base[t%len(base)]
			}
		}
	}
	return out
}

// number reads one of several attributes as numbers; n < 0 admits any length.
func (c *Call) number(n int, names ...string) []float64 {
	t := c.listAttr(names...)
	if t == nil {
		return nil
	}
	v := c.floatsOf(names[0], t)
	if n >= 0 && len(v) != n {
		c.fail(names[0], ErrAttribute, "%d elements for %d", len(v), n)
	}
	return v
}

// places reads an integer list attribute whose elements are at least 0 and below limit.
func (c *Call) places(name string, n, limit int) []int {
	v, _ := c.Node.Ints(name)
	if n >= 0 && len(v) != n {
		c.fail(name, ErrAttribute, "%d elements for %d", len(v), n)
	}
	out := make([]int, len(v))
	for i, x := range v {
		if x < 0 || x >= int64(limit) {
			c.fail(name, ErrAttribute, "%d of %d", x, limit)
		}
		out[i] = int(x)
	}
	return out
}

// treeEnsemble reads the attributes of version 5: interior nodes and leaves in lists of their own.
func treeEnsemble(c *Call) {
	modes := c.number(-1, "nodes_modes")
	n := len(modes)
	weights := c.number(-1, "leaf_weights")
	leaves := len(weights)
	targets := c.positive("n_targets", 1)
	ids := c.places("leaf_targetids", leaves, targets)
	f := &forest{nodes: make([]treeNode, n+leaves)}
	for i := range leaves {
		f.nodes[n+i] = treeNode{mode: leafNode, votes: []vote{{ids[i], weights[i]}}}
	}
	features := c.places("nodes_featureids", n, 1<<30)
	splits := c.number(n, "nodes_splits")
	missing := c.number(n, "nodes_missing_value_tracks_true")
	yesLeaf, noLeaf := c.places("nodes_trueleafs", n, 2), c.places("nodes_falseleafs", n, 2)
	yes, no := c.places("nodes_truenodeids", n, 1<<30), c.places("nodes_falsenodeids", n, 1<<30)
	members := c.number(-1, "membership_values")
	for i, m := range modes {
		if !(m >= 0 && m <= float64(branchMember)) || splits == nil {
			c.fail("nodes_modes", ErrAttribute, "%v", m)
		}
		t := treeNode{mode: treeMode(m), feature: features[i], split: splits[i], yes: yes[i], no: no[i]}
		t.missing = missing != nil && missing[i] != 0
		for _, b := range []struct {
			at   *int
			leaf int
			name string
		}{{&t.yes, yesLeaf[i], "nodes_truenodeids"}, {&t.no, noLeaf[i], "nodes_falsenodeids"}} {
			limit := n
			if b.leaf != 0 {
				limit = leaves
			}
			if *b.at >= limit {
				c.fail(b.name, ErrAttribute, "%d of %d", *b.at, limit)
			}
			if b.leaf != 0 {
				*b.at += n
			}
		}
		if t.mode == branchMember {
			for len(members) > 0 {
				x := members[0]
				members = members[1:]
				if x != x {
					break
				}
				t.members = append(t.members, x)
			}
		}
		f.nodes[i] = t
	}
	f.roots = c.places("tree_roots", -1, n)
	aggregate := c.enum("aggregate_function", 1, "AVERAGE", "SUM", "MIN", "MAX")
	post := c.enum("post_transform", 0, "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
	v := f.score(c, targets, aggregate, nil)
	for o := 0; o < len(v); o += targets {
		c.postTransform(v[o:o+targets], post)
	}
	rows, _ := c.rowsAndColumns()
	c.putFloats(0, c.input(0).DType, []int{rows, targets}, v)
}

// enum returns the name of an attribute that is stored as a number.
func (c *Call) enum(name string, def int64, names ...string) string {
	v := c.Node.Int(name, def)
	if v < 0 || v >= int64(len(names)) {
		c.fail(name, ErrAttribute, "%d", v)
	}
	return names[v]
}

// forestOf reads the older attributes, in which nodes have ids within trees. Votes come from attributes with that prefix.
func (c *Call) forestOf(prefix string, targets int) *forest {
	modes := c.Node.Strs("nodes_modes")
	n := len(modes)
	ids := func(name string, n int) []int64 {
		v, _ := c.Node.Ints(name)
		if len(v) != n {
			c.fail(name, ErrAttribute, "%d elements for %d", len(v), n)
		}
		return v
	}
	trees, numbers := ids("nodes_treeids", n), ids("nodes_nodeids", n)
	place := make(map[[2]int64]int, n)
	f := &forest{nodes: make([]treeNode, n)}
	for i := range trees {
		if i == 0 || trees[i] != trees[i-1] { // the first node of a tree is its root
			f.roots = append(f.roots, i)
		}
		place[[2]int64{trees[i], numbers[i]}] = i
	}
	find := func(name string, tree, id int64) int {
		at, ok := place[[2]int64{tree, id}]
		if !ok {
			c.fail(name, ErrAttribute, "no node %d in tree %d", id, tree)
		}
		return at
	}
	features := c.places("nodes_featureids", n, 1<<30)
	splits := c.number(n, "nodes_values_as_tensor", "nodes_values")
	missing := c.number(n, "nodes_missing_value_tracks_true")
	yes, no := ids("nodes_truenodeids", n), ids("nodes_falsenodeids", n)
	for i, m := range modes {
		mode, ok := treeModes[m]
		if !ok || splits == nil {
			c.fail("nodes_modes", ErrAttribute, "%q", m)
		}
		t := treeNode{mode: mode, feature: features[i], split: splits[i], missing: missing != nil && missing[i] != 0}
		if mode != leafNode {
			t.yes, t.no = find("nodes_truenodeids", trees[i], yes[i]), find("nodes_falsenodeids", trees[i], no[i])
		}
		f.nodes[i] = t
	}
	weights := c.number(-1, prefix+"_weights_as_tensor", prefix+"_weights")
	targetIDs := c.places(prefix+"_ids", len(weights), targets)
	wt, wn := ids(prefix+"_treeids", len(weights)), ids(prefix+"_nodeids", len(weights))
	for i, w := range weights {
		leaf := &f.nodes[find(prefix+"_nodeids", wt[i], wn[i])]
		leaf.votes = append(leaf.votes, vote{targetIDs[i], w})
	}
	return f
}

func (c *Call) baseValues(targets int) []float64 {
	base := c.number(-1, "base_values_as_tensor", "base_values")
	if len(base) != 0 && len(base) != 1 && len(base) != targets {
		c.fail("base_values", ErrAttribute, "%d for %d targets", len(base), targets)
	}
	if len(base) == 0 {
		return nil
	}
	return base
}

func treeRegressor(c *Call) {
	targets := c.positive("n_targets", 1)
	f := c.forestOf("target", targets)
	v := f.score(c, targets, c.Node.Str("aggregate_function", "SUM"), c.baseValues(targets))
	for o := 0; o < len(v); o += targets {
		c.postTransform(v[o:o+targets], c.Node.Str("post_transform", "NONE"))
	}
	n, _ := c.rowsAndColumns()
	c.putFloats(0, tensor.Float32, []int{n, targets}, v)
}

// treeClassifier adds up votes per class. Where there are two classes and all votes are for the first, its score decides
// alone: above 0.5 if all weights are positive, above 0 otherwise.
func treeClassifier(c *Call) {
	l := c.labels("classlabels_int64s")
	classes := max(l.len(), 1)
	f := c.forestOf("class", classes)
	base := c.baseValues(classes)
	mode := c.Node.Str("post_transform", "NONE")
	n, _ := c.rowsAndColumns()
	picked := make([]int, n)
	single, positive := classes == 2, true
	for _, t := range f.nodes {
		for _, w := range t.votes {
			single = single && w.target == 0
			positive = positive && w.weight >= 0
		}
	}
	if !single {
		v := f.score(c, classes, "SUM", base)
		for r := range n {
			row := v[r*classes:][:classes]
			picked[r] = argMax(row)
			c.postTransform(row, mode)
		}
		c.putLabels(l, picked)
		c.putFloats(1, tensor.Float32, []int{n, classes}, v)
		return
	}
	v := f.score(c, classes, "SUM", nil)
	for r := range n {
		row := v[2*r:][:2]
		s := row[0]
		if base != nil {
			s += base[0]
		}
		threshold := 0.0
		if positive {
			threshold = 0.5
		}
		if s > threshold {
			picked[r] = 1
		}
		switch {
		case mode == "LOGISTIC" || mode == "PROBIT":
			row[0], row[1] = -s, s
			c.postTransform(row, mode)
		case positive:
			row[0], row[1] = 1-s, s
			c.postTransform(row, mode)
		default:
			row[0], row[1] = -s, s
			c.postTransform(row, mode)
		}
	}
	c.putLabels(l, picked)
	c.putFloats(1, tensor.Float32, []int{n, 2}, v)
}
