package plugin_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// relu is a model that the odd plugin can run: once, or with a symbol.
func relu() *carve.Model {
	g, err := graph.Parse("graph \"relu\" {\n  opset 17\n  input %x: f32[N,3]\n  %y = Relu(%x)\n  output %y\n}\n")
	Expect(err).NotTo(HaveOccurred())
	return carve.FromGraph(g)
}

// use compiles and runs relu with the plugin before cpu, and returns the report.
func use(ctx context.Context, path string, input *tensor.Tensor) *carve.Report {
	m := relu()
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "odd"}, {Name: "cpu"}}, Plugins: []string{path}})
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = p.Close() }()
	out, err := p.Run(ctx, map[string]tensor.Value{"x": input})
	Expect(err).NotTo(HaveOccurred())
	y, ok := out["y"].(*tensor.Tensor)
	Expect(ok).To(BeTrue())
	x, err := input.Clone() // compact
	Expect(err).NotTo(HaveOccurred())
	want := tensor.Of[float32](x)
	for i := range want {
		want[i] = max(want[i], 0)
	}
	Expect(tensor.Of[float32](y)).To(Equal(want))
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	return r
}

var _ = Describe("a plugin that does as it should not", func() {
	x := func() *tensor.Tensor { return tensor.From([]float32{1, -2, 3, -4, 5, -6}, 2, 3) }
	odd := func(name string) string { return build(GinkgoTB(), "testdata/odd.c", "-DODD="+name) }

	DescribeTable("is not opened", func(name string, target error, text string) {
		_, err := plugin.Open(odd(name))
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(target))
		Expect(err).To(MatchError(ContainSubstring(text)))
	},
		Entry("no table", "NO_TABLE", plugin.ErrVersion, "another host, please"),
		Entry("another major version", "OTHER_MAJOR", plugin.ErrVersion, "version 7."),
		Entry("a table that is too short for a processor", "SHORT_TABLE", plugin.ErrPlugin, "compile"),
		Entry("no name", "NO_NAME", plugin.ErrPlugin, "name"),
		Entry("a list with NULL", "NULL_PROCESSOR", plugin.ErrPlugin, "NULL"),
		Entry("a struct that is shorter than its size", "TINY_STRUCT", plugin.ErrPlugin, "2 bytes"),
	)

	DescribeTable("is opened, and no backend comes of it", func(name, text string) {
		l, err := plugin.Open(odd(name))
		Expect(err).NotTo(HaveOccurred())
		_, err = l.Open("odd", nil)
		Expect(err).To(MatchError(plugin.ErrPlugin))
		Expect(err).To(MatchError(ContainSubstring(text)))
	},
		Entry("no handle", "NO_HANDLE", "no backend"),
		Entry("a list without end", "BAD_OPERATORS", "elements"),
	)

	DescribeTable("runs what it can", func(ctx SpecContext, name string) {
		r := use(ctx, odd(name), x())
		Expect(r.Groups).To(HaveLen(1))
		Expect(r.Groups[0].Backend).To(Equal("odd"))
		Expect(reasons(r)).To(BeEmpty())
	},
		Entry("right", "RIGHT"),
		Entry("a table of a later minor version", "NEWER_TABLE"),
		Entry("costs that are no numbers", "ODD_COST"),
	)

	DescribeTable("gets strided operands as they lie", func(ctx SpecContext, name string) {
		columns := tensor.From([]float32{1, -2, 3, -4, 5, -6}, 3, 2)
		columns.Shape, columns.Strides = []int{2, 3}, []int{1, 2} // the transposed matrix
		r := use(ctx, odd(name), columns)
		Expect(r.Groups[0].Backend).To(Equal("odd"))
		Expect(reasons(r)).To(BeEmpty())
	},
		Entry("and takes them", "TAKES_STRIDES"),
		Entry("and turns them down", "STRIDED"),
	)

	DescribeTable("leaves the node to others", func(ctx SpecContext, name string, code property.Code, text string) {
		r := use(ctx, odd(name), x())
		Expect(r.Groups).To(HaveLen(1))
		Expect(r.Groups[0].Backend).To(Equal("cpu"))
		Expect(reasons(r)).To(ContainElement(SatisfyAll(HavePrefix(string(code)), ContainSubstring(text))))
	},
		Entry("an operator of later versions", "LATER_VERSION", property.Version, "from version 99"),
		Entry("a schema with another digest", "OTHER_DIGEST", property.Version, "digest"),
		Entry("a signature with more ports than the node", "MORE_PORTS", property.Unsupported, "2 inputs"),
		Entry("a variable that is not there", "UNKNOWN_VARIABLE", property.Unsupported, "variable 7"),
		Entry("no reason", "NO_REASON", property.Unsupported, "no reason"),
		Entry("a compilation that is refused", "REFUSES", property.CompileFailed, "not today"),
		Entry("a compilation that fails", "COMPILE_FAILS", property.CompileFailed, "out of ideas"),
		Entry("an error that is longer than its buffer", "LONG_ERROR", property.CompileFailed, "out of ideas"),
	)

	DescribeTable("falls back", func(ctx SpecContext, name string, code property.Code, text string) {
		r := use(ctx, odd(name), x())
		Expect(reasons(r)).To(ContainElement(SatisfyAll(HavePrefix(string(code)), ContainSubstring(text))))
	},
		Entry("a run that fails", "FAILS", property.RunFailed, `the \x01 unit is on fire`),
		Entry("a shape that is refused", "NEEDS_SHAPES", property.SpecializeFail, "not this shape"),
		Entry("a buffer beyond its sub-steps", "BAD_BUFFER", property.SpecializeFail, "buffer 0"),
		Entry("a negative number of sub-steps", "BAD_STEPS", property.SpecializeFail, "-4 sub-steps"),
	)

	It("is an error where it claims nodes that are not there", func(ctx SpecContext) {
		m := relu()
		defer m.Close()
		_, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "odd"}}, Plugins: []string{odd("BAD_CLAIM")}})
		Expect(err).To(MatchError(ContainSubstring("node 12345")))
	})

	It("is told of what it leaks", func(ctx SpecContext) {
		l, err := plugin.Open(odd("LEAK"))
		Expect(err).NotTo(HaveOccurred())
		b, err := l.Open("odd", nil)
		Expect(err).NotTo(HaveOccurred())
		m := relu()
		defer m.Close()
		p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "odd"}}, Open: map[string]backend.Backend{"odd": b}})
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Close()).To(Succeed())
		Expect(b.Close()).To(MatchError(ContainSubstring("1 executables")))
	})
})

// reasons are those for which nodes are not on the odd backend.
func reasons(r *carve.Report) []string {
	var out []string
	for _, n := range r.Rejected {
		if n.Backend == "odd" {
			out = append(out, n.Reason)
		}
	}
	return out
}
