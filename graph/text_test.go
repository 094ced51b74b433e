package graph_test

import (
	"errors"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// parse reads a graph whose text the test wrote.
func parse(text string) *graph.Graph {
	GinkgoHelper()
	g, err := graph.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	return g
}

var _ = Describe("The text form", func() {
	DescribeTable("prints and parses",
		func(text string) {
			text = strings.TrimPrefix(text, "\n")
			g := parse(text)
			Expect(g.String()).To(Equal(text))
		},
		Entry("empty graph", "graph {\n}\n"),
		Entry("header", `
graph "a \"name\"" {
  opset 13
  opset "com.example" 2
  meta "author" = "x\ny"
  doc "what it does"
}
`),
		Entry("types, symbolic dims and known contents", `
graph "types" {
  input %a: f32[N,3,4*N+1,floordiv(N,2)]
  input %b: ?[*]
  input %c
  input %d: bf16[*]
  input %e: seq(f32[N])
  input %f: opt(seq(i64[]))
  input %g: map(i64,str[?1])
  input %h: f32["batch size",-N+bcast(M,N)+min(K,N)*mod(M,3),position(-N+3,K)]
  input %i: i64[2] dims [N,3]
  input %j: i64[] dims 2*N
  input %k
  output %a, %a
}
`),
		Entry("names", `
graph "names" {
  input %a/b.c-d: f32[]
  input %"with space": f32[]
  input %12: f32[]
  input $0: f32[]
  input %a/b.c-d'2: f32[]
  input %a/b.c-d'3: f32[]
  input $1: f32[]
  $2: f32[] = Add($0, $1)
  output $2, %a/b.c-d'2
}
`),
		Entry("constants of all kinds", `
graph "constants" {
  const %f = f32[6]{1, 1.5, -0, +Inf, -Inf, 1e-45}
  const %nan = f32[2]{0x7fc00000, 0x7f800001}
  const %d = f64[2]{0.1, 0x7ff8000000000001}
  const %h = f16[4]{1, 65504, +Inf, 0x7e01}
  const %bh = bf16[2]{3.140625, 0x7fc1}
  const %e4 = f8e4m3fn[3]{1, -448, 0x7f}
  const %e5 = f8e5m2[3]{1, 0x7d, 0x7c}
  const %e8 = f8e8m0[2]{0.5, 0xff}
  const %f4 = f4e2m1[3]{0.5, -6, -0}
  const %i4 = i4[3]{-8, 7, 1}
  const %u4 = u4[2]{15, 0}
  const %i2 = i2[5]{-2, 1, 0, -1, 1}
  const %u2 = u2[1]{3}
  const %i = i64[2,1]{-9223372036854775808, 9223372036854775807}
  const %u = u64[1]{18446744073709551615}
  const %b = bool[2]{true, false}
  const %s = str[2]{"a", "b \"c\""}
  const %c = c64[2]{(1,-2), (0x7fc00000,0)}
  const %z = f32[0,3]{}
  const %scalar = i8[]{-128} @host:ABcd16b16a
  dims %shape = i64 [N,64,2*N]
  dims %size = i64 N
  dims %small = i32 [N]
}
`),
		Entry("attributes of all kinds", `
graph "attrs" {
  %y: f32[] = com.example::Op(; dims=dims[N,2], empty=ints[], f=1.0, fe=floats[], floats=[1.0, 1e-05, nan:0x7fc00000, -Inf], i=-3, ints=[1, 2], n=none, s="x", se=strings[], strs=["a", ""], t=f32[2]{1, 2}, te=tensors[], tensors=[i64[]{1}, f32[1]{2}], ty=type(seq(f32[N])))
  output %y
}
`),
		Entry("nodes: omitted ports, provenance, backend, signature", `
graph "nodes" {
  opset 13
  input %x: f32[1,16,8,8] @host:NCHW16c
  const %w = f32[1]{1}
  %y: f32[1,16,8,8] @host:NCHW16c, _, %z @cuda:1:row-major = Op(%x, _, %w; axis=1) "label" from("a", "b/c") on "cpu" as "nchw16c"
  _ = NoResult(%x) from()
  NoOutput(%x)
  "input"(%z)
  "odd name!"::"a/b"(%z)
  %c: f32[1,16,8,8] = carve::Convert(%x) ports(@host:NCHW16c -> @host:NCHW)
  %l = LayerNormalization/17(%c) as "s" ports(@host:NCHW -> @"cuda:0:own@1:a,b")
  %opaque @opencl:0:own@1:k.7 = Relu/14(%l)
  output %y
}
`),
		Entry("uses before definitions", `
graph "order" {
  input %x: f32[]
  %b: f32[] = Neg(%a)
  %a: f32[] = Neg(%x)
  %c: f32[] = Neg(%c)
  output %b
}
`),
		Entry("regions", `
graph "regions" {
  input %c: bool[]
  input %x: f32[N]
  %y: f32[N] = If(%c | %x) "if" {
    then_branch: graph "then" {
      capture %x: f32[N]
      %y: f32[N] = Neg(%x)
      output %y
    }
    else_branch: graph {
      capture %x: f32[N]
      output %x
    }
  }
  %z = Loop(_ | %x; a=1) on "b" {
    body: graph {
      capture %x
    }
  }
  output %y
}
`),
	)
	It("is free in space and comments when it is read", func() {
		g := parse("// first\ngraph \"g\" {input %x: f32[ N , 3 ] // c\n\n %y : f32[N,3] = Add( %x ,\n %x \n) \"l\"\n output\n%y }")
		Expect(g.String()).To(Equal("graph \"g\" {\n  input %x: f32[N,3]\n  %y: f32[N,3] = Add(%x, %x) \"l\"\n  output %y\n}\n"))
	})
	It("elides large tensors, and takes their data from a function", func() {
		data := make([]float32, 100)
		data[7] = 3
		g := graph.New("big")
		g.AddConst("w", tensor.From(data, 10, 10))
		text := g.String()
		Expect(text).To(MatchRegexp(`const %w = f32\[10,10\]\{\.\.\. 400 bytes #[0-9a-f]{16}\}`))
		_, err := graph.Parse(text)
		Expect(err).To(MatchError(graph.ErrElided))
		var asked graph.Elided
		h, err := graph.ParseElided(text, func(e graph.Elided) (*tensor.Tensor, error) {
			asked = e
			return tensor.From(data, 10, 10), nil
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(h.String()).To(Equal(text))
		_, sum := graph.Checksum(tensor.From(data, 10, 10))
		Expect(asked).To(Equal(graph.Elided{Name: "w", DType: tensor.Float32, Shape: []int{10, 10}, Bytes: 400, Checksum: sum}))
		_, err = graph.ParseElided(text, func(graph.Elided) (*tensor.Tensor, error) { return tensor.From(data), nil })
		Expect(err).To(MatchError(graph.ErrElided))
		var sb strings.Builder
		Expect(graph.Print(&sb, g, &graph.PrintOptions{MaxElements: -1})).To(Succeed())
		Expect(parse(sb.String()).String()).To(Equal(text))
	})
	It("takes data of another size than its elements where a format says how large it is", func() {
		short := func(e graph.Elided) (*tensor.Tensor, error) {
			return &tensor.Tensor{DType: e.DType, Shape: e.Shape, Data: make([]byte, 8)}, nil
		}
		g, err := graph.ParseElided(`graph {const %w = f32[4]{... 0 bytes #} @"host:vendor@1:packed"}`, short)
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.Verify(g)).To(Succeed())
		_, err = graph.ParseElided(`graph {const %w = f32[4]{... 0 bytes #}}`, short)
		Expect(err).To(MatchError(tensor.ErrShape))
	})
	It("elides what is not there, or not here", func() {
		g := graph.New("")
		g.AddConst("packed", &tensor.Tensor{DType: tensor.Float32, Shape: []int{2}})
		g.AddConst("device", &tensor.Tensor{DType: tensor.Float32, Shape: []int{2}, Device: tensor.DeviceID{Type: tensor.CUDA}, Handle: 1})
		g.AddConst("strings", tensor.FromStrings(make([]string, 40)))
		text := g.String()
		Expect(text).To(ContainSubstring("%packed = f32[2]{... 0 bytes #}"))
		Expect(text).To(ContainSubstring("%device = f32[2]{... 8 bytes #}"))
		Expect(text).To(MatchRegexp(`%strings = str\[40\]\{\.\.\. 40 bytes #[0-9a-f]{16}\}`))
		h, err := graph.ParseElided(text, func(e graph.Elided) (*tensor.Tensor, error) { return tensor.New(e.DType, e.Shape...) })
		Expect(err).NotTo(HaveOccurred())
		Expect(h.String()).To(ContainSubstring("%packed = f32[2]{0, 0}"))
	})
	It("gathers tensors with strides", func() {
		base := tensor.From([]int32{1, 2, 3, 4, 5, 6}, 2, 3)
		column, err := base.Slice(1, 1, 2)
		Expect(err).NotTo(HaveOccurred())
		g := graph.New("")
		g.AddConst("c", column)
		Expect(g.String()).To(ContainSubstring("%c = i32[2,1]{2, 5}"))
	})
	It("never gives an unbacked symbol again that the text has", func() {
		g := parse("graph { input %x: f32[?7] }")
		Expect(g.Fresh().String()).To(Equal("?8"))
	})
	It("reports what the writer reports", func() {
		Expect(graph.Print(failing{}, graph.New(""), nil)).To(MatchError("full"))
	})
	DescribeTable("tells where text is wrong",
		func(text string, line, col int, message string) {
			_, err := graph.Parse(text)
			var pe *graph.ParseError
			Expect(errors.As(err, &pe)).To(BeTrue(), "%v", err)
			Expect(pe.Error()).To(ContainSubstring(message))
			Expect([]int{pe.Line, pe.Col}).To(Equal([]int{line, col}), pe.Error())
		},
		Entry("nothing", "", 1, 1, `expected "graph"`),
		Entry("no end", "graph {", 1, 8, "does not end"),
		Entry("behind the end", "graph {\n}\n}", 3, 1, "end of the text"),
		Entry("undefined operand", "graph {\n  %y = Neg(%x)\n}", 2, 12, "%x is not defined"),
		Entry("undefined output", "graph {\n  output %y\n}", 2, 10, "%y is not defined"),
		Entry("defined twice", "graph {\n  %y = A()\n %y = A()\n}", 3, 2, "defined twice"),
		Entry("too few elements", "graph { const %c = f32[3]{1, 2} }", 1, 31, `expected ","`),
		Entry("too many elements", "graph { const %c = f32[1]{1, 2} }", 1, 28, `expected "}"`),
		Entry("shape without text", "graph { const %c = f32[1099511627776]{1} }", 1, 20, "does not hold"),
		Entry("shape that overflows", "graph { const %c = f32[1099511627776,1099511627776]{1} }", 1, 20, "too large"),
		Entry("symbolic data", "graph { const %c = f32[N]{1} }", 1, 20, "shape of numbers"),
		Entry("element out of range", "graph { const %c = i8[1]{128} }", 1, 26, "bad element of i8"),
		Entry("dtype", "graph { input %x: f33[] }", 1, 19, "no element type"),
		Entry("dim", "graph { input %x: f32[3x] }", 1, 24, `expected ","`),
		Entry("dims that do not broadcast", "graph { input %x: f32[bcast(2,3)] }", 1, 23, "do not broadcast"),
		Entry("attribute twice", "graph { %y = A(; a=1, a=2) }", 1, 23, "given twice"),
		Entry("mixed list", "graph { %y = A(; a=[1, \"x\"]) }", 1, 24, "of one kind"),
		Entry("captures", "graph {\n input %x\n %y = If(| %x) { a: graph { } } }", 3, 7, "1 captures, but 0"),
		Entry("format", "graph { input %x @moon:NCHW }", 1, 18, "no format"),
		Entry("layout", "graph { input %x @host:zz }", 1, 18, "bad layout"),
		Entry("string", "graph { doc \"x }", 1, 13, "string in quotes"),
		Entry("nesting", "graph "+strings.Repeat("{ A() { b: graph ", 70), 1, 1106, "nested deeper"),
		Entry("nested types", "graph { input %x: "+strings.Repeat("seq(", 20), 1, 19+4*17, "nested deeper"),
	)
	DescribeTable("reads dims",
		func(text, want string) {
			d, err := graph.ParseDim(text)
			Expect(err).NotTo(HaveOccurred())
			Expect(d.String()).To(Equal(want))
		},
		Entry("number", "12", "12"),
		Entry("negative", "-12", "-12"),
		Entry("smallest", "-9223372036854775808", "-9223372036854775808"),
		Entry("symbol", "batch", "batch"),
		Entry("unbacked", "?3", "?3"),
		Entry("sum in any order", "1 + N*2 - M", "-M+2*N+1"),
		Entry("product", "N*M*N", "M*N*N"),
		Entry("function", "floordiv(4*N+2, 2)", "2*N+1"),
		Entry("coefficient behind", "-N*3", "-3*N"),
	)
	DescribeTable("rejects dims",
		func(text string) {
			_, err := graph.ParseDim(text)
			Expect(err).To(MatchError(graph.ErrSyntax))
		},
		Entry("empty", ""), Entry("operator", "N+"), Entry("function", "sin(N,1)"), Entry("rest", "N]"), Entry("name", `""`),
		Entry("range", "9223372036854775808"), Entry("depth", strings.Repeat("min(N,", 40)+"1"+strings.Repeat(")", 40)),
		Entry("terms", "a"+strings.Repeat("+a", 300)), Entry("factors", "a"+strings.Repeat("*a", 100)),
	)
	It("reads types and formats by themselves", func() {
		t, err := graph.ParseType("seq(f32[N,3])")
		Expect(err).NotTo(HaveOccurred())
		Expect(t.String()).To(Equal("seq(f32[N,3])"))
		_, err = graph.ParseType("f32[N] x")
		Expect(err).To(MatchError(graph.ErrSyntax))
		f, err := graph.ParseFormat("host:NCHW16c")
		Expect(err).NotTo(HaveOccurred())
		Expect(f).To(Equal(graph.On(graph.NCHW16c)))
		f, err = graph.ParseFormat("device12:3:row-major")
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Device).To(Equal(tensor.DeviceID{Type: tensor.ExtDev, Index: 3}))
		_, err = graph.ParseFormat("host")
		Expect(err).To(MatchError(graph.ErrSyntax))
	})
})

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }
