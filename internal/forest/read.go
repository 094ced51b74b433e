package forest

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// reader reads attributes until the first error.
type reader struct {
	n   *graph.Node
	err error
}

func (r *reader) fail(attr, format string, args ...any) {
	if r.err == nil {
		r.err = failf(attr, format, args...)
	}
}

// numbers reads the first of some attributes that the node has, as numbers; n < 0 admits any length. wide says that they
// are float64.
func (r *reader) numbers(n int, names ...string) (v []float64, wide bool) {
	for _, name := range names {
		a := r.n.Attrs.Lookup(name)
		if a == nil {
			continue
		}
		switch {
		case a.Kind == graph.AttrFloats:
			v = make([]float64, len(a.Floats))
			for i, f := range a.Floats {
				v[i] = float64(f)
			}
		case a.Kind == graph.AttrInts:
			v = make([]float64, len(a.Ints))
			for i, x := range a.Ints {
				v[i] = float64(x)
			}
		case a.Kind == graph.AttrTensor && a.Tensor != nil:
			v, wide = r.decode(name, a.Tensor), a.Tensor.DType != tensor.Float32
		default:
			r.fail(name, "no list of numbers")
		}
		if n >= 0 && len(v) != n {
			r.fail(name, "%d elements for %d", len(v), n)
			return make([]float64, n), wide
		}
		return v, wide
	}
	return nil, false
}

func (r *reader) decode(name string, t *tensor.Tensor) []float64 {
	err := t.Check()
	if err == nil {
		v := make([]float64, t.Len())
		if err = tensor.Decode(v, t); err == nil {
			return v
		}
	}
	r.fail(name, "%v", err)
	return nil
}

// ids reads a list of integers of that length.
func (r *reader) ids(name string, n int) []int64 {
	v, _ := r.n.Ints(name)
	if len(v) != n {
		r.fail(name, "%d elements for %d", len(v), n)
		return make([]int64, n)
	}
	return v
}

// places reads a list of integers at least 0 and below limit; n < 0 admits any length.
func (r *reader) places(name string, n, limit int) []int {
	v, _ := r.n.Ints(name)
	if n >= 0 && len(v) != n {
		r.fail(name, "%d elements for %d", len(v), n)
		return make([]int, n)
	}
	out := make([]int, len(v))
	for i, x := range v {
		if x < 0 || x >= int64(limit) {
			r.fail(name, "%d of %d", x, limit)
			continue
		}
		out[i] = int(x)
	}
	return out
}

// maxFeature bounds features: a float32 row of that length is 4 GiB.
const maxFeature = 1 << 30

// Read returns the trees of a node with a number of targets, which are classes for TreeEnsembleClassifier. The error is an
// *Error: lists of different lengths, nodes that are not there, cycles, modes that there are not.
func Read(n *graph.Node, targets int) (*Forest, error) {
	r := &reader{n: n}
	f := &Forest{Targets: targets}
	switch n.Op.Name {
	case "TreeEnsemble":
		r.lists(f)
	case "TreeEnsembleRegressor":
		r.older(f, "target")
	default:
		r.older(f, "class")
	}
	if r.err != nil {
		return nil, r.err
	}
	f.First, f.Positive = true, true
	for i := range f.Nodes {
		for _, v := range f.Nodes[i].Votes {
			f.First = f.First && v.Target == 0
			f.Positive = f.Positive && v.Weight >= 0
		}
	}
	return f, f.check()
}

// lists reads the attributes of version 5: interior nodes and leaves in lists of their own.
func (r *reader) lists(f *Forest) {
	modes, _ := r.numbers(-1, "nodes_modes")
	n := len(modes)
	weights, wide := r.numbers(-1, "leaf_weights")
	leaves := len(weights)
	ids := r.places("leaf_targetids", leaves, f.Targets)
	f.Nodes, f.Wide = make([]Node, n+leaves), wide
	for i := range leaves {
		f.Nodes[n+i] = Node{Mode: Leaf, Votes: []Vote{{ids[i], weights[i]}}}
	}
	features := r.places("nodes_featureids", n, maxFeature)
	splits, wide := r.numbers(n, "nodes_splits")
	f.Wide = f.Wide || wide
	missing, _ := r.numbers(n, "nodes_missing_value_tracks_true")
	yes := r.branch("nodes_truenodeids", "nodes_trueleafs", n, leaves)
	no := r.branch("nodes_falsenodeids", "nodes_falseleafs", n, leaves)
	members, _ := r.numbers(-1, "membership_values")
	for i, m := range modes {
		if !(m >= 0 && m <= float64(Member)) || splits == nil {
			r.fail("nodes_modes", "%v", m)
		}
		if r.err != nil {
			return
		}
		t := Node{Mode: Mode(m), Feature: features[i], Split: splits[i], Yes: yes[i], No: no[i], Missing: missing != nil && missing[i] != 0}
		if t.Mode == Member {
			end := slices.IndexFunc(members, func(x float64) bool { return x != x })
			if end < 0 {
				t.Members, members = members, nil
			} else {
				t.Members, members = members[:end], members[end+1:]
			}
		}
		f.Nodes[i] = t
	}
	f.Roots = r.places("tree_roots", -1, n)
}

// branch reads where a branch leads to, a node or a leaf behind the nodes.
func (r *reader) branch(name, leafName string, n, leaves int) []int {
	leaf, at := r.places(leafName, n, 2), r.places(name, n, maxFeature)
	for i := range at {
		limit := n
		if leaf[i] != 0 {
			limit = leaves
		}
		if at[i] >= limit {
			r.fail(name, "%d of %d", at[i], limit)
		}
		if leaf[i] != 0 {
			at[i] += n
		}
	}
	return at
}

var modes = map[string]Mode{"BRANCH_LEQ": LEQ, "BRANCH_LT": LT, "BRANCH_GTE": GTE, "BRANCH_GT": GT, "BRANCH_EQ": EQ,
	"BRANCH_NEQ": NEQ, "LEAF": Leaf}

// older reads the older attributes, in which nodes have ids within trees. Votes come from attributes with that prefix.
func (r *reader) older(f *Forest, prefix string) {
	names := r.n.Strs("nodes_modes")
	n := len(names)
	trees, numbers := r.ids("nodes_treeids", n), r.ids("nodes_nodeids", n)
	place := make(map[[2]int64]int, n)
	f.Nodes = make([]Node, n)
	for i := range trees {
		if i == 0 || trees[i] != trees[i-1] { // the first node of a tree is its root
			f.Roots = append(f.Roots, i)
		}
		place[[2]int64{trees[i], numbers[i]}] = i
	}
	find := func(name string, tree, id int64) int {
		at, ok := place[[2]int64{tree, id}]
		if !ok {
			r.fail(name, "no node %d in tree %d", id, tree)
		}
		return at
	}
	features := r.places("nodes_featureids", n, maxFeature)
	splits, wide := r.numbers(n, "nodes_values_as_tensor", "nodes_values")
	missing, _ := r.numbers(n, "nodes_missing_value_tracks_true")
	yes, no := r.ids("nodes_truenodeids", n), r.ids("nodes_falsenodeids", n)
	for i, m := range names {
		mode, ok := modes[m]
		if !ok || splits == nil {
			r.fail("nodes_modes", "%q", m)
		}
		if r.err != nil {
			return
		}
		t := Node{Mode: mode, Feature: features[i], Split: splits[i], Missing: missing != nil && missing[i] != 0}
		if mode != Leaf {
			t.Yes, t.No = find("nodes_truenodeids", trees[i], yes[i]), find("nodes_falsenodeids", trees[i], no[i])
		}
		f.Nodes[i] = t
	}
	weights, heavy := r.numbers(-1, prefix+"_weights_as_tensor", prefix+"_weights")
	targets := r.places(prefix+"_ids", len(weights), f.Targets)
	wt, wn := r.ids(prefix+"_treeids", len(weights)), r.ids(prefix+"_nodeids", len(weights))
	for i, w := range weights {
		at := find(prefix+"_nodeids", wt[i], wn[i])
		if r.err != nil {
			return
		}
		if f.Targets == 1 && len(f.Nodes[at].Votes) > 0 { // the first counts, as in ONNX Runtime; sklearn-onnx has leaves like that, of which each vote is the same
			continue
		}
		f.Nodes[at].Votes = append(f.Nodes[at].Votes, Vote{targets[i], w})
	}
	f.Wide = wide || heavy
}

// check refuses cycles, and counts features.
func (f *Forest) check() error {
	const (
		unseen = iota
		open
		done
	)
	state := make([]uint8, len(f.Nodes))
	var stack []int
	for _, root := range f.Roots {
		stack = append(stack[:0], root)
		for len(stack) > 0 {
			i := stack[len(stack)-1]
			n := &f.Nodes[i]
			if state[i] != unseen || n.Mode == Leaf {
				state[i] = done
				stack = stack[:len(stack)-1]
				continue
			}
			state[i] = open
			f.Features = max(f.Features, n.Feature+1)
			for _, k := range []int{n.No, n.Yes} {
				switch state[k] {
				case open:
					return failf("nodes_truenodeids", "a tree with a cycle through node %d", k)
				case unseen:
					stack = append(stack, k)
				}
			}
		}
	}
	return nil
}

// BaseValues returns what is added to the scores: one number for each target, one for all, or none.
func BaseValues(n *graph.Node, targets int) ([]float64, error) {
	r := &reader{n: n}
	base, _ := r.numbers(-1, "base_values_as_tensor", "base_values")
	if len(base) > 1 && len(base) != targets {
		r.fail("base_values", "%d for %d targets", len(base), targets)
	}
	return base, r.err
}
