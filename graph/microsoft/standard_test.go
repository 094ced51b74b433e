package microsoft_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// unusual makes operands of the standard's Attention of which some elements are NaN or infinite, and masks that hide every key of some rows.
type unusual struct {
	*rand.Rand
	clean bool // none is NaN or infinite but what masks
	dt    tensor.DType
	g     *graph.Graph
	in    []*graph.Value
	data  map[string]tensor.Value
	list  []tensor.Value
}

// put makes operand i of elements that value returns.
func (u *unusual) put(i int, dt tensor.DType, value func(at int) float64, shape ...int) {
	t, err := tensor.New(dt, shape...)
	Expect(err).NotTo(HaveOccurred())
	x := make([]float64, t.Len())
	for at := range x {
		x[at] = value(at)
	}
	Expect(tensor.Encode(t, x)).To(Succeed())
	for len(u.in) <= i {
		u.in, u.list = append(u.in, nil), append(u.list, nil)
	}
	name := fmt.Sprintf("x%d", i)
	u.in[i], u.list[i], u.data[name] = u.g.AddInput(name, graph.TypeOf(t)), t, t
}

// floats makes operand i of normal deviates, of which one may be NaN or infinite.
func (u *unusual) floats(i int, shape ...int) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	bad := -1
	if u.IntN(3) == 0 && !u.clean {
		bad = u.IntN(n)
	}
	u.put(i, u.dt, func(at int) float64 {
		if at == bad {
			return []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[u.IntN(3)]
		}
		return u.NormFloat64()
	}, shape...)
}

// mask makes a mask in which a row in three hides every key, and a key in four is hidden beside that.
func (u *unusual) mask(keys int, shape ...int) {
	hides, dt := false, u.dt
	if u.IntN(2) == 0 {
		dt = tensor.Bool
	}
	bad := u.IntN(3 * keys)
	u.put(3, dt, func(at int) float64 {
		if at%keys == 0 {
			hides = u.IntN(3) == 0
		}
		hidden := hides || u.IntN(4) == 0
		switch {
		case dt == tensor.Bool && hidden:
			return 0
		case dt == tensor.Bool:
			return 1
		case hidden:
			return math.Inf(-1)
		case at == bad && !u.clean:
			return []float64{math.NaN(), math.Inf(1)}[u.IntN(2)]
		}
		return u.NormFloat64()
	}, append(shape, keys)...)
}

// attention makes an Attention and its operands, with the scores as a result, after which it is not one unit, where apart is set.
func (u *unusual) attention(apart bool) *graph.Node {
	pick := func(x ...int) int { return x[u.IntN(len(x))] }
	batch, rows, keys, own, share, size := 1+u.IntN(2), pick(1, 5, 9, 70), pick(1, 6, 17), 1+u.IntN(2), 1+u.IntN(2), pick(8, 9)
	past := pick(0, 0, 3)
	u.floats(0, batch, own*share, rows, size)
	u.floats(1, batch, own, keys, size)
	u.floats(2, batch, own, keys, size)
	if past > 0 {
		u.floats(4, batch, own, past, size)
		u.floats(5, batch, own, past, size)
	}
	keys += past
	switch u.IntN(5) {
	case 0:
		u.mask(keys, rows)
	case 1:
		u.mask(keys, batch, 1, rows)
	case 2:
		u.mask(keys, batch, own*share, rows)
	case 3:
		u.mask(keys, batch, 1, 1)
	}
	var as []graph.Attr
	if u.IntN(3) == 0 {
		u.put(6, tensor.Int64, func(int) float64 { return float64(u.IntN(keys + 1)) }, batch)
	}
	if u.IntN(3) == 0 {
		as = append(as, graph.IntAttr("is_causal", 1))
	}
	if u.IntN(3) == 0 {
		as = append(as, graph.IntAttr("left_window_size", int64(u.IntN(3))), graph.IntAttr("right_window_size", int64(u.IntN(3)-1)))
	}
	if u.IntN(4) == 0 {
		as = append(as, graph.FloatAttr("softcap", 2))
	}
	out := []string{"y"}
	if apart {
		as, out = append(as, graph.IntAttr("qk_matmul_output_mode", 3)), []string{"y", "", "", "p"}
	}
	n := u.g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Attention"}, Name: "node", Inputs: u.in, Outputs: out, Attrs: as})
	if u.g.SetOutputs(n.Outputs[0]); apart {
		u.g.SetOutputs(n.Outputs[0], n.Outputs[3])
	}
	Expect(graph.InferGraph(u.g)).To(Succeed())
	return n
}

// differs says where results are not those that are wanted: NaN and infinities have to be where they are, others near.
func differs(got, want *tensor.Tensor, limit float64) string {
	for i := range want.Len() {
		x, y := got.Float64At(i), want.Float64At(i)
		if x != y && !(math.Abs(x-y) <= limit*(1+math.Abs(y))) && !(math.IsNaN(x) && math.IsNaN(y)) {
			return fmt.Sprintf("%g instead of %g at %d of %v", x, y, i, want.Shape)
		}
	}
	return ""
}

var _ = DescribeTable("the standard's Attention has NaN where its definition has, and zeros where no key may be seen", func(ctx SpecContext, clean bool, backends ...string) {
	zeros, nans, plain, units := 0, 0, 0, 0
	for seed := range 400 {
		u := &unusual{clean: clean, Rand: rand.New(rand.NewPCG(uint64(seed), 9)), g: graph.New("g"), data: map[string]tensor.Value{}}
		u.g.Opsets[""] = 25
		u.dt = []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float64}[seed%3]
		n := u.attention(seed%5 == 4)
		want, err := reference.Evaluate(ctx, n, u.list)
		Expect(err).NotTo(HaveOccurred())
		var configs []backend.Config
		for _, name := range backends {
			configs = append(configs, backend.Config{Name: name})
		}
		p, err := carve.Compile(ctx, carve.FromGraph(u.g), &carve.Options{Backends: configs, Verify: true, Placement: carve.Priority})
		Expect(err).NotTo(HaveOccurred())
		out, err := p.Run(ctx, u.data)
		Expect(err).NotTo(HaveOccurred())
		report, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		for _, group := range report.Groups {
			if slices.Contains(group.Ops, "attention") {
				units++
			}
		}
		Expect(p.Close()).To(Succeed())
		for i, v := range u.g.Outputs {
			w := want[3*i].(*tensor.Tensor)
			Expect(differs(out[v.Name].(*tensor.Tensor), w, 1e-4)).To(BeEmpty(), "seed %d, %v: %v", seed, v, n)
			for at := range w.Len() {
				switch x := w.Float64At(at); {
				case x == 0:
					zeros++
				case math.IsNaN(x):
					nans++
				default:
					plain++
				}
			}
		}
	}
	Expect([]int{zeros, plain}).To(HaveEach(BeNumerically(">", 1000)))
	if !clean {
		Expect(nans).To(BeNumerically(">", 1000))
	}
	if backends[0] == "cpu" {
		Expect(units).To(BeNumerically(">", 150))
	}
},
	Entry("on reference", false, "reference"),
	Entry("on cpu", false, "cpu"),
	Entry("on mkl, then cpu, of what is finite: oneDNN's softmax makes 0 of rows with NaN", true, "mkl", "cpu"),
)
