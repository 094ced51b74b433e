package convert_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// sourceOf knows the converters of some layouts.
type sourceOf map[graph.Layout][]convert.Converter

func (s sourceOf) ConvertersOf(l graph.Layout) []convert.Converter { return s[l] }

var _ = Describe("Source", func() {
	host, nhwc := graph.HostFormat, graph.On(graph.NHWC)
	early, late, one, strange := own("early", false), own("late", false), own("one-way", false), own("strange", false)
	source := sourceOf{
		late.Layout:    {link("pack", host, late, 1), link("unpack", late, host, 1), link("direct", early, late, 1)},
		one.Layout:     {link("only-there", nhwc, one, 1)},
		strange.Layout: {link("in-circles", one, strange, 1)},
	}
	registry := func() *convert.Registry {
		r, err := convert.NewRegistry([]convert.Converter{link("to", host, early, 1), link("from", early, host, 1)}, nhwc)
		Expect(err).NotTo(HaveOccurred())
		return r
	}

	DescribeTable("is asked about layouts that the registry does not know", func(from, to graph.Format, want ...string) {
		r := registry()
		_, err := r.Path(from, to)
		Expect(err).To(MatchError(convert.ErrNoPath), "nobody was asked yet")
		r.AddSource(sourceOf{})
		r.AddSource(source)
		path, err := r.Path(from, to)
		Expect(err).NotTo(HaveOccurred())
		Expect(names(path)).To(Equal(want))
		for i, c := range path[1:] {
			Expect(c.From).To(Equal(path[i].To))
		}
	},
		Entry("there", host, late, "pack"),
		Entry("back", late, host, "unpack"),
		Entry("from another host layout", nhwc, late, "host-reorder", "pack"),
		Entry("to another host layout", late, nhwc, "unpack", "host-reorder"),
		Entry("to one that the registry knows", late, early, "unpack", "to"),
		Entry("the cheaper of two ways", early, late, "direct"),
		Entry("from one of its own to another", late, one, "unpack", "host-reorder", "only-there"),
	)

	It("has no path where there is none", func() {
		r := registry()
		r.AddSource(source)
		for _, f := range []graph.Format{one, strange, own("unknown", false)} {
			_, err := r.Path(f, host)
			Expect(err).To(MatchError(convert.ErrNoPath))
		}
		_, err := r.Path(host, strange)
		Expect(err).To(MatchError(convert.ErrNoPath), "a source's path does not go through two of its layouts")
	})

	It("knows sizes", func() {
		r := registry()
		r.AddSource(source)
		Expect(r.Size(late, tensor.Float32, []int{2, 5})).To(Equal(int64(30)))
		_, err := r.Size(own("unknown", false), tensor.Float32, []int{2, 5})
		Expect(err).To(MatchError(graph.ErrOpaque))
	})
})
