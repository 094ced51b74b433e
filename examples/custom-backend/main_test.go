package main

import (
	"bytes"
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("custom-backend", func() {
	It("prints a result that agrees with the reference backend, and how the network was carved", func(ctx SpecContext) {
		var out bytes.Buffer
		Expect(run(ctx, &out)).To(Succeed())
		Expect(out.String()).To(And(
			MatchRegexp(`at most (0e\+00|\de-0[5-9]|\de-1\d) from the reference backend`),
			ContainSubstring("0 on texture: shrink\n  1 on cpu: conv, relu\n  2 on texture: pool, pool again\n  3 on cpu: flatten, dense\n"),
			ContainSubstring("relu.out from host:NCHW16c to device12:7:texture@1:z-order\n"),
			MatchRegexp(`device12:7: arena [1-9]\d* bytes`),
		))
	})

	It("gives all of the device's memory back", func(ctx SpecContext) {
		t := newTexture()
		m := carve.FromGraph(network())
		o := &carve.Options{Backends: []backend.Config{{Name: "texture"}}, Open: map[string]backend.Backend{"texture": t}}
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred())
		for _, batch := range []int{1, 3, 2, 3} {
			x := tensor.From(make([]float32, batch*3*20*20), batch, 3, 20, 20)
			_, err := p.Run(ctx, map[string]tensor.Value{"x": x})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(t.u.blocks).NotTo(BeEmpty())
		Expect(p.Close()).To(Succeed())
		Expect(m.Close()).To(Succeed())
		Expect(t.u.blocks).To(BeEmpty())
	})

	DescribeTable("brings values to the unit and back", func(ctx SpecContext, d ...int) {
		u := newTexture().u
		n, err := tensor.NumElements(d)
		Expect(err).NotTo(HaveOccurred())
		data := make([]float32, n)
		for i := range data {
			data[i] = float32(i + 1)
		}
		from := tensor.From(data, d...)
		for _, c := range converters(u)[:1] {
			bytes, err := c.Size(c.To, tensor.Float32, d)
			Expect(err).NotTo(HaveOccurred())
			Expect(bytes).To(BeNumerically(">=", 4*n))
			m, err := u.Alloc(bytes)
			Expect(err).NotTo(HaveOccurred())
			there := &tensor.Tensor{DType: tensor.Float32, Shape: d, Device: u.ID(), Handle: m.Handle}
			up, err := c.Plan(tensor.Float32, d)
			Expect(err).NotTo(HaveOccurred())
			Expect(up(ctx, there, from, convert.Exec{})).To(Succeed())
			down, err := converters(u)[2].Plan(tensor.Float32, d)
			Expect(err).NotTo(HaveOccurred())
			back := tensor.From(make([]float32, n), d...)
			Expect(down(ctx, back, there, convert.Exec{})).To(Succeed())
			Expect(tensor.Of[float32](back)).To(Equal(data))
		}
	},
		Entry("a square", 1, 1, 4, 4),
		Entry("an oblong of odd sides", 2, 3, 5, 7),
		Entry("a pixel", 1, 1, 1, 1),
		Entry("nothing", 0, 3, 4, 4),
	)

	It("lets nobody outside of a block", func(ctx SpecContext) {
		u := newTexture().u
		m, err := u.Alloc(8)
		Expect(err).NotTo(HaveOccurred())
		Expect(u.CopyTo(ctx, nil, m, 4, make([]byte, 5))).To(MatchError(device.ErrBounds))
		Expect(u.CopyFrom(ctx, nil, make([]byte, 1), m, -1)).To(MatchError(device.ErrBounds))
		Expect(u.CopyFrom(ctx, nil, make([]byte, 1), device.Memory{Handle: m.Handle + 1}, 0)).To(MatchError(errHandle))
		Expect(u.CopyTo(ctx, nil, m, 0, []byte("together"))).To(Succeed())
		Expect(u.CopyBetween(ctx, nil, m, 0, m, 2, 6)).To(Succeed())
		got := make([]byte, 8)
		Expect(u.CopyFrom(ctx, nil, got, m, 0)).To(Succeed())
		Expect(string(got)).To(Equal("getherer"))
	})

	DescribeTable("turns down", func(op string, attrs []graph.Attr, dims []int, reason string) {
		g := graph.New("")
		x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(dims...)))
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Attrs: attrs, Inputs: []*graph.Value{x}, Outputs: []string{"y"}})
		s := newTexture().Supports(n)
		Expect(s.Reason).To(HaveOccurred())
		Expect(s.Reason.String()).To(ContainSubstring(reason))
	},
		Entry("other operators", "Relu", nil, []int{1, 1, 4, 4}, "only pools"),
		Entry("larger windows", "MaxPool", pooling(3, 2), []int{1, 1, 4, 4}, "kernel_shape is [3 3]"),
		Entry("windows that overlap", "MaxPool", pooling(2, 1), []int{1, 1, 4, 4}, "strides is [1 1]"),
		Entry("odd sides", "MaxPool", pooling(2, 2), []int{1, 1, 4, 5}, "sides must be even"),
		Entry("pads", "MaxPool", append(pooling(2, 2), graph.IntsAttr("pads", 0, 0, 1, 1)), []int{1, 1, 4, 4}, "pads are"),
	)

	It("stops when the context ends, and is usable afterwards", func(ctx SpecContext) {
		m := carve.FromGraph(network())
		DeferCleanup(m.Close)
		o := &carve.Options{Backends: []backend.Config{{Name: "texture"}}, Open: map[string]backend.Backend{"texture": newTexture()}}
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		x := map[string]tensor.Value{"x": tensor.From(make([]float32, 3*20*20), 1, 3, 20, 20)}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err = p.Run(ended, x)
		Expect(err).To(MatchError(context.Canceled))
		_, err = p.Run(ctx, x)
		Expect(err).NotTo(HaveOccurred())
	})
})

func pooling(window, stride int64) []graph.Attr {
	return []graph.Attr{graph.IntsAttr("kernel_shape", window, window), graph.IntsAttr("strides", stride, stride)}
}
