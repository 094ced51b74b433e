package reference_test

import (
	"math"
	"math/cmplx"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// fourierSum is the transform by its definition.
func fourierSum(x []complex128, inverse bool) []complex128 {
	n := len(x)
	out := make([]complex128, n)
	for k := range out {
		for i, v := range x {
			angle := -2 * math.Pi * float64(i*k%n) / float64(n)
			if inverse {
				angle = -angle
			}
			out[k] += v * cmplx.Rect(1, angle)
		}
		if inverse {
			out[k] /= complex(float64(n), 0)
		}
	}
	return out
}

var _ = DescribeTable("DFT is the sum of its definition", func(n int) {
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	x := make([]complex128, n)
	numbers := make([]float64, 2*n)
	singles := make([]float32, 2*n)
	for i := range x {
		numbers[2*i], numbers[2*i+1] = float64(float32(rng.NormFloat64())), float64(float32(rng.NormFloat64()))
		singles[2*i], singles[2*i+1] = float32(numbers[2*i]), float32(numbers[2*i+1])
		x[i] = complex(numbers[2*i], numbers[2*i+1])
	}
	for _, inverse := range []int64{0, 1} {
		want := fourierSum(x, inverse == 1)
		attrs := []graph.Attr{graph.IntAttr("axis", 1), graph.IntAttr("inverse", inverse)}
		exact := tensor.Of[float64](eval("DFT", 17, []*tensor.Tensor{tensor.From(numbers, 1, n, 2)}, attrs...))
		single := tensor.Of[float32](eval("DFT", 17, []*tensor.Tensor{tensor.From(singles, 1, n, 2)}, attrs...))
		size := math.Sqrt(float64(n))
		if inverse == 1 {
			size = 1 / size
		}
		for k, w := range want {
			Expect(cmplx.Abs(complex(exact[2*k], exact[2*k+1])-w)).To(BeNumerically("<", 1e-13*size*math.Sqrt(float64(n))), "%d of %d", k, n)
			Expect(cmplx.Abs(complex(float64(single[2*k]), float64(single[2*k+1]))-w)).To(BeNumerically("<", 2e-6*size), "%d of %d", k, n)
		}
	}
},
	Entry("of one number", 1), Entry("of two", 2), Entry("of three", 3), Entry("of a power of two", 64), Entry("of odd factors", 3*5*7*11),
	Entry("of both", 2*2*3*3*5), Entry("of the largest factor with a pass", 47), Entry("of a prime beyond", 53), Entry("with such a factor", 6*59),
	Entry("of a prime", 997),
)
