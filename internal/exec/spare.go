package exec

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
)

// An input may be read by one branch of an If alone: past keys and values of a decoder that computes them where there are none yet. What
// is given for it where the other branch is taken, a tensor without elements as a rule, need not have the other inputs' sizes. The branch
// that reads it looks at them when it is taken.

// spareInputs returns which inputs of a graph a run may not read: those that only branches of Ifs have, and not all of them. It
// returns nil where there is none.
func spareInputs(g *graph.Graph) []bool {
	var out []bool
	for i, v := range g.Inputs {
		if v.IsOutput() || v.NumUses() == 0 || slices.ContainsFunc(v.Uses(), func(u graph.Use) bool { return !inSomeBranches(u) }) {
			continue
		}
		if out == nil {
			out = make([]bool, len(g.Inputs))
		}
		out[i] = true
	}
	return out
}

// inSomeBranches reports whether a use is that of an If of which not every branch has the value.
func inSomeBranches(u graph.Use) bool {
	k := u.Slot - len(u.Node.Inputs)
	return k >= 0 && u.Node.Is("If") && slices.ContainsFunc(u.Node.Regions, func(r graph.Region) bool { return !reads(r.Graph, k) })
}

// reads reports whether a region has its k-th capture.
func reads(g *graph.Graph, k int) bool {
	return g.Captures[k].NumUses() > 0 || g.Captures[k].IsOutput()
}

// spares gives symbols that are still open the values that spare inputs have.
func (x *binding) spares() error {
	x.open = x.open[:0]
	for i, v := range x.m.main.Graph.Inputs {
		if !x.m.spare[i] || !v.Type.IsTensor() || !v.Type.Shape.Known() {
			continue
		}
		for k, d := range v.Type.Shape {
			n := int64(x.shapes[i][k])
			if s, ok := d.Symbol(); ok {
				if _, had := x.b[s]; had {
					continue
				}
				if err := x.set(v, s, n); err != nil {
					return err
				}
			} else if c, ok := d.Const(); ok && c != n {
				return x.wrong(i, nil)
			}
		}
	}
	return nil
}

// setInputs notes the sizes that inputs of the main block have: spare ones may have others than the symbols say.
func (s *Spec) setInputs(shapes [][]int) {
	for i, slot := range s.block.Inputs {
		if s.dims[slot] != nil {
			s.dims[slot] = slices.Clone(shapes[i])
		}
	}
}

// checkCaptured turns down what a branch that is taken captures of the main block's inputs where sizes are not the symbols'.
func (f *frame) checkCaptured(g *frame, st *Step) error {
	m := f.session.m
	if m.spare == nil || f.s.block != m.main {
		return nil
	}
	first := len(st.Node.Inputs)
	for k, slot := range g.s.block.Captures {
		i := slices.Index(m.main.Inputs, st.in[first+k])
		if i < 0 || !m.spare[i] || !reads(g.s.block.Graph, k) {
			continue
		}
		if want, t := g.s.dims[slot], f.tensors[st.in[first+k]]; want != nil && !slices.Equal(want, t.Shape) {
			v := m.main.Graph.Inputs[i]
			return &PortError{Name: v.Name, Problem: "wrong shape, for the branch that is taken", Expected: fmt.Sprintf("%v = %v", v.Type.Shape, want), Found: fmt.Sprint(t.Shape), Kind: ErrInput}
		}
	}
	return nil
}
