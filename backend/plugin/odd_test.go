package plugin_test

import (
	"context"
	"math"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
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
		Entry("a struct that ends within a pointer", "CUT_STRUCT", plugin.ErrPlugin, "36 bytes"),
		Entry("two processors of one name", "TWO_PROCESSORS", plugin.ErrPlugin, "two processors"),
		Entry("a name that is NULL and not empty", "NULL_NAME", plugin.ErrPlugin, `the name ""`),
		Entry("a name with the NUL that C puts behind it", "ENDLESS_NAME", plugin.ErrPlugin, `the name "odd\x00"`),
		Entry("memory of the host's that is not the host's", "DEVICE_OF_HOST", plugin.ErrPlugin, "alloc"),
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
		Entry("an operator that is NULL", "NULL_OPERATOR", "operator 0 is NULL"),
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
		Entry("an operator that is listed twice", "TWICE"),
		Entry("an operator from a version to an earlier one, and right behind it", "BACKWARDS"),
		Entry("labels of nodes that are not there", "ODD_NODES"),
		Entry("a claim that has a node twice", "CLAIMS_TWICE"),
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
		Entry("a reason that is nowhere, and without end", "ENDLESS_REASON", property.Unsupported, "no reason"),
		Entry("a layout that is none", "ODD_LAYOUT", property.Unsupported, `"aBcd0b"`),
		Entry("a layout of 100,000 letters", "LONG_LAYOUT", property.Unsupported, strings.Repeat("a", 80)+`":`),
		Entry("a device that is none", "ODD_DEVICE", property.Unsupported, "the device -77:0"),
		Entry("variables that are nowhere", "NULL_VARIABLES", property.Unsupported, "2147483648 elements"),
		Entry("ports that are NULL", "NULL_PORTS", property.Unsupported, "port 0 is NULL"),
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
		Entry("more sub-steps than anybody has", "MANY_STEPS", property.SpecializeFail, "2147483647 sub-steps"),
		Entry("memory aligned to no power of two", "ODD_ALIGN", property.SpecializeFail, "aligned to 3"),
		Entry("memory aligned to more than blocks are", "HUGE_ALIGN", property.SpecializeFail, "aligned to 4611686018427387904"),
		Entry("no requirements", "NO_REQUIREMENTS", property.SpecializeFail, "NULL"),
		Entry("an output that is not there in the place of an input", "ODD_INPLACE", property.SpecializeFail, "output 99"),
		Entry("a constant that is not there", "ODD_CONSTANT", property.SpecializeFail, "constant 99 of 0"),
		Entry("labels that are NULL", "NULL_LABELS", property.SpecializeFail, "label 0 is NULL"),
		Entry("no instance", "NO_INSTANCE", property.SpecializeFail, "no instance"),
		Entry("no session", "NO_SESSION", property.RunFailed, "no session"),
		Entry("a status that there is not", "ODD_STATUS", property.RunFailed, "status 12345"),
		Entry("a run that goes on without an event", "NO_EVENT", property.RunFailed, "no event"),
	)

	DescribeTable("does no harm to neighbours of what it runs", func(ctx SpecContext, name string, memory bool) {
		g, err := graph.Parse("graph \"two\" {\n  opset 17\n  input %x: f32[N,3]\n  %a = Exp(%x)\n  %b = Relu(%a)\n  %c = Exp(%b)\n  %y = Sub(%c, %a)\n  output %y\n}\n")
		Expect(err).NotTo(HaveOccurred())
		m := carve.FromGraph(g)
		defer m.Close()
		p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "odd"}, {Name: "cpu"}}, Plugins: []string{odd(name)}, Verify: true, Poison: true})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		out, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, -2, 3, -4, 2, -6}, 2, 3)})
		if memory {
			Expect(err).To(Or(MatchError(carve.ErrMemoryLimit), MatchError(device.ErrOutOfMemory)))
			return
		}
		Expect(err).NotTo(HaveOccurred())
		for i, v := range []float64{1, -2, 3, -4, 2, -6} {
			Expect(tensor.Of[float32](out["y"].(*tensor.Tensor))[i]).To(BeNumerically("~", math.Exp(math.Exp(v))-math.Exp(v), 1e-4*math.Exp(math.Exp(v))))
		}
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(ContainElement(HaveField("Backend", "odd")))
	},
		Entry("by an output of fewer bytes than its shape's", "SHORT_OUTPUT", false),
		Entry("by an output of more bytes than there are", "BIG_OUTPUT", false),
		Entry("by an input of more bytes than there are", "BIG_INPUT", false),
		Entry("by a buffer of more bytes than there are", "BIG_BUFFER", true),
		Entry("by buffers of more bytes than can be counted", "BIG_BUFFERS", true),
	)

	DescribeTable("is an error", func(ctx SpecContext, name, text string) {
		m := relu()
		defer m.Close()
		_, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "odd"}}, Plugins: []string{odd(name)}})
		Expect(err).To(MatchError(ContainSubstring(text)))
	},
		Entry("where it claims nodes that are not there", "BAD_CLAIM", "node 12345"),
		Entry("where a claim has neither name nor nodes", "CLAIMS_NOTHING", `claim 0 has the name "" and 0 nodes`),
		Entry("where the nodes of a claim are nowhere", "CLAIMS_NULL", "5 elements"),
		Entry("where a variable has no formats", "NO_FORMATS", "bad signature"),
	)

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
