package exec

import (
	"context"
	"fmt"
	"math"
	"slices"

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
	return fmt.Sprintf("node %s (%s) on %s: %s[%d] is %g, reference %g", NodeList(d.Nodes), d.Op, d.Backend, d.Value, d.Index, d.Got, d.Want)
}

// Tolerance of Check: relative, plus a share of the output's standard deviation.
const (
	checkRelative  = 1e-3
	checkDeviation = 1e-4
)

// Check has the next run of the session compared, group by group, with the oracle's kernels on the inputs that the group
// had. Where a group differs, its nodes are compiled and run one by one on their backend to find the first that does. stop
// ends that and returns the first difference, nil where everything agrees.
func (s *Session) Check() (stop func() (*Difference, error)) {
	c := &checker{m: s.m, s: s}
	s.check = c
	return func() (*Difference, error) {
		s.check = nil
		return c.found, c.err
	}
}

type checker struct {
	m     *Machine
	s     *Session
	found *Difference
	err   error
	in    []tensor.Value // the group's inputs, in the host format
}

// before keeps a group's inputs: their memory may be used again before the group ends.
func (c *checker) before(ctx context.Context, f *frame, i int) {
	st := &f.s.block.Steps[i]
	if c.found != nil || c.err != nil || st.info.Oracle {
		return
	}
	body := st.Node.Regions[0].Graph
	c.in = make([]tensor.Value, len(body.Inputs))
	for k, v := range body.Inputs {
		src := f.args[i].Inputs[k]
		if st.dynamic {
			src, _ = f.values[st.in[k]].(*tensor.Tensor)
		}
		t, err := c.m.toHost(ctx, src, v.Format)
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
	st := &f.s.block.Steps[i]
	if c.found != nil || c.err != nil || st.info.Oracle {
		return
	}
	a := f.args[i]
	body := st.Node.Regions[0].Graph
	in := &interpreter{m: c.m, body: body, bindings: f.bindings(i)}
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
	first.Group, first.Backend, first.Nodes, first.Op = st.ID, st.Node.Backend, st.Node.Provenance(), "group"
	c.found = first
	d := c.bisect(ctx, st, in, hostIn)
	if d != nil {
		d.Group, d.Backend = st.ID, st.Node.Backend
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

// stepBehind returns the step between neighbours that a fused node rounds a float result to, 0 where it does not.
func stepBehind(v *graph.Value) float64 {
	p := v.Producer
	if p == nil || !p.IsCarve(graph.OpFused) {
		return 0
	}
	body := p.Regions[0].Graph
	d := body.Outputs[slices.Index(p.Outputs, v)].Producer
	if d == nil || !d.Is("DequantizeLinear") || d.Inputs[0].Producer == nil || !rounds(body) {
		return 0
	}
	scale := d.Inputs[1]
	if i := slices.Index(body.Inputs, scale); i >= 0 {
		scale = p.Inputs[i]
	}
	step := 0.0
	if scale.Const != nil {
		for i := range scale.Const.Len() {
			step = max(step, math.Abs(scale.Const.Float64At(i)))
		}
	}
	return step
}

// compare looks for the first element of a result that is too far from the reference.
func (c *checker) compare(ctx context.Context, v *graph.Value, got *tensor.Tensor, want tensor.Value) (*Difference, error) {
	w, ok := want.(*tensor.Tensor)
	if !ok || got == nil || w.DType == tensor.String {
		return nil, nil
	}
	g, err := c.m.toHost(ctx, got, v.Format)
	if err != nil {
		return nil, err
	}
	gs, ws := make([]float64, g.Len()), make([]float64, w.Len())
	if len(gs) != len(ws) {
		return &Difference{Value: ValueName(v), Got: float64(len(gs)), Want: float64(len(ws))}, nil
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
	slack = max(slack, stepBehind(v))
	for i, x := range ws {
		y := gs[i]
		if x == y || math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) <= checkRelative*math.Abs(x)+slack {
			continue
		}
		return &Difference{Value: ValueName(v), Index: i, Got: y, Want: x}, nil
	}
	return nil, nil
}

// bisect runs every node of a group alone on its backend, with the reference's operands, and returns the first whose
// results differ; nil where none does by itself.
func (c *checker) bisect(ctx context.Context, st *Step, in *interpreter, inputs []tensor.Value) *Difference {
	var found *Difference
	stop := fmt.Errorf("stop")
	_, _ = in.evaluate(ctx, inputs, func(n *graph.Node, operands, results []tensor.Value) error {
		if d, err := c.single(ctx, st, n, in.bindings, operands, results); err == nil && d != nil {
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
