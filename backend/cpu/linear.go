package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// linear are the coefficients of a linear model, [targets, columns].
type linear struct {
	targets int
	weights []float64
	bias    []float64 // one for each target
	post    func(row []float64)
	mode    string  // the name of post
	labels  []int64 // of a classifier, nil for the classes' numbers
	classes int     // of a classifier: one score may stand for two of them
}

func doubles(list []float32) []float64 {
	out := make([]float64, len(list))
	convertRow(out, list)
	return out
}

func newLinear(n *graph.Node) (*linear, *property.Reason) {
	l := &linear{targets: 1, weights: doubles(n.Floats("coefficients")), bias: doubles(n.Floats("intercepts")), mode: n.Str("post_transform", "NONE")}
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
	if len(l.bias) != l.targets || len(l.weights)%l.targets != 0 {
		return nil, property.Because(property.Attribute, "%d coefficients, %d intercepts for %d targets", len(l.weights), len(l.bias), l.targets)
	}
	return l, nil
}

// plan emits the step of a model that stores rows of width numbers; finish makes one of the scores of row i, which it may overwrite.
func (l *linear) plan(p *planner, n *graph.Node, width int, writes []place.Memory, finish func(st *state, i int, scores, out []float64)) error {
	r := newNumberRows(p, n.Inputs[0])
	if l.targets*r.columns != len(l.weights) {
		return property.Because(property.ShapeReason, "%d coefficients for %d targets of %d columns", len(l.weights), l.targets, r.columns)
	}
	last := n.Outputs[len(n.Outputs)-1]
	y, work := p.Out(last), p.scratch((l.targets+width)*8)
	r.each(p, float64(len(l.weights)), append(writes, y, work.at), func(st *state, worker int, x []float64, lo, count int) {
		buffer := work.doubles(st, worker)
		scores, out := buffer[:l.targets], buffer[l.targets:][:width]
		for i := range count {
			row := x[i*r.columns:][:r.columns]
			for t := range scores {
				scores[t] = l.bias[t] + dot(row, l.weights[t*r.columns:])
			}
			finish(st, lo+i, scores, out)
			put(st, y, last.Type.DType, (lo+i)*width, out)
		}
	})
	return nil
}

// dot returns the product of two vectors, of which the second one may be longer: four sums, added up at the end.
func dot(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + (s2 + s3)
}

func planLinearRegressor(p *planner, n *graph.Node) error {
	l, why := newLinear(n)
	if why != nil {
		return why
	}
	return l.plan(p, n, l.targets, nil, func(_ *state, _ int, scores, out []float64) {
		copy(out, scores)
		l.transform(out)
	})
}

func (l *linear) transform(row []float64) {
	if l.post != nil {
		l.post(row)
	}
}

// planLinearClassifier emits scores and labels; one score for two classes is that of the second, positive for it.
func planLinearClassifier(p *planner, n *graph.Node) error {
	l, why := newLinear(n)
	if why != nil {
		return why
	}
	labels := p.Out(n.Outputs[0])
	return l.plan(p, n, l.classes, []place.Memory{labels}, func(st *state, i int, scores, out []float64) {
		best := 0
		if l.classes == l.targets {
			best = largest(scores)
			copy(out, scores)
			l.transform(out)
		} else {
			s := scores[0]
			if s > 0 {
				best = 1
			}
			out[0], out[1] = -s, s
			if l.mode == "LOGISTIC" {
				p := 1 / (1 + math.Exp(-s))
				out[0], out[1] = 1-p, p
			} else {
				l.transform(out)
			}
		}
		of[int64](st, labels)[i] = labelOf(l.labels, best)
	})
}

// largest returns the first place of the largest number.
func largest(row []float64) int {
	best := 0
	for i, x := range row {
		if x > row[best] {
			best = i
		}
	}
	return best
}

// labelOf returns the label of a class: its number where classes have none.
func labelOf(labels []int64, class int) int64 {
	if len(labels) > 0 {
		return labels[class]
	}
	return int64(class)
}
