package carve

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
)

// Pass is a pass of the user's own. It has its place before or after a pass of the table that Passes lists: up to
// "prepare-properties" it sees the model's graph, with types inferred, from behind "extract-groups" to before
// "lower-conversions" the partitioned one, which consists of Subgraph, Convert and host nodes. Elsewhere there is no place, since
// tables speak of the graph's nodes there.
//
// What it leaves is verified. The model's graph is typed anew, and nodes without names get some; the partitioned one has to be
// a sound partition (partition.Verify), whose groups may be others than before. Inputs and outputs of the model stay what they
// are. A pass on the partitioned graph runs again whenever the graph is partitioned anew.
type Pass struct {
	Name   string // lower-case words with hyphens; not that of another pass
	Before string // name of the pass in front of which it runs, or
	After  string // of the one behind which it runs; of several, the first of Options.Passes runs first
	// Run edits the main graph; nested ones are regions of its nodes. It is not called by two goroutines at a time for one
	// Compile. An error, and a panic, end Compile with a *PassError.
	Run func(ctx context.Context, g *graph.Graph) error
}

// ErrPass is wrapped by the errors about Options.Passes that cannot be run where they are put, and about passes that
// change what they must not.
var ErrPass = errors.New("bad pass")

// withPasses returns the table with the user's passes in their places.
func (o *Options) withPasses() ([]pass, error) {
	list := slices.Clone(passes)
	for i := range o.Passes {
		p := &o.Passes[i]
		at, err := p.place(list)
		if err != nil {
			return nil, &PassError{Pass: p.Name, Err: err}
		}
		next := list[at]
		list = slices.Insert(list, at, pass{name: p.Name, run: p.run(next.sees), round: next.sees == carved, sees: next.sees, user: true, after: p.After})
	}
	return list, nil
}

// place returns the index in the list at which the pass belongs.
func (p *Pass) place(list []pass) (int, error) {
	find := func(name string) int { return slices.IndexFunc(list, func(x pass) bool { return x.name == name }) }
	switch {
	case p.Name == "" || p.Run == nil:
		return 0, fmt.Errorf("%w: it needs a name and a function", ErrPass)
	case find(p.Name) >= 0:
		return 0, fmt.Errorf("%w: there is another pass of that name", ErrPass)
	case (p.Before == "") == (p.After == ""):
		return 0, fmt.Errorf("%w: it needs either a pass before which it runs or one after which it runs", ErrPass)
	}
	at := find(p.Before + p.After)
	if at < 0 {
		return 0, fmt.Errorf("%w: there is no pass %q", ErrPass, p.Before+p.After)
	}
	if p.After != "" {
		// Behind those of the user's that were put there before, and what follows these.
		chain := []string{p.After}
		for at++; at < len(list) && list[at].user && slices.Contains(chain, list[at].after); at++ {
			chain = append(chain, list[at].name)
		}
	}
	if at == len(list) || list[at].sees == closed {
		return 0, fmt.Errorf("%w: there is no place %s", ErrPass, p.where())
	}
	return at, nil
}

func (p *Pass) where() string {
	if p.After != "" {
		return "after " + p.After
	}
	return "before " + p.Before
}

// run returns the pass as the table has it: with what has to follow for the graph to be what later passes count on.
func (p *Pass) run(sees phase) func(*compilation) error {
	return func(c *compilation) error {
		before := portsOf(c.g)
		if err := p.Run(c.ctx, c.g); err != nil {
			return err
		}
		if err := graph.Verify(c.g); err != nil {
			return err
		}
		if err := c.adopt(sees); err != nil {
			return err
		}
		if !slices.Equal(portsOf(c.g), before) {
			return fmt.Errorf("%w: it changed the inputs or the outputs of the model", ErrPass)
		}
		return nil
	}
}

// adopt brings what the compilation knows of the graph up to what a user's pass has made of it.
func (c *compilation) adopt(sees phase) error {
	if sees == carved {
		return c.edited()
	}
	if err := c.nameNodes(); err != nil {
		return err
	}
	return c.infer()
}

// port is what callers of a Program count on.
type port struct {
	name  string // of inputs; outputs go by their place
	kind  graph.Kind
	dtype tensor.DType
	rank  int // -1 where it is not known
}

func portsOf(g *graph.Graph) []port {
	var out []port
	add := func(name string, t graph.Type) {
		p := port{name: name, kind: t.Kind, dtype: t.DType, rank: -1}
		if t.Shape.Known() {
			p.rank = len(t.Shape)
		}
		out = append(out, p)
	}
	for _, v := range g.Inputs {
		add("input "+v.Name, v.Type)
	}
	for _, v := range g.Outputs {
		add("output", v.Type)
	}
	return out
}

// edited has the states of partitions take note of an edited graph.
func (c *compilation) edited() error {
	byGraph := map[*graph.Graph]*partition.State{}
	for _, s := range c.states {
		byGraph[s.Graph()] = s
	}
	return c.blocks(func(g *graph.Graph) error {
		s := byGraph[g]
		if s == nil {
			return fmt.Errorf("%w: it added a region, which is not partitioned", ErrPass)
		}
		return s.Edited()
	})
}
