package partition_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
)

// picky runs Abs in the blocked layout, Exp in the row-major one, and what else there is in either.
type picky struct{ *reference.Backend }

func (p picky) Supports(n *graph.Node) backend.Support {
	s := p.Backend.Supports(n)
	if s.Reason != nil {
		return s
	}
	blocked, host := graph.UniformSignature("blocked", n, graph.On(graph.NCHW16c)), graph.UniformSignature("row-major", n, graph.HostFormat)
	switch n.Op.Name {
	case "Abs":
		s.Signatures = []graph.Signature{blocked}
	case "Exp":
		s.Signatures = []graph.Signature{host}
	default:
		s.Signatures = []graph.Signature{blocked, host}
	}
	return s
}

var _ = Describe("The choice of formats", func() {
	names := map[graph.Format]string{graph.HostFormat: "host", graph.On(graph.NCHW16c): "blocked"}

	DescribeTable("moves conversions to where", func(ctx SpecContext, shape string, lines []string, head string, want ...string) {
		g := parse(strings.ReplaceAll(text(head, lines...), "f32[1,16,4,4]", shape))
		carved(ctx, g, &partition.Options{Backends: []backend.Backend{picky{instance("picky", graph.RowMajor)}}})
		Expect(steps(g, names)).To(Equal(want))
	},
		Entry("blocks stop to hold few channels", "f32[1,3,64,64]", []string{"a = Abs(x)", "b = Neg(a)", "c = Neg(b)", "d = Exp(c)"}, "d",
			"host→blocked", "a", "blocked→host", "b", "c", "d"),
		Entry("blocks begin to hold few channels", "f32[1,3,64,64]", []string{"a = Exp(x)", "b = Neg(a)", "c = Neg(b)", "d = Abs(c)", "e = Exp(d)"}, "e",
			"a", "b", "c", "host→blocked", "d", "blocked→host", "e"),
		Entry("a conversion back and forth costs more than 15 channels of padding", "f32[1,17,64,64]", []string{"a = Abs(x)", "b = Neg(a)", "c = Neg(b)", "d = Abs(c)"}, "d",
			"host→blocked", "a", "b", "c", "d", "blocked→host"),
		Entry("a conversion back and forth costs more than 4 channels of padding", "f32[1,60,64,64]", []string{"a = Abs(x)", "b = Neg(a)", "c = Neg(b)", "d = Abs(c)"}, "d",
			"host→blocked", "a", "b", "c", "d", "blocked→host"),
		Entry("neutral operators lie between neighbours of one format", "f32[1,64,8,8]", []string{"a = Abs(x)", "b = Neg(a)", "c = Relu(b)", "d = Neg(c)", "e = Abs(d)"}, "e",
			"host→blocked", "a", "b", "c", "d", "e", "blocked→host"),
		Entry("a sum joins two branches", "f32[1,64,8,8]", []string{"a = Abs(x)", "b = Neg(a)", "c = Abs(y)", "d = Add(b, c)", "e = Neg(d)", "f = Exp(e)"}, "f",
			"host→blocked", "host→blocked", "a", "b", "c", "d", "e", "blocked→host", "f"),
		Entry("a value has readers of both formats", "f32[1,64,8,8]", []string{"a = Abs(x)", "b = Exp(a)", "c = Abs(a)", "d = Exp(a)", "e = Sum(b, d)"}, "c, e",
			"host→blocked", "a", "blocked→host", "b", "c", "d", "e", "blocked→host"),
		Entry("branches of a neutral operator want the same", "f32[1,64,8,8]", []string{"a = Abs(x)", "b = Neg(a)", "c = Exp(b)", "d = Exp(b)", "e = Exp(b)"}, "c, d, e",
			"host→blocked", "a", "b", "blocked→host", "c", "d", "e"),
		Entry("one operand of a sum comes in the other format", "f32[1,64,8,8]", []string{"a = Exp(x)", "b = Abs(y)", "c = Add(a, b)", "d = Neg(c)", "e = Abs(d)"}, "e",
			"host→blocked", "a", "b", "host→blocked", "c", "d", "e", "blocked→host"),
		Entry("a diamond of neutral operators ends", "f32[1,64,8,8]", []string{"a = Abs(x)", "b = Neg(a)", "c = Relu(a)", "d = Add(b, c)", "e = Abs(d)"}, "e",
			"host→blocked", "a", "b", "c", "d", "e", "blocked→host"),
	)
})
