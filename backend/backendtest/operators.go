package backendtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
)

// testCase is a graph whose results are compared with the oracle's. Its text leaves out the braces.
type testCase struct{ name, text string }

// parse returns the graph of a case, with its types.
func (c testCase) parse(t tester) *graph.Graph {
	t.Helper()
	g, err := graph.Parse("graph {\n" + c.expand() + "\n}")
	if err == nil {
		err = graph.InferGraph(g)
	}
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	for n := range g.Nodes() {
		n.Name = n.Outputs[0].Name // reports, and fallbacks, go by names
	}
	return g
}

// expand writes the data of constants: "const %w = f32[2,3]{~}" stands for numbers in (-1, 1), "{+}" for numbers in
// (0.5, 1.5).
func (c testCase) expand() string {
	lines := strings.Split(c.text, "\n")
	r := source(7)
	for i, line := range lines {
		mark := strings.LastIndexAny(line, "~+")
		open, end := strings.Index(line, "["), strings.Index(line, "]")
		if !strings.Contains(line, "const ") || mark < 0 || open < 0 || end < open {
			continue
		}
		n := 1
		for _, d := range strings.Split(line[open+1:end], ",") {
			var k int
			if _, err := fmt.Sscan(d, &k); err == nil {
				n *= k
			}
		}
		numbers := make([]string, n)
		for k := range numbers {
			x := r.unit()
			if line[mark] == '+' {
				x = 1 + x/2
			}
			numbers[k] = fmt.Sprintf("%.4f", x)
		}
		lines[i] = line[:mark] + strings.Join(numbers, ", ") + line[mark+1:]
	}
	return strings.Join(lines, "\n")
}

// operators compares every case with the oracle.
func (s *suite) operators(t tester) {
	mine, claimed, all := 0, 0, 0
	for _, c := range cases {
		t.sub(c.name, func(t tester) {
			b := s.backend(t)
			p := s.watched(t, c, b, nil)
			m, n := share(t, p, b.Info().Name)
			mine, all = mine+m, all+n
			for n := range c.parse(t).Nodes() {
				if b.Supports(n).Reason == nil {
					claimed++
				}
			}
		})
	}
	t.Logf("the backend claims %d nodes as they stand, and ran %d of %d", claimed, mine, all)
	if claimed == 0 && mine == 0 {
		t.Error("the backend runs none of the suite's nodes: nothing is proven")
	}
	if mine*leastShare.of < claimed*leastShare.ran {
		t.Errorf("the backend claims %d nodes, but ran only %d", claimed, mine)
	}
}

// leastShare is how many of the nodes that a backend claims it has to run. Passes fold and fuse some of them before.
var leastShare = struct{ ran, of int }{3, 4}

// watched runs a case in each mode with an eye on every group, and returns the last program.
func (s *suite) watched(t tester, c testCase, b backend.Backend, binds []graph.Bindings) *carve.Program {
	t.Helper()
	var p *carve.Program
	for _, m := range modes {
		var err error
		if p, err = compile(t, c.parse(t), &watched{Backend: b, t: t, mode: m.name}, m.options); err != nil {
			t.Fatal(err)
		}
		if binds == nil {
			agree(t, c, p, nil)
		}
		for _, bind := range binds {
			agree(t, c, p, bind)
		}
	}
	return p
}

// symbols runs one program for several values of its symbols.
func (s *suite) symbols(t tester) {
	for _, c := range symbolic {
		t.sub(c.name, func(t tester) {
			var binds []graph.Bindings
			for _, n := range []int64{1, 3, 2, 3, 8} {
				binds = append(binds, graph.Bindings{"N": n, "M": 4 * n})
			}
			s.watched(t, c, s.backend(t), binds)
		})
	}
	b := s.backend(t)
	seeds := uint64(24)
	if !b.Devices()[0].ID().IsHost() {
		seeds = 2 // kernels are compiled for each list of shapes
	}
	for seed := range seeds {
		c := randomSymbolic(seed)
		mode := modes[seed%uint64(len(modes))]
		p, err := compile(t, c.parse(t), &watched{Backend: b, t: t, mode: mode.name}, mode.options)
		if err != nil {
			t.Fatalf("%v\n%s", err, c.text)
		}
		for _, bind := range randomBindings(seed) {
			agree(t, c, p, bind)
		}
	}
}

// agree runs a program twice, with two sets of inputs, and compares the results with the oracle's.
func agree(t tester, c testCase, p *carve.Program, bind graph.Bindings) {
	t.Helper()
	ref := oracle(t, c.parse(t))
	for seed := range uint64(2) {
		in, err := feeds(c.parse(t), bind, seed+1)
		if err != nil {
			t.Fatal(err)
		}
		want, err := ref.Run(context.Background(), in)
		if err != nil {
			t.Fatalf("reference: %v", err)
		}
		got, err := p.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if why := compare(got[name], want[name]); why != "" {
				t.Errorf("%v: output %s %s", bind, name, why)
			}
		}
	}
}
