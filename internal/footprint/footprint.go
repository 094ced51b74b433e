// Package footprint models what the execution of a partitioned graph takes of memory, for who decides on its order.
package footprint

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/memplan/schedule"
)

// Model tells what a graph's values take, as far as the planner will see it. How values of a group share memory is
// what its backend says (backend.Estimator); where it says nothing each counts with its own size. Workspace does not count.
type Model struct {
	Registry *convert.Registry
	Backends []backend.Backend
	Compiled func(b backend.Backend) backend.CompileOptions // how groups of a backend are compiled
	Logger   *slog.Logger
	Bindings graph.Bindings // values of symbols
	Bounds   graph.Bindings // values of symbols without a binding, where Estimate is set
	Estimate bool           // symbols without a binding get a bound or an estimate
	// Orders gives graphs another order than that of their list; nil for none.
	Orders map[*graph.Graph][]*graph.Node

	known graph.Bindings                      // bindings, and bounds of other symbols; made when first needed
	asked map[*graph.Graph]*backend.Footprint // of groups' bodies; nil entries where it is not known
	shape []int                               // of the value that size was asked for last
}

// Peak returns the largest sum of bytes that are alive at one time in g, what its groups and regions need included.
func (m *Model) Peak(ctx context.Context, g *graph.Graph) int64 {
	nodes := m.Orders[g]
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
	p, err := schedule.Peak(m.Graph(ctx, g, nodes), order)
	if err != nil {
		return 0
	}
	return p
}

// Graph describes g for the scheduler. nodes are those of g in their present order.
func (m *Model) Graph(ctx context.Context, g *graph.Graph, nodes []*graph.Node) *schedule.Graph {
	values := g.ValueIDs()
	s := &schedule.Graph{Bytes: make([]int64, values), Keep: make([]bool, values), Within: make([]int, values), Nodes: make([]schedule.Node, len(nodes))}
	for i := range s.Within {
		s.Within[i] = i
	}
	var told *backend.Footprint
	owner := g.Owner()
	body := owner != nil && owner.IsCarve(graph.OpSubgraph)
	if body {
		if told = m.footprint(ctx, owner); told != nil {
			copy(s.Within, told.Within)
		}
	}
	for _, n := range nodes {
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			s.Keep[v.ID] = v.IsOutput()
			if s.Bytes[v.ID] = m.size(v); told != nil && s.Bytes[v.ID] > 0 {
				s.Bytes[v.ID] = told.Bytes[v.ID]
			}
		}
	}
	if body {
		m.boundary(owner, s)
	} else {
		for _, v := range g.Outputs {
			if direct(v) {
				s.Bytes[v.ID] = 0
			}
		}
	}
	ids := 0
	for _, n := range nodes {
		ids += n.NumOperands() + len(n.Outputs)
	}
	list := make([]int, 0, ids) // of all nodes
	for i, n := range nodes {
		s.Nodes[i] = m.node(ctx, n, &list)
		if told != nil {
			s.Nodes[i].Overwrite = told.Overwrite[n.ID]
		}
	}
	return s
}

// footprint returns what the backend of a group says of its body's memory, nil where it says nothing or nonsense: a worse
// order is all that comes of that.
func (m *Model) footprint(ctx context.Context, group *graph.Node) *backend.Footprint {
	body := group.Regions[0].Graph
	if f, known := m.asked[body]; known {
		return f
	}
	f, err := m.ask(ctx, group, body)
	if err == nil && f != nil {
		err = checkFootprint(f, body)
	}
	if err != nil {
		m.Logger.DebugContext(ctx, "memory of a group is not known", "backend", group.Backend, "group", group.Name, "error", err)
		f = nil
	}
	if m.asked == nil {
		m.asked = map[*graph.Graph]*backend.Footprint{}
	}
	m.asked[body] = f
	return f
}

// ask asks the backend of a group. A panic of the backend becomes an error.
func (m *Model) ask(ctx context.Context, group *graph.Node, body *graph.Graph) (f *backend.Footprint, err error) {
	b := m.backend(group)
	e, ok := b.(backend.Estimator)
	if !ok {
		return nil, nil
	}
	defer func() {
		if r := recover(); r != nil {
			f, err = nil, fmt.Errorf("estimate: panic: %v", r)
		}
	}()
	return e.Estimate(ctx, body, m.assumed(shapesOf(body)...), m.Compiled(b))
}

// backend returns the one of a group, nil where it is not in the list.
func (m *Model) backend(group *graph.Node) backend.Backend {
	for _, b := range m.Backends {
		if b.Info().Name == group.Backend {
			return b
		}
	}
	return nil
}

// checkFootprint returns an error where a footprint is none of a body.
func checkFootprint(f *backend.Footprint, body *graph.Graph) error {
	values := body.ValueIDs()
	if len(f.Bytes) != values || len(f.Within) != values || len(f.Overwrite) != body.NodeIDs() {
		return fmt.Errorf("a footprint of %d and %d values and %d nodes, for %d and %d", len(f.Bytes), len(f.Within), len(f.Overwrite), values, body.NodeIDs())
	}
	for id, in := range f.Within {
		if in < 0 || in >= values || f.Within[in] != in || f.Bytes[id] < 0 || in != id && f.Bytes[id] != 0 {
			return fmt.Errorf("value %d of %d bytes lies in value %d", id, f.Bytes[id], in)
		}
	}
	for n := range body.Nodes() {
		for _, id := range f.Overwrite[n.ID] {
			if !slices.ContainsFunc(n.Inputs, func(v *graph.Value) bool { return v != nil && v.ID == id && !v.IsConst() && !v.IsDims() }) {
				return fmt.Errorf("%v overwrites value %d, which it does not read", n, id)
			}
		}
	}
	return nil
}

// boundary tells which values at the edges of a group's body lie in the arena: not the caller's, and inputs only where
// the group alone reads them.
func (m *Model) boundary(owner *graph.Node, s *schedule.Graph) {
	body := owner.Regions[0].Graph
	for i, v := range body.Inputs {
		s.Bytes[v.ID] = 0
		if o := owner.Operand(i); o != nil && o.Producer != nil && o.HasOneUse() && !o.IsOutput() {
			s.Bytes[v.ID] = m.size(v)
		}
	}
	for i, v := range body.Outputs {
		if o := owner.Outputs[i]; o != nil && v.Producer != nil && direct(o) {
			s.Bytes[s.Within[v.ID]] = 0
		}
	}
}

// direct reports whether a value is written to the caller's memory.
func direct(v *graph.Value) bool {
	return v.Producer != nil && v.Graph().Owner() == nil && v.Format == graph.HostFormat && v.Type.Backed() && v.NumOutputs() == 1
}

// node describes a node; its lists of values are cut off the end of list.
func (m *Model) node(ctx context.Context, n *graph.Node, list *[]int) schedule.Node {
	ids := *list
	from := len(ids)
	for k := range n.NumOperands() {
		if v := n.Operand(k); v != nil && !v.IsConst() && !v.IsDims() {
			ids = append(ids, v.ID)
		}
	}
	mid := len(ids)
	for _, v := range n.Outputs {
		if v != nil {
			ids = append(ids, v.ID)
		}
	}
	*list = ids
	out := schedule.Node{Inputs: ids[from:mid:mid], Outputs: ids[mid:len(ids):len(ids)]}
	if !n.IsCarve(graph.OpFused) {
		for _, r := range n.Regions {
			out.Work = max(out.Work, m.Peak(ctx, r.Graph))
		}
	}
	if n.IsCarve(graph.OpSubgraph) { // whose peak counts what stands at its edges as well
		for i, v := range n.Regions[0].Graph.Inputs {
			if o := n.Operand(i); o != nil && o.Producer != nil && o.HasOneUse() && !o.IsOutput() {
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
func (m *Model) size(v *graph.Value) int64 {
	if !v.Type.IsTensor() || !v.Type.Backed() || v.Type.DType == tensor.String || v.IsConst() || v.IsDims() {
		return 0
	}
	if !m.dims(v) {
		return 0
	}
	n, err := m.Registry.Size(v.Format, v.Type.DType, m.shape)
	if err != nil || n < 0 {
		return 0
	}
	return (n + tensor.Alignment - 1) &^ (tensor.Alignment - 1)
}

// dims evaluates the shape of a value; it reports false where that is not known.
func (m *Model) dims(v *graph.Value) bool {
	m.shape = m.shape[:0]
	if !v.Type.Shape.Known() {
		return false
	}
	for _, d := range v.Type.Shape {
		eval, known := graph.Dim.Eval, m.Bindings
		if m.Estimate {
			eval, known = graph.Dim.Estimate, m.bounded()
		}
		n, err := eval(d, known)
		if err != nil || n < 0 {
			return false
		}
		m.shape = append(m.shape, int(n))
	}
	return true
}

// bounded returns the bindings, and the bounds of symbols that have none.
func (m *Model) bounded() graph.Bindings {
	if m.known == nil {
		m.known = graph.Bindings{}
		maps.Copy(m.known, m.Bounds)
		maps.Copy(m.known, m.Bindings)
	}
	return m.known
}

// assumed returns a value for every symbol of these shapes: its binding, its bound or graph.AssumedSize.
func (m *Model) assumed(shapes ...graph.Shape) graph.Bindings {
	b := maps.Clone(m.bounded())
	for _, s := range shapes {
		b.Assume(s...)
	}
	return b
}

// shapesOf returns the shapes of all values of a graph, and as further ones the contents that are dims.
func shapesOf(g *graph.Graph) []graph.Shape {
	list := make([]graph.Shape, 0, 2*g.ValueIDs())
	add := func(v *graph.Value) {
		if v != nil {
			list = append(list, v.Type.Shape, v.Dims)
		}
	}
	for _, v := range g.Inputs {
		add(v)
	}
	for v := range g.Constants() {
		add(v)
	}
	for n := range g.Nodes() {
		for _, v := range n.Outputs {
			add(v)
		}
	}
	return list
}
