// Package single keeps compiled operators for calls of one operator at a time: what a call is, the graph of one node that stands
// for it, and a bounded cache of what was made of these graphs, which is asked without an allocation.
package single

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// ErrCall is wrapped by errors about calls that no operator can have: an unknown one, a wrong number of inputs or outputs.
var ErrCall = errors.New("bad call of an operator")

// mostContent is the most elements of an input whose content decides shapes.
const mostContent = 64

// Call is one operator with its attributes, on tensors of some types and shapes.
type Call struct {
	Op      string // "Conv"; of another domain than the default "com.microsoft.Gelu"
	Attrs   []graph.Attr
	Inputs  []*tensor.Tensor // nil for omitted ones
	Outputs int              // number of results; 0 means those that the operator has in any case

	content bool // small inputs are constants: shapes depend on them
	hash    uint64
}

// clone returns a copy that shares no list with the caller's, nor the storage of inputs, but for content.
func (c *Call) clone() (*Call, error) {
	own := &Call{Op: strings.Clone(c.Op), Outputs: c.Outputs, content: c.content, hash: c.hash}
	for _, a := range c.Attrs {
		a.Name, a.Str = strings.Clone(a.Name), strings.Clone(a.Str)
		a.Ints, a.Floats, a.Strs, a.Tensors, a.Dims = slices.Clone(a.Ints), slices.Clone(a.Floats), slices.Clone(a.Strs), slices.Clone(a.Tensors), slices.Clone(a.Dims)
		own.Attrs = append(own.Attrs, a)
	}
	for i, t := range c.Inputs {
		if t == nil {
			own.Inputs = append(own.Inputs, nil)
			continue
		}
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("%w: input %d of %s: %w", ErrCall, i, c.Op, err)
		}
		x := &tensor.Tensor{DType: t.DType, Shape: slices.Clone(t.Shape)}
		if c.content && decides(i, t, c.Op) {
			var err error
			if x, err = t.Clone(); err != nil {
				return nil, err
			}
		}
		own.Inputs = append(own.Inputs, x)
	}
	return own, nil
}

// decides reports whether the content of an input may decide shapes: axes, sizes, limits. The first input is data but for operators
// that make a tensor of nothing else.
func decides(i int, t *tensor.Tensor, op string) bool {
	return t.Device.IsHost() && t.DType != tensor.String && len(t.Shape) <= 1 && t.Len() <= mostContent &&
		(i > 0 || op == "Range" || op == "ConstantOfShape")
}

// Runtime reports whether input i is given at each run; others are omitted, or constants of what was compiled.
func (c *Call) Runtime(i int) bool {
	t := c.Inputs[i]
	return t != nil && !(c.content && decides(i, t, c.Op))
}

// FNV-1a.
const (
	offset64 = 14695981039346656037
	prime64  = 1099511628211
)

// sum hashes what equal compares, but for tensors of attributes.
func (c *Call) sum() uint64 {
	h := hashString(offset64, c.Op)
	for i := range c.Attrs {
		a := &c.Attrs[i]
		h = hashString(h, a.Name)
		h = hashInt(hashInt(h, a.Int), int64(a.Float*1024))
		h = hashString(h, a.Str)
		for _, x := range a.Ints {
			h = hashInt(h, x)
		}
	}
	for i, t := range c.Inputs {
		if t == nil {
			h = hashInt(h, -1)
			continue
		}
		h = hashInt(h, int64(t.DType))
		for _, n := range t.Shape {
			h = hashInt(h, int64(n))
		}
		if !c.Runtime(i) && t.IsCompact() {
			for _, b := range t.Bytes() {
				h = (h ^ uint64(b)) * prime64
			}
		}
	}
	return hashInt(h, int64(c.Outputs))
}

func hashString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * prime64
	}
	return (h ^ 255) * prime64
}

func hashInt(h uint64, n int64) uint64 {
	h = (h ^ uint64(n)) * prime64
	return (h ^ h>>29) * prime64
}

// equal reports whether two calls are served by the same graph.
func (c *Call) equal(o *Call) bool {
	if c.Op != o.Op || c.Outputs != o.Outputs || c.content != o.content || len(c.Attrs) != len(o.Attrs) || len(c.Inputs) != len(o.Inputs) {
		return false
	}
	for i := range c.Attrs {
		if !sameAttr(&c.Attrs[i], &o.Attrs[i]) {
			return false
		}
	}
	for i, t := range c.Inputs {
		u := o.Inputs[i]
		if t == nil || u == nil {
			if t != u {
				return false
			}
			continue
		}
		if t.DType != u.DType || !slices.Equal(t.Shape, u.Shape) || !c.Runtime(i) && !sameContent(t, u) {
			return false
		}
	}
	return true
}

func sameAttr(a, b *graph.Attr) bool {
	return a.Name == b.Name && a.Kind == b.Kind && a.Int == b.Int && a.Float == b.Float && a.Str == b.Str && slices.Equal(a.Ints, b.Ints) &&
		slices.Equal(a.Floats, b.Floats) && slices.Equal(a.Strs, b.Strs) && sameTensor(a.Tensor, b.Tensor) &&
		slices.EqualFunc(a.Tensors, b.Tensors, sameTensor) && slices.EqualFunc(a.Dims, b.Dims, graph.Dim.Equal) && a.Type.Equal(b.Type)
}

func sameTensor(a, b *tensor.Tensor) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && sameContent(a, b)
}

func sameContent(a, b *tensor.Tensor) bool {
	if !a.IsCompact() || !b.IsCompact() {
		var err, err2 error
		a, err = a.Clone()
		b, err2 = b.Clone()
		if err != nil || err2 != nil {
			return false
		}
	}
	return slices.Equal(a.Strings, b.Strings) && bytes.Equal(a.Bytes(), b.Bytes())
}

// graph returns the graph of one node. Its inputs are those that Runtime tells, in their order. The error wraps ErrCall, or is that
// of the inference of shapes.
func (c *Call) graph() (*graph.Graph, error) {
	g := graph.New(c.Op)
	op := graph.Op{Name: c.Op}
	if i := strings.LastIndexByte(c.Op, '.'); i >= 0 {
		op.Domain, op.Name = c.Op[:i], c.Op[i+1:]
	}
	schema := graph.LookupSchema(op.Domain, op.Name, 1<<30)
	if schema == nil {
		return nil, fmt.Errorf("%w: no operator %q is known", ErrCall, c.Op)
	}
	g.Opsets[op.Domain] = schema.Since
	spec := graph.NodeSpec{Op: op, Name: op.Name, Attrs: c.Attrs}
	for i, t := range c.Inputs {
		if t == nil {
			spec.Inputs = append(spec.Inputs, nil)
			continue
		}
		name := paramName(schema.Inputs, i)
		if c.Runtime(i) {
			spec.Inputs = append(spec.Inputs, g.AddInput(name, graph.TypeOf(t)))
		} else {
			spec.Inputs = append(spec.Inputs, g.AddConst(name, t))
		}
	}
	n, err := c.results(schema)
	if err != nil {
		return nil, err
	}
	for i := range n {
		spec.Outputs = append(spec.Outputs, "result "+paramName(schema.Outputs, i))
	}
	g.SetOutputs(g.AddNode(spec).Outputs...)
	if err := graph.Verify(g); err != nil {
		return nil, err
	}
	return g, graph.InferGraph(g)
}

// paramName names port i: each name is unique.
func paramName(list []graph.Param, i int) string {
	if i < len(list) && !list[i].Variadic {
		return list[i].Name
	}
	name := "extra"
	if len(list) > 0 {
		name = list[len(list)-1].Name
	}
	return fmt.Sprintf("%s %d", name, i)
}

// results returns how many results the node has.
func (c *Call) results(s *graph.Schema) (int, error) {
	least, most := 0, len(s.Outputs)
	for _, p := range s.Outputs {
		switch {
		case p.Variadic:
			least, most = least+1, 1<<10
		case !p.Optional:
			least++
		}
	}
	n := c.Outputs
	if n == 0 {
		n = max(least, 1)
		if most > len(s.Outputs) {
			n = c.parts(least)
		}
	}
	if n < least || n > most {
		return 0, fmt.Errorf("%w: %s with %d results, of %d to %d", ErrCall, c.Op, n, least, most)
	}
	return n, nil
}

// parts returns the number of variadic results that attributes or the second input tell.
func (c *Call) parts(least int) int {
	if a := graph.Attrs(c.Attrs).Lookup("num_outputs"); a != nil && a.Int > 0 && a.Int < 1<<10 {
		return int(a.Int)
	}
	if len(c.Inputs) > 1 && c.Inputs[1] != nil && len(c.Inputs[1].Shape) == 1 {
		return c.Inputs[1].Shape[0]
	}
	return least
}
