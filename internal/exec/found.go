package exec

import (
	"maps"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// A symbol of a dim that depends on data is found when the first value is made that has it as a dim. Groups behind that need not have an
// operand that tells: of bcast(?1,N), which is how long the sum of two values is, ?1 does not follow. Groups in the branch of an If, or in a loop's body, behind
// it neither: what the region's values do not tell it asks the run around it for.

// finding says where a run finds the value of a symbol.
type finding struct {
	symbol     string
	slot, axis int
}

// chooseFindings notes which symbols the groups of a block and of its regions need that their operands do not tell, and where a run of the block finds them, or
// that it has to ask.
func (b *Block) chooseFindings() {
	needed := map[string]bool{}
	for i := range b.Steps {
		if st := &b.Steps[i]; st.Kind == StepGroup && st.dynamic {
			st.needs, st.contents = untold(st.Node.Regions[0].Graph), contentsRead(st.Node.Regions[0].Graph)
			for _, s := range st.needs {
				needed[s] = true
			}
		}
		for _, r := range b.Steps[i].regions {
			for _, s := range r.asks {
				needed[s] = true
			}
		}
	}
	if len(needed) == 0 {
		return
	}
	find := func(slots []int) (list []finding) {
		for _, slot := range slots {
			if slot < 0 {
				continue
			}
			for axis, d := range b.Slots[slot].Value.Type.Shape {
				if s, ok := d.Symbol(); ok && needed[s] {
					delete(needed, s)
					list = append(list, finding{s, slot, axis})
				}
			}
		}
		return list
	}
	b.finds = find(slices.Concat(b.Inputs, b.Captures))
	for i := range b.Steps {
		st := &b.Steps[i]
		st.finds = find(st.out)
		if st.Kind == StepGroup && st.dynamic {
			for _, s := range symbolsOf(st.Node.Regions[0].Graph) {
				if needed[s] {
					delete(needed, s)
					st.settles, b.asks = append(st.settles, s), append(b.asks, s) // it does not always tell
				}
			}
		}
	}
	b.asks = slices.AppendSeq(b.asks, maps.Keys(needed))
	slices.Sort(b.asks)
}

// tell gives a region's frame what this run has found of what the region asks for.
func (f *frame) tell(g *frame) {
	clear(g.told)
	for _, s := range g.s.block.asks {
		if x, ok := f.found[s]; ok {
			if g.told == nil {
				g.told = graph.Bindings{}
			}
			g.told[s] = x
		}
	}
}

// forget begins a run, of which nothing is found yet but what a region was told.
func (f *frame) forget() {
	clear(f.found)
	if len(f.told) > 0 {
		if f.found == nil {
			f.found = graph.Bindings{}
		}
		maps.Copy(f.found, f.told)
	}
}

// untold returns the symbols that depend on data of which the shapes in a body speak, though no operand has one as a dim, in order.
func untold(body *graph.Graph) []string {
	told := map[string]bool{}
	for _, v := range body.Inputs {
		for _, d := range v.Type.Shape {
			if s, ok := d.Symbol(); ok {
				told[s] = true
			}
		}
	}
	return slices.DeleteFunc(symbolsOf(body), func(s string) bool { return told[s] })
}

// symbolsOf returns the symbols that depend on data of which the shapes in a body speak, in order.
func symbolsOf(body *graph.Graph) []string {
	set := map[string]bool{}
	for _, v := range body.ValuesByID() {
		if v == nil {
			continue
		}
		for _, d := range v.Type.Shape {
			if !d.Backed() {
				d.Symbols(set)
			}
		}
	}
	maps.DeleteFunc(set, func(s string, _ bool) bool { return s == "" || s[0] != '?' })
	return slices.Sorted(maps.Keys(set))
}

// find notes the values of symbols that a run has found now.
func (f *frame) find(list []finding) {
	for _, x := range list {
		if t, ok := f.values[x.slot].(*tensor.Tensor); ok && t != nil && x.axis < len(t.Shape) {
			if f.found == nil {
				f.found = graph.Bindings{}
			}
			f.found[x.symbol] = int64(t.Shape[x.axis])
		}
	}
}

// contentsRead returns which operands of a body have elements that the shapes in it depend on.
func contentsRead(body *graph.Graph) (list []int) {
	for n := range body.Nodes() {
		if !graph.DeterminedByContents(n) {
			continue
		}
		for i, v := range body.Inputs {
			if v.HasUnknown() && v.Type.DType.Size() > 0 && v.Format == graph.HostFormat && !slices.Contains(list, i) && slices.Contains(n.Inputs, v) {
				list = append(list, i)
			}
		}
	}
	return list
}

// contentsOf appends the elements of the operands of a group that its shapes depend on.
func contentsOf(list []int64, st *Step, operands []*tensor.Tensor) []int64 {
	for _, i := range st.contents {
		t := operands[i]
		at := len(list)
		list = append(list, make([]int64, t.Len())...)
		if tensor.DecodeInts(list[at:], t) != nil {
			list = list[:at]
		}
	}
	return list
}

// bindContents returns b with the symbols of such elements, and of the dims that they are; b itself where these contradict each other.
func bindContents(b graph.Bindings, st *Step, operands []*tensor.Tensor) graph.Bindings {
	if len(st.contents) == 0 {
		return b
	}
	all := maps.Clone(b)
	if all == nil {
		all = graph.Bindings{}
	}
	found := map[int][]int64{}
	for _, i := range st.contents {
		v := st.Node.Regions[0].Graph.Inputs[i]
		elements := make([]int64, len(v.Dims))
		if operands[i].Len() != len(elements) || tensor.DecodeInts(elements, operands[i]) != nil {
			continue
		}
		found[i] = elements
		for k, d := range v.Dims {
			d.BindElement(all, elements[k])
		}
	}
	for i, elements := range found {
		for k, d := range st.Node.Regions[0].Graph.Inputs[i].Dims {
			if x, err := d.Eval(all); err == nil && x != elements[k] {
				return b
			}
		}
	}
	return all
}

// settled notes the values of symbols within a group that its instance was made for.
func (f *frame) settled(st *Step, l *lateInstance) {
	for _, s := range st.settles {
		if x, ok := l.bindings[s]; ok {
			if f.found == nil {
				f.found = graph.Bindings{}
			}
			f.found[s] = x
		}
	}
}

// known returns the bindings of the frame's spec with those that the run has found and a group needs.
func (f *frame) known(st *Step) graph.Bindings {
	if len(st.needs) == 0 || len(f.found) == 0 {
		return f.s.bindings
	}
	b := maps.Clone(f.s.bindings)
	if b == nil {
		b = graph.Bindings{}
	}
	for _, s := range st.needs {
		if x, ok := f.found[s]; ok {
			b[s] = x
		}
	}
	return b
}

// holds reports whether an instance was made for what the run has found.
func (f *frame) holds(st *Step, l *lateInstance) bool {
	return !slices.ContainsFunc(st.needs, func(s string) bool {
		x, ok := f.found[s]
		return ok && l.bindings[s] != x
	})
}
