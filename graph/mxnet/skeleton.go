package mxnet

import (
	"strconv"

	"github.com/carve-dev/carve/graph"
)

// SymbolDomain is the domain of the nodes of Symbol.Graph.
const SymbolDomain = "mxnet.symbol"

// Graph returns the symbol as it is, a node of SymbolDomain for each of its operators, without attributes, types or data: for looking
// at, and for comparing what partitioners make of it. Variables are inputs; bodies are left out.
func (s *Symbol) Graph() *graph.Graph {
	g := graph.New("")
	need := make([]bool, len(s.Nodes))
	outs := make([]int, len(s.Nodes))
	mark := func(e Entry) {
		need[e.Node] = true
		outs[e.Node] = max(outs[e.Node], e.Index+1)
	}
	for _, e := range s.Heads {
		mark(e)
	}
	for i := len(s.Nodes) - 1; i >= 0; i-- {
		if need[i] {
			for _, e := range s.Nodes[i].Inputs {
				mark(e)
			}
		}
	}
	values := make([][]*graph.Value, len(s.Nodes))
	variable := func(i int) {
		if need[i] && s.Nodes[i].IsVariable() && values[i] == nil {
			values[i] = []*graph.Value{g.AddInput(s.Nodes[i].Name, graph.Type{})}
		}
	}
	value := func(e Entry) *graph.Value {
		variable(e.Node) // those of upgrades stand behind their readers
		if e.Index >= len(values[e.Node]) {
			return values[e.Node][0] // of a variable, which has one
		}
		return values[e.Node][e.Index]
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		variable(i)
		if !need[i] || n.IsVariable() {
			continue
		}
		spec := graph.NodeSpec{Op: graph.Op{Domain: SymbolDomain, Name: n.Op, Since: 1}, Name: n.Name}
		for _, e := range n.Inputs {
			spec.Inputs = append(spec.Inputs, value(e))
		}
		for k := range min(outs[i], maxParts) {
			spec.Outputs = append(spec.Outputs, n.Name+":"+strconv.Itoa(k))
		}
		values[i] = g.AddNode(spec).Outputs
	}
	heads := make([]*graph.Value, len(s.Heads))
	for i, e := range s.Heads {
		heads[i] = value(e)
	}
	g.SetOutputs(heads...)
	return g
}
