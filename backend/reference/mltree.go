package reference

import (
	"errors"
	"math"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/forest"
)

var treeKernels = []kernel{
	{"TreeEnsemble", 5, treeEnsemble},
	{"TreeEnsembleRegressor", 1, treeRegressor},
	{"TreeEnsembleClassifier", 1, treeClassifier},
}

// leafOf returns the leaf that a row of features reaches. Features that are not there end the kernel.
func leafOf(c *Call, f *forest.Forest, root int, row []float64) *forest.Node {
	at := root
	for {
		n := &f.Nodes[at]
		if n.Mode == forest.Leaf {
			return n
		}
		if n.Feature >= len(row) {
			c.fail("nodes_featureids", ErrAttribute, "feature %d of %d", n.Feature, len(row))
		}
		c.spend(1)
		x := row[n.Feature]
		take := false
		switch n.Mode {
		case forest.LEQ:
			take = x <= n.Split
		case forest.LT:
			take = x < n.Split
		case forest.GTE:
			take = x >= n.Split
		case forest.GT:
			take = x > n.Split
		case forest.EQ:
			take = x == n.Split
		case forest.NEQ:
			take = x != n.Split
		case forest.Member:
			for _, m := range n.Members {
				take = take || x == m
			}
		case forest.Leaf: // returned above
		}
		if x != x && n.Missing {
			take = true
		}
		if at = n.No; take {
			at = n.Yes
		}
	}
}

// score returns the aggregated votes of all trees [N, targets], and for how many targets a row had votes.
func score(c *Call, f *forest.Forest, targets int, aggregate string, base []float64) []float64 {
	n, columns := c.rowsAndColumns()
	v := c.floats(0)
	out := c.floatBuffer(n, targets)
	voted := make([]bool, targets)
	for r := range n {
		row, dst := v[r*columns:][:columns], out[r*targets:][:targets]
		clear(voted)
		for _, root := range f.Roots {
			for _, w := range leafOf(c, f, root, row).Votes {
				d := &dst[w.Target]
				switch {
				case aggregate == "MIN" && voted[w.Target]:
					*d = math.Min(*d, w.Weight)
				case aggregate == "MAX" && voted[w.Target]:
					*d = math.Max(*d, w.Weight)
				case aggregate == "MIN" || aggregate == "MAX":
					*d = w.Weight
				default:
					*d += w.Weight
				}
				voted[w.Target] = true
			}
		}
		for t := range dst {
			if aggregate == "AVERAGE" {
				dst[t] /= float64(max(len(f.Roots), 1))
			}
			if len(base) > 0 {
				dst[t] += base[t%len(base)]
			}
		}
	}
	return out
}

// forestOf returns the trees of the node, which are read once for all runs.
func (c *Call) forestOf(targets int) *forest.Forest {
	f, err := keep(c, func() (*forest.Forest, error) { return forest.Read(c.Node, targets) })
	var bad *forest.Error
	if errors.As(err, &bad) {
		c.fail(bad.Attr, ErrAttribute, "%s", bad.Reason)
	}
	c.check("", err)
	return f
}

func treeEnsemble(c *Call) {
	targets := c.positive("n_targets", 1)
	f := c.forestOf(targets)
	aggregate := c.enum("aggregate_function", 1, "AVERAGE", "SUM", "MIN", "MAX")
	post := c.enum("post_transform", 0, "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
	v := score(c, f, targets, aggregate, nil)
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

func (c *Call) baseValues(targets int) []float64 {
	base, err := forest.BaseValues(c.Node, targets)
	var bad *forest.Error
	if errors.As(err, &bad) {
		c.fail(bad.Attr, ErrAttribute, "%s", bad.Reason)
	}
	return base
}

func treeRegressor(c *Call) {
	targets := c.positive("n_targets", 1)
	f := c.forestOf(targets)
	v := score(c, f, targets, c.Node.Str("aggregate_function", "SUM"), c.baseValues(targets))
	for o := 0; o < len(v); o += targets {
		c.postTransform(v[o:o+targets], c.Node.Str("post_transform", "NONE"))
	}
	n, _ := c.rowsAndColumns()
	c.putFloats(0, tensor.Float32, []int{n, targets}, v)
}

// treeClassifier adds up votes per class. Where there are two classes and all votes are for the first, its score decides
// alone: above 0.5 if all weights are positive, above 0 otherwise. Scores of operands other than float64 are rounded to float32
// before they are compared: five of ten votes of 0.1 are a tie, although their sum in float64 is above 0.5.
func treeClassifier(c *Call) {
	l := c.labels("classlabels_int64s")
	classes := max(l.len(), 1)
	f := c.forestOf(classes)
	base := c.baseValues(classes)
	mode := c.Node.Str("post_transform", "NONE")
	n, _ := c.rowsAndColumns()
	picked := make([]int, n)
	single, positive := classes == 2 && f.First, f.Positive
	rounded := func(s float64) float64 { return s }
	if c.input(0).DType != tensor.Float64 {
		rounded = func(s float64) float64 { return float64(float32(s)) }
	}
	if !single {
		v := score(c, f, classes, "SUM", base)
		for r := range n {
			row := v[r*classes:][:classes]
			for i, s := range row {
				row[i] = rounded(s)
			}
			picked[r] = argMax(row)
			c.postTransform(row, mode)
		}
		c.putLabels(l, picked)
		c.putFloats(1, tensor.Float32, []int{n, classes}, v)
		return
	}
	v := score(c, f, classes, "SUM", nil)
	for r := range n {
		row := v[2*r:][:2]
		s := row[0]
		if len(base) > 0 {
			s += base[0]
		}
		s = rounded(s)
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
