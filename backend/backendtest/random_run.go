package backendtest

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
)

// Agree compiles a case, verified after every pass, with dead memory filled with NaN, runs it twice and compares the results
// with those of the reference kernels. What o's first backend runs is counted in ran by the names of operators and of fused
// patterns.
func (c *Case) Agree(ctx context.Context, o carve.Options, ran map[string]int) error {
	o.Verify, o.Poison = true, true
	m := carve.FromGraph(c.Graph)
	defer m.Close()
	p, err := carve.Compile(ctx, m, &o)
	if err != nil {
		return err
	}
	defer p.Close()
	for range 2 { // the second run finds memory that was used
		got, err := p.Run(ctx, c.Feeds)
		if err != nil {
			return err
		}
		if why := c.Compare(got); why != "" {
			return fmt.Errorf("%s", why)
		}
	}
	r, err := p.Report(ctx, nil)
	if err != nil {
		return err
	}
	for _, g := range r.Groups {
		if len(o.Backends) > 0 && g.Backend == o.Backends[0].Name {
			for _, op := range g.Ops {
				ran[op]++
			}
		}
	}
	return nil
}

// TakenBy reports whether a backend supports the case's operator as it stands, before passes simplify it.
func (c *Case) TakenBy(b backend.Backend) bool {
	for n := range c.Graph.Nodes() {
		name := n.Op.Name
		if n.Op.Domain != "" {
			name = n.Op.Domain + ":" + name
		}
		if name == c.Name && b.Supports(n).Reason == nil {
			return true
		}
	}
	return false
}

// random compares random operators and chains of them with the oracle.
func (s *suite) random(t tester) {
	b := s.backend(t)
	try := func(c *Case, err error) {
		if err != nil {
			return // the reference kernels have something against it
		}
		mode := modes[c.Seed%uint64(len(modes))]
		p, err := compile(t, c.Graph, &watched{Backend: Scramble(b, c.Seed), t: t, mode: mode.name}, mode.options)
		if err != nil {
			t.Fatalf("%v\n%v", err, c)
		}
		got, err := p.Run(context.Background(), c.Feeds)
		if err != nil {
			t.Fatalf("%v\n%v", err, c)
		}
		if why := c.Compare(got); why != "" {
			t.Errorf("%s\n%v", why, c)
		}
	}
	for _, op := range RandomOperators() {
		try(RandomOperator(op, 1))
	}
	for seed := range uint64(40) {
		try(RandomChain(seed))
	}
}
