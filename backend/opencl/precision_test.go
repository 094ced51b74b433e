package opencl_test

import (
	"context"
	"errors"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/opencl"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
	"github.com/carve-dev/carve/partition"
)

// compile compiles a graph for the device alone until the end of the spec, with poisoned memory.
func compile(ctx context.Context, g *graph.Graph, options map[string]string) (*carve.Program, error) {
	m := carve.FromGraph(g)
	DeferCleanup(m.Close)
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "opencl", Options: options}},
		Placement: carve.Priority, Strict: true, Poison: true, Verify: true})
	if err == nil {
		DeferCleanup(p.Close)
	}
	return p, err
}

var _ = DescribeTable("products round their operands as the option says, add in float32, and the report names it",
	func(ctx SpecContext, option, effective string, x grouptest.Product) {
		open()
		g, err := x.Graph()
		Expect(err).NotTo(HaveOccurred())
		p, err := compile(ctx, g, map[string]string{"precision": option})
		Expect(err).NotTo(HaveOccurred())
		Expect(x.Compare(ctx, p, effective)).To(Succeed())
		d, err := x.Check(ctx, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(d).To(BeNil())
	},
	Entry("float32 by default", "", "f32", grouptest.MatMul),
	Entry("half precision", "f16", "f16", grouptest.MatMul),
	Entry("bfloat16, of a second operand that is transposed", "bf16", "bf16", grouptest.Transposed),
	Entry("half precision, in a convolution", "f16", "f16", grouptest.Conv),
)

var _ = DescribeTable("weights of products are kept in the 16 bits to which these round them, and so is what the host casts while it copies, but nothing else",
	func(ctx SpecContext, precision string, want ...string) {
		open()
		g, err := grouptest.Chain()
		Expect(err).NotTo(HaveOccurred())
		p, err := compile(ctx, g, map[string]string{"precision": precision})
		Expect(err).NotTo(HaveOccurred())
		Expect(grouptest.Conversions(ctx, p)).To(Equal(want))
		Expect(grouptest.CompareChain(ctx, p)).To(Succeed())
	},
	Entry("half precision", "f16",
		"w1 to opencl:0:gpu@1:f16-cdba", "w2 to opencl:0:gpu@1:f16-cdba", "x to opencl:0:gpu@1:f16-acdb", "y to host:NCHW"),
	Entry("bfloat16", "bf16",
		"w1 to opencl:0:gpu@1:bf16-cdba", "w2 to opencl:0:gpu@1:bf16-cdba", "x to opencl:0:gpu@1:bf16-acdb", "y to host:NCHW"),
	Entry("float32", "f32", "w1 to opencl:0:cdba", "w2 to opencl:0:cdba", "x to opencl:0:NHWC", "y to host:NCHW"),
)

var _ = Describe("the option precision", func() {
	It("is said to have no effect where no device has instructions for it, and is an error under Strict", func(ctx SpecContext) {
		b := openWith(map[string]string{"precision": "tf32"})
		Expect(b.Info().Unmet).To(Equal("precision=tf32: the device has no instructions for it, products stay in f32"))
		Expect(b.Info().Precision).To(BeEmpty())
		g, err := grouptest.Conv.Graph()
		Expect(err).NotTo(HaveOccurred())
		_, err = compile(ctx, g, map[string]string{"precision": "tf32"})
		Expect(err).To(MatchError(backend.ErrUnavailable))
	})

	It("is one of four", func() {
		open()
		_, err := opencl.Open(backend.Config{Name: "opencl", Options: map[string]string{"precision": "f8"}})
		Expect(err).To(MatchError(backend.ErrOption))
	})
})

var _ = Describe("double precision", func() {
	It("is computed there where the device has it", func(ctx SpecContext) {
		b := open()
		g, err := grouptest.Doubles()
		Expect(err).NotTo(HaveOccurred())
		p, err := compile(ctx, g, nil)
		if errors.Is(err, partition.ErrUnplaced) && !strings.Contains(b.Info().Processor, "CPU") {
			Skip("the OpenCL device has no double precision: " + err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(grouptest.CompareDoubles(ctx, p, "opencl")).To(Succeed())
	})
})
