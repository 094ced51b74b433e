package carve_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// faulty is a backend with the reference kernels and a layout of its own, that can be made to fail.
type faulty struct {
	*reference.Backend
	compile, specialize, enqueue func() error // nil: no fault
	after                        bool         // enqueue fails when it has written everything, and spoilt its buffers

	executables, closed atomic.Int32 // that are open; how often the backend was closed
}

// reversed holds tensors with their dims in reverse order.
func reversed(t graph.Type) graph.Layout {
	tags := []string{"", "a", "ba", "cba", "dcba"}
	if n := len(t.Shape); n > 0 && n < len(tags) {
		l, err := graph.ParseLayout(tags[n])
		Expect(err).NotTo(HaveOccurred())
		return l
	}
	return graph.Layout{}
}

// newFaulty returns a backend that takes these operators.
func newFaulty(name string, ops ...string) *faulty {
	return &faulty{Backend: &reference.Backend{Name: name, Layout: reversed, Accept: func(n *graph.Node) bool { return n.Is(ops...) }}}
}

func (f *faulty) Close() error {
	f.closed.Add(1)
	return f.Backend.Close()
}

func (f *faulty) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	if f.compile != nil {
		if err := f.compile(); err != nil {
			return nil, err
		}
	}
	e, err := f.Backend.Compile(ctx, sub, o)
	if err == nil {
		f.executables.Add(1)
	}
	return &faultyExecutable{e, f}, err
}

type faultyExecutable struct {
	backend.Executable
	f *faulty
}

func (e *faultyExecutable) Close() error {
	e.f.executables.Add(-1)
	return e.Executable.Close()
}

func (e *faultyExecutable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	if e.f.specialize != nil {
		if err := e.f.specialize(); err != nil {
			return nil, err
		}
	}
	i, err := e.Executable.Specialize(ctx, b)
	return &faultyInstance{i, e.f}, err
}

type faultyInstance struct {
	backend.Instance
	f *faulty
}

// Requirements says that the first output may overwrite the first input, and that inputs are read at once.
func (i *faultyInstance) Requirements() backend.Requirements {
	r := i.Instance.Requirements()
	if i.f.after {
		r.InPlace = []backend.InPlace{{Output: 0, Input: 0}}
	}
	return r
}

func (i *faultyInstance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	if i.f.enqueue == nil {
		return i.Instance.Enqueue(ctx, a)
	}
	if i.f.after {
		if _, err := i.Instance.Enqueue(ctx, a); err != nil {
			return nil, err
		}
		for _, list := range [][]*tensor.Tensor{a.Outputs, a.Buffers} {
			for _, t := range list {
				if t != nil {
					b := t.Data[t.Offset:]
					copy(b, bytes.Repeat([]byte{0xA5}, len(b)))
				}
			}
		}
	}
	return nil, i.f.enqueue()
}

var errBroken = errors.New("broken on purpose")

func fails() error { return errBroken }

func panics() error { panic("kernel out of order") }

// withFaulty returns options that put a backend in front.
func withFaulty(b *faulty) *carve.Options {
	return &carve.Options{Backends: []backend.Config{{Name: b.Name}}, Open: map[string]backend.Backend{b.Name: b}, Verify: true}
}

// journal collects log records.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler           { return j }
func (j *journal) WithGroup(string) slog.Handler                { return j }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	j.lines = append(j.lines, line)
	return nil
}
