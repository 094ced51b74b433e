package fourier_test

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/fourier"
)

func TestFourier(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/kernel/fourier")
}

// plain is the transform by its definition.
func plain(x []complex128, inverse bool) []complex128 {
	n := len(x)
	out := make([]complex128, n)
	sign := -1.0
	if inverse {
		sign = 1
	}
	for k := range out {
		for j, v := range x {
			out[k] += v * cmplx.Exp(complex(0, sign*2*math.Pi*float64(j*k%n)/float64(n)))
		}
		if inverse {
			out[k] /= complex(float64(n), 0)
		}
	}
	return out
}

func agrees[T fourier.Float](n int, inverse bool, limit float64) {
	GinkgoHelper()
	r := rand.New(rand.NewPCG(uint64(n), 1))
	t := fourier.New[T](n, inverse)
	x, values := make([]fourier.Complex[T], n), make([]complex128, n)
	for i := range x {
		x[i] = fourier.Complex[T]{Re: T(r.NormFloat64()), Im: T(r.NormFloat64())}
		values[i] = complex(float64(x[i].Re), float64(x[i].Im))
	}
	scratch := make([]fourier.Complex[T], t.Scratch())
	for i := range scratch {
		scratch[i].Re = T(math.NaN())
	}
	t.Run(x, scratch)
	for i, want := range plain(values, inverse) {
		Expect(cmplx.Abs(complex(float64(x[i].Re), float64(x[i].Im))-want)).To(BeNumerically("<=", limit*math.Sqrt(float64(n))), "%d of %d", i, n)
	}
}

var _ = Describe("transforms", func() {
	It("are what their definition says, of every length", func() {
		for n := 1; n <= 200; n++ {
			for _, inverse := range []bool{false, true} {
				agrees[float64](n, inverse, 1e-12)
				agrees[float32](n, inverse, 1e-4)
			}
		}
		for _, n := range []int{256, 343, 400, 512, 625, 768, 997, 1000, 1023, 1024, 2 * 509} {
			agrees[float64](n, false, 1e-11)
		}
	})
	It("of real numbers have half as many bins", func() {
		r := rand.New(rand.NewPCG(1, 1))
		for n := 2; n <= 200; n += 2 {
			t := fourier.NewReal[float64](n)
			z, values, bins := make([]fourier.Complex[float64], n/2), make([]complex128, n), make([]fourier.Complex[float64], n/2+1)
			for i := range z {
				z[i] = fourier.Complex[float64]{Re: r.NormFloat64(), Im: r.NormFloat64()}
				values[2*i], values[2*i+1] = complex(z[i].Re, 0), complex(z[i].Im, 0)
			}
			t.Run(bins, z, make([]fourier.Complex[float64], t.Half.Scratch()))
			for k, want := range plain(values, false)[:n/2+1] {
				Expect(cmplx.Abs(complex(bins[k].Re, bins[k].Im)-want)).To(BeNumerically("<=", 1e-11), "%d of %d", k, n)
			}
		}
	})
	It("of length one are the number itself", func() {
		x := []fourier.Complex[float64]{{Re: 3, Im: 4}}
		fourier.New[float64](1, true).Run(x, make([]fourier.Complex[float64], 1))
		Expect(x).To(Equal([]fourier.Complex[float64]{{Re: 3, Im: 4}}))
	})
})

func BenchmarkTransform(b *testing.B) {
	for _, n := range []int{384, 512, 768, 1000, 1009, 1024} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			t := fourier.New[float64](n, false)
			x, s := make([]fourier.Complex[float64], n), make([]fourier.Complex[float64], t.Scratch())
			for b.Loop() {
				t.Run(x, s)
			}
		})
	}
}
