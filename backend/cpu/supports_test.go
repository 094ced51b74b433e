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
	It("leaves times to what it achieves, for each instruction set", func() {
		m := newModel(1)
		Expect(supports(m.op("Relu", m.input(10))).Cost).To(BeZero())
		Expect(cpu.EfficiencySets()).To(Equal([]string{"avx2", "avx512", "avx512-2MiB", "neon", "portable"}))
		for _, name := range cpu.EfficiencySets() {
			t, err := isa.Named(name)
			if err != nil {
				continue
			}
			b, err := cpu.Open(backend.Config{Name: "cpu", Options: map[string]string{"isa": t.String()}})
			Expect(err).NotTo(HaveOccurred())
			Expect(b.Info().Efficiency).NotTo(BeNil(), name)
			_, known := b.Info().Efficiency.For("conv", "")
			Expect(known).To(BeTrue(), name)
		}
	})

	It("gives reasons", func() {
		m := newModel(1)
		Expect(supports(m.op("Exp", m.feed(as(m.floats(3), tensor.Float16, false)))).Reason.Code).To(Equal(property.DTypeReason))
		Expect(supports(m.op("RandomNormalLike", m.input(2, 2))).Reason.Code).To(Equal(property.Unsupported))
		Expect(supports(m.op("RoiAlign", m.input(1, 2, 4, 4), m.input(1, 4), m.ints(0), graph.StringAttr("mode", "least"), graph.IntAttr("sampling_ratio", 1))).Reason.Code).To(Equal(property.Attribute))
	})

	It("knows no options but the instruction set, which its processor has to run, Winograd's algorithms and AMX", func() {
		for _, options := range []map[string]string{{"speed": "high"}, {"isa": "mmx"}, {"isa": ""}, {"isa": "AVX2"}, {"winograd": ""}, {"winograd": "no"}, {"amx": "yes"}} {
			_, err := cpu.Open(backend.Config{Name: "cpu", Options: options})
			Expect(err).To(MatchError(backend.ErrOption), "%v", options)
		}
	})

	It("says for which instruction set it plans", func() {
		for _, t := range isa.Targets() {
			for _, amx := range []string{"on", "off"} {
				b, err := cpu.Open(backend.Config{Name: "cpu", Options: map[string]string{"isa": t.String(), "amx": amx}})
				Expect(err).NotTo(HaveOccurred())
				want := ", " + t.String()
				if amx == "on" && t.Int8Tiles() {
					want += " with AMX"
				}
				Expect(b.Info().Processor).To(HaveSuffix(want))
			}
		}
		b, err := cpu.Open(backend.Config{Name: "cpu"})
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Info().Processor).To(ContainSubstring(", " + isa.Host().String()))
	})
})
