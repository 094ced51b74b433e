package place_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/place"
)

// at is a plan of planned's backend for a value of n.
func at(ctx context.Context, g *graph.Graph, n int64) *place.Plan {
	GinkgoHelper()
	p, err := wantedAt(g, n)
	Expect(err).NotTo(HaveOccurred())
	Expect(p.Each(ctx, settle(p), func(n *graph.Node) error { return step(p, n) })).To(Succeed())
	p.Finish()
	return p
}

// smaller is the plan that p becomes for a smaller value of n.
func smaller(p *place.Plan, n int64) (*place.Plan, error) {
	last := p
	_, err := p.Again(graph.Bindings{"n": n}, p.ReachOf(map[string]bool{"n": true}), func(q *place.Plan, n *graph.Node) error {
		last = q
		settle(q)(n)
		return step(q, n)
	})
	return last, err
}

// some is the text of a random graph of rows of n elements and of others, which ends in outputs.
func some(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("  input %x: f32[n,4]\n  input %z: f32[3,4]\n")
	open, fixed := []string{"x"}, []string{"z"}
	for i := range 3 + r.IntN(10) {
		list := &open
		if r.IntN(4) == 0 {
			list = &fixed
		}
		any := func() string { return (*list)[r.IntN(len(*list))] }
		name := fmt.Sprintf("v%d", i)
		switch r.IntN(6) {
		case 0: // the same rows behind one another, whose place depends on how many they are
			fmt.Fprintf(&b, "  %%c%d = Concat(%%%s, %%%s; axis=1)\n  const %%w%d = f32[8,4]{%s}\n  %%%s = MatMul(%%c%d, %%w%d)\n", i, any(), any(), i,
				strings.TrimSuffix(strings.Repeat("1, ", 32), ", "), name, i, i)
		case 1:
			fmt.Fprintf(&b, "  %%%s = Add(%%%s, %%%s)\n", name, any(), any())
		case 2:
			fmt.Fprintf(&b, "  %%%s = Identity(%%%s)\n", name, any())
		default:
			fmt.Fprintf(&b, "  %%%s = %s(%%%s)\n", name, []string{"Neg", "Exp", "Tanh", "Relu"}[r.IntN(4)], any())
		}
		*list = append(*list, name)
	}
	fmt.Fprintf(&b, "  output %%%s\n  output %%%s", open[len(open)-1], fixed[len(fixed)-1])
	return b.String()
}

// resized is of with the sizes of others.
func resized(of, others []backend.PortUse) []backend.PortUse {
	of = slices.Clone(of)
	for i := range of {
		of[i].Bytes = others[i].Bytes
	}
	return of
}

var _ = Describe("a plan again", func() {
	It("lies where the plan for the larger value does, in pieces of the smaller one's sizes", func(ctx SpecContext) {
		served := 0
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, 1))
			text := some(r)
			g := parse(text)
			large := at(ctx, g, 16)
			before := fmt.Sprint(large.Slots, large.Where, large.Reqs)
			n := 1 + r.Int64N(15)
			got, err := smaller(large, n)
			Expect(fmt.Sprint(large.Slots, large.Where, large.Reqs)).To(Equal(before), "%s", text)
			if err != nil {
				Expect(err).To(MatchError(place.ErrElsewhere), "%s", text)
				continue
			}
			served++
			want := at(ctx, g, n)
			Expect(got.Reqs.Inputs).To(Equal(resized(large.Reqs.Inputs, want.Reqs.Inputs)), "%s", text)
			Expect(got.Reqs.Outputs).To(Equal(resized(large.Reqs.Outputs, want.Reqs.Outputs)), "%s", text)
			Expect(got.Reqs.Buffers).To(Equal(large.Reqs.Buffers), "%s", text)
			for node := range g.Nodes() {
				v := node.Outputs[0]
				m, l := got.In(v), large.In(v)
				Expect([]int{m.Slot, m.Off, m.Row, m.Pitch}).To(Equal([]int{l.Slot, l.Off, l.Row, l.Pitch}), "%v of\n%s", v, text)
				Expect(got.Dims[v.ID]).To(Equal(want.Dims[v.ID]), "%v of\n%s", v, text)
				Expect(got.Bytes(v)).To(Equal(want.Bytes(v)), "%v of\n%s", v, text)
				if w := want.In(v); m.Row == w.Row && m.Pitch == w.Pitch { // rows of one line may lie side by side in a plan of its own
					Expect(m.Size).To(Equal(w.Size), "%v of\n%s", v, text)
				}
			}
		}
		Expect(served).To(BeNumerically(">", 200))
	})

	DescribeTable("is none", func(ctx SpecContext, text string) {
		_, err := smaller(at(ctx, parse(text), 16), 3)
		Expect(err).To(MatchError(place.ErrElsewhere))
	},
		Entry("where parts of a concatenation would begin elsewhere", `
  input %x: f32[n,4]
  input %z: f32[3,4]
  %a = Neg(%x)
  %b = Neg(%z)
  %c = Concat(%a, %b; axis=0)
  %y = Tanh(%c)
  output %y`))

	It("reaches the nodes that see the symbol, and no others", func(ctx SpecContext) {
		p := at(ctx, parse(`
  input %x: f32[n,4]
  input %z: f32[3,4]
  %a = Neg(%x)
  %b = Neg(%z)
  %c = Exp(%b)
  %y = Tanh(%a)
  output %y
  output %c`), 16)
		var reached []string
		for _, i := range p.ReachOf(map[string]bool{"n": true}).Nodes {
			reached = append(reached, p.Order[i].Outputs[0].Name)
		}
		Expect(reached).To(ConsistOf("a", "y"))
		none := p.ReachOf(map[string]bool{"m": true})
		Expect(none.Nodes).To(BeEmpty())
		Expect(p.Same(none)).To(BeTrue())
	})
})
