package graph

import (
	"hash/maphash"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// ShapeChecks is what a graph asks of the shapes of a run. Types that were inferred for open dims hold for all runs whose
// operands do not contradict each other; this finds those whose do. It keeps copies of nodes with open dims, one of those
// that are alike in operator, attributes and types, and nothing else of the graph, which may change afterwards. It is
// immutable.
type ShapeChecks struct {
	nodes []*Node // with types for open dims, in the order of the graph
}

// NewShapeChecks returns what an inferred graph asks of shapes. Of control flow, of which a run may leave out parts, it asks
// nothing; the bodies of carve's own operators are part of the graph. It costs O(V+E).
func NewShapeChecks(g *Graph) *ShapeChecks {
	if g == nil {
		return &ShapeChecks{}
	}
	c := shapeCollector{seed: maphash.MakeSeed(), byHash: map[uint64]int32{}}
	c.collect(g)
	return &ShapeChecks{c.nodes}
}

// Check reports whether the graph can run with the values that b gives to symbols: it infers the nodes for them, and compares
// the results with the types for open dims. Symbols that b does not have stay open. It costs about as much as InferNode
// for each of the nodes that are not alike. The error names the first such node: an *InferError, or one that wraps
// ErrShapeMismatch.
func (c *ShapeChecks) Check(b Bindings) error {
	if c == nil || len(c.nodes) == 0 {
		return nil
	}
	d, sub := &detachment{}, shapeValues{b: b}
	for _, n := range c.nodes {
		sub.begin()
		m := d.of(n, func(_ int, v *Value) (Value, bool) {
			w := Value{Name: v.Name, Type: v.Type, Const: v.Const}
			w.Type.Shape, w.Dims = sub.put(v.Type.Shape), sub.put(v.Dims)
			return w, true
		})
		if !sub.changed {
			continue
		}
		if err := InferNode(m); err != nil {
			return err
		}
		for i, v := range m.Outputs {
			if v == nil {
				continue
			}
			if err := sameResult(m, i, n.Outputs[i], b); err != nil {
				return err
			}
		}
	}
	return nil
}

// shapeValues puts values in place of symbols, for one node after another.
type shapeValues struct {
	b       Bindings
	sub     map[string]Dim // b as dims, made when first needed
	dims    []Dim          // storage of the node's
	changed bool           // there was a symbol that has a value
}

// begin begins with a node; what the one before was given is used again.
func (s *shapeValues) begin() { s.dims, s.changed = s.dims[:0], false }

func (s *shapeValues) put(dims []Dim) []Dim {
	if !hasSymbol(dims) {
		return dims
	}
	from := len(s.dims)
	for _, d := range dims {
		if n, err := d.Eval(s.b); err == nil {
			s.changed = s.changed || d.e != nil
			s.dims = append(s.dims, Dim{c: n})
			continue
		}
		if s.sub == nil {
			s.sub = make(map[string]Dim, len(s.b))
			for name, n := range s.b {
				s.sub[name] = Dim{c: n}
			}
		}
		x := d.Subst(s.sub)
		s.changed = s.changed || !x.Equal(d)
		s.dims = append(s.dims, x)
	}
	return s.dims[from:len(s.dims):len(s.dims)]
}

// sameResult compares output i of a node that was inferred for the values of symbols with what the dims that were inferred
// for open ones come to.
func sameResult(n *Node, i int, before *Value, b Bindings) error {
	v := n.Outputs[i]
	if comesTo(before.Type.Shape, v.Type.Shape, b) && before.Dims == nil && v.Dims == nil {
		return nil // as nearly always; the rest is about the other cases
	}
	if before.Type.Shape != nil && v.Type.Shape != nil {
		dims, err := before.Type.Shape.Eval(b, nil)
		if t := TensorType(v.Type.DType, ShapeOf(dims...)); err == nil && !t.MayBe(v.Type) { // an error: only the run knows
			return portError(n, true, i, ErrShapeMismatch, t.String()+", as inferred from "+before.Type.String(), v.Type.String())
		}
	}
	if len(before.Dims) != len(v.Dims) {
		return nil
	}
	for k, d := range before.Dims {
		want, err := d.Eval(b)
		if got, ok := v.Dims[k].Const(); err == nil && ok && got != want {
			return portError(n, true, i, ErrShapeMismatch, Shape(before.Dims).String(), Shape(v.Dims).String())
		}
	}
	return nil
}

// comesTo reports whether the dims of a shape have values, which are those of another one.
func comesTo(open, static Shape, b Bindings) bool {
	if open == nil || len(open) != len(static) {
		return false
	}
	for k, d := range open {
		n, err := d.Eval(b)
		if err != nil || !static[k].Is(n) || n < 0 {
			return false
		}
	}
	return true
}

// detachment is room for a copy of a node in a graph of its own. The next copy takes the place of the last one.
type detachment struct {
	g      Graph
	n      Node
	values []Value
	list   []*Value
}

// of returns a copy of a node. operand gives the copy of an operand, or that it is to be omitted; results have nothing but
// their names and element types.
func (d *detachment) of(n *Node, operand func(i int, v *Value) (_ Value, ok bool)) *Node {
	ports := len(n.Inputs) + len(n.Outputs)
	if cap(d.values) < ports {
		d.values, d.list = make([]Value, ports), make([]*Value, ports)
	}
	d.values, d.list = d.values[:ports], d.list[:ports]
	clear(d.values)
	clear(d.list)
	d.g = Graph{Name: n.Name, freshDims: detachedDims}
	d.n = Node{Op: n.Op, Name: n.Name, Attrs: n.Attrs, Schema: n.Schema, graph: &d.g}
	for i, was := range n.Inputs {
		if was == nil {
			continue
		}
		v, ok := operand(i, was)
		if !ok {
			continue
		}
		v.graph = &d.g
		d.values[i], d.list[i] = v, &d.values[i]
	}
	for i, was := range n.Outputs {
		if was == nil {
			continue
		}
		v := &d.values[len(n.Inputs)+i]
		v.Name, v.Type, v.graph, v.Producer, v.Index = was.Name, withoutShape(was.Type), &d.g, &d.n, i
		d.list[len(n.Inputs)+i] = v
	}
	d.n.Inputs, d.n.Outputs = d.list[:len(n.Inputs)], d.list[len(n.Inputs):]
	return &d.n
}

// detachedDims keeps the fresh dims of detached nodes apart from those that their operands may speak of.
const detachedDims = 1 << 30

// shapeCollector finds the nodes that a ShapeChecks keeps.
type shapeCollector struct {
	nodes  []*Node
	seed   maphash.Seed
	byHash map[uint64]int32 // one more than the place of the last node with a hash
	before []int32          // of each node: the same of the one with its hash before it, 0 for none

	slabs struct { // nodes, values and lists are cut off their fronts, many being one allocation
		nodes  []Node
		values []Value
		lists  []*Value
	}
}

// cut takes n off the front of a slab, which it replaces where less is left.
func cut[T any](slab *[]T, n int) []T {
	const piece = 32
	if len(*slab) < n {
		*slab = make([]T, max(n, piece))
	}
	out := (*slab)[:n:n]
	*slab = (*slab)[n:]
	return out
}

func (c *shapeCollector) collect(g *Graph) {
	for n := range g.Nodes() {
		switch {
		case n.carveName() != "":
			for _, r := range n.Regions {
				c.collect(r.Graph)
			}
		case n.Schema != nil && n.Schema.Infer != nil && len(n.Regions) == 0 && hasOpenOperand(n):
			c.add(n)
		}
	}
}

// hasOpenOperand reports whether an operand's dims are not all numbers: otherwise inference has seen all there is.
func hasOpenOperand(n *Node) bool {
	for _, v := range n.Inputs {
		if v != nil && (hasSymbol(v.Type.Shape) || hasSymbol(v.Dims)) {
			return true
		}
	}
	return false
}

func hasSymbol(dims []Dim) bool {
	return slices.ContainsFunc(dims, func(d Dim) bool { return d.e != nil })
}

// add keeps a copy of n, without a graph around it, unless there is one of a node like it.
func (c *shapeCollector) add(n *Node) {
	h := c.hash(n)
	last := c.byHash[h]
	for at := last; at > 0; at = c.before[at-1] {
		if alike(c.nodes[at-1], n) {
			return
		}
	}
	m := &cut(&c.slabs.nodes, 1)[0]
	*m = Node{Op: n.Op, Name: n.Name, Attrs: n.Attrs, Schema: n.Schema}
	m.Inputs, m.Outputs = c.copies(n.Inputs), c.copies(n.Outputs)
	for i, v := range n.Inputs {
		if v != nil {
			m.Inputs[i].Const = readable(v)
		}
	}
	c.nodes, c.before = append(c.nodes, m), append(c.before, last)
	c.byHash[h] = int32(len(c.nodes))
}

// copies returns what inference has found out about values.
func (c *shapeCollector) copies(vs []*Value) []*Value {
	out := cut(&c.slabs.lists, len(vs))
	for i, v := range vs {
		if v != nil {
			out[i] = &cut(&c.slabs.values, 1)[0]
			*out[i] = Value{Name: v.Name, Type: v.Type, Dims: v.Dims}
		}
	}
	return out
}

// mostRead is how many elements of a constant of floats inference may read: scales and sizes, not weights.
const mostRead = 1 << 6

// readable returns the data of a constant that inference may read.
func readable(v *Value) *tensor.Tensor {
	t := constOf(v)
	if t == nil || t.DType.IsFloat() && t.Len() > mostRead {
		return nil
	}
	return t
}

func (c *shapeCollector) hash(n *Node) uint64 {
	h := mix(maphash.String(c.seed, n.Op.Name), uint64(len(n.Attrs)))
	for i := range n.Attrs {
		h = mix(h, uint64(n.Attrs[i].Int))
	}
	for _, v := range n.Inputs {
		if v == nil {
			h = mix(h, 1)
			continue
		}
		h = mix(h, uint64(v.Type.DType)<<8|uint64(len(v.Type.Shape)))
		for _, list := range [2][]Dim{v.Type.Shape, v.Dims} {
			for _, d := range list {
				if h = mix(h, uint64(d.c)); d.e != nil {
					h = mix(h, maphash.String(c.seed, d.e.key))
				}
			}
		}
	}
	return h
}

// alike reports whether inference has the same to say of two nodes, the first of which was added.
func alike(m, n *Node) bool {
	same := func(v, w *Value) bool {
		return (v == nil) == (w == nil) && (v == nil || v.Type.Equal(w.Type) && (v.Dims == nil) == (w.Dims == nil) && slices.EqualFunc(v.Dims, w.Dims, Dim.Equal))
	}
	return m.Op == n.Op && m.Schema == n.Schema && slices.EqualFunc(m.Attrs, n.Attrs, equalAttrs) &&
		slices.EqualFunc(m.Outputs, n.Outputs, same) &&
		slices.EqualFunc(m.Inputs, n.Inputs, func(v, w *Value) bool {
			if !same(v, w) || v == nil {
				return v == w
			}
			t := readable(w)
			return v.Const == t || v.Const != nil && t != nil && equalTensors(v.Const, t)
		})
}
