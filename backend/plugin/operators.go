package plugin

import (
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// ownOperator is an operator that a plugin brings: the schema that nodes of it have, and the functions behind it.
type ownOperator struct {
	l      *Library
	at     uintptr // of the carve_operator, where that is in this process
	c      cOperator
	schema *graph.Schema
}

// maxRank is how many dims there is room for in an answer of infer.
const maxRank = 64

func (l *Library) readOperators(from side) error {
	addresses, list, err := own[cOperator](from, l.table.ownOperators, l.table.nOwnOperators, "operator")
	if err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	for i, c := range list {
		from.number(i, c.slots())
		o := &ownOperator{l: l, at: addresses[i], c: c}
		domain, name := from.text(c.domain), from.text(c.name)
		if !identifier(name) || !identifier(domain) {
			return fmt.Errorf("%w: %s: operator %d has the name %q in the domain %q", ErrPlugin, l.path, i, name, domain)
		}
		if c.run == 0 {
			return fmt.Errorf("%w: %s: operator %s.%s needs the function run", ErrPlugin, l.path, domain, name)
		}
		if o.schema, err = graph.ParseSchema(domain, name, int(max(c.sinceMin, 1)), from.text(c.schema)); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrPlugin, l.path, err)
		}
		o.schema.Infer, o.schema.Evaluator, o.schema.Random = o.infer, o, c.flags&operatorRandom != 0
		l.operators = append(l.operators, o)
	}
	return nil
}

// identifier reports whether a text is a name of an operator, or of a domain: letters, digits, and . _ - between them.
func identifier(s string) bool {
	return s != "" && len(s) <= 128 && strings.Trim(s, "._-") == s && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	})
}

// operatorList returns the plugin's operators for those who open libraries.
func (l *Library) operatorList() []backend.Operator {
	var out []backend.Operator
	for _, o := range l.operators {
		out = append(out, backend.Operator{Schema: o.schema, Until: int(max(o.c.sinceMax, 0)), Kernel: o.kernel})
	}
	return out
}

// about names library, operator and node in an error.
func (o *ownOperator) about(n *graph.Node, err error) error {
	return fmt.Errorf("%s: operator %v, node %q: %w", o.l.path, n.Op, n.Label(), err)
}

// infer is the Infer of the operator's schema. What the plugin says is checked: the error wraps ErrPlugin, or is the *Error of
// the function.
func (o *ownOperator) infer(c *graph.Inference) error {
	n := c.Node
	if o.c.infer == 0 {
		for i := range n.Outputs {
			c.SetType(i, c.Type(0))
		}
		return o.checked(n)
	}
	if len(n.Outputs) == 0 {
		return nil
	}
	var p page
	defer p.end()
	w, done := o.l.ownWriter(&p)
	defer done()
	if w.err != nil {
		return o.about(n, w.err)
	}
	d := o.l.describe(w, []*graph.Node{n})
	results := make([]ownResult, len(n.Outputs))
	list := many[uintptr](w, len(results))
	for i := range results {
		results[i] = ownResult{one[cResult](w), many[cDim](w, maxRank)}
		*results[i].cResult = cResult{size: uint32(unsafe.Sizeof(cResult{})), ndim: -1, cap: maxRank, dims: address(&results[i].room[0])}
		list[i] = address(results[i].cResult)
	}
	if w.err != nil {
		return w.err
	}
	if err := o.l.do(w, "infer", o.c.infer, o.at, address(d.at), address(&list[0]), uintptr(len(list))); err != nil {
		return o.about(n, err)
	}
	for i, r := range results {
		t, err := o.result(c, d, r)
		if err != nil {
			return o.about(n, fmt.Errorf("%w: output %d: %w", ErrPlugin, i, err))
		}
		c.SetType(i, t)
	}
	return o.checked(n)
}

// checked returns an error where a result is of a type that the schema does not admit.
func (o *ownOperator) checked(n *graph.Node) error {
	if err := graph.CheckNode(n); err != nil {
		return o.about(n, fmt.Errorf("%w: %w", ErrPlugin, err))
	}
	return nil
}

// ownResult is a result as infer describes it. Where its dims lie is not looked up there.
type ownResult struct {
	*cResult
	room []cDim
}

// result reads what infer says of one result.
func (o *ownOperator) result(c *graph.Inference, d *description, from ownResult) (graph.Type, error) {
	r, dt := *from.cResult, c.DType(0)
	if r.typ != 0 {
		if dt = tensor.DType(uint8(r.typ)); int32(dt) != r.typ || dt.Name() == "" || dt.Size() == 0 && !dt.IsPacked() {
			return graph.Type{}, fmt.Errorf("elements of type %d", r.typ)
		}
	}
	if r.ndim == -1 {
		return graph.TensorType(dt, nil), nil
	}
	if r.ndim < 0 || r.ndim > maxRank {
		return graph.Type{}, fmt.Errorf("rank %d", r.ndim)
	}
	shape := graph.Shape{}
	for _, x := range from.room[:r.ndim] {
		dim, err := d.dim(c, x)
		if err != nil {
			return graph.Type{}, err
		}
		shape = append(shape, dim)
	}
	return graph.TensorType(dt, shape), nil
}

// dim reads one dim of a result.
func (d *description) dim(c *graph.Inference, x cDim) (graph.Dim, error) {
	switch {
	case x.symbol == 0 && x.value == -1:
		return c.Fresh(), nil
	case x.symbol == 0 && (x.value < 0 || x.value > math.MaxInt32<<16):
		return graph.Dim{}, fmt.Errorf("a dim of %d", x.value)
	case x.symbol == 0:
		return graph.D(int(x.value)), nil
	case int64(x.symbol) > int64(len(d.symbols)):
		return graph.Dim{}, fmt.Errorf("symbol %d of %d", x.symbol, len(d.symbols))
	case x.factor < 0 || x.divisor < 0 || max(x.factor, x.divisor) > math.MaxInt32 || x.offset > math.MaxInt32 || x.offset < -math.MaxInt32:
		return graph.Dim{}, fmt.Errorf("a dim of symbol %d times %d plus %d, divided by %d", x.symbol, x.factor, x.offset, x.divisor)
	}
	dim := d.symbols[x.symbol-1].Scale(max(x.factor, 1)).Add(graph.D(int(x.offset)))
	if x.divisor > 1 {
		dim = dim.FloorDiv(graph.D(int(x.divisor)))
	}
	if dim.TooComplex() {
		return c.Fresh(), nil
	}
	return dim, nil
}

// alone returns a graph with a copy of node n of the operator in it, whose operands are those: constants where they hold data.
func alone(n *graph.Node, operand func(i int) (graph.Type, *tensor.Tensor, error)) (*graph.Graph, *graph.Node, error) {
	g := graph.New(n.Name)
	g.Opsets[n.Op.Domain] = n.Op.Since
	spec := graph.NodeSpec{Op: n.Op, Name: n.Name, Attrs: n.Attrs}
	seen := map[*graph.Value]*graph.Value{}
	for i, v := range n.Inputs {
		if v == nil {
			spec.Inputs = append(spec.Inputs, nil)
			continue
		}
		if seen[v] == nil {
			t, data, err := operand(i)
			switch {
			case err != nil:
				return nil, nil, err
			case data != nil:
				seen[v] = g.AddConst(v.Name, data)
			default:
				seen[v] = g.AddInput(v.Name, t)
			}
		}
		spec.Inputs = append(spec.Inputs, seen[v])
	}
	for i, v := range n.Outputs {
		name := ""
		if v != nil {
			name = fmt.Sprintf("%s.%d", n.Label(), i)
		}
		spec.Outputs = append(spec.Outputs, name)
	}
	m := g.AddNode(spec)
	m.Schema, m.Op = n.Schema, n.Op
	var outputs []*graph.Value
	for i, v := range m.Outputs {
		if n.Outputs[i] == nil {
			m.Outputs[i] = nil // a single one that is left out
		} else if v != nil {
			outputs = append(outputs, v)
		}
	}
	g.SetOutputs(outputs...)
	return g, m, nil
}
