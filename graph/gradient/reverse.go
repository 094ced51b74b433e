package gradient

import (
	"slices"

	"github.com/carve-dev/carve/graph"
)

// reverse differentiates for one Gradient node.
type reverse struct {
	builder
	needs map[*graph.Value]bool         // what depends on xs, so that a derivative by it is wanted
	by    map[*graph.Value]*graph.Value // the derivatives of y that are known so far
	at    *graph.Node                   // of what is differentiated, that the work is at
	inner int                           // how deep in definitions of that the work is
}

func (r *reverse) error(err error) error {
	e := &Error{Gradient: r.n.String(), Err: err}
	if r.at != nil {
		e.At = r.at.String()
	}
	return e
}

// between returns the nodes that y is computed by from the leaves and from constants of the differentiation, in topological order.
func (r *reverse) between(leaves []*graph.Value, y *graph.Value) []*graph.Node {
	done := map[*graph.Node]bool{}
	leaf := map[*graph.Value]bool{}
	for _, v := range leaves {
		leaf[v] = true
	}
	type frame struct {
		n *graph.Node
		k int // operands that are done
	}
	var order []*graph.Node
	var stack []frame
	visit := func(v *graph.Value) {
		require(v == nil || leaf[v] || !v.IsCapture(), ErrAttribute, "y depends on %v, which is of the graph around, and neither in xs nor in zs", v)
		if v != nil && v.Producer != nil && !leaf[v] && !done[v.Producer] {
			r.charge(1)
			done[v.Producer] = true
			stack = append(stack, frame{v.Producer, 0})
		}
	}
	visit(y)
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		if f.k == f.n.NumOperands() {
			order = append(order, f.n)
			stack = stack[:len(stack)-1]
			continue
		}
		f.k++
		visit(f.n.Operand(f.k - 1))
	}
	return order
}

// derivatives returns those of y by the leaves that the node has results for, of which each is a node's result of its own.
func (r *reverse) derivatives(leaves []*graph.Value, y *graph.Value, nodes []*graph.Node) []*graph.Value {
	nodes, y = r.evaluate(leaves, y, nodes)
	r.needs, r.by = map[*graph.Value]bool{}, map[*graph.Value]*graph.Value{}
	for i, v := range r.n.Outputs {
		if v != nil {
			r.needs[r.n.Inputs[i]] = true
		}
	}
	r.by[y] = r.filled(y, 1)
	r.back(nodes)
	r.at = nil
	out := make([]*graph.Value, len(r.n.Outputs))
	for i, old := range r.n.Outputs {
		if old == nil {
			continue
		}
		x := r.n.Inputs[i]
		v := r.by[x]
		if v == nil {
			v = r.filled(x, 0)
		}
		out[i] = r.call("Identity", nil, v)
		if out[i].Type.Shape == nil {
			out[i].Type = x.Type
		}
	}
	return out
}

// evaluate returns the nodes, and y, as they are where the node's inputs stand for the leaves. What does not depend on another input
// than the value that its attribute names is the same.
func (r *reverse) evaluate(leaves []*graph.Value, y *graph.Value, nodes []*graph.Node) ([]*graph.Node, *graph.Value) {
	now := map[*graph.Value]*graph.Value{}
	for i, v := range leaves {
		if in := r.n.Inputs[i]; in != v {
			now[v] = in
		}
	}
	out := make([]*graph.Node, len(nodes))
	for i, n := range nodes {
		r.at = n
		operands, same := make([]*graph.Value, n.NumOperands()), true
		for k, v := range n.Operands() {
			operands[k] = v
			if other := now[v]; other != nil {
				operands[k], same = other, false
			}
		}
		if out[i] = n; same {
			continue
		}
		out[i] = r.again(n, operands, len(n.Outputs))
		for k, v := range n.Outputs {
			if v != nil {
				now[v] = out[i].Outputs[k]
			}
		}
	}
	if v := now[y]; v != nil {
		y = v
	}
	return out, y
}

// back adds to the derivatives by what the nodes read, given those by their results.
func (r *reverse) back(nodes []*graph.Node) {
	for _, n := range nodes {
		for _, v := range n.Operands() {
			if r.needs[v] && !isStepwise(n) {
				for _, out := range n.Outputs {
					if out != nil && !isDiscrete(out) {
						r.needs[out] = true
					}
				}
			}
		}
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		if s := r.step(nodes[i]); s != nil {
			s.run()
		}
	}
}

// isDiscrete reports whether v is a tensor of what has no derivative.
func isDiscrete(v *graph.Value) bool {
	t := v.Type.DType
	return v.Type.IsTensor() && v.Type.DType.Valid() && !t.IsFloat() && !t.IsComplex()
}

// isStepwise reports whether a node's results are constant but for jumps.
func isStepwise(n *graph.Node) bool {
	return n.Is("Ceil", "Floor", "Hardmax", "Round", "Sign")
}

// step is the way back over one node.
type step struct {
	*reverse
	n      *graph.Node
	byOuts []*graph.Value // derivatives by the results, nil where there is none
}

// step returns nil where a node has no part in the derivatives.
func (r *reverse) step(n *graph.Node) *step {
	if r.inner == 0 {
		r.at = n
	}
	s := &step{reverse: r, n: n, byOuts: make([]*graph.Value, len(n.Outputs))}
	any, wanted := false, false
	for i, v := range n.Outputs {
		if v != nil && r.needs[v] {
			s.byOuts[i] = r.by[v]
			any = any || s.byOuts[i] != nil
		}
	}
	for _, v := range n.Operands() {
		wanted = wanted || r.needs[v]
	}
	if !any || !wanted {
		return nil
	}
	return s
}

func (s *step) run() {
	name := s.n.Op.Name
	require(s.n.Op.Domain == "", ErrNoRule, "an operator of domain %q", s.n.Op.Domain)
	if define := definitions[name]; define != nil && s.viaDefinition(define) {
		return
	}
	rule := rules[name]
	require(rule != nil, ErrNoRule, "the operator is not one of the package's")
	for i, g := range s.byOuts {
		require(i == 0 || g == nil || name == "Split", ErrNoRule, "result %d", i)
	}
	rule(s)
}

// viaDefinition goes back over other nodes in the node's place. It reports false where the definition does not hold for it.
func (s *step) viaDefinition(define func(*step) []*graph.Value) bool {
	first := len(s.made)
	results := define(s)
	if results == nil {
		return false
	}
	made := slices.Clone(s.made[first:])
	for i, g := range s.byOuts {
		if g == nil {
			continue
		}
		require(i < len(results) && results[i] != nil, ErrNoRule, "result %d", i)
		s.accumulate(results[i], g)
	}
	s.inner++
	s.back(made)
	s.inner--
	return true
}

// in returns operand i, nil where it is omitted.
func (s *step) in(i int) *graph.Value { return s.n.Input(i) }

// byOut returns the derivative by result 0.
func (s *step) byOut() *graph.Value { return s.byOuts[0] }

func (s *step) out() *graph.Value { return s.n.Outputs[0] }

// wants reports whether a derivative by operand i is wanted.
func (s *step) wants(i int) bool { return s.in(i) != nil && s.needs[s.in(i)] }

// give adds to the derivative by operand i. What is larger than the operand, since that was broadcast, is summed.
func (s *step) give(i int, v *graph.Value) {
	if s.wants(i) {
		s.accumulate(s.in(i), v)
	}
}

func (r *reverse) accumulate(x, v *graph.Value) {
	if v = r.sumTo(v, x); r.by[x] != nil {
		v = r.plus(r.by[x], v)
	}
	r.by[x] = v
}
