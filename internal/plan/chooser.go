package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
)

// ErrMisfit is wrapped by errors about a plan that is not one for what is compiled.
var ErrMisfit = errors.New("the plan does not fit")

// MisfitError is the first thing in which a plan and what is compiled differ. It wraps ErrMisfit.
type MisfitError struct {
	Where string // what differs: a fact, or a node with the graph that it is in
	Plan  string // what the plan says, "" for nothing
	Found string // what there is, "" for nothing
}

// Error names all three.
func (e *MisfitError) Error() string {
	say := func(s string) string {
		if s == "" {
			return "nothing"
		}
		return s
	}
	return fmt.Sprintf("%v: %s: the plan has %s, here is %s", ErrMisfit, e.Where, say(e.Plan), say(e.Found))
}

// Unwrap returns ErrMisfit.
func (e *MisfitError) Unwrap() error { return ErrMisfit }

// Misfit compares what a plan holds for with what there is, in the order of the plan. It returns the first difference as a
// *MisfitError, nil where there is none. Facts of the plan with keys in but are not compared.
func (p *Plan) Misfit(facts []Fact, but ...string) error {
	have := map[string][]string{}
	for _, f := range facts {
		have[f.Key] = append(have[f.Key], f.Value)
	}
	said := map[string]int{}
	for _, f := range p.Facts {
		if slices.Contains(but, f.Key) {
			continue
		}
		list, i := have[f.Key], said[f.Key]
		said[f.Key]++
		if i >= len(list) {
			return &MisfitError{Where: f.Key, Plan: f.Value}
		}
		if list[i] != f.Value {
			return &MisfitError{Where: f.Key, Plan: f.Value, Found: list[i]}
		}
	}
	for _, f := range facts {
		if list := have[f.Key]; said[f.Key] < len(list) {
			return &MisfitError{Where: f.Key, Found: list[said[f.Key]]}
		}
	}
	return nil
}

// Fact returns the first value under a key, "" where there is none.
func (p *Plan) Fact(key string) string {
	for _, f := range p.Facts {
		if f.Key == key {
			return f.Value
		}
	}
	return ""
}

// Chooser is the partition.Chooser of a plan: of the candidates that there are it takes those that a Graph lists, in the formats
// and groups that stand there. What the Graph lists and nobody offers is a *MisfitError.
type Chooser struct {
	Graph *Graph
	// Turns names backends in the order in which candidates are taken as they are offered, as by partition.Priority, which made
	// the plan: what later properties find depends on that. It is empty where all were collected before some were taken.
	Turns []string
}

// entry is a node or set that the plan places.
type entry struct {
	step  *Step
	group int32
	found bool
}

// Unpriced implements partition.Unpriced.
func (c *Chooser) Unpriced() bool { return len(c.Turns) > 0 }

// Choose implements partition.Chooser.
func (c *Chooser) Choose(ctx context.Context, t *partition.Candidates) error {
	list, by := c.entries()
	if g := c.Graph; !c.Unpriced() {
		t.SetPlacement(partition.Placement{Nanoseconds: g.Nanoseconds, Bound: g.Bound})
	}
	var late []*partition.Candidate
	var fail error
	for _, i := range c.order(t) {
		err := t.Collect(ctx, i, func(x *partition.Candidate) bool {
			if fail != nil {
				return false
			}
			at := slices.IndexFunc(by[keyOf(t.Backend(x.Backend), x)], func(e *entry) bool { return !e.found })
			if at < 0 {
				return false
			}
			e := by[keyOf(t.Backend(x.Backend), x)][at]
			if fail = c.accept(t, x, e); fail == nil && !c.Unpriced() {
				late = append(late, x)
			}
			return fail == nil && c.Unpriced()
		})
		if err != nil {
			return err
		}
		if fail != nil {
			return fail
		}
	}
	for _, e := range list {
		if !e.found {
			return &MisfitError{Where: c.where(e.step), Plan: e.step.Op, Found: "nobody who offers it"}
		}
	}
	return c.takeLate(t, late)
}

// order returns the backends in the order of the turns.
func (c *Chooser) order(t *partition.Candidates) []int {
	var list []int
	for _, name := range c.Turns {
		for i := range t.Backends() {
			if t.Backend(i) == name {
				list = append(list, i)
			}
		}
	}
	for i := range t.Backends() {
		if !c.Unpriced() {
			list = append(list, i)
		}
	}
	return list
}

// takeLate takes what was left while candidates came: sets first, which change the graph.
func (c *Chooser) takeLate(t *partition.Candidates, late []*partition.Candidate) error {
	for _, sets := range []bool{true, false} {
		for _, x := range late {
			if sets != (x.Claim != nil) {
				continue
			}
			ok, err := t.Take(x)
			if err != nil {
				return err
			}
			if !ok {
				n := x.Nodes()[0]
				return &MisfitError{Where: fmt.Sprintf("graph %q, node %q", c.Graph.Name, label(n)), Plan: "it twice, or in a set that is not convex",
					Found: "one place for each node"}
			}
		}
	}
	return nil
}

// accept narrows a candidate down to what the plan says of it.
func (c *Chooser) accept(t *partition.Candidates, x *partition.Candidate, e *entry) error {
	list := t.Resolved(x)
	for i := range list {
		in, out := formatNames(x.Node, &list[i])
		if list[i].Name == e.step.Form && slices.Equal(in, e.step.In) && slices.Equal(out, e.step.Out) {
			x.Signatures, x.Group, e.found = []graph.Signature{list[i]}, e.group, true
			return nil
		}
	}
	names := make([]string, 0, 4)
	for i := range list {
		if len(names) < cap(names) && !slices.Contains(names, list[i].Name) {
			names = append(names, list[i].Name)
		}
	}
	return &MisfitError{Where: c.where(e.step), Plan: e.step.form(), Found: "no such signature of " + t.Backend(x.Backend) +
		" (it has: " + strings.Join(names, ", ") + ")"}
}

func (s *Step) form() string {
	return fmt.Sprintf("%q in %s out %s", s.Form, strings.Join(s.In, ", "), strings.Join(s.Out, ", "))
}

func (c *Chooser) where(s *Step) string {
	return fmt.Sprintf("graph %q, node %q", c.Graph.Name, s.Name)
}

// entries returns what the plan places, also by keys.
func (c *Chooser) entries() (list []*entry, by map[string][]*entry) {
	by = map[string][]*entry{}
	backend, group := "", int32(0)
	for i := range c.Graph.Steps {
		s := &c.Graph.Steps[i]
		if s.Kind == Group {
			backend = s.Backend
			group++
		}
		if s.Kind != Node && s.Kind != Fused || s.Form == "" && len(s.Out) == 0 {
			continue // what passes put in later has no form
		}
		e := &entry{step: s, group: group}
		k := key(backend, s.Op, s.Name, s.Of)
		list, by[k] = append(list, e), append(by[k], e)
	}
	return list, by
}

func key(backend, op, name string, of []string) string {
	if of != nil {
		name = strings.Join(of, "\x00")
	}
	return backend + "\x00" + op + "\x00" + name
}

func keyOf(backend string, c *partition.Candidate) string {
	if c.Claim == nil {
		return key(backend, c.Node.Op.String(), label(c.Node), nil)
	}
	names := make([]string, len(c.Claim.Nodes))
	for i, n := range c.Claim.Nodes {
		names[i] = label(n)
	}
	slices.Sort(names)
	return key(backend, c.Claim.Property.ID, "", names)
}
