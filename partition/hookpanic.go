package partition

import (
	"fmt"
	"runtime/debug"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// HookPanic is what a panic of a property's hook, or of a backend's Supports, is raised again as, so that whoever recovers can say whose
// it was.
type HookPanic struct {
	Property string // "" for a backend's
	Backend  string // "" for a property's
	Hook     string // as the interfaces of package property call it
	Node     string // of the model, which the hook was looking at: the first of a set; "" where it has the whole graph
	Value    any    // of the panic
	Stack    []byte // where it was raised
}

// Error names the property or backend, the hook and the node.
func (p *HookPanic) Error() string {
	at := ""
	if p.Node != "" {
		at = fmt.Sprintf(" at node %q", p.Node)
	}
	whose := fmt.Sprintf("property %q", p.Property)
	if p.Backend != "" {
		whose = fmt.Sprintf("backend %q", p.Backend)
	}
	return fmt.Sprintf("%s: %s%s: panic: %v", whose, p.Hook, at, p.Value)
}

// blame is deferred around a hook that looks at nodes, of which the first is named.
func blame(r *property.Rule, hook string, nodes ...*graph.Node) {
	if v := recover(); v != nil {
		raise(&HookPanic{Property: r.ID, Hook: hook, Value: v}, nodes)
	}
}

// supports asks a backend about a node.
func supports(b backend.Backend, n *graph.Node) backend.Support {
	defer func() {
		if v := recover(); v != nil {
			raise(&HookPanic{Backend: b.Info().Name, Hook: "Supports", Value: v}, []*graph.Node{n})
		}
	}()
	return b.Supports(n)
}

// raise panics with p, of the first of some nodes, or with what p was raised for where that is one.
func raise(p *HookPanic, nodes []*graph.Node) {
	if inner, ok := p.Value.(*HookPanic); ok { // of a property that this one is made from
		panic(inner)
	}
	p.Stack = debug.Stack()
	if len(nodes) > 0 && nodes[0] != nil {
		p.Node = nodes[0].Name
		if names := nodes[0].Provenance(); len(names) > 0 {
			p.Node = names[0]
		}
	}
	panic(p)
}

// blamed returns a property whose hooks raise their panics as HookPanics. Kernels are called by backends.
func blamed(p property.SubgraphProperty) *property.Rule {
	inner := property.RuleOf(p)
	r := *inner
	if inner.Selector != nil {
		r.Selector = func(g *graph.Graph) property.Selector {
			defer blame(inner, "NewSelector")
			s := inner.Selector(g)
			if s == nil {
				return nil
			}
			b := &blamedSelector{Selector: s, rule: inner}
			b.judge, _ = s.(property.Judge)
			b.explain, _ = s.(property.Explainer)
			return b
		}
	}
	if inner.Adjust != nil {
		r.Adjust = func(nodes []*graph.Node) error {
			defer blame(inner, "Adjust", nodes...)
			return inner.Adjust(nodes)
		}
	}
	if inner.AllowEdge != nil {
		r.AllowEdge = func(from, to *graph.Node) bool {
			defer blame(inner, "AllowEdge", from)
			return inner.AllowEdge(from, to)
		}
	}
	blameGraphs(&r, inner)
	return &r
}

// blameGraphs is blamed for hooks that look at a graph, or at the node that stands for one.
func blameGraphs(r, inner *property.Rule) {
	if inner.PrePartition != nil {
		r.PrePartition = func(g *graph.Graph) error {
			defer blame(inner, "PrePartition")
			return inner.PrePartition(g)
		}
	}
	if inner.PostPartition != nil {
		r.PostPartition = func(g *graph.Graph) error {
			defer blame(inner, "PostPartition")
			return inner.PostPartition(g)
		}
	}
	if inner.Review != nil {
		r.Review = func(sub *graph.Graph) property.Verdict {
			defer blame(inner, "Review", firstOf(sub))
			return inner.Review(sub)
		}
	}
	if inner.Create != nil {
		r.Create = func(sub *graph.Graph) (*graph.NodeSpec, error) {
			defer blame(inner, "CreateSubgraphNode", firstOf(sub))
			return inner.Create(sub)
		}
	}
	if inner.Connect != nil {
		r.Connect = func(n *graph.Node) error {
			defer blame(inner, "ConnectSubgraph", n)
			return inner.Connect(n)
		}
	}
	if inner.Signatures != nil {
		r.Signatures = func(fused *graph.Node) []graph.Signature {
			defer blame(inner, "Signatures", fused)
			return inner.Signatures(fused)
		}
	}
}

// firstOf returns the first node of a set that is a graph of its own.
func firstOf(sub *graph.Graph) *graph.Node {
	for n := range sub.Nodes() {
		return n
	}
	return nil
}

// blamedSelector is a selector whose panics are HookPanics.
type blamedSelector struct {
	property.Selector
	rule    *property.Rule
	judge   property.Judge
	explain property.Explainer
}

func (s *blamedSelector) Select(seed *graph.Node) bool {
	defer blame(s.rule, "Select", seed)
	return s.Selector.Select(seed)
}

func (s *blamedSelector) SelectInput(cur, input *graph.Node) bool {
	defer blame(s.rule, "SelectInput", input)
	return s.Selector.SelectInput(cur, input)
}

func (s *blamedSelector) SelectOutput(cur, output *graph.Node) bool {
	defer blame(s.rule, "SelectOutput", output)
	return s.Selector.SelectOutput(cur, output)
}

func (s *blamedSelector) Filter(set []*graph.Node) []*graph.Node {
	defer blame(s.rule, "Filter", set...)
	return s.Selector.Filter(set)
}

func (s *blamedSelector) Reset() {
	defer blame(s.rule, "Reset")
	s.Selector.Reset()
}

// Judge implements property.Judge.
func (s *blamedSelector) Judge(set []*graph.Node) *property.Reason {
	if s.judge == nil {
		return nil
	}
	defer blame(s.rule, "Judge", set...)
	return s.judge.Judge(set)
}

// Why implements property.Explainer.
func (s *blamedSelector) Why(n *graph.Node) *property.Reason {
	if s.explain == nil {
		return nil
	}
	defer blame(s.rule, "Why", n)
	return s.explain.Why(n)
}
