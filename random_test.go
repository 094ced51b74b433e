package carve_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/testshare"
	"github.com/carve-dev/carve/property"
)

// randomNet makes small convolutional networks on images [N, C, H, W].
type randomNet struct {
	rng    *rand.Rand
	g      *graph.Graph
	images []image // values made so far
	names  int
}

// image is a value [N, c, h, w].
type image struct {
	v       *graph.Value
	c, h, w int
}

func newRandomNet(seed uint64) *randomNet {
	r := &randomNet{rng: rand.New(rand.NewPCG(seed, 11)), g: graph.New("random")}
	r.g.Opsets[""] = 17
	c, h, w := 1+r.rng.IntN(20), 4+r.rng.IntN(9), 4+r.rng.IntN(9)
	for i := range 1 + r.rng.IntN(2) {
		shape := graph.Shape{graph.Sym("N"), graph.D(c), graph.D(h), graph.D(w)}
		r.images = append(r.images, image{r.g.AddInput(fmt.Sprint("x", i), graph.TensorType(tensor.Float32, shape)), c, h, w})
	}
	var outputs []*graph.Value
	for n := 2 + r.rng.IntN(18); r.g.NumNodes() < n; {
		if out := r.step(); out != nil {
			outputs = append(outputs, out)
		}
	}
	for _, m := range r.images {
		if m.v.NumUses() == 0 || r.rng.IntN(12) == 0 {
			outputs = append(outputs, m.v)
		}
	}
	r.g.SetOutputs(outputs...)
	return r
}

func (r *randomNet) pick() image { return r.images[max(0, len(r.images)-1-r.rng.IntN(5))] }

// alike returns an image of the size of m, itself where there is no other.
func (r *randomNet) alike(m image) *graph.Value {
	for range 8 {
		if o := r.images[r.rng.IntN(len(r.images))]; o.c == m.c && o.h == m.h && o.w == m.w {
			return o.v
		}
	}
	return m.v
}

func (r *randomNet) constant(scale float64, shape ...int) *graph.Value {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32((r.rng.Float64()*2 - 1) * scale)
	}
	r.names++
	return r.g.AddConst(fmt.Sprint("c", r.names), tensor.From(data, shape...))
}

func (r *randomNet) ints(vs ...int64) *graph.Value {
	r.names++
	return r.g.AddConst(fmt.Sprint("c", r.names), tensor.From(vs, len(vs)))
}

func (r *randomNet) node(op string, attrs []graph.Attr, inputs ...*graph.Value) *graph.Value {
	r.names++
	return r.g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Name: fmt.Sprint("n", r.names), Attrs: attrs, Inputs: inputs,
		Outputs: []string{fmt.Sprint("v", r.names)}}).Outputs[0]
}

func (r *randomNet) keep(v *graph.Value, c, h, w int) { r.images = append(r.images, image{v, c, h, w}) }

// step adds one operator, or a few. It returns a value that is to be an output, if any.
func (r *randomNet) step() *graph.Value {
	m := r.pick()
	same := func(v *graph.Value) { r.keep(v, m.c, m.h, m.w) }
	switch r.rng.IntN(14) {
	case 0, 1, 2:
		same(r.node([]string{"Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "HardSwish", "LeakyRelu"}[r.rng.IntN(8)], nil, m.v))
	case 3, 4:
		same(r.node([]string{"Add", "Mul", "Sub", "Max", "Min"}[r.rng.IntN(5)], nil, m.v, r.alike(m)))
	case 5:
		shape := [][]int{{1, m.c, 1, 1}, {m.c, m.h, m.w}, {1}, {}}[r.rng.IntN(4)]
		same(r.node([]string{"Add", "Mul"}[r.rng.IntN(2)], nil, m.v, r.constant(1, shape...)))
	case 6, 7:
		r.conv(m)
	case 8:
		if m.h < 4 || m.w < 4 {
			return nil
		}
		attrs := []graph.Attr{graph.IntsAttr("kernel_shape", 2, 2), graph.IntsAttr("strides", 2, 2)}
		r.keep(r.node([]string{"MaxPool", "AveragePool"}[r.rng.IntN(2)], attrs, m.v), m.c, m.h/2, m.w/2)
	case 9:
		o := r.images[r.rng.IntN(len(r.images))]
		if o.h == m.h && o.w == m.w && o.c+m.c < 64 {
			r.keep(r.node("Concat", []graph.Attr{graph.IntAttr("axis", 1)}, m.v, o.v), m.c+o.c, m.h, m.w)
		}
	case 10:
		s, b := r.constant(1, m.c), r.constant(1, m.c)
		variance := tensor.From(make([]float32, m.c), m.c)
		for i := range m.c {
			tensor.Of[float32](variance)[i] = 0.5 + r.rng.Float32()
		}
		same(r.node("BatchNormalization", nil, m.v, s, b, r.constant(1, m.c), r.g.AddConst("variance"+fmt.Sprint(r.names), variance)))
	case 11:
		r.keep(r.node("Transpose", []graph.Attr{graph.IntsAttr("perm", 0, 1, 3, 2)}, m.v), m.c, m.w, m.h)
	case 12:
		same(r.node("Softmax", []graph.Attr{graph.IntAttr("axis", int64(1+r.rng.IntN(3)))}, m.v))
	default:
		switch r.rng.IntN(3) {
		case 0:
			flat := r.node("Flatten", []graph.Attr{graph.IntAttr("axis", 1)}, r.node("GlobalAveragePool", nil, m.v))
			return r.node("MatMul", nil, flat, r.constant(1, m.c, 5))
		case 1:
			return r.node("ReduceSum", []graph.Attr{graph.IntAttr("keepdims", 0)}, m.v, r.ints(2))
		default:
			flat := r.node("Reshape", nil, m.v, r.ints(0, int64(m.c), -1))
			r.keep(r.node("Reshape", nil, r.node("Relu", nil, flat), r.ints(0, int64(m.c), int64(m.h), int64(m.w))), m.c, m.h, m.w)
		}
	}
	return nil
}

func (r *randomNet) conv(m image) {
	k, stride, groups, oc := 1+2*r.rng.IntN(2), 1+r.rng.IntN(2), 1, 1+r.rng.IntN(24)
	if r.rng.IntN(4) == 0 {
		groups, oc = m.c, m.c
	}
	p := int64(k / 2)
	in := []*graph.Value{m.v, r.constant(1/math.Sqrt(float64(m.c/groups*k*k)), oc, m.c/groups, k, k)}
	if r.rng.IntN(2) == 0 {
		in = append(in, r.constant(1, oc))
	}
	v := r.node("Conv", []graph.Attr{graph.IntAttr("group", int64(groups)), graph.IntsAttr("pads", p, p, p, p),
		graph.IntsAttr("strides", int64(stride), int64(stride))}, in...)
	r.keep(v, oc, (m.h-1)/stride+1, (m.w-1)/stride+1)
}

// feeds returns inputs for a batch.
func (r *randomNet) feeds(batch int) map[string]tensor.Value {
	out := map[string]tensor.Value{}
	for i, v := range r.g.Inputs {
		m := r.images[i]
		data := make([]float32, batch*m.c*m.h*m.w)
		for k := range data {
			data[k] = r.rng.Float32()*2 - 1
		}
		out[v.Name] = tensor.From(data, batch, m.c, m.h, m.w)
	}
	return out
}

// turned is a layout that only its backend knows: the elements of a tensor in reverse.
type turned struct {
	format graph.Format
	moves  atomic.Int64
}

func newTurned() *turned {
	l, err := graph.OpaqueLayout("turned", "1", "reverse")
	Expect(err).NotTo(HaveOccurred())
	return &turned{format: graph.On(l)}
}

func (t *turned) converters() []convert.Converter {
	size := func(_ graph.Format, dt tensor.DType, dims []int) (int64, error) {
		return graph.PhysicalSize(graph.HostFormat, dt, dims)
	}
	plan := func(dt tensor.DType, dims []int) (convert.Move, error) {
		n, err := tensor.NumElements(dims)
		if err != nil || dt.Size() == 0 {
			return nil, fmt.Errorf("%w: %v %v", tensor.ErrUnsupported, dt, dims)
		}
		s := dt.Size()
		return func(_ context.Context, dst, src *tensor.Tensor, _ convert.Exec) error {
			t.moves.Add(1)
			to, from := dst.Data[dst.Offset:], src.Data[src.Offset:]
			for i := range n {
				copy(to[i*s:(i+1)*s], from[(n-1-i)*s:(n-i)*s])
			}
			return nil
		}, nil
	}
	cost := convert.Cost{Fixed: 700, PerByte: 0.2}
	return []convert.Converter{
		{Name: "turn", From: graph.HostFormat, To: t.format, Cost: cost, Size: size, Plan: plan},
		{Name: "turn-back", From: t.format, To: graph.HostFormat, Cost: cost, Size: size, Plan: plan},
	}
}

// layered returns options with the reference backend under three names, each with a layout of its own, and at random who
// takes which node. Borders that properties set cut the groups further.
func layered(rng *rand.Rand, t *turned) *carve.Options {
	ranked := func(l graph.Layout) func(graph.Type) graph.Layout {
		return func(t graph.Type) graph.Layout {
			if len(t.Shape) == 4 {
				return l
			}
			return graph.RowMajor
		}
	}
	list := []*reference.Backend{
		{Name: "plain"},
		{Name: "nhwc", Layout: ranked(graph.NHWC)},
		{Name: "turned", Layout: func(graph.Type) graph.Layout { return t.format.Layout }, Own: t.converters()},
	}
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	o := &carve.Options{Strict: true, Verify: true, Open: map[string]backend.Backend{}, Properties: map[string][]property.SubgraphProperty{},
		Placement: []carve.Placement{carve.Priority, carve.Modelled}[rng.IntN(2)]}
	for i, b := range list {
		if i < len(list)-1 {
			salt, share := rng.Uint64(), uint64(30+rng.IntN(40))
			b.Accept = func(n *graph.Node) bool {
				h := salt
				for _, c := range n.Name {
					h = (h ^ uint64(c)) * 0x100000001b3
				}
				return h>>33%100 < share
			}
		}
		o.Backends = append(o.Backends, backend.Config{Name: b.Name})
		o.Open[b.Name] = b
		if rng.IntN(3) == 0 {
			o.Properties[b.Name] = []property.SubgraphProperty{property.WithKind(property.Bounding, property.Limit(
				property.Nodes("pieces", property.Not(property.Ops("Reshape"))), property.Bounds{Max: 1 + rng.IntN(4)}))}
		}
	}
	return o
}

// compute compiles and runs a model. It closes the program.
func compute(ctx context.Context, m *carve.Model, o *carve.Options, feeds map[string]tensor.Value) (map[string]tensor.Value, *carve.Report, error) {
	p, err := carve.Compile(ctx, m, o)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	out, err := p.Run(ctx, feeds)
	if err != nil {
		return nil, nil, err
	}
	r, err := p.Report(ctx, nil)
	return out, r, err
}

// far returns how far two tensors are apart, as a share of what is tolerated: a thousandth of the value and a ten-thousandth
// of the standard deviation.
func far(got, want *tensor.Tensor) float64 {
	a, b := tensor.Of[float32](got), tensor.Of[float32](want)
	if len(a) != len(b) {
		return math.Inf(1)
	}
	sum, squares := 0.0, 0.0
	for _, x := range b {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	n := float64(max(len(b), 1))
	deviation := math.Sqrt(max(squares/n-sum/n*sum/n, 0))
	worst := 0.0
	for i := range b {
		if a[i] == b[i] || a[i] != a[i] && b[i] != b[i] {
			continue
		}
		d := math.Abs(float64(a[i])-float64(b[i])) / (1e-3*math.Abs(float64(b[i])) + 1e-4*deviation + 1e-6)
		if !(d < worst) {
			worst = d
		}
	}
	return worst
}

// runRandom computes random models whole and carved.
func runRandom(ctx context.Context, from, to uint64) {
	GinkgoHelper()
	var groups, conversions, inside, constants int
	turn := newTurned()
	for seed := from; seed < to; seed++ {
		r := newRandomNet(seed)
		text := r.g.String()
		feeds := r.feeds(1 + r.rng.IntN(3))
		m := carve.FromGraph(r.g)
		fail := func(what string, err any) {
			GinkgoHelper()
			Fail(fmt.Sprintf("seed %d: %s: %v\n%s", seed, what, err, text))
		}
		whole, _, err := compute(ctx, m, &carve.Options{Backends: onReference, Strict: true}, feeds)
		if err != nil {
			fail("unpartitioned", err)
		}
		carved, report, err := compute(ctx, m, layered(r.rng, turn), feeds)
		if err != nil {
			fail("carved", err)
		}
		groups += len(report.Groups)
		for _, c := range report.Conversions {
			switch {
			case c.Constant:
				constants++
			case c.Group != nil:
				inside++
			default:
				conversions++
			}
		}
		fast, _, err := compute(ctx, m, nil, feeds)
		if err != nil {
			fail("on cpu", err)
		}
		for _, v := range r.g.Outputs {
			name := v.Name
			if bits(carved[name]) != bits(whole[name]) {
				fail("carved", "output "+name+" has other bits")
			}
			if d := far(fast[name].(*tensor.Tensor), whole[name].(*tensor.Tensor)); d > 1 {
				fail("on cpu", fmt.Sprintf("output %s is %.1f tolerances away", name, d))
			}
		}
		m.Close()
	}
	n := int(to - from)
	AddReportEntry("random models", fmt.Sprintf("%d models: %d groups, %d conversions between groups, %d inside, %d of constants, %d moves of the opaque layout",
		n, groups, conversions, inside, constants, turn.moves.Load()))
	for _, k := range []int{groups / 3, conversions / 3, constants, int(turn.moves.Load())} {
		Expect(k).To(BeNumerically(">", n/2)) // they were worth it
	}
}

var _ = Describe("Random models", func() {
	It("give the same bits carved as whole, and what cpu gives is near", func(ctx SpecContext) {
		runRandom(ctx, 0, uint64(testshare.Of(200)))
	})

	It("do so in great number", Label("slow"), func(ctx SpecContext) {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes long: -ginkgo.label-filter=slow")
		}
		runRandom(ctx, 200, 10_000)
	})
})
