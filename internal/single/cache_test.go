package single_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/single"
)

// made is a program that knows its graph, and whether it is closed.
type made struct {
	g      *graph.Graph
	closed atomic.Int32
}

func (m *made) Close() error {
	m.closed.Add(1)
	return nil
}

var errMade = errors.New("it does not compile")

// maker compiles graphs, but for those of the operator Exp, and keeps them all.
type maker struct {
	mu   sync.Mutex
	list []*made
	wait func(ctx context.Context) error // nil for no wait
}

func (m *maker) compile(ctx context.Context, g *graph.Graph) (*made, error) {
	if m.wait != nil {
		if err := m.wait(ctx); err != nil {
			return nil, err
		}
	}
	if g.Name == "Exp" {
		return nil, errMade
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &made{g: g}
	m.list = append(m.list, p)
	return p, nil
}

func f32(shape ...int) *tensor.Tensor {
	GinkgoHelper()
	t, err := tensor.New(tensor.Float32, shape...)
	Expect(err).NotTo(HaveOccurred())
	return t
}

func ints(n ...int64) *tensor.Tensor { return tensor.From(n, len(n)) }

var _ = Describe("A cache", func() {
	var m *maker
	var c *single.Cache[*made]
	BeforeEach(func() {
		m = &maker{}
		c = single.NewCache(3, m.compile)
	})
	// get acquires and releases.
	get := func(ctx context.Context, call *single.Call) *made {
		GinkgoHelper()
		e, err := c.Acquire(ctx, call)
		Expect(err).NotTo(HaveOccurred())
		c.Release(e)
		return e.Program
	}
	add := func(shape ...int) *single.Call {
		return &single.Call{Op: "Add", Inputs: []*tensor.Tensor{f32(shape...), f32(shape...)}}
	}

	It("has one program for calls that are alike, whatever the data", func(ctx SpecContext) {
		p := get(ctx, add(2, 3))
		other := add(2, 3)
		tensor.Of[float32](other.Inputs[0])[1] = 7
		Expect(get(ctx, other)).To(BeIdenticalTo(p))
		softmax := func(axis int64) *single.Call {
			return &single.Call{Op: "Softmax", Attrs: []graph.Attr{graph.IntAttr("axis", axis)}, Inputs: []*tensor.Tensor{f32(2, 3)}}
		}
		Expect(get(ctx, softmax(0))).To(BeIdenticalTo(get(ctx, softmax(0))))
		Expect(get(ctx, softmax(1))).NotTo(BeIdenticalTo(get(ctx, softmax(0))))
		Expect(m.list).To(HaveLen(3))
	})

	DescribeTable("tells calls apart", func(ctx SpecContext, x, y *single.Call) {
		c = single.NewCache(100, m.compile)
		p, q := get(ctx, x), get(ctx, y)
		Expect(p).NotTo(BeIdenticalTo(q))
		Expect(get(ctx, x)).To(BeIdenticalTo(p))
		Expect(get(ctx, y)).To(BeIdenticalTo(q))
	},
		Entry("by shape", &single.Call{Op: "Relu", Inputs: []*tensor.Tensor{{Shape: []int{2, 3}, DType: tensor.Float32, Data: make([]byte, 24)}}},
			&single.Call{Op: "Relu", Inputs: []*tensor.Tensor{{Shape: []int{3, 2}, DType: tensor.Float32, Data: make([]byte, 24)}}}),
		Entry("by type", &single.Call{Op: "Relu", Inputs: []*tensor.Tensor{tensor.From([]float32{1}, 1)}}, &single.Call{Op: "Relu", Inputs: []*tensor.Tensor{tensor.From([]float64{1}, 1)}}),
		Entry("by operator", &single.Call{Op: "Relu", Inputs: []*tensor.Tensor{tensor.From([]float32{1}, 1)}}, &single.Call{Op: "Neg", Inputs: []*tensor.Tensor{tensor.From([]float32{1}, 1)}}),
		Entry("by a float", &single.Call{Op: "Elu", Attrs: []graph.Attr{graph.FloatAttr("alpha", math.SmallestNonzeroFloat32)}, Inputs: []*tensor.Tensor{tensor.From([]float32{1}, 1)}},
			&single.Call{Op: "Elu", Attrs: []graph.Attr{graph.FloatAttr("alpha", 2*math.SmallestNonzeroFloat32)}, Inputs: []*tensor.Tensor{tensor.From([]float32{1}, 1)}}),
		Entry("by a tensor's content", &single.Call{Op: "Constant", Attrs: []graph.Attr{graph.TensorAttr("value", ints(1))}}, &single.Call{Op: "Constant", Attrs: []graph.Attr{graph.TensorAttr("value", ints(2))}}),
		Entry("by content that decides shapes", &single.Call{Op: "Reshape", Inputs: []*tensor.Tensor{tensor.From([]float32{1, 2}, 2), ints(2, 1)}},
			&single.Call{Op: "Reshape", Inputs: []*tensor.Tensor{tensor.From([]float32{1, 2}, 2), ints(1, 2)}}),
		Entry("by results", &single.Call{Op: "Dropout", Outputs: 1, Inputs: []*tensor.Tensor{tensor.From([]float32{1}, 1)}}, &single.Call{Op: "Dropout", Outputs: 2, Inputs: []*tensor.Tensor{tensor.From([]float32{1}, 1)}}),
	)

	It("knows which inputs are given at each run", func(ctx SpecContext) {
		e, err := c.Acquire(ctx, &single.Call{Op: "Slice", Inputs: []*tensor.Tensor{f32(8), ints(1), ints(4), nil, ints(2)}})
		Expect(err).NotTo(HaveOccurred())
		defer c.Release(e)
		for i, want := range []bool{true, false, false, false, false} {
			Expect(e.Call.Runtime(i)).To(Equal(want), "%d", i)
		}
		Expect(e.Graph.Inputs).To(HaveLen(1))
		dims, static := e.Graph.Outputs[0].Type.Shape.Static()
		Expect(static).To(BeTrue())
		Expect(dims).To(Equal([]int{2}))
		e, err = c.Acquire(ctx, &single.Call{Op: "Gather", Inputs: []*tensor.Tensor{f32(8), ints(1, 4)}})
		Expect(err).NotTo(HaveOccurred())
		defer c.Release(e)
		Expect(e.Graph.Inputs).To(HaveLen(2), "the shape follows without the indices")
	})

	It("closes what was used longest ago, when nobody uses it", func(ctx SpecContext) {
		held, err := c.Acquire(ctx, add(1))
		Expect(err).NotTo(HaveOccurred())
		second := get(ctx, add(2))
		get(ctx, add(3))
		get(ctx, add(2))
		get(ctx, add(4))
		Expect(c.Len()).To(Equal(3))
		Expect(held.Program.closed.Load()).To(BeZero(), "it is in use")
		get(ctx, add(5))
		Expect(m.list[2].closed.Load()).To(Equal(int32(1)))
		Expect(second.closed.Load()).To(BeZero())
		c.Release(held)
		Expect(held.Program.closed.Load()).To(Equal(int32(1)))
		Expect(get(ctx, add(1))).NotTo(BeIdenticalTo(held.Program))
	})

	It("compiles once for all who ask at one time, and anew where one gave up", func(ctx SpecContext) {
		begun, go1 := make(chan struct{}, 1), make(chan struct{})
		m.wait = func(ctx context.Context) error {
			begun <- struct{}{}
			select {
			case <-go1:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		impatient, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() {
			defer GinkgoRecover()
			_, err := c.Acquire(impatient, add(1))
			Expect(err).To(MatchError(context.Canceled))
		})
		<-begun
		got := make([]*made, 4)
		for i := range got {
			wg.Go(func() {
				defer GinkgoRecover()
				got[i] = get(ctx, add(1))
			})
		}
		cancel()
		<-begun // one of the others makes it
		close(go1)
		wg.Wait()
		Expect(m.list).To(HaveLen(1))
		for _, p := range got {
			Expect(p).To(BeIdenticalTo(m.list[0]))
		}
	})

	It("does not wait longer than its context", func(ctx SpecContext) {
		begun, end := make(chan struct{}), make(chan struct{})
		m.wait = func(context.Context) error {
			close(begun)
			<-end
			return nil
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			defer GinkgoRecover()
			get(ctx, add(1))
		})
		<-begun
		over, cancel := context.WithCancel(ctx)
		cancel()
		_, err := c.Acquire(over, add(1))
		Expect(err).To(MatchError(context.Canceled))
		close(end)
		wg.Wait()
		Expect(m.list[0].closed.Load()).To(BeZero())
		Expect(c.Close()).To(BeTrue())
		Expect(m.list[0].closed.Load()).To(Equal(int32(1)))
	})

	It("keeps no errors", func(ctx SpecContext) {
		for range 2 {
			_, err := c.Acquire(ctx, &single.Call{Op: "Exp", Inputs: []*tensor.Tensor{f32(1)}})
			Expect(err).To(Equal(errMade))
			for _, call := range []single.Call{{Op: "Nope"}, {Op: "Relu", Outputs: 2, Inputs: []*tensor.Tensor{f32(1)}}, {Op: "Relu", Inputs: []*tensor.Tensor{{DType: tensor.Float32, Shape: []int{-1}}}}} {
				_, err = c.Acquire(ctx, &call)
				Expect(err).To(MatchError(single.ErrCall))
			}
		}
		Expect(c.Len()).To(BeZero())
	})

	It("gives nothing when it is closed", func(ctx SpecContext) {
		p := get(ctx, add(1))
		Expect(c.Close()).To(BeTrue())
		Expect(c.Close()).To(BeFalse())
		Expect(p.closed.Load()).To(Equal(int32(1)))
		_, err := c.Acquire(ctx, add(1))
		Expect(err).To(Equal(single.ErrClosed))
	})
})
