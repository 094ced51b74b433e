package tensor_test

import (
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("An error of size", func() {
	three := tensor.From([]float32{1, 2, 3})
	DescribeTable("says what is needed and what there is", func(do func() error, cause error, parts ...string) {
		err := do()
		Expect(err).To(MatchError(cause))
		for _, p := range parts {
			Expect(err.Error()).To(ContainSubstring(p))
		}
	},
		Entry("more elements than there can be", func() error { _, err := tensor.New(tensor.Bool, 1<<40, 1<<40); return err },
			tensor.ErrTooLarge, "shape [1099511627776 1099511627776]", "more than 576460752303423487 elements"),
		Entry("more memory than there is", func() error { _, err := tensor.New(tensor.Float64, 1<<50); return err },
			tensor.ErrTooLarge, "shape [1125899906842624] of f64", "needs 9007199254740992 bytes", "are left"),
		Entry("a negative dim", func() error { _, err := tensor.NumElements([]int{2, -1}); return err },
			tensor.ErrTooLarge, "dim -1 of shape [2 -1]"),
		Entry("short storage", func() error {
			return (&tensor.Tensor{DType: tensor.Float32, Shape: []int{2, 3}, Data: make([]byte, 20), Offset: 8}).Check()
		}, tensor.ErrShape, "f32 [2 3] needs 24 bytes", "has 12 from offset 8"),
		Entry("few strings", func() error {
			return (&tensor.Tensor{DType: tensor.String, Shape: []int{3}, Strings: []string{"a"}}).Check()
		}, tensor.ErrShape, "[3] needs 3 strings, storage has 1"),
		Entry("a stride without end", func() error {
			return (&tensor.Tensor{DType: tensor.Int8, Shape: []int{4}, Strides: []int{math.MaxInt64}}).Check()
		}, tensor.ErrShape, "stride 9223372036854775807 of [4]", "from 0 to 144115188075855871"),
		Entry("strides that add up", func() error {
			s := math.MaxInt64 / 64
			return (&tensor.Tensor{DType: tensor.Int8, Shape: []int{4, 4}, Strides: []int{s, s}}).Check()
		}, tensor.ErrTooLarge, "of [4 4] reach beyond 576460752303423487 elements"),
		Entry("a view of another size", func() error { _, err := three.View(2, 2); return err },
			tensor.ErrShape, "[3] has 3 elements, viewed as [2 2] with 4"),
		Entry("a slice to decode to", func() error { return tensor.Decode(make([]float64, 2), three) },
			tensor.ErrShape, "f32[3] has 3 elements, the slice 2"),
		Entry("a slice of integers to decode to", func() error { return tensor.DecodeInts(make([]int64, 4), three) },
			tensor.ErrShape, "f32[3] has 3 elements, the slice 4"),
		Entry("a slice to encode", func() error { return tensor.Encode(three, make([]float64, 2)) },
			tensor.ErrShape, "f32[3] has 3 elements, the slice 2"),
	)
})
