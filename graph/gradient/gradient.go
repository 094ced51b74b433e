package gradient

import (
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
)

// Causes of errors about Gradient nodes.
var (
	ErrAttribute = errors.New("bad attribute")
	ErrNoRule    = errors.New("has no derivative here")
	ErrShape     = errors.New("shape not known, or of the wrong rank")
	ErrTooLarge  = errors.New("derivatives are too large")
)

// mostNodes bounds the nodes that the Gradient nodes of a model may visit and make, mostNested the order of derivatives. Each order
// multiplies the nodes.
const (
	mostNodes  = 1 << 19
	mostNested = 32
)

// Error is why a Gradient node cannot be replaced.
type Error struct {
	Gradient string // the node, as graph.Node.String says it
	At       string // the node of what it differentiates that is at fault, "" where it is the Gradient node itself
	Err      error  // wraps one of the package's errors, or one of graph's
}

func (e *Error) Error() string {
	if e.At == "" {
		return fmt.Sprintf("%s: %v", e.Gradient, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.Gradient, e.At, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Expand replaces all Gradient nodes of g, and of the graphs nested in it, by nodes of other operators. Types have to be inferred, and are so
// afterwards. Names of results and provenance stay. The error is an *Error, or one of graph's. It takes O(V+E) for each Gradient node
// and order.
func Expand(g *graph.Graph) error {
	left := mostNodes
	return expand(g, &left)
}

func expand(g *graph.Graph, left *int) error {
	var list []*graph.Node
	for n := range g.Nodes() {
		for _, r := range n.Regions {
			if err := expand(r.Graph, left); err != nil {
				return err
			}
		}
		if isGradient(n) {
			list = append(list, n)
		}
	}
	if len(list) == 0 {
		return nil
	}
	e := &expander{g: g, left: left, named: named(g)}
	for _, n := range list {
		if n.Graph() == nil {
			continue // it was another's y
		}
		if err := e.expand(n); err != nil {
			return err
		}
	}
	g.Compact()
	return g.Sort()
}

func isGradient(n *graph.Node) bool {
	return n.Op.Domain == "ai.onnx.preview.training" && n.Op.Name == "Gradient"
}

// expander replaces the Gradient nodes of one graph.
type expander struct {
	g     *graph.Graph
	left  *int                      // nodes that may still be visited or made
	named map[string][]*graph.Value // the values of each name
	open  []*graph.Node             // nodes under expansion: each waits for the next
}

func named(g *graph.Graph) map[string][]*graph.Value {
	out := map[string][]*graph.Value{}
	for _, v := range g.ValuesByID() {
		if v != nil && v.Name != "" {
			out[v.Name] = append(out[v.Name], v)
		}
	}
	return out
}

// expand replaces a node, and before it those that its y is computed from.
func (e *expander) expand(n *graph.Node) (err error) {
	r := &reverse{builder: builder{g: e.g, n: n, left: e.left}}
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(fault)
			if !ok {
				panic(p)
			}
			err = r.error(f.err)
		}
	}()
	if slices.Contains(e.open, n) {
		return r.error(fmt.Errorf("%w: y is computed from the node's own result", ErrAttribute))
	}
	if len(e.open) >= mostNested {
		return r.error(fmt.Errorf("%w: order above %d", ErrTooLarge, mostNested))
	}
	e.open = append(e.open, n)
	defer func() { e.open = e.open[:len(e.open)-1] }()
	for {
		leaves, y, err := e.resolve(n)
		if err != nil {
			return r.error(err)
		}
		nodes := r.between(leaves, y)
		i := slices.IndexFunc(nodes, isGradient)
		if i < 0 {
			e.replace(n, r.derivatives(leaves, y, nodes))
			return nil
		}
		if err := e.expand(nodes[i]); err != nil {
			return err
		}
	}
}

// resolve returns the values that a node's attributes name: those of xs and zs, one an input, and y.
func (e *expander) resolve(n *graph.Node) (leaves []*graph.Value, y *graph.Value, err error) {
	value := func(attr, name string) *graph.Value {
		list := e.named[name]
		if len(list) != 1 && err == nil {
			err = fmt.Errorf("%w: %s names %q, which %d values of its graph are", ErrAttribute, attr, name, len(list))
		}
		if err != nil {
			return nil
		}
		return list[0]
	}
	xs, zs := n.Strs("xs"), n.Strs("zs")
	for _, name := range xs {
		leaves = append(leaves, value("xs", name))
	}
	for _, name := range zs {
		leaves = append(leaves, value("zs", name))
	}
	y = value("y", n.Str("y", ""))
	if err != nil {
		return nil, nil, err
	}
	if len(xs) == 0 || len(n.Outputs) > len(xs) || len(n.Inputs) != len(leaves) {
		return nil, nil, fmt.Errorf("%w: %d inputs and %d outputs for %d xs and %d zs", ErrAttribute, len(n.Inputs), len(n.Outputs), len(xs), len(zs))
	}
	seen := map[*graph.Value]bool{}
	for i, v := range leaves {
		in := n.Inputs[i]
		switch {
		case seen[v]:
			err = fmt.Errorf("%w: %q is named twice", ErrAttribute, v.Name)
		case in == nil:
			err = fmt.Errorf("%w: input %d is omitted", ErrAttribute, i)
		case in.Type.Kind != v.Type.Kind || in.Type.DType != v.Type.DType:
			err = fmt.Errorf("%w: input %d is %v, and %q %v", ErrAttribute, i, in.Type, v.Name, v.Type)
		case i < len(n.Outputs) && n.Outputs[i] != nil && !isFloat(v):
			err = fmt.Errorf("%w: a derivative by %q, which is %v", ErrAttribute, v.Name, v.Type)
		}
		if err != nil {
			return nil, nil, err
		}
		seen[v] = true
	}
	if !isFloat(y) {
		return nil, nil, fmt.Errorf("%w: the derivative of %q, which is %v", ErrAttribute, y.Name, y.Type)
	}
	return leaves, y, nil
}

// isFloat reports whether v is a tensor of real numbers.
func isFloat(v *graph.Value) bool { return v.Type.IsTensor() && v.Type.DType.IsFloat() }

// replace gives the readers of a node's results the derivatives.
func (e *expander) replace(n *graph.Node, derivatives []*graph.Value) {
	for i, old := range n.Outputs {
		if old == nil {
			continue
		}
		v := derivatives[i]
		v.Name = old.Name
		e.g.ReplaceUses(old, v)
		if old.Name != "" {
			e.named[old.Name] = []*graph.Value{v}
		}
	}
	e.g.Remove(n)
}
