package opencl_test

import (
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
)

var _ = DescribeTable("operators run on the device, and agree with the reference", func(ctx SpecContext, text string, shape ...int) {
	open()
	g, err := graph.Parse("graph {\n  opset 24\n" + text + "\n}")
	Expect(err).NotTo(HaveOccurred())
	m := carve.FromGraph(g)
	DeferCleanup(m.Close)
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "opencl"}}, Placement: carve.Priority, Verify: true, Poison: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	in := map[string]tensor.Value{"x": grouptest.Whole(rand.New(rand.NewPCG(5, 6)), 3, shape...)}
	d, err := p.Check(ctx, in)
	Expect(err).NotTo(HaveOccurred())
	Expect(d).To(BeNil())
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	for _, x := range r.Groups {
		Expect(x.Backend).To(Equal("opencl"), "%v", x.Nodes)
	}
},
	operators(),
	Entry("transposed convolutions whose windows do not overlap", `  input %x: f32[2,3,4,5]
  const %w = f32[3,2,2,3]{1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12, 13, -14, 15, -16, 17, -18, 19, -20, 21, -22, 23, -24, 25, -26, 27, -28, 29, -30, 31, -32, 33, -34, 35, -36}
  const %b = f32[2]{0.5, -0.25}
  %t = ConvTranspose(%x, %w, %b; strides=[2,3])
  %y = Relu(%t)
  output %y`, 2, 3, 4, 5),
	Entry("transposed convolutions whose windows overlap, in groups, with padding, dilation and a remainder", `  input %x: f32[2,4,3,5]
  const %w = f32[4,1,3,2]{1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12, 13, -14, 15, -16, 17, -18, 19, -20, 21, -22, 23, -24}
  const %b = f32[2]{0.5, -0.25}
  %t = ConvTranspose(%x, %w, %b; strides=[2,1], pads=[1,0,2,1], dilations=[1,2], output_padding=[1,0], group=2)
  %y = Relu(%t)
  output %y`, 2, 4, 3, 5),
	Entry("transposed convolutions of one dim", `  input %x: f32[1,2,6]
  const %w = f32[2,2,3]{1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12}
  %y = ConvTranspose(%x, %w; strides=[2], pads=[1,1])
  output %y`, 1, 2, 6),
	Entry("Gemm of transposed operands, with factors", `  input %x: f32[5,3]
  const %w = f32[2,5]{1, -2, 3, -4, 5, -6, 7, -8, 9, -10}
  const %c = f32[3,1]{0.5, -0.25, 2}
  %t = Gemm(%x, %w, %c; transA=1, transB=1, alpha=0.5, beta=2.0)
  %y = Relu(%t)
  output %y`, 5, 3),
	Entry("attention of several heads, which share keys, with a mask of truths", `  input %x: f32[2,4,5,8]
  const %a = i64[2]{0, 2}
  %k = Gather(%x, %a; axis=1)
  %m = Greater(%x, %k0)
  const %k0 = f32[]{-2.5}
  const %s = i64[4]{0, 0, 0, 0}
  const %e = i64[4]{2, 4, 5, 5}
  %n = Slice(%m, %s, %e)
  %y = Attention(%x, %k, %k, %n; scale=0.125)
  output %y`, 2, 4, 5, 8),
	Entry("attention of heads side by side, causal", `  input %x: f32[2,7,12]
  %y = Attention(%x, %x, %x; q_num_heads=3, kv_num_heads=3, is_causal=1)
  output %y`, 2, 7, 12),
	Entry("operands of which only the type counts, made on the device", `  input %x: f32[3,7]
  %r = Relu(%x)
  %c = Cast(%x; to=10)
  %l = CastLike(%r, %c)
  %e = EyeLike(%r; dtype=1)
  %y = Cast(%l; to=1)
  %z = Add(%y, %e)
  output %z`, 3, 7),
	Entry("Swish", `  input %x: f32[3,7]
  %y = Swish(%x; alpha=0.5)
  output %y`, 3, 7),
	Entry("averages over padding, and windows beyond it", `  input %x: f32[1,2,7,8]
  %a = AveragePool(%x; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1)
  %b = AveragePool(%x; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1, count_include_pad=1)
  %c = MaxPool(%x; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1)
  %s = Add(%a, %b)
  %y = Add(%s, %c)
  output %y`, 1, 2, 7, 8),
)

// operators are what the backends of graphics processors are all tried with.
func operators() (list []TableEntry) {
	for _, x := range grouptest.Operators {
		list = append(list, Entry(x.Name, x.Parameters()...))
	}
	return list
}
