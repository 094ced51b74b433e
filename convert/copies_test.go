package convert_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Copies", func() {
	// formats of the host and of both devices of a backend, and the registry of its copies.
	between := func(o fake.Options) (b *fake.Backend, formats []graph.Format, r *convert.Registry) {
		o.Devices, o.Delay = 2, 200*time.Microsecond
		b = fake.New(o)
		r, err := convert.NewRegistry(convert.Copies(graph.RowMajor, convert.HostCost, b.Devices()...))
		Expect(err).NotTo(HaveOccurred())
		formats = []graph.Format{graph.HostFormat, {Device: b.Devices()[0].ID()}, {Device: b.Devices()[1].ID()}}
		return b, formats, r
	}

	It("goes from device to device where CopyBetween reaches, and through the host elsewhere", func() {
		_, f, r := between(fake.Options{})
		path, err := r.Path(f[1], f[2])
		Expect(err).NotTo(HaveOccurred())
		Expect(path).To(HaveExactElements(HaveField("Name", "device-copy")))
		Expect(path[0].StreamDevice()).To(Equal(f[1].Device))

		_, f, r = between(fake.Options{NoPeers: true})
		path, err = r.Path(f[1], f[2])
		Expect(err).NotTo(HaveOccurred())
		Expect(path).To(HaveExactElements(HaveField("Name", "download"), HaveField("Name", "upload")))
		Expect(path[0].StreamDevice()).To(Equal(f[1].Device))
		Expect(path[1].StreamDevice()).To(Equal(f[2].Device))
	})

	It("says what the source or the destination on the host is short of", func(ctx SpecContext) {
		_, f, r := between(fake.Options{})
		full := tensor.From([]float32{1, 2, 3})
		short := &tensor.Tensor{DType: tensor.Float32, Shape: []int{3}, Data: make([]byte, 12), Offset: 4}
		for _, end := range []struct {
			from, to graph.Format
			name     string
		}{{f[0], f[1], "source"}, {f[1], f[0], "destination"}} {
			path, err := r.Path(end.from, end.to)
			Expect(err).NotTo(HaveOccurred())
			move, err := path[0].Plan(full.DType, full.Shape)
			Expect(err).NotTo(HaveOccurred())
			err = move(ctx, short, short, convert.Exec{})
			Expect(err).To(MatchError(tensor.ErrShape))
			Expect(err.Error()).To(ContainSubstring("a copy of f32[3] needs a " + end.name + " of 12 bytes, and has 8"))
		}
	})

	DescribeTable("brings tensors to a device, to another and back", func(ctx SpecContext, dt tensor.DType, dims ...int) {
		b, f, r := between(fake.Options{})
		x, err := tensor.New(dt, dims...)
		Expect(err).NotTo(HaveOccurred())
		for i := range x.Data {
			x.Data[i] = byte(3*i + 1)
		}
		here := x
		var blocks []device.Memory
		for i, to := range append(f[1:], f[0]) {
			next := &tensor.Tensor{DType: dt, Shape: dims, Device: to.Device}
			if to.Device.IsHost() {
				next.Data = make([]byte, len(x.Data)+5)
				next.Offset = 5
			} else {
				m, err := b.Devices()[i].Alloc(int64(len(x.Data)) + 64)
				Expect(err).NotTo(HaveOccurred())
				blocks = append(blocks, m)
				next.Handle, next.Offset = m.Handle, 64
			}
			path, err := r.Path(graph.Format{Device: here.Device}, to)
			Expect(err).NotTo(HaveOccurred())
			Expect(path).To(HaveLen(1))
			move, err := path[0].Plan(dt, dims)
			Expect(err).NotTo(HaveOccurred())
			var s device.Stream
			for _, d := range b.Devices() {
				if d.ID() == path[0].StreamDevice() {
					s, err = d.NewStream()
					Expect(err).NotTo(HaveOccurred())
				}
			}
			Expect(move(ctx, next, here, convert.Exec{Stream: s})).To(Succeed())
			Expect(s.Close()).To(Succeed())
			here = next
		}
		Expect(here.Data[5:]).To(Equal(x.Data))
		for i, m := range blocks {
			b.Devices()[i].Free(m)
		}
		Expect(b.Faults()).To(BeEmpty())
		Expect(b.Leaks()).To(BeEmpty())
	},
		Entry("of floats", tensor.Float32, 2, 3, 5),
		Entry("of half bytes", tensor.Int4, 7),
		Entry("without a dim", tensor.Float64),
		Entry("without an element", tensor.Float32, 0, 4),
	)

	It("turns down strings and storage that is too small", func(ctx SpecContext) {
		b, f, r := between(fake.Options{})
		path, err := r.Path(f[0], f[1])
		Expect(err).NotTo(HaveOccurred())
		Expect(path[0].Supports(tensor.String, 1)).To(BeFalse())
		_, err = path[0].Plan(tensor.String, []int{2})
		Expect(err).To(MatchError(tensor.ErrUnsupported))
		move, err := path[0].Plan(tensor.Float32, []int{4})
		Expect(err).NotTo(HaveOccurred())
		m, err := b.Devices()[0].Alloc(8)
		Expect(err).NotTo(HaveOccurred())
		there := &tensor.Tensor{Device: f[1].Device, Handle: m.Handle}
		Expect(move(ctx, there, &tensor.Tensor{Data: make([]byte, 15)}, convert.Exec{})).To(MatchError(tensor.ErrShape))
		Expect(move(ctx, there, &tensor.Tensor{Data: make([]byte, 16)}, convert.Exec{})).To(MatchError(device.ErrBounds))
		b.Devices()[0].Free(m)
	})
})
