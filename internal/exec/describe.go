package exec

import (
	"context"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/memplan/schedule"
)

// Specialized returns the specialisation for input shapes, from the cache or new; that of the most recent shapes where none
// are given and the machine has one.
func (m *Machine) Specialized(ctx context.Context, shapes map[string][]int) (*Spec, error) {
	if m == nil {
		return nil, ErrClosed
	}
	if len(shapes) == 0 {
		if s := m.newest(); s != nil {
			return s, nil
		}
		if recent := m.lastShapes(); recent != nil {
			return m.spec(ctx, recent)
		}
	}
	if err := unknownInput(m.main.Graph.Inputs, shapes); err != nil {
		return nil, err
	}
	list := make([][]int, len(m.main.Graph.Inputs))
	for i, v := range m.main.Graph.Inputs {
		if given, ok := shapes[v.Name]; ok {
			list[i] = given
			continue
		}
		if d := m.env.Defaults[i]; d != nil {
			list[i] = d.Shape
			continue
		}
		dims, err := v.Type.Shape.Eval(ones(v.Type.Shape), []int{})
		if err != nil {
			return nil, err
		}
		list[i] = dims
	}
	return m.spec(ctx, list)
}

// lastShapes returns the input shapes that were used last where their specialisation was dropped by Trim.
func (m *Machine) lastShapes() [][]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.recent
}

// ones binds every symbol of a shape to 1.
func ones(s graph.Shape) graph.Bindings {
	set := map[string]bool{}
	for _, d := range s {
		d.Symbols(set)
	}
	bind := graph.Bindings{}
	for name := range set {
		bind[name] = 1
	}
	return bind
}

// Block returns the block that is specialised.
func (s *Spec) Block() *Block { return s.block }

// Bindings returns the values of the symbols. They must not be changed.
func (s *Spec) Bindings() graph.Bindings { return s.bindings }

// Plan returns the memory plan. It must not be changed.
func (s *Spec) Plan() *schedule.Plan { return s.plan }

// Requirements returns those of the instance of group i.
func (s *Spec) Requirements(i int) *backend.Requirements { return &s.reqs[i] }

// Constants returns the constants of step i, a group: those of its body, then those that its instance wants in other formats.
func (s *Spec) Constants(i int) []*tensor.Tensor { return s.consts[i] }

// Inner returns the specialisations of the regions of step i.
func (s *Spec) Inner(i int) []*Spec { return s.inner[i] }

// PlacedName names a buffer of the plan by its value, or by the node that makes it.
func (s *Spec) PlacedName(b schedule.Placed) string {
	if b.Step < 0 {
		return ValueName(s.block.Slots[b.Index].Value)
	}
	st, r := &s.block.Steps[b.Step], &s.reqs[b.Step]
	if b.Index < len(r.Buffers) {
		if first := r.Buffers[b.Index].First; first < len(r.Labels) && r.Labels[first].Name != "" {
			return r.Labels[first].Name
		}
	}
	return st.Node.Name
}

// Info returns what the backend of a group says of itself; the zero value for other steps.
func (st *Step) Info() backend.Info { return st.info }

// LoopName returns the name of the node of a step where that runs its regions many times, and otherwise.
func (st *Step) LoopName(otherwise string) string {
	if st.Node.Is("Loop", "Scan", "SequenceMap") {
		return st.Node.Label()
	}
	return otherwise
}

// Before returns the name of a loop that reads the result of a step, which is a conversion; "" for none.
func (st *Step) Before() string {
	for _, u := range st.Node.Outputs[0].Uses() {
		if u.Node.Is("Loop", "Scan", "SequenceMap") {
			return u.Node.Label()
		}
	}
	return ""
}
