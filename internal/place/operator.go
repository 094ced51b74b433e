package place

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// OperatorRules returns a property for each operator that libraries bring: it has every node of the operator run by its
// kernel, on a backend that calls kernels of properties. The node goes by its operator's name. What a kernel cannot be
// planned for, as results whose shape depends on data, is left to whoever asks the schema's Evaluator.
func OperatorRules(list []*backend.Library) []property.SubgraphProperty {
	kernels := map[string]map[*graph.Schema]func(*graph.Node, graph.Bindings) (property.Kernel, error){}
	var names []string
	for _, l := range list {
		for i := range l.Operators {
			o := &l.Operators[i]
			id := graph.Op{Domain: o.Schema.Domain, Name: o.Schema.Name}.String()
			if kernels[id] == nil {
				kernels[id] = map[*graph.Schema]func(*graph.Node, graph.Bindings) (property.Kernel, error){}
				names = append(names, id)
			}
			kernels[id][o.Schema] = o.Kernel
		}
	}
	var out []property.SubgraphProperty
	for _, id := range names {
		out = append(out, operatorRule(id, kernels[id]))
	}
	return out
}

func operatorRule(id string, kernels map[*graph.Schema]func(*graph.Node, graph.Bindings) (property.Kernel, error)) property.SubgraphProperty {
	return &property.Rule{
		ID:       id,
		Selector: func(*graph.Graph) property.Selector { return operatorSelector{kernels} },
		Create: func(sub *graph.Graph) (*graph.NodeSpec, error) {
			n := only(sub)
			if n == nil {
				return nil, fmt.Errorf("%w: %s stands for other nodes than one", backend.ErrRefused, id)
			}
			return &graph.NodeSpec{Op: graph.Op{Domain: n.Op.Domain, Name: n.Op.Name}}, nil
		},
		Signatures: func(fused *graph.Node) []graph.Signature {
			return []graph.Signature{graph.UniformSignature("row-major", fused, graph.HostFormat)}
		},
		Kernel: func(fused *graph.Node, b graph.Bindings) (property.Kernel, error) {
			if n := only(fused.Regions[0].Graph); n != nil && kernels[n.Schema] != nil {
				return kernels[n.Schema](fused, b)
			}
			return property.Kernel{}, fmt.Errorf("%w: %v has no kernel", backend.ErrRefused, fused)
		},
	}
}

// only returns the node of a graph of one, nil for another graph.
func only(g *graph.Graph) *graph.Node {
	if g.NumNodes() != 1 {
		return nil
	}
	for n := range g.Nodes() {
		return n
	}
	return nil
}

// operatorSelector takes single nodes whose schema has a kernel.
type operatorSelector struct {
	kernels map[*graph.Schema]func(*graph.Node, graph.Bindings) (property.Kernel, error)
}

func (s operatorSelector) Select(n *graph.Node) bool {
	return s.kernels[n.Schema] != nil && len(n.Regions) == 0 && s.Why(n) == nil
}

func (operatorSelector) SelectInput(_, _ *graph.Node) bool             { return false }
func (operatorSelector) SelectOutput(_, _ *graph.Node) bool            { return false }
func (operatorSelector) Filter(candidates []*graph.Node) []*graph.Node { return candidates }
func (operatorSelector) Reset()                                        {}

// Why implements property.Explainer.
func (s operatorSelector) Why(n *graph.Node) *property.Reason {
	if s.kernels[n.Schema] == nil {
		return nil
	}
	for _, v := range slices.Concat(n.Inputs, n.Outputs) {
		switch {
		case v == nil:
		case !v.Type.IsTensor() || !v.Type.Shape.Known():
			return property.Because(property.DynamicShape, "the rank of %v depends on data", v)
		case v.Type.DType.Size() == 0:
			return property.Because(property.DTypeReason, "%v has element type %v", v, v.Type.DType)
		}
	}
	if v := Unfounded(n); v != nil {
		return property.Because(property.DynamicShape, "the shape of %v depends on data", v)
	}
	return nil
}
