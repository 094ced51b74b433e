package backendtest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
)

// errInjected is the failure that the suite makes.
var errInjected = errors.New("failure injected by the suite")

// faulty is a backend that fails at one stage.
type faulty struct {
	backend.Backend
	stage string // "compile", "specialize", "run" or "panic"
	hits  *atomic.Int64
}

// Info implements backend.Backend. The name is another one, so that the backend below can be what is fallen back on.
func (f faulty) Info() backend.Info {
	i := f.Backend.Info()
	i.Name, i.Oracle = "faulty", false
	return i
}

// Compile implements backend.Backend.
func (f faulty) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	if f.stage == "compile" {
		f.hits.Add(1)
		return nil, errInjected
	}
	e, err := f.Backend.Compile(ctx, sub, o)
	return faultyExecutable{e, f}, err
}

// ConvertersOf implements convert.Source where the backend below does.
func (f faulty) ConvertersOf(l graph.Layout) []convert.Converter {
	if s, ok := f.Backend.(convert.Source); ok {
		return s.ConvertersOf(l)
	}
	return nil
}

// Close leaves the backend below open: the test closes it.
func (faulty) Close() error { return nil }

type faultyExecutable struct {
	backend.Executable
	f faulty
}

// Specialize implements backend.Executable.
func (e faultyExecutable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	if e.f.stage == "specialize" {
		e.f.hits.Add(1)
		return nil, errInjected
	}
	in, err := e.Executable.Specialize(ctx, b)
	return faultyInstance{in, e.f}, err
}

type faultyInstance struct {
	backend.Instance
	f faulty
}

// Enqueue implements backend.Instance. The work is done first, so that in-place writes have happened when it fails.
func (in faultyInstance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	e, err := in.Instance.Enqueue(ctx, a)
	if err != nil {
		return e, err
	}
	if e != nil {
		err := e.Wait(ctx)
		if e.Close(); err != nil {
			return nil, err
		}
	}
	in.f.hits.Add(1)
	if in.f.stage == "panic" {
		panic(errInjected)
	}
	return nil, errInjected
}

// failures makes the backend fail at every stage: results are right all the same, by fallback; strict compilations and
// runs return the error.
func (s *suite) failures(t tester) {
	for _, stage := range []string{"compile", "specialize", "run", "panic"} {
		t.sub(stage, func(t tester) {
			f := faulty{s.backend(t), stage, &atomic.Int64{}}
			p := must(t, network.parse(t), f)
			agree(t, network, p, nil)
			if m, _ := share(t, p, f.Info().Name); m == 0 && f.hits.Load() == 0 {
				t.Skip("the backend runs nothing of the network")
			}
			if f.hits.Load() == 0 {
				t.Error("the failure never happened")
			}
			s.strict(t, f)
		})
	}
}

// strict checks that the error comes back where falling back is not allowed. A backend that does not run the whole network
// cannot be compiled strictly at all.
func (s *suite) strict(t tester, f faulty) {
	t.Helper()
	p, err := compile(t, network.parse(t), f, carve.Options{Strict: true})
	if err == nil {
		in, ferr := feeds(network.parse(t), nil, 1)
		if ferr != nil {
			t.Fatal(ferr)
		}
		_, err = p.Run(context.Background(), in)
	}
	if err == nil {
		t.Error("a strict run goes through in spite of the failure")
	}
}
