package property

import (
	"slices"

	"github.com/carve-dev/carve/graph"
)

// altered returns p with selectors made otherwise.
func altered(p SubgraphProperty, selector func(Selector) Selector) SubgraphProperty {
	r := RuleOf(p)
	r.Selector = func(g *graph.Graph) Selector {
		if s := p.NewSelector(g); s != nil {
			return selector(s)
		}
		return nil
	}
	return r
}

// around is a selector that passes everything on to another one, optional interfaces included.
type around struct{ Selector }

// Judge implements Judge.
func (a *around) Judge(set []*graph.Node) *Reason {
	if j, ok := a.Selector.(Judge); ok {
		return j.Judge(set)
	}
	return nil
}

// Why implements Explainer.
func (a *around) Why(n *graph.Node) *Reason {
	if e, ok := a.Selector.(Explainer); ok {
		return e.Why(n)
	}
	return nil
}

// WithKind returns p with claims of another kind: the bounding variant of an atomic property, for instance.
func WithKind(k Kind, p SubgraphProperty) SubgraphProperty {
	r := RuleOf(p)
	r.Kind = k
	return r
}

// Where returns p confined to nodes that a predicate qualifies. Sets grow around the others.
func Where(p SubgraphProperty, only Predicate) SubgraphProperty {
	return altered(p, func(s Selector) Selector { return &whereSelector{around{s}, only} })
}

type whereSelector struct {
	around
	only Predicate
}

func (s *whereSelector) Select(seed *graph.Node) bool {
	return s.only(seed) == nil && s.Selector.Select(seed)
}

func (s *whereSelector) SelectInput(cur, input *graph.Node) bool {
	return s.only(input) == nil && s.Selector.SelectInput(cur, input)
}

func (s *whereSelector) SelectOutput(cur, output *graph.Node) bool {
	return s.only(output) == nil && s.Selector.SelectOutput(cur, output)
}

// Why implements Explainer.
func (s *whereSelector) Why(n *graph.Node) *Reason {
	if why := s.only(n); why != nil {
		return why
	}
	return s.around.Why(n)
}

// Bounds limit the number of nodes in a set; 0 means no limit.
type Bounds struct {
	Min int // smaller sets are turned down
	Max int // growth stops here, and what is left grows from other seeds
}

// Limit returns p with sets of bounded size.
func Limit(p SubgraphProperty, b Bounds) SubgraphProperty {
	return altered(p, func(s Selector) Selector { return &limitSelector{around: around{s}, b: b} })
}

type limitSelector struct {
	around
	b     Bounds
	count int // nodes of the set that is growing
}

func (s *limitSelector) Select(seed *graph.Node) bool {
	s.count = 1
	return s.Selector.Select(seed)
}

func (s *limitSelector) SelectInput(cur, input *graph.Node) bool {
	return s.counted(s.room() && s.Selector.SelectInput(cur, input))
}

func (s *limitSelector) SelectOutput(cur, output *graph.Node) bool {
	return s.counted(s.room() && s.Selector.SelectOutput(cur, output))
}

func (s *limitSelector) room() bool { return s.b.Max <= 0 || s.count < s.b.Max }

func (s *limitSelector) counted(taken bool) bool {
	if taken {
		s.count++
	}
	return taken
}

// Judge implements Judge.
func (s *limitSelector) Judge(set []*graph.Node) *Reason {
	if len(set) < s.b.Min {
		return Because(TooSmall, "a set of %d nodes, of at least %d", len(set), s.b.Min)
	}
	return s.around.Judge(set)
}

// And returns the property of sets that all of the properties agree on: a node is taken if each of them takes it, and kept
// if each Filter keeps it. Kind and hooks are the first one's. It panics without properties, which is a programmer's error.
func And(name string, ps ...SubgraphProperty) SubgraphProperty {
	if len(ps) == 0 {
		panic("property: And of nothing")
	}
	ps = slices.Clone(ps)
	r := RuleOf(ps[0])
	r.ID = name
	r.Selector = func(g *graph.Graph) Selector {
		s := make(andSelector, len(ps))
		for i, p := range ps {
			if s[i].Selector = p.NewSelector(g); s[i].Selector == nil {
				return nil
			}
		}
		return s
	}
	return r
}

type andSelector []around

func (s andSelector) Select(seed *graph.Node) bool {
	for i := range s {
		if !s[i].Select(seed) {
			return false
		}
	}
	return true
}

func (s andSelector) SelectInput(cur, input *graph.Node) bool {
	for i := range s {
		if !s[i].SelectInput(cur, input) {
			return false
		}
	}
	return true
}

func (s andSelector) SelectOutput(cur, output *graph.Node) bool {
	for i := range s {
		if !s[i].SelectOutput(cur, output) {
			return false
		}
	}
	return true
}

func (s andSelector) Filter(set []*graph.Node) []*graph.Node {
	for i := range s {
		set = s[i].Filter(set)
	}
	return set
}

func (s andSelector) Reset() {
	for i := range s {
		s[i].Reset()
	}
}

// Judge implements Judge.
func (s andSelector) Judge(set []*graph.Node) *Reason {
	for i := range s {
		if why := s[i].Judge(set); why != nil {
			return why
		}
	}
	return nil
}

// Why implements Explainer.
func (s andSelector) Why(n *graph.Node) *Reason {
	for i := range s {
		if why := s[i].Why(n); why != nil {
			return why
		}
	}
	return nil
}
