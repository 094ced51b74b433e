package carve

import (
	"slices"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/memplan/schedule"
)

// memoryModel tells what a graph's values take, as far as the planner will see it: views lie in what they are views of,
// parts of a concatenation in the whole where they are contiguous there, element-wise operators overwrite an operand.
type memoryModel struct {
	registry *convert.Registry
	bindings graph.Bindings
	estimate bool // symbols without a binding get a bound or an estimate
	bounds   map[string]int
	// orders gives graphs another order than that of their list; nil for none.
	orders map[*graph.Graph][]*graph.Node
}

// peak returns the largest sum of bytes that are alive at one time in g, what its groups and regions need included.
func (m *memoryModel) peak(g *graph.Graph) int64 {
	nodes := m.orders[g]
	if nodes == nil {
		var err error
		if nodes, err = g.Topo(); err != nil {
			return 0
		}
	}
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	p, err := schedule.Peak(m.graph(g, nodes), order)
	if err != nil {
		return 0
	}
	return p
}

// graph describes g for the scheduler. nodes are those of g in their present order.
func (m *memoryModel) graph(g *graph.Graph, nodes []*graph.Node) *schedule.Graph {
	values := g.ValueIDs()
	s := &schedule.Graph{Bytes: make([]int64, values), Keep: make([]bool, values), Within: make([]int, values), Nodes: make([]schedule.Node, len(nodes))}
	for i := range s.Within {
		s.Within[i] = i
	}
	body := g.Owner() != nil && g.Owner().IsCarve(graph.OpSubgraph)
	for _, n := range nodes {
		for _, v := range n.Outputs {
			if v != nil {
				s.Bytes[v.ID] = m.size(v)
				s.Keep[v.ID] = v.IsOutput()
			}
		}
	}
	if body {
		m.boundary(g, s)
		m.share(nodes, s)
	} else {
		for _, v := range g.Outputs {
			if direct(v) {
				s.Bytes[v.ID] = 0
			}
		}
	}
	for i, n := range nodes {
		s.Nodes[i] = m.node(n, s)
	}
	return s
}

// boundary tells which values at the edges of a group's body lie in the arena: not the caller's, and inputs only where
// the group alone reads them.
func (m *memoryModel) boundary(g *graph.Graph, s *schedule.Graph) {
	owner := g.Owner()
	for i, v := range g.Inputs {
		if o := owner.Operand(i); o != nil && o.Producer != nil && o.HasOneUse() && !o.IsOutput() {
			s.Bytes[v.ID] = m.size(v)
		}
	}
	for i, v := range g.Outputs {
		if o := owner.Outputs[i]; o != nil && v.Producer != nil && direct(o) {
			s.Bytes[v.ID] = 0
			for n := v.Producer; isView(n) && n.Inputs[0].HasOneUse() && n.Inputs[0].Producer != nil; n = n.Inputs[0].Producer {
				s.Bytes[n.Inputs[0].ID] = 0 // made in the caller's memory as well
			}
		}
	}
}

// direct reports whether a value is written to the caller's memory.
func direct(v *graph.Value) bool {
	g := v.Graph()
	if v.Producer == nil || g.Owner() != nil || v.Format != graph.HostFormat || !v.Type.Backed() {
		return false
	}
	n := 0
	for _, o := range g.Outputs {
		if o == v {
			n++
		}
	}
	return n == 1
}

func (m *memoryModel) node(n *graph.Node, s *schedule.Graph) schedule.Node {
	out := schedule.Node{}
	for k := range n.NumOperands() {
		if v := n.Operand(k); v != nil && !v.IsConst() && !v.IsDims() {
			out.Inputs = append(out.Inputs, v.ID)
		}
	}
	for _, v := range n.Outputs {
		if v != nil {
			out.Outputs = append(out.Outputs, v.ID)
		}
	}
	if len(n.Outputs) > 0 && n.Outputs[0] != nil {
		for _, v := range n.Inputs {
			if v != nil && !v.IsConst() && !v.IsDims() && overwrites(n, v) {
				out.Overwrite = append(out.Overwrite, v.ID)
			}
		}
	}
	if n.IsCarve(graph.OpSubgraph) || n.Op.Domain != graph.CarveDomain {
		for _, r := range n.Regions {
			out.Work = max(out.Work, m.peak(r.Graph))
		}
	}
	if n.IsCarve(graph.OpSubgraph) { // whose peak counts what stands at its edges as well
		for _, v := range n.Regions[0].Graph.Inputs {
			if o := n.Operand(slices.Index(n.Regions[0].Graph.Inputs, v)); o != nil && o.Producer != nil && o.HasOneUse() && !o.IsOutput() {
				out.Work -= m.size(v)
			}
		}
		for _, v := range n.Outputs {
			if v != nil && !direct(v) {
				out.Work -= m.size(v)
			}
		}
		out.Work = max(out.Work, 0)
	}
	return out
}

// size returns the physical bytes of a value in an arena, 0 where it lies elsewhere or depends on data.
func (m *memoryModel) size(v *graph.Value) int64 {
	if !v.Type.IsTensor() || !v.Type.Backed() || v.Type.DType == tensor.String || v.IsConst() || v.IsDims() {
		return 0
	}
	dims := m.dims(v)
	if dims == nil {
		return 0
	}
	n, err := m.registry.Size(v.Format, v.Type.DType, dims)
	if err != nil || n < 0 {
		return 0
	}
	return (n + tensor.Alignment - 1) &^ (tensor.Alignment - 1)
}

// dims returns the shape of a value, nil where it is not known.
func (m *memoryModel) dims(v *graph.Value) []int {
	if !v.Type.Shape.Known() {
		return nil
	}
	b := m.bindings
	if _, static := v.Type.Shape.Static(); !static && m.estimate {
		b = graph.Bindings{}
		set := map[string]bool{}
		for _, d := range v.Type.Shape {
			d.Symbols(set)
		}
		for name := range set {
			b[name] = estimatedDim
			if n, ok := m.bounds[name]; ok {
				b[name] = int64(n)
			}
		}
	}
	dims, err := v.Type.Shape.Eval(b, make([]int, 0, len(v.Type.Shape)))
	if err != nil {
		return nil
	}
	return dims
}

// overwrites reports whether n may write its first result over the operand v.
func overwrites(n *graph.Node, v *graph.Value) bool {
	y := n.Outputs[0]
	if v.Format != y.Format || v.Type.DType != y.Type.DType || !v.Type.Shape.Equal(y.Type.Shape) {
		return false
	}
	if !n.IsCarve(graph.OpFused) {
		return elementwise[n.Op.Name] && n.Op.Domain == "" || n.Is("Softmax", "LogSoftmax", "LayerNormalization", "BatchNormalization")
	}
	body := n.Regions[0].Graph
	for i, w := range body.Inputs {
		if n.Operand(i) != v {
			continue
		}
		for _, u := range w.Uses() {
			if u.Node.Op.Domain != "" || !elementwise[u.Node.Op.Name] {
				return false
			}
		}
	}
	return true
}

// elementwise are operators whose results depend, element by element, on those of the operands.
var elementwise = map[string]bool{
	"Abs": true, "Add": true, "Ceil": true, "Clip": true, "Cos": true, "Div": true, "Elu": true, "Erf": true, "Exp": true, "Floor": true,
	"Gelu": true, "HardSigmoid": true, "HardSwish": true, "LeakyRelu": true, "Log": true, "Max": true, "Mean": true, "Min": true, "Mish": true,
	"Mul": true, "Neg": true, "PRelu": true, "Pow": true, "Reciprocal": true, "Relu": true, "Round": true, "Selu": true, "Sigmoid": true,
	"Sign": true, "Sin": true, "Softplus": true, "Softsign": true, "Sqrt": true, "Sub": true, "Sum": true, "Tanh": true, "ThresholdedRelu": true,
	"Where": true,
}
