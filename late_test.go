package carve_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// picking is the text of a model that picks the rows of x whose first element is above 0: how many there are depends on
// data. body works on %rows: f32[?,8].
func picking(body string) string {
	return `graph {
  opset 17
  input %x: f32[N,8]
  const %zero = f32[]{0}
  const %first = i64[]{0}
  %col = Gather(%x, %first; axis=1) "column"
  %m = Greater(%col, %zero) "above"
  %i = NonZero(%m) "find"
  %j = Gather(%i, %first; axis=0) "indices"
  %rows = Gather(%x, %j; axis=0) "rows"
` + body + `
}`
}

// twice picks the rows of picking once more, in a way of which nobody knows that they are as many, and adds them to these.
const twice = `const %half = f32[]{0.5}
  %m2 = Greater(%col, %half) "above half"
  %i2 = NonZero(%m2) "find twice"
  %j2 = Gather(%i2, %first; axis=0) "indices twice"
  %rows2 = Gather(%x, %j2; axis=0) "rows twice"
  %both = Add(%rows, %rows2) "both"
`

// rowsOf returns n rows of 8 elements, of which those that picks says are picked.
func rowsOf(picks ...bool) *tensor.Tensor {
	x := wave(len(picks), 8)
	for i, picked := range picks {
		tensor.Of[float32](x)[8*i] = -1
		if picked {
			tensor.Of[float32](x)[8*i] = float32(1 + i)
		}
	}
	return x
}

// backendsOf returns the backend of every node of the model.
func backendsOf(ctx context.Context, p *carve.Program) map[string]string {
	GinkgoHelper()
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	out := map[string]string{}
	for _, g := range r.Groups {
		for _, n := range g.Nodes {
			out[n] = g.Backend
		}
	}
	return out
}

var _ = Describe("groups whose shapes depend on data", func() {
	DescribeTable("run on cpu, specialised for the shapes that a run finds",
		func(ctx SpecContext, body string, nodes ...string) {
			m := textModel(picking(body))
			p := compile(ctx, m, &carve.Options{Verify: true, Poison: true, Pins: []partition.Pin{{Node: "rest", Backend: "reference"}}}) // between groups of cpu, where there is such a node
			s, err := p.NewSession()
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(s.Close)
			for range 2 {
				for _, x := range []*tensor.Tensor{rowsOf(true, false, true), rowsOf(true, true, true, true, true), rowsOf(false, false, false),
					rowsOf(false, true, false), rowsOf(true, false, true, true), rowsOf(true, true, true, false, false, false)} {
					feeds := map[string]tensor.Value{"x": x}
					got, err := s.Run(ctx, feeds)
					Expect(err).NotTo(HaveOccurred())
					want := referenceOutputs(ctx, m, feeds)
					for _, port := range p.Outputs() {
						Expect(got[port.Name].(*tensor.Tensor).Shape).To(Equal(want[port.Name].(*tensor.Tensor).Shape))
						near(got[port.Name], want[port.Name])
					}
				}
			}
			on := backendsOf(ctx, p)
			for _, n := range nodes {
				Expect(on).To(HaveKeyWithValue(n, "cpu"))
			}
			Expect(on).To(HaveKeyWithValue("find", "cpu"))
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			for _, x := range r.Rejected {
				Expect(x.Reason).NotTo(ContainSubstring(string(property.SpecializeFail)), "%v", x)
			}
			differs, err := p.Check(ctx, map[string]tensor.Value{"x": rowsOf(true, true, false)})
			Expect(err).NotTo(HaveOccurred())
			Expect(differs).To(BeNil())
			_, profile, err := p.RunProfiled(ctx, map[string]tensor.Value{"x": rowsOf(true, true, false)})
			Expect(err).NotTo(HaveOccurred())
			var profiled []string
			for _, span := range profile.Spans {
				if span.Backend == "cpu" {
					profiled = append(profiled, span.Nodes...)
				}
			}
			Expect(profiled).To(ContainElements(nodes))
		},
		Entry("dense layers", fmt.Sprintf(`  %s
  %s
  %%a = Gemm(%%rows, %%w, %%b) "dense"
  %%r = Relu(%%a) "relu"
  %%y = Softmax(%%r; axis=1) "softmax"
  output %%y`, constant("w", 8, 6), constant("b", 6)), "rows", "dense", "relu", "softmax"),
		Entry("convolutions, in a layout of the backend's", fmt.Sprintf(`  const %%shape = i64[4]{-1, 2, 2, 2}
  %s
  %s
  %%a = Reshape(%%rows, %%shape) "images"
  %%b = Conv(%%a, %%w; pads=[1, 1, 1, 1]) "conv1"
  %%c = Relu(%%b) "relu1"
  %%d = Conv(%%c, %%v; pads=[1, 1, 1, 1]) "conv2"
  %%e = Add(%%d, %%c) "sum"
  output %%e`, constant("w", 20, 2, 3, 3), constant("v", 20, 20, 3, 3)), "conv1", "relu1", "conv2", "sum"),
		Entry("shapes that are sums and products of others", fmt.Sprintf(`  %s
  %%a = Concat(%%rows, %%x, %%rows; axis=0) "join"
  %%b = MatMul(%%a, %%w) "product"
  %%c = Flatten(%%b; axis=0) "flat"
  %%d = Shrink(%%c) "rest"
  %%e = Add(%%d, %%c) "sum"
  output %%e, %%b`, constant("w", 8, 4)), "join", "product", "flat", "sum"),
		Entry("several in one model", fmt.Sprintf(`  %s
  %%a = MatMul(%%rows, %%w) "one"
  %%p = Greater(%%a, %%zero) "positive"
  %%k = NonZero(%%p) "find again"
  %%l = Gather(%%k, %%first; axis=0) "which"
  %%b = Gather(%%a, %%l; axis=0) "two"
  %%y = Exp(%%b) "exp"
  output %%y, %%a`, constant("w", 8, 3)), "one", "two", "exp"),
		Entry("an operand from the arena, read in their last step", fmt.Sprintf(`  %s
  %%z = Exp(%%x) "planned"
  %%a = MatMul(%%rows, %%w) "product"
  %%b = Softmax(%%a; axis=1) "softmax"
  %%c = Concat(%%b, %%z; axis=0) "join"
  output %%c`, constant("w", 8, 8)), "planned", "product", "softmax", "join"),
		Entry("operands of which only what lengths are broadcast to is known", fmt.Sprintf(`  %s%s
  %%a = Shrink(%%both) "rest"
  %%b = MatMul(%%a, %%w) "product"
  %%c = Relu(%%b) "relu"
  output %%c`, twice, constant("w", 8, 4)), "rows", "product", "relu"),
		Entry("in a branch, of which only the sum of two lengths is an operand's", fmt.Sprintf(`  %s  %%all = Concat(%%rows, %%rows2; axis=0) "join"
  const %%low = f32[]{-9}
  %%most = ReduceMax(%%x; keepdims=0) "most"
  %%c = Greater(%%most, %%low) "condition"
  %%y = If(%%c | %%all) "which" {
    then_branch: graph {
      capture %%all: f32[M,8]
      %s
      %%p = MatMul(%%all, %%w) "product"
      %%r = Relu(%%p) "relu"
      output %%r
    }
    else_branch: graph {
      capture %%all: f32[M,8]
      output %%all
    }
  }
  output %%y`, twice, constant("w", 8, 8)), "rows", "product", "relu"),
		Entry("layers that broadcast what the ones before have added", fmt.Sprintf(`  %s%s
  const %%cols = i64[2]{0, 4}
  const %%three = i64[3]{-1, 2, 8}
  %%p1 = MatMul(%%both, %%w) "product1"
  %%s1 = Reshape(%%p1, %%cols) "view1"
  %%a1 = Add(%%s1, %%rows2q) "sum1"
  %%p2 = MatMul(%%a1, %%v) "product2"
  %%a2 = Add(%%p2, %%both) "sum2"
  %%p3 = MatMul(%%a2, %%w) "product3"
  %%a3 = Add(%%p3, %%a1) "sum3"
  %%y = Softmax(%%a3; axis=1) "softmax"
  output %%y`, twice+"  "+constant("q", 8, 4)+"\n  "+constant("v", 4, 8)+"\n  %rows2q = MatMul(%rows2, %q) \"narrow\"\n", constant("w", 8, 4)),
			"rows", "product1", "sum1", "product2", "sum2", "product3", "sum3", "softmax"),
		Entry("a constant in a shape that an operand's contents alone tell", `  const %labels = i64[1,8]{0, 1, 2, 3, 4, 5, 6, 7}
  const %five = i64[2]{5, 8}
  %whole = Shape(%rows) "whole"
  %least = Min(%whole, %five) "least"
  %l = Expand(%labels, %whole) "labels"
  %k = Expand(%labels, %least) "fewer"
  %f = Cast(%l; to=1) "numbers"
  %y = Add(%f, %rows) "sum"
  output %y, %k, %l`, "labels", "fewer", "sum"),
		Entry("sizes that are not below 1", fmt.Sprintf(`  %s
  const %%one = i64[1]{1}
  const %%three = i64[1]{3}
  %%n = Cast(%%m; to=7) "numbers"
  %%c = ReduceSum(%%n) "count"
  %%u = Reshape(%%c, %%one) "list"
  %%b = Concat(%%u, %%one; axis=0) "bounds"
  %%h = ReduceMax(%%b; axes=[0], keepdims=1) "height"
  %%w = Add(%%u, %%three) "width"
  %%s = Concat(%%one, %%one, %%h, %%w; axis=0) "sizes"
  %%r = Resize(%%image, _, _, %%s; mode="linear") "resize"
  %%y = Relu(%%r) "relu"
  output %%y, %%rows`, constant("image", 1, 1, 3, 4)), "resize", "relu"),
		Entry("a slice up to a length that no operand has, as of masked_scatter", `  const %start = i64[1]{0}
  %t = Transpose(%i; perm=[1, 0]) "places"
  %k = Shape(%t) "shape"
  %n = Gather(%k, %start; axis=0) "count"
  %e = Exp(%x) "values"
  %s = Slice(%e, %start, %n, %start) "cut"
  %y = ScatterND(%x, %t, %s) "scatter"
  output %y, %s`, "cut", "scatter"),
		Entry("and those where one of the lengths is known, too", fmt.Sprintf(`  %s%s
  %%a = Shrink(%%both) "rest"
  %%b = MatMul(%%a, %%w) "product"
  %%c = MatMul(%%rows, %%w) "other"
  %%d = Softmax(%%c; axis=1) "softmax"
  output %%b, %%d`, twice, constant("w", 8, 4)), "rows", "product", "other", "softmax"),
	)

	It("write their results to the caller's tensors", func(ctx SpecContext) {
		m := textModel(picking("  %y = Relu(%rows) \"relu\"\n  output %rows, %y, %m"))
		for _, o := range []*carve.Options{{Verify: true, Poison: true, Threads: 1}, {Threads: 1}} {
			p := compile(ctx, m, o)
			feed := rowsOf(slices.Repeat([]bool{true, false, true, true}, 1000)...)
			for _, x := range []*tensor.Tensor{feed, rowsOf(true, false), feed, rowsOf(false, false, true)} {
				want := referenceOutputs(ctx, m, map[string]tensor.Value{"x": x})
				var out []*tensor.Tensor
				for _, port := range p.Outputs() {
					y := want[port.Name].(*tensor.Tensor)
					t, err := tensor.New(y.DType, y.Shape...)
					Expect(err).NotTo(HaveOccurred())
					out = append(out, t)
				}
				run := func() { Expect(p.RunInto(ctx, []*tensor.Tensor{x}, out)).To(Succeed()) }
				run()
				for i, port := range p.Outputs() {
					near(out[i], want[port.Name])
				}
				got, err := p.Run(ctx, map[string]tensor.Value{"x": x}) // of its own memory
				Expect(err).NotTo(HaveOccurred())
				for i, port := range p.Outputs() {
					near(got[port.Name], want[port.Name])
					if len(out[i].Data) > 0 {
						Expect(&got[port.Name].(*tensor.Tensor).Data[0]).NotTo(BeIdenticalTo(&out[i].Data[0]))
					}
				}
				if x == feed && !o.Poison {
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					for range 20 {
						run()
					}
					runtime.ReadMemStats(&after)
					Expect((after.TotalAlloc-before.TotalAlloc)/20).To(BeNumerically("<", len(out[0].Data)), "bytes a run: rows found, and no results")
				}
				short, err := tensor.New(tensor.Float32, out[0].Shape[0]+1, 8)
				Expect(err).NotTo(HaveOccurred())
				Expect(p.RunInto(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{short, out[1], nil})).To(MatchError(carve.ErrOutput))
				data := make([]byte, len(out[0].Data)+68) // begins where results as a rule do not
				odd := &tensor.Tensor{DType: tensor.Float32, Shape: out[0].Shape, Data: data, Offset: 4}
				Expect(p.RunInto(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{odd, nil, out[2]})).To(Succeed())
				near(odd, want["rows"])
			}
		}
	})

	It("fall back where their operands do not determine the shapes", func(ctx SpecContext) {
		m := textModel(picking(`  const %axis = i64[1]{0}
  const %axis2 = i64[1]{1}
  %a = ReduceSum(%rows, %axis2; keepdims=0) "sums"
  const %axis1 = i64[1]{1}
  %r = Unsqueeze(%a, %axis) "row"
  %k = Unsqueeze(%a, %axis1) "column2"
  %o = Mul(%r, %k) "outer"
  %f = Flatten(%o; axis=0) "flat"
  %g = Mod(%f, %f; fmod=1) "rest"
  %y = Exp(%g) "exp"
  output %y`))
		p := compile(ctx, m, &carve.Options{Verify: true})
		for _, x := range []*tensor.Tensor{rowsOf(true, false, true), rowsOf(true, true, true)} {
			feeds := map[string]tensor.Value{"x": x}
			got, err := p.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
			near(got["y"], referenceOutputs(ctx, m, feeds)["y"])
		}
	})

	It("run in loops, whose rounds have shapes of their own", func(ctx SpecContext) {
		m := textModel(`graph {
  opset 17
  input %x: f32[N,8]
  input %rounds: i64[]
  const %go = bool[]{true}
  const %zero = f32[]{0}
  const %first = i64[]{0}
  ` + constant("w", 8, 8) + `
  %y = Loop(%rounds, %go, %x | %zero, %first, %w) "loop" {
    body: graph {
    input %i: i64[]
    input %c: bool[]
    input %s: f32[R,8]
    capture %zero: f32[]
    capture %first: i64[]
    capture %w: f32[8,8]
    %k = Gather(%s, %first; axis=1) "column"
    %m = Greater(%k, %zero) "above"
    %n = NonZero(%m) "find"
    %j = Gather(%n, %first; axis=0) "indices"
    %rows = Gather(%s, %j; axis=0) "rows"
    %p = MatMul(%rows, %w) "product"
    %q = Add(%p, %rows) "sum"
    output %c, %q
    }
  }
  output %y
}`)
		p := compile(ctx, m, &carve.Options{Verify: true, Poison: true})
		for _, rounds := range []int64{0, 1, 3} {
			feeds := map[string]tensor.Value{"x": wave(9, 8), "rounds": tensor.From([]int64{rounds}, []int{}...)}
			got, err := p.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
			want := referenceOutputs(ctx, m, feeds)
			Expect(got["y"].(*tensor.Tensor).Shape).To(Equal(want["y"].(*tensor.Tensor).Shape))
			near(got["y"], want["y"])
		}
	})

	It("give results of a branch that are one value memory of their own", func(ctx SpecContext) {
		m := textModel(`graph {
  opset 13
  input %none: f32[4,2,0]
  input %x: f32[9,8,33]
  input %c: bool[]
  %y, %z, %w = If(%c | %none, %x) "which" {
    then_branch: graph {
      capture %none: f32[4,2,0]
      capture %x: f32[9,8,33]
      %a = Abs(%none)
      %b = Softplus(%x)
      output %a, %b, %a
    }
    else_branch: graph {
      capture %none: f32[4,2,0]
      capture %x: f32[9,8,33]
      %b = Abs(%x)
      output %b, %b, %b
    }
  }
  %s = ReduceSum(%z)
  output %y, %s, %w
}`)
		for _, poison := range []bool{false, true} {
			p := compile(ctx, m, &carve.Options{Verify: true, Poison: poison})
			var kept, want []map[string]tensor.Value
			for k := range 3 {
				x := wave(9, 8, 33)
				tensor.Of[float32](x)[0] = float32(k)
				feeds := map[string]tensor.Value{"none": wave(4, 2, 0), "x": x, "c": tensor.Scalar(k == 1)}
				got, err := p.Run(ctx, feeds)
				Expect(err).NotTo(HaveOccurred())
				if k != 1 {
					tensor.Of[float32](got["w"].(*tensor.Tensor))[1] = 7 // which is no other result's
				}
				kept, want = append(kept, got), append(want, referenceOutputs(ctx, m, feeds))
			}
			for k, got := range kept {
				near(got["y"], want[k]["y"])
				near(got["s"], want[k]["s"])
			}
		}
	})

	It("keep to the limit of memory", func(ctx SpecContext) {
		// The result has 4 bytes per picked row, its operand 512 KiB.
		m := textModel(picking(`  const %wide = i64[3]{1, 1, 16384}
  const %last = i64[1]{2}
  const %axis = i64[2]{1, 2}
  %u = Unsqueeze(%rows, %last) "unsqueeze"
  %t = Expand(%u, %wide) "expand"
  %e = Exp(%t) "exp"
  %y = ReduceSum(%e, %axis; keepdims=0) "sum"
  output %y`))
		p := compile(ctx, m, &carve.Options{MaxArenaBytes: 2 << 20})
		_, err := p.Run(ctx, map[string]tensor.Value{"x": rowsOf(true, false)})
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Run(ctx, map[string]tensor.Value{"x": rowsOf(true, true, true, true, true, true, true)})
		Expect(err).To(MatchError(carve.ErrMemoryLimit))
	})
})
