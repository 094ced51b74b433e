package carve

import (
	"context"
	"fmt"
	"math"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Difference is what Check found: the first node whose result on its backend differs from the reference kernels'.
type Difference struct {
	Group   int      // id of the group in the Report
	Backend string   // that ran the group
	Nodes   []string // of the model: the node, or the unit that the backend fused
	Op      string
	Value   string  // the result
	Index   int     // first element that differs
	Got     float64 // the backend's
	Want    float64 // the reference kernels'
}

// String describes the difference in one line.
func (d *Difference) String() string {
	return fmt.Sprintf("node %s (%s) on %s: %s[%d] is %g, reference %g", nodeList(d.Nodes), d.Op, d.Backend, d.Value, d.Index, d.Got, d.Want)
}

// Tolerance of Check: relative, plus a share of the output's standard deviation.
const (
	checkRelative  = 1e-3
	checkDeviation = 1e-4
)

// Check runs the program once and compares every group with the reference kernels, on the inputs that the group had. Where
// a group differs, its nodes are compiled and run one by one on their backend to find the first that does. It returns nil
// where everything agrees. Results of eight-bit quantisation may be one step off, and what follows from that in a group is no
// difference where none of its nodes differs by itself.
func (p *Program) Check(ctx context.Context, inputs map[string]tensor.Value) (*Difference, error) {
	s, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer p.giveBack(s)
	c := &checker{p: p}
	s.check = c
	defer func() { s.check = nil }()
	if _, err := s.Run(ctx, inputs); err != nil {
		return nil, err
	}
	return c.found, c.err
}

type checker struct {
	p     *Program
	found *Difference
	err   error
	count int
	in    []tensor.Value // the group's inputs, in the host format
}

// before keeps a group's inputs: their memory may be used again before the group ends.
func (c *checker) before(ctx context.Context, f *frame, i int) {
	st := &f.s.block.steps[i]
	if c.found != nil || c.err != nil || st.node.Backend == "reference" {
		return
	}
	body := st.node.Regions[0].Graph
	c.in = make([]tensor.Value, len(body.Inputs))
	for k, v := range body.Inputs {
		src := f.args[i].Inputs[k]
		if st.dynamic {
			src, _ = f.values[st.in[k]].(*tensor.Tensor)
		}
		t, err := c.p.toHost(ctx, src, v.Format)
		if err == nil && t == src {
			t, err = src.Clone()
		}
		if err != nil {
			c.err = err
			return
		}
		c.in[k] = t
	}
}

// after compares a group's outputs.
func (c *checker) after(ctx context.Context, f *frame, i int) {
	st := &f.s.block.steps[i]
	id := c.count
	c.count++
	if c.found != nil || c.err != nil || st.node.Backend == "reference" {
		return
	}
	a := f.args[i]
	body := st.node.Regions[0].Graph
	in := &interpreter{p: c.p, body: body, bindings: f.bindings(i)}
	hostIn := c.in
	vals, err := in.evaluate(ctx, hostIn, nil)
	if err != nil {
		c.err = err
		return
	}
	same := true
	var first *Difference
	for k, v := range body.Outputs {
		got := a.Outputs[k]
		if got == nil {
			got, _ = f.values[st.out[k]].(*tensor.Tensor)
		}
		d, err := c.compare(ctx, v, got, vals[v.ID])
		if err != nil {
			c.err = err
			return
		}
		if d != nil && same {
			same, first = false, d
		}
	}
	if same {
		return
	}
	first.Group, first.Backend, first.Nodes, first.Op = id, st.node.Backend, st.node.Provenance(), "group"
	c.found = first
	d := c.bisect(ctx, st, in, hostIn)
	if d != nil {
		d.Group, d.Backend = id, st.node.Backend
		c.found = d
	} else if rounds(body) { // steps of a quantisation that fell to the other side add up
		c.found = nil
	}
}

// rounds reports whether a node of a body, fused ones included, rounds to the steps of a quantisation.
func rounds(body *graph.Graph) bool {
	for n := range body.Nodes() {
		if n.Is("QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul") {
			return true
		}
		for _, r := range n.Regions {
			if rounds(r.Graph) {
				return true
			}
		}
	}
	return false
}

// compare looks for the first element of a result that is too far from the reference.
func (c *checker) compare(ctx context.Context, v *graph.Value, got *tensor.Tensor, want tensor.Value) (*Difference, error) {
	w, ok := want.(*tensor.Tensor)
	if !ok || got == nil || w.DType == tensor.String {
		return nil, nil
	}
	g, err := c.p.toHost(ctx, got, v.Format)
	if err != nil {
		return nil, err
	}
	gs, ws := make([]float64, g.Len()), make([]float64, w.Len())
	if len(gs) != len(ws) {
		return &Difference{Value: valueName(v), Got: float64(len(gs)), Want: float64(len(ws))}, nil
	}
	if tensor.Decode(gs, g) != nil || tensor.Decode(ws, w) != nil {
		return nil, nil
	}
	var sum, square float64
	for _, x := range ws {
		if !math.IsInf(x, 0) && !math.IsNaN(x) {
			sum += x
			square += x * x
		}
	}
	n := float64(max(len(ws), 1))
	slack := checkDeviation * math.Sqrt(max(square/n-sum/n*sum/n, 0))
	if w.DType == tensor.Int8 || w.DType == tensor.Uint8 {
		if p := v.Producer; p != nil && (p.Is("QuantizeLinear", "QLinearConv", "QLinearMatMul") || len(p.Regions) > 0 && rounds(p.Regions[0].Graph)) {
			slack = 1 // halves are rounded to either side
		}
	}
	for i, x := range ws {
		y := gs[i]
		if x == y || math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) <= checkRelative*math.Abs(x)+slack {
			continue
		}
		return &Difference{Value: valueName(v), Index: i, Got: y, Want: x}, nil
	}
	return nil, nil
}

// bisect runs every node of a group alone on its backend, with the reference's operands, and returns the first whose
// results differ; nil where none does by itself.
func (c *checker) bisect(ctx context.Context, st *step, in *interpreter, inputs []tensor.Value) *Difference {
	var found *Difference
	stop := fmt.Errorf("stop")
	_, _ = in.evaluate(ctx, inputs, func(n *graph.Node, operands, results []tensor.Value) error {
		if d, err := c.single(ctx, st.backend, n, in.bindings, operands, results); err == nil && d != nil {
			d.Nodes, d.Op = n.Provenance(), n.Op.String()
			if n.IsCarve(graph.OpFused) {
				d.Op = n.Str("pattern", d.Op)
			}
			found = d
			return stop
		}
		return nil
	})
	return found
}

// single compiles a graph of one node and runs it.
func (c *checker) single(ctx context.Context, b backend.Backend, n *graph.Node, bind graph.Bindings, operands, results []tensor.Value) (*Difference, error) {
	whole, err := n.Graph().Clone()
	if err != nil {
		return nil, err
	}
	var twin *graph.Node
	for m := range whole.Nodes() {
		if m.ID == n.ID {
			twin = m
		}
	}
	if twin == nil || n.IsCarve(graph.OpConvert) {
		return nil, nil
	}
	keep := make([]*graph.Value, 0, len(twin.Outputs))
	for _, v := range twin.Outputs {
		if v != nil {
			keep = append(keep, v)
		}
	}
	whole.SetOutputs(keep...)
	group, err := whole.Extract([]*graph.Node{twin}, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph}})
	if err != nil {
		return nil, err
	}
	body := group.Regions[0].Graph
	o := c.p.o.compileOptions(b)
	o.Threads = 1
	exe, err := b.Compile(ctx, body, o)
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	inst, err := exe.Specialize(ctx, bind)
	if err != nil {
		return nil, err
	}
	a := &backend.RunArgs{}
	for _, v := range body.Inputs {
		k := indexOfOperand(twin, v)
		t, ok := operands[k].(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("operand %d is no tensor", k)
		}
		dst, err := c.blank(t.DType, t.Shape, v.Format)
		if err != nil {
			return nil, err
		}
		if err := c.p.fromHost(ctx, dst, t, v.Format); err != nil {
			return nil, err
		}
		a.Inputs = append(a.Inputs, dst)
	}
	for v := range body.Constants() {
		a.Constants = append(a.Constants, v.Const)
	}
	if a.Constants, err = c.p.withForms(ctx, body, a.Constants, inst.Requirements().Constants); err != nil {
		return nil, err
	}
	for _, v := range body.Outputs {
		w, ok := results[v.Index].(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("result is no tensor")
		}
		t, err := c.blank(w.DType, w.Shape, v.Format)
		if err != nil {
			return nil, err
		}
		a.Outputs = append(a.Outputs, t)
	}
	for _, r := range inst.Requirements().Buffers {
		t, err := tensor.New(tensor.Uint8, int(r.Bytes))
		if err != nil {
			return nil, err
		}
		a.Buffers = append(a.Buffers, t)
	}
	event, err := inst.Enqueue(ctx, a)
	if err == nil && event != nil {
		err = event.Wait(ctx)
	}
	if err != nil {
		return nil, err
	}
	for k, v := range body.Outputs {
		d, err := c.compare(ctx, v, a.Outputs[k], results[v.Index])
		if d != nil || err != nil {
			return d, err
		}
	}
	return nil, nil
}

// indexOfOperand returns the input of a node that reads v.
func indexOfOperand(n *graph.Node, v *graph.Value) int {
	for k, in := range n.Inputs {
		if in == v {
			return k
		}
	}
	return 0
}

// blank returns zeroed host storage of a tensor in a format.
func (c *checker) blank(dt tensor.DType, shape []int, f graph.Format) (*tensor.Tensor, error) {
	size, err := c.p.registry.Size(f, dt, shape)
	if err != nil {
		return nil, err
	}
	if !f.Device.IsHost() {
		return nil, fmt.Errorf("nodes of device %v are not bisected", f.Device)
	}
	data, err := tensor.New(tensor.Uint8, int(size))
	if err != nil {
		return nil, err
	}
	return &tensor.Tensor{DType: dt, Shape: shape, Data: data.Data}, nil
}
