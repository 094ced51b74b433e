package carve_test

import (
	"bytes"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("a picture of a program", func() {
	It("says where a node is, with what it is fused, and what every backend is for it", func(ctx SpecContext) {
		p := compile(ctx, textModel(`graph {
  opset 17
  input %x: f32[1,16,8,8]
  `+constant("w", 16, 16, 1, 1)+`
  const %one = f32[1]{1}
  %two = Add(%one, %one) "two"
  %a = Conv(%x, %w) "conv"
  %r = Relu(%a) "relu"
  %y = Mul(%r, %two) "mul"
  output %y
}`), nil)
		pic, err := p.Picture(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		n, found := pic.Why("relu")
		Expect(found).To(BeTrue())
		Expect(n.Where).To(Equal("cpu"))
		Expect(n.Property).To(Equal("conv-tail"))
		Expect(n.Nodes).To(ContainElements("conv", "relu"))
		Expect(n.Backends).To(HaveExactElements(
			And(HaveField("Backend", "cpu"), HaveField("Chosen", true), HaveField("Reasons", BeEmpty()), HaveField("Nanoseconds", BeNumerically(">", 0))),
			And(HaveField("Backend", "reference"), HaveField("Chosen", false), HaveField("Reasons", ConsistOf(HavePrefix("priority: cpu comes before it"))))))
		n, found = pic.Why("two")
		Expect(found).To(BeTrue())
		Expect(n.Where).To(Equal("folded: constant"))
		Expect(n.Group).To(Equal(-1))
		_, found = pic.Why("nobody")
		Expect(found).To(BeFalse())
	})

	It("has the arenas and the queues of all devices", func(ctx SpecContext) {
		b := fake.New(fake.Options{Devices: 1})
		o := withBackends(part{b, []string{"Relu", "Sigmoid"}})
		o.Properties = map[string][]property.SubgraphProperty{b.Info().Name: {alone{}}}
		p := mustCompile(ctx, carve.FromGraph(parseGraph(twoBranches)), o)
		defer p.Close()
		_, profile, err := p.RunProfiled(ctx, map[string]tensor.Value{"x": wave(64, 64)})
		Expect(err).NotTo(HaveOccurred())
		pic, err := p.Picture(ctx, &carve.PictureOptions{Profile: profile})
		Expect(err).NotTo(HaveOccurred())
		var buf bytes.Buffer
		Expect(pic.WriteJSON(&buf)).To(Succeed())
		var d struct {
			Nodes  []struct{ Kind, Device string }
			Arenas []struct {
				Device  string
				Buffers []struct{ Node int }
			}
			Run struct {
				Tracks []struct{ Device string }
				Spans  []struct{ Node, Track int }
			}
		}
		Expect(json.Unmarshal(buf.Bytes(), &d)).To(Succeed())
		device := b.Devices()[0].ID().String()
		Expect(d.Arenas).To(ContainElement(HaveField("Device", device)))
		Expect(d.Run.Tracks).To(ContainElement(HaveField("Device", device)))
		Expect(d.Run.Spans).NotTo(BeEmpty())
		for _, s := range d.Run.Spans {
			Expect(s.Node).To(BeNumerically(">=", 0))
			on := d.Nodes[s.Node].Device
			if on == "" {
				on = "host"
			}
			Expect(d.Run.Tracks[s.Track].Device).To(Equal(on), fmt.Sprint(d.Nodes[s.Node]))
		}
	})

	It("is none of a program that is closed, or that was not compiled", func(ctx SpecContext) {
		p := mustCompile(ctx, textModel("graph {\n  opset 17\n  input %x: f32[2]\n  %y = Neg(%x)\n  output %y\n}"), nil)
		Expect(p.Close()).To(Succeed())
		_, err := p.Picture(ctx, nil)
		Expect(err).To(MatchError(carve.ErrClosed))
		_, err = (&carve.Program{}).Picture(ctx, nil)
		Expect(err).To(MatchError(carve.ErrClosed))
		for _, none := range []*carve.Picture{nil, {}} {
			Expect(none.WriteHTML(&bytes.Buffer{})).To(MatchError(carve.ErrClosed))
			Expect(none.WriteJSON(&bytes.Buffer{})).To(MatchError(carve.ErrClosed))
			Expect(none.WriteDOT(&bytes.Buffer{})).To(MatchError(carve.ErrClosed))
			_, found := none.Why("a")
			Expect(found).To(BeFalse())
		}
	})
})
