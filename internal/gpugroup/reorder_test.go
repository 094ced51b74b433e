package gpugroup_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fibre"
)

// reordering is one kernel with what it is to do.
type reordering struct {
	from, to graph.Layout
	dt       tensor.DType
	dims     []int
	plan     *gpukernel.Plan
}

func (x *reordering) String() string {
	return fmt.Sprintf("%v%v from %v to %v", x.dt, x.dims, x.from, x.to)
}

var _ = Describe("Reorder", func() {
	d := &gpugroup.Device{Kernels: gpukernel.NVIDIA(90, 132)}

	It("moves and casts elements as the host's reorder does, padding included", func(ctx SpecContext) {
		r := rand.New(rand.NewPCG(11, 12))
		var list []*reordering
		var plans []*gpukernel.Plan
		types := []tensor.DType{tensor.Float32, tensor.Float16, tensor.Uint8, tensor.Int64}
		add := func(from, to graph.Layout, rank int) {
			x := &reordering{from: from, to: to, dt: types[r.IntN(len(types))]}
			for range rank {
				x.dims = append(x.dims, 1+r.IntN(7))
			}
			x.dims[1] = 1 + r.IntN(40)
			var err error
			x.plan, err = d.Reorder(from, to, x.dt, x.dims)
			Expect(err).NotTo(HaveOccurred(), "%v", x)
			for i := range x.plan.Launches { // names of one program differ
				x.plan.Launches[i].Kernel.Name = fmt.Sprintf("reorder%d_%d", len(list), i)
			}
			list, plans = append(list, x), append(plans, x.plan)
		}
		for _, rank := range []int{3, 4, 5} {
			for _, pair := range gpugroup.Reorders(rank) {
				for range 3 {
					add(pair.Host, pair.Device, rank)
					add(pair.Device, pair.Host, rank)
				}
			}
		}
		for _, t := range []gpukernel.Type{gpukernel.F16, gpukernel.BF16, gpukernel.F32, gpukernel.F64} {
			types = gpugroup.CastsTo(t)
			for _, rank := range []int{0, 0, 3, 4, 5} {
				for _, pair := range gpugroup.Casts(rank, t) {
					add(pair.Host, pair.Device, max(rank, 2))
					add(pair.Device, pair.Host, max(rank, 2))
				}
			}
		}
		p, err := fibre.Start(ctx, GinkgoT().TempDir(), fibre.Address, fibre.Kernels(plans...)...)
		if errors.Is(err, fibre.ErrNoCompiler) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		for _, x := range list {
			x.compare(ctx, p, r)
		}
		Expect(p.Close()).To(Succeed())
	})

	It("is refused where there are no elements, or these are no bytes", func() {
		_, err := d.Reorder(graph.RowMajor, graph.NHWC, tensor.Float32, []int{1, 0, 2, 2})
		Expect(err).To(MatchError(gpukernel.ErrUnsupported))
		_, err = d.Reorder(graph.RowMajor, graph.NHWC, tensor.String, []int{1, 1, 2, 2})
		Expect(err).To(MatchError(gpukernel.ErrUnsupported))
		_, err = d.Reorder(graph.RowMajor, graph.NHWC, tensor.Float32, []int{1, 2})
		Expect(err).To(HaveOccurred())
	})
})

// unfit is a device whose kernels do not compile.
type unfit struct {
	gpugroup.Reorderer
	blocks map[uintptr][]byte
}

var errUnfit = errors.New("a kernel did not compile")

func (unfit) Kernel(*gpukernel.Plan) (gpugroup.Reorder, error) { return nil, errUnfit }

func (u unfit) CopyTo(_ context.Context, _ device.Stream, dst device.Memory, off int64, src []byte) error {
	copy(u.blocks[dst.Handle][off:], src)
	return nil
}

var _ = Describe("a conversion whose kernel does not compile", func() {
	It("says so, and the host reorders", func(ctx SpecContext) {
		d := &gpugroup.Device{ID: tensor.DeviceID{Type: tensor.OpenCL}, Kernels: gpukernel.NVIDIA(90, 132)}
		on := unfit{blocks: map[uintptr][]byte{7: make([]byte, 48)}}
		for _, c := range d.Reorders(on, convert.Cost{}) {
			if c.Name != "upload-reorder" || c.From != graph.HostFormat || c.To.Layout != graph.NHWC {
				continue
			}
			_, err := c.Plan(tensor.Float32, []int{1, 2, 2, 3})
			var detour *convert.DetourError
			Expect(errors.As(err, &detour)).To(BeTrue())
			Expect(detour.Cause).To(MatchError(errUnfit))
			told := 0
			move, err := c.Prepare(tensor.Float32, []int{1, 2, 2, 3}, func(cause error) {
				told++
				Expect(cause).To(MatchError(errUnfit))
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(told).To(Equal(1))
			src := tensor.From([]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 1, 2, 2, 3)
			dst := &tensor.Tensor{DType: tensor.Float32, Shape: src.Shape, Device: d.ID, Handle: 7}
			Expect(move(ctx, dst, src, convert.Exec{})).To(Succeed())
			want := tensor.From([]float32{0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}, 12)
			Expect(on.blocks[7]).To(Equal(want.Bytes()))
			move, err = c.Plan(tensor.Float32, []int{1, 0, 2, 3})
			Expect(err).NotTo(HaveOccurred(), "there is nothing to reorder")
			Expect(move).NotTo(BeNil())
		}
	})
})

// compare runs the kernel, and compares it with the host's reorder.
func (x *reordering) compare(ctx context.Context, p *fibre.Program, r *rand.Rand) {
	GinkgoHelper()
	sized := func(l graph.Layout) *tensor.Tensor {
		dt, l := gpugroup.Lies(l, x.dt)
		n, err := graph.PhysicalSize(graph.On(l), dt, x.dims)
		Expect(err).NotTo(HaveOccurred())
		return &tensor.Tensor{DType: dt, Shape: x.dims, Data: make([]byte, n)}
	}
	rows, src, want, got := sized(graph.RowMajor), sized(x.from), sized(x.to), sized(x.to)
	for i := range rows.Data {
		rows.Data[i] = byte(r.Uint32())
		size := x.dt.Size()
		if x.dt.IsFloat() && i%size == size-1 { // no NaN
			rows.Data[i] &= 0x3f
		}
		if x.dt == tensor.Bool {
			rows.Data[i] &= 1
		}
	}
	reorder := func(dst, src *tensor.Tensor, to, from graph.Layout) {
		if from == to {
			copy(dst.Data, src.Data)
			return
		}
		_, from = gpugroup.Lies(from, x.dt)
		_, to = gpugroup.Lies(to, x.dt)
		move, err := convert.PlanHostCast(from, to, src.DType, dst.DType, x.dims)
		Expect(err).NotTo(HaveOccurred())
		Expect(move(ctx, dst, src, convert.Exec{})).To(Succeed())
	}
	reorder(src, rows, x.from, graph.RowMajor)
	reorder(want, src, x.to, x.from)
	for i := range got.Data {
		got.Data[i] = 0xee
	}
	Expect(p.Run(x.plan, map[string][]byte{"from": src.Data, "to": got.Data})).To(Succeed(), "%v", x)
	Expect(got.Data).To(Equal(want.Data), "%v", x)
}
