package carve_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/testshare"
)

// tangle is a random graph on tensors of rank 0 to 4 whose values are read by many: inputs and constants are outputs, outputs are read
// further on and listed twice, chains of views and of nodes that may write in place begin at inputs, loops carry values crosswise.
type tangle struct {
	r      *rand.Rand
	g      *graph.Graph
	values []*graph.Value
	exact  map[*graph.Value]bool // the same bits on every backend
	names  int
	inside bool
}

func newTangle(seed uint64) *graph.Graph {
	t := &tangle{r: rand.New(rand.NewPCG(seed, 31)), g: graph.New("tangle"), exact: map[*graph.Value]bool{}}
	t.g.Opsets[""] = []int{13, 17, 18, 21}[t.r.IntN(4)]
	for i := range 1 + t.r.IntN(3) {
		shape := graph.Shape{graph.Sym("N")}
		for range t.r.IntN(4) {
			shape = append(shape, graph.D(1+t.r.IntN(9)))
		}
		if t.r.IntN(4) == 0 {
			slices.Reverse(shape)
		}
		t.learn(true, t.g.AddInput(fmt.Sprint("x", i), graph.TensorType(tensor.Float32, shape)))
	}
	t.learn(true, t.constant(1+t.r.IntN(5)))
	for range 2 + t.r.IntN(25) {
		t.grow()
	}
	var out []*graph.Value
	for _, v := range t.values {
		for v.NumUses() == 0 && !slices.Contains(out, v) || t.r.IntN(5) == 0 {
			out = append(out, v)
		}
	}
	t.g.SetOutputs(out...)
	return t.g
}

func (t *tangle) learn(exact bool, vs ...*graph.Value) {
	for _, v := range vs {
		t.values, t.exact[v] = append(t.values, v), exact
	}
}

func (t *tangle) constant(shape ...int) *graph.Value {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(t.r.NormFloat64())
	}
	t.names++
	return t.g.AddConst(fmt.Sprint("c", t.names), tensor.From(data, shape...))
}

func (t *tangle) ints(v ...int64) *graph.Value {
	t.names++
	return t.g.AddConst(fmt.Sprint("i", t.names), tensor.From(v, len(v)))
}

// node adds a node, and nothing where the operands do not suit it.
func (t *tangle) node(exact bool, op string, outputs int, attrs []graph.Attr, in ...*graph.Value) []*graph.Value {
	t.names++
	spec := graph.NodeSpec{Op: graph.Op{Name: op}, Name: fmt.Sprint(op, t.names), Attrs: attrs, Inputs: in}
	for i := range outputs {
		spec.Outputs = append(spec.Outputs, fmt.Sprint("v", t.names, "_", i))
	}
	n := t.g.AddNode(spec)
	if errors.Join(graph.InferNode(n), graph.CheckNode(n)) != nil {
		t.g.Remove(n)
		return nil
	}
	for _, v := range in {
		exact = exact && (v == nil || v.IsConst() || t.exact[v])
	}
	for _, v := range n.Outputs {
		t.exact[v] = exact
		if v.Type.DType == tensor.Float32 && len(v.Type.Shape) <= 5 {
			t.learn(exact, v)
		}
	}
	return n.Outputs
}

// any returns a value, recent ones more often.
func (t *tangle) any() *graph.Value {
	if k := len(t.values); t.r.IntN(2) == 0 {
		return t.values[max(0, k-1-t.r.IntN(4))]
	}
	return t.values[t.r.IntN(len(t.values))]
}

// like returns a value of the same type, which may be the value.
func (t *tangle) like(v *graph.Value) *graph.Value {
	for range 8 {
		if u := t.any(); u.Type.Equal(v.Type) {
			return u
		}
	}
	return v
}

func (t *tangle) grow() {
	x := t.any()
	rank := len(x.Type.Shape)
	axis := graph.IntAttr("axis", int64(t.r.IntN(max(rank, 1))))
	choose := func(ops ...string) string { return ops[t.r.IntN(len(ops))] }
	switch t.r.IntN(16) {
	case 0, 1:
		t.node(true, choose("Relu", "Neg", "Abs", "Identity", "Dropout"), 1, nil, x)
	case 2, 3:
		t.node(false, choose("Sigmoid", "Tanh", "Erf", "Softplus", "HardSwish", "Sin", "Gelu"), 1, nil, x)
	case 4, 5:
		op := choose("Add", "Mul", "Sub", "Max", "Min")
		y := []*graph.Value{t.like(x), t.any(), t.constant(), t.constant(1)}[t.r.IntN(4)]
		t.node(op == "Max" || op == "Min", op, 1, nil, x, y)
	case 6:
		t.node(true, "Transpose", 1, []graph.Attr{graph.IntsAttr("perm", wideInts(t.r.Perm(rank))...)}, x)
	case 7:
		t.view(x, axis)
	case 8:
		t.node(true, "Concat", 1, []graph.Attr{axis}, x, t.like(x), x)
	case 9:
		if d, ok := constDim(x, axis); ok && d > 1 {
			k := 1 + t.r.Int64N(d-1)
			t.node(true, "Split", 2, []graph.Attr{axis}, x, t.ints(k, d-k))
		}
	case 10:
		t.node(false, choose("Softmax", "LogSoftmax"), 1, []graph.Attr{axis}, x)
	case 11:
		if t.g.Opsets[""] >= 18 {
			t.node(false, choose("ReduceMean", "ReduceSum"), 1, []graph.Attr{graph.IntAttr("keepdims", t.r.Int64N(2))}, x, t.ints(axis.Int))
		} else {
			t.node(false, "ReduceSum", 1, []graph.Attr{graph.IntAttr("keepdims", t.r.Int64N(2))}, x, t.ints(axis.Int))
		}
	case 12:
		if d, ok := constDim(x, graph.IntAttr("axis", int64(rank-1))); ok && rank > 1 {
			if y := t.node(false, "MatMul", 1, nil, x, t.constant(int(d), 1+t.r.IntN(9))); y != nil && t.r.IntN(2) == 0 {
				t.node(false, "Add", 1, nil, y[0], t.like(y[0]))
			}
		}
	case 13:
		t.chosen(x, axis)
	case 14:
		if !t.inside {
			t.loop()
		}
	default:
		t.node(true, "Slice", 1, nil, x, t.ints([]int64{0, 1, -1, -3}[t.r.IntN(4)]), t.ints([]int64{1 << 40, -1, 2, -1 << 40}[t.r.IntN(4)]), t.ints(axis.Int), t.ints([]int64{1, 2, -1}[t.r.IntN(3)]))
	}
}

// view adds one or two nodes that move nothing.
func (t *tangle) view(x *graph.Value, axis graph.Attr) {
	switch t.r.IntN(4) {
	case 0:
		t.node(true, "Unsqueeze", 1, nil, x, t.ints(axis.Int))
	case 1:
		t.node(true, "Flatten", 1, []graph.Attr{axis}, x)
	case 2:
		t.node(true, "Reshape", 1, nil, x, t.ints(-1))
	default:
		if s := t.node(true, "Shape", 1, nil, x); s != nil {
			if flat := t.node(true, "Reshape", 1, nil, x, t.ints(-1)); flat != nil {
				t.node(true, "Reshape", 1, nil, flat[0], s[0])
			}
		}
	}
}

// chosen adds what chooses by comparison, of values that every backend has bit by bit alike.
func (t *tangle) chosen(x *graph.Value, axis graph.Attr) {
	y := t.like(x)
	if !t.exact[x] || !t.exact[y] {
		return
	}
	switch t.r.IntN(3) {
	case 0:
		if m := t.node(true, []string{"Less", "GreaterOrEqual"}[t.r.IntN(2)], 1, nil, x, y); m != nil {
			t.node(true, "Where", 1, nil, m[0], t.like(x), t.any())
		}
	case 1:
		if i := t.node(true, "ArgMax", 1, []graph.Attr{axis}, x); i != nil {
			t.node(true, "Cast", 1, []graph.Attr{graph.IntAttr("to", int64(tensor.Float32))}, i[0])
		}
	default:
		if d, ok := constDim(x, axis); ok && d > 0 {
			t.node(true, "Gather", 1, []graph.Attr{axis}, x, t.ints(t.r.Int64N(d), -1, 0))
		}
	}
}

// loop carries two values of one type crosswise, through a body that may return its operands as they are, one of them twice.
func (t *tangle) loop() {
	a := t.any()
	b := t.like(a)
	body := graph.New("body")
	body.Opsets[""] = t.g.Opsets[""]
	body.AddInput("it", graph.TensorType(tensor.Int64, graph.Shape{}))
	goes := body.AddInput("go", graph.TensorType(tensor.Bool, graph.Shape{}))
	in := &tangle{r: t.r, g: body, exact: map[*graph.Value]bool{}, names: t.names * 100, inside: true}
	in.learn(false, body.AddInput("p", a.Type), body.AddInput("q", a.Type), body.AddCapture("r", a.Type))
	p, q := in.values[0], in.values[1]
	for range t.r.IntN(4) {
		in.grow()
	}
	t.names = in.names
	of := func(v *graph.Value) *graph.Value {
		if u := in.like(v); t.r.IntN(2) == 0 {
			if y := in.node(false, "Tanh", 1, nil, u); y != nil {
				return y[0]
			}
		}
		return v
	}
	results := []*graph.Value{goes, of(q), of(p)}
	if t.r.IntN(3) == 0 {
		results[2] = results[1]
	}
	outputs, stacked := 2, t.r.IntN(2) == 0
	if stacked {
		results, outputs = append(results, results[1+t.r.IntN(2)]), 3
	}
	body.SetOutputs(results...)
	t.names++
	spec := graph.NodeSpec{Op: graph.Op{Name: "Loop"}, Name: fmt.Sprint("loop", t.names), Captures: []*graph.Value{t.like(a)},
		Regions: []graph.Region{{Name: "body", Graph: body}},
		Inputs:  []*graph.Value{t.g.AddConst(fmt.Sprint("trips", t.names), tensor.Scalar(t.r.Int64N(4))), t.g.AddConst(fmt.Sprint("goes", t.names), tensor.Scalar(true)), a, b}}
	for i := range outputs {
		spec.Outputs = append(spec.Outputs, fmt.Sprint("l", t.names, "_", i))
	}
	n := t.g.AddNode(spec)
	if graph.InferNode(n) != nil {
		t.g.Remove(n)
		return
	}
	for _, v := range n.Outputs {
		if v.Type.Shape != nil && len(v.Type.Shape) <= 5 {
			t.learn(false, v)
		}
	}
}

func wideInts(v []int) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

// constDim returns the length of the dim of an axis attribute.
func constDim(v *graph.Value, axis graph.Attr) (int64, bool) {
	if axis.Int < 0 || int(axis.Int) >= len(v.Type.Shape) {
		return 0, false
	}
	return v.Type.Shape[axis.Int].Const()
}

// ways are options by which tangles run.
func ways(others ...backend.Config) []*carve.Options {
	return []*carve.Options{
		{Verify: true, Poison: true, Threads: 2, Backends: others},
		{Verify: true, Isolated: true, Poison: true, Backends: others},
		{Placement: carve.Modelled, Backends: append(slices.Clone(others), backend.Config{Name: "cpu"})},
	}
}

// checkTangle runs a tangle on the reference kernels and in several ways, for several lengths, from three goroutines, into tensors that
// were used before, with a run in between that is cancelled, and says what is wrong. Operands stay as they are.
func checkTangle(ctx context.Context, seed uint64, others ...backend.Config) string {
	g := newTangle(seed)
	text := g.String()
	wrong := func(way int, n int, what any) string {
		return fmt.Sprintf("seed %d, way %d, N = %d: %v\n%s", seed, way, n, what, text)
	}
	m := carve.FromGraph(g)
	defer m.Close()
	plain, err := carve.Compile(ctx, m, &carve.Options{Backends: onReference})
	if err != nil {
		return wrong(-1, 0, err)
	}
	defer plain.Close()
	r := rand.New(rand.NewPCG(seed, 7))
	for i, o := range ways(others...) {
		p, err := carve.Compile(ctx, m, o)
		if err != nil {
			return wrong(i, 0, err)
		}
		defer p.Close()
		for _, n := range []int{2, 1, 0, 5, 2} {
			feeds := map[string]tensor.Value{}
			for _, in := range plain.Inputs() {
				dims := must(in.Type.Shape.Eval(graph.Bindings{"N": int64(n)}, nil))
				data := make([]float32, must(tensor.NumElements(dims)))
				for k := range data {
					data[k] = float32(r.NormFloat64())
				}
				feeds[in.Name] = tensor.From(data, dims...)
			}
			if why := runTangle(ctx, r, plain, p, feeds); why != "" {
				return wrong(i, n, why)
			}
		}
	}
	return ""
}

// runTangle runs a program on operands in several ways and says what is wrong.
func runTangle(ctx context.Context, r *rand.Rand, plain, p *carve.Program, feeds map[string]tensor.Value) string {
	before := map[string]string{}
	for name, v := range feeds {
		before[name] = bits(v)
	}
	want, wrong := plain.Run(ctx, feeds)
	got, err := p.Run(ctx, feeds)
	if (wrong == nil) != (err == nil) {
		return fmt.Sprintf("reference: %v, here: %v", wrong, err)
	}
	if err != nil {
		return ""
	}
	if why := tangled(got, want); why != "" {
		return why
	}
	stopped, cancel := context.WithCancel(ctx)
	var ins, outs []*tensor.Tensor
	for _, in := range p.Inputs() {
		ins = append(ins, feeds[in.Name].(*tensor.Tensor))
	}
	for _, out := range p.Outputs() {
		t := must(got[out.Name].(*tensor.Tensor).Clone())
		for k, s := 0, tensor.Of[float32](t); k < len(s); k++ {
			s[k] = float32(math.NaN())
		}
		outs = append(outs, t)
	}
	var wg sync.WaitGroup
	why := make([]string, 3)
	wg.Go(func() {
		if err := p.RunInto(ctx, ins, outs); err != nil {
			why[0] = err.Error()
		}
	})
	wg.Go(func() {
		again, err := p.Run(ctx, feeds)
		if err != nil {
			why[1] = err.Error()
		} else if s := tangled(again, want); s != "" {
			why[1] = "beside another run: " + s
		}
	})
	wg.Go(func() {
		if again, err := p.Run(stopped, feeds); err == nil {
			why[2] = tangled(again, want)
		} else if !errors.Is(err, context.Canceled) {
			why[2] = "cancelled: " + err.Error()
		}
	})
	if r.IntN(2) == 0 {
		cancel()
	}
	wg.Wait()
	cancel()
	into := map[string]tensor.Value{}
	for i, out := range p.Outputs() {
		into[out.Name] = outs[i]
	}
	why = append(why, tangled(into, want), tangled(got, want))
	for name, v := range feeds {
		if bits(v) != before[name] {
			why = append(why, "operand "+name+" was written to")
		}
	}
	return strings.Join(slices.DeleteFunc(why, func(s string) bool { return s == "" }), "; ")
}

// tangled is apart for results that may be far from 0 by what cancels within.
func tangled(got, want map[string]tensor.Value) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d results, not %d", len(got), len(want))
	}
	for name, w := range want {
		if g := got[name].(*tensor.Tensor); !slices.Equal(g.Shape, w.(*tensor.Tensor).Shape) {
			return fmt.Sprintf("%s is %v, not %v", name, g, w)
		}
	}
	return apart(got, want)
}

var _ = Describe("tangled graphs", func() {
	It("give what the reference kernels give, however they are run", func(ctx SpecContext) {
		for seed := range uint64(testshare.Of(100)) {
			Expect(checkTangle(ctx, seed)).To(BeEmpty())
		}
	})

	It("have an empty result of ArgMax where there is nothing to choose from and nothing to choose", func(ctx SpecContext) {
		Expect(checkTangle(ctx, 409)).To(BeEmpty())
	})

	It("do so in great number", Label("slow"), func(ctx SpecContext) {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes long: -ginkgo.label-filter=slow")
		}
		for seed := range uint64(5000) {
			Expect(checkTangle(ctx, 1000+seed)).To(BeEmpty())
		}
	})
})
