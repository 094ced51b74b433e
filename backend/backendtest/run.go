// Package backendtest proves that a backend keeps the contract of package backend. A vendor runs it with
//
//	func TestBackend(t *testing.T) {
//		backendtest.Run(t, func() backend.Backend { return newBackend() })
//	}
//
// Operators, and random chains of them, are compared with the reference backend over shapes, attributes and element types;
// formats and converters go there and back; memory, cancellation, concurrent use and failures are tried. What a backend
// turns down is fallen back from, and is no failure: the suite asks for right results, not for many operators.
//
// The package uses the whole compiler, and no test framework beyond package testing.
package backendtest

import (
	"context"
	"reflect"
	"testing"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"       // what a backend falls back on
	_ "github.com/carve-dev/carve/backend/reference" // the oracle
	"github.com/carve-dev/carve/graph"
)

// Run tries everything, as subtests. open returns a fresh backend, which Run closes; it may skip the test.
func Run(t *testing.T, open func() backend.Backend) {
	s := &suite{open: open}
	t.Run("information", s.information)
	t.Run("operators", s.operators)
	t.Run("symbols", s.symbols)
	t.Run("random", s.random)
	t.Run("converters", s.converters)
	t.Run("devices", s.devices)
	t.Run("cancellation", s.cancellation)
	t.Run("concurrency", s.concurrency)
	t.Run("failures", s.failures)
}

type suite struct{ open func() backend.Backend }

// backend opens a backend for one test.
func (s *suite) backend(t *testing.T) backend.Backend {
	t.Helper()
	b := s.open()
	if b == nil {
		t.Fatal("open returned no backend")
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// information checks what a backend says of itself.
func (s *suite) information(t *testing.T) {
	b := s.backend(t)
	i := b.Info()
	if i.Name == "" {
		t.Error("Info has no name")
	}
	if !reflect.DeepEqual(i, b.Info()) {
		t.Error("Info changes from call to call")
	}
	if len(b.Devices()) == 0 {
		t.Fatal("Devices is empty")
	}
	for k, d := range b.Devices() {
		if d == nil {
			t.Fatalf("device %d is nil", k)
		}
		if d.ID() != b.Devices()[k].ID() {
			t.Errorf("device %d changes its name from call to call", k)
		}
	}
	for _, c := range cases {
		g := c.parse(t)
		before := g.String()
		for n := range g.Nodes() {
			support := b.Supports(n)
			if support.Reason == nil && len(support.Signatures) == 0 {
				t.Errorf("%s: %v is supported without a signature", c.name, n)
			}
			if support.Reason != nil && support.Reason.Code == "" {
				t.Errorf("%s: %v is turned down without a code", c.name, n)
			}
			for _, sig := range support.Signatures {
				if len(sig.Inputs) != len(n.Inputs) || len(sig.Outputs) != len(n.Outputs) {
					t.Errorf("%s: signature %q of %v has %d inputs and %d outputs", c.name, sig.Name, n, len(sig.Inputs), len(sig.Outputs))
				}
			}
		}
		if g.String() != before {
			t.Errorf("%s: Supports changed the node", c.name)
		}
	}
}

// compile compiles a graph for the backend, with cpu and reference behind it.
func compile(t *testing.T, g *graph.Graph, b backend.Backend, strict bool) (*carve.Program, error) {
	t.Helper()
	m := carve.FromGraph(g)
	t.Cleanup(func() { m.Close() })
	name := b.Info().Name
	p, err := carve.Compile(context.Background(), m, &carve.Options{Backends: []backend.Config{{Name: name}},
		Open: map[string]backend.Backend{name: b}, Verify: true, Strict: strict})
	if err == nil {
		t.Cleanup(func() { p.Close() })
	}
	return p, err
}

// must is compile for graphs that have to compile.
func must(t *testing.T, g *graph.Graph, b backend.Backend) *carve.Program {
	t.Helper()
	p, err := compile(t, g, b, false)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// oracle compiles a graph for the reference backend alone.
func oracle(t *testing.T, g *graph.Graph) *carve.Program {
	t.Helper()
	m := carve.FromGraph(g)
	t.Cleanup(func() { m.Close() })
	p, err := carve.Compile(context.Background(), m, &carve.Options{Backends: []backend.Config{{Name: "reference"}}})
	if err != nil {
		t.Fatalf("reference: %v", err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// share returns how many of a program's nodes the backend runs, and how many there are.
func share(t *testing.T, p *carve.Program, name string) (mine, all int) {
	t.Helper()
	r, err := p.Report(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range r.Groups {
		all += len(g.Nodes)
		if g.Backend == name {
			mine += len(g.Nodes)
		}
	}
	return mine, all
}
