package tensor_test

import (
	"math"
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
})
