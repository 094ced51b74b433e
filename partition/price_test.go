package partition_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/partition/partitiontest"
	"github.com/carve-dev/carve/property"
)

// rated is a backend of somebody else's, that brings a table and has two signatures for every node.
type rated struct {
	backend.Backend
	table string
	says  property.Cost
}

func (r rated) Info() backend.Info {
	info := r.Backend.Info()
	sets, err := backend.ParseEfficiencies(r.table)
	Expect(err).NotTo(HaveOccurred())
	info.Efficiency = sets["own"]
	return info
}

func (r rated) Supports(n *graph.Node) backend.Support {
	s := backend.Support{Cost: r.says}
	for _, name := range []string{"slow:1", "fast:1"} {
		s.Signatures = append(s.Signatures, graph.UniformSignature(name, n, graph.HostFormat))
	}
	return s
}

// prices takes everything and keeps the candidates.
type prices struct {
	seen map[string]*partition.Candidate
}

func (p prices) Choose(ctx context.Context, t *partition.Candidates) error {
	if err := (partition.Priority{}).Choose(ctx, t); err != nil {
		return err
	}
	for c := range t.All() {
		p.seen[c.Node.Name] = c
	}
	return nil
}

var _ = Describe("A candidate's cost", func() {
	candidates := func(b backend.Backend, threads int, lines ...string) map[string]*partition.Candidate {
		GinkgoHelper()
		p := prices{map[string]*partition.Candidate{}}
		_, err := partitiontest.Run(context.Background(), &partitiontest.Case{Graph: partitiontest.Lines("b", lines...),
			Options: partition.Options{Chooser: p, Threads: threads, Backends: []backend.Backend{b}}})
		Expect(err).NotTo(HaveOccurred())
		return p.seen
	}
	const table = "set own launch=70 switch=500 sync=0 cache=1e6\nadd fixed=100\nadd@slow: fixed=160\nexp fixed=30 bytes=2\n"

	It("is modelled by the backend's own table, for its best signature, and others say what they cost beyond", func() {
		seen := candidates(rated{Backend: instance("own", graph.RowMajor), table: table}, 1, "a = Neg(x)", "b = Exp(a)")
		Expect(seen["a"].Cost.Nanoseconds).To(Equal(100.0))
		Expect([]float64{seen["a"].Signatures[0].Extra, seen["a"].Signatures[1].Extra}).To(Equal([]float64{60, 0}))
		Expect(seen["b"].Cost.Nanoseconds).To(Equal(30 + 2*seen["b"].Cost.Bytes))
		Expect([]float64{seen["b"].Signatures[0].Extra, seen["b"].Signatures[1].Extra}).To(Equal([]float64{0, 0}))
	})

	It("is for the threads of a run", func() {
		one := candidates(rated{Backend: instance("own", graph.RowMajor), table: table}, 1, "a = Neg(x)", "b = Exp(a)")["b"].Cost
		two := candidates(rated{Backend: instance("own", graph.RowMajor), table: table}, 2, "a = Neg(x)", "b = Exp(a)")["b"].Cost
		Expect(two.Nanoseconds - 30).To(Equal((one.Nanoseconds - 30) / 2))
	})

	It("is what the backend names, where it does", func() {
		seen := candidates(rated{Backend: instance("own", graph.RowMajor), table: table, says: property.Cost{Nanoseconds: 5}}, 1, "b = Neg(x)")
		Expect(seen["b"].Cost).To(Equal(property.Cost{Nanoseconds: 5}))
	})

	It("is not known of a backend that says nothing", func() {
		Expect(candidates(instance("mute", graph.RowMajor), 1, "b = Neg(x)")["b"].Cost.Nanoseconds).To(BeZero())
	})

	It("comes with what it takes to begin a group", func() {
		list := []backend.Backend{rated{Backend: instance("own", graph.RowMajor), table: table}, instance("mute", graph.RowMajor)}
		Expect(partition.Launches(list, 1)).To(Equal([]float64{70, 0}))
		Expect(partition.Launches(list, 2)).To(Equal([]float64{570, 0}))
	})
})
