package exec

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// planBounds makes the specialisation for the bounds, whose plan serves smaller shapes. It does nothing where an open
// symbol has no bound.
func (m *Machine) planBounds(ctx context.Context) error {
	if len(m.env.Bounds) == 0 {
		return nil
	}
	b := graph.Bindings{}
	for name, n := range m.env.Bounds {
		b[name] = int64(n)
	}
	var shapes [][]int
	for _, v := range m.main.Graph.Inputs {
		if !v.Type.IsTensor() || !v.Type.Shape.Known() {
			return nil
		}
		dims, err := v.Type.Shape.Eval(b, []int{})
		if err != nil {
			return nil // not every symbol has a bound
		}
		shapes = append(shapes, dims)
	}
	s, err := m.spec(ctx, shapes)
	if err != nil {
		return fmt.Errorf("for the bounds %v: %w", shapes, err)
	}
	m.bound = s
	return nil
}

// checkBound turns down a dim above its symbol's bound.
func (m *Machine) checkBound(v *graph.Value, symbol string, n int64) error {
	if most, ok := m.env.Bounds[symbol]; ok && n > int64(most) {
		return &PortError{Name: v.Name, Problem: "dim " + symbol + " is larger than its bound", Expected: fmt.Sprint(most), Found: fmt.Sprint(n), Kind: ErrInput}
	}
	return nil
}

// planOfBounds takes the plan of the bounds for s where that is right for it.
func (s *Spec) planOfBounds(m *Machine) bool {
	if m.bound == nil || s.block != m.main || !m.bound.problem.Covers(s.problem) {
		return false
	}
	s.plan, s.problem = m.bound.plan, nil
	return true
}

// arenaFor returns the bytes of arena on a device that a session takes for s: those of the bounds where they are more, so that
// no other shape asks for another arena.
func (m *Machine) arenaFor(s *Spec, d tensor.DeviceID) int64 {
	if m.bound == nil {
		return s.arenaOn(d)
	}
	return max(s.arenaOn(d), m.bound.arenaOn(d))
}
