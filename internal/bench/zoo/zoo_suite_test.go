package main

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/bench/paired"
)

func TestZoo(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/bench/zoo")
}

var _ = Describe("figures", func() {
	// of is what a side measured in rounds in which a run took so long.
	of := func(ms ...float64) (out []sample) {
		for _, x := range ms {
			out = append(out, sample{Turns: []turn{{RunMS: []float64{x, x, 100 * x}}}, CreateMS: 10 / x, PeakMiB: 7})
		}
		return out
	}
	sides := []side{{name: "cpu"}, {name: "fast", rival: true}, {name: "slow", rival: true}, {name: "absent", rival: true}}

	It("compare carve with the rival whose median is least, quantity by quantity", func() {
		f := figures(sides, [][]sample{of(2, 4, 6), of(4, 4, 4), of(20, 10, 1), nil})
		Expect(f[0].Median["run_ms"]).To(Equal(4.0))
		Expect(f[0].Ratio["run_ms"]).To(Equal(paired.Of([]float64{2, 4, 6}, []float64{4, 4, 4})))
		Expect(f[0].Ratio["create_ms"]).To(Equal(paired.Of([]float64{10. / 2, 10. / 4, 10. / 6}, []float64{10. / 20, 10. / 10, 10})))
		Expect(f[0].Ratio["peak_mib"].Median).To(Equal(1.0))
		Expect(f[1].Ratio).To(BeEmpty())
	})

	It("count turns as rounds of what is measured in turns", func() {
		a, b := of(2), of(4)
		a[0].Turns, b[0].Turns = append(a[0].Turns, turn{RunMS: []float64{9}}), append(b[0].Turns, turn{RunMS: []float64{3}})
		f := figures(sides[:2], [][]sample{a, b})
		Expect(f[0].Ratio["run_ms"]).To(Equal(paired.Of([]float64{2, 9}, []float64{4, 3})))
		Expect(f[0].Ratio["create_ms"]).To(Equal(paired.Of([]float64{5}, []float64{2.5})))
	})

	It("leave out who does not run the model, and what the system does not tell", func() {
		f := figures(sides, [][]sample{of(2), nil, of(1), nil})
		Expect(f[0].Ratio["run_ms"].Median).To(Equal(2.0))
		Expect(f[1].Median).To(BeEmpty())
		Expect(f[1].cell(quantities[0])).To(Equal("–"))
		Expect(f[0].Ratio).NotTo(HaveKey("cpu_ms"))
		alone := figures(sides[:1], [][]sample{of(2)})
		Expect(alone[0].Ratio).To(BeEmpty())
		Expect(alone[0].ratio(quantities[0])).To(Equal("–"))
	})
})
