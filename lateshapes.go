package carve

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// likeness says what tells the size of a dim of an operand whose rank a run tells: broadcasts are known by it. Dims are compared with those that are as many from
// the last: likeInput and more are inputs of the group, likeVector and more are vectors among its constants.
type likeness byte

const (
	likeNothing likeness = iota
	likeOne              // the number 1
	likeInput
	likeVector likeness = 128
	// mostLike is how many inputs and how many vectors are looked at.
	mostLike = 64
)

// likeness returns what the dims of all operands are like whose ranks only a run tells, one operand after another.
func (l *lateRanks) likeness(operands []*tensor.Tensor) []likeness {
	if !l.unranked {
		return nil
	}
	var alike []likeness
	for i, v := range l.body.Inputs {
		if v.Type.Shape.Known() {
			continue
		}
		for axis := range operands[i].Shape {
			alike = append(alike, l.dimLike(operands, i, axis))
		}
	}
	return alike
}

// dimLike returns what a dim of operand i is like: of inputs those count that have dims before it has, which are the ones of known rank and the ones in front.
func (l *lateRanks) dimLike(operands []*tensor.Tensor, i, axis int) likeness {
	size, back := operands[i].Shape[axis], len(operands[i].Shape)-axis
	if size == 1 {
		return likeOne
	}
	for j, v := range l.body.Inputs[:min(len(l.body.Inputs), mostLike)] {
		s := operands[j].Shape
		if (v.Type.Shape.Known() || j < i) && back <= len(s) && s[len(s)-back] == size {
			return likeInput + likeness(j)
		}
	}
	if k := slices.Index(l.vectors, size); back == 1 && k >= 0 && k < mostLike {
		return likeVector + likeness(k)
	}
	return likeNothing
}

// shapeInputs gives the inputs names, numbers for some sizes and where they are like a number, and symbols for other dims that are no numbers: equal ones for equal
// dims, and for those that are alike.
func (l *lateRanks) shapeInputs(g *graph.Graph, operands []*tensor.Tensor, alike []likeness, sizes [][2]int) {
	symbols := map[string]graph.Dim{}
	name := func(i int, dims graph.Shape) {
		for axis, d := range dims {
			if slices.Contains(sizes, [2]int{i, axis}) {
				d = graph.D(operands[i].Shape[axis])
				dims[axis] = d
			}
			if _, number := d.Const(); number {
				continue
			}
			if _, known := symbols[d.String()]; !known {
				symbols[d.String()] = graph.Sym(fmt.Sprintf("dim_%d", len(symbols)))
			}
			dims[axis] = symbols[d.String()]
		}
	}
	for i, v := range g.Inputs {
		v.Name = operandName(i)
		if v.Type.Shape.Known() {
			v.Type.Shape = slices.Clone(v.Type.Shape)
			name(i, v.Type.Shape)
		}
	}
	for i, v := range g.Inputs {
		if v.Type.Shape.Known() {
			continue
		}
		rank := len(operands[i].Shape)
		dims := make(graph.Shape, rank)
		for axis := range dims {
			dims[axis] = graph.Sym(fmt.Sprintf("%s_%d", v.Name, axis))
		}
		name(i, dims)
		for axis, a := range alike[:rank] {
			switch {
			case a == likeOne:
				dims[axis] = graph.D(1)
			case a >= likeVector:
				dims[axis] = graph.D(l.vectors[a-likeVector])
			case a >= likeInput:
				from := g.Inputs[a-likeInput].Type.Shape
				dims[axis] = from[len(from)-rank+axis]
			}
		}
		alike, v.Type.Shape = alike[rank:], dims
	}
}
