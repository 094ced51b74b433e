package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/coupling"
	"github.com/carve-dev/carve/internal/kernel/pairwise"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// machine is a support vector machine: vectors [n, features] and a function of two vectors. Without vectors it is linear.
type machine struct {
	vectors             *pairwise.Panels // nil without any
	n                   int
	kind                string
	gamma, coef0, power float64
	coef                *pairwise.Panels // products with it are scores, or of a classifier what the vectors of a class add to them
	single              []float64        // coef, where it is one vector
	rho                 []float64
	post                transform
	pack                func()    // sets vectors and coef, once
	floats              []float32 // in the place of vectors: those as float32, gamma times, packed
	columns             int       // of floats

	oneClass       bool // of a regressor
	classes, width int  // of a classifier, and how many numbers it gives
	labels         []int64
	per, first     []int // a class's vectors
	a, b           []float64
}

func newMachine(n *graph.Node) (*machine, *property.Reason) {
	vectors, coef := doubles(n.Floats("support_vectors")), doubles(n.Floats("coefficients"))
	m := &machine{kind: n.Str("kernel_type", "LINEAR"), rho: doubles(n.Floats("rho"))}
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
		ok = m.n == 0 || m.n > 0 && len(coef) == m.n
	} else {
		ok = m.classifies(n, len(coef))
	}
	if !ok || m.n > maxTargets || m.n > 0 && len(vectors)%m.n != 0 || m.n == 0 && len(coef)%max(m.classes, 1) != 0 {
		return nil, property.Because(property.Attribute, "%d coefficients, %d rho and %d numbers of vectors do not make a support vector machine",
			len(coef), len(m.rho), len(vectors))
	}
	if m.kind == "LINEAR" && m.n > 1 && len(coef) == m.n && len(vectors) > 0 {
		vectors, coef = m.combine(vectors, coef)
	}
	m.pack = func() {
		if m.n == 0 {
			m.coef = pairwise.Pack(coef, max(m.classes, 1), len(coef)/max(m.classes, 1))
		} else {
			if m.kind == "POLY" || m.kind == "SIGMOID" { // of products that gamma multiplies
				for i := range vectors {
					vectors[i] *= m.gamma
				}
			}
			m.coef, m.vectors = pairwise.Pack(coef, len(coef)/m.n, m.n), pairwise.Pack(vectors, m.n, len(vectors)/m.n)
			if len(coef) == m.n {
				m.single = coef
			}
		}
		m.pack = nil
	}
	return m, nil
}

// combine makes one vector of those that a score adds up: products of a row are linear in them.
func (m *machine) combine(vectors, coef []float64) (vector, one []float64) {
	columns := len(vectors) / m.n
	vector = make([]float64, columns)
	for i, c := range coef {
		for k, v := range vectors[i*columns:][:columns] {
			vector[k] += c * v
		}
	}
	m.n = 1
	return vector, []float64{1}
}

// classifies reads what classifiers have, and reports whether it fits together.
func (m *machine) classifies(n *graph.Node, coef int) bool {
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
	return m.classes < 1<<12 && len(m.per) == m.classes && coef == (m.classes-1)*m.n && len(m.rho) == pairs &&
		len(m.a) == len(m.b) && (len(m.a) == 0 || len(m.a) == pairs)
}

// kernelsOf sets out to the function of each row and every vector, for rows of out that are Width(m.n) apart.
func (m *machine) kernelsOf(k pairwise.Kernels, out, x []float64, rows int) {
	ld, columns := pairwise.Width(m.n), m.vectors.Length
	if m.kind == "RBF" {
		k.Distances(out, ld, x, columns, rows, m.vectors)
		k.Exp(out[:rows*ld], -m.gamma)
		return
	}
	k.Products(out, ld, x, columns, rows, m.vectors, 0, columns)
	switch m.kind {
	case "POLY":
		m.powers(k, out[:rows*ld])
	case "SIGMOID":
		k.Tangents(out[:rows*ld], m.coef0)
	}
}

// powers replaces products by powers: whole ones are products, as most are.
func (m *machine) powers(k pairwise.Kernels, x []float64) {
	if whole := int(min(max(m.power, 0), 8)); float64(whole) == m.power && whole > 0 {
		k.Powers(x, m.coef0, whole)
		return
	}
	for i, v := range x {
		x[i] = math.Pow(v+m.coef0, m.power)
	}
}

// nanos is what a row takes, about.
func (m *machine) nanos(columns int) float64 {
	return float64(m.n*(columns+12)+m.coef.Length*pairwise.Width(m.coef.Len)) / 8
}

// machineOf returns the machine of a node, which is read once.
func machineOf(p *planner, n *graph.Node) (*machine, error) {
	return keep(p.e, n, func() (*machine, error) {
		m, why := newMachine(n)
		if why != nil {
			return nil, why
		}
		if n.Op.Name == "SVMRegressor" && m.inFloats(n.Inputs[0]) {
			m.packFloats(p.target, doubles(n.Floats("support_vectors")))
			m.single, m.pack = doubles(n.Floats("coefficients")), nil
			return m, nil
		}
		m.pack()
		return m, nil
	})
}

// planMachine reads a node, and the rows that it is given, with memory for what is made of them.
func planMachine(p *planner, n *graph.Node) (*machine, *numberRows, scratch, error) {
	m, err := machineOf(p, n)
	if err != nil {
		return nil, nil, scratch{}, err
	}
	ld := pairwise.Width(m.n)
	each := ld + pairwise.Width(m.coef.Len) + m.pairs() + max(m.width, 1)
	r := newNumberRows(p, n.Inputs[0], each)
	if near := max(nearNumbers/max(ld, 1), pairwise.Lanes); m.n > 0 && near < r.together { // of what is gone through more than once
		r.together = near &^ (pairwise.Lanes - 1)
	}
	if of := m.vectors; of != nil && of.Length != r.columns || of == nil && m.coef.Length != r.columns {
		return nil, nil, scratch{}, property.Because(property.ShapeReason, "vectors or coefficients are not of %d numbers, as rows are", r.columns)
	}
	return m, r, p.scratch((r.together*each + m.classes + coupling.Scratch(m.classes)) * 8), nil
}

// take returns the first n numbers, and the rest.
func take(s []float64, n int) (first, rest []float64) { return s[:n:n], s[n:] }

func planSVMRegressor(p *planner, n *graph.Node) error {
	if m, err := machineOf(p, n); err == nil && m.floats != nil {
		return m.planFloats(p, n)
	}
	m, r, work, err := planMachine(p, n)
	if err != nil {
		return err
	}
	y, to, ld := p.Out(n.Outputs[0]), n.Outputs[0].Type.DType, pairwise.Width(m.n)
	r.each(p, m.nanos(r.columns), []place.Memory{y, work.at}, func(st *state, worker int, x []float64, lo, count int) {
		terms, rest := take(work.doubles(st, worker), count*ld)
		products, rest := take(rest, count*pairwise.Lanes)
		out, _ := take(rest, count)
		if m.n > 0 {
			m.kernelsOf(r.kernels, terms, x, count)
			for i := range count {
				products[i*pairwise.Lanes] = r.kernels.Dot(terms[i*ld:][:m.n], m.single)
			}
		} else {
			r.kernels.Products(products, pairwise.Lanes, x, r.columns, count, m.coef, 0, r.columns)
		}
		for i := range out {
			out[i] = m.rho[0] + products[i*pairwise.Lanes]
		}
		m.finishScores(r.kernels, out)
		put(r.kernels, st, y, to, lo, out)
	})
	return nil
}

// finishScores makes results of a regressor's scores.
func (m *machine) finishScores(k pairwise.Kernels, out []float64) {
	if m.oneClass {
		for i, s := range out {
			if out[i] = -1; s > 0 {
				out[i] = 1
			}
		}
	}
	m.post.on(k, out, 1)
}

// pairs returns how many pairs of classes there are.
func (m *machine) pairs() int { return m.classes * (m.classes - 1) / 2 }

func planSVMClassifier(p *planner, n *graph.Node) error {
	m, r, work, err := planMachine(p, n)
	if err != nil {
		return err
	}
	labels, y, to := p.Out(n.Outputs[0]), p.Out(n.Outputs[1]), n.Outputs[1].Type.DType
	r.each(p, m.nanos(r.columns), []place.Memory{labels, y, work.at}, func(st *state, worker int, x []float64, lo, count int) {
		won := of[int64](st, labels)[lo:][:count]
		out, rest := take(work.doubles(st, worker), count*m.width)
		if m.n == 0 {
			m.scoreLinearly(r.kernels, won, out, x, rest)
		} else {
			m.score(r.kernels, won, out, x, rest)
		}
		m.post.on(r.kernels, out, m.width)
		put(r.kernels, st, y, to, lo*m.width, out)
	})
	return nil
}

// scoreLinearly is the classifier without vectors: it sets the labels and scores of rows.
func (m *machine) scoreLinearly(k pairwise.Kernels, won []int64, out, x, rest []float64) {
	ld := pairwise.Width(m.classes)
	k.Products(rest, ld, x, m.coef.Length, len(won), m.coef, 0, m.coef.Length)
	for i := range won {
		row := out[i*m.width:][:m.width]
		for c := range row {
			row[c] = m.rho[c%len(m.rho)] + rest[i*ld+c]
		}
		won[i] = labelOf(m.labels, pairwise.Largest(row))
	}
}

// score is the classifier with vectors: it sets the labels and scores of rows.
func (m *machine) score(k pairwise.Kernels, won []int64, out, x, rest []float64) {
	rows, pairs, ld := len(won), m.pairs(), pairwise.Width(m.n)
	kernels, rest := take(rest, rows*ld)
	adds, rest := take(rest, rows*pairwise.Width(m.coef.Len))
	scores, rest := take(rest, rows*pairs)
	m.kernelsOf(k, kernels, x, rows)
	for i := range rows {
		copy(scores[i*pairs:][:pairs], m.rho)
	}
	if m.single != nil { // of two classes, whose one score all vectors add to
		for i := range scores {
			scores[i] += k.Dot(kernels[i*ld:][:m.n], m.single)
		}
	} else {
		for class := range m.classes {
			m.addClass(k, class, scores, kernels, adds, rows)
		}
	}
	for i := range rows {
		won[i] = labelOf(m.labels, m.finish(out[i*m.width:][:m.width], scores[i*pairs:][:pairs], rest))
	}
}

// addClass adds to the scores of rows what the vectors of a class do: number j of coef is theirs beside class j, or j+1 where that is not
// in front.
func (m *machine) addClass(k pairwise.Kernels, class int, scores, kernels, adds []float64, rows int) {
	pairs, ld, width := m.pairs(), pairwise.Width(m.n), pairwise.Width(m.coef.Len)
	if m.per[class] == 0 {
		return
	}
	k.Products(adds, width, kernels[m.first[class]:], ld, rows, m.coef, m.first[class], m.per[class])
	for i := range rows {
		row, add := scores[i*pairs:][:pairs], adds[i*width:][:width]
		at := class - 1 // pair (0, class); pair (j, class) stands in front of (j+1, class) by as many as classes are behind j+1
		for j := range class {
			row[at] += add[j]
			at += m.classes - j - 2
		}
		at = class * (2*m.classes - class - 1) / 2 // pair (class, class+1)
		for j := class; j < m.classes-1; j++ {
			row[at+j-class] += add[j]
		}
	}
}

// finish makes a row of results of the scores of pairs, and returns the class for which most of them are.
func (m *machine) finish(out, scores, rest []float64) int {
	votes, rest := take(rest, m.classes)
	clear(votes)
	clear(out)
	p := 0
	for i := range m.classes {
		for j := i + 1; j < m.classes; j++ {
			if scores[p] > 0 {
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
	return pairwise.Largest(votes)
}
