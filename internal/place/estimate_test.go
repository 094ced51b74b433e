package place_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/memplan/schedule"
)

func estimated(ctx context.Context, g *graph.Graph) *backend.Footprint {
	GinkgoHelper()
	p, err := wanted(g)
	Expect(err).NotTo(HaveOccurred())
	f, err := p.Estimate(ctx, settle(p))
	Expect(err).NotTo(HaveOccurred())
	return f
}

// told writes a footprint: values with bytes of their own, values in others, and what nodes may overwrite.
func told(g *graph.Graph, f *backend.Footprint) string {
	names := make([]string, g.ValueIDs())
	note := func(v *graph.Value) {
		if v != nil {
			names[v.ID] = v.Name
		}
	}
	for _, v := range g.Inputs {
		note(v)
	}
	for n := range g.Nodes() {
		for _, v := range n.Outputs {
			note(v)
		}
	}
	var out []string
	for id, name := range names {
		switch {
		case f.Within[id] != id:
			out = append(out, name+" in "+names[f.Within[id]])
		case f.Bytes[id] > 0:
			out = append(out, fmt.Sprint(name, " ", f.Bytes[id]))
		}
	}
	for n := range g.Nodes() {
		for _, v := range f.Overwrite[n.ID] {
			out = append(out, n.Outputs[0].Name+" over "+names[v])
		}
	}
	return strings.Join(out, ", ")
}

var _ = DescribeTable("an estimate", func(ctx SpecContext, text, want string) {
	g := parse(text)
	Expect(told(g, estimated(ctx, g))).To(Equal(want))
},
	Entry("counts what lies alone, and what may be overwritten in some order", `
  input %x: f32[64]
  %a = Neg(%x)
  %b = Exp(%a)
  %c = Abs(%a)
  %d = Add(%b, %c)
  output %d`, "x 256, a 256, b 256, c 256, d 256, b over a, c over a"),
	Entry("knows views, and outputs that are made through them", `
  input %x: f32[8,8]
  const %s = i64[1]{64}
  %a = Reshape(%x, %s)
  %b = Neg(%a)
  %c = Neg(%b)
  %d = Flatten(%c)
  output %d`, "x 256, a in x, b 256, c 256, d in c"),
	Entry("knows operands of a concatenation that lie in the result", `
  input %x: f32[64]
  %a = Neg(%x)
  %b = Abs(%x)
  %c = Concat(%a, %b; axis=0)
  %d = Exp(%c)
  output %d`, "x 256, a in c, b in c, c 512, d 512"),
	Entry("knows inputs that an output may overwrite", `
  input %x: f32[64]
  %y = Neg(%x)
  output %y`, "x 256, y 256, y over x"),
)

// randomText is a graph of unary, binary and view nodes and of concatenations, everything that nobody reads an output.
func randomText(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	b.WriteString("  input %v0: f32[64]\n")
	sizes, read := []int{64}, []bool{false}
	pick := func() int { return max(0, len(sizes)-1-r.IntN(6)) }
	for len(sizes) < 4+r.IntN(24) {
		k, j, at := pick(), pick(), len(sizes)
		size := sizes[k]
		switch read[k] = true; r.IntN(5) {
		case 0:
			fmt.Fprintf(&b, "  const %%s%d = i64[1]{%d}\n  %%v%d = Reshape(%%v%d, %%s%d)\n", at, size, at, k, at)
		case 1:
			fmt.Fprintf(&b, "  %%v%d = Exp(%%v%d)\n", at, k)
		case 2:
			fmt.Fprintf(&b, "  %%v%d = Neg(%%v%d)\n", at, k)
		case 3:
			if sizes[j] != size {
				j = k
			}
			read[j] = true
			fmt.Fprintf(&b, "  %%v%d = Add(%%v%d, %%v%d)\n", at, k, j)
		case 4:
			read[j] = true
			size += sizes[j]
			fmt.Fprintf(&b, "  %%v%d = Concat(%%v%d, %%v%d; axis=0)\n", at, k, j)
		}
		sizes, read = append(sizes, size), append(read, false)
	}
	b.WriteString("  output ")
	comma := ""
	for k := range sizes {
		if !read[k] {
			fmt.Fprintf(&b, "%s%%v%d", comma, k)
			comma = ", "
		}
	}
	return b.String()
}

// peaks returns the peak of live bytes by an estimate, and by the steps of the plan, in the order of the list.
func peaks(ctx context.Context, g *graph.Graph) (estimate, plan int64) {
	GinkgoHelper()
	f := estimated(ctx, g)
	nodes, err := g.Topo()
	Expect(err).NotTo(HaveOccurred())
	s := &schedule.Graph{Bytes: f.Bytes, Within: f.Within, Keep: make([]bool, len(f.Bytes))}
	order := make([]int, len(nodes))
	for i, n := range nodes {
		order[i] = i
		one := schedule.Node{Overwrite: f.Overwrite[n.ID]}
		for _, v := range n.Inputs {
			if v != nil && !v.IsConst() {
				one.Inputs = append(one.Inputs, v.ID)
			}
		}
		for _, v := range n.Outputs {
			one.Outputs = append(one.Outputs, v.ID)
		}
		s.Nodes = append(s.Nodes, one)
	}
	for _, v := range append(append([]*graph.Value(nil), g.Inputs...), g.Outputs...) { // not the arena's here
		s.Bytes[s.Within[v.ID]] = 0
	}
	estimate, err = schedule.Peak(s, order)
	Expect(err).NotTo(HaveOccurred())
	p, err := planned(ctx, g)
	Expect(err).NotTo(HaveOccurred())
	r := p.Finish()
	for at := range r.Steps {
		live := int64(0)
		for _, b := range r.Buffers {
			if b.First <= at && at <= b.Last {
				live += (b.Bytes + tensor.Alignment - 1) &^ (tensor.Alignment - 1)
			}
		}
		plan = max(plan, live)
	}
	return estimate, plan
}

var _ = It("an estimate has the peak of the plan for random graphs", func(ctx SpecContext) {
	for seed := range uint64(300) {
		g := parse(randomText(seed))
		estimate, plan := peaks(ctx, g)
		Expect(estimate).To(Equal(plan), "seed %d: %v", seed, g)
	}
})
