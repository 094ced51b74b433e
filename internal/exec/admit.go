package exec

import (
	"slices"
	"sync"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// What a run looks at before it begins, for who collects the operands of several runs into one.

// admission is an Admit under way.
type admission struct{ ins, outs []Operand }

var admissions = sync.Pool{New: func() any { return &admission{} }}

// Admit returns what RunInto would say of its operands before it begins, but for what follows from their shapes together. Outputs that
// are nil are not looked at. It allocates nothing where nothing is wrong.
func (m *Machine) Admit(inputs, outputs []*tensor.Tensor) error {
	if err := m.counts(len(inputs), len(outputs)); err != nil {
		return err
	}
	a := admissions.Get().(*admission)
	defer func() {
		clear(a.ins)
		clear(a.outs)
		admissions.Put(a)
	}()
	a.ins, a.outs = a.ins[:0], a.outs[:0]
	for _, t := range inputs {
		a.ins = append(a.ins, Operand{Tensor: t})
	}
	for _, t := range outputs {
		a.outs = append(a.outs, Operand{Tensor: t})
	}
	for i, t := range inputs {
		if t == nil && m.env.Defaults[i] != nil {
			continue
		}
		if err := m.checkInput(i, &a.ins[i]); err != nil {
			return err
		}
	}
	for i := range outputs {
		if err := m.checkOutput(i, nil, a.ins, a.outs); err != nil {
			return err
		}
	}
	return nil
}

// Named returns inputs that are given by name in the model's order, defaults for those that are left out, in room where that is large
// enough.
func (m *Machine) Named(room []tensor.Value, inputs map[string]tensor.Value) ([]tensor.Value, error) {
	values := slices.Grow(room[:0], len(m.main.Inputs))[:len(m.main.Inputs)]
	found := 0
	for i, v := range m.main.Graph.Inputs {
		x, ok := inputs[v.Name]
		if ok {
			found++
		}
		if d := m.env.Defaults[i]; d != nil && (!ok || x == nil) {
			x, ok = d, true
		}
		if !ok || x == nil {
			return nil, &PortError{Name: v.Name, Problem: "missing", Expected: v.Type.String(), Found: "nothing", Kind: ErrInput}
		}
		values[i] = x
	}
	if found < len(inputs) {
		return nil, unknownInput(m.main.Graph.Inputs, inputs)
	}
	return values, nil
}

// Bind returns the values that shapes of all inputs give to symbols, or why the model cannot run with them.
func (m *Machine) Bind(shapes [][]int) (graph.Bindings, error) {
	b, err := m.bind(shapes)
	if err == nil {
		err = m.admits(b)
	}
	return b, err
}

// Plain reports whether a tensor is what all of the host reads as it is: there, compact, aligned for its dtype.
func Plain(t *tensor.Tensor) bool { return (&Operand{Tensor: t}).plain() }
