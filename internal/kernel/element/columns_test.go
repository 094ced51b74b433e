package element_test

import (
	"math/rand/v2"
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
})
