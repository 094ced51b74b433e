package batching

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Port is an input or output of a model.
type Port struct {
	Name  string
	Type  graph.Type
	Given *tensor.Tensor // an input's data where none are given; nil for one that has to be given
}

// Rows says how a model's inputs and outputs are made of rows.
type Rows struct {
	Dim     string // the symbol that counts them
	Length  string // the symbol of axis 1 that is padded, "" for none
	Inputs  []Port
	Outputs []Port
	Long    []bool // inputs with Length in axis 1; nil for none
}

// FindRows returns how a model's inputs and outputs are made of rows, or why they are not. defaults are data of inputs that need not be
// given, nil for the others; names those of outputs; dim is the symbol that counts rows, "" for that of the first input; mask the
// input whose axis 1 is padded, "" for none.
func FindRows(inputs []*graph.Value, defaults []*tensor.Tensor, outputs []*graph.Value, names []string, dim, mask string) (r Rows, reason string) {
	r = Rows{Dim: dim}
	for i, v := range inputs {
		r.Inputs = append(r.Inputs, Port{Name: v.Name, Type: v.Type, Given: defaults[i]})
	}
	for i, v := range outputs {
		r.Outputs = append(r.Outputs, Port{Name: names[i], Type: v.Type})
	}
	given := 0
	for i := range r.Inputs {
		if p := &r.Inputs[i]; p.Given == nil {
			if reason = r.check("input", p); reason != "" {
				return r, reason
			}
			given++
		}
	}
	if given == 0 {
		return r, "there is no input that has to be given"
	}
	for i := range r.Outputs {
		p := &r.Outputs[i]
		if reason = r.check("output", p); reason != "" {
			return r, reason
		}
		if t := p.Type; !t.DType.Valid() || !t.Backed() {
			return r, fmt.Sprintf("output %q is %v: its shape depends on data", p.Name, t)
		}
	}
	if mask == "" {
		return r, ""
	}
	return r, r.findLength(mask)
}

// check returns why a port is not made of rows, "" where it is.
func (r *Rows) check(kind string, p *Port) string {
	t := p.Type
	if !t.IsTensor() || !t.Shape.Known() || len(t.Shape) == 0 {
		return fmt.Sprintf("%s %q is %v: it has no first dim that counts rows", kind, p.Name, t)
	}
	name, ok := t.Shape[0].Symbol()
	switch {
	case !ok:
		return fmt.Sprintf("%s %q is %v: its first dim is no symbol", kind, p.Name, t)
	case r.Dim == "":
		r.Dim = name
	case name != r.Dim:
		return fmt.Sprintf("%s %q is %v: its first dim is not %s", kind, p.Name, t, r.Dim)
	}
	if t.DType.IsPacked() {
		return fmt.Sprintf("%s %q is %v: elements of several rows may share a byte", kind, p.Name, t)
	}
	for _, d := range t.Shape[1:] {
		set := map[string]bool{}
		if d.Symbols(set); set[r.Dim] {
			return fmt.Sprintf("%s %q is %v: more than its first dim depends on %s", kind, p.Name, t, r.Dim)
		}
	}
	return ""
}

// findLength finds the symbol of the mask's axis 1 and what has it.
func (r *Rows) findLength(mask string) string {
	for i := range r.Inputs {
		if p := &r.Inputs[i]; p.Name == mask && p.Given == nil && len(p.Type.Shape) == 2 {
			r.Length, _ = p.Type.Shape[1].Symbol()
		}
	}
	if r.Length == "" {
		return fmt.Sprintf("there is no input %q of two dims of which the second is a symbol, to pad lengths by", mask)
	}
	r.Long = make([]bool, len(r.Inputs))
	for i := range r.Inputs {
		long, ok := r.long(r.Inputs[i].Type)
		if r.Long[i] = long; !ok && r.Inputs[i].Given == nil {
			return fmt.Sprintf("input %q is %v: more than its second dim depends on %s, which is to be padded", r.Inputs[i].Name, r.Inputs[i].Type, r.Length)
		}
	}
	for i := range r.Outputs {
		if _, ok := r.long(r.Outputs[i].Type); !ok {
			return fmt.Sprintf("output %q is %v: more than its second dim depends on %s, which is to be padded", r.Outputs[i].Name, r.Outputs[i].Type, r.Length)
		}
	}
	return ""
}

// long reports whether axis 1 of a type is Length, and whether nothing else depends on that.
func (r *Rows) long(t graph.Type) (long, ok bool) {
	for k, d := range t.Shape {
		set := map[string]bool{}
		if d.Symbols(set); !set[r.Length] {
			continue
		}
		if name, is := d.Symbol(); k != 1 || !is || name != r.Length {
			return false, false
		}
		long = true
	}
	return long, true
}

// Of returns how many rows a call's inputs have; 0 where they do not go into a run with others: plain says which tensors do.
func (r *Rows) Of(inputs []*tensor.Tensor, plain func(*tensor.Tensor) bool) int {
	rows, length := 0, -1
	for i, t := range inputs {
		switch {
		case r.Inputs[i].Given != nil:
			if t != nil {
				return 0
			}
			continue
		case t == nil || len(t.Shape) == 0 || t.DType.IsPacked() || !plain(t):
			return 0
		case rows == 0:
			rows = t.Shape[0]
		case rows != t.Shape[0]:
			return 0
		}
		if r.Long != nil && r.Long[i] {
			if len(t.Shape) < 2 || t.Shape[1] == 0 || length >= 0 && t.Shape[1] != length {
				return 0
			}
			length = t.Shape[1]
		}
	}
	return rows
}

// Types returns the types of the outputs with these values of symbols.
func (r *Rows) Types(b graph.Bindings) ([]Output, error) {
	out := make([]Output, len(r.Outputs))
	for i := range r.Outputs {
		t := r.Outputs[i].Type
		dims, err := t.Shape.Eval(b, nil)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", r.Outputs[i].Name, err)
		}
		out[i] = Output{DType: t.DType, Shape: dims}
		if r.Length != "" {
			out[i].Long, _ = r.long(t)
		}
	}
	return out, nil
}

// Open reports whether a dim of an input that has to be given is open beside the one that counts rows, and sample does not say it.
func (r *Rows) Open(sample []*tensor.Tensor) bool {
	for i := range r.Inputs {
		if r.Inputs[i].Given != nil || at(sample, i) != nil {
			continue
		}
		for _, d := range r.Inputs[i].Type.Shape[1:] {
			if _, ok := d.Const(); !ok {
				return true
			}
		}
	}
	return false
}

// Assume gives the symbols of inputs that have no value this one, but for a pair of rows.
func (r *Rows) Assume(b graph.Bindings, size int64) {
	b[r.Dim] = 2
	for i := range r.Inputs {
		set := map[string]bool{}
		for _, d := range r.Inputs[i].Type.Shape {
			d.Symbols(set)
		}
		for name := range set {
			if n, ok := b[name]; name != r.Dim && (!ok || n > size) {
				b[name] = size
			}
		}
	}
}
