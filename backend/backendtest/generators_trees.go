package backendtest

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// newestML is the newest version of domain ai.onnx.ml.
const newestML = 5

// treeGenerators are ensembles of decision trees.
var treeGenerators = map[string]generator{
	"ai.onnx.ml:TreeEnsemble": treeEnsemble, "ai.onnx.ml:TreeEnsembleRegressor": olderTrees, "ai.onnx.ml:TreeEnsembleClassifier": olderTrees,
}

// rows returns rows of features, few different numbers with NaN among them, so that they are equal to splits at times.
func (m *maker) rows(op string) (x *graph.Value, features int) {
	dt := m.dtype(op, 0)
	features = m.between(1, 9)
	shape := []int{pick(m, 1, 2, 3, 4, 7, 64, 65, 200), features}
	if m.chance(9) {
		shape = shape[1:]
	}
	return m.leaf(m.fill(dt, shape, func(int) float64 {
		if m.chance(9) && dt.IsFloat() {
			return math.NaN()
		}
		return float64(m.between(-3, 3))
	})), features
}

// treeList are the attributes of older versions, tree by tree, node by node.
type treeList struct {
	trees, ids, features, yes, no, missing []int64
	modes                                  []string
	splits                                 []float32
	leaves                                 [][2]int64 // trees and nodes
}

// grow adds a tree of at most that depth, and returns the id of its root.
func (l *treeList) grow(m *maker, tree int64, features, depth int) int64 {
	at, id := len(l.ids), int64(0)
	if at > 0 && l.trees[at-1] == tree {
		id = l.ids[at-1] + 1
	}
	l.trees, l.ids = append(l.trees, tree), append(l.ids, id)
	l.features, l.missing = append(l.features, int64(m.r.IntN(features))), append(l.missing, int64(m.r.IntN(2)))
	l.splits, l.yes, l.no = append(l.splits, float32(m.between(-3, 3))), append(l.yes, 0), append(l.no, 0)
	if depth == 0 || m.chance(5) {
		l.modes, l.leaves = append(l.modes, "LEAF"), append(l.leaves, [2]int64{tree, id})
		return id
	}
	l.modes = append(l.modes, pick(m, "BRANCH_LEQ", "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"))
	l.yes[at] = l.grow(m, tree, features, depth-1)
	l.no[at] = l.grow(m, tree, features, depth-1)
	return id
}

func floatsAttr(name string, v []float32) graph.Attr {
	return graph.Attr{Name: name, Kind: graph.AttrFloats, Floats: v}
}

// weights returns that many weights, none of them negative at times, which classifiers make a difference of.
func (m *maker) treeWeights(n int) []float32 {
	negative := m.chance(2)
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(m.r.Float64())
		if negative && m.chance(2) {
			out[i] = -out[i]
		}
	}
	return out
}

// olderTrees makes a TreeEnsembleRegressor or TreeEnsembleClassifier.
func olderTrees(m *maker, op string) []*graph.Value {
	x, features := m.rows(op)
	var l treeList
	for tree := range m.between(1, pick(m, 2, 9, 300)) {
		l.grow(m, int64(tree), features, m.between(0, 5))
	}
	c, targets, prefix, outputs := m.call(op, x), m.between(1, 4), "target", 1
	if op == "ai.onnx.ml:TreeEnsembleClassifier" {
		prefix, outputs = "class", 2
		labels := make([]int64, targets)
		for i := range labels {
			labels[i] = int64(7 * i)
		}
		c.attrs = append(c.attrs, graph.IntsAttr("classlabels_int64s", labels...))
	} else {
		c.int("n_targets", targets).text("aggregate_function", pick(m, "SUM", "AVERAGE", "MIN", "MAX"))
	}
	var trees, nodes, ids []int64
	last := pick(m, 0, targets-1)
	for _, leaf := range l.leaves {
		for range m.between(1, pick(m, 1, 1, 3)) {
			trees, nodes, ids = append(trees, leaf[0]), append(nodes, leaf[1]), append(ids, int64(m.between(0, last)))
		}
	}
	c.attrs = append(c.attrs, graph.IntsAttr("nodes_treeids", l.trees...), graph.IntsAttr("nodes_nodeids", l.ids...),
		graph.IntsAttr("nodes_featureids", l.features...), graph.IntsAttr("nodes_truenodeids", l.yes...), graph.IntsAttr("nodes_falsenodeids", l.no...),
		graph.Attr{Name: "nodes_modes", Kind: graph.AttrStrings, Strs: l.modes}, floatsAttr("nodes_values", l.splits),
		graph.IntsAttr(prefix+"_treeids", trees...), graph.IntsAttr(prefix+"_nodeids", nodes...), graph.IntsAttr(prefix+"_ids", ids...),
		floatsAttr(prefix+"_weights", m.treeWeights(len(ids))))
	if m.chance(2) {
		c.attrs = append(c.attrs, graph.IntsAttr("nodes_missing_value_tracks_true", l.missing...))
	}
	if m.chance(2) {
		c.attrs = append(c.attrs, floatsAttr("base_values", m.treeWeights(targets)))
	}
	c.text("post_transform", pick(m, "NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"))
	return c.out(outputs)
}

// treeEnsemble makes a TreeEnsemble of version 5: trees of one comparison or two, of all kinds.
func treeEnsemble(m *maker, op string) []*graph.Value {
	m.g.Opsets["ai.onnx.ml"] = newestML
	x, features := m.rows(op)
	dt := tensor.Float32
	if t := m.c.Values[x]; t != nil {
		dt = t.DType
	}
	trees, targets := m.between(1, pick(m, 3, 40)), m.between(1, 3)
	leaves := m.between(2, 9)
	var modes, members []float64
	var feature, yes, no, yesLeaf, noLeaf, roots, ids []int64
	for i := range 2 * trees { // the odd ones are behind the even ones, or nobody's
		mode := m.between(0, 6)
		for n := m.between(0, 3); mode == 6 && n >= 0; n-- {
			members = append(members, float64(m.between(-3, 3)))
			if n == 0 {
				members[len(members)-1] = math.NaN() // the end of the list
			}
		}
		modes, feature = append(modes, float64(mode)), append(feature, int64(m.r.IntN(features)))
		yes, yesLeaf = append(yes, int64(m.r.IntN(leaves))), append(yesLeaf, 1)
		no, noLeaf = append(no, int64(m.r.IntN(leaves))), append(noLeaf, 1)
		if i%2 == 0 {
			roots = append(roots, int64(i))
			if m.chance(2) {
				no[i], noLeaf[i] = int64(i+1), 0
			}
		}
	}
	for range leaves {
		ids = append(ids, int64(m.r.IntN(targets)))
	}
	list := func(name string, dt tensor.DType, v []float64) graph.Attr {
		return graph.Attr{Name: name, Kind: graph.AttrTensor, Tensor: m.fill(dt, []int{len(v)}, func(i int) float64 { return v[i] })}
	}
	number := func(int) float64 { return float64(m.between(-3, 3)) }
	c := m.call(op, x).int("n_targets", targets).int("aggregate_function", m.between(0, 3)).int("post_transform", m.between(0, 3))
	c.attrs = append(c.attrs, list("nodes_modes", tensor.Uint8, modes), graph.IntsAttr("nodes_featureids", feature...),
		graph.Attr{Name: "nodes_splits", Kind: graph.AttrTensor, Tensor: m.fill(dt, []int{len(modes)}, number)},
		graph.Attr{Name: "leaf_weights", Kind: graph.AttrTensor, Tensor: m.fill(dt, []int{leaves}, number)},
		graph.IntsAttr("nodes_truenodeids", yes...), graph.IntsAttr("nodes_trueleafs", yesLeaf...),
		graph.IntsAttr("nodes_falsenodeids", no...), graph.IntsAttr("nodes_falseleafs", noLeaf...),
		graph.IntsAttr("leaf_targetids", ids...), graph.IntsAttr("tree_roots", roots...))
	if len(members) > 0 {
		c.attrs = append(c.attrs, list("membership_values", dt, members))
	}
	return c.out(1)
}
