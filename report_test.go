package carve_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("the report", func() {
	It("has the nodes in a region that a backend runs with the node around it", func(ctx SpecContext) {
		p := compile(ctx, textModel(`graph {
  opset 17
  opset "ai.onnx.preview" 1
  input %q: f32[1,2,4,8]
  input %k: f32[1,2,4,8]
  input %v: f32[1,2,4,8]
  %y = ai.onnx.preview::FlexAttention(%q, %k, %v) "attend" {
    score_mod: graph {
      input %s: f32[]
      %t = Tanh(%s) "attend/score_mod/cap"
      output %t
    }
  }
  output %y
}`), nil)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveExactElements(HaveField("Nodes", ConsistOf("attend", "attend/score_mod/cap"))))
		Expect(r.Groups[0].Backend).To(Equal("reference"))
	})

	It("gives a reason for every node and every backend that does not run it", func(ctx SpecContext) {
		p := compile(ctx, textModel(`graph {
  opset 17
  input %x: f32[4]
  input %c: bool[]
  %a = Neg(%x) "a"
  %b = If(%c | %a) "b" {
    then_branch: graph {
      capture %t: f32[4]
      %u = Exp(%t) "u"
      output %u
    }
    else_branch: graph {
      capture %e: f32[4]
      const %s = i64[2]{2, 2}
      const %n = i64[1]{4}
      %w = Reshape(%e, %s) "w"
      %v = RandomNormalLike(%w) "v"
      %y = Reshape(%v, %n) "y"
      output %y
    }
  }
  output %b
}`), &carve.Options{Verify: true, Pins: []partition.Pin{{Node: "a", Backend: "reference"}}})
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		why := func(node string) (where string, reasons []string) {
			GinkgoHelper()
			where, list, found := r.Why(node)
			Expect(found).To(BeTrue())
			for _, x := range list {
				reasons = append(reasons, x.Backend+": "+x.Reason)
			}
			return where, reasons
		}
		where, reasons := why("a")
		Expect(where).To(Equal("reference"))
		Expect(reasons).To(Equal([]string{"cpu: pinned: the user pinned it to reference"}))
		where, reasons = why("b")
		Expect(where).To(Equal("host"))
		host := "host-scheduled: the host scheduler runs control flow, sequences, optionals and maps"
		Expect(reasons).To(Equal([]string{"cpu: " + host, "reference: " + host}))
		where, reasons = why("u")
		Expect(where).To(Equal("cpu"))
		Expect(reasons).To(Equal([]string{"reference: priority: cpu comes before it in the list, and has the node"}))
		where, reasons = why("v")
		Expect(where).To(Equal("reference"))
		Expect(reasons).To(HaveExactElements(HavePrefix("cpu: unsupported")))
	})

	// Two convolutions of 16 maps of 8 by 8 with a sum, which runs in any format, between them.
	const convolutions = `graph {
  opset 17
  input %x: f32[1,16,8,8]
  const %w = f32[16,16,1,1]{NUMBERS}
  %a = Conv(%x, %w) "a"
  %b = Add(%a, %a) "b"
  %c = Conv(%b, %w) "c"
  output %c
}`
	network := func() *carve.Model {
		return textModel(strings.Replace(convolutions, "NUMBERS", strings.TrimSuffix(strings.Repeat("0.5, ", 256), ", "), 1))
	}

	It("has no conversion between operators, two for each by itself", func(ctx SpecContext) {
		const maps = 16 * 8 * 8 * 4
		m := network()
		defer m.Close()
		r, err := compile(ctx, m, nil).Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveLen(1))
		Expect(r.Run).To(Equal(carve.ConversionSum{Count: 2, Bytes: 2 * maps}))
		alone, err := compile(ctx, m, &carve.Options{Isolated: true}).Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(alone.Groups).To(HaveLen(3))
		Expect(alone.Run).To(Equal(carve.ConversionSum{Count: 4, Bytes: 4 * maps}))
		Expect(alone.Eliminated).To(BeZero())
	})

	It("counts the conversions that turned out superfluous", func(ctx SpecContext) {
		m := network()
		defer m.Close()
		feeds := map[string]tensor.Value{"x": wave(1, 16, 8, 8)}
		want, err := compile(ctx, m, nil).Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		p := compile(ctx, m, &carve.Options{Verify: true, Properties: map[string][]property.SubgraphProperty{"cpu": {
			detour{property.Nodes("detour", property.Ops()), []graph.Format{graph.On(graph.NHWC), graph.HostFormat}},
		}}})
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Eliminated).To(Equal(2), "there and back")
		Expect(r.Run.Count).To(Equal(2))
		got, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		expectSame(got, want, "the detour")

		p = compile(ctx, m, &carve.Options{Verify: true, Properties: map[string][]property.SubgraphProperty{"cpu": {
			detour{property.Nodes("detour", property.Ops()), []graph.Format{graph.On(graph.NHWC), graph.On(graph.NCHW8c), graph.HostFormat}},
		}}})
		r, err = p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Eliminated).To(Equal(3), "a circle")
		Expect(r.Run.Count).To(Equal(2))
		got, err = p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		expectSame(got, want, "the detour")
	})
})

// detour sends the first input of the graph through formats before it is read.
type detour struct {
	property.SubgraphProperty
	via []graph.Format
}

// Unwrap implements property.Unwrapper.
func (d detour) Unwrap() property.SubgraphProperty { return d.SubgraphProperty }

// PostPartition implements property.PostPartitioner.
func (d detour) PostPartition(g *graph.Graph) error {
	v := g.Inputs[0]
	uses := append([]graph.Use(nil), v.Uses()...)
	for _, f := range d.via {
		v = convert.NewConvert(g, v, f).Outputs[0]
	}
	for _, u := range uses {
		u.Node.SetOperand(u.Slot, v)
	}
	return g.Sort()
}
