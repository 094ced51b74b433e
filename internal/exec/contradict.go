package exec

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
)

// Backends make instances for shapes on the word of inference: where operands contradict each other, an instance would read
// and write beside them. Therefore what is asked of shapes is checked wherever some are new: of the model, of groups
// in regions, which a run may leave out, and of late groups.

// admits reports whether the model can run with these values of symbols: with operands that contradict each other no step
// may be made, and simplification may have removed the node that would fail.
func (m *Machine) admits(b graph.Bindings) error {
	var passed graph.Bindings
	if last := m.passed.Load(); last != nil {
		passed = *last
	}
	if err := m.env.Shapes.CheckSince(b, passed); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	m.passed.Store(&b)
	return nil
}

// contradictsRegion reports why a group in a region, which a run may leave out, cannot run with the dims of s.
func (m *Machine) contradictsRegion(s *Spec, st *Step) error {
	if s.block == m.main {
		return nil
	}
	return st.shapes.Check(s.bindings)
}
