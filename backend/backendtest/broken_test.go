package backendtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// broken is cpu with something wrong.
type broken struct {
	backend.Backend
	info       func(*backend.Info)
	supports   func(*graph.Node) *backend.Support
	compile    func(*graph.Graph) error
	specialize func(*graph.Graph) error
	needs      func(*backend.Requirements)
	enqueue    func(ctx context.Context, sub *graph.Graph, in backend.Instance, a *backend.RunArgs) error
}

func (b *broken) Info() backend.Info {
	i := b.Backend.Info()
	i.Name = "broken"
	if b.info != nil {
		b.info(&i)
	}
	return i
}

func (b *broken) Supports(n *graph.Node) backend.Support {
	if b.supports != nil {
		if s := b.supports(n); s != nil {
			return *s
		}
	}
	return b.Backend.Supports(n)
}

func (b *broken) ConvertersOf(l graph.Layout) []convert.Converter {
	return b.Backend.(convert.Source).ConvertersOf(l)
}

func (b *broken) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	if b.compile != nil {
		if err := b.compile(sub); err != nil {
			return nil, err
		}
	}
	e, err := b.Backend.Compile(ctx, sub, o)
	return &brokenExecutable{e, b, sub}, err
}

type brokenExecutable struct {
	backend.Executable
	b   *broken
	sub *graph.Graph
}

func (e *brokenExecutable) Specialize(ctx context.Context, bind graph.Bindings) (backend.Instance, error) {
	if e.b.specialize != nil {
		if err := e.b.specialize(e.sub); err != nil {
			return nil, err
		}
	}
	in, err := e.Executable.Specialize(ctx, bind)
	return &brokenInstance{in, e}, err
}

type brokenInstance struct {
	backend.Instance
	e *brokenExecutable
}

func (in *brokenInstance) Requirements() backend.Requirements {
	r := in.Instance.Requirements()
	if in.e.b.needs != nil {
		r.Inputs, r.Outputs, r.Buffers = slices.Clone(r.Inputs), slices.Clone(r.Outputs), slices.Clone(r.Buffers)
		in.e.b.needs(&r)
	}
	return r
}

func (in *brokenInstance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	if in.e.b.enqueue != nil {
		return nil, in.e.b.enqueue(ctx, in.e.sub, in.Instance, a)
	}
	return in.Instance.Enqueue(ctx, a)
}

func has(sub *graph.Graph, op string) bool {
	for n := range sub.Nodes() {
		if n.Is(op) || n.IsCarve(graph.OpFused) && has(n.Regions[0].Graph, op) {
			return true
		}
	}
	return false
}

// run is what a sound backend does.
func run(ctx context.Context, in backend.Instance, a *backend.RunArgs) error {
	e, err := in.Enqueue(ctx, a)
	if err != nil {
		return err
	}
	return device.Wait(ctx, e)
}

var errNo = errors.New("cannot do that")

var sink []byte

// brokenBackends are backends with one fault each, where the suite finds it, and what it says.
var brokenBackends = []struct {
	name, section, says string
	b                   broken
}{
	{"panics for every Mul", "operators", "the run panics: no Mul", broken{enqueue: func(ctx context.Context, sub *graph.Graph, in backend.Instance, a *backend.RunArgs) error {
		if has(sub, "Mul") {
			panic("no Mul")
		}
		return run(ctx, in, a)
	}}},
	{"claims Add for shapes that it cannot do", "operators", "claimed, but refused", broken{specialize: func(sub *graph.Graph) error {
		for n := range sub.Nodes() {
			if n.Is("Add") && len(n.Inputs[0].Type.Shape) != len(n.Inputs[1].Type.Shape) {
				return errNo
			}
		}
		return nil
	}}},
	{"cannot compile what it claims", "operators", "claimed, but does not compile: cannot do that", broken{compile: func(sub *graph.Graph) error {
		if has(sub, "Softmax") {
			return errNo
		}
		return nil
	}}},
	{"fails in the run", "operators", "claimed, but the run fails: cannot do that", broken{enqueue: func(ctx context.Context, sub *graph.Graph, in backend.Instance, a *backend.RunArgs) error {
		if has(sub, "MaxPool") {
			return errNo
		}
		return run(ctx, in, a)
	}}},
	{"has lifetimes that are too short", "operators", "expected", broken{needs: func(r *backend.Requirements) {
		for i := range r.Buffers {
			r.Buffers[i].Last = r.Buffers[i].First
		}
	}}},
	{"names buffers beyond its sub-steps", "operators", "is used from", broken{needs: func(r *backend.Requirements) {
		r.Buffers = append(r.Buffers, backend.Buffer{Bytes: 8, Last: max(r.Steps, 1)})
	}}},
	{"has fewer Labels than Steps", "operators", "labels for", broken{needs: func(r *backend.Requirements) {
		if len(r.Labels) > 1 {
			r.Labels = r.Labels[1:]
		}
	}}},
	{"has ports that are too small", "operators", "bytes, but", broken{needs: func(r *backend.Requirements) {
		for i := range r.Outputs {
			r.Outputs[i].Bytes /= 2
		}
	}}},
	{"works in the place of an input that it has not got", "operators", "in the place of input 7", broken{needs: func(r *backend.Requirements) {
		r.InPlace = []backend.InPlace{{Output: 0, Input: 7}}
	}}},
	{"does not call Trace", "operators", "Trace is called 0 times", broken{enqueue: func(ctx context.Context, _ *graph.Graph, in backend.Instance, a *backend.RunArgs) error {
		trace := a.Trace
		defer func() { a.Trace = trace }()
		a.Trace = nil
		return run(ctx, in, a)
	}}},
	{"allocates in Enqueue", "allocations", "bytes of memory of its own", broken{enqueue: func(ctx context.Context, _ *graph.Graph, in backend.Instance, a *backend.RunArgs) error {
		sink = make([]byte, 1<<20)
		return run(ctx, in, a)
	}}},
	{"ignores the end of the context", "cancellation", "the context has ended, but the run returns <nil>", broken{enqueue: func(ctx context.Context, _ *graph.Graph, in backend.Instance, a *backend.RunArgs) error {
		return run(context.WithoutCancel(ctx), in, a)
	}}},
	{"writes its input", "operators", "writes an operand", broken{enqueue: func(ctx context.Context, _ *graph.Graph, in backend.Instance, a *backend.RunArgs) error {
		err := run(ctx, in, a)
		if t := a.Inputs[0]; len(t.Data) > t.Offset {
			t.Data[t.Offset] ^= 1
		}
		return err
	}}},
	{"is wrong a little", "operators", "expected", broken{enqueue: func(ctx context.Context, sub *graph.Graph, in backend.Instance, a *backend.RunArgs) error {
		err := run(ctx, in, a)
		if x := a.Outputs[0]; has(sub, "Tanh") && x != nil {
			tensor.Of[float32](x)[0] += 0.01
		}
		return err
	}}},
	{"supports nothing", "operators", "nothing is proven", broken{supports: func(*graph.Node) *backend.Support {
		s := backend.No(property.Unsupported, "nothing")
		return &s
	}}},
	{"says something else each time", "information", "Info changes", broken{info: func(i *backend.Info) { i.Version = time.Now().String() }}},
	{"turns nodes down without a reason's code", "information", "turned down without a code", broken{supports: func(n *graph.Node) *backend.Support {
		if n.Is("Exp") {
			return &backend.Support{Reason: &property.Reason{}}
		}
		return nil
	}}},
	{"takes strides, but reads past them", "operators", "expected", broken{needs: func(r *backend.Requirements) {
		for i := range r.Inputs {
			r.Inputs[i].Strided = true
		}
	}}},
}

// elsewhere is a backend that mistakes its last device for the one before.
type elsewhere struct{ *fake.Backend }

func (e elsewhere) On(id tensor.DeviceID) (backend.Backend, error) {
	if last := e.Devices()[2].ID(); id == last {
		id = e.Devices()[1].ID()
	}
	return e.Backend.On(id)
}

func TestBrokenBackends(t *testing.T) {
	for _, x := range brokenBackends {
		t.Run(x.name, func(t *testing.T) {
			said := backendtest.Said(func() backend.Backend {
				b := x.b
				b.Backend = opened(t, cpu.Open)
				return &b
			}, x.section)
			if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, x.says) }) {
				t.Errorf("the suite does not say %q; it says %d things, among them %.300q", x.says, len(said), said)
			}
		})
	}
	t.Run("works on another device than it is asked to", func(t *testing.T) {
		said := backendtest.Said(func() backend.Backend { return elsewhere{fake.New(fake.Options{Devices: 3})} }, "placement")
		if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "its first device is") }) {
			t.Errorf("the suite says %.300q", said)
		}
	})
	t.Run("a sound one", func(t *testing.T) {
		for _, section := range []string{"information", "operators", "allocations", "cancellation"} {
			if said := backendtest.Said(func() backend.Backend { return &broken{Backend: opened(t, cpu.Open)} }, section); len(said) > 0 {
				t.Errorf("the suite says %.600q", said)
			}
		}
	})
}
