package coupling_test

import (
	"math"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/coupling"
)

func TestCoupling(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "coupling")
}

var _ = Describe("probabilities of pairs", func() {
	It("give back the classes' where they are consistent", func() {
		want := []float64{0.5, 0.2, 0.3}
		var scores, a, b []float64
		for i := range want {
			for j := i + 1; j < len(want); j++ {
				scores, a, b = append(scores, math.Log(want[i]/want[j])), append(a, -1), append(b, 0)
			}
		}
		got := make([]float64, len(want))
		coupling.Probabilities(got, scores, a, b, make([]float64, coupling.Scratch(len(want))))
		for i := range want {
			Expect(got[i]).To(BeNumerically("~", want[i], 0.01), "the iteration ends within 0.005/3")
		}
	})

	It("of two classes are the pair's", func() {
		got := make([]float64, 2)
		coupling.Probabilities(got, []float64{0.7}, []float64{-2}, []float64{0.1}, make([]float64, coupling.Scratch(2)))
		Expect(got[0]).To(BeNumerically("~", 1/(1+math.Exp(-1.3)), 1e-2))
		Expect(got[0] + got[1]).To(BeNumerically("~", 1, 1e-12))
	})
})
