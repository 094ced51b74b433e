package paired_test

import (
	"math"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/bench/paired"
)

func TestPaired(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Paired Suite")
}

var _ = Describe("Of", func() {
	It("takes the median of the rounds' ratios, not the ratio of the medians", func() {
		r := paired.Of([]float64{1, 20, 3}, []float64{2, 10, 3})
		Expect(r).To(Equal(paired.Ratio{Median: 1, Low: 0.5, High: 2}))
		Expect(r.String()).To(Equal("1.000 (0.500–2.000)"))
	})

	It("has the true ratio in its interval about as often as it says", func() {
		r := rand.New(rand.NewPCG(1, 2))
		inside := 0
		const trials = 400
		for range trials {
			a, b := make([]float64, 25), make([]float64, 25)
			for i := range a {
				b[i] = 5 + r.Float64()
				a[i] = 0.9 * b[i] * math.Exp(0.05*r.NormFloat64())
			}
			if x := paired.Of(a, b); x.Low <= 0.9 && 0.9 <= x.High {
				inside++
			}
		}
		Expect(float64(inside) / trials).To(BeNumerically("~", 0.95, 0.04))
	})
})
