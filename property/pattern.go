package property

import (
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
)

// Pattern describes a value: the first result of a node with these operators and operands, or, without Ops, any value. Patterns
// form a tree that is read from the last node, the root, to its operands. The same *Pattern in two places stands for the
// same node or value in both, so that x·sigmoid(x) can be said:
//
//	x := &property.Pattern{}
//	silu := &property.Pattern{Ops: []string{"Mul"}, Commutative: true, Inputs: []*property.Pattern{
//		x, {Ops: []string{"Sigmoid"}, Inputs: []*property.Pattern{x}}}}
//
// A Pattern is not changed by matching, and must not be changed once it is in use.
type Pattern struct {
	// Name is the label under which Match finds the node or value; "" for none.
	Name string
	// Ops are the operators that the node may have, as Ops takes them; none means that any value will do.
	Ops []string
	// Inputs are the operands, in order; nil stands for any operand, present or not. A node may have more.
	Inputs []*Pattern
	// Commutative lets the operands come in any order. It takes as many Inputs as the node has operands, at most four.
	Commutative bool
	// Optional lets the node be absent: its first operand pattern then stands in its place. Of several matches the largest
	// counts.
	Optional bool
	// Shared lets the result be read outside of the match, or be an output of the graph. Only the root's may otherwise.
	Shared bool
	// Constant asks for a constant value. Ops must be empty.
	Constant bool
	// Where confines the node; nil means every node of these operators.
	Where Predicate
}

// Match is a pattern found in a graph.
type Match struct {
	// Nodes are the matched nodes, operands first.
	Nodes []*graph.Node
	nodes []binding[*graph.Node]
	vals  []binding[*graph.Value]
}

// Root returns the last node, nil for a Match of none.
func (m *Match) Root() *graph.Node {
	if len(m.Nodes) == 0 {
		return nil
	}
	return m.Nodes[len(m.Nodes)-1]
}

// Node returns the node that matched p, nil where p is optional and absent.
func (m *Match) Node(p *Pattern) *graph.Node {
	for _, b := range m.nodes {
		if b.p == p {
			return b.t
		}
	}
	return nil
}

// Value returns the value that matched p, nil where p is absent.
func (m *Match) Value(p *Pattern) *graph.Value {
	for _, b := range m.vals {
		if b.p == p {
			return b.t
		}
	}
	return nil
}

// Named returns the node that matched the pattern of that name, nil where there is none.
func (m *Match) Named(name string) *graph.Node {
	for _, b := range m.nodes {
		if b.p.Name == name {
			return b.t
		}
	}
	return nil
}

// has reports whether the match holds a node.
func (m *Match) has(n *graph.Node) bool { return slices.Contains(m.Nodes, n) }

// Sequence returns the pattern of a chain of operators, first to last. Each reads the result of the one before it as its
// first operand or, where it takes two, as either. A "?" behind an operator makes it optional, "|" separates alternatives:
//
//	Sequence("Conv", "BatchNormalization?", "Add?", "Relu|Clip?")
//
// It returns nil without operators. Results inside of the chain are read by nobody else.
func Sequence(ops ...string) *Pattern {
	var last *Pattern
	for _, op := range ops {
		p := &Pattern{Name: op}
		if s, ok := strings.CutSuffix(op, "?"); ok {
			p.Name, p.Optional = s, true
		}
		p.Ops = strings.Split(p.Name, "|")
		if last != nil {
			p.Inputs = []*Pattern{last}
			if slices.ContainsFunc(p.Ops, func(s string) bool { return commutative[s] }) {
				p.Inputs, p.Commutative = []*Pattern{last, nil}, true
			}
		}
		last = p
	}
	return last
}

// commutative are the operators of two operands whose order does not matter.
var commutative = map[string]bool{"Add": true, "Mul": true, "And": true, "Or": true, "Xor": true, "Equal": true,
	"BitwiseAnd": true, "BitwiseOr": true, "BitwiseXor": true}

// Find returns the largest match of p whose last node is root, nil where there is none.
func (p *Pattern) Find(root *graph.Node) *Match {
	m, _ := p.find(root, nil, nil)
	return m
}

// FindIn returns the largest match of p in g, the first of several in list order of their last nodes, nil where there is
// none. Kernels and signatures of fused nodes read the body with it.
func (p *Pattern) FindIn(g *graph.Graph) *Match {
	var best *Match
	for n := range g.Nodes() {
		if m := p.Find(n); m != nil && (best == nil || len(m.Nodes) > len(best.Nodes)) {
			best = m
		}
	}
	return best
}
