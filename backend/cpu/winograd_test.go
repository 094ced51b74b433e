package cpu_test

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// winogradSignature returns the name of the signature that a backend with these options has for the node that makes v.
func winogradSignature(v *graph.Value, options map[string]string) string {
	GinkgoHelper()
	b, err := cpu.Open(backend.Config{Name: "cpu", Options: options})
	Expect(err).NotTo(HaveOccurred())
	s := b.Supports(v.Producer)
	Expect(s.Signatures).NotTo(BeEmpty(), "%v", s.Reason)
	return s.Signatures[0].Name
}

var _ = Describe("Winograd's algorithms", func() {
	padded := pads(1, 1, 1, 1)

	BeforeEach(func() {
		if len(isa.Targets()) == 1 {
			Skip("this processor has no kernels in assembly")
		}
	})

	It("compute convolutions of enough work, with their tails", seeds(16, func(m *model) {
		c, oc, h, w := m.between(32, 70), m.between(32, 70), m.between(17, 40), m.between(17, 40)
		x := m.input(m.between(1, 2), c, h, w)
		args := []any{x, m.scaled(0.1, oc, c, 3, 3)}
		if m.chance(2) {
			args = append(args, m.constant(oc))
		}
		y := m.op("Conv", append(args, pads(m.int64s(4, 0, 2)...))...)
		Expect(winogradSignature(y, nil)).To(ContainSubstring("winograd"))
		if m.chance(2) {
			y = m.op("Add", y, m.input(m.known[y].Shape...))
		}
		m.sample(activate(m, y))
	}))

	It("compute convolutions over three axes, of the slices of their kernels", seeds(10, func(m *model) {
		c, oc, depth, k := m.between(32, 50), m.between(32, 50), m.between(2, 5), m.between(1, 3)
		x := m.input(m.between(1, 2), c, depth, m.between(17, 24), m.between(17, 24))
		args := []any{x, m.scaled(0.1, oc, c, k, 3, 3), strides(int64(m.between(1, 2)), 1, 1)}
		if m.chance(2) {
			args = slices.Insert(args, 2, any(m.constant(oc)))
		}
		p := m.int64s(6, 0, 2)
		p[0], p[3] = int64(m.between(0, k)), int64(m.between(0, k)) // slices of padding alone among them
		y := m.op("Conv", append(args, pads(p...))...)
		Expect(winogradSignature(y, nil)).To(ContainSubstring("winograd"))
		if m.chance(2) {
			y = m.op("Add", y, m.input(m.known[y].Shape...))
		}
		m.sample(activate(m, y))
	}))

	It("run in every way, one behind the other and into a concatenation", func() {
		m := newModel(3)
		x := m.op("Relu", m.input(1, 48, 30, 30))
		a := m.op("Relu", m.op("Conv", x, m.scaled(0.1, 64, 48, 3, 3), m.constant(64), padded))
		b := m.op("Relu", m.op("Conv", a, m.scaled(0.1, 40, 64, 3, 3), m.constant(40), padded))
		m.check(m.op("Concat", a, b, axis(1)))
	})

	It("are chosen by size and operator, where they are not forbidden", func() {
		m := newModel(1)
		x := m.input(1, 64, 56, 56)
		weights := m.constant(64, 64, 3, 3)
		y := m.op("Conv", x, weights, padded)
		for _, t := range isa.Targets() {
			options := map[string]string{"isa": t.String()}
			name := winogradSignature(y, options)
			Expect(strings.Contains(name, "winograd")).To(Equal(t.Set != isa.Portable), "%v: %s", t, name)
			options["winograd"] = "off"
			Expect(winogradSignature(y, options)).NotTo(ContainSubstring("winograd"))
		}
		for _, other := range []*graph.Value{
			m.op("Conv", x, weights, padded, strides(2, 2)),
			m.op("Conv", x, weights, pads(2, 2, 2, 2), dilations(2, 2)),
			m.op("Conv", x, m.constant(64, 16, 3, 3), padded, group(4)),
			m.op("Conv", x, m.constant(64, 64, 1, 1)),
			m.op("Conv", x, m.input(64, 64, 3, 3), padded),
			m.op("Conv", m.input(1, 64, 5, 5), weights, padded),
		} {
			Expect(winogradSignature(other, nil)).NotTo(ContainSubstring("winograd"))
		}
	})

	It("need sizes that are known, but for the number of images", func() {
		for _, open := range []int{0, 2} {
			m := newModel(1)
			shape := graph.Shape{graph.D(2), graph.D(64), graph.D(40), graph.D(40)}
			shape[open] = graph.Sym("N")
			x := m.feedAs(graph.TensorType(tensor.Float32, shape), m.floats(2, 64, 40, 40))
			y := m.op("Conv", x, m.scaled(0.1, 32, 64, 3, 3), padded)
			Expect(strings.Contains(winogradSignature(y, nil), "winograd")).To(Equal(open == 0))
			m.check(y)
		}
	})

	DescribeTable("give weights back to who needs them row-major", func(ctx context.Context, image, dims []int) {
		m := newModel(1)
		weights := m.constant(dims...)
		y := m.op("Conv", m.input(image...), weights)
		b, err := cpu.Open(backend.Config{Name: "cpu"})
		Expect(err).NotTo(HaveOccurred())
		format := b.Supports(y.Producer).Signatures[0].Inputs[1].Format
		Expect(format.Layout.IsOpaque()).To(BeTrue())
		w := m.known[weights]
		for _, c := range b.(convert.Source).ConvertersOf(format.Layout) {
			size, err := c.Size(format, tensor.Float32, dims)
			Expect(err).NotTo(HaveOccurred())
			move, err := c.Plan(tensor.Float32, dims)
			Expect(err).NotTo(HaveOccurred())
			out := &tensor.Tensor{DType: tensor.Float32, Shape: dims, Data: make([]byte, max(size, int64(len(w.Bytes()))))}
			Expect(move(ctx, out, w, convert.Exec{})).To(Succeed())
			w = out
			_, err = c.Plan(tensor.Float32, []int{64, 64, 5, 5})
			Expect(err).To(MatchError(tensor.ErrShape))
		}
		want := tensor.Of[float32](m.known[weights])
		got := tensor.Of[float32](w)[:len(want)]
		Expect(slices.EqualFunc(got, want, func(a, b float32) bool { return a-b < 1e-5 && b-a < 1e-5 })).To(BeTrue())
	},
		Entry("of images", []int{1, 64, 56, 56}, []int{64, 64, 3, 3}),
		Entry("of volumes", []int{1, 64, 4, 56, 56}, []int{64, 64, 2, 3, 3}),
	)
})
