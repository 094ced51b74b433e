package twin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/internal/twin"
)

// layer is a subgraph with weights that count up from a number.
func layer(first int, edit ...string) *graph.Graph {
	GinkgoHelper()
	var w strings.Builder
	for i := range 8 * 16 {
		fmt.Fprintf(&w, ", %d", (first+i)%7)
	}
	text := fmt.Sprintf(`graph "layer" {
  opset 17
  input %%x: f32[N,8]
  const %%w = f32[8,16]{%s}
  const %%s = f32[1]{3}
  %%a = MatMul(%%x, %%w) "a"
  %%b = Mul(%%a, %%s) "b"
  %%c = Softmax(%%b; axis=1) "c"
  output %%c
}`, w.String()[2:])
	g, err := graph.Parse(strings.NewReplacer(edit...).Replace(text))
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.InferGraph(g)).To(Succeed())
	return g
}

var _ = Describe("Text", func() {
	of := func(g *graph.Graph) string {
		GinkgoHelper()
		before := g.String()
		s, err := twin.Text(g)
		Expect(err).NotTo(HaveOccurred())
		Expect(g.String()).To(Equal(before), "nothing is changed")
		return s
	}

	It("is that of subgraphs with other names and weights", func() {
		want := of(layer(0))
		Expect(of(layer(3))).To(Equal(want))
		Expect(of(layer(3, "%x", "%input", "%a", "%y", `"a"`, `"other"`, `"c"`, `"last"`))).To(Equal(want))
		named := layer(1)
		for n := range named.Nodes() {
			n.Origins = []string{"one", "two"}
		}
		named.Name = "another"
		Expect(of(named)).To(Equal(want))
	})

	DescribeTable("is another for", func(edit ...string) { Expect(of(layer(0, edit...))).NotTo(Equal(of(layer(0)))) },
		Entry("another operator", "Softmax", "LogSoftmax"), Entry("another attribute", "axis=1", "axis=0"),
		Entry("another shape", "[N,8]", "[M,8]"), Entry("a number that may decide", "{3}", "{4}"),
		Entry("other operands", "Mul(%a, %s)", "Mul(%s, %a)"), Entry("another result", "output %c", "output %b"))

	It("is another for other formats, and for other signatures", func() {
		g := layer(0)
		g.Outputs[0].Format = graph.On(graph.NHWC)
		Expect(of(g)).NotTo(Equal(of(layer(0))))
		g = layer(0)
		for n := range g.Nodes() {
			n.SigName = "another"
		}
		Expect(of(g)).NotTo(Equal(of(layer(0))))
	})
})

// counted is an executable, and its instances, that count calls.
type counted struct {
	specialized, closed, runs int
	fail                      error
}

func (c *counted) Specialize(context.Context, graph.Bindings) (backend.Instance, error) {
	c.specialized++
	return c, nil
}

func (c *counted) Close() error { c.closed++; return nil }

func (c *counted) Requirements() backend.Requirements {
	return backend.Requirements{Steps: 4, Labels: []backend.StepInfo{
		{Name: "a", Op: "MatMul", Origins: []string{"a"}}, {Name: "a", Op: "MatMul", Origins: []string{"a"}},
		{Name: "b", Op: "Mul", Origins: []string{"b"}}, {Name: "c", Op: "Softmax", Origins: []string{"c"}, FLOPs: 5}}}
}

func (c *counted) Enqueue(context.Context, *backend.RunArgs) (device.Event, error) {
	c.runs++
	return nil, c.fail
}

func (c *counted) Save(context.Context) ([]byte, error) { return []byte("saved"), nil }

var _ = Describe("Shared", func() {
	It("runs twins by one instance, which speaks of each one's nodes", func(ctx SpecContext) {
		one, two := layer(0), layer(1, `"a"`, `"x"`, `"b"`, `"y"`, `"c"`, `"z"`)
		c := &counted{}
		s := twin.New(one, c)
		first, second := s.First(), s.As(two)
		for range 2 {
			for k, e := range []backend.Executable{first, second} {
				in, err := e.Specialize(ctx, graph.Bindings{"N": 3})
				Expect(err).NotTo(HaveOccurred())
				var names []string
				for _, l := range in.Requirements().Labels {
					Expect(l.Origins).To(Equal([]string{l.Name}))
					names = append(names, l.Name+" "+l.Op)
				}
				Expect(names).To(Equal([][]string{{"a MatMul", "a MatMul", "b Mul", "c Softmax"}, {"x MatMul", "x MatMul", "y Mul", "z Softmax"}}[k]))
				_, err = in.Enqueue(ctx, &backend.RunArgs{})
				Expect(err).NotTo(HaveOccurred())
			}
		}
		Expect(c.specialized).To(Equal(1))
		Expect(c.runs).To(Equal(4))
		_, err := second.Specialize(ctx, graph.Bindings{"N": 4})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.specialized).To(Equal(2))
		Expect(first.(backend.Saver).Save(ctx)).To(Equal([]byte("saved")))
		Expect(second.(backend.Saver).Save(ctx)).To(BeNil())
		Expect(second.Close()).To(Succeed())
		Expect(c.closed).To(BeZero())
		Expect(first.Close()).To(Succeed())
		Expect(c.closed).To(Equal(1))
	})

	It("tells of data out of range at the node that has it", func(ctx SpecContext) {
		c := &counted{fail: &backend.RangeError{Node: "b", Value: 7}}
		in, err := twin.New(layer(0), c).As(layer(1, `"b"`, `"y"`)).Specialize(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		_, err = in.Enqueue(ctx, nil)
		Expect(err).To(BeEquivalentTo(&backend.RangeError{Node: "y", Value: 7}))
		c.fail = errors.New("another")
		_, err = in.Enqueue(ctx, nil)
		Expect(err).To(MatchError("another"))
	})
})
