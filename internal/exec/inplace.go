package exec

import (
	"maps"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph"
)

// An output may lie in the place of an input where Env.InPlace pairs them. If the group that makes it extends the input there, nothing
// is copied; otherwise the output is written when nothing reads the input any more, at the end of the run.

// inPlace reports whether output i, given as o, may lie where input k does, as x has it: both begin at one address and have the same
// strides, which are compact from the axis on whose sizes differ.
func (m *Machine) inPlace(i, k int, o, x *Operand) bool {
	if m.env.InPlace == nil || m.env.InPlace[i] != k || !o.Device.IsHost() || !x.Device.IsHost() || !o.Layout.IsRowMajor() || !x.Layout.IsRowMajor() ||
		len(o.Shape) != len(x.Shape) || o.Ready != nil || x.Ready != nil || unsafe.Pointer(&o.Data[o.Offset]) != unsafe.Pointer(&x.Data[x.Offset]) {
		return false
	}
	axis := len(o.Shape)
	for d := range o.Shape {
		if o.Shape[d] == x.Shape[d] {
			continue
		}
		if axis < len(o.Shape) || o.Shape[d] < x.Shape[d] {
			return false
		}
		axis = d
	}
	next := 1
	for d := len(o.Shape) - 1; d >= 0; d-- {
		so, sx := stride(o, d), stride(x, d)
		if d >= axis && (so != next || sx != next) || so != sx && o.Shape[d] > 1 {
			return false
		}
		next *= o.Shape[d]
	}
	return true
}

// stride returns the distance of neighbours along an axis, in elements.
func stride(o *Operand, axis int) int {
	if o.Strides != nil {
		return o.Strides[axis]
	}
	n := 1
	for _, d := range o.Shape[axis+1:] {
		n *= d
	}
	return n
}

// reaches reports whether output i of the run under way overlaps the input that it is paired with. Others do not overlap.
func (s *Session) reaches(i int) bool {
	if s.m.env.InPlace == nil || s.m.env.InPlace[i] < 0 || s.outs[i].Tensor == nil {
		return false
	}
	x := &s.ins[s.m.env.InPlace[i]]
	return x.Tensor != nil && s.m.overlap(&s.outs[i], x)
}

// extends reports whether the group that makes output i writes behind the input that it is paired with, and nobody else reads that.
func (f *frame) extends(i int) bool {
	b := f.s.block
	out, in := b.Outputs[i], b.Inputs[f.session.m.env.InPlace[i]]
	makers, readers, ok := 0, 0, false
	for k := range b.Steps {
		st := &b.Steps[k]
		at, from := slices.Index(st.out, out), slices.Index(st.in, in)
		if at >= 0 {
			makers++
		}
		if from >= 0 {
			readers++
		}
		if at < 0 || from < 0 || st.Kind != StepGroup || f.s.inst[k] == nil || isStandIn(f.s.inst[k]) || st.state.failed.Load() != nil ||
			st.state.refused(true, at) || st.state.refused(false, from) {
			continue
		}
		for _, p := range f.s.reqs[k].Extends {
			ok = ok || p.Output == at && p.Input == from
		}
	}
	return ok && makers == 1 && readers == 1 && b.Slots[out].direct == i && !slices.Contains(b.Outputs[:i], out) && !slices.Contains(b.Outputs[i+1:], out)
}

// Pairs returns Env.InPlace for names of outputs by those of inputs. The error is a *PortError.
func Pairs(given map[string]string, inputs, outputs []*graph.Value, names []string) ([]int, error) {
	if len(given) == 0 {
		return nil, nil
	}
	pairs := make([]int, len(outputs))
	for i := range pairs {
		pairs[i] = -1
	}
	for _, in := range slices.Sorted(maps.Keys(given)) {
		out := given[in]
		i, k := slices.IndexFunc(inputs, func(v *graph.Value) bool { return v.Name == in }), slices.Index(names, out)
		if i < 0 {
			return nil, &PortError{Name: in, Problem: "the model has no such input", Kind: ErrInput}
		}
		if k < 0 {
			return nil, &PortError{Name: out, Problem: "the model has no such output", Kind: ErrOutput}
		}
		if pairs[k] >= 0 {
			return nil, &PortError{Name: out, Problem: "to be in the place of two inputs", Found: inputs[pairs[k]].Name + ", " + in, Kind: ErrOutput}
		}
		if a, b := inputs[i].Type, outputs[k].Type; !differInOne(a, b) {
			return nil, &PortError{Name: out, Problem: "cannot lie in the place of " + in, Expected: a.String() + ", but for the size of one axis", Found: b.String(), Kind: ErrOutput}
		}
		pairs[k] = i
	}
	return pairs, nil
}

// differInOne reports whether tensors of two types differ in the size of one axis at most, as far as that is known before a run.
func differInOne(a, b graph.Type) bool {
	if !a.IsTensor() || !b.IsTensor() || a.DType != b.DType || a.DType.Size() == 0 || a.DType.IsPacked() || len(a.Shape) != len(b.Shape) || !a.Shape.Known() || !b.Shape.Known() {
		return false
	}
	other := 0
	for i, d := range a.Shape {
		if !d.Equal(b.Shape[i]) && !numberOf(d, b.Shape[i]) && !numberOf(b.Shape[i], d) {
			other++
		}
	}
	return other <= 1
}

// numberOf reports whether a symbol may stand for a number: an input need not say what a node wants of it.
func numberOf(symbol, number graph.Dim) bool {
	_, open := symbol.Symbol()
	_, known := number.Const()
	return open && known
}
