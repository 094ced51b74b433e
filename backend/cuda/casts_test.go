package cuda_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
)

var _ = DescribeTable("a Cast beside a conversion is a part of it, and makes what the reference makes to the bit",
	func(ctx SpecContext, x grouptest.Cast, want ...string) {
		g, err := x.Graph()
		Expect(err).NotTo(HaveOccurred())
		p, err := compile(ctx, driver(), g, carve.Options{Poison: true, Strict: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		conversions, groups, err := x.Compare(ctx, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(groups).To(Equal([]string{"cuda 2"}))
		Expect(conversions).To(Equal(want))
	},
	Entry("images of half precision", grouptest.Cast{From: tensor.Float16, To: tensor.Float32, Dims: []int{2, 19, 5, 3}},
		"x: host:NCHW → cuda:0:gpu@1:f32-acdb by upload-cast", "y: cuda:0:NHWC → host:NCHW by download-reorder"),
	Entry("volumes of bytes", grouptest.Cast{From: tensor.Uint8, To: tensor.Float32, Dims: []int{1, 7, 2, 3, 5}},
		"x: host:NCDHW → cuda:0:gpu@1:f32-acdeb by upload-cast", "y: cuda:0:NDHWC → host:NCDHW by download-reorder"),
	Entry("matrices of int64, unless a kernel in the group's graph costs less", grouptest.Cast{From: tensor.Int64, To: tensor.Float32, Dims: []int{13, 37}},
		"x: host:row-major → cuda:0:row-major by upload", "y: cuda:0:row-major → host:row-major by download"),
	Entry("one spatial dim, to double precision", grouptest.Cast{From: tensor.Float32, To: tensor.Float64, Dims: []int{2, 5, 11}},
		"x: host:NCW → cuda:0:gpu@1:f64-acb by upload-cast", "y: cuda:0:NWC → host:NCW by download-reorder"),
	Entry("images that become bfloat16", grouptest.Cast{From: tensor.Float32, To: tensor.BFloat16, Dims: []int{1, 23, 4, 3}, Behind: true},
		"x: host:NCHW → cuda:0:NHWC by upload-reorder", "y: cuda:0:gpu@1:f32-acdb → host:NCHW by download-cast"),
	Entry("matrices that become half precision, unless a kernel in the group's graph costs less", grouptest.Cast{From: tensor.Float32, To: tensor.Float16, Dims: []int{5, 35}, Behind: true},
		"x: host:row-major → cuda:0:row-major by upload", "y: cuda:0:row-major → host:row-major by download"),
)

var _ = It("conversions between blocks of channels on the host and what a device keeps in another type are one step", func(ctx SpecContext) {
	hops, err := grouptest.RunBetween(ctx, config(driver()))
	Expect(err).NotTo(HaveOccurred())
	Expect(hops).To(Equal([]string{"x: host:NCHW → host:NCHW16c by host-reorder", "Op1: host:NCHW16c → cuda:0:gpu@1:f64-acdb by upload-cast",
		"Op4: cuda:0:gpu@1:f64-acdb → host:NCHW16c by download-cast", "Op5: host:NCHW16c → host:NCHW by host-reorder"}))
})

var _ = It("a group that fails falls back where its operands and results are kept as another type", func(ctx SpecContext) {
	for _, x := range []grouptest.Cast{
		{From: tensor.Int64, To: tensor.Float32, Dims: []int{1, 5, 3, 4}}, {From: tensor.Float32, To: tensor.Float16, Dims: []int{1, 5, 3, 4}, Behind: true},
	} {
		g, err := x.Graph()
		Expect(err).NotTo(HaveOccurred())
		fake := driver()
		fell := 0
		for n := 1; n <= 3; n++ { // of the conversions' kernels, which are no group's, the failure is the run's
			p, err := compile(ctx, fake, g, carve.Options{Poison: true})
			Expect(err).NotTo(HaveOccurred())
			fake.FailIn("cuLaunchKernel")
			fake.Set("fail_at", n)
			_, _, err = x.Compare(ctx, p)
			fake.FailIn("")
			fake.Set("fail_at", 0)
			if err != nil {
				var failed *cuda.Error
				Expect(errors.As(err, &failed)).To(BeTrue(), "%v", err)
			}
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			if slices.ContainsFunc(r.Rejected, func(r carve.RejectedReport) bool { return strings.Contains(r.Reason, "cuLaunchKernel") }) {
				fell++
			}
			Expect(p.Close()).To(Succeed())
		}
		Expect(fell).To(Equal(1))
		Expect(fake.Report()).To(BeEmpty())
	}
})

var _ = It("a caller's tensor on the device is taken where the program has the operand kept as another type", func(ctx SpecContext) {
	x := grouptest.Cast{From: tensor.Float16, To: tensor.Float32, Dims: []int{2, 5, 3, 4}}
	g, err := x.Graph()
	Expect(err).NotTo(HaveOccurred())
	b := open(driver())
	m := carve.FromGraph(g)
	DeferCleanup(m.Close)
	p, err := carve.Compile(ctx, m, &carve.Options{Open: map[string]backend.Backend{"cuda": b}, Backends: []backend.Config{{Name: "cuda"}}, Placement: carve.Priority, Verify: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	rows := whole(rand.New(rand.NewPCG(1, 2)), 9, x.Dims...)
	in, err := tensor.Convert(rows, tensor.Float16, nil)
	Expect(err).NotTo(HaveOccurred())
	want, err := p.Run(ctx, map[string]tensor.Value{"x": in})
	Expect(err).NotTo(HaveOccurred())
	d := b.Devices()[0]
	at, err := d.Alloc(int64(len(in.Data)))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(d.Free, at)
	Expect(d.CopyTo(ctx, nil, at, 0, in.Data)).To(Succeed())
	for range 3 {
		got, err := p.Run(ctx, map[string]tensor.Value{"x": &tensor.Tensor{DType: in.DType, Shape: in.Shape, Device: d.ID(), Handle: at.Handle}})
		Expect(err).NotTo(HaveOccurred())
		Expect(got["y"].(*tensor.Tensor).Bytes()).To(Equal(want["y"].(*tensor.Tensor).Bytes()))
	}
})

var _ = DescribeTable("a caller's image on the device is brought into the order that a group reads there",
	func(ctx SpecContext, offset, copied int) {
		b := open(driver())
		copies, err := grouptest.CompareOnDevice(ctx, b, offset, func() int { return b.(interface{ Calls() map[string]int }).Calls()["cuMemcpyHtoDAsync_v2"] })
		Expect(err).NotTo(HaveOccurred())
		Expect(copies).To(Equal(copied), "from the host's memory")
	},
	Entry("by one kernel", 0, 0),
	Entry("by one kernel, where it lies behind something else", 64, 0),
	Entry("by way of the host, where kernels do not read", 4, 1),
)
