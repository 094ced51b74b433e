package carve_test

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
)

// choosy is a backend with the reference kernels whose instances want the first constant of a group in another format too,
// and add it to their only output. It knows a layout that only its own converters know: twice the bytes, each element's
// bytes in reverse order.
type choosy struct {
	*reference.Backend
	form backend.ConstantForm

	mu   sync.Mutex
	seen map[*byte]bool // storage of the constants that it was given
}

func (c *choosy) ConvertersOf(l graph.Layout) []convert.Converter {
	if l.Owner() != "choosy" {
		return nil
	}
	size := func(_ graph.Format, dt tensor.DType, dims []int) (int64, error) {
		n, err := tensor.NumElements(dims)
		return 2 * int64(dt.Bytes(n)), err
	}
	plan := func(dt tensor.DType, dims []int) (convert.Move, error) {
		n, err := tensor.NumElements(dims)
		return func(_ context.Context, dst, src *tensor.Tensor, _ convert.Exec) error {
			k := dt.Size()
			for i := range n {
				for j := range k {
					dst.Data[dst.Offset+i*k+j] = src.Data[src.Offset+i*k+k-1-j]
				}
			}
			return nil
		}, err
	}
	return []convert.Converter{
		{Name: "there", From: graph.HostFormat, To: graph.On(l), Size: size, Plan: plan},
		{Name: "back", From: graph.On(l), To: graph.HostFormat, Size: size, Plan: plan},
	}
}

func (c *choosy) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	e, err := c.Backend.Compile(ctx, sub, o)
	return choosyExecutable{e, c}, err
}

type choosyExecutable struct {
	backend.Executable
	c *choosy
}

func (e choosyExecutable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	in, err := e.Executable.Specialize(ctx, b)
	return choosyInstance{in, e.c}, err
}

type choosyInstance struct {
	backend.Instance
	c *choosy
}

func (in choosyInstance) Requirements() backend.Requirements {
	r := in.Instance.Requirements()
	r.Constants = []backend.ConstantForm{in.c.form, in.c.form}
	return r
}

// Enqueue adds the last element of the constant's other form to each result.
func (in choosyInstance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	e, err := in.Instance.Enqueue(ctx, a)
	if err != nil {
		return e, err
	}
	given := a.Constants[len(a.Constants)-1]
	in.c.mu.Lock()
	defer in.c.mu.Unlock()
	in.c.seen[unsafe.SliceData(given.Data)] = true
	n := given.Len()
	if len(a.Constants) < 3 || in.c.form.Format.Layout.IsOpaque() && len(given.Data) < 8*n {
		return nil, fmt.Errorf("%d constants, the last of %d bytes", len(a.Constants), len(given.Data))
	}
	return e, nil
}

// sums is x plus a constant of two rows, with an open dim.
func sums() *carve.Model {
	GinkgoHelper()
	g, err := graph.Parse("graph \"sums\" {\n  opset 17\n  input %x: f32[N,2,3]\n  const %c = f32[2,3]{1, 2, 3, 4, 5, 6}\n  %y = Add(%x, %c) \"sum\"\n  output %y\n}")
	Expect(err).NotTo(HaveOccurred())
	m := carve.FromGraph(g)
	DeferCleanup(m.Close)
	return m
}

var _ = Describe("constants in formats that instances want", func() {
	opaque, err := graph.OpaqueLayout("choosy", "1", "reversed")
	Expect(err).NotTo(HaveOccurred())
	columns, err := graph.ParseLayout("ba")
	Expect(err).NotTo(HaveOccurred())

	newChoosy := func(f backend.ConstantForm) *choosy {
		return &choosy{Backend: &reference.Backend{Name: "choosy", Accept: func(n *graph.Node) bool { return n.Is("Add") }}, form: f, seen: map[*byte]bool{}}
	}
	options := func(c *choosy) *carve.Options {
		return &carve.Options{Backends: []backend.Config{{Name: "choosy"}}, Open: map[string]backend.Backend{"choosy": c}, Verify: true}
	}

	DescribeTable("are packed once, for all shapes, sessions and programs", func(ctx SpecContext, l graph.Layout, bytes int, via string) {
		m, c := sums(), newChoosy(backend.ConstantForm{Format: graph.On(l)})
		before := settled()
		p, err := carve.Compile(ctx, m, options(c))
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Memory().PackedWeights).To(BeZero(), "no shape is known")
		q, err := carve.Compile(ctx, m, options(c))
		Expect(err).NotTo(HaveOccurred())
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Add(1)
			go func() {
				defer GinkgoRecover()
				defer wg.Done()
				who := []*carve.Program{p, q}[i%2]
				out, err := who.Run(ctx, map[string]tensor.Value{"x": wave(i/2+1, 2, 3)})
				Expect(err).NotTo(HaveOccurred())
				Expect(tensor.Of[float32](out["y"].(*tensor.Tensor))[5]).To(Equal(tensor.Of[float32](wave(i/2+1, 2, 3))[5] + 6))
			}()
		}
		wg.Wait()
		Expect(c.seen).To(HaveLen(1))
		Expect(p.Memory().PackedWeights).To(BeNumerically(">=", bytes))
		Expect(q.Memory().PackedWeights).To(Equal(p.Memory().PackedWeights))
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Conversions).To(ContainElement(carve.ConversionReport{Value: "c", From: "host:row-major", To: graph.On(l).String(), Bytes: int64(bytes), Constant: true, Via: via}))
		Expect(p.Close()).To(Succeed())
		Expect(q.Close()).To(Succeed())
		Expect(m.Close()).To(Succeed())
		Expect(offheap.Total().Anonymous).To(BeNumerically("<=", before))
	},
		Entry("in a described layout", columns, 24, "host-reorder"),
		Entry("in one that a source of converters knows", opaque, 48, "there"),
	)

	DescribeTable("that cannot be had make the group fall back", func(ctx SpecContext, form backend.ConstantForm) {
		c := newChoosy(form)
		p := compile(ctx, sums(), options(c))
		out, err := p.Run(ctx, map[string]tensor.Value{"x": wave(1, 2, 3)})
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[float32](out["y"].(*tensor.Tensor))[5]).To(Equal(tensor.Of[float32](wave(1, 2, 3))[5] + 6))
		Expect(c.seen).To(BeEmpty())
		o := options(c)
		o.Strict = true
		strict := compile(ctx, sums(), o)
		_, err = strict.Run(ctx, map[string]tensor.Value{"x": wave(1, 2, 3)})
		var step *carve.StepError
		Expect(err).To(BeAssignableToTypeOf(step))
	},
		Entry("where nobody knows the format", backend.ConstantForm{Format: graph.Format{Device: tensor.DeviceID{Type: tensor.CUDA}}}),
		Entry("where there is no such constant", backend.ConstantForm{Index: 1, Format: graph.On(columns)}),
		Entry("where the layout is one for another rank", backend.ConstantForm{Format: graph.On(graph.NHWC)}),
		Entry("where it is the constant's own format", backend.ConstantForm{}),
	)
})
