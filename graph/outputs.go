package graph

import "slices"

// The places of a value among the outputs of its graph are a list, from Value.output on through Graph.nextOutput, both one
// more than the place so that 0 ends it. So what happens to one output costs its own places, and not a look at all of them:
// partitions of large graphs have tens of thousands.

// NumOutputs returns how many outputs of its graph v is. It costs that many steps.
func (v *Value) NumOutputs() int {
	n := 0
	for at := v.output; at > 0; at = v.graph.nextOutput[at-1] {
		n++
	}
	return n
}

// SetOutputs declares the outputs of g, in order.
func (g *Graph) SetOutputs(vs ...*Value) {
	for _, v := range g.Outputs {
		v.output = 0
	}
	g.Outputs, g.nextOutput = slices.Clone(vs), make([]int32, len(vs))
	for i := len(vs) - 1; i >= 0; i-- {
		if vs[i].graph != g {
			panic("graph: output belongs to another graph")
		}
		g.link(i)
	}
}

// SetOutput makes v output i of g. It costs O(places of the value that was there).
func (g *Graph) SetOutput(i int, v *Value) {
	at := &g.Outputs[i].output
	for *at != int32(i+1) {
		at = &g.nextOutput[*at-1]
	}
	*at = g.nextOutput[i]
	g.Outputs[i] = v
	g.link(i)
}

// link puts place i in front of the list of the value that is there.
func (g *Graph) link(i int) {
	v := g.Outputs[i]
	g.nextOutput[i], v.output = v.output, int32(i+1)
}

// MoveOutputs makes v an output of g wherever old is one. It costs O(places of old).
func (g *Graph) MoveOutputs(old, v *Value) {
	if old == v {
		return
	}
	for old.output > 0 {
		g.SetOutput(int(old.output-1), v)
	}
}
