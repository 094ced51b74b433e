package element_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// columnsOf compares folded columns with folds of one element after the other, between pages that fault.
func columnsOf[T element.Integer](r *rand.Rand) {
	GinkgoHelper()
	n, rows := 1+r.IntN(300), 1+r.IntN(9)
	if r.IntN(20) == 0 {
		rows = 5000
	}
	ld := n + r.IntN(3)
	src := guarded[T](r, (rows-1)*ld+n)
	for i := range src {
		src[i] = T(r.Uint64())
	}
	made := element.Made(r.IntN(3))
	op := []element.Op{element.Add, element.Mul, element.Max, element.Min}[r.IntN(4)]
	if made != element.Plain {
		op = element.Add
	}
	want := make([]T, n)
	for i := range want {
		for k := range rows {
			x := src[k*ld+i]
			switch made {
			case element.Squares:
				x *= x
			case element.Sizes:
				x = max(x, -x)
				if ^T(0) > 0 {
					x = src[k*ld+i]
				}
			case element.Plain:
			}
			switch {
			case k == 0:
				want[i] = x
			case op == element.Add:
				want[i] += x
			case op == element.Mul:
				want[i] *= x
			case op == element.Max:
				want[i] = max(want[i], x)
			default:
				want[i] = min(want[i], x)
			}
		}
	}
	for _, set := range sets() {
		dst := guarded[T](r, n)
		ok := element.Columns(set, op, made, dst, src, ld, rows)
		Expect(ok).To(Equal(set != isa.Portable && n*int(unsafe.Sizeof(T(0))) >= 32))
		if ok {
			Expect(dst).To(Equal(want), "op %d of %d, %d rows of %d of %T with %v", op, made, rows, n, T(0), set)
		}
	}
}

var _ = Describe("columns", func() {
	It("are folded", func() {
		r := rand.New(rand.NewPCG(7, 7))
		for range 150 {
			columnsOf[int8](r)
			columnsOf[uint8](r)
			columnsOf[int16](r)
			columnsOf[uint16](r)
			columnsOf[int32](r)
			columnsOf[uint32](r)
			columnsOf[int64](r)
			columnsOf[uint64](r)
		}
	})
	It("are added up in float64", func() {
		r := rand.New(rand.NewPCG(7, 8))
		for range 300 {
			n, rows := 1+r.IntN(100), 1+r.IntN(9)
			ld, squares := n+r.IntN(3), r.IntN(2) == 0
			src, want := guarded[int32](r, (rows-1)*ld+n), make([]float64, n)
			for i := range src {
				src[i] = int32(r.Uint32())
			}
			for i := range want {
				for k := range rows {
					x := float64(src[k*ld+i])
					if squares {
						x *= x
					}
					want[i] += x
				}
			}
			for _, set := range sets() {
				dst := guarded[float64](r, n)
				ok := element.WideColumns(set, squares, dst, src, ld, rows)
				Expect(ok).To(Equal(set != isa.Portable && n >= 4))
				if ok {
					Expect(dst).To(Equal(want), "squares %v, %d rows of %d with %v", squares, rows, n, set)
				}
			}
		}
	})
	It("are looked through for the greatest and least elements", func() {
		r := rand.New(rand.NewPCG(9, 10))
		for range 300 {
			n, rows, first := 1+r.IntN(100), r.IntN(9), r.IntN(3)
			if r.IntN(30) == 0 {
				rows = 3000
			}
			ld := n + r.IntN(3)
			c := []element.Comparison{element.Less, element.AtMost, element.Greater, element.AtLeast}[r.IntN(4)]
			src, start := guarded[float32](r, max(0, (rows-1)*ld+n)), make([]float32, n)
			for _, x := range [][]float32{src, start} {
				for i := range x {
					if x[i] = float32(r.IntN(7) - 3); r.IntN(20) == 0 {
						x[i] = float32(math.NaN())
					}
				}
			}
			best, at := slices.Clone(start), make([]uint32, n)
			for i := range n {
				for k := range rows {
					x, b := src[k*ld+i], best[i]
					if c == element.Less && x < b || c == element.AtMost && x <= b || c == element.Greater && x > b || c == element.AtLeast && x >= b {
						best[i], at[i] = x, uint32(first+k)
					}
				}
			}
			for _, set := range sets() {
				b, places := guarded[float32](r, n), guarded[uint32](r, n)
				copy(b, start)
				clear(places)
				ok := element.Extremes(set, c, b, places, src, ld, rows, first)
				Expect(ok).To(Equal(set != isa.Portable && n >= 8))
				if ok {
					Expect(places).To(Equal(at), "%v, %d rows of %d from %d with %v", c, rows, n, first, set)
					for i, x := range b {
						Expect(math.Float32bits(x)).To(Equal(math.Float32bits(best[i])))
					}
				}
			}
		}
	})
})
