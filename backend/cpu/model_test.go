package cpu_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/testshare"
)

// model is a graph that is computed by the reference kernels while it is built, node by node, and then compared with what
// the backend makes of the whole.
type model struct {
	g       *graph.Graph
	seed    uint64
	long    bool // recurrent operators run over long sequences of large states
	lengths bool // recurrent operators have lengths of sequences
	r       *rand.Rand
	feeds   map[string]tensor.Value
	known   map[*graph.Value]*tensor.Tensor // what each value holds
	err     error                           // of the last node that the reference kernels refused

	options map[string]string // of the backend, beside the instruction set
	cache   int               // bytes of the second-level cache, 0: the processor's
	last    int               // bytes of the last cache, 0: the processor's
	steps   []string          // operators of the steps of cpu in the last run

	judge func(got map[string]tensor.Value) string // what is wrong with results; nil: differ says it
}

func newModel(seed uint64) *model {
	m := &model{g: graph.New("test"), seed: seed, r: rand.New(rand.NewPCG(seed, 7)), feeds: map[string]tensor.Value{}, known: map[*graph.Value]*tensor.Tensor{}}
	m.g.Opsets[""] = 28
	return m
}

// version sets the operator set of the nodes that follow.
func (m *model) version(opset int) *model {
	m.g.Opsets[""] = opset
	return m
}

// floats returns a tensor of normal deviates.
func (m *model) floats(shape ...int) *tensor.Tensor {
	t, err := tensor.New(tensor.Float32, shape...)
	Expect(err).NotTo(HaveOccurred())
	for i, s := 0, tensor.Of[float32](t); i < len(s); i++ {
		s[i] = float32(m.r.NormFloat64())
	}
	return t
}

// input adds a graph input of normal deviates.
func (m *model) input(shape ...int) *graph.Value { return m.feed(m.floats(shape...)) }

// feed adds a graph input with that content.
func (m *model) feed(t *tensor.Tensor) *graph.Value { return m.feedAs(graph.TypeOf(t), t) }

// feedAs adds a graph input of a type that may have symbols.
func (m *model) feedAs(ty graph.Type, t *tensor.Tensor) *graph.Value {
	v := m.g.AddInput(fmt.Sprintf("x%d", len(m.g.Inputs)), ty)
	m.feeds[v.Name], m.known[v] = t, t
	return v
}

// constant adds a constant of normal deviates.
func (m *model) constant(shape ...int) *graph.Value { return m.data(m.floats(shape...)) }

// scaled adds a constant of normal deviates times a factor.
func (m *model) scaled(by float64, shape ...int) *graph.Value {
	t := m.floats(shape...)
	for i, s := 0, tensor.Of[float32](t); i < len(s); i++ {
		s[i] *= float32(by)
	}
	return m.data(t)
}

// data adds a constant with that content.
func (m *model) data(t *tensor.Tensor) *graph.Value {
	v := m.g.AddConst(fmt.Sprintf("c%d", m.g.ValueIDs()), t)
	m.known[v] = t
	return v
}

// ints adds a constant vector of int64.
func (m *model) ints(v ...int64) *graph.Value { return m.data(tensor.From(v, len(v))) }

// scalar adds a constant of rank 0.
func (m *model) scalar(x float32) *graph.Value { return m.data(tensor.Scalar(x)) }

// try adds a node and computes it; nil where the operands do not suit the operator.
func (m *model) try(op string, outputs int, in []*graph.Value, attrs ...graph.Attr) []*graph.Value {
	spec := graph.NodeSpec{Op: graph.Op{Name: op}, Name: fmt.Sprintf("%s_%d", op, m.g.NodeIDs()), Attrs: attrs, Inputs: in}
	for i := range outputs {
		spec.Outputs = append(spec.Outputs, fmt.Sprintf("%s_%d", spec.Name, i))
	}
	return m.add(spec)
}

// classical adds a node of domain ai.onnx.ml of one operand and one result.
func (m *model) classical(op string, x *graph.Value, attrs ...graph.Attr) *graph.Value {
	GinkgoHelper()
	m.g.Opsets["ai.onnx.ml"] = 3
	name := fmt.Sprintf("%s_%d", op, m.g.NodeIDs())
	out := m.add(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: op}, Name: name, Attrs: attrs, Inputs: []*graph.Value{x}, Outputs: []string{name}})
	Expect(m.err).NotTo(HaveOccurred())
	return out[0]
}

func (m *model) add(spec graph.NodeSpec) []*graph.Value {
	n := m.g.AddNode(spec)
	var out []tensor.Value
	if m.err = graph.InferNode(n); m.err == nil {
		values := make([]tensor.Value, len(n.Inputs))
		for i, v := range n.Inputs {
			if v != nil {
				values[i] = m.known[v]
			}
		}
		out, m.err = reference.Evaluate(context.Background(), n, values)
	}
	if m.err != nil {
		m.g.Remove(n)
		return nil
	}
	for i, v := range n.Outputs {
		if v != nil {
			m.known[v] = out[i].(*tensor.Tensor)
		}
	}
	return n.Outputs
}

// op adds a node with one output.
func (m *model) op(name string, in ...any) *graph.Value {
	GinkgoHelper()
	return m.ops(name, 1, in...)[0]
}

// ops adds a node; operands are values (nil omits one), attributes follow.
func (m *model) ops(name string, outputs int, in ...any) []*graph.Value {
	GinkgoHelper()
	var values []*graph.Value
	var attrs []graph.Attr
	for _, x := range in {
		switch x := x.(type) {
		case nil:
			values = append(values, nil)
		case *graph.Value:
			values = append(values, x)
		case graph.Attr:
			attrs = append(attrs, x)
		default:
			Fail(fmt.Sprintf("operand %v of %s", x, name))
		}
	}
	out := m.try(name, outputs, values, attrs...)
	Expect(m.err).NotTo(HaveOccurred(), "%s of the reference kernels", name)
	return out
}

// way is how a model is run.
type way struct {
	target  isa.Target
	guarded bool
	side    guard.Side
	threads int
	strict  bool   // cpu has to run every node
	refuse  int    // one node in so many is not the backend's; 0: none
	second  bool   // a second instance of the backend takes half of the nodes
	formats uint64 // seed of formats between operators; 0: those that cost least
}

func (w way) String() string {
	s := fmt.Sprintf("%v, %d threads", w.target, w.threads)
	if w.guarded {
		s += fmt.Sprintf(", guarded at %d", w.side)
	}
	if w.refuse > 0 {
		s += fmt.Sprintf(", one node in %d refused", w.refuse)
	}
	if w.second {
		s += ", two instances"
	}
	if w.formats != 0 {
		s += fmt.Sprintf(", formats %d", w.formats)
	}
	return s
}

// ways returns every way: all instruction sets, as usual and with guard pages on either side.
func ways(strict bool) []way {
	var out []way
	for _, t := range isa.Targets() {
		out = append(out, way{target: t, threads: 2, strict: strict}, way{target: t, guarded: true, threads: 1, strict: strict},
			way{target: t, guarded: true, side: guard.Start, threads: 1, strict: strict})
		if t.Int8Tiles() {
			out = append(out, way{target: t.WithoutTiles(), threads: 2, strict: strict})
		}
	}
	return out
}

// run compiles the graph and runs it, twice in one program, and compares the outputs with the reference kernels'.
func (m *model) run(w way) error {
	options := map[string]string{"isa": w.target.String()}
	if !w.target.Int8Tiles() {
		options["amx"] = "off"
	}
	maps.Copy(options, m.options)
	b, err := cpu.Open(backend.Config{Name: "cpu", Options: options})
	if err != nil {
		return err
	}
	if m.cache > 0 {
		b = cpu.WithCache(b, 2, m.cache)
	}
	if m.last > 0 {
		b = cpu.WithCache(b, 3, m.last)
	}
	if w.formats != 0 {
		b = backendtest.Scramble(b, w.formats)
	}
	wrapped := &guardedBackend{Backend: b, name: "cpu", side: w.side, on: w.guarded}
	if w.refuse > 0 {
		wrapped.accept = func(node string) bool { return hash(node)%uint32(w.refuse) != 0 }
	}
	o := &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Open: map[string]backend.Backend{"cpu": wrapped},
		Strict: w.strict, Threads: w.threads, Verify: true}
	other := &guardedBackend{Backend: b, name: "other", side: w.side, on: w.guarded, accept: func(node string) bool { return hash(node)/7%2 == 0 }}
	if w.second {
		o.Backends = []backend.Config{{Name: "other"}, {Name: "cpu"}}
		o.Open["other"] = other
	}
	cm := carve.FromGraph(m.g)
	defer cm.Close()
	ctx := context.Background()
	p, err := carve.Compile(ctx, cm, o)
	if err != nil {
		return err
	}
	defer p.Close()
	for range 2 { // the second run finds memory that was used
		got, err := p.Run(ctx, m.feeds)
		m.steps = wrapped.steps
		if err := errors.Join(errors.Join(wrapped.faults...), errors.Join(other.faults...), err); err != nil {
			return err
		}
		if m.judge != nil {
			if why := m.judge(got); why != "" {
				return errors.New(why)
			}
			continue
		}
		for _, v := range m.g.Outputs {
			if err := differ(got[v.Name].(*tensor.Tensor), m.known[v]); err != nil {
				return fmt.Errorf("output %s: %w", v.Name, err)
			}
		}
	}
	return nil
}

// allocations returns how many times a run on one thread that makes the outputs allocates memory of Go's heap.
func (m *model) allocations(ctx context.Context, outputs ...*graph.Value) (n float64) {
	GinkgoHelper()
	m.g.SetOutputs(outputs...)
	cm := carve.FromGraph(m.g)
	defer cm.Close()
	p, err := carve.Compile(ctx, cm, &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Threads: 1, Strict: true})
	Expect(err).NotTo(HaveOccurred())
	defer p.Close()
	var in, outs []*tensor.Tensor
	for _, port := range p.Inputs() {
		in = append(in, m.feeds[port.Name].(*tensor.Tensor))
	}
	for _, v := range outputs {
		out, err := tensor.New(v.Type.DType, m.known[v].Shape...)
		Expect(err).NotTo(HaveOccurred())
		outs = append(outs, out)
	}
	Expect(p.RunInto(ctx, in, outs)).To(Succeed())
	n = 1
	for try := 0; n > 0 && try < 3; try++ { // what earlier specs left behind may be cleaned up meanwhile
		n = testing.AllocsPerRun(20, func() { err = errors.Join(err, p.RunInto(ctx, in, outs)) })
	}
	Expect(err).NotTo(HaveOccurred())
	return n
}

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return h.Sum32()
}

// check makes values the graph's outputs and compares them, every way, with cpu running every node.
func (m *model) check(outputs ...*graph.Value) {
	GinkgoHelper()
	m.g.SetOutputs(outputs...)
	for _, w := range ways(true) {
		Expect(m.run(w)).To(Succeed(), "seed %d, %v\n%v", m.seed, w, m)
	}
}

// String prints the graph without long constants.
func (m *model) String() string {
	s := m.g.String()
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if len(l) > 300 {
			lines[i] = l[:120] + "…" + l[len(l)-40:]
		}
	}
	return strings.Join(lines, "\n")
}

// differ returns an error where two tensors differ: floats by more than 1e-4 of the standard deviation of want (or, where
// that is less than the mean's size, 1e-5 of that), others at all.
func differ(got, want *tensor.Tensor) error {
	if got.DType != want.DType || fmt.Sprint(got.Shape) != fmt.Sprint(want.Shape) {
		return fmt.Errorf("%v %v instead of %v %v", got.DType, got.Shape, want.DType, want.Shape)
	}
	if want.DType == tensor.String {
		if d := cmp.Diff(want.Strings[:want.Len()], got.Strings); d != "" {
			return fmt.Errorf("other strings: %s", d)
		}
		return nil
	}
	if !want.DType.IsFloat() {
		if string(got.Bytes()) != string(want.Bytes()) {
			return fmt.Errorf("%v instead of %v", describe(got), describe(want))
		}
		return nil
	}
	a, b := make([]float64, got.Len()), make([]float64, want.Len())
	if err := errors.Join(tensor.Decode(a, got), tensor.Decode(b, want)); err != nil {
		return err
	}
	limit := tolerance(b)
	for i, x := range a {
		y := b[i]
		if x == y || math.IsNaN(x) && math.IsNaN(y) {
			continue
		}
		if d := math.Abs(x - y); !(d <= limit) {
			return fmt.Errorf("%g instead of %g at %d of %v, tolerance %g", x, y, i, want.Shape, limit)
		}
	}
	return nil
}

// tolerance returns the greatest difference admitted to values like these.
func tolerance(v []float64) float64 {
	n, sum, squares := 0.0, 0.0, 0.0
	for _, x := range v {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			n, sum, squares = n+1, sum+x, squares+x*x
		}
	}
	if n == 0 {
		return 0
	}
	mean := sum / n
	return 1e-4*math.Sqrt(max(0, squares/n-mean*mean)) + 1e-5*math.Abs(mean) + 1e-7
}

func describe(t *tensor.Tensor) string {
	v := make([]float64, t.Len())
	if err := tensor.Decode(v, t); err != nil {
		return err.Error()
	}
	return fmt.Sprint(v[:min(len(v), 40)])
}

// Attributes in short.
func pads(v ...int64) graph.Attr      { return graph.IntsAttr("pads", v...) }
func strides(v ...int64) graph.Attr   { return graph.IntsAttr("strides", v...) }
func dilations(v ...int64) graph.Attr { return graph.IntsAttr("dilations", v...) }
func kernel(v ...int64) graph.Attr    { return graph.IntsAttr("kernel_shape", v...) }
func group(n int) graph.Attr          { return graph.IntAttr("group", int64(n)) }
func axis(a int) graph.Attr           { return graph.IntAttr("axis", int64(a)) }

// sample is check in two ways only: as usual, and a guarded one that the seed chooses.
func (m *model) sample(outputs ...*graph.Value) {
	GinkgoHelper()
	m.g.SetOutputs(outputs...)
	all := ways(true)
	for _, w := range []way{{target: isa.Host(), threads: 2, strict: true}, all[m.r.IntN(len(all)/3)*3+1+m.r.IntN(2)]} {
		Expect(m.run(w)).To(Succeed(), "seed %d, %v\n%v", m.seed, w, m)
	}
}

// seedShare says that specs try one random model in so many: the race detector's share, or that of processors that are emulated.
var seedShare = max(detectorShare, testshare.Share)

// seeds calls a spec with models of n seeds, or of a part of them (seedShare).
func seeds(n int, fn func(m *model)) func() {
	return func() {
		for s := range max(n/seedShare, 1) {
			fn(newModel(uint64(s)))
		}
	}
}

// pick returns one of the values.
func pick[T any](m *model, of ...T) T { return of[m.r.IntN(len(of))] }

// between returns a number from lo to hi, both included.
func (m *model) between(lo, hi int) int { return lo + m.r.IntN(hi-lo+1) }

// chance is true once in n times.
func (m *model) chance(n int) bool { return m.r.IntN(n) == 0 }
