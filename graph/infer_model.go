package graph

import "github.com/carve-dev/carve/graph/tensor"

// Contradiction is what a model declares a result to be while its nodes compute something else.
type Contradiction struct {
	Value    string // its name, behind those of the nodes whose regions it lies in: loop/body/x
	Declared Type
	Computed Type
}

// InferModel infers the types of all nodes of a graph that comes from outside, such as from a file. It differs from
// InferGraph in what it takes on trust: shapes that the graph declares for results of nodes are what somebody wrote down,
// and a kernel that believed a wrong one would read and write beside its operands. Only inputs, which every run checks,
// constants and the nodes themselves count. What remains of a declaration is the element type of a result whose schema
// leaves that open, and all of it for nodes without a schema, of which nothing else is known. It returns the declarations
// that the computed types contradict, in the order of the nodes; where only a run shows that a declaration is wrong there is
// none. The error names the node.
func InferModel(g *Graph) ([]Contradiction, error) {
	if g == nil {
		return nil, errNilGraph
	}
	var d declarations
	d.take(g, "")
	if err := InferGraph(g); err != nil {
		return nil, err
	}
	return d.contradicted(), nil
}

// declarations are the types that a graph declares for results.
type declarations struct {
	values []*Value
	names  []string
	types  []Type
}

// take notes the types of all results of g, and forgets the shapes that inference has to find by itself.
func (d *declarations) take(g *Graph, path string) {
	for n := range g.Nodes() {
		if n.Schema == nil || n.Schema.Infer == nil {
			continue
		}
		for _, v := range n.Outputs {
			if v == nil || v.Type.Kind == KindUnknown {
				continue
			}
			d.values, d.names, d.types = append(d.values, v), append(d.names, path+v.Name), append(d.types, v.Type)
			v.Type, v.Dims = withoutShape(v.Type), nil
		}
		for _, r := range n.Regions {
			said := [][]*Value{r.Graph.Captures, r.Graph.Inputs} // by the owner's operands
			if a := n.Schema.attr(r.Name); a != nil && a.Declares {
				said = said[:1]
			}
			for _, list := range said {
				for _, v := range list {
					v.Type, v.Dims = withoutShape(v.Type), nil
				}
			}
			d.take(r.Graph, path+n.Name+"/"+r.Name+"/")
		}
	}
}

func (d *declarations) contradicted() []Contradiction {
	var out []Contradiction
	for i, v := range d.values {
		if !d.types[i].MayBe(v.Type) {
			out = append(out, Contradiction{d.names[i], d.types[i], v.Type})
		}
	}
	return out
}

// MayBe reports whether a value of type t may be of type o as well, as far as both are known: kinds and element types are
// the same, and so are ranks and the dims that are numbers.
func (t Type) MayBe(o Type) bool {
	if t.Kind == KindUnknown || o.Kind == KindUnknown {
		return true
	}
	if t.Kind != o.Kind || t.DType != o.DType && t.DType != tensor.Invalid && o.DType != tensor.Invalid {
		return false
	}
	if t.Kind != KindTensor {
		return t.Elem == nil || o.Elem == nil || t.Elem.MayBe(*o.Elem)
	}
	if t.Shape == nil || o.Shape == nil {
		return true
	}
	if len(t.Shape) != len(o.Shape) {
		return false
	}
	for i, d := range t.Shape {
		if _, ok := sameDim(d, o.Shape[i]); !ok {
			return false
		}
	}
	return true
}
