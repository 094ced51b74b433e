package microsoft_test

import (
	"fmt"
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

var _ = It("normalisations spread scale and bias over rows, and over all of them, on cpu", func(ctx SpecContext) {
	spread := 0
	for seed := range 300 {
		u := &unusual{clean: true, Rand: rand.New(rand.NewPCG(uint64(seed), 3)), g: graph.New("g"), data: map[string]tensor.Value{}}
		u.g.Opsets[""] = 23
		u.dt = []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float64}[seed%3]
		x := make([]int, 1+u.IntN(4))
		for i := range x {
			x[i] = 1 + u.IntN(6)
		}
		op, scales := "LayerNormalization", 2
		if u.IntN(2) == 0 {
			op, scales = "RMSNormalization", 1
		}
		axis := u.IntN(len(x))
		u.floats(0, x...)
		for i := range scales {
			s := slices.Clone(x[u.IntN(len(x)):])
			for k := range s {
				if u.IntN(3) == 0 {
					s[k] = 1
				}
			}
			if u.floats(1+i, s...); !slices.Equal(s, x[axis:]) {
				spread++
			}
		}
		if u.IntN(2) == 0 { // dims that a run says
			open := make(graph.Shape, len(x))
			for i := range open {
				if open[i] = graph.D(x[i]); x[i] > 1 && u.IntN(2) == 0 {
					open[i] = graph.Sym(fmt.Sprintf("d%d", i))
				}
			}
			u.in[0].Type.Shape = open
		}
		n := u.g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Name: "node", Inputs: u.in, Outputs: []string{"y"}, Attrs: []graph.Attr{graph.IntAttr("axis", int64(axis)), graph.FloatAttr("epsilon", 0.01)}})
		u.g.SetOutputs(n.Outputs[0])
		var shapes []graph.Shape
		for _, v := range u.in {
			shapes = append(shapes, v.Type.Shape)
		}
		Expect(graph.InferGraph(u.g)).To(Succeed())
		want, err := reference.Evaluate(ctx, n, u.list)
		Expect(err).NotTo(HaveOccurred())
		p, err := carve.Compile(ctx, carve.FromGraph(u.g), &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Verify: true, Strict: true})
		Expect(err).NotTo(HaveOccurred(), "seed %d: %v, axis %d of %v %v", seed, n, axis, u.in, shapes)
		out, err := p.Run(ctx, u.data)
		Expect(err).NotTo(HaveOccurred(), "seed %d: %v, axis %d of %v %v", seed, n, axis, u.in, shapes)
		Expect(p.Close()).To(Succeed())
		Expect(differs(out["y"].(*tensor.Tensor), want[0].(*tensor.Tensor), 1e-4)).To(BeEmpty(), "seed %d: %v of %v", seed, n, u.in)
	}
	Expect(spread).To(BeNumerically(">", 200))
})
