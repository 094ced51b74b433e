package carve_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// rowsText is a model whose rows do not depend on each other: y is tanh(x w), z the sum of each row.
const rowsText = `graph "rows" {
  opset 21
  input %x: f32[batch,4]
  const %w = f32[4,3]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
  const %axis = i64[1]{1}
  %xw = MatMul(%x, %w)
  %y = Tanh(%xw)
  %z = ReduceSum(%x, %axis)
  output %y, %z
}`

// batched compiles a model given as text, and makes a Batcher over it.
func batched(ctx context.Context, text string, o *carve.Options, bo *carve.BatchOptions) (*carve.Program, *carve.Batcher) {
	GinkgoHelper()
	g, err := graph.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	p, err := carve.Compile(ctx, carve.FromGraph(g), o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	b, err := carve.NewBatcher(p, bo)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(b.Close)
	return p, b
}

func randomRows(r *rand.Rand, rows, width int) *tensor.Tensor {
	v := make([]float32, rows*width)
	for i := range v {
		v[i] = r.Float32() - 0.5
	}
	return tensor.From(v, rows, width)
}

// ofRows returns a text with one graph of an input %x: f32[batch,4] and an output %y.
func ofRows(body string) string {
	return "graph \"rows\" {\n  opset 21\n  input %x: f32[batch,4]\n" + body + "\n  output %y\n}"
}

// maskedText is a model of sequences: y is the mean of the embeddings that the mask lets through, e each of them.
const maskedText = `graph "masked" {
  opset 21
  input %ids: i64[batch,length]
  input %mask: i64[batch,length]
  const %table = f32[4,2]{1, 2, 3, 4, 5, 6, 7, 8}
  const %one = i64[1]{1}
  const %two = i64[1]{2}
  %e = Gather(%table, %ids)
  %m = Cast(%mask; to=1)
  %m3 = Unsqueeze(%m, %two)
  %em = Mul(%e, %m3)
  %sum = ReduceSum(%em, %one; keepdims=0)
  %n = ReduceSum(%m, %one)
  %y = Div(%sum, %n)
  output %y, %e
}`

var _ = Describe("a Batcher", func() {
	It("gives every caller the results of its own rows", func(ctx SpecContext) {
		p, b := batched(ctx, rowsText, &carve.Options{MaxSessions: 1}, nil)
		Expect(b.Off()).To(BeEmpty())
		Expect(b.Buckets()).To(Equal([]int{1, 2, 4, 8, 16}))
		crowd(ctx, p, b, func(r *rand.Rand) map[string]tensor.Value {
			return map[string]tensor.Value{"x": randomRows(r, 1+r.IntN(3), 4)}
		})
		Expect(b.Stats().Rows).To(BeNumerically(">", b.Stats().Calls))
	})

	It("runs calls together, each with the results of its own rows", func(ctx SpecContext) {
		p, b := batched(ctx, rowsText, &carve.Options{MaxSessions: 1}, &carve.BatchOptions{MaxBatch: 8, Delay: time.Minute})
		together(ctx, p, b, 4, func(k int) map[string]tensor.Value {
			return map[string]tensor.Value{"x": randomRows(rand.New(rand.NewPCG(5, uint64(k))), 2, 4)}
		})
		n := b.Stats()
		Expect([]uint64{n.Calls, n.Rows, n.Runs}).To(Equal([]uint64{4, 8, 1}))
	})

	It("has BatchOptions.Do do all runs, with panics of their own", func(ctx SpecContext) {
		var runs atomic.Int64
		elsewhere := func(run func()) {
			runs.Add(1)
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				run()
			}()
			if p := <-done; p != nil {
				panic(p)
			}
		}
		p, b := batched(ctx, rowsText, nil, &carve.BatchOptions{MaxBatch: 4, Delay: 200 * time.Millisecond, Do: func() func(func()) { return elsewhere }})
		Expect(b.Off()).To(BeEmpty())
		Expect(runs.Load()).To(BeZero())
		call := func(rows int) {
			defer GinkgoRecover()
			x := randomRows(rand.New(rand.NewPCG(1, uint64(rows))), rows, 4)
			want, err := p.Run(ctx, map[string]tensor.Value{"x": x})
			Expect(err).NotTo(HaveOccurred())
			found, err := b.Run(ctx, map[string]tensor.Value{"x": x})
			Expect(err).NotTo(HaveOccurred())
			Expect(found["y"].(*tensor.Tensor).Shape).To(Equal([]int{rows, 3}))
			Expect(tensor.Elements[float32](found["z"].(*tensor.Tensor))).To(Equal(tensor.Elements[float32](want["z"].(*tensor.Tensor))))
		}
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() { call(2) })
		}
		group.Wait()
		Expect(runs.Load()).To(Equal(int64(1)), "together")
		call(5)
		Expect(runs.Load()).To(Equal(int64(2)), "alone")
		Expect(b.RunInto(ctx, []*tensor.Tensor{randomRows(rand.New(rand.NewPCG(1, 5)), 5, 4)}, []*tensor.Tensor{tensor.From(make([]float32, 15), 5, 3), nil})).To(Succeed())
		Expect(runs.Load()).To(Equal(int64(3)))
	})

	It("pads lengths where a mask says what is padding", func(ctx SpecContext) {
		p, b := batched(ctx, maskedText, &carve.Options{MaxSessions: 1, MaxSpecializations: 64}, &carve.BatchOptions{Mask: "mask", MaxBatch: 4, Lengths: []int{4, 8}})
		Expect(b.Off()).To(BeEmpty())
		masked := func(rows, length int, r *rand.Rand) map[string]tensor.Value {
			ids, mask := make([]int64, rows*length), make([]int64, rows*length)
			for i := range ids {
				ids[i], mask[i] = r.Int64N(4), 1
			}
			return map[string]tensor.Value{"ids": tensor.From(ids, rows, length), "mask": tensor.From(mask, rows, length)}
		}
		crowd(ctx, p, b, func(r *rand.Rand) map[string]tensor.Value { return masked(1+r.IntN(2), 1+r.IntN(10), r) })

		p, b = batched(ctx, maskedText, &carve.Options{MaxSessions: 1}, &carve.BatchOptions{Mask: "mask", MaxBatch: 4, Delay: time.Minute, Lengths: []int{4, 8}})
		together(ctx, p, b, 4, func(k int) map[string]tensor.Value { return masked(1, 5+k, rand.New(rand.NewPCG(6, uint64(k)))) })
		Expect(b.Stats().Runs).To(BeEquivalentTo(1), "lengths of 5 to 8 are padded to 8")
	})

	It("has a row at fault fail alone", func(ctx SpecContext) {
		_, b := batched(ctx, maskedText, &carve.Options{MaxSessions: 1}, &carve.BatchOptions{Delay: time.Minute, MaxBatch: 4})
		Expect(b.Off()).To(BeEmpty())
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for k := range errs {
			wg.Go(func() {
				ids := []int64{1, int64(k) * 2} // 4 and 6 are none of the table's
				_, errs[k] = b.Run(ctx, map[string]tensor.Value{"ids": tensor.From(ids, 1, 2), "mask": tensor.From([]int64{1, 1}, 1, 2)})
			})
		}
		wg.Wait()
		Expect(errs[:2]).To(HaveEach(BeNil()))
		for _, err := range errs[2:] {
			Expect(err).To(MatchError(carve.ErrRun))
		}
		Expect(b.Stats().Again).To(BeEquivalentTo(4))
	})

	DescribeTable("says why it does not batch", func(ctx SpecContext, text, why string) {
		p, b := batched(ctx, text, nil, &carve.BatchOptions{MaxBatch: 4})
		Expect(b.Off()).To(ContainSubstring(why))
		Expect(b.Buckets()).To(BeNil())
		if len(p.Inputs()) != 1 {
			return
		}
		x := map[string]tensor.Value{"x": randomRows(rand.New(rand.NewPCG(1, 2)), 3, 4)}
		want, err := p.Run(ctx, x)
		Expect(err).NotTo(HaveOccurred())
		got, err := b.Run(ctx, x)
		Expect(err).NotTo(HaveOccurred())
		expectSame(got, want)
		Expect(b.Stats().Reasons[carve.BatchAlone]).To(BeEquivalentTo(1))
	},
		Entry("a fixed batch", strings.Replace(rowsText, "batch", "3", 1), "its first dim is no symbol"),
		Entry("softmax over the batch", ofRows("  %y = Softmax(%x; axis=0)"), "depend on other rows"),
		Entry("the largest of all rows", ofRows("  const %a = i64[1]{0}\n  %m = ReduceMax(%x, %a)\n  %y = Div(%x, %m)"), "depend on other rows"),
		Entry("one scale for all rows", ofRows("  %q, %s, %z = DynamicQuantizeLinear(%x)\n  %y = DequantizeLinear(%q, %s, %z)"), "depend on other rows"),
		Entry("a mean of all rows", ofRows("  const %a = i64[1]{0}\n  %y = ReduceMean(%x, %a)"), "output \"y\""),
		Entry("rows of each other", ofRows("  const %p = i64[2]{1, 0}\n  %t = Transpose(%x; perm=[1,0])\n  %y = MatMul(%x, %t)"), "more than its first dim depends on batch"),
		Entry("rows that data choose", ofRows("  %y = NonZero(%x)"), "its first dim is no symbol"),
		Entry("an input of all rows", `graph "two" {
  opset 21
  input %x: f32[batch,4]
  input %k: f32[]
  %y = Mul(%x, %k)
  output %y
}`, `input "k"`),
	)

	It("makes no plans for batches that are only a number large enough, before there are such", func(ctx SpecContext) {
		for _, most := range []int{1 << 20, math.MaxInt} {
			p, b := batched(ctx, rowsText, &carve.Options{MaxSessions: 1}, &carve.BatchOptions{MaxBatch: most, Delay: 20 * time.Millisecond})
			Expect(b.Off()).To(BeEmpty())
			Expect(b.Buckets()).To(ContainElements(1, 2, 1024, 1<<19, most))
			Expect(p.Memory().Arenas).To(BeNumerically("<", 16<<20))
			together(ctx, p, b, 4, func(k int) map[string]tensor.Value {
				return map[string]tensor.Value{"x": randomRows(rand.New(rand.NewPCG(5, uint64(k))), 600, 4)}
			})
			n := b.Stats()
			Expect(n.Rows).To(BeEquivalentTo(2400))
			Expect(n.Runs).To(BeNumerically("<", 4))
		}
	})

	It("takes the caller's word that rows are independent", func(ctx SpecContext) {
		text := ofRows("  %q, %s, %z = DynamicQuantizeLinear(%x)\n  %y = DequantizeLinear(%q, %s, %z)")
		_, b := batched(ctx, text, nil, &carve.BatchOptions{Independent: true})
		Expect(b.Off()).To(BeEmpty())
	})

	DescribeTable("turns options down that make no sense", func(ctx SpecContext, o carve.BatchOptions) {
		g, err := graph.Parse(rowsText)
		Expect(err).NotTo(HaveOccurred())
		p, err := carve.Compile(ctx, carve.FromGraph(g), &carve.Options{Bounds: map[string]int{"batch": 8}, MaxSpecializations: 4})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		_, err = carve.NewBatcher(p, &o)
		Expect(err).To(MatchError(carve.ErrInput))
	},
		Entry("a negative batch", carve.BatchOptions{MaxBatch: -1}),
		Entry("a negative delay", carve.BatchOptions{Delay: -1}),
		Entry("buckets that do not ascend", carve.BatchOptions{Buckets: []int{2, 2}}),
		Entry("a bucket of no rows", carve.BatchOptions{Buckets: []int{0, 2}}),
		Entry("buckets that are not the batch's", carve.BatchOptions{Buckets: []int{1, 2}, MaxBatch: 4}),
		Entry("more rows than the program's bound", carve.BatchOptions{MaxBatch: 9}),
		Entry("more buckets than plans", carve.BatchOptions{Buckets: []int{1, 2, 3, 4, 5}}),
		Entry("a sample without rows", carve.BatchOptions{Sample: map[string]tensor.Value{"x": tensor.From([]float32{}, 0, 4)}}),
		Entry("a sample for another model", carve.BatchOptions{Sample: map[string]tensor.Value{"z": tensor.From([]float32{1}, 1, 1)}}),
	)

	It("checks a call before it waits", func(ctx SpecContext) {
		_, b := batched(ctx, rowsText, nil, nil)
		x := tensor.From(make([]float32, 8), 2, 4)
		for _, bad := range []tensor.Value{tensor.From(make([]float64, 8), 2, 4), tensor.From(make([]float32, 6), 2, 3), &tensor.Tensor{DType: tensor.Float32, Shape: []int{2, 4}}} {
			_, err := b.Run(ctx, map[string]tensor.Value{"x": bad})
			Expect(err).To(MatchError(carve.ErrInput))
		}
		_, err := b.Run(ctx, map[string]tensor.Value{"x": x, "w": x})
		Expect(err).To(MatchError(carve.ErrInput))
		_, err = b.Run(ctx, nil)
		Expect(err).To(MatchError(carve.ErrInput))
		y, z := tensor.From(make([]float32, 6), 2, 3), tensor.From(make([]float32, 2), 2, 1)
		var named *carve.InputError
		for _, outs := range [][]*tensor.Tensor{{y}, {z, y}, {tensor.From(make([]float32, 9), 3, 3), z}, {tensor.From(tensor.Of[float32](x)[:6], 2, 3), z}} {
			err := b.RunInto(ctx, []*tensor.Tensor{x}, outs)
			Expect(err).To(MatchError(carve.ErrOutput))
			Expect(errors.As(err, &named)).To(BeTrue())
		}
		Expect(b.Stats().Calls).To(BeZero())
	})

	It("runs alone what does not go together: no rows, many, strides", func(ctx SpecContext) {
		p, b := batched(ctx, rowsText, nil, &carve.BatchOptions{MaxBatch: 4})
		r := rand.New(rand.NewPCG(3, 4))
		wide := randomRows(r, 3, 8)
		strided, err := wide.Slice(1, 2, 6)
		Expect(err).NotTo(HaveOccurred())
		for _, x := range []tensor.Value{randomRows(r, 0, 4), randomRows(r, 9, 4), strided, &carve.Formatted{Tensor: randomRows(r, 2, 4)}} {
			want, err := p.Run(ctx, map[string]tensor.Value{"x": x})
			Expect(err).NotTo(HaveOccurred())
			got, err := b.Run(ctx, map[string]tensor.Value{"x": x})
			Expect(err).NotTo(HaveOccurred())
			expectSame(got, want)
		}
		Expect(b.Stats().Reasons[carve.BatchAlone]).To(BeEquivalentTo(4))
	})

	It("tells an Observer of calls and runs", func(ctx SpecContext) {
		var mu sync.Mutex
		var queued []carve.BatchQueued
		var ran []carve.BatchRun
		var answered []carve.BatchAnswer
		_, b := batched(ctx, rowsText, nil, &carve.BatchOptions{MaxBatch: 4, Delay: time.Minute, Observer: carve.BatchObserver{
			Queued:   func(_ context.Context, q carve.BatchQueued) { mu.Lock(); queued = append(queued, q); mu.Unlock() },
			Ran:      func(r carve.BatchRun) { mu.Lock(); ran = append(ran, r); mu.Unlock() },
			Answered: func(_ context.Context, a carve.BatchAnswer) { mu.Lock(); answered = append(answered, a); mu.Unlock() },
		}})
		var wg sync.WaitGroup
		for k := range 2 {
			wg.Go(func() {
				defer GinkgoRecover()
				_, err := b.Run(carve.WithPriority(ctx, k), map[string]tensor.Value{"x": tensor.From(make([]float32, 8), 2, 4)})
				Expect(err).NotTo(HaveOccurred())
			})
		}
		wg.Wait()
		Expect(queued).To(ConsistOf(carve.BatchQueued{Rows: 2, Bytes: 32}, carve.BatchQueued{Rows: 2, Bytes: 32, Priority: 1}))
		Expect(ran).To(HaveLen(1))
		Expect(ran[0].ID).To(BeEquivalentTo(1))
		Expect([]int{ran[0].Calls, ran[0].Rows, ran[0].Padded}).To(Equal([]int{2, 4, 4}))
		Expect(ran[0].Reason).To(Equal(carve.BatchFull))
		Expect(ran[0].Reason.String()).To(Equal("full"))
		Expect(answered).To(HaveLen(2))
		for _, a := range answered {
			Expect([]int{a.Rows, a.Of}).To(Equal([]int{2, 4}))
			Expect(a.Run).To(BeEquivalentTo(1))
			Expect(a.Took).To(BeNumerically(">", 0))
			Expect(a.Total).To(BeNumerically(">=", a.Queued+a.Took))
		}
	})

	It("stops: drained calls fail with ErrDraining, closed ones with ErrClosed", func(ctx SpecContext) {
		p, b := batched(ctx, rowsText, nil, nil)
		x := map[string]tensor.Value{"x": tensor.From(make([]float32, 8), 2, 4)}
		Expect(b.Drain(ctx)).To(Succeed())
		_, err := b.Run(ctx, x)
		Expect(err).To(MatchError(carve.ErrDraining))
		Expect(b.Close()).To(Succeed())
		Expect(b.Close()).To(Succeed())
		_, err = b.Run(ctx, x)
		Expect(err).To(MatchError(carve.ErrClosed))
		_, err = p.Run(ctx, x)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Close()).To(Succeed())
		_, err = carve.NewBatcher(p, nil)
		Expect(err).To(MatchError(carve.ErrClosed))
		var none *carve.Batcher
		_, err = none.Run(ctx, x)
		Expect(err).To(MatchError(carve.ErrClosed))
	})

	It("allocates nothing in RunInto", func(ctx SpecContext) {
		_, b := batched(ctx, rowsText, nil, &carve.BatchOptions{Buckets: []int{2, 4}})
		for _, rows := range []int{1, 2, 3} { // with padding and without
			x := []*tensor.Tensor{tensor.From(make([]float32, rows*4), rows, 4)}
			out := []*tensor.Tensor{tensor.From(make([]float32, rows*3), rows, 3), tensor.From(make([]float32, rows), rows, 1)}
			run := func() { Expect(b.RunInto(ctx, x, out)).To(Succeed()) }
			run()
			Expect(testing.AllocsPerRun(50, func() { _ = b.RunInto(ctx, x, out) })).To(BeZero(), "%d rows", rows)
		}
	})
})

// crowd has 16 callers run a model with inputs of their own, and compares what they get with what the Program alone says.
func crowd(ctx context.Context, p *carve.Program, b *carve.Batcher, inputs func(r *rand.Rand) map[string]tensor.Value) {
	GinkgoHelper()
	var wg sync.WaitGroup
	for k := range 16 {
		wg.Go(func() {
			defer GinkgoRecover()
			r := rand.New(rand.NewPCG(1, uint64(k)))
			for range 50 {
				x := inputs(r)
				want := ownRows(ctx, p, b, x)
				var in, out []*tensor.Tensor
				for _, port := range p.Inputs() {
					in = append(in, x[port.Name].(*tensor.Tensor))
				}
				for _, port := range p.Outputs() {
					t, err := tensor.New(port.Type.DType, want[port.Name].(*tensor.Tensor).Shape...)
					Expect(err).NotTo(HaveOccurred())
					out = append(out, t)
				}
				Expect(b.RunInto(ctx, in, out)).To(Succeed())
				for i, port := range p.Outputs() {
					close32(out[i], want[port.Name].(*tensor.Tensor))
				}
			}
		})
	}
	wg.Wait()
}

// together has n callers run a model once, each with inputs of its own. The Batcher waits until they fill a run.
func together(ctx context.Context, p *carve.Program, b *carve.Batcher, n int, inputs func(k int) map[string]tensor.Value) {
	GinkgoHelper()
	var wg sync.WaitGroup
	for k := range n {
		wg.Go(func() {
			defer GinkgoRecover()
			ownRows(ctx, p, b, inputs(k))
		})
	}
	wg.Wait()
}

// ownRows compares what a Batcher says of inputs with what the Program alone says, and returns that.
func ownRows(ctx context.Context, p *carve.Program, b *carve.Batcher, x map[string]tensor.Value) map[string]tensor.Value {
	GinkgoHelper()
	want, err := p.Run(ctx, x)
	Expect(err).NotTo(HaveOccurred())
	got, err := b.Run(ctx, x)
	Expect(err).NotTo(HaveOccurred())
	for name, w := range want {
		close32(got[name].(*tensor.Tensor), w.(*tensor.Tensor))
	}
	return want
}

// close32 compares two tensors of float32 but for the last bits.
func close32(got, want *tensor.Tensor) {
	GinkgoHelper()
	Expect(got.Shape).To(Equal(want.Shape))
	g, w := tensor.Of[float32](got), tensor.Of[float32](want)
	for i := range w {
		Expect(g[i]).To(BeNumerically("~", w[i], 1e-5))
	}
}
