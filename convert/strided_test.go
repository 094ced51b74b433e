package convert_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("PlanStrided", func() {
	layouts := func(rank int) []graph.Layout {
		if rank != 4 {
			return []graph.Layout{graph.RowMajor}
		}
		return []graph.Layout{graph.RowMajor, graph.NHWC, graph.NCHW16c, graph.NCHW8c}
	}

	DescribeTable("is PlanHost of the compact tensor", func(ctx SpecContext, dt tensor.DType, dims, strides []int) {
		last := 1
		for i, s := range strides {
			last += s * (dims[i] - 1)
		}
		size := dt.Size()
		data, err := tensor.New(tensor.Uint8, last*size+3)
		Expect(err).NotTo(HaveOccurred())
		for i := range data.Data {
			data.Data[i] = byte(i*7 + i>>8)
		}
		for _, off := range []int{0, 3} {
			src := &tensor.Tensor{DType: dt, Shape: dims, Strides: strides, Data: data.Data[:off+last*size], Offset: off}
			compact, err := src.Clone()
			Expect(err).NotTo(HaveOccurred())
			for _, l := range layouts(len(dims)) {
				n, err := graph.PhysicalSize(graph.On(l), dt, dims)
				Expect(err).NotTo(HaveOccurred())
				out := func() *tensor.Tensor {
					t, err := tensor.New(tensor.Uint8, int(n))
					Expect(err).NotTo(HaveOccurred())
					for i := range t.Data {
						t.Data[i] = 0xee
					}
					return &tensor.Tensor{DType: dt, Shape: dims, Data: t.Data}
				}
				got, want := out(), out()
				move, err := convert.PlanStrided(strides, l, dt, dims)
				Expect(err).NotTo(HaveOccurred())
				Expect(move(ctx, got, src, convert.Exec{})).To(Succeed())
				if l == graph.RowMajor {
					copy(want.Data, compact.Data)
				} else {
					plain, err := convert.PlanHost(graph.RowMajor, l, dt, dims)
					Expect(err).NotTo(HaveOccurred())
					Expect(plain(ctx, want, compact, convert.Exec{})).To(Succeed())
				}
				Expect(got.Data).To(Equal(want.Data), "%v", l)
				short := *src
				short.Data = short.Data[:len(short.Data)-1]
				Expect(move(ctx, got, &short, convert.Exec{})).To(MatchError(tensor.ErrShape))
			}
		}
	},
		Entry("rows apart", tensor.Float32, []int{2, 3, 5, 7}, []int{200, 60, 11, 1}),
		Entry("channels last", tensor.Float32, []int{2, 3, 5, 7}, []int{105, 1, 21, 3}),
		Entry("a dim that repeats", tensor.Float32, []int{2, 20, 3, 4}, []int{0, 12, 4, 1}),
		Entry("every other element", tensor.Uint8, []int{1, 3, 4, 4}, []int{0, 32, 8, 2}),
		Entry("of 16 bytes, transposed", tensor.Complex128, []int{5, 3}, []int{1, 5}),
		Entry("of 2 bytes", tensor.Float16, []int{40, 70}, []int{1, 41}),
		Entry("a vector", tensor.Int64, []int{9}, []int{3}),
		Entry("a single element", tensor.Float32, []int{1, 1}, []int{7, 9}),
		Entry("a scalar", tensor.Float32, []int{}, []int{}),
	)

	It("does nothing for no elements, and refuses what is no tensor of the host", func(ctx SpecContext) {
		none := &tensor.Tensor{DType: tensor.Float32, Shape: []int{3, 0}, Data: []byte{}}
		move, err := convert.PlanStrided([]int{9, 1}, graph.RowMajor, tensor.Float32, []int{3, 0})
		Expect(err).NotTo(HaveOccurred())
		Expect(move(ctx, none, none, convert.Exec{})).To(Succeed())
		for _, strides := range [][]int{{1}, {-1, 1}, {1 << 60, 1 << 60}} {
			_, err := convert.PlanStrided(strides, graph.RowMajor, tensor.Float32, []int{3, 4})
			Expect(err).To(MatchError(tensor.ErrShape))
		}
		_, err = convert.PlanStrided([]int{1}, graph.RowMajor, tensor.Int4, []int{3})
		Expect(err).To(MatchError(tensor.ErrUnsupported))
		_, err = convert.PlanStrided([]int{1}, graph.NCHW16c, tensor.Float32, []int{3})
		Expect(err).To(MatchError(graph.ErrLayout))
	})
})
