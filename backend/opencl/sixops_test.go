package opencl_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// sixOps is the example of the proposals, with operators that have layouts of their own: (Op1-MKL → Op2-MKL) → (Op3-device →
// Op4-device) → (Op5-MKL) → (Op6-MXNet). Weights are -1, 0 and 1, so that all sums of small integers are exact in float32.
func sixOps() *graph.Graph {
	GinkgoHelper()
	g, err := graph.Parse(`graph "six" {
  opset 17
  input %x: f32[1,16,8,8]
  %Op1 = Conv(%x, %x; pads=[1,1,1,1]) "Op1"
  %Op2 = Relu(%Op1) "Op2"
  %Op3 = Conv(%Op2, %x; pads=[1,1,1,1]) "Op3"
  %Op4 = Relu(%Op3) "Op4"
  %Op5 = Conv(%Op4, %x; pads=[1,1,1,1]) "Op5"
  %Op6 = Neg(%Op5) "Op6"
  output %Op6
}
`)
	Expect(err).NotTo(HaveOccurred())
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 2, 4} {
		g.NodesByID()[n].SetOperand(1, g.AddConst(fmt.Sprintf("w%d", n), whole(r, 1, 16, 16, 3, 3)))
	}
	return g
}

// whole returns a tensor of integers from -most to most.
func whole(r *rand.Rand, most int, shape ...int) *tensor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(r.IntN(2*most+1) - most)
	}
	return tensor.From(data, shape...)
}

var _ = Describe("six operators on three backends", func() {
	owners := []string{"mkl", "mkl", "opencl", "opencl", "mkl", "reference"}

	run := func(ctx context.Context, o *carve.Options) (*tensor.Tensor, *carve.Report) {
		GinkgoHelper()
		m := carve.FromGraph(sixOps())
		DeferCleanup(m.Close)
		o.Placement, o.Verify, o.Strict = carve.Priority, true, true
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		in := map[string]tensor.Value{"x": whole(rand.New(rand.NewPCG(3, 4)), 3, 1, 16, 8, 8)}
		out, err := p.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		d, err := p.Check(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		Expect(d).To(BeNil())
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		return out["Op6"].(*tensor.Tensor), r
	}

	DescribeTable("run where they are pinned, by the conversions of the example and no others, to the last bit", func(ctx SpecContext, reorder string, want ...string) {
		open()
		if _, err := mkl.Open(backend.Config{}); errors.Is(err, backend.ErrUnavailable) {
			Skip("no oneDNN here: " + err.Error())
		}
		o := &carve.Options{Poison: true, Backends: []backend.Config{{Name: "mkl", Options: map[string]string{"layout": "NCHW16c"}},
			{Name: "opencl", Options: map[string]string{"reorder": reorder}}, {Name: "reference"}}}
		for i, b := range owners {
			o.Pins = append(o.Pins, property.Pin{Node: fmt.Sprintf("Op%d", i+1), Backend: b})
		}
		got, r := run(ctx, o)
		var groups, hops []string
		for _, g := range r.Groups {
			groups = append(groups, fmt.Sprintf("%s %d", g.Backend, len(g.Nodes)))
		}
		for _, c := range r.Conversions {
			if !c.Constant {
				hops = append(hops, fmt.Sprintf("%s: %s → %s", c.Value, c.From, c.To))
			}
		}
		Expect(groups).To(Equal([]string{"mkl 2", "opencl 2", "mkl 1", "reference 1"}))
		Expect(hops).To(Equal(want))
		plain, _ := run(ctx, &carve.Options{Backends: []backend.Config{{Name: "reference"}}})
		Expect(got.Bytes()).To(Equal(plain.Bytes()))
	},
		Entry("with direct converters between blocks of channels and the device's layout", "device",
			"x: host:NCHW → host:NCHW16c", "Op2: host:NCHW16c → opencl:0:NHWC", "Op4: opencl:0:NHWC → host:NCHW16c", "Op5: host:NCHW16c → host:NCHW"),
		Entry("without these", "host",
			"x: host:NCHW → host:NCHW16c",
			"Op2: host:NCHW16c → host:NHWC", "Op2: host:NHWC → opencl:0:NHWC",
			"Op4: opencl:0:NHWC → host:NHWC", "Op4: host:NHWC → host:NCHW16c",
			"Op5: host:NCHW16c → host:NCHW"))
})
