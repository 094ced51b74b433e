package property

import (
	"slices"

	"github.com/carve-dev/carve/graph"
)

// find returns the largest match of p whose last node is root, whose nodes are allowed, and that passes the check; nil
// where there is none, with the reason that the check gave for the largest. Nil functions agree to everything.
func (p *Pattern) find(root *graph.Node, allowed func(*graph.Node) bool, check func(*Match) *Reason) (best *Match, why *Reason) {
	v := root.Output(0)
	if v == nil {
		return nil, nil
	}
	refused := 0
	m := &matcher{allowed: allowed}
	m.value(p, v, func() {
		n := len(m.order)
		if n == 0 || m.order[n-1] != root || best != nil && n <= len(best.Nodes) || !m.closed(root) {
			return
		}
		r := m.result()
		if check != nil {
			if no := check(r); no != nil {
				if n > refused {
					refused, why = n, no
				}
				return
			}
		}
		best = r
	})
	if best != nil {
		why = nil
	}
	return best, why
}

// matcher is a search by backtracking. Bindings are undone on the way back.
type matcher struct {
	allowed func(*graph.Node) bool
	nodes   []binding[*graph.Node]
	vals    []binding[*graph.Value]
	order   []*graph.Node // operands first
	steps   int
}

// binding says what a pattern stands for.
type binding[T any] struct {
	p *Pattern
	t T
}

// maxSteps bounds one search; patterns of a few commutative nodes take dozens.
const maxSteps = 1 << 12

// value matches p with v and calls then for every way to do so.
func (m *matcher) value(p *Pattern, v *graph.Value, then func()) {
	if m.steps++; m.steps > maxSteps {
		return
	}
	if p == nil {
		then()
		return
	}
	for _, b := range m.vals {
		if b.p == p { // seen before: it has to be the same
			if b.t == v {
				then()
			}
			return
		}
	}
	m.bind(p, v, then)
	if p.Optional && len(p.Ops) > 0 && len(p.Inputs) > 0 {
		m.value(p.through(), v, then)
	}
}

// bind is value for a pattern that is not bound yet and not left out.
func (m *matcher) bind(p *Pattern, v *graph.Value, then func()) {
	if v == nil || p.Constant && !v.IsConst() {
		return
	}
	m.vals = append(m.vals, binding[*graph.Value]{p, v})
	defer func() { m.vals = m.vals[:len(m.vals)-1] }()
	if len(p.Ops) == 0 {
		then()
		return
	}
	n := v.Producer
	if n == nil || v.Index != 0 || !slices.Contains(p.Ops, n.Op.String()) || m.has(n) || !p.fits(n) || m.allowed != nil && !m.allowed(n) {
		return
	}
	m.nodes = append(m.nodes, binding[*graph.Node]{p, n})
	defer func() { m.nodes = m.nodes[:len(m.nodes)-1] }()
	m.operands(p, n, 0, 0, func() {
		m.order = append(m.order, n)
		then()
		m.order = m.order[:len(m.order)-1]
	})
}

// through returns what stands for an absent optional node: the first operand that is described by operators.
func (p *Pattern) through() *Pattern {
	for _, in := range p.Inputs {
		if in != nil && len(in.Ops) > 0 {
			return in
		}
	}
	return p.Inputs[0]
}

func (p *Pattern) fits(n *graph.Node) bool {
	if p.Commutative && (len(p.Inputs) != len(n.Inputs) || len(p.Inputs) > 4) {
		return false
	}
	return p.Where == nil || p.Where(n) == nil
}

func (m *matcher) has(n *graph.Node) bool {
	return slices.ContainsFunc(m.nodes, func(b binding[*graph.Node]) bool { return b.t == n })
}

// operands matches the operand patterns from the i-th on; used are the operands that are taken, as bits.
func (m *matcher) operands(p *Pattern, n *graph.Node, i int, used uint, then func()) {
	switch {
	case i == len(p.Inputs):
		then()
	case p.Commutative:
		for k := range n.Inputs {
			if used&(1<<k) == 0 {
				m.value(p.Inputs[i], n.Inputs[k], func() { m.operands(p, n, i+1, used|1<<k, then) })
			}
		}
	default:
		m.value(p.Inputs[i], n.Input(i), func() { m.operands(p, n, i+1, used, then) })
	}
}

// closed reports whether results inside of the match are read by nobody else, but for shared ones.
func (m *matcher) closed(root *graph.Node) bool {
	for _, b := range m.nodes {
		if b.t == root || b.p.Shared {
			continue
		}
		for _, v := range b.t.Outputs {
			if v == nil {
				continue
			}
			if v.IsOutput() {
				return false
			}
			for _, u := range v.Uses() {
				if !m.has(u.Node) {
					return false
				}
			}
		}
	}
	return true
}

func (m *matcher) result() *Match {
	return &Match{Nodes: slices.Clone(m.order), nodes: slices.Clone(m.nodes), vals: slices.Clone(m.vals)}
}

// measure returns the number of nodes on the longest path from the root, and adds the operators to ops. It visits each
// pattern once.
func (p *Pattern) measure(seen map[*Pattern]int, ops map[string]bool) int {
	if p == nil || len(p.Ops) == 0 {
		return 0
	}
	if d, ok := seen[p]; ok {
		return d
	}
	seen[p] = 1 // a circle, which matches nothing, ends here
	for _, op := range p.Ops {
		ops[op] = true
	}
	d := 0
	for _, in := range p.Inputs {
		d = max(d, in.measure(seen, ops))
	}
	seen[p] = d + 1
	return d + 1
}
