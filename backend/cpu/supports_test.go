package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/property"
)

func supports(v *graph.Value) backend.Support {
	GinkgoHelper()
	b, err := cpu.Open(backend.Config{Name: "cpu"})
	Expect(err).NotTo(HaveOccurred())
	return b.Supports(v.Producer)
}

var _ = Describe("Supports", func() {
	It("counts operations and bytes", func() {
		m := newModel(1)
		c := supports(m.op("Conv", m.input(2, 6, 8, 8), m.constant(9, 6, 3, 3), pads(1, 1, 1, 1))).Cost
		Expect(c.FLOPs).To(Equal(2.0 * 2 * 9 * 64 * 6 * 9))
		Expect(c.Bytes).To(Equal(4.0 * (2*6*64 + 9*6*9 + 2*9*64)))
		Expect(c.Nanoseconds).To(BeNumerically(">", 0))
		Expect(supports(m.op("ConvTranspose", m.input(1, 6, 4, 4), m.constant(6, 5, 3, 3))).Cost.FLOPs).To(Equal(2.0 * 6 * 16 * 5 * 9))
		Expect(supports(m.op("MatMul", m.input(3, 4, 5), m.constant(5, 7))).Cost.FLOPs).To(Equal(2.0 * 3 * 4 * 5 * 7))
		Expect(supports(m.op("Gemm", m.input(5, 4), m.constant(7, 5), graph.IntAttr("transA", 1), graph.IntAttr("transB", 1))).Cost.FLOPs).To(Equal(2.0 * 4 * 5 * 7))
		Expect(supports(m.op("LSTM", m.input(3, 2, 5), m.constant(1, 16, 5), m.constant(1, 16, 4), graph.IntAttr("hidden_size", 4))).Cost.FLOPs).To(Equal(2.0 * 6 * 16 * 9))
		Expect(supports(m.op("Relu", m.input(10))).Cost.FLOPs).To(Equal(10.0))
	})

	It("says nothing of symbols, and that views are free", func() {
		m := newModel(1)
		x := m.feedAs(graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("N"), graph.D(3)}), m.floats(2, 3))
		Expect(supports(m.op("Exp", x)).Cost).To(BeZero())
		Expect(supports(m.op("Reshape", m.input(2, 3), m.ints(6))).Cost).To(BeZero())
	})

	It("gives reasons", func() {
		m := newModel(1)
		Expect(supports(m.op("Exp", small(m, tensor.Float64, 3))).Reason.Code).To(Equal(property.DTypeReason))
		Expect(supports(m.op("Conv", m.input(1, 5, 4, 4, 4), m.input(3, 5, 1, 1, 1))).Reason.Code).To(Equal(property.Unsupported))
		Expect(supports(m.op("Det", m.input(2, 2))).Reason.Code).To(Equal(property.Unsupported))
		Expect(supports(m.op("RoiAlign", m.input(1, 2, 4, 4), m.input(1, 4), m.ints(0), graph.StringAttr("mode", "max"), graph.IntAttr("sampling_ratio", 1))).Reason.Code).To(Equal(property.Attribute))
	})

	It("knows no options but the instruction set, which its processor has to run", func() {
		for _, options := range []map[string]string{{"speed": "high"}, {"isa": "mmx"}, {"isa": ""}, {"isa": "AVX2"}} {
			_, err := cpu.Open(backend.Config{Name: "cpu", Options: options})
			Expect(err).To(MatchError(backend.ErrOption), "%v", options)
		}
	})

	It("says for which instruction set it plans", func() {
		for _, t := range isa.Targets() {
			b, err := cpu.Open(backend.Config{Name: "cpu", Options: map[string]string{"isa": t.String()}})
			Expect(err).NotTo(HaveOccurred())
			Expect(b.Info().Processor).To(HaveSuffix(", " + t.String()))
		}
		b, err := cpu.Open(backend.Config{Name: "cpu"})
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Info().Processor).To(HaveSuffix(", " + isa.Host().String()))
	})
})
