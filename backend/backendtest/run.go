// Package backendtest proves that a backend keeps the contract of package backend. A vendor runs it with
//
//	func TestBackend(t *testing.T) {
//		backendtest.Run(t, func() backend.Backend { return newBackend() })
//	}
//
// Operators, and random chains of them, are compared with the reference backend over shapes, attributes and element types;
// formats and converters go there and back; memory, cancellation, concurrent use and failures are tried. Everything runs a
// second time with dead memory filled with NaN, and Requirements and Trace of each group are looked at.
//
// What a backend turns down is run by others, and is no failure: the suite asks for right results, not for many operators.
// What it claims it has to run: a group that falls back is a failure, and so is a backend that runs much less than it claims.
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
	for _, x := range s.sections() {
		running{t}.sub(x.name, x.run)
	}
}

type suite struct{ open func() backend.Backend }

// section is one part of the suite.
type section struct {
	name string
	run  func(t tester)
}

func (s *suite) sections() []section {
	return []section{
		{"information", s.information}, {"operators", s.operators}, {"symbols", s.symbols}, {"random", s.random},
		{"converters", s.converters}, {"devices", s.devices}, {"placement", s.placement}, {"allocations", s.allocations}, {"cancellation", s.cancellation},
		{"concurrency", s.concurrency}, {"failures", s.failures},
	}
}

// backend opens a backend for one test.
func (s *suite) backend(t tester) backend.Backend {
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
func (s *suite) information(t tester) {
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
func compile(t tester, g *graph.Graph, b backend.Backend, o carve.Options) (*carve.Program, error) {
	t.Helper()
	m := carve.FromGraph(g)
	t.Cleanup(func() { m.Close() })
	name := b.Info().Name
	o.Backends, o.Open, o.Verify = []backend.Config{{Name: name}}, map[string]backend.Backend{name: b}, true
	o.Placement = carve.Priority // the suite is of what the backend takes, not of what it is worth
	p, err := carve.Compile(context.Background(), m, &o)
	if err == nil {
		t.Cleanup(func() { p.Close() })
	}
	return p, err
}

// must is compile for graphs that have to compile.
func must(t tester, g *graph.Graph, b backend.Backend) *carve.Program {
	t.Helper()
	p, err := compile(t, g, b, carve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// modes are the options that cases run with.
var modes = []struct {
	name    string
	options carve.Options
}{{"", carve.Options{}}, {"with dead memory filled", carve.Options{Poison: true}}}

// oracle compiles a graph for the reference backend alone.
func oracle(t tester, g *graph.Graph) *carve.Program {
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
func share(t tester, p *carve.Program, name string) (mine, all int) {
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
