package plugin_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("a plugin in the host's memory, without queues", func() {
	DescribeTable("runs again and again without an allocation of Go's", func(ctx SpecContext, ends bool) {
		during := context.Background()
		if ends {
			during = ctx
		}
		path := build(GinkgoTB(), "testdata/add.c")
		g, err := graph.Parse("graph {\n  opset 17\n  input %a: f32[N,3]\n  input %b: f32[N,3]\n  %s = Add(%a, %b)\n  %y = Relu(%s)\n  output %y\n}\n")
		Expect(err).NotTo(HaveOccurred())
		m := carve.FromGraph(g)
		defer m.Close()
		p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "add"}, {Name: "cpu"}}, Plugins: []string{path}, Threads: 1})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		in := []*tensor.Tensor{tensor.From([]float32{1, -2, 3, -4, 5, -6}, 2, 3), tensor.From([]float32{1, 1, 1, 1, 1, 1}, 2, 3)}
		out := []*tensor.Tensor{tensor.From(make([]float32, 6), 2, 3)}
		n := 1.0
		for try := 0; n > 0 && try < 3; try++ { // what earlier specs left behind may be cleaned up meanwhile
			n = testing.AllocsPerRun(20, func() { err = errors.Join(err, p.RunInto(during, in, out)) })
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(n).To(BeZero())
		Expect(tensor.Of[float32](out[0])).To(Equal([]float32{2, 0, 4, 0, 6, 0}))
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveLen(2))
		Expect(r.Groups[0].Backend).To(Equal("add"))
	},
		Entry("whose context cannot end", false),
		Entry("whose context can end", true))
})
