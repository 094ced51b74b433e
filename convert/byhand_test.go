package convert_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// Two layouts of the host are enough to reorder by hand: a row of pixels of three channels becomes three planes.
func ExamplePlanHost() {
	dims := []int{1, 3, 1, 4} // always the logical ones, [N, C, H, W]
	pixels := tensor.From([]float32{1, 10, 100, 2, 20, 200, 3, 30, 300, 4, 40, 400}, dims...)
	planes := tensor.From(make([]float32, 12), dims...)
	move, err := convert.PlanHost(graph.NHWC, graph.RowMajor, tensor.Float32, dims)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = move(context.Background(), planes, pixels, convert.Exec{}) // serial, on the caller's goroutine
	fmt.Println(tensor.Of[float32](planes), err)
	// Output:
	// [1 2 3 4 10 20 30 40 100 200 300 400] <nil>
}

// NewTensor allocates for any format; its size need not be that of the elements.
func ExampleRegistry_NewTensor() {
	blocked := graph.On(graph.NCHW16c)
	r, err := convert.NewRegistry(nil, blocked)
	if err != nil {
		fmt.Println(err)
		return
	}
	x := tensor.From([]float32{1, 2, 3}, 1, 3, 1, 1)
	y, _, err := r.NewTensor(nil, blocked, x.DType, x.Shape...)
	if err != nil {
		fmt.Println(err)
		return
	}
	path, err := r.Path(graph.HostFormat, blocked)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, hop := range path {
		move, err := hop.Plan(x.DType, x.Shape)
		if err == nil {
			err = move(context.Background(), y, x, convert.Exec{})
		}
		fmt.Println(hop.Name, y, len(y.Data), "bytes", err)
	}
	// Output:
	// host-reorder f32[1,3,1,1] 64 bytes <nil>
}

var _ = Describe("NewTensor", func() {
	It("takes blocks of devices, and of other allocators of the host", func() {
		b := fake.New(fake.Options{Memory: 1 << 20})
		d := b.Devices()[0]
		there := graph.Format{Device: d.ID(), Layout: graph.NCHW16c}
		r, err := convert.NewRegistry(nil, there)
		Expect(err).NotTo(HaveOccurred())
		t, m, err := r.NewTensor(d, there, tensor.Float32, 2, 3, 1, 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(t).To(HaveValue(Equal(tensor.Tensor{DType: tensor.Float32, Shape: []int{2, 3, 1, 1}, Device: d.ID(), Handle: m.Handle})))
		Expect(m.Size).To(BeEquivalentTo(2 * 16 * 4))
		d.Free(m)
		Expect(b.Leaks()).To(BeEmpty())

		t, m, err = r.NewTensor(device.Host, graph.HostFormat, tensor.Int4, 5)
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Data).To(HaveLen(3))
		Expect(t.Handle).To(BeZero())
		device.Host.Free(m)
	})

	It("says what is needed", func() {
		b := fake.New(fake.Options{Memory: 1 << 20})
		there := graph.Format{Device: b.Devices()[0].ID()}
		r, err := convert.NewRegistry(nil, there)
		Expect(err).NotTo(HaveOccurred())
		_, _, err = r.NewTensor(nil, there, tensor.Float32, 3)
		Expect(err).To(MatchError(tensor.ErrNotHost))
		Expect(err).To(MatchError(ContainSubstring("needs 12 bytes")))
		_, _, err = r.NewTensor(b.Devices()[0], there, tensor.Float32, 1<<20)
		Expect(err).To(MatchError(device.ErrOutOfMemory))
		Expect(err).To(MatchError(ContainSubstring("f32[1048576] in device12:100")))
		_, _, err = r.NewTensor(nil, graph.HostFormat, tensor.Float32, 1<<40)
		Expect(err).To(MatchError(tensor.ErrTooLarge))
		Expect(err).To(MatchError(MatchRegexp(`needs 4398046511104 bytes, \d+ are left`)))
		opaque, err := graph.OpaqueLayout("x", "1", "k")
		Expect(err).NotTo(HaveOccurred())
		_, _, err = r.NewTensor(nil, graph.On(opaque), tensor.Float32, 3)
		Expect(err).To(MatchError(graph.ErrOpaque))
	})
})
