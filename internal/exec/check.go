package exec

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

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

	GotText, WantText string // the same where elements are strings
}

// String describes the difference in one line.
func (d *Difference) String() string {
	got, want := d.elements()
	return fmt.Sprintf("node %s (%s) on %s: %s[%d] is %s, reference %s", nodeList(d.Nodes), d.Op, d.Backend, d.Value, d.Index, got, want)
}

// elements returns what differs as text.
func (d *Difference) elements() (got, want string) {
	if d.GotText != d.WantText {
		return strconv.Quote(d.GotText), strconv.Quote(d.WantText)
	}
	return fmt.Sprintf("%g", d.Got), fmt.Sprintf("%g", d.Want)
}

// tolerance of Check: relative, plus a share of the output's standard deviation.
type tolerance struct{ relative, deviation float64 }

// roundoffs are the largest relative errors of rounding operands to a precision that backends name.
var roundoffs = map[string]float64{"tf32": 1.0 / (1 << 11), "f16": 1.0 / (1 << 11), "f32 with f16 weights": 1.0 / (1 << 11), "bf16": 1.0 / (1 << 8)}

// toleranceOf returns that of a node. A sum of products of rounded operands is off by some roundoffs of its terms, which may cancel.
func toleranceOf(precision string) tolerance {
	u := roundoffs[precision]
	return tolerance{relative: max(1e-3, 4*u), deviation: max(1e-4, 16*u)}
}

// rowRoundoff is that of rounding rows to integers of 8 bits.
const rowRoundoff = 1.0 / (2 * 127)

// toleranceAt returns the tolerance of a node's results: more where it, or a node of its region, asks for rows to be rounded to 8 bits, as
// ONNX Runtime's operators do with accuracy_level 4. The oracle's kernels do not.
func (c *checker) toleranceAt(n *graph.Node) tolerance {
	if roundsRows(n) {
		return tolerance{max(c.tol.relative, 4*rowRoundoff), max(c.tol.deviation, 16*rowRoundoff)}
	}
	return c.tol
}

func roundsRows(n *graph.Node) bool {
	if n.Op.Domain == "com.microsoft" && n.Int("accuracy_level", 0) == 4 {
		return true
	}
	for _, r := range n.Regions {
		for m := range r.Graph.Nodes() {
			if roundsRows(m) {
				return true
			}
		}
	}
	return false
}

// wholeGroup is the tolerance of a group whose nodes round operands, none of which is off by itself: what they add up.
var wholeGroup = tolerance{relative: 0.5, deviation: 1}

// Check has the next run of the session compared, group by group, with the oracle's kernels on the inputs that the group
// had. Where a group differs, its nodes are compiled and run one by one on their backend, each on what the backend made of those in
// front of it, and compared with the oracle's kernels on the same operands: the first that differs is the difference. Where none
// does, and the group's results are those of its nodes one by one, or no further off than rounding of its values makes them, rounding has
// decided a result, such as the index of one of two values that are nearly equal: the Logger is told where, and that is no difference. stop ends that and returns the first
// difference, nil where everything agrees.
func (s *Session) Check() (stop func() (*Difference, error)) {
	c := &checker{m: s.m}
	s.check = c
	return func() (*Difference, error) {
		s.check = nil
		return c.found, c.err
	}
}

type checker struct {
	m     *Machine
	found *Difference
	err   error
	in    []tensor.Value // the group's inputs, in the host format
	tol   tolerance      // of the group's nodes
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
	none := make([][]float64, len(body.Outputs))
	outputs := func(want []tensor.Value, far [][]float64) (first *Difference, err error) {
		for k, v := range body.Outputs {
			got := a.Outputs[k]
			if got == nil {
				got, _ = f.values[st.out[k]].(*tensor.Tensor)
			}
			d, err := c.compare(ctx, v, got, want[v.ID], far[k])
			if d != nil || err != nil {
				return d, err
			}
		}
		return nil, nil
	}
	c.tol = toleranceOf(st.info.Precision)
	first, err := outputs(vals, none)
	if first == nil || err != nil {
		c.err = err
		return
	}
	own, decided, d := c.oneByOne(ctx, st, in, hostIn, vals)
	if d == nil && own != nil {
		same, err := outputs(own, none)
		if err != nil {
			c.err = err
			return
		}
		if same == nil {
			c.tell(ctx, st, decided)
			return
		}
		swayed, err := c.sways(ctx, in, hostIn, func(v *graph.Value) tensor.Value { return vals[v.ID] }, func(far [][]float64) (*Difference, error) { return outputs(vals, far) })
		if err != nil {
			c.err = err
			return
		}
		if swayed {
			first.Nodes, first.Op = st.Node.Provenance(), "group"
			c.tell(ctx, st, []decision{{Difference: first}})
			return
		}
	}
	switch {
	case d != nil:
		first = d
	case rounds(body): // steps of a quantisation that fell to the other side add up
		return
	case roundoffs[st.info.Precision] > 0:
		c.tol = wholeGroup
		if first, err = outputs(vals, none); first == nil || err != nil {
			c.err = err
			return
		}
	}
	if d == nil {
		first.Nodes, first.Op = st.Node.Provenance(), "group"
	}
	first.Group, first.Backend = st.ID, st.Node.Backend
	c.found = first
}

// decision is a node at which what a backend makes of a group parts from the reference, though the node is right by itself.
type decision struct {
	*Difference
	tie bool // the result is of integers, booleans or strings
}

// maxTies is how many ties of a group tell names.
const maxTies = 5

// tell names the first nodes at which rounding has decided results. Steps of a quantisation that fall to the other side are no news.
func (c *checker) tell(ctx context.Context, st *Step, decided []decision) {
	if rounds(st.Node.Regions[0].Graph) {
		return
	}
	say := func(what string, d *Difference) {
		got, want := d.elements()
		c.m.env.Logger.WarnContext(ctx, what, "node", nodeList(d.Nodes), "op", d.Op, "backend", st.Node.Backend,
			"value", fmt.Sprintf("%s[%d]", d.Value, d.Index), "got", got, "want", want)
	}
	ties := 0
	for _, d := range decided {
		if d.tie && ties < maxTies {
			ties++
			say("rounding decides a result, as of a tie: the node is right by itself", d.Difference)
		}
	}
	if i := slices.IndexFunc(decided, func(d decision) bool { return !d.tie }); i >= 0 && decided[i].Op == "group" {
		say("differences of rounding grow beyond the tolerance within a group, whose nodes are right by themselves", decided[i].Difference)
	} else if i >= 0 {
		say("differences of rounding grow beyond the tolerance from a node on, which is right by itself", decided[i].Difference)
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
func (c *checker) compare(ctx context.Context, v *graph.Value, got *tensor.Tensor, want tensor.Value, far []float64) (*Difference, error) {
	w, ok := want.(*tensor.Tensor)
	if !ok || got == nil {
		return nil, nil
	}
	g, err := c.m.toHost(ctx, got, v.Format)
	if err != nil {
		return nil, err
	}
	return host(v, g, w, c.tol, far), nil
}

// host is compare for tensors in the host format. far is how far rounding may move each element, nil where that is not known.
func host(v *graph.Value, g, w *tensor.Tensor, tol tolerance, far []float64) *Difference {
	if w.DType == tensor.String {
		return texts(v, g, w, far)
	}
	gs, ws := make([]float64, g.Len()), make([]float64, w.Len())
	if len(gs) != len(ws) {
		return &Difference{Value: ValueName(v), Got: float64(len(gs)), Want: float64(len(ws))}
	}
	if tensor.Decode(gs, g) != nil || tensor.Decode(ws, w) != nil {
		return nil
	}
	slack := tol.deviation * deviation(ws)
	if w.DType == tensor.Int8 || w.DType == tensor.Uint8 {
		if p := v.Producer; p != nil && (p.Is("QuantizeLinear", "QLinearConv", "QLinearMatMul") || len(p.Regions) > 0 && rounds(p.Regions[0].Graph)) {
			slack = 1 // halves are rounded to either side
		}
	}
	slack = max(slack, stepBehind(v))
	for i, x := range ws {
		y := gs[i]
		if x == y || math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) <= tol.relative*math.Abs(x)+slack {
			continue
		}
		if far != nil && (math.Abs(x-y) <= tol.relative*math.Abs(x)+slack+swayFactor*far[i] || math.IsInf(far[i], 1)) {
			continue
		}
		return &Difference{Value: ValueName(v), Index: i, Got: y, Want: x}
	}
	return nil
}

// texts is host for strings.
func texts(v *graph.Value, g, w *tensor.Tensor, far []float64) *Difference {
	if len(g.Strings) != len(w.Strings) {
		return &Difference{Value: ValueName(v), Got: float64(len(g.Strings)), Want: float64(len(w.Strings))}
	}
	for i, x := range w.Strings {
		if y := g.Strings[i]; x != y && (far == nil || far[i] == 0) {
			return &Difference{Value: ValueName(v), Index: i, GotText: y, WantText: x}
		}
	}
	return nil
}

// oneByOne runs every node of a group alone on its backend, on what that made of the nodes in front, and compares it with the
// oracle's kernels on the same operands. It returns the first difference; else all values, by id, and the nodes at which they part
// from those that the oracle computed of the group as a whole: those whose operands agree with these, and whose results do not. A
// node that does not run alone is the oracle's; where something else fails own is nil.
func (c *checker) oneByOne(ctx context.Context, st *Step, in *interpreter, inputs, whole []tensor.Value) (own []tensor.Value, decided []decision, found *Difference) {
	apart := map[int]bool{} // ids of values
	own, err := in.evaluate(ctx, inputs, func(n *graph.Node, operands, results []tensor.Value) error {
		if n.IsCarve(graph.OpConvert) {
			apart[n.Outputs[0].ID] = apart[n.Inputs[0].ID]
			return nil
		}
		agree := true
		for _, v := range n.Operands() {
			agree = agree && !apart[v.ID]
		}
		got, err := c.single(ctx, st, n, in.bindings, operands)
		if err != nil {
			got = nil
		}
		tol, told, reference := c.toleranceAt(n), false, slices.Clone(results)
		for k, v := range n.Outputs {
			if v == nil {
				continue
			}
			if k < len(got) && got[k] != nil {
				if d := differs(v, got[k], results[k], tol, nil); d != nil && !c.swayed(ctx, in, n, operands, got, reference, tol) {
					d.of(n)
					found = d
					return errFound
				}
				results[k] = got[k]
			}
			d := differs(v, results[k], whole[v.ID], tol, nil)
			apart[v.ID] = d != nil
			if d != nil && agree && !told {
				d.of(n)
				decided, told = append(decided, decision{d, !v.Type.DType.IsFloat() && !v.Type.DType.IsComplex()}), true
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, found
	}
	return own, decided, nil
}

// errFound ends the evaluation of a group at the node that differs.
var errFound = errors.New("found")

// differs compares two results in the host format; what are no tensors is the same.
func differs(v *graph.Value, got, want tensor.Value, tol tolerance, far []float64) *Difference {
	g, ok := got.(*tensor.Tensor)
	w, tensors := want.(*tensor.Tensor)
	if !ok || !tensors {
		return nil
	}
	return host(v, g, w, tol, far)
}

// of names the node.
func (d *Difference) of(n *graph.Node) {
	d.Nodes, d.Op = n.Provenance(), n.Op.String()
	if n.IsCarve(graph.OpFused) {
		d.Op = n.Str("pattern", d.Op)
	}
}
