package convert_test

import (
	"errors"
	"fmt"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// own returns an opaque format of a backend on the host, or on a device of type CUDA.
func own(key string, onDevice bool) graph.Format {
	l, err := graph.OpaqueLayout("own", "1", key)
	if err != nil {
		panic(err)
	}
	f := graph.On(l)
	if onDevice {
		f.Device = cuda
	}
	return f
}

var cuda = tensor.DeviceID{Type: tensor.CUDA}

// link is a converter of that cost, in nanoseconds per KiB, whose opaque ends take 3 bytes per element.
func link(name string, from, to graph.Format, cost float64) convert.Converter {
	return convert.Converter{
		Name: name, From: from, To: to, Cost: convert.Cost{PerByte: cost / 1024},
		Size: func(_ graph.Format, _ tensor.DType, dims []int) (int64, error) {
			n, err := tensor.NumElements(dims)
			return 3 * int64(n), err
		},
		Plan: func(tensor.DType, []int) (convert.Move, error) { return nil, errors.New("not run") },
	}
}

// floats makes a converter one of float32 tensors alone.
func floats(c convert.Converter) convert.Converter {
	c.Supports = func(dt tensor.DType, _ int) bool { return dt == tensor.Float32 }
	return c
}

func names(path []*convert.Converter) []string {
	out := []string{}
	for _, c := range path {
		out = append(out, c.Name)
	}
	return out
}

var _ = Describe("Registry", func() {
	host, a, b, c := graph.HostFormat, own("a", true), own("b", true), own("c", false)
	nhwc, blocked := graph.On(graph.NHWC), graph.On(graph.NCHW16c)

	DescribeTable("finds the cheapest path", func(links []convert.Converter, from, to graph.Format, want ...string) {
		r, err := convert.NewRegistry(links, nhwc)
		Expect(err).NotTo(HaveOccurred())
		path, err := r.Path(from, to)
		Expect(err).NotTo(HaveOccurred())
		Expect(names(path)).To(Equal(want))
		at := from
		for _, hop := range path {
			Expect(hop.From).To(Equal(at))
			at = hop.To
		}
		Expect(at).To(Equal(to))
	},
		Entry("a single hop", []convert.Converter{link("up", host, a, 100)}, host, a, "up"),
		Entry("through the host where there is no direct one", []convert.Converter{link("down", a, host, 100), link("up", host, b, 100)}, a, b, "down", "up"),
		Entry("the direct one where it is cheaper", []convert.Converter{link("down", a, host, 100), link("up", host, b, 100), link("peer", a, b, 150)}, a, b, "peer"),
		Entry("around the direct one where that is cheaper", []convert.Converter{link("down", a, host, 100), link("up", host, b, 100), link("peer", a, b, 250)}, a, b, "down", "up"),
		Entry("fewer hops of the same cost", []convert.Converter{link("down", a, host, 100), link("up", host, b, 100), link("peer", a, b, 200)}, a, b, "peer"),
		Entry("the cheaper of two between the same formats", []convert.Converter{link("slow", host, a, 100), link("fast", host, a, 50)}, host, a, "fast"),
		Entry("the first of two equal ones", []convert.Converter{link("first", host, a, 100), link("second", host, a, 100)}, host, a, "first"),
		Entry("a reorder of the package's own before the upload", []convert.Converter{link("up", nhwc, a, 100)}, host, a, "host-reorder", "up"),
		Entry("three hops", []convert.Converter{link("one", a, c, 10), link("two", c, nhwc, 10), link("three", nhwc, b, 10)}, a, b, "one", "two", "three"),
		Entry("a host layout that it was not told of", nil, blocked, nhwc, "host-reorder"),
		Entry("to a host layout that it was not told of, from a device", []convert.Converter{link("down", a, host, 100)}, a, blocked, "down", "host-reorder"),
		Entry("from a host layout that it was not told of, to a device", []convert.Converter{link("up", host, a, 100)}, blocked, a, "host-reorder", "up"),
		Entry("a backend's own between host layouts", []convert.Converter{link("theirs", host, nhwc, 1)}, host, nhwc, "theirs"),
	)

	DescribeTable("goes around converters that do not support a tensor", func(links []convert.Converter, from, to graph.Format, dt tensor.DType, want ...string) {
		r, err := convert.NewRegistry(links, nhwc)
		Expect(err).NotTo(HaveOccurred())
		path, err := r.PathOf(from, to, dt, 4)
		if len(want) == 0 {
			Expect(err).To(MatchError(convert.ErrNoPath))
			Expect(err).To(MatchError(ContainSubstring(dt.String() + " of rank 4")))
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(names(path)).To(Equal(want))
	},
		Entry("the direct one serves", []convert.Converter{link("down", a, host, 100), link("up", host, b, 100), floats(link("peer", a, b, 10))}, a, b, tensor.Float32, "peer"),
		Entry("through the host", []convert.Converter{link("down", a, host, 100), link("up", host, b, 100), floats(link("peer", a, b, 10))}, a, b, tensor.Int64, "down", "up"),
		Entry("a dearer one between the same formats", []convert.Converter{floats(link("fast", host, a, 10)), link("slow", host, a, 100)}, host, a, tensor.Int64, "slow"),
		Entry("the package's own between host layouts", []convert.Converter{floats(link("theirs", host, nhwc, 1))}, host, nhwc, tensor.Int64, "host-reorder"),
		Entry("there is no other", []convert.Converter{floats(link("up", host, a, 10))}, host, a, tensor.Int64),
		Entry("nobody reorders strings", nil, host, nhwc, tensor.String),
	)

	It("takes the same of several equally cheap paths, that by the format that was named first", func() {
		x, y := own("x", true), own("y", true)
		for range 20 {
			r, err := convert.NewRegistry([]convert.Converter{link("ax", a, x, 10), link("ay", a, y, 10), link("yb", y, b, 10), link("xb", x, b, 10)})
			Expect(err).NotTo(HaveOccurred())
			path, err := r.Path(a, b)
			Expect(err).NotTo(HaveOccurred())
			Expect(names(path)).To(Equal([]string{"ax", "xb"}))
		}
	})

	It("takes for a tensor of unknown rank the path of all", func() {
		r, err := convert.NewRegistry([]convert.Converter{floats(link("up", host, a, 10))})
		Expect(err).NotTo(HaveOccurred())
		path, err := r.PathOf(host, a, tensor.Float32, -1)
		Expect(err).NotTo(HaveOccurred())
		Expect(names(path)).To(Equal([]string{"up"}))
	})

	It("needs no hop between equal formats", func() {
		r, err := convert.NewRegistry(nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Path(a, a)).To(BeEmpty())
		Expect(r.Cost(a, a, 1<<20)).To(BeZero())
	})

	It("adds up the cost of the hops", func() {
		r, err := convert.NewRegistry([]convert.Converter{link("down", a, host, 100), link("up", host, b, 300)})
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Cost(a, b, 10<<10)).To(BeNumerically("~", 4000, 1e-6))
		Expect(r.Cost(b, a, 1)).To(Equal(math.Inf(1)))
	})

	It("says which formats have no path", func() {
		r, err := convert.NewRegistry([]convert.Converter{link("up", host, a, 100)})
		Expect(err).NotTo(HaveOccurred())
		for _, to := range []graph.Format{host, b, nhwc} {
			_, err := r.Path(a, to)
			Expect(err).To(MatchError(convert.ErrNoPath))
			Expect(err).To(MatchError(ContainSubstring(fmt.Sprint(to))))
		}
		_, err = r.Path(own("unseen", false), host)
		Expect(err).To(MatchError(convert.ErrNoPath))
	})

	It("knows sizes: described ones by rule, opaque ones from their owner", func() {
		r, err := convert.NewRegistry([]convert.Converter{link("up", host, a, 100)})
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Size(blocked, tensor.Float32, []int{1, 3, 4, 5})).To(Equal(int64(16 * 20 * 4)))
		Expect(r.Size(a, tensor.Float32, []int{1, 3, 4, 5})).To(Equal(int64(3 * 60)))
		Expect(r.Size(own("a", false), tensor.Float32, []int{4})).To(Equal(int64(12)), "a layout's size does not depend on the device")
		_, err = r.Size(b, tensor.Float32, []int{4})
		Expect(err).To(MatchError(graph.ErrOpaque))
	})

	It("turns down bad converters and bad sizes", func() {
		noPlan, noSize, negative := link("x", host, a, 1), link("x", host, a, 1), link("x", host, a, 1)
		noPlan.Plan, noSize.Size = nil, nil
		negative.Size = func(graph.Format, tensor.DType, []int) (int64, error) { return -1, nil }
		for _, c := range []convert.Converter{noPlan, noSize, link("loop", a, a, 1)} {
			_, err := convert.NewRegistry([]convert.Converter{c})
			Expect(err).To(MatchError(convert.ErrConverter))
		}
		r, err := convert.NewRegistry([]convert.Converter{negative})
		Expect(err).NotTo(HaveOccurred())
		_, err = r.Size(a, tensor.Float32, []int{4})
		Expect(err).To(MatchError(convert.ErrConverter))
	})
})
