package carve

import (
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// block is a compiled graph: the main graph of a program, or a region that the host scheduler runs. It is immutable.
type block struct {
	g     *graph.Graph
	slots []slot
	steps []step
	// Slots of the graph's inputs, captures and outputs.
	inputs, captures, outputs []int
}

// slot is a value of the block.
type slot struct {
	v    *graph.Value
	kind slotKind
	// direct is the index of the graph output whose storage the value is written to, -1 for none.
	direct int
}

type slotKind uint8

const (
	slotPlanned slotKind = iota // in an arena, of known size
	slotDynamic                 // made at run time: its shape depends on data, or it is no tensor
	slotConst                   // constant
	slotDims                    // evaluated when shapes are known
	slotInput                   // the caller's, or a capture
)

// step is one entry of the schedule.
type step struct {
	node    *graph.Node
	kind    stepKind
	in, out []int // slots of operands (inputs, then captures) and results; -1 for omitted ones

	// of groups
	exe       backend.Executable
	backend   backend.Backend
	threads   bool // the backend has threads of its own
	dynamic   bool
	constants []*tensor.Tensor

	// of conversions
	hop *convert.Converter

	// of the host scheduler's nodes
	regions []*block
}

type stepKind uint8

const (
	stepGroup stepKind = iota
	stepConvert
	stepHost
)

// buildBlock turns a partitioned, lowered and compiled graph into a schedule.
func (c *compilation) buildBlock(g *graph.Graph) (*block, error) {
	b := &block{g: g}
	order, err := g.Topo()
	if err != nil {
		return nil, err
	}
	at := make([]int, g.ValueIDs())
	add := func(v *graph.Value, k slotKind) int {
		at[v.ID] = len(b.slots)
		b.slots = append(b.slots, slot{v: v, kind: k, direct: -1})
		return at[v.ID]
	}
	for _, v := range g.Inputs {
		b.inputs = append(b.inputs, add(v, slotInput))
	}
	for _, v := range g.Captures {
		b.captures = append(b.captures, add(v, slotInput))
	}
	for v := range g.Constants() {
		if v.IsConst() {
			add(v, slotConst)
		} else {
			add(v, slotDims)
		}
	}
	dynamic := map[*graph.Node]bool{}
	for _, gr := range c.results[g].Groups {
		dynamic[gr.Node] = gr.Dynamic
	}
	for _, n := range order {
		s := step{node: n}
		for k := range n.NumOperands() {
			if v := n.Operand(k); v != nil {
				s.in = append(s.in, at[v.ID])
			} else {
				s.in = append(s.in, -1)
			}
		}
		if err := c.fillStep(g, &s, dynamic); err != nil {
			return nil, err
		}
		for _, v := range n.Outputs {
			if v == nil {
				s.out = append(s.out, -1)
				continue
			}
			k := slotDynamic
			if v.Type.Backed() && v.Type.DType != tensor.String && s.kind != stepHost && !s.dynamic {
				k = slotPlanned
			}
			s.out = append(s.out, add(v, k))
		}
		b.steps = append(b.steps, s)
	}
	for _, v := range g.Outputs {
		b.outputs = append(b.outputs, at[v.ID])
	}
	b.chooseDirect()
	return b, nil
}

// fillStep says how a node is run; dynamic has the groups whose shapes depend on data.
func (c *compilation) fillStep(g *graph.Graph, s *step, dynamic map[*graph.Node]bool) error {
	n := s.node
	switch {
	case n.IsCarve(graph.OpConvert):
		s.kind = stepConvert
		if s.hop = c.hops[g][n]; s.hop == nil {
			return fmt.Errorf("%v was not lowered", n)
		}
		s.dynamic = !n.Inputs[0].Type.Backed()
	case n.IsCarve(graph.OpSubgraph):
		s.kind = stepGroup
		s.exe = c.exes[n]
		s.dynamic = dynamic[n]
		for _, b := range c.backends {
			if b.Info().Name == n.Backend {
				s.backend, s.threads = b, b.Info().Threads
			}
		}
		for v := range n.Regions[0].Graph.Constants() {
			s.constants = append(s.constants, v.Const)
		}
	default:
		s.kind = stepHost
		for _, r := range n.Regions {
			inner, err := c.buildBlock(r.Graph)
			if err != nil {
				return err
			}
			s.regions = append(s.regions, inner)
		}
	}
	return nil
}

// chooseDirect finds the outputs that their producer can write to the caller's storage: planned host row-major values
// that are an output exactly once.
func (b *block) chooseDirect() {
	count := map[int]int{}
	for _, s := range b.outputs {
		count[s]++
	}
	for i, s := range b.outputs {
		if b.slots[s].kind == slotPlanned && count[s] == 1 && b.slots[s].v.Format == graph.HostFormat {
			b.slots[s].direct = i
		}
	}
}
