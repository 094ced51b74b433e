package reference_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("STFT", func() {
	It("takes a real signal without an axis of its own for the parts", func(ctx SpecContext) {
		data := make([]float32, 40)
		for i := range data {
			data[i] = float32(math.Sin(float64(i * i)))
		}
		var out []*tensor.Tensor
		for _, shape := range [][]int{{2, 20}, {2, 20, 1}} {
			in := []*tensor.Tensor{tensor.From(data, shape...), tensor.Scalar(int64(4)), tensor.From([]float32{1, 2, 3, 4, 3, 2, 1, 0})}
			res, err := reference.Evaluate(ctx, node("STFT", 17, in), values(in))
			Expect(err).NotTo(HaveOccurred())
			out = append(out, res[0].(*tensor.Tensor))
		}
		Expect(out[0].Shape).To(Equal([]int{2, 4, 5, 2}))
		Expect(out[0].Bytes()).To(Equal(out[1].Bytes()))
	})
})

var _ = Describe("pooling of an image without rows", func() {
	It("has a result without rows where a step is as long as what is missing", func(ctx SpecContext) {
		in := []*tensor.Tensor{tensor.From([]float32{}, 1, 1, 0, 4)}
		pool := func(stride int64) *graph.Node {
			return node("MaxPool", 17, in, graph.IntsAttr("kernel_shape", 3, 1), graph.IntsAttr("strides", stride, 2))
		}
		res, err := reference.Evaluate(ctx, pool(3), values(in))
		Expect(err).NotTo(HaveOccurred())
		Expect(res[0].(*tensor.Tensor).Shape).To(Equal([]int{1, 1, 0, 2}))
		_, err = reference.Evaluate(ctx, pool(2), values(in))
		Expect(err).To(MatchError(ContainSubstring("a window of 3 exceeds 0")))
	})
})

// node returns a node of the newest operator set, or of that version, on operands of these types; nil omits one.
func node(op string, version int, inputs []*tensor.Tensor, attrs ...graph.Attr) *graph.Node {
	g := graph.New("test")
	g.Opsets[""] = version
	s := graph.NodeSpec{Op: graph.Op{Name: op}, Name: "n", Attrs: attrs, Outputs: []string{"y0"}}
	for i, t := range inputs {
		if t == nil {
			s.Inputs = append(s.Inputs, nil)
			continue
		}
		s.Inputs = append(s.Inputs, g.AddInput("x"+string(rune('0'+i)), graph.TypeOf(t)))
	}
	return g.AddNode(s)
}

func values(ts []*tensor.Tensor) []tensor.Value {
	out := make([]tensor.Value, len(ts))
	for i, t := range ts {
		if t != nil {
			out[i] = t
		}
	}
	return out
}

// eval runs an operator and returns its first output.
func eval(op string, version int, inputs []*tensor.Tensor, attrs ...graph.Attr) *tensor.Tensor {
	GinkgoHelper()
	out, err := reference.Evaluate(context.Background(), node(op, version, inputs, attrs...), values(inputs))
	Expect(err).NotTo(HaveOccurred())
	return out[0].(*tensor.Tensor)
}

func f32(shape []int, v ...float32) *tensor.Tensor { return tensor.From(v, shape...) }

func i64(v ...int64) *tensor.Tensor { return tensor.From(v) }

func half(v ...float32) *tensor.Tensor {
	t, err := tensor.Convert(tensor.From(v), tensor.Float16, nil)
	if err != nil {
		panic(err)
	}
	return t
}

var _ = Describe("results", func() {
	DescribeTable("of integers wrap around and divide as ONNX says", func(op string, a, b, want []int8, attrs ...graph.Attr) {
		got := eval(op, 28, []*tensor.Tensor{tensor.From(a), tensor.From(b)}, attrs...)
		Expect(tensor.Of[int8](got)).To(Equal(want))
	},
		Entry("Add", "Add", []int8{127, -128}, []int8{1, -1}, []int8{-128, 127}),
		Entry("Mul", "Mul", []int8{16, -3}, []int8{16, 50}, []int8{0, 106}),
		Entry("Div truncates", "Div", []int8{-7, 7}, []int8{2, -2}, []int8{-3, -3}),
		Entry("Div by zero", "Div", []int8{5}, []int8{0}, []int8{0}),
		Entry("Mod has the divisor's sign", "Mod", []int8{-7, 7, 6}, []int8{3, -3, 0}, []int8{2, -2, 0}),
		Entry("fmod has the dividend's sign", "Mod", []int8{-7, 7}, []int8{3, -3}, []int8{-1, 1}, graph.IntAttr("fmod", 1)),
	)

	It("of Resize with antialias are rounded where they are integers", func() {
		x := tensor.From([]int8{1, -2, 4, -5, 7, 8, 100, 3, -2, -3, 1, 0}, 1, 12)
		got := eval("Resize", 19, []*tensor.Tensor{x, nil, f32([]int{2}, 1, 0.5)}, graph.StringAttr("mode", "linear"), graph.IntAttr("antialias", 1))
		Expect(tensor.Of[int8](got)).To(Equal([]int8{0, 0, 18, 39, -1, 0}))
	})

	It("of uint64 are unsigned", func() {
		big := tensor.From([]uint64{1 << 63, 3})
		two := tensor.From([]uint64{2, 2})
		Expect(tensor.Of[uint64](eval("Div", 28, []*tensor.Tensor{big, two}))).To(Equal([]uint64{1 << 62, 1}))
		Expect(tensor.Of[uint64](eval("Max", 28, []*tensor.Tensor{big, two}))).To(Equal([]uint64{1 << 63, 3}))
		Expect(tensor.Of[bool](eval("Greater", 28, []*tensor.Tensor{big, two}))).To(Equal([]bool{true, true}))
		Expect(tensor.Of[uint64](eval("ReduceMax", 28, []*tensor.Tensor{big}, graph.IntAttr("keepdims", 0)))).To(Equal([]uint64{1 << 63}))
	})

	It("of narrow floats are rounded once", func() {
		got := eval("Add", 28, []*tensor.Tensor{half(2048, 1), half(1, 1)})
		Expect(got.DType).To(Equal(tensor.Float16))
		Expect(got.Float64At(0)).To(Equal(2048.0)) // 2049 lies between 2048 and 2050: ties to even
		Expect(got.Float64At(1)).To(Equal(2.0))
	})

	It("of sums do not depend on float32's precision", func() {
		v := make([]float32, 1<<17)
		v[0] = 1 << 24
		for i := 1; i < len(v); i++ {
			v[i] = 1
		}
		got := eval("ReduceSum", 28, []*tensor.Tensor{f32([]int{len(v)}, v...)}, graph.IntAttr("keepdims", 0))
		Expect(got.Float64At(0)).To(Equal(float64(float32(1<<24 + 1<<17 - 1))))
	})

	It("read strided operands", func() {
		x := f32([]int{2, 3}, 1, 2, 3, 4, 5, 6)
		x.Shape, x.Strides = []int{3, 2}, []int{1, 3}
		got := eval("Neg", 28, []*tensor.Tensor{x})
		Expect(got.Shape).To(Equal([]int{3, 2}))
		Expect(tensor.Of[float32](got)).To(Equal([]float32{-1, -4, -2, -5, -3, -6}))
	})

	It("take the form of the operator set: attributes before, inputs after", func() {
		x := f32([]int{1, 2, 1}, 3, 4)
		old := eval("Squeeze", 11, []*tensor.Tensor{x}, graph.IntsAttr("axes", 0))
		Expect(old.Shape).To(Equal([]int{2, 1}))
		fresh := eval("Squeeze", 13, []*tensor.Tensor{x, i64(-1)})
		Expect(fresh.Shape).To(Equal([]int{1, 2}))
		flat := eval("Softmax", 11, []*tensor.Tensor{f32([]int{1, 2, 2}, 0, 0, 0, 0)}, graph.IntAttr("axis", 1))
		Expect(flat.Float64At(0)).To(Equal(0.25)) // all dims from the axis on are one row
	})

	It("pack types of less than a byte", func() {
		x := &tensor.Tensor{DType: tensor.Int4, Shape: []int{3}, Data: []byte{0xF1, 0x07}} // 1, -1, 7
		got := eval("Concat", 28, []*tensor.Tensor{x, x}, graph.IntAttr("axis", 0))
		v := make([]int64, 6)
		Expect(tensor.DecodeInts(v, got)).To(Succeed())
		Expect(v).To(Equal([]int64{1, -1, 7, 1, -1, 7}))
	})

	DescribeTable("of QuantizeLinear have the type's least integer for what is no number, as in ONNX Runtime", func(scale float32, zero *tensor.Tensor, want ...int64) {
		nan, inf := float32(math.NaN()), float32(math.Inf(1))
		got := eval("QuantizeLinear", 21, []*tensor.Tensor{f32([]int{4}, nan, inf, -inf, 3), tensor.Scalar(scale), zero})
		v := make([]int64, 4)
		Expect(tensor.DecodeInts(v, got)).To(Succeed())
		Expect(v).To(Equal(want))
	},
		Entry("uint8", float32(1), tensor.Scalar(uint8(5)), int64(0), int64(255), int64(0), int64(8)),
		Entry("int8", float32(1), tensor.Scalar(int8(0)), int64(-128), int64(127), int64(-128), int64(3)),
		Entry("int16", float32(1), tensor.Scalar(int16(-7)), int64(-32768), int64(32767), int64(-32768), int64(-4)),
		Entry("infinities by a scale that was calibrated on them", float32(math.Inf(1)), tensor.Scalar(int8(0)), int64(-128), int64(-128), int64(-128), int64(0)),
	)

	DescribeTable("of Range are exact for large numbers", func(start, limit, delta int64, want ...int64) {
		got := eval("Range", 28, []*tensor.Tensor{tensor.Scalar(start), tensor.Scalar(limit), tensor.Scalar(delta)})
		Expect(append([]int64{}, tensor.Of[int64](got)...)).To(Equal(append([]int64{}, want...)))
		n := node("Range", 28, []*tensor.Tensor{tensor.Scalar(start), tensor.Scalar(limit), tensor.Scalar(delta)})
		for i, v := range []int64{start, limit, delta} {
			n.SetOperand(i, n.Graph().AddConst("", tensor.Scalar(v)))
		}
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(n.Outputs[0].Type.Shape).To(Equal(graph.ShapeOf(len(want))))
	},
		Entry("three above 2⁶²", int64(1<<62), int64(1<<62+3), int64(1), int64(1<<62), int64(1<<62+1), int64(1<<62+2)),
		Entry("from the least to the largest in two steps", int64(math.MinInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MinInt64), int64(-1), int64(math.MaxInt64-1)),
		Entry("downwards by the largest step", int64(math.MaxInt64), int64(math.MinInt64), int64(math.MinInt64), int64(math.MaxInt64), int64(-1)),
		Entry("the wrong way", int64(math.MaxInt64), int64(math.MinInt64), int64(1)),
		Entry("nothing", int64(5), int64(5), int64(-1)),
	)

	DescribeTable("of Normalizer are ONNX Runtime's", func(norm string, want ...float32) {
		x := f32([]int{4, 3}, 1, -4, 2, -1, -4, -2, 0, 0, 0, -1, 0, -2)
		g := graph.New("test")
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: "Normalizer"}, Name: "n", Attrs: []graph.Attr{graph.StringAttr("norm", norm)},
			Inputs: []*graph.Value{g.AddInput("x", graph.TypeOf(x))}, Outputs: []string{"y"}})
		out, err := reference.Evaluate(context.Background(), n, []tensor.Value{x})
		Expect(err).NotTo(HaveOccurred())
		got := out[0].(*tensor.Tensor)
		for i, w := range want {
			Expect(got.Float64At(i)).To(BeNumerically("~", w, 1e-6), "element %d", i)
		}
	},
		Entry("the largest number, not magnitude", "MAX", float32(0.5), float32(-2), float32(1), float32(1), float32(4), float32(2), float32(0), float32(0), float32(0),
			float32(-1), float32(0), float32(-2)),
		Entry("sums of magnitudes", "L1", float32(1.0/7), float32(-4.0/7), float32(2.0/7), float32(-1.0/7), float32(-4.0/7), float32(-2.0/7), float32(0), float32(0), float32(0),
			float32(-1.0/3), float32(0), float32(-2.0/3)),
		Entry("lengths, with signs", "L2", float32(0.21821789), float32(-0.8728716), float32(0.4364358), float32(-0.21821789), float32(-0.8728716), float32(-0.4364358), float32(0),
			float32(0), float32(0), float32(-0.4472136), float32(0), float32(-0.8944272)),
	)

	It("of Normalizer do not take NaN for the largest number", func() {
		x := f32([]int{1, 3}, float32(math.NaN()), 1, 2)
		g := graph.New("test")
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: "Normalizer"}, Name: "n", Inputs: []*graph.Value{g.AddInput("x", graph.TypeOf(x))}, Outputs: []string{"y"}})
		out, err := reference.Evaluate(context.Background(), n, []tensor.Value{x})
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[float32](out[0].(*tensor.Tensor))[1:]).To(Equal([]float32{0.5, 1}))
	})

	It("multiply matrices of every size", func() {
		for _, d := range [][3]int{{1, 1, 1}, {3, 5, 7}, {33, 129, 257}, {2, 300, 4}, {65, 3, 520}} {
			m, n, k := d[0], d[1], d[2]
			a, b := make([]float32, m*k), make([]float32, k*n)
			for i := range a {
				a[i] = float32(i%7) - 3
			}
			for i := range b {
				b[i] = float32(i%5) - 2
			}
			got := tensor.Of[float32](eval("MatMul", 28, []*tensor.Tensor{f32([]int{m, k}, a...), f32([]int{k, n}, b...)}))
			for i := range m {
				for j := range n {
					want := float32(0)
					for p := range k {
						want += a[i*k+p] * b[p*n+j]
					}
					Expect(got[i*n+j]).To(Equal(want), "%v at %d, %d", d, i, j)
				}
			}
		}
	})
})

var _ = Describe("Run", func() {
	It("writes to planned storage and clears what it does not write", func() {
		x := f32([]int{2}, 1, 2)
		in := []*tensor.Tensor{x, i64(1, 1)}
		storage := f32([]int{4}, 9, 9, 9, 9)
		out, err := reference.Run(context.Background(), node("Pad", 13, in), values(in),
			func(i int, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
				Expect(i).To(Equal(0))
				Expect(shape).To(Equal([]int{4}))
				return storage, nil
			})
		Expect(err).NotTo(HaveOccurred())
		Expect(out[0]).To(BeIdenticalTo(storage))
		Expect(tensor.Of[float32](storage)).To(Equal([]float32{0, 1, 2, 0}))
	})

	It("refuses planned storage of another type", func() {
		in := []*tensor.Tensor{f32([]int{2}, 1, 2)}
		_, err := reference.Run(context.Background(), node("Neg", 13, in), values(in),
			func(int, tensor.DType, []int) (*tensor.Tensor, error) { return f32([]int{1}, 0), nil })
		Expect(err).To(MatchError(tensor.ErrShape))
	})

	It("shares no storage with operands", func() {
		x := f32([]int{2}, 1, 2)
		in := []*tensor.Tensor{x}
		y := eval("Identity", 13, in)
		tensor.Of[float32](y)[0] = 7
		Expect(x.Float64At(0)).To(Equal(1.0))
		s, err := reference.Evaluate(context.Background(), node("SequenceConstruct", 13, in), values(in))
		Expect(err).NotTo(HaveOccurred())
		tensor.Of[float32](s[0].(*tensor.Sequence).Items[0].(*tensor.Tensor))[0] = 7
		Expect(x.Float64At(0)).To(Equal(1.0))
	})

	It("leaves out what the node leaves out", func() {
		in := []*tensor.Tensor{f32([]int{2}, 1, 2), i64(1)}
		g := graph.New("g")
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "TopK"}, Inputs: []*graph.Value{
			g.AddInput("x", graph.TypeOf(in[0])), g.AddInput("k", graph.TypeOf(in[1]))}, Outputs: []string{"", "at"}})
		out, err := reference.Evaluate(context.Background(), n, values(in))
		Expect(err).NotTo(HaveOccurred())
		Expect(out[0]).To(BeNil())
		Expect(out[1].(*tensor.Tensor).Int64At(0)).To(Equal(int64(1)))
	})

	DescribeTable("refuses sizes before it allocates", func(op string, in []*tensor.Tensor, attrs ...graph.Attr) {
		_, err := reference.Evaluate(context.Background(), node(op, 28, in, attrs...), values(in))
		Expect(err).To(MatchError(tensor.ErrTooLarge))
		var typed *reference.Error
		Expect(errors.As(err, &typed)).To(BeTrue())
		Expect(typed.Node).To(Equal("n"))
		Expect(err.Error()).To(MatchRegexp(`more than \d+|from -?\d+ to -?\d+`), "it names a limit")
	},
		Entry("ConstantOfShape", "ConstantOfShape", []*tensor.Tensor{i64(1<<20, 1<<20)}),
		Entry("overflow", "ConstantOfShape", []*tensor.Tensor{i64(1<<40, 1<<40)}),
		Entry("an empty tensor with endless dims", "ConstantOfShape", []*tensor.Tensor{i64(0, 1<<50)}),
		Entry("Expand", "Expand", []*tensor.Tensor{f32([]int{1}, 1), i64(1 << 40)}),
		Entry("Tile", "Tile", []*tensor.Tensor{f32([]int{1}, 1), i64(1 << 40)}),
		Entry("Range", "Range", []*tensor.Tensor{tensor.Scalar(int64(0)), tensor.Scalar(int64(1 << 40)), tensor.Scalar(int64(1))}),
		Entry("Range over all integers", "Range", []*tensor.Tensor{tensor.Scalar(int64(math.MinInt64)), tensor.Scalar(int64(math.MaxInt64)), tensor.Scalar(int64(1))}),
		Entry("Range over all integers, downwards", "Range", []*tensor.Tensor{tensor.Scalar(int64(math.MaxInt64)), tensor.Scalar(int64(math.MinInt64)), tensor.Scalar(int64(-1))}),
		Entry("Pad", "Pad", []*tensor.Tensor{f32([]int{1, 1}, 1), i64(1<<29, 1<<29, 1<<29, 1<<29)}),
		Entry("OneHot", "OneHot", []*tensor.Tensor{i64(1), i64(1 << 39), f32([]int{2}, 0, 1)}),
		Entry("HannWindow", "HannWindow", []*tensor.Tensor{tensor.Scalar(int64(1 << 40))}),
	)

	It("names the dim of Reshape that none can be", func() {
		in := []*tensor.Tensor{f32([]int{2}, 1, 2), i64(2, -3)}
		_, err := reference.Evaluate(context.Background(), node("Reshape", 14, in), values(in))
		Expect(err).To(MatchError(tensor.ErrShape))
		Expect(err.Error()).To(ContainSubstring("dim -3 at 1 of [2 -3]"))
	})

	It("bounds results by MaxBytes", func() {
		in := []*tensor.Tensor{f32([]int{1}, 1), i64(100)}
		c := reference.Call{Node: node("Tile", 13, in), Inputs: values(in), MaxBytes: 399}
		_, err := c.Run()
		Expect(err).To(MatchError(tensor.ErrTooLarge))
		c.MaxBytes = 400
		_, err = c.Run()
		Expect(err).NotTo(HaveOccurred())
	})

	It("names node, operator and port in errors", func() {
		in := []*tensor.Tensor{f32([]int{2}, 1, 2), f32([]int{3}, 1, 2, 3)}
		_, err := reference.Evaluate(context.Background(), node("Add", 13, in), values(in))
		Expect(err).To(MatchError(tensor.ErrShape))
		Expect(err).To(MatchError(ContainSubstring(`Add "n", input B: `)))
	})

	It("stops soon after the context ends", func() {
		side := 3000
		v := make([]float32, side*side)
		in := []*tensor.Tensor{f32([]int{side, side}, v...), f32([]int{side, side}, v...)}
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		before := zootest.ProcessorTime()
		_, err := reference.Evaluate(ctx, node("MatMul", 13, in), values(in))
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(zootest.ProcessorTime() - before).To(BeNumerically("<", 30*time.Second))
	})
})

var _ = Describe("Supports", func() {
	reason := func(n *graph.Node) property.Code {
		var r *property.Reason
		if errors.As(reference.Supports(n), &r) {
			return r.Code
		}
		return ""
	}
	x := f32([]int{2}, 1, 2)

	It("accepts what it has kernels for", func() {
		Expect(reference.Supports(node("Neg", 13, []*tensor.Tensor{x}))).To(Succeed())
	})
	It("says that an operator is unknown", func() {
		Expect(reason(node("Frobnicate", 13, []*tensor.Tensor{x}))).To(Equal(property.Unsupported))
	})
	It("says that a version is too old", func() {
		Expect(reason(node("Add", 6, []*tensor.Tensor{x, x}))).To(Equal(property.Version))
	})
	It("says that an element type is not admitted", func() {
		Expect(reason(node("Sin", 13, []*tensor.Tensor{i64(1)}))).To(Equal(property.DTypeReason))
	})
	It("runs nothing that it does not support", func() {
		_, err := reference.Evaluate(context.Background(), node("Frobnicate", 13, []*tensor.Tensor{x}), values([]*tensor.Tensor{x}))
		Expect(err).To(MatchError(tensor.ErrUnsupported))
	})
})

var _ = Describe("random operators", func() {
	It("repeat themselves by seed, and differ by node", func() {
		draw := func(attrs ...graph.Attr) []float32 {
			return tensor.Of[float32](eval("RandomUniform", 13, nil, append(attrs, graph.IntsAttr("shape", 4))...))
		}
		Expect(draw(graph.FloatAttr("seed", 3))).To(Equal(draw(graph.FloatAttr("seed", 3))))
		Expect(draw(graph.FloatAttr("seed", 3))).NotTo(Equal(draw(graph.FloatAttr("seed", 4))))
		for _, v := range draw() {
			Expect(v).To(And(BeNumerically(">=", 0), BeNumerically("<", 1)))
		}
	})
	It("draw with the probability that Bernoulli gets", func() {
		p := make([]float32, 4000)
		for i := range p {
			p[i] = 0.25
		}
		s := 0.0
		for _, v := range tensor.Of[float32](eval("Bernoulli", 22, []*tensor.Tensor{f32([]int{len(p)}, p...)}, graph.FloatAttr("seed", 1))) {
			s += float64(v)
		}
		Expect(math.Abs(s/float64(len(p)) - 0.25)).To(BeNumerically("<", 0.03))
	})
})

// tiff is a little-endian TIFF of these directory entries: tag, kind, count and value or offset.
func tiff(data []byte, entries ...[4]int) []byte {
	b := binary.LittleEndian.AppendUint32([]byte("II*\x00"), uint32(8+len(data)))
	b = append(b, data...)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(entries)))
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
		b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
		b = binary.LittleEndian.AppendUint32(b, uint32(e[2]))
		b = binary.LittleEndian.AppendUint32(b, uint32(e[3]))
	}
	return b
}

var _ = Describe("ImageDecoder", func() {
	image := [][4]int{{256, 3, 1, 2}, {257, 3, 1, 1}, {258, 3, 1, 8}, {262, 3, 1, 1}, {273, 4, 1, 8}, {279, 4, 1, 2}}

	It("reads a grey TIFF", func() {
		y := eval("ImageDecoder", 20, []*tensor.Tensor{tensor.From(tiff([]byte{7, 200}, image...))})
		Expect(y.Shape).To(Equal([]int{1, 2, 3}))
		Expect(y.Bytes()).To(Equal([]byte{7, 7, 7, 200, 200, 200}))
	})

	It("takes no memory for entries of a TIFF that repeat or mean nothing", func() {
		data := make([]byte, 60000)
		data[0], data[1] = 7, 200
		for k := range 4000 {
			image = append(image, [4]int{273 + k%2*6, 4, 15000, 8}, [4]int{40000 + k, 4, 15000, 8})
		}
		x := tensor.From(tiff(data, image...))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		y := eval("ImageDecoder", 20, []*tensor.Tensor{x})
		runtime.ReadMemStats(&after)
		Expect(y.Bytes()).To(Equal([]byte{7, 7, 7, 200, 200, 200}))
		Expect(after.TotalAlloc - before.TotalAlloc).To(BeNumerically("<", 8<<20))
	})
})

var _ = DescribeTable("Dropout with a seed drops what NumPy's generator says", func(seed int64, n int, ratio float32, last ...bool) {
	x := tensor.From(make([]float32, n))
	in := []*tensor.Tensor{x, tensor.Scalar(ratio), tensor.From([]uint8{1})}
	in[2].DType, in[2].Shape = tensor.Bool, []int{}
	node := node("Dropout", 13, in, graph.IntAttr("seed", seed))
	for i := range tensor.Elements[float32](x) {
		x.Data[4*i+3] = 0x3f // about a half
	}
	out, err := reference.Evaluate(context.Background(), node, values(in))
	Expect(err).NotTo(HaveOccurred())
	got := tensor.Elements[float32](out[0].(*tensor.Tensor))
	var kept []bool
	for _, v := range got[n-len(last):] {
		kept = append(kept, v != 0)
	}
	Expect(kept).To(Equal(last))
},
	Entry("0: 0.549, 0.715, 0.603", int64(0), 3, float32(0.6), false, true, true),
	Entry("12345: 0.930, 0.316", int64(12345), 2, float32(0.5), true, false),
	Entry("the largest, behind the first state: 0.254, 0.008", int64(1<<32-1), 700, float32(0.1), true, false),
)
