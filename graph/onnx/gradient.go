package onnx

import (
	"github.com/carve-dev/carve/graph"
)

// nameGradients has the attributes of Gradient nodes, which name values as the scope does, name them as the graph does: names in
// functions are others there.
func (s *scope) nameGradients() {
	if len(s.gradients) == 0 {
		return
	}
	numbers := map[string]int{}
	for i, name := range s.body.names {
		numbers[name] = i
	}
	inGraph := func(name string) string {
		if i, ok := numbers[name]; ok && s.values[i] != nil && s.values[i] != omitted {
			return s.values[i].Name
		}
		return name
	}
	for _, n := range s.gradients {
		for _, a := range n.Attrs {
			switch a.Kind {
			case graph.AttrString:
				n.Attrs = n.Attrs.With(graph.StringAttr(a.Name, inGraph(a.Str)))
			case graph.AttrStrings:
				list := make([]string, len(a.Strs))
				for i, name := range a.Strs {
					list[i] = inGraph(name)
				}
				n.Attrs = n.Attrs.With(graph.StringsAttr(a.Name, list...))
			}
		}
	}
}
