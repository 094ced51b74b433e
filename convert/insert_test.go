package convert_test

import (
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
)

// parse reads the body of a graph; formats are those of the text.
func parse(body string) *graph.Graph {
	GinkgoHelper()
	g, err := graph.Parse("graph {\n  opset 13\n" + body + "\n}")
	Expect(err).NotTo(HaveOccurred())
	return g
}

// lines returns the text of the graph's nodes and outputs, without types and names of conversions.
func lines(g *graph.Graph) []string {
	GinkgoHelper()
	Expect(g.Sort()).To(Succeed())
	Expect(graph.Verify(g)).To(Succeed())
	var out []string
	for _, l := range strings.Split(g.String(), "\n") {
		l = strings.TrimSpace(l)
		if strings.HasPrefix(l, "%") || strings.HasPrefix(l, "$") || strings.HasPrefix(l, "output") {
			if i := strings.Index(l, " ports("); i >= 0 {
				l = l[:i]
			}
			l = strings.ReplaceAll(l, ": f32[1,16,8,8]", "")
			out = append(out, conversionName.ReplaceAllString(l, ""))
		}
	}
	return out
}

// conversionName is the name that a Convert node gets, and its empty provenance.
var conversionName = regexp.MustCompile(` "[^"]*→[^"]*"( from\(\))?`)

// value returns a value by its name.
func value(g *graph.Graph, name string) *graph.Value {
	GinkgoHelper()
	for _, v := range g.ValuesByID() {
		if v != nil && v.Name == name {
			return v
		}
	}
	Fail("no value " + name)
	return nil
}

const fan = `
  input %x: f32[1,16,8,8]
  %a: f32[1,16,8,8] = Relu(%x)
  %b: f32[1,16,8,8] = Relu(%a)
  %c: f32[1,16,8,8] = Add(%a, %a)
  %d: f32[1,16,8,8] = Neg(%a)
  output %a, %b, %c, %d`

var _ = Describe("Insert", func() {
	host, nhwc, blocked := graph.HostFormat, graph.On(graph.NHWC), graph.On(graph.NCHW16c)
	// want names the formats in which the readers b, c (both slots) and d take %a.
	insert := func(b, c0, c1, d graph.Format, output *graph.Format) []string {
		GinkgoHelper()
		g := parse(fan)
		var wants []convert.Want
		for _, w := range []struct {
			reader string
			slot   int
			f      graph.Format
		}{{"b", 0, b}, {"c", 0, c0}, {"c", 1, c1}, {"d", 0, d}} {
			n := value(g, w.reader).Producer
			wants = append(wants, convert.Want{Node: n, Slot: w.slot, Format: w.f})
			if n.Ports == nil {
				ports := graph.UniformSignature("test", n, host)
				n.Ports = &ports
			}
			n.Ports.Inputs[w.slot] = graph.Fixed(w.f)
		}
		made := convert.Insert(value(g, "a"), wants, output)
		var conversions []*graph.Node
		for n := range g.Nodes() {
			if n.IsCarve(graph.OpConvert) {
				conversions = append(conversions, n)
			}
		}
		Expect(slices.Equal(made, conversions)).To(BeTrue(), "Insert returns what it made")
		return lines(g)
	}

	It("makes nothing where all want what there is", func() {
		Expect(insert(host, host, host, host, &host)).To(Equal(lines(parse(fan))))
	})
	It("makes one node per format, whoever reads it", func() {
		Expect(insert(nhwc, nhwc, blocked, host, nil)).To(Equal([]string{
			"%a = Relu(%x)",
			"$0 @host:NHWC = carve::Convert(%a)",
			"%b = Relu($0)",
			"$1 @host:NCHW16c = carve::Convert(%a)",
			"%c = Add($0, $1)",
			"%d = Neg(%a)",
			"output %a, %b, %c, %d",
		}))
	})
	It("converts outputs, sharing with readers", func() {
		Expect(insert(host, host, host, nhwc, &nhwc)).To(Equal([]string{
			"%a = Relu(%x)",
			"%b = Relu(%a)",
			"%c = Add(%a, %a)",
			"$0 @host:NHWC = carve::Convert(%a)",
			"%d = Neg($0)",
			"output $0, %b, %c, %d",
		}))
	})
})

var _ = Describe("Eliminate", func() {
	DescribeTable("removes what is superfluous", func(body string, removed int, want ...string) {
		g := parse(body)
		Expect(convert.Eliminate(g)).To(Equal(removed))
		Expect(lines(g)).To(Equal(want))
		Expect(convert.Eliminate(g)).To(BeZero(), "a second time")
	},
		Entry("between equal formats", `
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] = carve::Convert(%x)
			%y: f32[1,16,8,8] = Relu(%c)
			output %y`, 1,
			"%y = Relu(%x)", "output %y"),
		Entry("an inverse pair", `
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%d: f32[1,16,8,8] = carve::Convert(%c)
			%y: f32[1,16,8,8] = Relu(%d)
			output %y`, 2,
			"%y = Relu(%x)", "output %y"),
		Entry("an inverse pair, the first of which is read", `
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%d: f32[1,16,8,8] = carve::Convert(%c)
			%y: f32[1,16,8,8] = Relu(%d)
			output %y, %c`, 1,
			"%c @host:NHWC = carve::Convert(%x)", "%y = Relu(%x)", "output %y, %c"),
		Entry("a chain begins at its source", `
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%d: f32[1,16,8,8] @host:NCHW16c = carve::Convert(%c)
			%y: f32[1,16,8,8] @host:NCHW16c = Relu(%d)
			output %y`, 1,
			"%d @host:NCHW16c = carve::Convert(%x)", "%y @host:NCHW16c = Relu(%d)", "output %y"),
		Entry("twins", `
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%d: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%y: f32[1,16,8,8] @host:NHWC = Add(%c, %d)
			output %y`, 1,
			"%c @host:NHWC = carve::Convert(%x)", "%y @host:NHWC = Add(%c, %c)", "output %y"),
		Entry("twins at the end of chains", `
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%d: f32[1,16,8,8] @host:NCHW16c = carve::Convert(%c)
			%e: f32[1,16,8,8] @host:NCHW16c = carve::Convert(%x)
			%y: f32[1,16,8,8] @host:NCHW16c = Add(%d, %e)
			output %y`, 2,
			"%d @host:NCHW16c = carve::Convert(%x)", "%y @host:NCHW16c = Add(%d, %d)", "output %y"),
		Entry("a circle of three", `
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%d: f32[1,16,8,8] @host:NCHW16c = carve::Convert(%c)
			%e: f32[1,16,8,8] = carve::Convert(%d)
			%y: f32[1,16,8,8] = Relu(%e)
			output %y`, 3,
			"%y = Relu(%x)", "output %y"),
		Entry("an inverse pair whose end is an output, several times", `
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%d: f32[1,16,8,8] = carve::Convert(%c)
			output %d, %x, %d`, 2,
			"output %x, %x, %x"),
		Entry("twins that are outputs", `
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%d: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			output %d, %c`, 1,
			"%c @host:NHWC = carve::Convert(%x)", "output %c, %c"),
		Entry("half of a chain whose middle is read", `
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%d: f32[1,16,8,8] @host:NCHW16c = carve::Convert(%c)
			%y: f32[1,16,8,8] @host:NHWC = Relu(%c)
			%z: f32[1,16,8,8] @host:NCHW16c = Relu(%d)
			output %y, %z`, 0,
			"%c @host:NHWC = carve::Convert(%x)", "%d @host:NCHW16c = carve::Convert(%x)", "%y @host:NHWC = Relu(%c)", "%z @host:NCHW16c = Relu(%d)",
			"output %y, %z"),
		Entry("nothing between what only looks inverse: operators stand between", `
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%n: f32[1,16,8,8] @host:NHWC = Neg(%c)
			%d: f32[1,16,8,8] = carve::Convert(%n)
			%y: f32[1,16,8,8] = Relu(%d)
			output %y`, 0,
			"%c @host:NHWC = carve::Convert(%x)", "%n @host:NHWC = Neg(%c)", "%d = carve::Convert(%n)", "%y = Relu(%d)", "output %y"),
		Entry("what nobody reads", `
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%y: f32[1,16,8,8] = Relu(%x)
			output %y`, 1,
			"%y = Relu(%x)", "output %y"),
		Entry("nothing that is needed", `
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%y: f32[1,16,8,8] @host:NHWC = Relu(%c)
			%z: f32[1,16,8,8] = carve::Convert(%y)
			output %z`, 0,
			"%c @host:NHWC = carve::Convert(%x)", "%y @host:NHWC = Relu(%c)", "%z = carve::Convert(%y)", "output %z"),
	)
})

var _ = Describe("Lower", func() {
	host, a, b := graph.HostFormat, own("a", true), own("b", true)
	links := []convert.Converter{link("down-a", a, host, 100), link("up-a", host, a, 100), link("down-b", b, host, 100), link("up-b", host, b, 100)}
	lower := func(body string, want []string, hops ...string) {
		GinkgoHelper()
		g := parse(body)
		r, err := convert.NewRegistry(links)
		Expect(err).NotTo(HaveOccurred())
		by, err := convert.Lower(g, r)
		Expect(err).NotTo(HaveOccurred())
		Expect(lines(g)).To(Equal(want))
		var used []string
		n := 0
		for node := range g.Nodes() {
			if node.IsCarve(graph.OpConvert) {
				c := by[node]
				Expect(c.From).To(Equal(node.Inputs[0].Format))
				Expect(c.To).To(Equal(node.Outputs[0].Format))
				used = append(used, c.Name)
				n++
			}
		}
		Expect(by).To(HaveLen(n))
		Expect(used).To(Equal(hops))
	}

	It("leaves single hops", func() {
		lower(`
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @cuda:0:own@1:a = carve::Convert(%x)
			%y: f32[1,16,8,8] @cuda:0:own@1:a = Relu(%c)
			output %y`,
			[]string{"%c @cuda:0:own@1:a = carve::Convert(%x)", "%y @cuda:0:own@1:a = Relu(%c)", "output %y"}, "up-a")
	})
	It("expands a path to its hops", func() {
		lower(`
			input %x: f32[1,16,8,8] @cuda:0:own@1:a
			%c: f32[1,16,8,8] @cuda:0:own@1:b = carve::Convert(%x) on "them"
			%y: f32[1,16,8,8] @cuda:0:own@1:b = Relu(%c)
			output %y`,
			[]string{`$0 = carve::Convert(%x) on "them"`, `%c @cuda:0:own@1:b = carve::Convert($0) on "them"`, "%y @cuda:0:own@1:b = Relu(%c)", "output %y"},
			"down-a", "up-b")
	})
	It("shares hops of one value", func() {
		lower(`
			input %x: f32[1,16,8,8] @cuda:0:own@1:a
			%c: f32[1,16,8,8] @cuda:0:own@1:b = carve::Convert(%x)
			%d: f32[1,16,8,8] @host:NHWC = carve::Convert(%x)
			%e: f32[1,16,8,8] = carve::Convert(%x)
			%y: f32[1,16,8,8] @cuda:0:own@1:b = Relu(%c)
			output %y, %e`,
			[]string{"$0 = carve::Convert(%x)", "%c @cuda:0:own@1:b = carve::Convert($0)", "%d @host:NHWC = carve::Convert($0)", "%y @cuda:0:own@1:b = Relu(%c)", "output %y, $0"},
			"down-a", "up-b", "host-reorder")
	})
	It("shares whole paths, and keeps those of different values apart", func() {
		lower(`
			input %x: f32[1,16,8,8] @cuda:0:own@1:a
			input %w: f32[1,16,8,8] @cuda:0:own@1:a
			%c: f32[1,16,8,8] @cuda:0:own@1:b = carve::Convert(%x)
			%d: f32[1,16,8,8] @cuda:0:own@1:b = carve::Convert(%x)
			%e: f32[1,16,8,8] @cuda:0:own@1:b = carve::Convert(%w)
			%y: f32[1,16,8,8] @cuda:0:own@1:b = Add(%c, %d)
			%z: f32[1,16,8,8] @cuda:0:own@1:b = Add(%d, %e)
			output %y, %z`,
			[]string{"$0 = carve::Convert(%x)", "%c @cuda:0:own@1:b = carve::Convert($0)", "$1 = carve::Convert(%w)", "%e @cuda:0:own@1:b = carve::Convert($1)",
				"%y @cuda:0:own@1:b = Add(%c, %c)", "%z @cuda:0:own@1:b = Add(%c, %e)", "output %y, %z"},
			"down-a", "up-b", "down-a", "up-b")
	})
	It("shares a hop with a conversion that comes before it", func() {
		lower(`
			input %x: f32[1,16,8,8] @cuda:0:own@1:a
			%e: f32[1,16,8,8] = carve::Convert(%x)
			%c: f32[1,16,8,8] @cuda:0:own@1:b = carve::Convert(%x)
			%y: f32[1,16,8,8] @cuda:0:own@1:b = Relu(%c)
			output %y, %e`,
			[]string{"%e = carve::Convert(%x)", "%c @cuda:0:own@1:b = carve::Convert(%e)", "%y @cuda:0:own@1:b = Relu(%c)", "output %y, %e"},
			"down-a", "up-b")
	})
	It("takes for each value the way that supports its elements", func() {
		g := parse(`
			input %x: f32[1,16,8,8] @cuda:0:own@1:a
			input %i: i64[1,16,8,8] @cuda:0:own@1:a
			%c: f32[1,16,8,8] @cuda:0:own@1:b = carve::Convert(%x)
			%d: i64[1,16,8,8] @cuda:0:own@1:b = carve::Convert(%i)
			output %c, %d`)
		r, err := convert.NewRegistry(append(slices.Clone(links), floats(link("peer", a, b, 10))))
		Expect(err).NotTo(HaveOccurred())
		by, err := convert.Lower(g, r)
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Sort()).To(Succeed())
		var used []string
		for n := range g.Nodes() {
			used = append(used, by[n].Name)
		}
		Expect(used).To(ConsistOf("peer", "down-a", "up-b"))
	})
	It("says which value has no path", func() {
		g := parse(`
			input %x: f32[1,16,8,8]
			%c: f32[1,16,8,8] @cuda:0:own@1:unknown = carve::Convert(%x)
			output %c`)
		r, err := convert.NewRegistry(links)
		Expect(err).NotTo(HaveOccurred())
		_, err = convert.Lower(g, r)
		Expect(err).To(MatchError(convert.ErrNoPath))
		Expect(err).To(MatchError(ContainSubstring("value x: ")))
	})
})
