package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// snake is a model with the operator of examples/plugin/operator.c between two others.
const snake = `graph "snake" {
  opset 17
  opset "com.example" 1
  input %x: f32[N,3]
  %a = Relu(%x)
  %b = com.example::Snake(%a; alpha=2.0) "snake"
  %y = Neg(%b)
  output %y
}
`

func model(text string) *carve.Model {
	g, err := graph.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	return carve.FromGraph(g)
}

// snakeOf computes the model.
func snakeOf(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		v = max(v, 0)
		s := float32(math.Sin(float64(2 * v)))
		y[i] = -(v + s*s/2)
	}
	return y
}

// runModel compiles and runs a model of one input x and one output y.
func runModel(ctx context.Context, m *carve.Model, o *carve.Options, x *tensor.Tensor) (*tensor.Tensor, *carve.Report) {
	GinkgoHelper()
	p, err := carve.Compile(ctx, m, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	out, err := p.Run(ctx, map[string]tensor.Value{"x": x})
	Expect(err).NotTo(HaveOccurred())
	diff, err := p.Check(ctx, map[string]tensor.Value{"x": x})
	Expect(err).NotTo(HaveOccurred())
	Expect(diff).To(BeNil())
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	y, ok := out["y"].(*tensor.Tensor)
	Expect(ok).To(BeTrue())
	return y, r
}

var _ = Describe("an operator of a plugin", func() {
	x := func() *tensor.Tensor { return tensor.From([]float32{1, -2, 3, -4, 5, -6}, 2, 3) }
	library := func() string { return build(GinkgoTB(), "../../examples/plugin/operator.c") }

	It("runs in a group of a host backend, by its name", func(ctx SpecContext) {
		y, r := runModel(ctx, model(snake), &carve.Options{Plugins: []string{library()}, Verify: true, Poison: true}, x())
		want := snakeOf(tensor.Of[float32](x()))
		for i, v := range tensor.Of[float32](y) {
			Expect(v).To(BeNumerically("~", want[i], 1e-6))
		}
		Expect(r.Groups).To(HaveLen(1))
		Expect(r.Groups[0].Backend).To(Equal("cpu"))
		Expect(r.Groups[0].Ops).To(Equal([]string{"Relu", "com.example.Snake", "Neg"}))
	})

	It("runs on the backend of last resort", func(ctx SpecContext) {
		y, r := runModel(ctx, model(snake), &carve.Options{Backends: []backend.Config{{Name: "reference"}}, Plugins: []string{library()}}, x())
		Expect(tensor.Of[float32](y)[4]).To(BeNumerically("~", snakeOf([]float32{5})[0], 1e-6))
		Expect(r.Groups[0].Backend).To(Equal("reference"))
	})

	own := func(name string, more ...string) string {
		return build(GinkgoTB(), "testdata/own.c", append([]string{"-DOWN=" + name}, more...)...)
	}
	const twice = `graph "t" {
  opset 17
  opset "com.own" 3
  input %x: f32[N,3]
  %t = com.own::Twice(%x) "twice"
  %y = Relu(%t) "relu"
  output %y
}
`

	It("has shapes that follow from symbols, and a workspace", func(ctx SpecContext) {
		o := &carve.Options{Plugins: []string{own("RIGHT")}, Verify: true, Poison: true}
		y, r := runModel(ctx, model(twice), o, x())
		Expect(y.Shape).To(Equal([]int{4, 3}))
		Expect(tensor.Of[float32](y)).To(Equal([]float32{1, 0, 3, 0, 5, 0, 1, 0, 3, 0, 5, 0}))
		Expect(r.Groups).To(HaveLen(1))
		Expect(r.Groups[0].Backend).To(Equal("cpu"))
	})

	It("has results whose shape depends on data", func(ctx SpecContext) {
		text := "graph \"p\" {\n  opset 17\n  opset \"com.own\" 1\n  input %x: f32[N,3]\n  %t = com.own::Positive(%x) \"positive\"\n  %y = Neg(%t) \"neg\"\n  output %y\n}\n"
		y, _ := runModel(ctx, model(text), &carve.Options{Plugins: []string{own("RIGHT")}, Verify: true}, x())
		Expect(tensor.Of[float32](y)).To(Equal([]float32{-1, -3, -5}))
	})

	It("is computed ahead where its operands are constants", func(ctx SpecContext) {
		text := "graph \"c\" {\n  opset 17\n  opset \"com.own\" 1\n  input %x: f32[N,3]\n  const %c = f32[1,3]{1, -2, 3}\n" +
			"  %t = com.own::Twice(%c) \"twice\"\n  %y = Add(%x, %t) \"add\"\n  output %y\n}\n"
		y, r := runModel(ctx, model(text), &carve.Options{Plugins: []string{own("RIGHT")}}, x())
		Expect(tensor.Of[float32](y)).To(Equal([]float32{2, -4, 6, -3, 3, -3}))
		Expect(r.Folded).To(ContainElement(carve.FoldedReport{Node: "twice", Kind: "constant"}))
	})

	It("is unknown without its plugin, and in versions that it does not have", func(ctx SpecContext) {
		_, err := carve.Compile(ctx, model(twice), nil)
		Expect(err).To(MatchError(ContainSubstring("com.own.Twice")))
		_, err = carve.Compile(ctx, model(twice), &carve.Options{Plugins: []string{own("LATER")}})
		Expect(err).To(MatchError(ContainSubstring("no backend runs the node")))
	})

	It("of two plugins is an error that names both", func(ctx SpecContext) {
		_, err := carve.Compile(ctx, model(twice), &carve.Options{Plugins: []string{own("RIGHT"), own("RUN_FAILS")}})
		Expect(err).To(MatchError(backend.ErrOption))
		Expect(err).To(MatchError(And(ContainSubstring(own("RIGHT")), ContainSubstring(own("RUN_FAILS")), ContainSubstring("com.own.Twice"))))
	})

	DescribeTable("that is described wrongly is not opened", func(name, text string) {
		_, err := plugin.Open(own(name))
		Expect(err).To(MatchError(plugin.ErrPlugin))
		Expect(err).To(MatchError(And(ContainSubstring(text), ContainSubstring(own(name)))))
	},
		Entry("no function", "NO_RUN", "needs the function run"),
		Entry("a name with a blank", "NO_OPERATOR_NAME", `"Tw ice"`),
		Entry("ONNX's own domain", "ONNX_DOMAIN", `domain "ai.onnx"`),
		Entry("NULL in the list", "NULL_OPERATOR", "operator 0 is NULL"),
	)

	It("whose schema is none is not opened", func() {
		_, err := plugin.Open(own("RIGHT", `-DSCHEMA="in X:T\nout Y:Z"`))
		Expect(err).To(MatchError(plugin.ErrPlugin))
		Expect(err).To(MatchError(graph.ErrSchema))
	})

	DescribeTable("whose answers cannot be is a typed error of Compile", func(ctx SpecContext, name, text string) {
		_, err := carve.Compile(ctx, model(twice), &carve.Options{Plugins: []string{own(name)}})
		var failed *carve.PassError
		Expect(errors.As(err, &failed)).To(BeTrue(), "%v", err)
		Expect(failed.Pass).To(Equal("infer"))
		Expect(err).To(MatchError(And(ContainSubstring(text), ContainSubstring(own(name)), ContainSubstring("com.own.Twice"), ContainSubstring(`"twice"`))))
	},
		Entry("a negative dim", "NEGATIVE_DIM", "a dim of -7"),
		Entry("a rank beyond the buffer", "BAD_RANK", "rank 1000"),
		Entry("a type that the schema does not admit", "WRONG_TYPE", "tensor(int64)"),
		Entry("a type that there is not", "NO_TYPE", "elements of type 99"),
		Entry("a symbol that there is not", "BAD_SYMBOL", "symbol 1234"),
		Entry("a negative factor", "NEGATIVE_FACTOR", "times -2"),
		Entry("a failure", "INFER_FAILS", "not this one"),
	)

	DescribeTable("that fails at run time ends the run with an error", func(ctx SpecContext, name, text string) {
		p, err := carve.Compile(ctx, model(twice), &carve.Options{Plugins: []string{own(name)}})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		_, err = p.Run(ctx, map[string]tensor.Value{"x": x()})
		Expect(err).To(MatchError(And(ContainSubstring(text), ContainSubstring(own(name)), ContainSubstring(`"twice"`))))
	},
		Entry("a failure", "RUN_FAILS", "the unit is on fire"),
		Entry("a status that is none of a run", "RUN_PENDING", "pending"),
		Entry("a workspace without end", "HUGE_WORKSPACE", "a workspace of"),
		Entry("a refusal", "WORKSPACE_FAILS", "not today"),
	)

	DescribeTable("that makes no such result as it said ends the run with an error", func(ctx SpecContext, name, text string) {
		m := model("graph \"p\" {\n  opset 17\n  opset \"com.own\" 1\n  input %x: f32[N,3]\n  %y = com.own::Positive(%x) \"positive\"\n  output %y\n}\n")
		p, err := carve.Compile(ctx, m, &carve.Options{Plugins: []string{own(name)}})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		_, err = p.Run(ctx, map[string]tensor.Value{"x": x()})
		Expect(err).To(MatchError(And(ContainSubstring(text), ContainSubstring(`"positive"`))))
	},
		Entry("another rank", "OTHER_SHAPE", "was said to be"),
		Entry("a shape without end", "ENDLESS_SHAPE", "rank 1048576"),
		Entry("none", "NO_STORAGE", "was not made"),
	)

	It("runs in regions, behind a pass that rewrites the model", func(ctx SpecContext) {
		m := model(`graph "g" {
  opset 20
  opset "com.example" 1
  input %x: f32[N,3]
  input %c: bool[]
  %y = If(%c | %x) "if" {
    then_branch: graph {
      capture %x: f32[N,3]
      %v = com.example::Snake(%x; alpha=2.0) "snake"
      output %v
    }
    else_branch: graph {
      capture %x: f32[N,3]
      %w = Neg(%x) "neg"
      output %w
    }
  }
  output %y
}
`)
		pass := build(GinkgoTB(), "../../examples/plugin/pass.c")
		p, err := carve.Compile(ctx, m, &carve.Options{Plugins: []string{library(), pass}, Verify: true})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		for _, then := range []bool{true, false} {
			flag := tensor.From([]uint8{0})
			if then {
				flag = tensor.From([]uint8{1})
			}
			flag.DType, flag.Shape = tensor.Bool, []int{}
			out, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, 2, 3}, 1, 3), "c": flag})
			Expect(err).NotTo(HaveOccurred())
			y, ok := out["y"].(*tensor.Tensor)
			Expect(ok).To(BeTrue())
			want := -float32(1)
			if then {
				want = -snakeOf([]float32{1})[0]
			}
			Expect(tensor.Elements[float32](y)[0]).To(BeNumerically("~", want, 1e-6))
		}
	})

	It("runs for many goroutines at once, on the host's threads", func(ctx SpecContext) {
		const rows = 10000 // enough that the kernel asks for threads
		p, err := carve.Compile(ctx, model(snake), &carve.Options{Plugins: []string{library()}, MaxSessions: 4})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		var wg sync.WaitGroup
		faults := make(chan error, 16)
		for k := range cap(faults) {
			wg.Go(func() {
				data := make([]float32, 3*rows)
				for i := range data {
					data[i] = float32((i + k) % 7)
				}
				want := snakeOf(data)
				for range 10 {
					out, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From(data, rows, 3)})
					if err != nil {
						faults <- err
						return
					}
					y, _ := out["y"].(*tensor.Tensor)
					for i, v := range tensor.Elements[float32](y) {
						if math.Abs(float64(v-want[i])) > 1e-5 {
							faults <- fmt.Errorf("goroutine %d: element %d is %g, wanted is %g", k, i, v, want[i])
							return
						}
					}
				}
			})
		}
		wg.Wait()
		close(faults)
		Expect(<-faults).NotTo(HaveOccurred())
	})

	It("allocates nothing in a run", func(ctx SpecContext) {
		p, err := carve.Compile(ctx, model(snake), &carve.Options{Plugins: []string{library()}, Threads: 1})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		s, err := p.NewSession()
		Expect(err).NotTo(HaveOccurred())
		defer s.Close()
		in := []*tensor.Tensor{x()}
		out := []*tensor.Tensor{tensor.From(make([]float32, 6), 2, 3)}
		run := func() { Expect(s.RunInto(context.Background(), in, out)).To(Succeed()) }
		run()
		failed := false
		n := testing.AllocsPerRun(100, func() {
			if s.RunInto(context.Background(), in, out) != nil {
				failed = true
			}
		})
		Expect(failed).To(BeFalse())
		Expect(n).To(BeZero())
	})
})
