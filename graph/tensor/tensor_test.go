package tensor_test

import (
	"math"
	"math/rand/v2"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Tensor", func() {
	DescribeTable("New aligns to Alignment", func(n int) {
		for range 20 {
			t, err := tensor.New(tensor.Uint8, n)
			Expect(err).NotTo(HaveOccurred())
			Expect(uintptr(unsafe.Pointer(unsafe.SliceData(t.Data))) % tensor.Alignment).To(BeZero())
			Expect(t.Data).To(HaveLen(n))
			Expect(cap(t.Data)).To(BeNumerically("<=", (n+tensor.Alignment)*9/8))
		}
	},
		Entry("a byte", 1), Entry("some", 1000), Entry("a page", 4096), Entry("a large object of Go's", 32<<10+1), Entry("many", 1<<20+3),
	)

	It("says what it needs", func() {
		_, err := tensor.New(tensor.Float32, 1<<40)
		Expect(err).To(MatchError(tensor.ErrTooLarge))
		Expect(err).To(MatchError(MatchRegexp(`\[1099511627776\] of f32 needs 4398046511104 bytes, \d+ are left`)))
		t := &tensor.Tensor{DType: tensor.Float32, Shape: []int{2, 3}, Data: make([]byte, 20), Offset: 4}
		Expect(t.Check()).To(MatchError(ContainSubstring("f32 [2 3] needs 24 bytes, storage has 16 from offset 4")))
	})

	It("is not misled by strides whose sum overflows", func() {
		t := &tensor.Tensor{DType: tensor.Float32, Data: make([]byte, 8)}
		for range 40 {
			t.Shape, t.Strides = append(t.Shape, 2), append(t.Strides, math.MaxInt64/32)
		}
		Expect(t.Check()).To(MatchError(tensor.ErrTooLarge))
	})

	It("is copied element by element whatever its strides are", func() {
		rng := rand.New(rand.NewPCG(1, 2))
		for range 500 {
			rank := rng.IntN(5)
			shape, order := make([]int, rank), rng.Perm(rank)
			for i := range shape {
				shape[i] = 1 + rng.IntN(4)
			}
			whole, err := tensor.New(tensor.Float32, shape...)
			Expect(err).NotTo(HaveOccurred())
			for i := range tensor.Of[float32](whole) {
				tensor.Of[float32](whole)[i] = float32(i)
			}
			part := whole
			for axis, n := range shape {
				lo := rng.IntN(n)
				part, err = part.Slice(axis, lo, lo+1+rng.IntN(n-lo))
				Expect(err).NotTo(HaveOccurred())
			}
			turned, strides := *part, tensor.CompactStrides(part.Shape)
			if part.Strides != nil {
				strides = part.Strides
			}
			turned.Shape, turned.Strides = make([]int, rank), make([]int, rank)
			for i, from := range order {
				turned.Shape[i], turned.Strides[i] = part.Shape[from], strides[from]
			}
			got, err := turned.Clone()
			Expect(err).NotTo(HaveOccurred())
			var want []float32
			var walk func(axis, at int)
			walk = func(axis, at int) {
				if axis == rank {
					want = append(want, tensor.Of[float32](whole)[at])
					return
				}
				for k := range turned.Shape[axis] {
					walk(axis+1, at+k*turned.Strides[axis])
				}
			}
			walk(0, turned.Offset/4)
			Expect(tensor.Of[float32](got)).To(Equal(want), "%v %v", turned.Shape, turned.Strides)
		}
	})
})
