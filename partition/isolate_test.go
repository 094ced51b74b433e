package partition_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
)

var _ = Describe("An isolated partition", func() {
	names := map[graph.Format]string{graph.HostFormat: "host", graph.On(graph.NCHW16c): "blocked"}

	DescribeTable("makes every node convert on its own", func(ctx SpecContext, lines []string, head string, want ...string) {
		g := parse(strings.ReplaceAll(text(head, lines...), "f32[1,16,4,4]", "f32[1,64,8,8]"))
		backends := []backend.Backend{picky{instance("picky", graph.RowMajor)}}
		res, err := partition.Partition(ctx, g, &partition.Options{Backends: backends, Registry: registry(backends), Isolated: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.Verify(g)).To(Succeed())
		var groups []string
		for _, gr := range res.Groups {
			groups = append(groups, strings.Join(steps(gr.Body, names), " "))
		}
		Expect(groups).To(Equal(want))
		Expect(steps(g, names)).To(Equal(strings.Fields(strings.Join(want, " "))), "nothing stands between the groups")
	},
		Entry("a chain in one format", []string{"a = Abs(x)", "b = Abs(a)"}, "b",
			"host→blocked a blocked→host", "host→blocked b blocked→host"),
		Entry("what runs in either format runs in the host's", []string{"a = Abs(x)", "b = Neg(a)", "c = Exp(b)"}, "c",
			"host→blocked a blocked→host", "b", "c"),
		Entry("readers of one value", []string{"a = Abs(x)", "b = Abs(x)", "c = Neg(a)", "d = Abs(a)"}, "b, c, d",
			"host→blocked a blocked→host", "c", "host→blocked b blocked→host", "host→blocked d blocked→host"),
		Entry("a value that is read twice by one node, and is an output twice", []string{"a = Abs(x)", "b = Add(a, a)"}, "a, b, a",
			"host→blocked a blocked→host", "b"),
	)

	It("leaves conversions that cross to a device, or need a backend's converter, between groups", func(ctx SpecContext) {
		host, own := graph.HostFormat, graph.On(opaque("own"))
		cuda := graph.Format{Device: tensor.DeviceID{Type: tensor.CUDA}, Layout: opaque("cuda")}
		backends := []backend.Backend{instance("own", opaque("own"), "Neg"), &elsewhere{instance("cuda", graph.RowMajor), cuda}}
		g := parse(text("c, d", "a = Neg(x)", "b = Neg(a)", "c = Abs(b)", "d = Abs(b)"))
		res, err := partition.Partition(ctx, g, &partition.Options{Backends: backends, Registry: registry(backends, hop(host, cuda), hop(cuda, host)), Isolated: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(groups(res)).To(Equal([]string{"own: a", "own: b", "cuda: c", "cuda: d"}))
		formats := map[graph.Format]string{host: "host", own: "own", cuda: "cuda"}
		Expect(steps(g, formats)).To(Equal([]string{"host→own", "a", "own→host", "host→own", "b", "own→host", "host→cuda", "c", "d", "cuda→host", "cuda→host"}))
	})

	It("is sound for random graphs: a node a group, in and out in the host's format", func(ctx SpecContext) {
		conversions := 0
		for seed := range uint64(300) {
			rng := rand.New(rand.NewPCG(seed, 9))
			g := randomGraph(rng, 40)
			o := randomOptions(rng)
			o.Isolated = true
			res, err := partition.Partition(ctx, g, o)
			Expect(err).NotTo(HaveOccurred(), "seed %d", seed)
			Expect(graph.Verify(g)).To(Succeed())
			for _, gr := range res.Groups {
				nodes := 0
				for n := range gr.Body.Nodes() {
					if n.IsCarve(graph.OpConvert) {
						conversions++
					} else {
						nodes++
					}
				}
				Expect(nodes).To(Equal(1), "seed %d", seed)
				for _, vs := range [][]*graph.Value{gr.Body.Inputs, gr.Body.Outputs} {
					for _, v := range vs {
						Expect(v.Format.Layout.IsOpaque() || v.Format == graph.HostFormat).To(BeTrue(), "seed %d: %v in %v", seed, v, v.Format)
					}
				}
			}
		}
		Expect(conversions).To(BeNumerically(">", 1000))
	})

	// lowered returns what is converted where groups are extracted, and what stands between them has become single hops.
	lowered := func(ctx SpecContext, g *graph.Graph, o *partition.Options) []string {
		res, err := partition.Partition(ctx, g, o)
		Expect(err).NotTo(HaveOccurred())
		_, err = convert.Lower(g, o.Registry)
		Expect(err).NotTo(HaveOccurred())
		list := []string{}
		for _, in := range append(bodies(res), g) {
			for n := range in.Nodes() {
				if n.IsCarve(graph.OpConvert) {
					list = append(list, fmt.Sprint(n.Inputs[0].Type, n.Inputs[0].Format))
				}
			}
		}
		return list
	}
	// counted returns the same from State.Conversions, without groups.
	counted := func(ctx SpecContext, g *graph.Graph, o partition.Options) []string {
		for o.Bans = partition.NewBans(nil); ; {
			copied, err := g.Clone()
			Expect(err).NotTo(HaveOccurred())
			s, bans := partition.NewState(copied, &o, 0), o.Bans.Len()
			for _, stage := range partition.Stages() {
				if stage.Name == "extract-groups" || o.Bans.Len() > bans {
					break
				}
				Expect(stage.Run(s, ctx)).To(Succeed(), stage.Name)
			}
			if o.Bans.Len() > bans {
				continue
			}
			before := copied.String()
			found, err := s.Conversions()
			Expect(err).NotTo(HaveOccurred())
			Expect(copied.String()).To(Equal(before))
			list := []string{}
			for _, c := range found {
				list = append(list, fmt.Sprint(c.Type, c.From))
			}
			return list
		}
	}

	It("knows its conversions before groups are extracted", func(ctx SpecContext) {
		conversions := 0
		for seed := range uint64(100) {
			rng := rand.New(rand.NewPCG(seed, 10))
			g := randomGraph(rng, 40)
			o := randomOptions(rng)
			o.Isolated = true
			list := counted(ctx, g, *o)
			Expect(list).To(ConsistOf(lowered(ctx, g, o)), "seed %d", seed)
			conversions += len(list)
		}
		Expect(conversions).To(BeNumerically(">", 300))
	})

	It("counts hops that two conversions of a value have in common once", func(ctx SpecContext) {
		host, near := graph.HostFormat, graph.Format{Device: tensor.DeviceID{Type: tensor.CUDA}, Layout: opaque("near")}
		far := graph.Format{Device: tensor.DeviceID{Type: tensor.CUDA}, Layout: opaque("far")}
		backends := []backend.Backend{&elsewhere{instance("near", graph.RowMajor, "Neg"), near}, &elsewhere{instance("far", graph.RowMajor), far}}
		o := &partition.Options{Backends: backends, Isolated: true,
			Registry: registry(backends, hop(host, near), hop(near, host), hop(near, far), hop(far, near))}
		g := parse(text("a, c", "a = Neg(x)", "b = Abs(x)", "c = Exp(b)"))
		list := counted(ctx, g, *o)
		Expect(list).To(HaveLen(9), "two each of a, b and c to the host and from it, but for x to near, which a and b share; and b and c from near")
		Expect(list).To(ConsistOf(lowered(ctx, g, o)))
	})
})

// bodies returns the groups' bodies.
func bodies(r *partition.Result) []*graph.Graph {
	var list []*graph.Graph
	for _, gr := range r.Groups {
		list = append(list, gr.Body)
	}
	return list
}
