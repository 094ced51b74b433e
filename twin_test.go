package carve_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// recurring is the reference backend for products and their like, which compiles equal groups once where it says so.
type recurring struct {
	*reference.Backend
	says     bool
	compiled *atomic.Int32
}

func (r recurring) Supports(n *graph.Node) backend.Support {
	if n.Is("Neg") {
		return backend.No(property.Unsupported, "it is what lies between")
	}
	return r.Backend.Supports(n)
}

func (r recurring) Repeats(*graph.Graph) bool { return r.says }

func (r recurring) Compile(ctx context.Context, g *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	r.compiled.Add(1)
	return r.Backend.Compile(ctx, g, o)
}

// layers are equal ones with weights of their own, behind each of which another backend works, and one that is not equal.
func layers(n int) string {
	var s strings.Builder
	s.WriteString("graph {\n  opset 17\n  input %x: f32[N,16]\n")
	for i := range n {
		s.WriteString("  " + constant(fmt.Sprintf("w%d", i), 16, 16) + "\n")
	}
	last := "x"
	for i := range n {
		act := "Tanh"
		if i == n-1 {
			act = "Sigmoid"
		}
		fmt.Fprintf(&s, "  %%m%d = MatMul(%%%s, %%w%d) \"m%d\"\n  %%t%d = %s(%%m%d) \"t%d\"\n  %%n%d = Neg(%%t%d) \"n%d\"\n", i, last, i, i, i, act, i, i, i, i, i)
		last = fmt.Sprintf("n%d", i)
	}
	return s.String() + "  output %" + last + "\n}"
}

var _ = Describe("equal groups", func() {
	It("are compiled once where their backend runs them by one executable, and compute what is theirs", func(ctx SpecContext) {
		compiled := &atomic.Int32{}
		with := func(says bool) *carve.Options {
			return &carve.Options{Backends: []backend.Config{{Name: "repeating"}, {Name: "reference"}}, Placement: carve.Priority, Verify: true,
				Open: map[string]backend.Backend{"repeating": recurring{&reference.Backend{Name: "repeating"}, says, compiled}}}
		}
		m := carve.FromGraph(graphOf(layers(6)))
		defer m.Close()
		in := map[string]tensor.Value{"x": wave(3, 16)}
		plain := compile(ctx, m, with(false))
		Expect(compiled.Load()).To(BeEquivalentTo(6))
		want, err := plain.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		compiled.Store(0)

		p := compile(ctx, m, with(true))
		Expect(compiled.Load()).To(BeEquivalentTo(2), "one of five, and the last one")
		for range 2 {
			Expect(p.Run(ctx, in)).To(BeComparableTo(want))
		}
		Expect(p.Run(ctx, map[string]tensor.Value{"x": wave(5, 16)})).To(HaveLen(1))
		Expect(p.Run(ctx, in)).To(BeComparableTo(want))
		_, profile, err := p.RunProfiled(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		seen := map[string]int{}
		for _, s := range profile.Spans {
			seen[s.Name]++
		}
		for i := range 6 {
			Expect(seen).To(HaveKeyWithValue(fmt.Sprintf("m%d", i), 1))
			Expect(seen).To(HaveKeyWithValue(fmt.Sprintf("t%d", i), 1))
		}
		d, err := p.Check(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		Expect(d).To(BeNil())

		compiled.Store(0)
		path, _ := bundleOf(ctx, m, with(true), nil)
		compiled.Store(0)
		q := opens(ctx, path, with(true))
		Expect(compiled.Load()).To(BeEquivalentTo(2))
		Expect(q.Run(ctx, in)).To(BeComparableTo(want))
		Expect(plain.Close()).To(Succeed())
		Expect(p.Run(ctx, in)).To(BeComparableTo(want))
	})

	It("are compiled one by one where the first does not compile", func(ctx SpecContext) {
		o := &carve.Options{Backends: []backend.Config{{Name: "refusing"}, {Name: "reference"}}, Placement: carve.Priority,
			Open: map[string]backend.Backend{"refusing": refusing{recurring{&reference.Backend{Name: "refusing"}, true, &atomic.Int32{}}}}}
		m := carve.FromGraph(graphOf(layers(4)))
		defer m.Close()
		p := compile(ctx, m, o)
		r, err := p.Report(ctx, map[string][]int{"x": {2, 16}})
		Expect(err).NotTo(HaveOccurred())
		on := map[string]string{}
		for _, g := range r.Groups {
			for _, n := range g.Nodes {
				on[n] = g.Backend
			}
		}
		Expect(on).To(HaveKeyWithValue("m0", "reference"))
		Expect(on).To(HaveKeyWithValue("m1", "refusing"))
		Expect(on).To(HaveKeyWithValue("m3", "refusing"))
	})
})

// refusing compiles no group with the first layer in it.
type refusing struct{ recurring }

func (r refusing) Compile(ctx context.Context, g *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	for n := range g.Nodes() {
		if n.Name == "m0" {
			return nil, backend.ErrRefused
		}
	}
	return r.recurring.Compile(ctx, g, o)
}
