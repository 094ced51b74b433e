package gpugroup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/lower"
	"github.com/carve-dev/carve/internal/place"
)

// planner turns nodes of static shapes into launches.
type planner struct {
	*place.Plan
	d      gpukernel.Device
	vendor Vendor // nil for none
	calls  []Call
	taken  map[*graph.Node]bool // nodes that kernels of others stand for
	ends   map[*graph.Node]*unit
	wait   []*graph.Node // to be rendered, in order
	plans  []*gpukernel.Plan
	steps  []Step
}

// unit is a head with what its kernel applies; it is emitted in the place of the last of its nodes.
type unit struct {
	head  *graph.Node
	links *fuse.Links // nil: the head alone
}

// Plan returns the launches of a subgraph for the shapes that symbols are bound to.
func (d *Device) Plan(ctx context.Context, sub *graph.Graph, b graph.Bindings) (_ *Group, err error) {
	defer guard(&err)
	g, err := concrete(sub, b)
	if err != nil {
		return nil, err
	}
	uncast(g)
	order, err := g.Topo()
	if err != nil {
		return nil, err
	}
	plan, err := place.New(g, order, b)
	if err != nil {
		return nil, err
	}
	plan.WantOutputs()
	p := &planner{Plan: plan, d: d.Kernels, vendor: d.Vendor, taken: map[*graph.Node]bool{}, ends: map[*graph.Node]*unit{}}
	defer func() {
		if err != nil {
			release(p.calls)
		}
	}()
	defer guard(&err)
	if err := p.nodes(ctx); err != nil {
		return nil, err
	}
	return p.finish(), nil
}

// concrete returns a subgraph with the shapes of a run.
func concrete(sub *graph.Graph, b graph.Bindings) (*graph.Graph, error) {
	g, err := sub.Clone()
	if err != nil {
		return nil, err
	}
	for _, v := range g.ValuesByID() {
		if v == nil || !v.Type.IsTensor() {
			continue
		}
		d, err := v.Type.Shape.Eval(b, nil)
		if err != nil {
			return nil, fmt.Errorf("value %v: %w", v, err)
		}
		v.Type.Shape = graph.ShapeOf(d...)
		if v.Dims == nil {
			continue
		}
		known := make([]graph.Dim, len(v.Dims))
		for i, d := range v.Dims {
			n, err := d.Eval(b)
			if errors.Is(err, graph.ErrUnbound) && !v.IsDims() {
				known = nil
				break
			}
			if err != nil {
				return nil, fmt.Errorf("value %v: %w", v, err)
			}
			known[i] = graph.D(int(n))
		}
		v.Dims = known
	}
	return g, nil
}

// nodes emits the launches of all nodes.
func (p *planner) nodes(ctx context.Context) error {
	for _, n := range p.Order {
		if !isHead(n) {
			continue
		}
		u, end := &unit{head: n}, n
		if l := p.follow(n); l != nil {
			u.links, end = l, l.Out.Producer
			for _, m := range l.Nodes() {
				p.taken[m] = true
			}
		}
		p.taken[n] = true
		p.ends[end] = u
	}
	for _, n := range p.Order {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		switch u := p.ends[n]; {
		case p.MakesNothing(n):
			for _, v := range n.Outputs {
				p.Out(v)
			}
		case u != nil:
			err = p.unit(u)
		case p.taken[n] || p.view(n):
		default:
			p.wait = append(p.wait, n)
		}
		if err != nil {
			return fmt.Errorf("%v: %w", n, err)
		}
	}
	return p.render(p.wait)
}

// view makes the result of a node that only gives its operand another shape lie where that lies. It reports whether it did.
func (p *planner) view(n *graph.Node) bool {
	if !place.IsView(n) && !n.IsCarve(graph.OpConvert) {
		return false
	}
	x, y := n.Inputs[0], n.Outputs[0]
	as := x.Format.Layout.IsRowMajor() && y.Format.Layout.IsRowMajor() || x.Format.Layout == y.Format.Layout && n.Is("Identity")
	if p.In(x).Slot < 0 || !as || x.Format.Device != y.Format.Device {
		return false
	}
	p.Node = n
	return p.View(y, x)
}

// unit emits a head.
func (p *planner) unit(u *unit) error {
	nodes := []*graph.Node{u.head}
	if u.links != nil {
		nodes = u.links.Nodes()
	}
	if err := p.render(p.before(nodes)); err != nil {
		return err
	}
	p.Node = u.head
	var t tail
	if u.links != nil {
		t = p.tailOf(u.links)
	}
	return heads[u.head.Op.Name].plan(p, u.head, t)
}

// before returns those of the waiting nodes that compute operands of others, and all that hang together with them.
func (p *planner) before(nodes []*graph.Node) []*graph.Node {
	waits := make(map[*graph.Node]bool, len(p.wait))
	for _, n := range p.wait {
		waits[n] = true
	}
	wanted := map[*graph.Node]bool{}
	var reach func(n *graph.Node)
	reach = func(n *graph.Node) {
		if n == nil || !waits[n] || wanted[n] {
			return
		}
		wanted[n] = true
		for _, v := range n.Inputs {
			if v != nil {
				reach(v.Producer)
			}
		}
		for _, v := range n.Outputs {
			if v != nil {
				for _, m := range v.Consumers() {
					reach(m)
				}
			}
		}
	}
	for _, n := range nodes {
		for _, v := range n.Inputs {
			if v != nil {
				reach(v.Producer)
			}
		}
	}
	var now, later []*graph.Node
	for _, n := range p.wait {
		if wanted[n] {
			now = append(now, n)
		} else {
			later = append(later, n)
		}
	}
	p.wait = later
	return now
}

// render emits nodes as few kernels: one, where they can be one.
func (p *planner) render(nodes []*graph.Node) error {
	if len(nodes) == 0 {
		return nil
	}
	err := p.together(nodes)
	if err == nil || len(nodes) == 1 {
		return err
	}
	for _, n := range nodes {
		if err := p.together([]*graph.Node{n}); err != nil {
			return err
		}
	}
	return nil
}

// together emits nodes as what is rendered of all of them.
func (p *planner) together(nodes []*graph.Node) error {
	among := func(n *graph.Node) bool { return slices.Contains(nodes, n) }
	var outputs []*graph.Value
	for _, n := range nodes {
		for _, v := range n.Outputs {
			if v != nil && (v.IsOutput() || slices.ContainsFunc(v.Consumers(), func(m *graph.Node) bool { return !among(m) })) {
				outputs = append(outputs, v)
			}
		}
	}
	if len(outputs) == 0 {
		return nil
	}
	result, err := lower.Nodes(nodes, outputs)
	if err != nil {
		return err
	}
	plan, err := gpukernel.Render("rendered", p.d, result.Program)
	if err != nil {
		return err
	}
	buffers := map[string]place.Memory{}
	for i, v := range result.Inputs {
		buffers[fmt.Sprintf("in%d", i)] = p.In(v)
		if v.Format.Device.IsHost() {
			return fmt.Errorf("%w: %v is on the host", gpukernel.ErrUnsupported, v)
		}
	}
	for i, v := range result.Outputs {
		buffers[fmt.Sprintf("out%d", i)] = p.Out(v)
		if v.Format.Device.IsHost() {
			return fmt.Errorf("%w: %v is on the host", gpukernel.ErrUnsupported, v)
		}
	}
	p.Node = nodes[len(nodes)-1]
	return p.emit(0, plan, buffers)
}

// result returns the place of a head's result, behind its tail.
func (p *planner) result(y *graph.Value, t tail) place.Memory {
	if t.out != nil {
		y = t.out
	}
	return p.Out(y)
}

// bind adds the operands of a tail to buffers.
func (*planner) bind(t tail, buffers map[string]place.Memory) map[string]place.Memory {
	for i, at := range t.operands {
		if at.Slot >= 0 {
			buffers[fmt.Sprintf("operand%d", i)] = at
		}
	}
	return buffers
}

// emit adds the launches of a plan, which may have been emitted before, with its buffers in these places. work is 1 for the plan that multiplies for the node, else 0.
func (p *planner) emit(work int, plan *gpukernel.Plan, buffers map[string]place.Memory) error {
	for _, s := range plan.Scratch {
		buffers[s.Buffer] = p.Temp(int(s.Bytes))
	}
	at := slices.Index(p.plans, plan)
	if at < 0 {
		at, p.plans = len(p.plans), append(p.plans, plan)
	}
	for i := range plan.Launches {
		l := &plan.Launches[i]
		s := Step{Plan: at, Launch: l, Args: make([]place.Memory, len(l.Args))}
		var reads, writes []place.Memory
		for k, a := range l.Args {
			s.Args[k] = place.Nowhere
			if l.Kernel.Params[k].Scalar {
				continue
			}
			m, ok := buffers[a.Buffer]
			if !ok || m.Slot < 0 || p.Slots[m.Slot].Kind == place.Data {
				return fmt.Errorf("%w: %s has no buffer %q on the device", gpukernel.ErrUnsupported, l.Kernel.Name, a.Buffer)
			}
			if s.Args[k] = m; l.Kernel.Params[k].Written {
				writes = append(writes, m)
			} else {
				reads = append(reads, m)
			}
		}
		p.Step(work, reads, writes)
		work = 0 // what follows adds up, or moves
		p.steps = append(p.steps, s)
	}
	return nil
}

// finish returns what has been emitted.
func (p *planner) finish() *Group {
	g := &Group{Plans: p.plans, Steps: p.steps, calls: p.calls, slots: p.Slots, Requirements: p.Finish()}
	for _, ports := range [][]backend.PortUse{g.Requirements.Inputs, g.Requirements.Outputs} {
		for i := range ports {
			ports[i].Align = OperandAlign
		}
	}
	return g
}
