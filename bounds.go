package carve

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/graph"
)

// checkBounds validates Options.Bounds against the model's inputs.
func (c *compilation) checkBounds(known map[string]bool) error {
	for _, name := range sortedKeys(c.o.Bounds) {
		if !known[name] {
			return &InputError{Name: name, Problem: "no input has a dim of that name", kind: ErrInput}
		}
		n := c.o.Bounds[name]
		if n < 0 {
			return fmt.Errorf("%w: bound of dim %s is %d", graph.ErrDimValue, name, n)
		}
		if d, pinned := c.o.Dims[name]; pinned && d > n {
			return &InputError{Name: name, Problem: "dim is larger than its bound", Expected: fmt.Sprint(n), Found: fmt.Sprint(d), kind: ErrInput}
		}
	}
	return nil
}

// planBounds makes the specialisation for the bounds, whose plan serves smaller shapes. It does nothing where an open
// symbol has no bound.
func (p *Program) planBounds(ctx context.Context) error {
	if len(p.o.Bounds) == 0 {
		return nil
	}
	b := graph.Bindings{}
	for name, n := range p.o.Bounds {
		b[name] = int64(n)
	}
	var shapes [][]int
	for _, v := range p.main.g.Inputs {
		if !v.Type.IsTensor() || !v.Type.Shape.Known() {
			return nil
		}
		dims, err := v.Type.Shape.Eval(b, []int{})
		if err != nil {
			return nil // not every symbol has a bound
		}
		shapes = append(shapes, dims)
	}
	s, err := p.spec(ctx, shapes)
	if err != nil {
		return &PassError{Pass: "specialize", Err: fmt.Errorf("for the bounds %v: %w", shapes, err)}
	}
	p.bound = s
	return nil
}

// checkBound turns down a dim above its symbol's bound.
func (p *Program) checkBound(v *graph.Value, symbol string, n int64) error {
	if most, ok := p.o.Bounds[symbol]; ok && n > int64(most) {
		return &InputError{Name: v.Name, Problem: "dim " + symbol + " is larger than its bound", Expected: fmt.Sprint(most), Found: fmt.Sprint(n), kind: ErrInput}
	}
	return nil
}

// planOfBounds takes the plan of the bounds for s where that is right for it.
func (s *spec) planOfBounds(p *Program) bool {
	if p.bound == nil || s.block != p.main || !p.bound.problem.Covers(s.problem) {
		return false
	}
	s.plan, s.problem = p.bound.plan, nil
	return true
}

// arenaFor returns the bytes of host arena that a session takes for s: those of the bounds where they are more, so that
// no other shape asks for another arena.
func (p *Program) arenaFor(s *spec) int64 {
	if p.bound == nil {
		return s.hostArena()
	}
	return max(s.hostArena(), p.bound.hostArena())
}
