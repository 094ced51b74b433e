package opencl_test

import (
	"context"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/opencl"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Conversions that copy and reorder", func() {
	// on returns a tensor in memory of the format's device, some bytes into its block.
	on := func(d device.Device, f graph.Format, off int, dims ...int) *tensor.Tensor {
		GinkgoHelper()
		n, err := graph.PhysicalSize(graph.On(f.Layout), tensor.Float32, dims)
		Expect(err).NotTo(HaveOccurred())
		if f.Device.IsHost() {
			return &tensor.Tensor{DType: tensor.Float32, Shape: dims, Data: make([]byte, int(n)+off), Offset: off}
		}
		m, err := d.Alloc(n + int64(off))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { d.Free(m) })
		return &tensor.Tensor{DType: tensor.Float32, Shape: dims, Device: d.ID(), Handle: m.Handle, Offset: off}
	}
	fill := func(t *tensor.Tensor, r *rand.Rand) {
		for i := range t.Data {
			t.Data[i] = byte(r.Uint32() & 0x3f)
		}
	}

	DescribeTable("make what the host's reorder makes", func(ctx SpecContext, off int, queued bool, dims ...int) {
		d := open().Devices()[0]
		b, err := opencl.Open(backend.Config{Name: "opencl"})
		Expect(err).NotTo(HaveOccurred())
		r := rand.New(rand.NewPCG(21, 22))
		var x convert.Exec
		if queued {
			s, err := d.NewStream()
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(s.Close)
			x.Stream = s
		}
		done := func(ctx context.Context) {
			GinkgoHelper()
			if x.Stream != nil {
				Expect(x.Stream.Sync(ctx)).To(Succeed())
			}
		}
		seen := 0
		for _, up := range b.Converters() {
			if up.Name != "upload-reorder" || !up.Supports(tensor.Float32, len(dims)) {
				continue
			}
			seen++
			move, err := up.Plan(tensor.Float32, dims)
			Expect(err).NotTo(HaveOccurred())
			host, here := on(d, up.From, 0, dims...), on(d, up.To, off, dims...)
			rows := &tensor.Tensor{DType: tensor.Float32, Shape: dims, Data: make([]byte, 4*product(dims))}
			fill(rows, r)
			reorder(ctx, host, rows, up.From.Layout, graph.RowMajor)
			Expect(move(ctx, here, host, x)).To(Succeed())
			done(ctx)
			want := on(d, graph.On(up.To.Layout), 0, dims...)
			reorder(ctx, want, host, up.To.Layout, up.From.Layout)
			got := make([]byte, len(want.Data))
			Expect(d.CopyFrom(ctx, nil, got, device.MemoryOf(here), int64(off))).To(Succeed())
			Expect(got).To(Equal(want.Data), "%v to %v", up.From, up.To)

			for _, down := range b.Converters() {
				if down.Name != "download-reorder" || down.From != up.To || down.To != up.From {
					continue
				}
				seen++
				move, err := down.Plan(tensor.Float32, dims)
				Expect(err).NotTo(HaveOccurred())
				back := on(d, up.From, 0, dims...)
				for i := range back.Data {
					back.Data[i] = 0xee
				}
				Expect(move(ctx, back, here, x)).To(Succeed())
				done(ctx)
				Expect(back.Data).To(Equal(host.Data), "%v to %v", down.From, down.To)
			}
		}
		Expect(seen).To(Equal(10))
	},
		Entry("at once", 0, false, 2, 19, 3, 5),
		Entry("on a stream", 16, true, 2, 19, 3, 5),
		Entry("on a stream, of one spatial dim", 64, true, 2, 5, 7),
		Entry("where a tensor lies as kernels cannot read it", 4, true, 2, 19, 3, 5),
		Entry("of nothing", 0, false, 2, 0, 3, 5))

	It("turns down an option that is neither", func() {
		_, err := opencl.Open(backend.Config{Name: "opencl", Options: map[string]string{"reorder": "both"}})
		Expect(err).To(MatchError(backend.ErrOption))
	})

	It("turns down tensors that are too small", func(ctx SpecContext) {
		b := open()
		d := b.Devices()[0]
		for _, c := range b.Converters() {
			if c.Name != "upload-reorder" || !c.Supports(tensor.Float32, 4) {
				continue
			}
			move, err := c.Plan(tensor.Float32, []int{1, 16, 2, 2})
			Expect(err).NotTo(HaveOccurred())
			here := on(d, c.To, 0, 1, 16, 2, 2)
			short := &tensor.Tensor{DType: tensor.Float32, Shape: []int{1, 16, 2, 2}, Data: make([]byte, 8)}
			Expect(move(ctx, here, short, convert.Exec{})).To(MatchError(tensor.ErrShape))
			small := on(d, c.To, 0, 1, 1, 1, 1)
			whole := on(d, c.From, 0, 1, 16, 2, 2)
			Expect(move(ctx, small, whole, convert.Exec{})).To(MatchError(device.ErrBounds))
			return
		}
	})
})

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// reorder changes the layout of a tensor of the host's.
func reorder(ctx context.Context, dst, src *tensor.Tensor, to, from graph.Layout) {
	GinkgoHelper()
	if from == to {
		copy(dst.Data, src.Data)
		return
	}
	move, err := convert.PlanHost(from, to, src.DType, src.Shape)
	Expect(err).NotTo(HaveOccurred())
	Expect(move(ctx, dst, src, convert.Exec{})).To(Succeed())
}
