package cpu_test

import (
	"context"
	"errors"
	"fmt"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
)

// halfTypes are the types of half precision, with the greatest relative error of a rounding to them.
var halfTypes = map[tensor.DType]float64{tensor.Float16: 1.0 / (1 << 11), tensor.BFloat16: 1.0 / (1 << 8)}

// as returns a float32 tensor as another type, and then as float32 again where back is set; others as they are.
func as(t *tensor.Tensor, dt tensor.DType, back bool) *tensor.Tensor {
	GinkgoHelper()
	if t.DType != tensor.Float32 {
		return t
	}
	out, err := tensor.Convert(t, dt, nil)
	Expect(err).NotTo(HaveOccurred())
	if back {
		out, err = tensor.Convert(out, tensor.Float32, nil)
		Expect(err).NotTo(HaveOccurred())
	}
	return out
}

// half returns a copy of the model with everything of float32 but scales of sizes, and casts to it, in half precision; where back is set,
// it stays float32 with the contents of inputs and constants rounded.
func (m *model) half(dt tensor.DType, back bool) (*graph.Graph, map[string]tensor.Value) {
	GinkgoHelper()
	g, err := m.g.Clone()
	Expect(err).NotTo(HaveOccurred())
	feeds := map[string]tensor.Value{}
	for _, v := range g.Inputs {
		t := as(m.feeds[v.Name].(*tensor.Tensor), dt, back)
		v.Type.DType, feeds[v.Name] = t.DType, t
	}
	scales := map[*graph.Value]bool{}
	for n := range g.Nodes() {
		if n.Is("Resize") {
			scales[n.Input(2)] = true
		}
	}
	for v := range g.Constants() {
		if v.Const != nil && !scales[v] {
			v.Const = as(v.Const, dt, back)
			v.Type.DType = v.Const.DType
		}
	}
	for n := range g.Nodes() {
		if n.Is("Cast") && !back {
			n.Attrs = n.Attrs.With(to(dt))
		}
		for _, v := range n.Outputs {
			if v != nil {
				v.Type = graph.Type{}
			}
		}
	}
	Expect(graph.InferGraph(g)).To(Succeed())
	return g, feeds
}

// execute compiles a graph, verified after every pass, and runs it.
func execute(g *graph.Graph, feeds map[string]tensor.Value, o *carve.Options) (map[string]tensor.Value, *carve.Report, error) {
	ctx := context.Background()
	m := carve.FromGraph(g)
	defer m.Close()
	o.Verify = true
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

func mustExecute(g *graph.Graph, feeds map[string]tensor.Value, o *carve.Options) (map[string]tensor.Value, *carve.Report) {
	GinkgoHelper()
	out, r, err := execute(g, feeds, o)
	Expect(err).NotTo(HaveOccurred())
	return out, r
}

// referenceAlone are options for the reference kernels.
func referenceAlone() *carve.Options {
	return &carve.Options{Backends: []backend.Config{{Name: "reference"}}}
}

// near returns an error where a result of half precision differs from one of float32 by more than so many of its own
// roundings and what differ admits.
func near(got, want *tensor.Tensor, roundings float64) error {
	if !want.DType.IsFloat() {
		return differ(got, want)
	}
	if fmt.Sprint(got.Shape) != fmt.Sprint(want.Shape) {
		return fmt.Errorf("%v instead of %v", got.Shape, want.Shape)
	}
	a, b := make([]float64, got.Len()), make([]float64, want.Len())
	if err := errors.Join(tensor.Decode(a, got), tensor.Decode(b, want)); err != nil {
		return err
	}
	limit := tolerance(b)
	for i, x := range a {
		y := b[i]
		if d := math.Abs(x - y); x != y && !(d <= limit+roundings*halfTypes[got.DType]*math.Abs(y)) && !(math.IsNaN(x) && math.IsNaN(y)) {
			return fmt.Errorf("%g instead of %g at %d of %v", x, y, i, want.Shape)
		}
	}
	return nil
}

// halfGraph grows a random graph in a type of half precision, and what the reference kernels make of it in float32, rounded
// at inputs and constants alone.
func halfGraph(seed uint64, dt tensor.DType) (*randomGraph, *graph.Graph, map[string]tensor.Value, map[string]tensor.Value) {
	GinkgoHelper()
	r := newRandomGraph(seed)
	r.grow(r.between(3, 20))
	if len(r.g.Outputs) == 0 {
		return r, nil, nil, nil
	}
	wide, feeds := r.half(dt, true)
	want, _ := mustExecute(wide, feeds, referenceAlone())
	g, feeds := r.half(dt, false)
	return r, g, feeds, want
}

// casts returns how many nodes of that operator the groups of cpu have, and the nodes of the model that others have.
func casts(r *carve.Report) (n int, elsewhere []string) {
	for _, g := range r.Groups {
		if g.Backend != "cpu" {
			elsewhere = append(elsewhere, g.Nodes...)
		}
		for _, op := range g.Ops {
			if op == "Cast" {
				n++
			}
		}
	}
	return n, elsewhere
}

var _ = Describe("half precision", func() {
	for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		It("is rounded at the outputs alone in random graphs of "+dt.Name(), func() {
			for seed := range uint64(120) {
				r, g, feeds, want := halfGraph(seed, dt)
				if g == nil {
					continue
				}
				got, report := mustExecute(g, feeds, &carve.Options{Threads: 1 + int(seed%2)})
				_, elsewhere := casts(report)
				Expect(elsewhere).To(BeEmpty(), "seed %d\n%v", seed, r.model)
				for _, v := range g.Outputs {
					t := got[v.Name].(*tensor.Tensor)
					Expect(t.DType).To(Equal(v.Type.DType))
					Expect(near(t, want[v.Name].(*tensor.Tensor), 1.01)).To(Succeed(), "seed %d, output %s\n%v", seed, v.Name, r.model)
				}
			}
		})

		It("agrees with the reference kernels where others have some of the nodes of "+dt.Name(), func() {
			for seed := range uint64(60) {
				r, g, feeds, _ := halfGraph(seed, dt)
				if g == nil {
					continue
				}
				want, _ := mustExecute(g, feeds, referenceAlone())
				o := &carve.Options{}
				for n := range g.Nodes() {
					if hash(n.Name)%3 == 0 {
						o.Pins = append(o.Pins, partition.Pin{Node: n.Name, Backend: "reference"})
					}
				}
				got, _ := mustExecute(g, feeds, o)
				for _, v := range g.Outputs {
					x, y := got[v.Name].(*tensor.Tensor), want[v.Name].(*tensor.Tensor)
					Expect(x.DType).To(Equal(y.DType))
					Expect(alike(x, y)).To(Succeed(), "seed %d, output %s\n%v", seed, v.Name, r.model)
				}
			}
		})

		It("is float32 within a convolutional network of "+dt.Name(), func() {
			m := newModel(1)
			x := m.input(2, 3, 12, 12)
			y := m.op("Relu", m.op("BatchNormalization", m.op("Conv", x, m.scaled(0.2, 16, 3, 3, 3), pads(1, 1, 1, 1)), m.constant(16), m.constant(16), m.constant(16),
				m.data(positive(m, 16))))
			z := m.op("Conv", y, m.scaled(0.1, 16, 16, 3, 3), m.constant(16), pads(1, 1, 1, 1))
			y = m.op("MaxPool", m.op("Relu", m.op("Add", y, z)), kernel(2, 2), strides(2, 2))
			y = m.op("Flatten", m.op("GlobalAveragePool", m.op("Clip", y, m.scalar(0), m.scalar(6))))
			y = m.op("Softmax", m.op("Gemm", y, m.constant(10, 16), m.constant(10), graph.IntAttr("transB", 1)))
			m.withinFloat32(dt, 2, y)
		})

		It("is float32 within a transformer block of "+dt.Name(), func() {
			m := newModel(2)
			const rows, width, heads = 7, 32, 4
			table, ids := m.constant(50, width), m.feed(tensor.From([]int64{3, 1, 49, 0, 7, 7, 12}, 1, rows))
			mask := m.feed(tensor.From([]int64{1, 1, 1, 1, 1, 0, 0}, 1, rows))
			x := m.op("Gather", table, ids)
			x = m.op("LayerNormalization", x, m.constant(width), m.constant(width))
			split := func(v *graph.Value, perm ...int64) *graph.Value {
				v = m.op("Add", m.op("MatMul", v, m.scaled(0.2, width, width)), m.constant(width))
				return m.op("Transpose", m.op("Reshape", v, m.ints(0, 0, heads, width/heads)), graph.IntsAttr("perm", perm...))
			}
			scores := m.op("Div", m.op("MatMul", split(x, 0, 2, 1, 3), split(x, 0, 2, 3, 1)), m.scalar(math.Sqrt2*2))
			off := m.op("Mul", m.op("Sub", m.scalar(1), m.op("Unsqueeze", m.op("Cast", mask, to(tensor.Float32)), m.ints(1, 2))), m.scalar(-1000))
			y := m.op("MatMul", m.op("Softmax", m.op("Add", scores, off)), split(x, 0, 2, 1, 3))
			y = m.op("Reshape", m.op("Transpose", y, graph.IntsAttr("perm", 0, 2, 1, 3)), m.ints(0, 0, width))
			y = m.op("LayerNormalization", m.op("Add", x, y), m.constant(width), m.constant(width))
			h := m.op("MatMul", y, m.scaled(0.2, width, 2*width))
			h = m.op("Mul", m.op("Mul", h, m.op("Add", m.op("Erf", m.op("Div", h, m.scalar(math.Sqrt2))), m.scalar(1))), m.scalar(0.5))
			y = m.op("Add", y, m.op("MatMul", h, m.scaled(0.2, 2*width, width)))
			m.withinFloat32(dt, 4, y) // of the rows of the table, of the mask in half precision and then in float32, and of the result
		})
	}

	It("of the model's own casts rounds", func() {
		m := newModel(3)
		x := m.feed(tensor.From([]float32{1 + 1.0/(1<<12), 3 + 1.0/(1<<20), 70000, -1e-9}, 4))
		h := m.op("Cast", x, to(tensor.Float16))
		y := m.op("Cast", m.op("Neg", m.op("Neg", h)), to(tensor.Float32))
		z := m.op("Cast", m.op("Cast", x, to(tensor.BFloat16)), to(tensor.Float32))
		m.check(h, y, z)
		out, _ := mustExecute(m.g, m.feeds, &carve.Options{})
		Expect(tensor.Elements[float32](out[y.Name].(*tensor.Tensor))).To(Equal([]float32{1, 3, float32(math.Inf(1)), float32(math.Copysign(0, -1))}))
	})

	It("is what integers are made of", func() {
		// The products are 2⁻¹⁴ of themselves below 1 and 2, which float16 rounds up.
		m := newModel(4)
		half := func(x ...float32) *tensor.Tensor { return as(tensor.From(x, len(x)), tensor.Float16, false) }
		a, b := m.feed(half(1-1.0/128, 2-2.0/128)), m.data(half(1+1.0/128, 1+1.0/128))
		y := m.op("Mul", a, b)
		k := m.op("Cast", y, to(tensor.Int64))
		Expect(tensor.Elements[int64](m.known[k])).To(Equal([]int64{1, 2}))
		m.check(k, y)
	})

	It("stays where the reference kernels have the node, or are alone", func() {
		m := newModel(5)
		y := m.op("Tanh", m.op("Softplus", m.op("Mul", m.input(4, 5), m.constant(5))))
		m.g.SetOutputs(y)
		g, feeds := m.half(tensor.Float16, false)
		want, r := mustExecute(g, feeds, referenceAlone())
		n, elsewhere := casts(r)
		Expect(n).To(BeZero())
		Expect(elsewhere).To(HaveLen(3))
		got, r := mustExecute(g, feeds, &carve.Options{Pins: []partition.Pin{{Backend: "cpu", Exclude: true}}})
		n, elsewhere = casts(r)
		Expect(n).To(BeZero())
		Expect(elsewhere).To(HaveLen(3))
		Expect(differ(got[y.Name].(*tensor.Tensor), want[y.Name].(*tensor.Tensor))).To(Succeed())
		_, r = mustExecute(g, feeds, &carve.Options{Pins: []partition.Pin{{Op: "Softplus", Backend: "reference"}}})
		n, elsewhere = casts(r)
		Expect(elsewhere).To(Equal([]string{m.g.Outputs[0].Producer.Inputs[0].Producer.Name}))
		Expect(n).To(Equal(2)) // of the product: the hyperbolic tangent goes over rows of half precision
		where, _, found := r.Why(m.g.Outputs[0].Producer.Name)
		Expect(found).To(BeTrue())
		Expect(where).To(Equal("cpu"))
	})

	It("leaves operators of ONNX Runtime's what they are, where cpu has a kernel for them in float32", seeds(12, func(m *model) {
		m.g.Opsets[microsoft.Domain] = 1
		bits, block := pick(m, 2, 4, 4, 8), pick(m, 16, 32, 128)
		k, n := block*m.between(1, 3), pick(m, 5, 16, 70)
		w, s := weightsInBlocks(m, bits, k, []int{n, k / block, block * bits / 8}, n, k/block)
		y := m.add(graph.NodeSpec{Op: graph.Op{Domain: microsoft.Domain, Name: "MatMulNBits"}, Name: "node", Inputs: []*graph.Value{m.input(pick(m, 1, 9), k), w, s}, Outputs: []string{"y"},
			Attrs: []graph.Attr{graph.IntAttr("K", int64(k)), graph.IntAttr("N", int64(n)), graph.IntAttr("bits", int64(bits)), graph.IntAttr("block_size", int64(block))}})[0]
		Expect(m.err).NotTo(HaveOccurred())
		m.g.SetOutputs(y)
		for dt := range halfTypes {
			wide, feeds := m.half(dt, true)
			want, _ := mustExecute(wide, feeds, referenceAlone())
			g, feeds := m.half(dt, false)
			got, r := mustExecute(g, feeds, &carve.Options{Strict: true})
			Expect(r.Groups).To(ContainElement(HaveField("Ops", ContainElement("com.microsoft.MatMulNBits"))), "seed %d", m.seed)
			Expect(near(got["y"].(*tensor.Tensor), want["y"].(*tensor.Tensor), 1.01)).To(Succeed(), "seed %d", m.seed)
		}
	}))

	It("needs no cast to be asked whether it is a number, in its own type or where it was computed", seeds(12, func(m *model) {
		x := m.input(m.between(1, 200))
		asked := []*graph.Value{m.op("IsNaN", m.op("Sqrt", x)), m.op("IsInf", m.op("Reciprocal", m.op("Relu", x)), graph.IntAttr("detect_negative", int64(m.between(0, 1))))}
		number := 1 // of what Sqrt and Reciprocal read
		if m.chance(2) {
			x = m.feed(tensor.From([]float32{0, 1, -1, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 65504, 1e-7}, 8))
			asked, number = []*graph.Value{m.op("IsNaN", x), m.op("IsInf", x), m.op("IsInf", x, graph.IntAttr("detect_positive", 0))}, 0
		}
		m.g.SetOutputs(asked...)
		g, feeds := m.half(pick(m, tensor.Float16, tensor.BFloat16), false)
		want, _ := mustExecute(g, feeds, referenceAlone())
		got, r := mustExecute(g, feeds, &carve.Options{Strict: true})
		n, elsewhere := casts(r)
		Expect(n).To(Equal(number))
		Expect(elsewhere).To(BeEmpty())
		for _, v := range asked {
			Expect(got[v.Name].(*tensor.Tensor).Bytes()).To(Equal(want[v.Name].(*tensor.Tensor).Bytes()), "seed %d", m.seed)
		}
	}))

	It("needs no cast of what is moved alone", func() {
		m := newModel(6)
		x := m.input(2, 6)
		y := m.op("Transpose", m.op("Reshape", x, m.ints(2, 2, 3)), graph.IntsAttr("perm", 0, 2, 1))
		m.g.SetOutputs(y)
		g, feeds := m.half(tensor.BFloat16, false)
		want, _ := mustExecute(g, feeds, referenceAlone())
		got, r := mustExecute(g, feeds, &carve.Options{Strict: true})
		n, elsewhere := casts(r)
		Expect(n).To(BeZero())
		Expect(elsewhere).To(BeEmpty())
		Expect(got[y.Name].(*tensor.Tensor).Bytes()).To(Equal(want[y.Name].(*tensor.Tensor).Bytes()))
	})
})

// withinFloat32 checks that cpu has all nodes of the model in half precision, with so many casts, and rounds at the outputs
// alone; Options.Strict leaves it no other backend.
func (m *model) withinFloat32(dt tensor.DType, want int, outputs ...*graph.Value) {
	GinkgoHelper()
	m.g.SetOutputs(outputs...)
	wide, feeds := m.half(dt, true)
	exact, _ := mustExecute(wide, feeds, referenceAlone())
	g, feeds := m.half(dt, false)
	got, r := mustExecute(g, feeds, &carve.Options{Strict: true})
	n, elsewhere := casts(r)
	Expect(n).To(Equal(want))
	Expect(elsewhere).To(BeEmpty())
	var names []string
	for _, g := range r.Groups {
		names = append(names, g.Nodes...)
	}
	for _, f := range r.Folded {
		names = append(names, f.Node)
	}
	var all []string
	for n := range g.Nodes() {
		all = append(all, n.Name)
	}
	Expect(names).To(ConsistOf(all))
	for _, v := range outputs {
		Expect(got[v.Name].(*tensor.Tensor).DType).To(Equal(dt))
		Expect(near(got[v.Name].(*tensor.Tensor), exact[v.Name].(*tensor.Tensor), 1.01)).To(Succeed())
	}
	rounded, _ := mustExecute(g, feeds, referenceAlone())
	for _, v := range outputs {
		Expect(alike(got[v.Name].(*tensor.Tensor), rounded[v.Name].(*tensor.Tensor))).To(Succeed())
	}
}

// alike returns an error where two results of half precision, computed with other roundings on the way, differ by more than
// 24 roundings of the largest number.
func alike(got, want *tensor.Tensor) error {
	if !want.DType.IsFloat() {
		return differ(got, want)
	}
	a, b := make([]float64, got.Len()), make([]float64, want.Len())
	if err := errors.Join(tensor.Decode(a, got), tensor.Decode(b, want)); err != nil {
		return err
	}
	most := 0.0
	for _, y := range b {
		most = max(most, math.Abs(y))
	}
	limit := 24 * halfTypes[got.DType] * most
	for i, x := range a {
		if d := math.Abs(x - b[i]); x != b[i] && !(d <= limit) {
			return fmt.Errorf("%g instead of %g at %d of %v, tolerance %g", x, b[i], i, want.Shape, limit)
		}
	}
	return nil
}

// positive returns n numbers above zero.
func positive(m *model, n int) *tensor.Tensor {
	t := m.floats(n)
	for i, s := 0, tensor.Of[float32](t); i < n; i++ {
		s[i] = s[i]*s[i] + 0.1
	}
	return t
}
