package carve_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

func evaluator(o *carve.Options) *carve.Evaluator {
	GinkgoHelper()
	e, err := carve.NewEvaluator(o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(e.Close()).To(Succeed()) })
	return e
}

// floatsOf returns the elements of a result.
func floatsOf(v tensor.Value) []float32 {
	GinkgoHelper()
	t, ok := v.(*tensor.Tensor)
	Expect(ok).To(BeTrue())
	return tensor.Elements[float32](t)
}

var _ = Describe("An evaluator", func() {
	a, b := tensor.From([]float32{1, 2, 3, 4}, 2, 2), tensor.From([]float32{10, 20, 30, 40}, 2, 2)

	It("runs operators", func(ctx SpecContext) {
		e := evaluator(nil)
		for range 3 {
			out, err := e.Eval(ctx, "Add", nil, []*tensor.Tensor{a, b})
			Expect(err).NotTo(HaveOccurred())
			Expect(out).To(HaveLen(1))
			Expect(floatsOf(out[0])).To(Equal([]float32{11, 22, 33, 44}))
		}
		out, err := e.Eval(ctx, "Transpose", []graph.Attr{graph.IntsAttr("perm", 1, 0)}, []*tensor.Tensor{a})
		Expect(err).NotTo(HaveOccurred())
		Expect(floatsOf(out[0])).To(Equal([]float32{1, 3, 2, 4}))
		out, err = e.Eval(ctx, "Transpose", []graph.Attr{graph.IntsAttr("perm", 0, 1)}, []*tensor.Tensor{a})
		Expect(err).NotTo(HaveOccurred())
		Expect(floatsOf(out[0])).To(Equal([]float32{1, 2, 3, 4}))
	})

	It("looks at inputs that decide shapes", func(ctx SpecContext) {
		e := evaluator(nil)
		for _, shape := range [][]int64{{4}, {1, 4}, {4, 1}, {2, -1}, {4}} {
			out, err := e.Eval(ctx, "Reshape", nil, []*tensor.Tensor{a, tensor.From(shape, len(shape))})
			Expect(err).NotTo(HaveOccurred())
			Expect(out[0].(*tensor.Tensor).Shape).To(HaveLen(len(shape)))
			Expect(floatsOf(out[0])).To(Equal([]float32{1, 2, 3, 4}))
		}
		into := must(tensor.New(tensor.Float32, 2))
		Expect(e.EvalInto(ctx, "Slice", nil, []*tensor.Tensor{tensor.From([]float32{1, 2, 3, 4}, 4), tensor.From([]int64{1}, 1), tensor.From([]int64{3}, 1)},
			[]*tensor.Tensor{into})).To(Succeed())
		Expect(floatsOf(into)).To(Equal([]float32{2, 3}))
		out, err := e.Eval(ctx, "Range", nil, []*tensor.Tensor{tensor.From([]float32{1}), tensor.From([]float32{4}), tensor.From([]float32{1})})
		Expect(err).NotTo(HaveOccurred())
		Expect(floatsOf(out[0])).To(Equal([]float32{1, 2, 3}))
		out, err = e.Eval(ctx, "NonZero", nil, []*tensor.Tensor{a})
		Expect(err).NotTo(HaveOccurred())
		Expect(out[0].(*tensor.Tensor).Shape).To(Equal([]int{2, 4}))
	})

	It("leaves optional inputs and results out, and gives those that are asked for", func(ctx SpecContext) {
		e := evaluator(nil)
		out, err := e.Eval(ctx, "Clip", nil, []*tensor.Tensor{a, nil, tensor.From([]float32{2})})
		Expect(err).NotTo(HaveOccurred())
		Expect(floatsOf(out[0])).To(Equal([]float32{1, 2, 2, 2}))
		out, err = e.Eval(ctx, "Split", []graph.Attr{graph.IntAttr("num_outputs", 2)}, []*tensor.Tensor{a})
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(HaveLen(2))
		Expect(floatsOf(out[1])).To(Equal([]float32{3, 4}))
		image := tensor.From([]float32{1, 2, 3, 4}, 1, 1, 2, 2)
		max, at := must(tensor.New(tensor.Float32, 1, 1, 1, 1)), must(tensor.New(tensor.Int64, 1, 1, 1, 1))
		pool := []graph.Attr{graph.IntsAttr("kernel_shape", 2, 2)}
		Expect(e.EvalInto(ctx, "MaxPool", pool, []*tensor.Tensor{image}, []*tensor.Tensor{max, at})).To(Succeed())
		Expect(floatsOf(max)).To(Equal([]float32{4}))
		Expect(tensor.Elements[int64](at)).To(Equal([]int64{3}))
		Expect(e.EvalInto(ctx, "MaxPool", pool, []*tensor.Tensor{image}, []*tensor.Tensor{nil, at})).To(Succeed())
	})

	It("runs on the backend of choice", func(ctx SpecContext) {
		e := evaluator(&carve.Options{Backends: []backend.Config{{Name: "reference"}}, Strict: true})
		_, err := e.Eval(ctx, "Add", nil, []*tensor.Tensor{a, b})
		Expect(err).NotTo(HaveOccurred())
		strict := evaluator(&carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Strict: true})
		_, err = strict.Eval(ctx, "RandomNormalLike", nil, []*tensor.Tensor{a})
		Expect(err).To(MatchError(ContainSubstring("RandomNormalLike")), "cpu has no kernel")
		out, err := evaluator(nil).Eval(ctx, "RandomNormalLike", nil, []*tensor.Tensor{a})
		Expect(err).NotTo(HaveOccurred())
		Expect(floatsOf(out[0])).To(HaveLen(a.Len()))
	})

	It("turns down what no operator takes", func(ctx SpecContext) {
		e := evaluator(nil)
		for op, inputs := range map[string][]*tensor.Tensor{"Nope": {a}, "acme.Nope": {a}, "": {}, "Add": {a}, "Relu": {a, b}, "MatMul": {a, tensor.From([]float32{1, 2, 3}, 3)},
			"Abs": {{DType: tensor.Float32, Shape: []int{3}}}, "Exp": {{DType: tensor.Float32, Shape: []int{-1}}}, "Neg": {tensor.FromStrings([]string{"x"}, 1)}, "Sub": {a, nil}} {
			_, err := e.Eval(ctx, op, nil, inputs)
			Expect(err).To(HaveOccurred(), op)
		}
		_, err := e.Eval(ctx, "Nope", nil, []*tensor.Tensor{a})
		Expect(err).To(MatchError(carve.ErrInput))
		Expect(e.EvalInto(ctx, "Add", nil, []*tensor.Tensor{a, b}, []*tensor.Tensor{a, b})).To(MatchError(carve.ErrInput), "it has one result")
		Expect(e.EvalInto(ctx, "Add", nil, []*tensor.Tensor{a, b}, []*tensor.Tensor{must(tensor.New(tensor.Float32, 3))})).To(MatchError(carve.ErrOutput))
		Expect(e.EvalInto(ctx, "Add", nil, []*tensor.Tensor{a, b}, []*tensor.Tensor{a})).To(MatchError(carve.ErrOutput), "it overlaps")
		over, cancel := context.WithCancel(ctx)
		cancel()
		_, err = e.Eval(over, "Mul", nil, []*tensor.Tensor{a, b})
		Expect(err).To(MatchError(context.Canceled))
		_, err = e.Eval(ctx, "Mul", nil, []*tensor.Tensor{a, b})
		Expect(err).NotTo(HaveOccurred())
		_, err = carve.NewEvaluator(&carve.Options{Backends: []backend.Config{{Name: "nope"}}})
		Expect(err).To(MatchError(backend.ErrUnknown))
	})

	It("may be closed twice, and runs nothing afterwards", func(ctx SpecContext) {
		e := evaluator(nil)
		Expect(e.Close()).To(Succeed())
		_, err := e.Eval(ctx, "Add", nil, []*tensor.Tensor{a, b})
		Expect(err).To(MatchError(carve.ErrClosed))
		Expect((*carve.Evaluator)(nil).Close()).To(Succeed())
		Expect((&carve.Evaluator{}).EvalInto(ctx, "Add", nil, nil, nil)).To(MatchError(carve.ErrClosed))
	})

	It("allocates nothing for a call that was there before", func(ctx SpecContext) {
		e := evaluator(nil)
		in, out := []*tensor.Tensor{a, b}, []*tensor.Tensor{must(tensor.New(tensor.Float32, 2, 2))}
		plain := context.Background()
		run := func() {
			if err := e.EvalInto(plain, "Add", nil, in, out); err != nil {
				panic(err)
			}
		}
		run()
		Expect(testing.AllocsPerRun(100, run)).To(BeZero())
	})

	It("is used by many goroutines, with more operators than it keeps", func(ctx SpecContext) {
		e := evaluator(&carve.Options{MaxSpecializations: 4})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				defer GinkgoRecover()
				for r := range 60 {
					n := 1 + (g*7+r)%10
					x := must(tensor.New(tensor.Float32, n))
					for i := range n {
						tensor.Elements[float32](x)[i] = float32(i)
					}
					op, want := "Add", float32(2)
					if r%2 == 1 {
						op, want = "Sub", 0
					}
					out, err := e.Eval(ctx, op, nil, []*tensor.Tensor{x, x})
					Expect(err).NotTo(HaveOccurred())
					for i, y := range floatsOf(out[0]) {
						Expect(y).To(Equal(want * float32(i)))
					}
				}
			})
		}
		wg.Wait()
	})
})

func BenchmarkEvaluator(b *testing.B) {
	e, err := carve.NewEvaluator(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	x, y := tensor.From([]float32{1, 2, 3, 4}, 4), tensor.From([]float32{5, 6, 7, 8}, 4)
	in, out := []*tensor.Tensor{x, y}, []*tensor.Tensor{tensor.From(make([]float32, 4), 4)}
	b.ReportAllocs()
	for b.Loop() {
		if err := e.EvalInto(context.Background(), "Add", nil, in, out); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleEvaluator() {
	ctx := context.Background()
	e, err := carve.NewEvaluator(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	x := tensor.From([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	out, err := e.Eval(ctx, "Softmax", []graph.Attr{graph.IntAttr("axis", 0)}, []*tensor.Tensor{x})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.3f\n", tensor.Elements[float32](out[0].(*tensor.Tensor)))
	// Output: [0.047 0.047 0.047 0.953 0.953 0.953]
}
