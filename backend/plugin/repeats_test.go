package plugin_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/dl"
)

var _ = Describe("equal groups of a plugin", func() {
	DescribeTable("are compiled once where its processor says that it repeats them, with weights of their own in a run", func(ctx SpecContext, compiled int, flags ...string) {
		const layers, width = 5, 128
		path := build(GinkgoTB(), "testdata/add.c", flags...)
		l, err := dl.Open(path)
		Expect(err).NotTo(HaveOccurred())
		count, err := l.Symbol("add_compiled")
		Expect(err).NotTo(HaveOccurred())
		var text strings.Builder
		text.WriteString("graph {\n  opset 17\n  input %x0: f32[1,128]\n  input %w0: f32[1,128]\n")
		for i := range layers {
			fmt.Fprintf(&text, "  %%s%d = Add(%%x%d, %%w%d)\n  %%x%d = Neg(%%s%d)\n", i, i, i, i+1, i)
			if i < layers-1 {
				fmt.Fprintf(&text, "  input %%w%d: f32[1,128]\n", i+1)
			}
		}
		fmt.Fprintf(&text, "  output %%x%d\n}\n", layers)
		g, err := graph.Parse(text.String())
		Expect(err).NotTo(HaveOccurred())
		want := make([]float32, width)
		x := make([]float32, width)
		for k := range x {
			x[k] = float32(k)
		}
		copy(want, x)
		for i, v := range g.Inputs[1:] {
			w := make([]float32, width)
			for k := range w {
				w[k] = float32((i + 1) * (k + 3))
				want[k] = -(want[k] + w[k])
			}
			g.ReplaceUses(v, g.AddConst(v.Name+"_weights", tensor.From(w, 1, width)))
		}
		g.Inputs = g.Inputs[:1]
		m := carve.FromGraph(g)
		defer m.Close()
		before := dl.Call(count)
		p, err := carve.Compile(ctx, m, &carve.Options{Strict: true, Plugins: []string{path}, Placement: carve.Priority,
			Backends: []backend.Config{{Name: "add"}, {Name: "reference"}}})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		Expect(int(dl.Call(count) - before)).To(Equal(compiled))
		for range 2 {
			out, err := p.Run(ctx, map[string]tensor.Value{"x0": tensor.From(x, 1, width)})
			Expect(err).NotTo(HaveOccurred())
			Expect(tensor.Of[float32](out[fmt.Sprintf("x%d", layers)].(*tensor.Tensor))).To(Equal(want))
		}
	},
		Entry("it says so", 1, "-DREPEATS"),
		Entry("it does not", 5))
})
