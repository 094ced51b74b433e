package exec

import (
	"fmt"
	"maps"

	"github.com/carve-dev/carve/graph"
)

// bind gives symbols the values that the input shapes imply: where a dim is a symbol, or affine in one that no other input
// determines. Shapes that contradict each other, or that no value gives, are an error, but for symbols of inputs that a run may not
// read (Machine.spare): those count where nothing else gives a value.
func (m *Machine) bind(shapes [][]int) (graph.Bindings, error) {
	x := binding{m: m, shapes: shapes, b: graph.Bindings{}}
	for i, v := range m.main.Graph.Inputs {
		if !v.Type.IsTensor() || !v.Type.Shape.Known() {
			continue
		}
		if len(shapes[i]) != len(v.Type.Shape) {
			return nil, &PortError{Name: v.Name, Problem: "wrong rank", Expected: v.Type.Shape.String(), Found: fmt.Sprint(shapes[i]), Kind: ErrInput}
		}
		if m.spare != nil && m.spare[i] {
			continue
		}
		if err := x.input(i, v); err != nil {
			return nil, err
		}
	}
	if err := x.solve(); err != nil || m.spare == nil {
		return x.b, err
	}
	return x.b, x.spares()
}

// input gives symbols the values that an input's dims have.
func (x *binding) input(i int, v *graph.Value) error {
	for k, d := range v.Type.Shape {
		n := int64(x.shapes[i][k])
		if s, ok := d.Symbol(); ok {
			if err := x.set(v, s, n); err != nil {
				return err
			}
		} else if c, ok := d.Const(); !ok {
			x.open = append(x.open, boundDim{i, k})
		} else if c != n {
			return x.wrong(i, nil)
		}
	}
	return nil
}

// binding is a bind under way.
type binding struct {
	m      *Machine
	shapes [][]int
	b      graph.Bindings
	open   []boundDim // dims of inputs that are expressions of symbols
}

// boundDim is dim number axis of an input.
type boundDim struct{ input, axis int }

// set notes the value of a symbol.
func (x *binding) set(v *graph.Value, s string, n int64) error {
	if old, had := x.b[s]; had && old != n {
		return &PortError{Name: v.Name, Problem: "dim " + s + " has another value in another input",
			Expected: fmt.Sprint(old), Found: fmt.Sprint(n), Kind: ErrInput}
	}
	if err := x.m.checkBound(v, s, n); err != nil {
		return err
	}
	x.b[s] = n
	return nil
}

// solve finds the symbols that only expressions determine, and checks all expressions. One that stays open, since it is not
// affine, determines nothing.
func (x *binding) solve() error {
	inputs := x.m.main.Graph.Inputs
	for again := true; again; { // a dim of several symbols may be solved when others are
		again = false
		for _, o := range x.open {
			v, n := inputs[o.input], int64(x.shapes[o.input][o.axis])
			name, value, ok := solve(v.Type.Shape[o.axis], n, x.b)
			if !ok {
				continue
			}
			if value < 0 {
				return x.wrong(o.input, x.b)
			}
			if err := x.set(v, name, value); err != nil {
				return err
			}
			again = true
		}
	}
	for _, o := range x.open {
		d, n := inputs[o.input].Type.Shape[o.axis], int64(x.shapes[o.input][o.axis])
		if _, _, slope, ok := affine(d, x.b); ok && slope != 0 { // in a symbol that no whole number can be
			return x.wrong(o.input, x.b)
		}
		if got, err := d.Eval(x.b); err == nil && got != n {
			return x.wrong(o.input, x.b)
		}
	}
	return nil
}

// wrong returns the error for an input whose shape is not what its type says, for the values of symbols that are known.
func (x *binding) wrong(input int, b graph.Bindings) error {
	v := x.m.main.Graph.Inputs[input]
	expected := v.Type.Shape.String()
	if dims, err := v.Type.Shape.Eval(b, []int{}); len(b) > 0 && err == nil {
		expected += " = " + fmt.Sprint(dims)
	}
	return &PortError{Name: v.Name, Problem: "wrong shape", Expected: expected, Found: fmt.Sprint(x.shapes[input]), Kind: ErrInput}
}

// solve returns the value of the only symbol of d that b does not have, where d is a symbol, or affine in it.
func solve(d graph.Dim, x int64, b graph.Bindings) (name string, value int64, ok bool) {
	name, first, slope, ok := affine(d, b)
	if !ok || slope == 0 || (x-first)%slope != 0 {
		return "", 0, false
	}
	return name, 1 + (x-first)/slope, true
}

// affine returns the only symbol of d that b does not have, the value of d where that symbol is 1, and by how much more d is
// where it is one more; ok is false where d is not affine in it.
func affine(d graph.Dim, b graph.Bindings) (name string, first, slope int64, ok bool) {
	set := map[string]bool{}
	d.Symbols(set)
	for s := range set {
		if _, bound := b[s]; bound {
			continue
		}
		if name != "" {
			return "", 0, 0, false
		}
		name = s
	}
	if name == "" {
		return "", 0, 0, false
	}
	var at [3]int64
	trial := maps.Clone(b)
	if trial == nil {
		trial = graph.Bindings{}
	}
	for k := range at {
		trial[name] = int64(k + 1)
		y, err := d.Eval(trial)
		if err != nil {
			return "", 0, 0, false
		}
		at[k] = y
	}
	slope = at[1] - at[0]
	return name, at[0], slope, at[2]-at[1] == slope
}
