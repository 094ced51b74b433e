package cpu

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/forest"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairwise"
	"github.com/carve-dev/carve/internal/kernel/trees"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Ensembles of decision trees: package forest walks them. Rows are float32 where the model's numbers are, else float64. Scores
// are summed in float64.

// voting is how the scores of a node become its results.
type voting struct {
	targets   int
	aggregate forest.Aggregate
	base      []float64
	post      transform
	labels    []int64 // of a classifier, nil for the classes' numbers
	classify  bool
	// Of two classes where all votes are for the first, its score alone decides: see package reference.
	single, positive, mirrored bool
	narrow                     bool // scores are float32 before they choose, as those of operands other than float64 are
}

// maxTargets bounds the scores of a row.
const maxTargets = 1 << 24

// votes refuses nodes whose attributes make no ensemble.
func votes(n *graph.Node) (*voting, *property.Reason) {
	v, err := newVoting(n)
	if err != nil {
		return nil, property.Because(property.Attribute, "%v", err)
	}
	return v, nil
}

func newVoting(n *graph.Node) (*voting, error) {
	v := &voting{aggregate: forest.Sum}
	post := n.Str("post_transform", "NONE")
	switch n.Op.Name {
	case "TreeEnsemble":
		v.aggregate = forest.Aggregate(min(uint64(n.Int("aggregate_function", 1)), 255))
		names := []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}
		k := n.Int("post_transform", 0)
		if k < 0 || k >= int64(len(names)) || v.aggregate > forest.Max {
			return nil, fmt.Errorf("post_transform %d, aggregate_function %d", k, n.Int("aggregate_function", 1))
		}
		post, v.targets = names[k], int(min(max(n.Int("n_targets", 1), 0), maxTargets+1))
	case "TreeEnsembleRegressor":
		aggregates := map[string]forest.Aggregate{"AVERAGE": forest.Average, "SUM": forest.Sum, "MIN": forest.Min, "MAX": forest.Max}
		a, ok := aggregates[n.Str("aggregate_function", "SUM")]
		if !ok {
			return nil, fmt.Errorf("aggregate_function %q", n.Str("aggregate_function", ""))
		}
		v.aggregate, v.targets = a, int(min(max(n.Int("n_targets", 1), 0), maxTargets+1))
	default:
		v.classify = true
		v.labels, _ = n.Ints("classlabels_int64s")
		v.targets = max(len(v.labels), 1)
		v.mirrored = post == "LOGISTIC" || post == "PROBIT"
	}
	if v.targets < 1 || v.targets > maxTargets {
		return nil, fmt.Errorf("%d targets", v.targets)
	}
	var ok bool
	if v.post, ok = postTransforms[post]; !ok {
		return nil, fmt.Errorf("post_transform %q", post)
	}
	return v, nil
}

// ensemble is what a node is planned from: one of its forests is not nil.
type ensemble struct {
	*voting
	scores int // of a row: the targets, or one where that decides alone
	f32    *forest.Trees[float32]
	f64    *forest.Trees[float64]
}

// newEnsemble reads and compiles the trees of a node.
func newEnsemble(n *graph.Node, k trees.Kernels) (*ensemble, error) {
	v, err := newVoting(n)
	if err != nil {
		return nil, err
	}
	f, err := forest.Read(n, v.targets)
	if err != nil {
		return nil, err
	}
	if v.base, err = forest.BaseValues(n, v.targets); err != nil {
		return nil, err
	}
	v.single, v.positive, v.narrow = v.classify && v.targets == 2 && f.First, f.Positive, n.Inputs[0].Type.DType != tensor.Float64
	e := &ensemble{voting: v, scores: v.targets}
	if v.single {
		f.Targets, e.scores = 1, 1
	}
	if f.Wide || n.Inputs[0].Type.DType != tensor.Float32 {
		e.f64, err = forest.Compile[float64](f, k)
	} else {
		e.f32, err = forest.Compile[float32](f, k)
	}
	return e, err
}

func planForest(p *planner, n *graph.Node) error {
	e, err := keep(p.e, n, func() (*ensemble, error) { return newEnsemble(n, trees.For(p.target)) })
	if err != nil {
		return err
	}
	if e.f32 != nil {
		return planTrees(p, n, e, e.f32)
	}
	return planTrees(p, n, e, e.f64)
}

const (
	// rowsUnit is how many rows a chunk has.
	rowsUnit = 8
	// rowsOfTree is how many rows walk a tree before the next one: its nodes stay in the nearest cache, as rows of some features do.
	rowsOfTree = 256
	// treesTogether is how many trees a thread walks where there are too few rows to share out.
	treesTogether = 512
)

// planTrees emits the steps of an ensemble: over rows, or for few of them over trees, whose scores a second step adds up. Which of
// both depends on the numbers of rows and trees only, so that results do not depend on threads.
func planTrees[T float32 | float64](p *planner, n *graph.Node, e *ensemble, t *forest.Trees[T]) error {
	x := n.Inputs[0]
	d := p.Dims[x.ID]
	rows, columns := d[0], d[len(d)-1]
	if len(d) == 1 {
		rows = 1
	}
	if columns < t.Features() {
		return property.Because(property.ShapeReason, "feature %d of %d", t.Features()-1, columns)
	}
	r := forestRows[T]{t: t, e: e, columns: columns, src: p.In(x), from: x.Type.DType, kernels: pairwise.For(p.target), set: p.target.Set, wide: place.Nowhere, labels: place.Nowhere}
	if !sameType[T](r.from) {
		r.wide = p.Temp(rows * columns * 8)
	}
	r.dst, r.to = p.Out(n.Outputs[len(n.Outputs)-1]), n.Outputs[len(n.Outputs)-1].Type.DType
	if e.classify {
		r.labels = p.Out(n.Outputs[0])
	}
	groups := 1
	if rows < 4 {
		groups = max(t.Len()/treesTogether, 1)
	}
	r.sums, r.scores = p.Temp(groups*rows*e.scores*8), place.Nowhere
	if e.single {
		r.scores = p.Temp(rows * e.targets * 8)
	}
	writes := []place.Memory{r.sums, r.scores, r.wide, r.labels, r.dst}
	if groups == 1 {
		units := ceilDiv(rows, rowsUnit)
		p.emit(step{chunks: units, grain: max(1, min(grainFor(rowsUnit*t.Nanos()), units/p.e.threads, trees.Walks/rowsUnit)), body: func(st *state, _, lo, hi int) {
			r.run(st, lo*rowsUnit, min(hi*rowsUnit, rows))
		}}, []place.Memory{r.src}, writes)
		return nil
	}
	p.emit(step{chunks: groups, grain: grainFor(t.Nanos() / float64(groups) * float64(rows)),
		serial: func(st *state) { r.convert(st, 0, rows) },
		body:   func(st *state, _, lo, hi int) { r.part(st, rows, groups, lo, hi) },
	}, []place.Memory{r.src}, writes)
	p.emit(step{chunks: 1, grain: 1, body: func(st *state, _, _, _ int) {
		sums := of[float64](st, r.sums)
		one := rows * e.scores
		for g := 1; g < groups; g++ {
			e.aggregate.Merge(sums[:one], sums[g*one:][:one])
		}
		r.finish(st, sums[:one], 0, rows)
	}}, []place.Memory{r.sums}, []place.Memory{r.scores, r.labels, r.dst})
	return nil
}

// forestRows is an ensemble on the rows of an operand.
type forestRows[T float32 | float64] struct {
	t                      *forest.Trees[T]
	e                      *ensemble
	columns                int
	src, wide, labels, dst place.Memory
	sums, scores           place.Memory // of the trees; of the classes where these are others
	from, to               tensor.DType
	kernels                pairwise.Kernels
	set                    isa.Set
}

func sameType[T float32 | float64](dt tensor.DType) bool {
	var zero T
	_, single := any(zero).(float32)
	return single && dt == tensor.Float32 || !single && dt == tensor.Float64
}

// run computes rows [lo, hi).
func (r *forestRows[T]) run(st *state, lo, hi int) {
	sums, each := of[float64](st, r.sums), r.e.scores
	for ; lo < hi; lo += rowsOfTree {
		n := min(rowsOfTree, hi-lo)
		s := sums[lo*each : (lo+n)*each]
		r.t.Begin(s, r.e.aggregate)
		r.t.Add(s, r.convert(st, lo, n), n, r.columns, r.e.aggregate, 0, r.t.Len())
		r.finish(st, s, lo, n)
	}
}

// part walks groups [lo, hi) of trees with all rows, which are few.
func (r *forestRows[T]) part(st *state, rows, groups, lo, hi int) {
	sums, one := of[float64](st, r.sums), rows*r.e.scores
	x := r.rows(st)
	for g := lo; g < hi; g++ {
		s := sums[g*one : (g+1)*one]
		r.t.Begin(s, r.e.aggregate)
		r.t.Add(s, x, rows, r.columns, r.e.aggregate, g*r.t.Len()/groups, (g+1)*r.t.Len()/groups)
	}
}

// rows returns the operand as rows of T: its own elements, or those that convert has made.
func (r *forestRows[T]) rows(st *state) []T {
	if r.wide == place.Nowhere {
		return of[T](st, r.src)
	}
	return of[T](st, r.wide)
}

// convert returns rows [lo, lo+n) as elements of T.
func (r *forestRows[T]) convert(st *state, lo, n int) []T {
	x := r.rows(st)[lo*r.columns : (lo+n)*r.columns]
	if r.wide == place.Nowhere {
		return x
	}
	fromElements(r.set, st, x, r.src, r.from, lo*r.columns)
	return x
}

func convertRow[T, S integer | float32 | float64](dst []T, src []S) {
	for i, v := range src {
		dst[i] = T(v)
	}
}

// finish turns the sums of n rows from row lo into results.
func (r *forestRows[T]) finish(st *state, sums []float64, lo, n int) {
	v, targets := r.e.voting, r.e.targets
	scores := sums
	if v.single {
		scores = of[float64](st, r.scores)[lo*targets : (lo+n)*targets]
		for i, s := range sums {
			scores[2*i] = s
		}
	} else {
		r.t.End(scores, v.aggregate, v.base)
	}
	if v.classify {
		labels := of[int64](st, r.labels)[lo:][:n]
		for i := range labels {
			labels[i] = v.pick(scores[i*targets:][:targets])
		}
	}
	v.post.on(r.kernels, scores, targets)
	put(r.kernels, st, r.dst, r.to, lo*targets, scores)
}

// pick returns the label of the class that wins, and completes the scores where one class has all votes.
func (v *voting) pick(row []float64) int64 {
	best := 0
	if !v.single {
		if v.narrow {
			for i, x := range row {
				row[i] = float64(float32(x))
			}
		}
		best = pairwise.Largest(row)
	} else {
		s, threshold := row[0], 0.0
		if len(v.base) > 0 {
			s += v.base[0]
		}
		s = v.rounded(s)
		if v.positive {
			threshold = 0.5
		}
		if s > threshold {
			best = 1
		}
		row[0], row[1] = -s, s
		if v.positive && !v.mirrored {
			row[0] = 1 - s
		}
	}
	if v.labels != nil {
		return v.labels[best]
	}
	return int64(best)
}

// rounded returns a score as it is compared: votes that are equal in float32 tie, and the first class wins.
func (v *voting) rounded(score float64) float64 {
	if v.narrow {
		return float64(float32(score))
	}
	return score
}

func init() {
	for _, name := range []string{"TreeEnsemble", "TreeEnsembleRegressor", "TreeEnsembleClassifier"} {
		table.Register(operators.Of("ai.onnx.ml", name), operator{Signatures: rowSignatures(votes), Plan: planForest})
	}
}
