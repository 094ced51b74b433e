package cpu_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("TensorScatter", func() {
	It("agrees with the reference kernels, over caches that others read and that they do not", seeds(60, func(m *model) {
		batch, heads, length, size := m.between(1, 3), m.between(1, 3), m.between(0, 20), m.between(1, 20)
		fresh := m.between(min(1, length), length)
		mode, most := "linear", length-fresh
		if m.chance(2) {
			mode, most = "circular", 3*length
		}
		at := make([]int64, batch)
		for i := range at {
			at[i] = int64(m.between(0, most))
		}
		x := m.op("Neg", operand(m, batch, heads, length, size))
		y := m.op("TensorScatter", x, operand(m, batch, heads, fresh, size), m.feed(tensor.From(at)), graph.StringAttr("mode", mode))
		if m.chance(2) {
			m.sample(m.op("Abs", y), x)
		} else {
			m.sample(m.op("Abs", y))
		}
	}))

	It("refuses places that there are not", func(ctx SpecContext) {
		m := newModel(1)
		at := m.feed(tensor.From([]int64{1, 2}))
		m.g.SetOutputs(m.op("TensorScatter", m.input(2, 1, 5, 3), m.input(2, 1, 3, 3), at))
		p, err := carve.Compile(ctx, carve.FromGraph(m.g), &carve.Options{Backends: []backend.Config{{Name: "cpu"}}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		for _, bad := range []int64{3, -1} {
			m.feeds[at.Name] = tensor.From([]int64{0, bad})
			_, err = p.Run(context.Background(), m.feeds)
			var out *backend.RangeError
			Expect(errors.As(err, &out)).To(BeTrue(), "%v", err)
			Expect([]int64{out.Value, out.Min, out.Max}).To(Equal([]int64{bad, 0, 2}))
		}
	})
})
