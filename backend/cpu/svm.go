package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/coupling"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// machine is a support vector machine: vectors [n, features] and a function of two vectors. Without vectors it is linear.
type machine struct {
	vectors             []float64
	n                   int
	kind                string
	gamma, coef0, power float64
	coef, rho           []float64
	post                func(row []float64)

	oneClass       bool // of a regressor
	classes, width int  // of a classifier, and how many numbers it gives
	labels         []int64
	per, first     []int // a class's vectors
	a, b           []float64
}

func newMachine(n *graph.Node) (*machine, *property.Reason) {
	m := &machine{vectors: doubles(n.Floats("support_vectors")), kind: n.Str("kernel_type", "LINEAR"), coef: doubles(n.Floats("coefficients")), rho: doubles(n.Floats("rho"))}
	if k := n.Floats("kernel_params"); len(k) >= 3 {
		m.gamma, m.coef0, m.power = float64(k[0]), float64(k[1]), float64(k[2])
	}
	var ok bool
	if m.post, ok = postTransforms[n.Str("post_transform", "NONE")]; !ok {
		return nil, property.Because(property.Attribute, "post_transform %q", n.Str("post_transform", ""))
	}
	switch m.kind {
	case "LINEAR", "POLY", "RBF", "SIGMOID":
	default:
		return nil, property.Because(property.Attribute, "kernel_type %q", m.kind)
	}
	if n.Op.Name == "SVMRegressor" {
		m.oneClass, m.n = n.Int("one_class", 0) != 0, int(min(max(n.Int("n_supports", 0), -1), maxTargets+1))
		if len(m.rho) == 0 {
			m.rho = []float64{0}
		}
		ok = m.n == 0 || m.n > 0 && len(m.coef) == m.n
	} else {
		ok = m.classifies(n)
	}
	if !ok || m.n > maxTargets || m.n > 0 && len(m.vectors)%m.n != 0 {
		return nil, property.Because(property.Attribute, "%d coefficients, %d rho and %d numbers of vectors do not make a support vector machine",
			len(m.coef), len(m.rho), len(m.vectors))
	}
	return m, nil
}

// classifies reads what classifiers have, and reports whether it fits together.
func (m *machine) classifies(n *graph.Node) bool {
	m.labels, _ = n.Ints("classlabels_ints")
	m.classes = max(len(m.labels), 1)
	per, _ := n.Ints("vectors_per_class")
	for _, v := range per {
		if v < 0 || v > maxTargets || m.n > maxTargets {
			return false
		}
		m.per, m.first = append(m.per, int(v)), append(m.first, m.n)
		m.n += int(v)
	}
	m.a, m.b = doubles(n.Floats("prob_a")), doubles(n.Floats("prob_b"))
	pairs := m.classes * (m.classes - 1) / 2
	m.width = max(pairs, 1)
	switch {
	case m.n == 0:
		m.width, m.kind = m.classes, "LINEAR"
		return len(m.rho) > 0
	case len(m.a) > 0:
		m.width = m.classes
	case m.classes == 2:
		m.width = 2
	}
	return m.classes < 1<<12 && len(m.per) == m.classes && len(m.coef) == (m.classes-1)*m.n && len(m.rho) == pairs &&
		len(m.a) == len(m.b) && (len(m.a) == 0 || len(m.a) == pairs)
}

// kernels sets out to the function of a row and every vector.
func (m *machine) kernels(out, row []float64) {
	for i := range out {
		v := m.vectors[i*len(row):][:len(row)]
		switch m.kind {
		case "RBF":
			out[i] = math.Exp(-m.gamma * squares(row, v))
		case "POLY":
			out[i] = math.Pow(m.gamma*dot(row, v)+m.coef0, m.power)
		case "SIGMOID":
			out[i] = math.Tanh(m.gamma*dot(row, v) + m.coef0)
		default:
			out[i] = dot(row, v)
		}
	}
}

// squares returns the square of the distance of two points.
func squares(a, b []float64) float64 {
	var s0, s1 float64
	b = b[:len(a)]
	i := 0
	for ; i+2 <= len(a); i += 2 {
		x, y := a[i]-b[i], a[i+1]-b[i+1]
		s0 += x * x
		s1 += y * y
	}
	if i < len(a) {
		s0 += (a[i] - b[i]) * (a[i] - b[i])
	}
	return s0 + s1
}

// nanos is what a row takes, about.
func (m *machine) nanos(columns int) float64 { return float64(m.n*(columns+20) + len(m.coef)) }

// planMachine reads a node, and the rows that it is given.
func planMachine(p *planner, n *graph.Node) (*machine, *numberRows, error) {
	m, why := newMachine(n)
	if why != nil {
		return nil, nil, why
	}
	r := newNumberRows(p, n.Inputs[0])
	if m.n > 0 && len(m.vectors)/m.n != r.columns || m.n == 0 && len(m.coef) != r.columns*max(m.classes, 1) {
		return nil, nil, property.Because(property.ShapeReason, "%d numbers of vectors, %d coefficients for rows of %d", len(m.vectors), len(m.coef), r.columns)
	}
	return m, r, nil
}

func planSVMRegressor(p *planner, n *graph.Node) error {
	m, r, err := planMachine(p, n)
	if err != nil {
		return err
	}
	y, to, work := p.Out(n.Outputs[0]), n.Outputs[0].Type.DType, p.scratch((m.n+1)*8)
	r.each(p, m.nanos(r.columns), []place.Memory{y, work.at}, func(st *state, worker int, x []float64, lo, count int) {
		buffer := work.doubles(st, worker)
		for i := range count {
			terms := x[i*r.columns:][:r.columns]
			if m.n > 0 {
				m.kernels(buffer[1:][:m.n], terms)
				terms = buffer[1:][:m.n]
			}
			out := buffer[:1]
			out[0] = m.rho[0] + dot(terms, m.coef)
			if above := out[0] > 0; m.oneClass && above {
				out[0] = 1
			} else if m.oneClass {
				out[0] = -1
			}
			if m.post != nil {
				m.post(out)
			}
			put(st, y, to, lo+i, out)
		}
	})
	return nil
}

func planSVMClassifier(p *planner, n *graph.Node) error {
	m, r, err := planMachine(p, n)
	if err != nil {
		return err
	}
	pairs := m.classes * (m.classes - 1) / 2
	labels, y, to := p.Out(n.Outputs[0]), p.Out(n.Outputs[1]), n.Outputs[1].Type.DType
	work := p.scratch((m.n + m.classes + pairs + m.width + coupling.Scratch(m.classes)) * 8)
	r.each(p, m.nanos(r.columns), []place.Memory{labels, y, work.at}, func(st *state, worker int, x []float64, lo, count int) {
		rest := work.doubles(st, worker)
		kernels, rest := rest[:m.n], rest[m.n:]
		out, rest := rest[:m.width], rest[m.width:]
		for i := range count {
			row, best := x[i*r.columns:][:r.columns], 0
			if m.n == 0 {
				best = m.scoreLinearly(row, out)
			} else {
				m.kernels(kernels, row)
				best = m.score(kernels, out, rest)
			}
			if m.post != nil {
				m.post(out)
			}
			of[int64](st, labels)[lo+i] = labelOf(m.labels, best)
			put(st, y, to, (lo+i)*m.width, out)
		}
	})
	return nil
}

// scoreLinearly is the classifier without vectors.
func (m *machine) scoreLinearly(row, out []float64) int {
	for k := range out {
		out[k] = m.rho[k%len(m.rho)] + dot(row, m.coef[k*len(row):])
	}
	return largest(out)
}

// score lets every pair of classes vote, and returns the class that wins.
func (m *machine) score(kernels, out, rest []float64) int {
	pairs := m.classes * (m.classes - 1) / 2
	votes, rest := rest[:m.classes], rest[m.classes:]
	scores, rest := rest[:pairs], rest[pairs:]
	clear(votes)
	clear(out)
	p := 0
	for i := range m.classes {
		of1 := kernels[m.first[i]:][:m.per[i]]
		for j := i + 1; j < m.classes; j++ {
			of2 := kernels[m.first[j]:][:m.per[j]]
			s := m.rho[p] + dot(of1, m.coef[(j-1)*m.n+m.first[i]:]) + dot(of2, m.coef[i*m.n+m.first[j]:])
			scores[p] = s
			if s > 0 {
				votes[i]++
			} else {
				votes[j]++
			}
			p++
		}
	}
	switch {
	case len(m.a) > 0:
		coupling.Probabilities(out, scores, m.a, m.b, rest)
	case m.classes == 2:
		out[0], out[1] = -scores[0], scores[0]
	default:
		copy(out, scores)
	}
	return largest(votes)
}
