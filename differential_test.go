package carve_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// network builds a random network of image maps: convolutions, poolings, element-wise operators, residuals, concatenations,
// splits, channel shuffles and gates, with a classifier behind. Any value may be read any number of times, and be an output.
type network struct {
	r    *rand.Rand
	g    *graph.Graph
	maps []*graph.Value // [N, C, H, W]
	rows []*graph.Value // [N, K]
}

func newNetwork(seed uint64, nodes int) *graph.Graph {
	n := &network{r: rand.New(rand.NewPCG(seed, 11)), g: graph.New("net")}
	n.g.Opsets[""] = 17
	h, w := 5+n.r.IntN(12), 5+n.r.IntN(12)
	shape := graph.Shape{graph.Sym("N"), graph.D(1 + n.r.IntN(20)), graph.D(h), graph.D(w)}
	n.maps = append(n.maps, n.g.AddInput("x", graph.TensorType(tensor.Float32, shape)))
	for range nodes {
		n.grow()
	}
	var outs []*graph.Value
	for _, v := range append(n.maps, n.rows...) {
		if v.NumUses() == 0 || n.r.IntN(8) == 0 {
			outs = append(outs, v)
		}
	}
	n.g.SetOutputs(outs...)
	return n.g
}

func (n *network) weights(shape ...int) *graph.Value {
	t, err := tensor.New(tensor.Float32, shape...)
	Expect(err).NotTo(HaveOccurred())
	fan := 1
	for _, d := range shape[1:] {
		fan *= d
	}
	for i, s := 0, tensor.Of[float32](t); i < len(s); i++ {
		s[i] = float32(n.r.NormFloat64() / math.Sqrt(float64(max(fan, 1))))
	}
	return n.g.AddConst(fmt.Sprintf("w%d", n.g.ValueIDs()), t)
}

func (n *network) ints(v ...int64) *graph.Value {
	return n.g.AddConst(fmt.Sprintf("i%d", n.g.ValueIDs()), tensor.From(v))
}

func ints(name string, v ...int64) graph.Attr { return graph.IntsAttr(name, v...) }

// add adds a node, or nothing where the operands do not suit it.
func (n *network) add(op string, outputs int, in []*graph.Value, attrs ...graph.Attr) []*graph.Value {
	spec := graph.NodeSpec{Op: graph.Op{Name: op}, Name: fmt.Sprintf("%s_%d", op, n.g.NodeIDs()), Attrs: attrs, Inputs: in}
	for i := range outputs {
		spec.Outputs = append(spec.Outputs, fmt.Sprintf("%s_%d", spec.Name, i))
	}
	node := n.g.AddNode(spec)
	if graph.InferNode(node) != nil {
		n.g.Remove(node)
		return nil
	}
	return node.Outputs
}

func dim(v *graph.Value, axis int) int {
	d, _ := v.Type.Shape[axis].Const()
	return int(d)
}

func pick[T any](r *rand.Rand, list []T) T {
	return list[max(0, len(list)-1-r.IntN(min(len(list), 4)))]
}

// sameShape returns a map of the shape of v: what v is made of, as in residual networks, another one, or v itself.
func (n *network) sameShape(v *graph.Value) *graph.Value {
	if p := v.Producer; p != nil && n.r.IntN(2) == 0 && p.Inputs[0].Type.Equal(v.Type) {
		return p.Inputs[0]
	}
	for range 4 {
		if u := pick(n.r, n.maps); u.Type.Equal(v.Type) {
			return u
		}
	}
	return v
}

// growRows adds a layer of a classifier: products with residuals, normalisations, activations.
func (n *network) growRows() {
	x := pick(n.r, n.rows)
	k := dim(x, 1)
	var y []*graph.Value
	switch n.r.IntN(5) {
	case 0:
		y = n.add("MatMul", 1, []*graph.Value{x, n.weights(k, k)})
		if n.r.IntN(2) == 0 {
			y = n.add("Add", 1, []*graph.Value{y[0], n.weights(k)})
		}
		y = n.add("Add", 1, []*graph.Value{y[0], x})
	case 1:
		y = n.add("LayerNormalization", 1, []*graph.Value{x, n.weights(k), n.weights(k)})
	case 2:
		y = n.add([]string{"Relu", "Erf", "Tanh"}[n.r.IntN(3)], 1, []*graph.Value{x})
	case 3:
		y = n.add("Gemm", 1, []*graph.Value{x, n.weights(k, k), x})
	case 4:
		y = n.add("Transpose", 1, []*graph.Value{x})
		y = n.add("MatMul", 1, []*graph.Value{x, y[0]}) // [N, N]
		y = n.add("Softmax", 1, y)
		y = n.add("MatMul", 1, []*graph.Value{y[0], x})
	}
	n.rows = append(n.rows, y...)
}

func (n *network) grow() {
	if len(n.rows) > 0 && n.r.IntN(4) == 0 {
		n.growRows()
		return
	}
	x := pick(n.r, n.maps)
	c, h, w := dim(x, 1), dim(x, 2), dim(x, 3)
	one := func(vs []*graph.Value) {
		if len(vs) > 0 {
			n.maps = append(n.maps, vs...)
		}
	}
	unary := []string{"Relu", "Sigmoid", "Tanh", "HardSwish", "Neg", "Exp", "Abs", "LeakyRelu", "Identity"}
	switch n.r.IntN(15) {
	case 0, 1, 2: // convolution, same size
		oc, k := 1+n.r.IntN(40), 1+2*n.r.IntN(2)
		if n.r.IntN(2) == 0 {
			oc = c // so that residuals fit
		}
		in := []*graph.Value{x, n.weights(oc, c, k, k)}
		if n.r.IntN(2) == 0 {
			in = append(in, n.weights(oc))
		}
		p := int64(k / 2)
		one(n.add("Conv", 1, in, ints("pads", p, p, p, p)))
	case 3: // depthwise
		one(n.add("Conv", 1, []*graph.Value{x, n.weights(c, 1, 3, 3), n.weights(c)}, ints("pads", 1, 1, 1, 1), graph.IntAttr("group", int64(c))))
	case 4: // strided
		if h > 4 && w > 4 {
			one(n.add("Conv", 1, []*graph.Value{x, n.weights(1+n.r.IntN(24), c, 3, 2)}, ints("strides", 2, 1)))
		}
	case 5:
		if h > 4 && w > 4 {
			one(n.add([]string{"MaxPool", "AveragePool"}[n.r.IntN(2)], 1, []*graph.Value{x}, ints("kernel_shape", 2, 2), ints("strides", 1+int64(n.r.IntN(2)), 1)))
		}
	case 6, 7:
		one(n.add(unary[n.r.IntN(len(unary))], 1, []*graph.Value{x}))
	case 8, 9: // residuals, on itself at times
		one(n.add([]string{"Add", "Mul", "Sub", "Max"}[n.r.IntN(4)], 1, []*graph.Value{x, n.sameShape(x)}))
	case 10:
		in := []*graph.Value{x, n.sameShape(x)}
		if n.r.IntN(2) == 0 {
			in = append(in, x)
		}
		one(n.add("Concat", 1, in, graph.IntAttr("axis", 1)))
	case 11: // split, or a channel shuffle
		if c%2 == 0 && c > 0 {
			one(n.add("Split", 2, []*graph.Value{x, n.ints(int64(c/2), int64(c/2))}, graph.IntAttr("axis", 1)))
		} else {
			one(n.add("Transpose", 1, []*graph.Value{x}, ints("perm", 0, 1, 3, 2)))
		}
	case 12: // a gate
		p := n.add("GlobalAveragePool", 1, []*graph.Value{x})
		if p == nil {
			return
		}
		s := n.add("Sigmoid", 1, p)
		one(n.add("Mul", 1, []*graph.Value{x, s[0]}))
	case 14: // a block with a residual, which is the convolution's own operand at times
		y := n.add("Conv", 1, []*graph.Value{x, n.weights(c, c, 3, 3)}, ints("pads", 1, 1, 1, 1))
		y = n.add("Add", 1, []*graph.Value{y[0], n.sameShape(y[0])})
		if n.r.IntN(2) == 0 {
			y = n.add(unary[n.r.IntN(4)], 1, y)
		}
		one(y)
	case 13: // a classifier
		p := n.add("GlobalAveragePool", 1, []*graph.Value{x})
		f := n.add("Flatten", 1, p)
		y := n.add("Gemm", 1, []*graph.Value{f[0], n.weights(7, c), n.weights(7)}, graph.IntAttr("transB", 1))
		if n.r.IntN(2) == 0 {
			y = n.add("Softmax", 1, y, graph.IntAttr("axis", -1))
		}
		if len(n.rows) > 0 && n.r.IntN(2) == 0 {
			y = n.add("Add", 1, []*graph.Value{y[0], pick(n.r, n.rows)})
		}
		n.rows = append(n.rows, y...)
	}
}

// apart compares results: as far apart as rounding allows, relative to their own size.
func apart(got, want map[string]tensor.Value) string {
	for name, w := range want {
		a, b := asFloats(got[name]), asFloats(w)
		if len(a) != len(b) {
			return name + " has another size"
		}
		scale := 0.0
		for _, x := range b {
			if !math.IsInf(float64(x), 0) && !math.IsNaN(float64(x)) {
				scale = max(scale, math.Abs(float64(x)))
			}
		}
		for i := range a {
			x, y := float64(a[i]), float64(b[i])
			if x == y || math.IsNaN(x) && math.IsNaN(y) || math.Abs(y) > 1e30 {
				continue
			}
			if !(math.Abs(x-y) <= 1e-3*math.Abs(y)+2e-4*scale) {
				return fmt.Sprintf("%s[%d] is %g, not %g", name, i, x, y)
			}
		}
	}
	return ""
}

// asFloats returns the numbers of a tensor of floats or of half precision.
func asFloats(v tensor.Value) []float32 {
	t := v.(*tensor.Tensor)
	if t.DType == tensor.Float16 || t.DType == tensor.BFloat16 {
		t = must(tensor.Convert(t, tensor.Float32, nil))
	}
	return f32s(t)
}

// checkNetwork runs a random network on the reference kernels, on cpu, and on cpu with two other backends in between, also
// with every node on its own.
func checkNetwork(ctx context.Context, seed uint64, nodes int) {
	GinkgoHelper()
	m := carve.FromGraph(newNetwork(seed, nodes))
	defer m.Close()
	r := rand.New(rand.NewPCG(seed, 5))
	open := func(o *carve.Options) *carve.Program {
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred(), "seed %d", seed)
		return p
	}
	plain := open(&carve.Options{Backends: onReference})
	defer plain.Close()
	all := []string{"Conv", "Relu", "Sigmoid", "Add", "Mul", "Concat", "Split", "MaxPool", "Gemm", "Transpose", "GlobalAveragePool", "Exp", "Sub", "Flatten"}
	some := func() (ops []string) {
		for _, op := range all {
			if r.IntN(3) == 0 {
				ops = append(ops, op)
			}
		}
		return append(ops, "Neg")
	}
	p, q := newFaulty("p", some()...), newFaulty("q", some()...)
	mixed := &carve.Options{Backends: []backend.Config{{Name: "p"}, {Name: "q"}}, Open: map[string]backend.Backend{"p": p, "q": q}, Verify: true}
	exact := &carve.Options{Backends: append([]backend.Config{{Name: "p"}, {Name: "q"}}, onReference[0]), Open: mixed.Open, Verify: true, Strict: true}
	isolated := *mixed
	isolated.Isolated = true
	byCost := *mixed
	byCost.Placement = carve.Modelled
	programs := []*carve.Program{open(&carve.Options{Verify: true, Threads: 2}), open(mixed), open(exact),
		open(&carve.Options{Verify: true, Isolated: true}), open(&isolated), open(&byCost)}
	for _, p := range programs {
		defer p.Close()
	}
	for _, batch := range []int{1 + r.IntN(3), 1, 4} {
		shape := plain.Inputs()[0].Type.Shape
		dims, err := shape.Eval(graph.Bindings{"N": int64(batch)}, nil)
		Expect(err).NotTo(HaveOccurred())
		feeds := map[string]tensor.Value{"x": wave(dims...)}
		want, err := plain.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		for i, p := range programs {
			got, err := p.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred(), "seed %d, program %d", seed, i)
			Expect(apart(got, want)).To(BeEmpty(), "seed %d, program %d, batch %d", seed, i, batch)
			if i == 2 {
				expectSame(got, want, "seed %d: every cut converts, and nothing else changes", seed)
			}
		}
	}
}

var _ = Describe("random networks", func() {
	It("give the same on every choice of backends", func(ctx SpecContext) {
		for seed := range uint64(60) {
			checkNetwork(ctx, seed, 3+int(seed%20))
		}
	})

	It("give the same on every choice of backends: many", Label("soak"), func(ctx SpecContext) {
		for seed := range uint64(1000) {
			checkNetwork(ctx, 1000+seed, 3+int(seed%30))
		}
	})
})
