package partition

import (
	"errors"
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// describe lets the property of an atomic claim say how the fused node is called, and connect it. An error turns the claim
// down; it wraps ErrPlan where the property left the node in disorder.
func describe(n *graph.Node, p *property.Rule, reviewed []graph.Attr) error {
	with(n, p.Attributes)
	with(n, reviewed)
	if p.Create != nil {
		spec, err := p.Create(n.Regions[0].Graph)
		if err != nil {
			return err
		}
		if err := called(n, spec); err != nil {
			return err
		}
	}
	with(n, []graph.Attr{graph.StringAttr("pattern", p.ID)}) // backends know it by that
	return connect(n, p)
}

// describeGroup lets the properties of its backend that are not atomic say how the node of a finished group is called, and
// connect it. It bans the group's nodes where one of them turns it down.
func (s *State) describeGroup(n *graph.Node, info groupInfo) error {
	var ps []*property.Rule
	for _, p := range s.props[info.backend] {
		if p.Kind != property.Atomic {
			ps = append(ps, p)
		}
	}
	turnedDown := func(p *property.Rule, err error) error {
		if errors.Is(err, ErrPlan) {
			return fmt.Errorf("property %s: %w", p.ID, err)
		}
		for m := range n.Regions[0].Graph.Nodes() {
			if !m.IsCarve(graph.OpConvert) {
				s.ban(m, info.backend, stageExtract, named(property.Because(property.Veto, "%v", err), p))
			}
		}
		return nil
	}
	var spec *graph.NodeSpec
	var creator *property.Rule
	for _, p := range ps {
		with(n, p.Attributes)
		if p.Create == nil || spec != nil {
			continue
		}
		var err error
		if spec, err = p.Create(n.Regions[0].Graph); err != nil {
			return turnedDown(p, err)
		}
		creator = p
	}
	with(n, info.attrs)
	if err := called(n, spec); err != nil {
		return turnedDown(creator, err)
	}
	with(n, []graph.Attr{graph.StringAttr("backend", s.names[info.backend])})
	for _, p := range ps {
		if err := connect(n, p); err != nil {
			return turnedDown(p, err)
		}
	}
	return nil
}

// with gives a node attributes, in place of those that it has by the same names. Strings that it has already cost nothing.
func with(n *graph.Node, attrs []graph.Attr) {
	for _, at := range attrs {
		if have := n.Attrs.Lookup(at.Name); have == nil || at.Kind != graph.AttrString || have.Kind != at.Kind || have.Str != at.Str {
			n.Attrs = n.Attrs.With(at)
		}
	}
}

// called gives a node name, attributes and operator of a spec, as far as it has them. The error wraps ErrPlan where the
// operator is none that such a node may have.
func called(n *graph.Node, spec *graph.NodeSpec) error {
	if spec == nil {
		return nil
	}
	with(n, spec.Attrs)
	if spec.Name != "" {
		n.Name = spec.Name
	}
	if spec.Op == (graph.Op{}) {
		return nil
	}
	if err := n.SetOperator(spec.Op); err != nil {
		return fmt.Errorf("%w: %w", ErrPlan, err)
	}
	return nil
}

// connect lets a property edit operands and results of a node that it made, and checks that they still fit the region.
func connect(n *graph.Node, p *property.Rule) error {
	if p.Connect == nil {
		return nil
	}
	results := len(n.Outputs)
	if err := p.Connect(n); err != nil {
		return err
	}
	if len(n.Regions) != 1 || n.Region("body") == nil {
		return fmt.Errorf("%w: %v has no body of its own any more", ErrPlan, n)
	}
	body := n.Regions[0].Graph
	if len(n.Inputs) != len(body.Inputs) || len(n.Outputs) != results || results != len(body.Outputs) {
		return fmt.Errorf("%w: %v has %d operands and %d results, its body %d and %d", ErrPlan, n,
			len(n.Inputs), len(n.Outputs), len(body.Inputs), len(body.Outputs))
	}
	for i, v := range n.Inputs {
		if v == nil || !v.Type.Equal(body.Inputs[i].Type) || v.Format != body.Inputs[i].Format {
			return fmt.Errorf("%w: operand %d of %v is %v, and %v in its body", ErrPlan, i, n, v, body.Inputs[i])
		}
	}
	for i, v := range n.Outputs {
		if v == nil || !v.Type.Equal(body.Outputs[i].Type) || v.Format != body.Outputs[i].Format {
			return fmt.Errorf("%w: result %d of %v is %v, and %v in its body", ErrPlan, i, n, v, body.Outputs[i])
		}
	}
	return nil
}
