package element_test

import (
	"math"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// bilinears compares points of a plane between pages that fault.
func bilinears[T float32 | float64](r *rand.Rand, tolerance float64, sample func(set isa.Set, dst, plane []T, first []int32, weights []T, width int)) {
	GinkgoHelper()
	width := 2 + r.IntN(20)
	plane := guarded[T](r, width*(2+r.IntN(20)))
	for i := range plane {
		plane[i] = T(r.NormFloat64())
	}
	n := 1 + r.IntN(40)
	first, weights := make([]int32, n), make([]T, 4*n)
	for i := range first {
		first[i] = int32(r.IntN(len(plane) - width - 1))
		for k := range 4 {
			weights[4*i+k] = T(r.Float64())
		}
	}
	for _, set := range sets() {
		dst := guarded[T](r, n)
		sample(set, dst, plane, first, weights, width)
		for i, o := range first {
			w := weights[4*i:]
			want := float64(plane[o])*float64(w[0]) + float64(plane[o+1])*float64(w[1]) + float64(plane[int(o)+width])*float64(w[2]) + float64(plane[int(o)+width+1])*float64(w[3])
			Expect(float64(dst[i])).To(BeNumerically("~", want, tolerance), "point %d of %d with %v", i, n, set)
		}
	}
}

var _ = Describe("boxes", func() {
	box := func(r *rand.Rand) element.Box {
		at := func() float64 {
			switch x := r.IntN(60); x {
			case 0:
				return math.NaN()
			case 1, 2:
				return math.Inf(2*x - 3)
			}
			return float64(r.IntN(9))
		}
		y, x := at(), at()
		b := element.Box{Up: -y, Left: -x, Y1: y + float64(r.IntN(3)), X1: x + float64(r.IntN(3))}
		b.Area = (b.Y1 + b.Up) * (b.X1 + b.Left)
		return b
	}
	It("that are not apart from one are found", func() {
		r := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			groups, one, limit := make([]element.Boxes, r.IntN(9)), box(r), pickLimit(r)
			want := len(groups)
			for i := range groups {
				for k := range 4 {
					b := box(r)
					groups[i].Set(k, &b)
					if want == len(groups) && !one.Apart(&b, limit) {
						want = i
					}
				}
			}
			for _, set := range sets() {
				Expect(element.Near(set, &one, groups, limit)).To(Equal(want), "%v, limit %v of %v with %v", one, limit, groups, set)
			}
		}
	})
	It("are apart where they share less than a part of what they cover together", func() {
		a, b := element.Box{Y1: 2, X1: 2, Area: 4}, element.Box{Up: -1, Y1: 3, X1: 2, Area: 4} // 2 of 6
		Expect(a.Apart(&b, 0.34)).To(BeTrue())
		Expect(a.Apart(&b, 0.33)).To(BeFalse())
		c := element.Box{Up: -5, Left: -5, Y1: 6, X1: 6, Area: 1}
		Expect(a.Apart(&c, 0.01)).To(BeTrue())
		c.Area = math.NaN()
		Expect(a.Apart(&c, 0.01)).To(BeFalse())
	})
})

func pickLimit(r *rand.Rand) float64 { return []float64{0, 0.1, 0.5, 0.9, 1}[r.IntN(5)] }
