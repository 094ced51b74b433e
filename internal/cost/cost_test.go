package cost_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/cost"
)

// last returns the node behind the first output of a graph's text, whose inputs that begin with w are constants.
func last(text string) *graph.Node {
	GinkgoHelper()
	g, err := graph.Parse("graph {\n  opset 17\n" + text + "\n}")
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.InferGraph(g)).To(Succeed())
	return g.Outputs[0].Producer
}

// op is a node of these operands, "%x: f32[2]; %y: f32[2]".
func op(operands, call string) *graph.Node {
	GinkgoHelper()
	var s strings.Builder
	for _, in := range strings.Split(operands, ";") {
		fmt.Fprintf(&s, "  input %s\n", strings.TrimSpace(in))
	}
	return last(s.String() + "  %r = " + call + "\n  output %r")
}

// table is an efficiency of easy numbers.
func table(text string) *backend.Efficiency {
	GinkgoHelper()
	sets, err := backend.ParseEfficiencies(text)
	Expect(err).NotTo(HaveOccurred())
	return sets["plain"]
}

const plain = `set plain launch=100 sync=50 cache=1000
add fixed=10 bytes=1 far=2 serial=0.5
exp fixed=20 bytes=1 items=3
conv fixed=5 work=1
conv@slow fixed=5 work=10
product-thin fixed=1 work=1
product-batch fixed=1 work=2
other fixed=7 items=100
view fixed=1
`

var _ = Describe("Of", func() {
	It("adds up what a law says", func() {
		e := table(plain)
		c := cost.Of(e, op("%x: f32[4,5]", "Relu(%x)"), "", 1)
		Expect(c.Bytes).To(Equal(160.0))
		Expect(c.Nanoseconds).To(Equal(10 + 160.0))
		Expect(cost.Of(e, op("%x: f32[4,5]; %y: f32[4,5]", "Add(%x, %y)"), "", 1).Nanoseconds).To(Equal(10 + 240.0))
		Expect(cost.Of(e, op("%x: f32[200]", "Relu(%x)"), "", 1).Nanoseconds).To(Equal(10 + 1600 + 2*600.0))
	})

	It("counts an operand that comes twice once", func() {
		Expect(cost.Of(table(plain), op("%x: f32[10]", "Add(%x, %x)"), "", 1).Nanoseconds).To(Equal(10 + 80.0))
	})

	It("gives threads their part, and no node more time than it takes alone", func() {
		e := table(plain)
		n := op("%x: f32[125]", "Relu(%x)")
		Expect(cost.Of(e, n, "", 2).Nanoseconds).To(Equal(10 + 50 + 1000*0.75))
		Expect(cost.Of(e, n, "", 4).Nanoseconds).To(Equal(10 + 50 + 1000*0.625))
		Expect(cost.Of(e, n, "", 0).Nanoseconds).To(Equal(10 + 1000.0))
		small := op("%x: f32[2]", "Relu(%x)")
		Expect(cost.Of(e, small, "", 2)).To(Equal(cost.Of(e, small, "", 1)))
	})

	It("has laws for signatures", func() {
		n := op("%x: f32[1,16,4,4]; %w: f32[16,16,3,3]", "Conv(%x, %w)")
		fast, slow := cost.Of(table(plain), n, "fast:1", 1), cost.Of(table(plain), n, "slow:1", 1)
		Expect(fast.FLOPs).To(Equal(2.0 * 16 * 4 * 16 * 9))
		Expect(fast.Nanoseconds).To(Equal(5 + fast.FLOPs))
		Expect(slow.Nanoseconds).To(Equal(5 + 10*fast.FLOPs))
	})

	It("counts the runs that a transposition keeps together", func() {
		Expect(cost.Measure(op("%x: f32[2,3,4,5]", "Transpose(%x; perm=[1,0,2,3])")).Rows).To(Equal(6.0))
		Expect(cost.Measure(op("%x: f32[2,3,4,5]", "Transpose(%x; perm=[0,2,1,3])")).Rows).To(Equal(24.0))
		Expect(cost.Measure(op("%x: f32[2,3,4,5]", "Transpose(%x; perm=[0,1,2,3])")).Rows).To(Equal(1.0))
	})

	It("counts no more rows of a table than are gathered", func() {
		w := cost.Measure(op("%x: f32[1000,8]; %i: i64[2,3]", "Gather(%x, %i)"))
		Expect(w.Class).To(Equal("gather"))
		Expect(w.Rows).To(Equal(6.0))
	})

	It("counts operations on whole blocks of channels", func() {
		n := op("%x: f32[1,17,4,4]; %w: f32[15,17,1,1]", "Conv(%x, %w)")
		w := cost.Measure(n)
		Expect(w.Class).To(Equal("conv-point"))
		Expect(w.FLOPs).To(Equal(2.0 * 16 * 17 * 15))
		Expect(w.Work).To(Equal(2.0 * 16 * 32 * 16))
	})

	It("knows operators that it has no class for, and those of other domains, as others", func() {
		e := table(plain)
		Expect(cost.Of(e, op("%x: f32[3,3]", "Det(%x)"), "", 1).Nanoseconds).To(BeNumerically(">", 0))
		g, err := graph.Parse("graph {\n  opset 17\n  input %x: f32[10]\n  %y: f32[10] = acme::Spin(%x)\n  output %y\n}")
		Expect(err).NotTo(HaveOccurred())
		Expect(cost.Of(e, g.Outputs[0].Producer, "", 1).Nanoseconds).To(Equal(7 + 1000.0))
	})

	DescribeTable("counts products in ONNX Runtime's own operators", func(inputs, call, class string, work float64) {
		g, err := graph.Parse("graph {\n  opset 17\n  input " + strings.ReplaceAll(inputs, "; ", "\n  input ") + "\n  " + call + "\n  output %y\n}")
		Expect(err).NotTo(HaveOccurred())
		w := cost.Measure(g.Outputs[0].Producer)
		Expect(w.Class).To(Equal(class))
		Expect(w.Work).To(Equal(work))
	},
		Entry("weights of 4 bits", "%x: f32[1,2,64]; %w: u8[32,2,16]; %s: f32[64]", "%y: f32[1,2,32] = com.microsoft::MatMulNBits(%x, %w, %s; K=64, N=32, bits=4, block_size=32)", "product-thin", 2.0*2*64*32),
		Entry("weights of 4 bits and many rows", "%x: f32[1,9,64]; %w: u8[32,2,16]; %s: f32[64]", "%y: f32[1,9,32] = com.microsoft::MatMulNBits(%x, %w, %s; K=64, N=32, bits=4, block_size=32)", "product", 2.0*9*64*32),
		Entry("attention with a cache", "%q: f32[2,1,48]; %k: f32[2,1,16]", "%y: f32[2,1,48], %c: f32[2,1,32,16] = com.microsoft::GroupQueryAttention(%q, %k; num_heads=3, kv_num_heads=1)", "product-batch", 2.0*2*1*32*96),
		Entry("attention over keys", "%q: f32[2,8,48]; %k: f32[2,16,48]", "%y: f32[2,8,48] = com.microsoft::MultiHeadAttention(%q, %k; num_heads=3)", "product-batch", 2.0*2*8*16*96),
		Entry("others", "%x: f32[10]", "%y: f32[10] = com.microsoft::QuickGelu(%x)", cost.Other, 0.0),
	)

	It("says nothing without a table, or with one that has no law", func() {
		n := op("%x: f32[10]", "Relu(%x)")
		Expect(cost.Of(nil, n, "", 1).Nanoseconds).To(BeZero())
		Expect(cost.Of(nil, n, "", 1).Bytes).To(Equal(80.0))
		Expect(cost.Of(table("set plain\nconv work=1"), n, "", 1).Nanoseconds).To(BeZero())
	})

	It("takes graph.AssumedSize for symbols", func() {
		e := table(plain)
		Expect(cost.Of(e, op("%x: f32[seq,3]", "Relu(%x)"), "", 1)).To(Equal(cost.Of(e, op("%x: f32[32,3]", "Relu(%x)"), "", 1)))
		Expect(cost.Of(e, op("%x: f32[2*seq+1]", "Relu(%x)"), "", 1)).To(Equal(cost.Of(e, op("%x: f32[65]", "Relu(%x)"), "", 1)))
		Expect(cost.Of(e, op("%x: f32[batch_size,3]", "Relu(%x)"), "", 1)).To(Equal(cost.Of(e, op("%x: f32[1,3]", "Relu(%x)"), "", 1)))
		Expect(cost.Of(e, op("%x: f32[*]", "Relu(%x)"), "", 1).Nanoseconds).To(BeNumerically(">", 10))
	})
})

var _ = Describe("a fused set", func() {
	fuse := func(text string) *graph.Node {
		GinkgoHelper()
		g := last(text).Graph()
		n, err := g.Fuse(g.NodesByID(), graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpFused}})
		Expect(err).NotTo(HaveOccurred())
		return n
	}

	It("takes its head's time with the set's own bytes, and of the others only their arithmetic", func() {
		e := table(plain)
		alone := cost.Of(e, op("%x: f32[1,16,4,4]; %w: f32[16,16,3,3]", "Conv(%x, %w)"), "", 1)
		set := fuse("  input %x: f32[1,16,4,4]\n  input %w: f32[16,16,3,3]\n  %c = Conv(%x, %w)\n  %r = Sigmoid(%c)\n  output %r")
		c := cost.Of(e, set, "", 1)
		Expect(c.FLOPs).To(Equal(alone.FLOPs))
		Expect(c.Bytes).To(Equal(alone.Bytes))
		Expect(c.Nanoseconds).To(Equal(alone.Nanoseconds + 3*16*4))
		parts := alone.Nanoseconds + cost.Of(e, op("%x: f32[1,16,2,2]", "Sigmoid(%x)"), "", 1).Nanoseconds
		Expect(c.Nanoseconds).To(BeNumerically("<", parts))
	})

	It("is a view where all of its nodes are", func() {
		set := fuse("  input %x: f32[4]\n  %a = Identity(%x)\n  %b = Identity(%a)\n  output %b")
		Expect(cost.Measure(set).Class).To(Equal("view"))
	})
})

var _ = DescribeTable("classes tell apart what kernels do", func(operands, call, class string) {
	Expect(cost.Measure(op(operands, call)).Class).To(Equal(class))
},
	Entry(nil, "%x: f32[1,32,8,8]; %w: f32[32,32,3,3]", "Conv(%x, %w)", "conv"),
	Entry(nil, "%x: f32[1,32,8,8]; %w: f32[32,32,1,1]", "Conv(%x, %w)", "conv-point"),
	Entry(nil, "%x: f32[1,20,8,8]; %w: f32[32,20,3,3]", "Conv(%x, %w)", "conv-odd"),
	Entry(nil, "%x: f32[1,3,8,8]; %w: f32[32,3,3,3]", "Conv(%x, %w)", "conv-few"),
	Entry(nil, "%x: f32[1,32,8,8]; %w: f32[32,32,3,3]", "Conv(%x, %w; dilations=[2,2])", "conv-dilated"),
	Entry(nil, "%x: f32[1,32,8,8]; %w: f32[32,1,3,3]", "Conv(%x, %w; group=32)", "conv-depthwise"),
	Entry(nil, "%x: f32[1,32,8]; %w: f32[32,1,3]", "Conv(%x, %w; group=32)", "conv-depthwise-line"),
	Entry(nil, "%x: f32[1,32,8,8]; %w: f32[32,16,3,3]", "Conv(%x, %w; group=2)", "conv-grouped"),
	Entry(nil, "%x: f32[1,48,8,8]; %w: f32[48,24,3,3]", "Conv(%x, %w; group=2)", "conv-mixed"),
	Entry(nil, "%x: f32[1,32,80]; %w: f32[32,32,3]", "Conv(%x, %w)", "conv-line"),
	Entry(nil, "%x: f32[1,32,4,8,8]; %w: f32[32,32,3,3,3]", "Conv(%x, %w)", "conv-volume"),
	Entry(nil, "%x: f64[1,32,8,8]; %w: f64[32,32,3,3]", "Conv(%x, %w)", "conv-other"),
	Entry(nil, "%x: u8[1,32,8,8]; %w: u8[32,32,3,3]", "ConvInteger(%x, %w)", "conv-int"),
	Entry(nil, "%x: f32[1,32,8,8]; %w: f32[32,16,3,3]", "ConvTranspose(%x, %w)", "conv-transpose"),
	Entry(nil, "%x: f32[1,32,8,8]; %w: f32[32,1,3,3]", "ConvTranspose(%x, %w; group=32)", "conv-transpose-grouped"),
	Entry(nil, "%x: f32[8,16]; %w: f32[16,8]", "MatMul(%x, %w)", "product-batch"),
	Entry(nil, "%x: f32[4,4]; %y: f32[4]", "Mul(%x, %y)", "broadcast"),
	Entry(nil, "%x: f32[4,4]; %y: f32[]", "Mul(%x, %y)", "add"),
	Entry(nil, "%x: i64[4,4]; %y: i64[4,4]", "Mul(%x, %y)", "add-other"),
	Entry(nil, "%x: f32[4,4]", "Softmax(%x; axis=0)", "softmax-outer"),
	Entry(nil, "%x: f32[4,4]", "Softmax(%x; axis=1)", "softmax"),
	Entry(nil, "%x: f32[4,4]", "ReduceMax(%x; axes=[0])", "reduce-outer"),
	Entry(nil, "%x: f32[4,4]", "ReduceMax(%x; axes=[-1])", "reduce"),
	Entry(nil, "%x: f32[4,4]", "ReduceMax(%x; axes=[1], keepdims=0)", "reduce"),
	Entry(nil, "%x: f32[4,4]", "Cast(%x; to=7)", "cast"),
	Entry(nil, "%x: f32[4,4]", "Cast(%x; to=10)", "cast-small"),
)

var _ = It("a product with a constant is told from one of two activations, and one of few rows from one of many", func() {
	for rows, class := range map[int]string{1: "product-thin", 4: "product-thin", 5: "product"} {
		n := last(fmt.Sprintf("  input %%x: f32[%d,2]\n  const %%w = f32[2,2]{1, 2, 3, 4}\n  %%r = MatMul(%%x, %%w)\n  output %%r", rows))
		Expect(cost.Measure(n).Class).To(Equal(class))
	}
})

var _ = Describe("what runs on integers", func() {
	const quantum = "  const %s = f32[]{0.5}\n  const %z = u8[]{128}\n  const %v = i8[]{0}\n"
	// set is a fused set of all nodes of a text.
	set := func(text string) *graph.Node {
		GinkgoHelper()
		g := last(quantum + text).Graph()
		n, err := g.Fuse(g.NodesByID(), graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpFused}})
		Expect(err).NotTo(HaveOccurred())
		return n
	}
	conv := func(x, w, attrs string) (node, chain *graph.Node) {
		GinkgoHelper()
		node = last(quantum + fmt.Sprintf("  input %%x: %s\n  input %%w: %s\n  %%r = QLinearConv(%%x, %%s, %%z, %%w, %%s, %%v, %%s, %%z; %s)\n  output %%r", x, w, attrs))
		chain = set(fmt.Sprintf("  input %%x: %s\n  input %%w: %s\n  %%xd = DequantizeLinear(%%x, %%s, %%z)\n  %%wd = DequantizeLinear(%%w, %%s, %%v)\n  %%c = Conv(%%xd, %%wd; %s)\n  %%r = QuantizeLinear(%%c, %%s, %%z)\n  output %%r", x, w, attrs))
		return node, chain
	}

	DescribeTable("has classes of its own, the same for an operator as for a chain of nodes with one in floats", func(x, w, attrs, class string) {
		node, chain := conv(x, w, attrs)
		a, b := cost.Measure(node), cost.Measure(chain)
		Expect(a.Class).To(Equal(class))
		Expect(b.Class).To(Equal(class))
		Expect(b.Work).To(Equal(a.Work))
		Expect(b.Rows).To(Equal(a.Rows))
		Expect(b.Parts).To(BeEmpty())
	},
		Entry(nil, "u8[1,32,8,8]", "i8[32,32,3,3]", "pads=[1,1,1,1]", "conv-int"),
		Entry(nil, "u8[1,20,8,8]", "i8[24,20,3,3]", "pads=[1,1,1,1]", "conv-int-odd"),
		Entry(nil, "u8[1,32,8,8]", "i8[40,32,1,1]", "group=1", "conv-int-odd"),
		Entry(nil, "u8[1,32,8,8]", "i8[32,32,1,1]", "group=1", "conv-int-point"),
		Entry(nil, "u8[1,3,8,8]", "i8[32,3,3,3]", "group=1", "conv-int-few"),
		Entry(nil, "u8[1,32,8,8]", "i8[32,1,3,3]", "group=32", "conv-int-depthwise"),
		Entry(nil, "u8[1,32,8,8]", "i8[32,16,3,3]", "group=2", "conv-int-grouped"),
		Entry(nil, "u8[1,48,8,8]", "i8[48,24,3,3]", "group=2", "conv-int-grouped"),
	)

	DescribeTable("tells products of few rows", func(rows int, class string) {
		text := fmt.Sprintf("  input %%x: u8[%d,64]\n  const %%w = i8[64,32]{%s}\n", rows, strings.TrimSuffix(strings.Repeat("1, ", 64*32), ", "))
		node := last(quantum + text + "  %r = QLinearMatMul(%x, %s, %z, %w, %s, %v, %s, %z)\n  output %r")
		chain := set(text + "  %xd = DequantizeLinear(%x, %s, %z)\n  %wd = DequantizeLinear(%w, %s, %v)\n  %c = MatMul(%xd, %wd)\n  %r = QuantizeLinear(%c, %s, %z)\n  output %r")
		Expect(cost.Measure(node).Class).To(Equal(class))
		Expect(cost.Measure(chain).Class).To(Equal(class))
	},
		Entry(nil, 1, "product-int-thin"),
		Entry(nil, 64, "product-int"),
	)

	DescribeTable("is told by what enters and leaves the set", func(text, class string) {
		Expect(cost.Measure(set(text)).Class).To(Equal(class))
	},
		Entry("a function of integers", "  input %x: u8[64]\n  %d = DequantizeLinear(%x, %s, %z)\n  %e = Sigmoid(%d)\n  %r = QuantizeLinear(%e, %s, %z)\n  output %r", "function-int"),
		Entry("a sum of integers", "  input %x: u8[64]\n  input %y: u8[64]\n  %d = DequantizeLinear(%x, %s, %z)\n  %e = DequantizeLinear(%y, %s, %z)\n  %t = Add(%d, %e)\n  %r = QuantizeLinear(%t, %s, %z)\n  output %r", "add-int"),
		Entry("a sum with floats", "  input %x: u8[64]\n  input %y: f32[64]\n  %d = DequantizeLinear(%x, %s, %z)\n  %t = Add(%d, %y)\n  %r = QuantizeLinear(%t, %s, %z)\n  output %r", "quantize"),
		Entry("a softmax, which is no function of an element", "  input %x: u8[4,64]\n  %d = DequantizeLinear(%x, %s, %z)\n  %t = Softmax(%d)\n  %r = QuantizeLinear(%t, %s, %z)\n  output %r", "quantize"),
		Entry("weights of integers alone", "  input %x: f32[8,64]\n  input %w: i8[64,32]\n  %wd = DequantizeLinear(%w, %s, %v)\n  %r = MatMul(%x, %wd)\n  output %r", "product-batch"),
	)

	It("knows products with dequantised constants", func() {
		text := "  input %x: f32[8,64]\n  const %w = i8[64,2]{" + strings.TrimSuffix(strings.Repeat("1, ", 64*2), ", ") + "}\n  %wd = DequantizeLinear(%w, %s, %v)\n  %r = MatMul(%x, %wd)\n  output %r"
		Expect(cost.Measure(last(quantum + text)).Class).To(Equal("product"))
	})

	It("takes the law of its kind, then that of floats, where a table has none", func() {
		node, _ := conv("u8[1,32,8,8]", "i8[32,1,3,3]", "group=32")
		e := func(laws string) float64 {
			return cost.Of(table("set plain\n"+laws+"other fixed=1\n"), node, "", 1).Nanoseconds
		}
		Expect(e("conv fixed=5\nconv-depthwise fixed=4\nconv-int fixed=3\nconv-int-depthwise fixed=2\n")).To(Equal(2.0))
		Expect(e("conv fixed=5\nconv-depthwise fixed=4\nconv-int fixed=3\n")).To(Equal(3.0))
		Expect(e("conv fixed=5\nconv-depthwise fixed=4\n")).To(Equal(4.0))
		Expect(e("conv fixed=5\n")).To(Equal(5.0))
		Expect(e("")).To(Equal(1.0))
	})
})

// opened are the efficiencies that are linked here.
func opened() map[string]*backend.Efficiency {
	GinkgoHelper()
	m := map[string]*backend.Efficiency{}
	for _, name := range []string{"cpu", "reference"} {
		b, err := backend.Open(backend.Config{Name: name})
		Expect(err).NotTo(HaveOccurred())
		m[name] = b.Info().Efficiency
		Expect(m[name]).NotTo(BeNil(), name)
	}
	return m
}

var _ = Describe("the built-in tables", func() {
	It("give more time to more of anything", func() {
		shapes := []string{
			"%x: f32[{a},64,{b},28]; %w: f32[{c},64,3,3] | Conv(%x, %w; pads=[1,1,1,1])",
			"%x: f32[{a},{c},{b},28]; %w: f32[{c},1,3,3] | Conv(%x, %w; pads=[1,1,1,1], group={c})",
			"%x: f32[{a},{b},64]; %y: f32[{a},64,{c}] | MatMul(%x, %y)",
			"%x: f32[{a},{b},{c}] | Softmax(%x; axis=-1)",
			"%x: f32[{a},{b},{c}] | Relu(%x)",
			"%x: f32[{a},{b},{c}] | Transpose(%x; perm=[0,2,1])",
			"%x: f32[{a},{b},{c}] | Tanh(%x)",
			"%x: f32[{a},{b},{c}] | ReduceSum(%x)",
			"%x: f32[{a},{b},{c},7] | GlobalAveragePool(%x)",
			"%x: i64[{a},{b},{c}] | Neg(%x)",
		}
		for name, e := range opened() {
			for _, s := range shapes {
				operands, call, _ := strings.Cut(s, "|")
				before := 0.0
				for _, d := range [][3]int{{1, 14, 64}, {1, 15, 64}, {1, 15, 80}, {2, 15, 80}, {4, 60, 160}, {8, 120, 160}} {
					sized := strings.NewReplacer("{a}", fmt.Sprint(d[0]), "{b}", fmt.Sprint(d[1]), "{c}", fmt.Sprint(d[2]))
					n := op(sized.Replace(operands), sized.Replace(call))
					c := cost.Of(e, n, "", 1)
					Expect(c.Nanoseconds).To(BeNumerically(">=", before), "%s: %v of %v", name, call, d)
					Expect(cost.Of(e, n, "", 2).Nanoseconds).To(BeNumerically("<=", c.Nanoseconds))
					before = c.Nanoseconds
				}
			}
		}
	})

	It("see scalar kernels as slower than those of vectors", func() {
		e := opened()
		for _, n := range []*graph.Node{
			op("%x: f32[1,64,28,28]; %w: f32[64,64,3,3]", "Conv(%x, %w; pads=[1,1,1,1])"),
			op("%x: f32[64,128]; %w: f32[128,256]", "MatMul(%x, %w)"),
			op("%x: f32[1,64,28,28]", "Relu(%x)"),
			op("%x: f32[128,768]", "Softmax(%x)"),
		} {
			Expect(cost.Of(e["reference"], n, "plain", 1).Nanoseconds).To(BeNumerically(">", 2*cost.Of(e["cpu"], n, "", 1).Nanoseconds), "%v", n)
		}
	})

	It("stay finite and positive at hostile sizes", func() {
		huge := int64(math.MaxInt64)
		for name, e := range opened() {
			for _, n := range []*graph.Node{
				op(fmt.Sprintf("%%x: f32[%d,%d,%d,%d]", huge, huge, huge, huge), "Relu(%x)"),
				op(fmt.Sprintf("%%x: f32[%[1]d,%[1]d,%[1]d,%[1]d,%[1]d,%[1]d,%[1]d,%[1]d,%[1]d,%[1]d,%[1]d,%[1]d,%[1]d,%[1]d,%[1]d,%[1]d,%[1]d,%[1]d]", huge), "Relu(%x)"),
				op(fmt.Sprintf("%%x: f32[%[1]d,%[1]d]; %%y: f32[%[1]d,%[1]d]", huge), "MatMul(%x, %y)"),
				op("%x: f32[0,3]", "Relu(%x)"),
				op("%x: f32[]", "Relu(%x)"),
				op("%x: f32[N-20,3]", "Relu(%x)"),
				op("%x: f32[0,3]; %y: f32[3,0]", "MatMul(%x, %y)"),
			} {
				for _, threads := range []int{-1, 0, 1, 2, 1 << 40} {
					x := cost.Of(e, n, "", threads).Nanoseconds
					Expect(x).To(BeNumerically(">=", 1), "%s: %v", name, n)
					Expect(x).To(BeNumerically("<=", 1e18), "%s: %v", name, n)
				}
			}
		}
	})
})

func BenchmarkOf(b *testing.B) {
	for name, call := range map[string]string{"conv": "Conv(%x, %w; group=2)", "relu": "Relu(%x)", "symbolic": "Relu(%s)"} {
		g, err := graph.Parse("graph {\n  opset 17\n  input %x: f32[1,48,8,8]\n  input %s: f32[N,48,8,8]\n  input %w: f32[48,24,3,3]\n  %r = " + call + "\n  output %r\n}")
		if err != nil {
			b.Fatal(err)
		}
		if err := graph.InferGraph(g); err != nil {
			b.Fatal(err)
		}
		o, err := backend.Open(backend.Config{Name: "cpu"})
		if err != nil {
			b.Fatal(err)
		}
		e, n := o.Info().Efficiency, g.Outputs[0].Producer
		b.Run("node="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				cost.Of(e, n, "", 2)
			}
		})
	}
}
