package property

import (
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Predicate says whether a node qualifies: nil where it does, otherwise the reason why not. It depends on nothing but the
// graph, which it does not change, and is safe for concurrent use.
type Predicate func(n *graph.Node) *Reason

// Ops qualifies nodes by operator: "Conv", or "com.microsoft.Gelu" for one of another domain.
func Ops(names ...string) Predicate {
	names = slices.Clone(names)
	return func(n *graph.Node) *Reason {
		if slices.Contains(names, n.Op.String()) {
			return nil
		}
		return Because(Unsupported, "%v is not among %s", n.Op, capped(names))
	}
}

// capped lists names, at most eight.
func capped(names []string) string {
	if len(names) > 8 {
		return strings.Join(names[:8], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// Named qualifies nodes by the names of the model's nodes that they come from, one of which has to match one of the globs;
// see MatchName.
func Named(globs ...string) Predicate {
	globs = slices.Clone(globs)
	return func(n *graph.Node) *Reason {
		for _, name := range n.Provenance() {
			for _, glob := range globs {
				if MatchName(glob, name) {
					return nil
				}
			}
		}
		return Because(NotSelected, "its name matches none of %s", capped(globs))
	}
}

// StaticShapes qualifies nodes all of whose operands and results are tensors of constant shape. It is a Predicate.
func StaticShapes(n *graph.Node) *Reason {
	return everyValue(n, func(v *graph.Value) *Reason {
		if !v.Type.IsTensor() || !v.Type.Shape.Known() {
			return Because(DynamicShape, "%v is %v", v, v.Type)
		}
		for _, d := range v.Type.Shape {
			if _, ok := d.Const(); !ok {
				return Because(DynamicShape, "%v is %v", v, v.Type)
			}
		}
		return nil
	})
}

// PlannedShapes qualifies nodes all of whose operands and results are tensors whose shapes follow from those of the model's
// inputs, and not from data. It is a Predicate.
func PlannedShapes(n *graph.Node) *Reason {
	return everyValue(n, func(v *graph.Value) *Reason {
		if !v.Type.Backed() {
			return Because(DynamicShape, "%v is %v", v, v.Type)
		}
		return nil
	})
}

// DTypes qualifies nodes all of whose operands and results have one of the element types. Dims values, which no kernel
// reads, do not count.
func DTypes(types ...tensor.DType) Predicate {
	types = slices.Clone(types)
	return func(n *graph.Node) *Reason {
		return everyValue(n, func(v *graph.Value) *Reason {
			if v.IsDims() || v.Type.IsTensor() && slices.Contains(types, v.Type.DType) {
				return nil
			}
			return Because(DTypeReason, "%v is %v", v, v.Type)
		})
	}
}

func everyValue(n *graph.Node, check func(*graph.Value) *Reason) *Reason {
	for _, v := range n.Operands() {
		if why := check(v); why != nil {
			return why
		}
	}
	for _, v := range n.Outputs {
		if v == nil {
			continue
		}
		if why := check(v); why != nil {
			return why
		}
	}
	return nil
}

// All qualifies nodes that every predicate does; the reason is the first one's.
func All(ps ...Predicate) Predicate {
	ps = slices.Clone(ps)
	return func(n *graph.Node) *Reason {
		for _, p := range ps {
			if why := p(n); why != nil {
				return why
			}
		}
		return nil
	}
}

// Any qualifies nodes that one of the predicates does; the reason is the last one's. Of no predicate nothing qualifies.
func Any(ps ...Predicate) Predicate {
	ps = slices.Clone(ps)
	return func(n *graph.Node) *Reason {
		why := Because(NotSelected, "no predicate is given")
		for _, p := range ps {
			if why = p(n); why == nil {
				return nil
			}
		}
		return why
	}
}

// Not qualifies nodes that p does not.
func Not(p Predicate) Predicate {
	return func(n *graph.Node) *Reason {
		if p(n) != nil {
			return nil
		}
		return Because(NotSelected, "it is excluded")
	}
}
