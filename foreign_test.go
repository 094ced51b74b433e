package carve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/memplan/schedule"
)

// everything is what cpu implements.
type everything interface {
	backend.Backend
	backend.Estimator
	convert.Source
}

// foreign is a backend from outside that has cpu's kernels under a name of its own.
type foreign struct{ everything }

func (f foreign) Info() backend.Info {
	i := f.everything.Info()
	i.Name = "foreign"
	return i
}

// mute is one that says nothing of memory.
type mute struct{ backend.Backend }

func openForeign() foreign {
	GinkgoHelper()
	b, err := cpu.Open(backend.Config{})
	Expect(err).NotTo(HaveOccurred())
	return foreign{b.(everything)}
}

// decisions are what a compilation decided for a backend's sake, with its name as "cpu": groups, conversions and memory of
// the report, the memory plan, and the graph with its order of nodes.
func decisions(ctx context.Context, m *carve.Model, name string, b backend.Backend, shapes map[string][]int) string {
	GinkgoHelper()
	var ordered string
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: name}, {Name: "reference"}}, Strict: true, Threads: 2,
		Open: map[string]backend.Backend{name: b}, Verify: true, Dump: func(pass string, g *graph.Graph) {
			if pass == "order-nodes" {
				ordered = g.String()
			}
		}})
	Expect(err).NotTo(HaveOccurred())
	defer p.Close()
	Expect(ordered).NotTo(BeEmpty())
	r, err := p.Report(ctx, shapes)
	Expect(err).NotTo(HaveOccurred())
	plans, err := p.Plan(ctx, shapes)
	Expect(err).NotTo(HaveOccurred())
	text, err := json.MarshalIndent([]any{r.Groups, r.Conversions, r.Devices, r.Peak, plans}, "", " ")
	Expect(err).NotTo(HaveOccurred())
	return strings.ReplaceAll(ordered+string(text), name, "cpu")
}

var _ = Describe("a backend of another name with cpu's kernels", func() {
	same := func(ctx context.Context, what string, m *carve.Model, shapes map[string][]int) {
		GinkgoHelper()
		f := openForeign()
		theirs, ours := decisions(ctx, m, "foreign", f, shapes), decisions(ctx, m, "cpu", f.everything, shapes)
		Expect(theirs).To(Equal(ours), what)
	}

	It("gets cpu's groups, conversions, order and arenas for the zoo", func(ctx SpecContext) {
		for _, name := range smallZoo {
			z := openZoo(ctx, name)
			same(ctx, name, z.Model, z.shapes())
		}
	})

	It("gets them for random models", func(ctx SpecContext) {
		for seed := range uint64(40) {
			r := newRandomNet(seed)
			text := r.g.String()
			same(ctx, fmt.Sprintf("seed %d: %s", seed, text), carve.FromGraph(r.g), nil)
		}
	})

	It("gets another order where it says nothing of memory", func(ctx SpecContext) {
		f := openForeign()
		differ := 0
		for seed := range uint64(40) {
			m := carve.FromGraph(newRandomNet(seed).g)
			if decisions(ctx, m, "foreign", f, nil) != decisions(ctx, m, "foreign", mute{f}, nil) {
				differ++
			}
		}
		Expect(differ).To(BeNumerically(">", 0))
	})
})

// hasWorkspace reports whether a program has recurrences, or attention, which work in memory of their own.
func hasWorkspace(r *carve.Report) bool {
	return slices.ContainsFunc(r.Groups, func(g carve.GroupReport) bool {
		return slices.Contains(g.Ops, "LSTM") || slices.Contains(g.Ops, "attention")
	})
}

var _ = Describe("the peak of live bytes in the report", func() {
	It("is what the plan needs at least for the zoo's small models", func(ctx SpecContext) {
		for _, name := range smallZoo {
			z := openZoo(ctx, name)
			p := compile(ctx, z.Model, &carve.Options{Threads: 2})
			r, err := p.Report(ctx, z.shapes())
			Expect(err).NotTo(HaveOccurred())
			if hasWorkspace(r) {
				Expect(r.Peak.After).To(BeNumerically("<=", r.Devices[0].LowerBound), name)
				continue
			}
			Expect(r.Peak.After).To(Equal(r.Devices[0].LowerBound), name)
		}
	})
})

// witness compares, for each group that it specialises, the peak of live bytes by the estimate with that of the buffers
// that the instance asks for.
type witness struct {
	everything
	groups, equal int
}

// witnessed is a group of a witness.
type witnessed struct {
	backend.Executable
	w   *witness
	sub *graph.Graph
	o   backend.CompileOptions
}

func (w *witness) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	e, err := w.everything.Compile(ctx, sub, o)
	return &witnessed{e, w, sub, o}, err
}

func (e *witnessed) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	inst, err := e.Executable.Specialize(ctx, b)
	if err != nil {
		return nil, err
	}
	f, err := e.w.Estimate(ctx, e.sub, b, e.o)
	if err != nil {
		return nil, err
	}
	r := inst.Requirements()
	estimate, plan := bodyPeak(e.sub, f), int64(0)
	for at := range r.Steps {
		live := int64(0)
		for _, buf := range r.Buffers {
			if buf.First <= at && at <= buf.Last {
				live += (buf.Bytes + tensor.Alignment - 1) &^ (tensor.Alignment - 1)
			}
		}
		plan = max(plan, live)
	}
	e.w.groups++
	switch {
	case estimate > plan:
		return nil, fmt.Errorf("an estimate of %d bytes for a group that needs %d: %v", estimate, plan, e.sub)
	case estimate == plan:
		e.w.equal++
	}
	return inst, nil
}

// bodyPeak is the peak of live bytes of a body in its order, by a footprint, without inputs and outputs.
func bodyPeak(sub *graph.Graph, f *backend.Footprint) int64 {
	GinkgoHelper()
	nodes, err := sub.Topo()
	Expect(err).NotTo(HaveOccurred())
	s := &schedule.Graph{Bytes: f.Bytes, Within: f.Within}
	order := make([]int, len(nodes))
	for i, n := range nodes {
		order[i] = i
		one := schedule.Node{Overwrite: f.Overwrite[n.ID]}
		for _, v := range n.Inputs {
			if v != nil && !v.IsConst() && !v.IsDims() {
				one.Inputs = append(one.Inputs, v.ID)
			}
		}
		for _, v := range n.Outputs {
			if v != nil {
				one.Outputs = append(one.Outputs, v.ID)
			}
		}
		s.Nodes = append(s.Nodes, one)
	}
	for _, v := range slices.Concat(sub.Inputs, sub.Outputs) {
		s.Bytes[s.Within[v.ID]] = 0
	}
	peak, err := schedule.Peak(s, order)
	Expect(err).NotTo(HaveOccurred())
	return peak
}

var _ = Describe("what a backend estimates of a group's memory", func() {
	check := func(ctx context.Context, w *witness, m *carve.Model, dims map[string]int, shapes map[string][]int) {
		GinkgoHelper()
		p, err := carve.Compile(ctx, m, &carve.Options{Threads: 2, Strict: true, Dims: dims,
			Backends: []backend.Config{{Name: "foreign"}, {Name: "reference"}}, Open: map[string]backend.Backend{"foreign": foreign{w}}})
		Expect(err).NotTo(HaveOccurred())
		defer p.Close()
		_, err = p.Report(ctx, shapes)
		Expect(err).NotTo(HaveOccurred())
	}

	It("is what it asks for without workspace, for random models", func(ctx SpecContext) {
		w := &witness{everything: openForeign().everything}
		for seed := range uint64(200) {
			check(ctx, w, carve.FromGraph(newRandomNet(seed).g), map[string]int{"N": 1 + int(seed%3)}, nil)
		}
		AddReportEntry("groups", fmt.Sprintf("%d, %d with that peak", w.groups, w.equal))
		Expect(w.groups).To(BeNumerically(">", 200))
		Expect(w.equal).To(BeNumerically(">", w.groups*8/10))
	})

	It("is what it asks for without workspace, for the zoo's small models", func(ctx SpecContext) {
		w := &witness{everything: openForeign().everything}
		working := 0
		for _, name := range smallZoo {
			z := openZoo(ctx, name)
			check(ctx, w, z.Model, nil, z.shapes())
			r, err := compile(ctx, z.Model, nil).Report(ctx, z.shapes())
			Expect(err).NotTo(HaveOccurred())
			if hasWorkspace(r) {
				working++
			}
		}
		AddReportEntry("groups", fmt.Sprintf("%d, %d with that peak, %d models with workspace", w.groups, w.equal, working))
		Expect(w.equal).To(BeNumerically(">=", w.groups-working))
		Expect(working).To(BeNumerically("<", len(smallZoo)))
	})
})
