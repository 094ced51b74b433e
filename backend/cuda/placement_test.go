package cuda_test

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
)

var _ = Describe("placement by cost", func() {
	// layers are products of a matrix [rows, width], each with an activation behind it.
	layers := func(rows, width string, weights []int) *graph.Graph {
		GinkgoHelper()
		g, err := graph.Parse("graph {\n  opset 24\n  input %x: f32[" + rows + "," + width + "]\n" +
			"  %a = MatMul(%x, %x) \"a\"\n  %b = Tanh(%a) \"b\"\n  %c = MatMul(%b, %b) \"c\"\n  %y = Relu(%c) \"d\"\n  output %y\n}")
		Expect(err).NotTo(HaveOccurred())
		r := rand.New(rand.NewPCG(1, 2))
		w := g.AddConst("w", whole(r, 1, weights...))
		for _, n := range g.NodesByID() {
			if n.Is("MatMul") {
				n.SetOperand(1, w)
			}
		}
		return g
	}
	DescribeTable("takes the device for what it is worth, without being asked for", func(ctx SpecContext, g func() *graph.Graph, where string) {
		m := carve.FromGraph(g())
		DeferCleanup(m.Close)
		fake := own("placement of "+where, fakecuda.Options{})
		fake.Set("processors", 108)
		p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{config(fake)}, Threads: 4, Verify: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Placement).NotTo(BeNil())
		for _, x := range r.Groups {
			Expect(x.Backend).To(Equal(where), "%v", x.Nodes)
		}
	},
		Entry("large products", func() *graph.Graph { return layers("4096", "1024", []int{1024, 1024}) }, "cuda"),
		Entry("small ones", func() *graph.Graph { return layers("4", "8", []int{8, 8}) }, "cpu"),
	)
})

var errDetour = errors.New("the kernel of a reorder does not compile")

// detouring is a backend whose conversions that reorder go another way.
type detouring struct{ backend.Backend }

func (d detouring) Converters() []convert.Converter {
	list := d.Backend.Converters()
	for i := range list {
		if plan := list[i].Plan; list[i].Name == "upload-reorder" {
			list[i].Plan = func(dt tensor.DType, dims []int) (convert.Move, error) {
				move, err := plan(dt, dims)
				if err == nil {
					err = &convert.DetourError{Cause: errDetour}
				}
				return move, err
			}
		}
	}
	return list
}

var _ = Describe("a conversion that goes another way than it is there for", func() {
	start := func(ctx SpecContext, o carve.Options) (*carve.Program, error) {
		GinkgoHelper()
		b := detouring{open(driver())}
		m := carve.FromGraph(net())
		DeferCleanup(m.Close)
		o.Open, o.Backends, o.Placement = map[string]backend.Backend{"cuda": b}, []backend.Config{{Name: "cuda"}}, carve.Priority
		return carve.Compile(ctx, m, &o)
	}

	It("is in the report and in the log, and runs", func(ctx SpecContext) {
		var log strings.Builder
		p, err := start(ctx, carve.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		found := 0
		for _, c := range r.Conversions {
			if c.Via == "upload-reorder" {
				found++
				Expect(c.Detour).To(Equal(errDetour.Error()))
			} else {
				Expect(c.Detour).To(BeEmpty())
			}
		}
		Expect(found).To(Equal(1))
		Expect(log.String()).To(ContainSubstring(errDetour.Error()))
		x := whole(rand.New(rand.NewPCG(3, 4)), 2, 2, 3, 6, 5)
		_, err = p.Run(ctx, map[string]tensor.Value{"x": x})
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Count(log.String(), errDetour.Error())).To(Equal(1))
	})

	It("fails where Strict is set", func(ctx SpecContext) {
		_, err := start(ctx, carve.Options{Strict: true})
		Expect(err).To(MatchError(ContainSubstring(errDetour.Error())))
	})
})
