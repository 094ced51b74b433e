package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/pairwise"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// linear are the coefficients of a linear model: a vector for each target.
type linear struct {
	targets  int
	columns  int
	vectors  []float64        // one for each target, or of two that are opposite the second
	panels   *pairwise.Panels // of those, where they are several or rows are not float32
	bias     []float64        // one for each target
	opposite bool             // of two targets one's scores are those of the other with another sign, as of classifiers of two classes
	post     transform
	mode     string  // the name of post
	labels   []int64 // of a classifier, nil for the classes' numbers
	classes  int     // of a classifier: one score may stand for two of them
}

func doubles(list []float32) []float64 {
	out := make([]float64, len(list))
	convertRow(out, list)
	return out
}

func newLinear(n *graph.Node) (*linear, *property.Reason) {
	weights := doubles(n.Floats("coefficients"))
	l := &linear{targets: 1, bias: doubles(n.Floats("intercepts")), mode: n.Str("post_transform", "NONE")}
	var ok bool
	if l.post, ok = postTransforms[l.mode]; !ok {
		return nil, property.Because(property.Attribute, "post_transform %q", l.mode)
	}
	if n.Op.Name == "LinearRegressor" {
		if t := n.Int("targets", 1); t >= 1 && t <= maxTargets {
			l.targets = int(t)
		} else {
			return nil, property.Because(property.Attribute, "targets %d", t)
		}
	} else {
		l.labels, _ = n.Ints("classlabels_ints")
		if l.targets = len(l.bias); l.targets == 0 {
			l.targets = max(len(l.labels), 1)
		}
		l.classes = l.targets
		if l.targets == 1 && len(l.labels) == 2 {
			l.classes = 2
		} else if len(l.labels) != 0 && len(l.labels) != l.targets {
			return nil, property.Because(property.Attribute, "%d labels for %d scores", len(l.labels), l.targets)
		}
	}
	if len(l.bias) == 0 && n.Attrs.Lookup("intercepts") == nil {
		l.bias = make([]float64, l.targets)
	}
	if len(l.bias) != l.targets || len(weights)%l.targets != 0 {
		return nil, property.Because(property.Attribute, "%d coefficients, %d intercepts for %d targets", len(weights), len(l.bias), l.targets)
	}
	l.vectors, l.columns = weights, len(weights)/l.targets
	return l, nil
}

// linearOf returns the model of a node, which is read once.
func linearOf(p *planner, n *graph.Node) (*linear, error) {
	return keep(p.e, n, func() (*linear, error) {
		l, why := newLinear(n)
		if why != nil {
			return nil, why
		}
		if single := n.Inputs[0].Type.DType == tensor.Float32; single && l.areOpposite() {
			l.opposite, l.vectors = true, l.vectors[l.columns:]
		} else if l.targets > 1 || !single {
			l.panels, l.vectors = pairwise.Pack(l.vectors, l.targets, l.columns), nil
		}
		return l, nil
	})
}

// areOpposite reports whether there are two targets, of which one's coefficients and bias are those of the other with another sign.
func (l *linear) areOpposite() bool {
	if l.targets != 2 || l.bias[0] != -l.bias[1] {
		return false
	}
	for i, w := range l.vectors[:l.columns] {
		if w != -l.vectors[l.columns+i] {
			return false
		}
	}
	return true
}

// both makes two scores of each of the first n, from the last on: what stands in front is not overwritten.
func both(out []float64, n int) {
	for i := n - 1; i >= 0; i-- {
		s := out[i]
		out[2*i], out[2*i+1] = 0-s, s
	}
}

// plan emits the step of a model that stores rows of width numbers; finish makes those of the scores [n, targets] of rows from lo on, which
// it may overwrite: both lie at the beginning of out. won, where it is somewhere, is where the places of the greatest of several scores go.
func (l *linear) plan(p *planner, n *graph.Node, width int, won place.Memory, finish func(k pairwise.Kernels, st *state, lo, n int, out []float64)) error {
	padded := pairwise.Width(l.targets)
	r := newNumberRows(p, n.Inputs[0], padded+max(l.targets, width))
	if r.columns != l.columns {
		return property.Because(property.ShapeReason, "%d coefficients for %d targets of %d columns", l.targets*l.columns, l.targets, r.columns)
	}
	last := n.Outputs[len(n.Outputs)-1]
	y, work := p.Out(last), p.scratch(r.together*(padded+max(l.targets, width))*8)
	writes := []place.Memory{y, work.at, won}
	if l.panels == nil {
		r.some(p, float64(r.columns)/4, writes, func(st *state, worker, lo, count int) {
			out := work.doubles(st, worker)[:count*width]
			r.kernels.Dots(out[:count], of[float32](st, r.src)[lo*r.columns:], r.columns, l.vectors, l.bias[l.targets-1])
			if l.opposite {
				both(out, count)
			}
			finish(r.kernels, st, lo, count, out)
			put(r.kernels, st, y, last.Type.DType, lo*width, out)
		})
		return nil
	}
	r.each(p, float64(padded*r.columns)/8, writes, func(st *state, worker int, x []float64, lo, count int) {
		buffer := work.doubles(st, worker)
		scores, out := buffer[:count*padded], buffer[count*padded:][:count*max(l.targets, width)]
		r.kernels.Products(scores, padded, x, r.columns, count, l.panels, 0, r.columns)
		var best []int64
		if won.Slot >= 0 {
			best = of[int64](st, won)[lo:][:count]
		}
		r.kernels.Scores(out, best, scores, l.bias, count)
		finish(r.kernels, st, lo, count, out)
		put(r.kernels, st, y, last.Type.DType, lo*width, out[:count*width])
	})
	return nil
}

func planLinearRegressor(p *planner, n *graph.Node) error {
	l, err := linearOf(p, n)
	if err != nil {
		return err
	}
	return l.plan(p, n, l.targets, place.Nowhere, func(k pairwise.Kernels, _ *state, _, _ int, out []float64) {
		l.post.on(k, out, l.targets)
	})
}

// planLinearClassifier emits scores and labels; one score for two classes is that of the second, positive for it.
func planLinearClassifier(p *planner, n *graph.Node) error {
	l, err := linearOf(p, n)
	if err != nil {
		return err
	}
	labels := p.Out(n.Outputs[0])
	return l.plan(p, n, l.classes, labels, func(k pairwise.Kernels, st *state, lo, n int, out []float64) {
		won := of[int64](st, labels)[lo:][:n]
		if l.classes == l.targets {
			l.label(won, out)
			l.post.on(k, out, l.classes)
			return
		}
		for i, s := range out[:n] {
			best := 0
			if s > 0 {
				best = 1
			}
			won[i] = labelOf(l.labels, best)
		}
		l.pairs(k, out, n)
	})
}

// label makes labels of the places of the greatest scores, which are there already where there are panels.
func (l *linear) label(won []int64, out []float64) {
	if l.opposite {
		l.labelSigns(won, out)
		return
	}
	if l.panels == nil {
		for i := range won {
			won[i] = int64(pairwise.Largest(out[i*l.classes:][:l.classes]))
		}
	}
	if len(l.labels) == 0 {
		return
	}
	for i, class := range won {
		won[i] = l.labels[class]
	}
}

// labelSigns makes labels of the signs of the second of two scores that are opposite, without a branch, which data would mislead.
func (l *linear) labelSigns(won []int64, out []float64) {
	labels := [2]int64{labelOf(l.labels, 0), labelOf(l.labels, 1)}
	for i := range won {
		second := 0
		if out[2*i+1] > 0 {
			second = 1
		}
		won[i] = labels[second]
	}
}

// pairs makes two scores of each of the first n.
func (l *linear) pairs(k pairwise.Kernels, out []float64, n int) {
	if l.mode != "LOGISTIC" {
		both(out, n)
		l.post.on(k, out, 2)
		return
	}
	l.post.on(k, out[:n], 1)
	for i := n - 1; i >= 0; i-- {
		p := out[i]
		out[2*i], out[2*i+1] = 1-p, p
	}
}

// labelOf returns the label of a class: its number where classes have none.
func labelOf(labels []int64, class int) int64 {
	if len(labels) > 0 {
		return labels[class]
	}
	return int64(class)
}
