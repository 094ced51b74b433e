package partition_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// opaque returns the layout that only the backend of that name knows.
func opaque(name string) graph.Layout {
	l, err := graph.OpaqueLayout(name, "1", "own")
	if err != nil {
		panic(err)
	}
	return l
}

// hop is a converter that is planned with, not run.
func hop(from, to graph.Format) convert.Converter {
	return convert.Converter{
		Name: from.String() + " to " + to.String(), From: from, To: to, Cost: convert.Cost{Fixed: 1000, PerByte: 0.2},
		Size: func(graph.Format, tensor.DType, []int) (int64, error) { return 0, nil },
		Plan: func(tensor.DType, []int) (convert.Move, error) { return nil, errors.New("not run here") },
	}
}

// instance returns an instance of the reference backend with a layout of its own, which takes nodes by operator, or, with a
// name of the form "=name", by name; no names mean all nodes.
func instance(name string, layout graph.Layout, takes ...string) *reference.Backend {
	b := &reference.Backend{Name: name}
	if layout != graph.RowMajor {
		b.Layout = func(graph.Type) graph.Layout { return layout }
	}
	if layout.IsOpaque() {
		b.Own = []convert.Converter{hop(graph.HostFormat, graph.On(layout)), hop(graph.On(layout), graph.HostFormat)}
	}
	if len(takes) > 0 {
		b.Accept = func(n *graph.Node) bool {
			return slices.Contains(takes, n.Op.String()) || slices.Contains(takes, "="+n.Name)
		}
	}
	return b
}

// registry returns the converters of the backends and more.
func registry(backends []backend.Backend, more ...convert.Converter) *convert.Registry {
	GinkgoHelper()
	for _, b := range backends {
		more = append(more, b.Converters()...)
	}
	r, err := convert.NewRegistry(more)
	Expect(err).NotTo(HaveOccurred())
	return r
}

// parse reads a graph and infers its types. Every node is named after its first result.
func parse(text string) *graph.Graph {
	GinkgoHelper()
	g, err := graph.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.InferGraph(g)).To(Succeed())
	for n := range g.Nodes() {
		if n.Name == "" {
			n.Name = n.Outputs[0].Name
		}
	}
	return g
}

// carved partitions g, and checks the result by means of the package and by means of the test.
func carved(ctx context.Context, g *graph.Graph, o *partition.Options) *partition.Result {
	GinkgoHelper()
	before, err := g.Clone()
	Expect(err).NotTo(HaveOccurred())
	if o.Registry == nil {
		o.Registry = registry(o.Backends)
	}
	res, err := partition.Partition(ctx, g, o)
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.Verify(g)).To(Succeed(), g.String())
	Expect(check(before, g, res)).To(Succeed(), g.String())
	return res
}

// groups writes the groups in order, each as backend and nodes: "mkl: a b".
func groups(res *partition.Result) []string {
	var out []string
	for _, gr := range res.Groups {
		names := []string{}
		for n := range gr.Body.Nodes() {
			switch {
			case n.IsCarve(graph.OpFused):
				var inner []string
				for m := range n.Regions[0].Graph.Nodes() {
					inner = append(inner, m.Name)
				}
				names = append(names, "("+strings.Join(inner, " ")+")")
			case !n.IsCarve(graph.OpConvert):
				names = append(names, n.Name)
			}
		}
		out = append(out, gr.Backend+": "+strings.Join(names, " "))
	}
	return out
}

// steps writes what runs, in order: nodes by name, conversions as "from→to", where formats go by the names given.
func steps(g *graph.Graph, names map[graph.Format]string) []string {
	var out []string
	for n := range g.Nodes() {
		switch {
		case n.IsCarve(graph.OpConvert):
			out = append(out, names[n.Inputs[0].Format]+"→"+names[n.Outputs[0].Format])
		case n.IsCarve(graph.OpSubgraph):
			out = append(out, steps(n.Regions[0].Graph, names)...)
		default:
			out = append(out, n.Name)
		}
	}
	return out
}

// reasons returns what was said about a node on a backend.
func reasons(res *partition.Result, node, backend string) []string {
	var out []string
	for _, r := range res.Rejected {
		if r.Node == node && r.Backend == backend {
			out = append(out, r.Reason.String())
		}
	}
	return out
}

// fused is an atomic property whose fused nodes run in one format: it brings their signatures itself.
// Unwrap implements property.Unwrapper.
func (f fused) Unwrap() property.SubgraphProperty { return f.SubgraphProperty }

type fused struct {
	property.SubgraphProperty
	format graph.Format
}

func (f fused) Signatures(n *graph.Node) []graph.Signature {
	return []graph.Signature{graph.UniformSignature("fused", n, f.format)}
}
