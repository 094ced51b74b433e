package graph

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/carve-dev/carve/graph/tensor"
)

// ShapeChecks is what a graph asks of the shapes of a run. Types that were inferred for open dims hold for all runs whose
// operands do not contradict each other; this finds those whose do. It keeps copies of nodes with open dims, one of those
// that are alike in operator, attributes and types, and nothing else of the graph, which may change afterwards. It is
// safe for concurrent use.
type ShapeChecks struct {
	nodes  []shapeCheck // in the order of the graph
	ports  []int32      // of one node after another: places of its operands, then of its results, in values; -1 where one is omitted
	values []openValue

	mu   sync.Mutex
	some map[string][]bool // by symbols, in order: which nodes see one of them
}

// shapeCheck is a copy of a node.
type shapeCheck struct {
	op              Op
	name            string
	attrs           Attrs
	schema          *Schema
	inputs, outputs int32 // how many, omitted ones included
	full            bool  // there is nothing to find where all dims are positive
}

// openValue is what inference has found out about a value for open dims.
type openValue struct {
	name  string
	typ   Type
	dims  []Dim
	konst *tensor.Tensor // of operands, where inference may read it
}

// NewShapeChecks returns what inferred graphs ask of shapes. Of control flow, of which a run may leave out parts, it asks
// nothing; the bodies of carve's own operators are part of the graph. It costs O(V+E).
func NewShapeChecks(graphs ...*Graph) *ShapeChecks {
	c := shapeCollector{seed: maphash.MakeSeed(), byHash: map[uint64]int32{}}
	for _, g := range graphs {
		if g != nil {
			c.collect(g)
		}
	}
	return c.copies()
}

// Graph returns the nodes that are kept as a graph whose text form keeps them: NewShapeChecks of it checks the same.
func (c *ShapeChecks) Graph() *Graph {
	g := New("shape checks")
	if c == nil {
		return g
	}
	known := make([]*Value, len(c.values))
	operand := func(at int32) *Value {
		if at < 0 {
			return nil
		}
		v := &c.values[at]
		switch {
		case known[at] != nil:
		case v.konst != nil:
			known[at] = g.AddConst(v.name, v.konst)
		default:
			known[at] = g.AddInput(v.name, v.typ)
			known[at].Dims = v.dims
		}
		return known[at]
	}
	ports := c.ports
	for i := range c.nodes {
		n := &c.nodes[i]
		ins, outs := ports[:n.inputs], ports[n.inputs:n.inputs+n.outputs]
		ports = ports[n.inputs+n.outputs:]
		spec := NodeSpec{Op: n.op, Name: n.name, Attrs: n.attrs}
		for _, at := range ins {
			spec.Inputs = append(spec.Inputs, operand(at))
		}
		for k, at := range outs {
			name := ""
			if at >= 0 {
				name = "result" + itoa(k) // an empty name would omit it
			}
			spec.Outputs = append(spec.Outputs, name)
		}
		m := g.AddNode(spec)
		m.Op, m.Schema = n.op, n.schema
		for k, at := range outs {
			if at < 0 || m.Outputs[k] == nil {
				continue
			}
			v := &c.values[at]
			m.Outputs[k].Name, m.Outputs[k].Type, m.Outputs[k].Dims = v.name, v.typ, v.dims
			if known[at] == nil {
				known[at] = m.Outputs[k]
			}
		}
	}
	return g
}

// Check reports whether the graph can run with the values that b gives to symbols: it infers the nodes for them, and compares
// the results with the types for open dims. Symbols that b does not have stay open. It costs about as much as InferNode
// for each of the nodes that are not alike. The error names the first such node: an *InferError, or one that wraps
// ErrShapeMismatch.
func (c *ShapeChecks) Check(b Bindings) error { return c.check(b, nil, false) }

// Settle is Check that also gives b the values of symbols that name dims of results which no operand of the graph has: those that a node's
// operands determine, though no expression that is worth carrying says how.
func (c *ShapeChecks) Settle(b Bindings) error { return c.check(b, nil, true) }

// CheckSince is Check where it has found nothing for other values of the same symbols: it looks at the nodes that see one of
// those that have changed.
func (c *ShapeChecks) CheckSince(b, passed Bindings) error {
	if c == nil || len(c.nodes) == 0 {
		return nil
	}
	var changed []string
	for s, n := range b {
		old, ok := passed[s]
		if !ok {
			return c.check(b, nil, false)
		}
		if old != n {
			changed = append(changed, s)
		}
	}
	if len(b) != len(passed) {
		return c.check(b, nil, false)
	}
	slices.Sort(changed)
	return c.check(b, c.seeing(changed), false)
}

// maxSeeing bounds the sets of symbols for which it is kept which nodes see them.
const maxSeeing = 64

// seeing returns which nodes see one of these symbols.
func (c *ShapeChecks) seeing(symbols []string) []bool {
	key := strings.Join(symbols, "\x00")
	c.mu.Lock()
	defer c.mu.Unlock()
	if list, ok := c.some[key]; ok {
		return list
	}
	list, ports, set := make([]bool, len(c.nodes)), c.ports, map[string]bool{}
	for i := range c.nodes {
		n := &c.nodes[i]
		own := ports[:n.inputs+n.outputs]
		ports = ports[len(own):]
		clear(set)
		for _, at := range own {
			if at < 0 {
				continue
			}
			for _, dims := range [][]Dim{c.values[at].typ.Shape, c.values[at].dims} {
				for _, d := range dims {
					d.Symbols(set)
				}
			}
		}
		list[i] = slices.ContainsFunc(symbols, func(s string) bool { return set[s] })
	}
	if c.some == nil || len(c.some) == maxSeeing {
		c.some = map[string][]bool{}
	}
	c.some[key] = list
	return list
}

// check is Check of the nodes that some marks, of all where it is nil.
func (c *ShapeChecks) check(b Bindings, some []bool, settle bool) error {
	if c == nil || len(c.nodes) == 0 {
		return nil
	}
	d := detachments.Get().(*detachment)
	var infers Inference
	sub, ports := shapeValues{b: b}, c.ports
	for i := range c.nodes {
		n := &c.nodes[i]
		own := ports[:n.inputs+n.outputs]
		ports = ports[len(own):]
		if some != nil && !some[i] || n.full && c.isFull(own, b) {
			continue
		}
		m := c.detached(d, n, own, &sub)
		if !sub.changed {
			continue
		}
		if err := infers.infer(m); err != nil {
			return err
		}
		for k := range m.Outputs {
			at := own[int(n.inputs)+k]
			if at < 0 {
				continue
			}
			if settle && settleDims(c.values[at].typ.Shape, m.Outputs[k].Type.Shape, b) {
				sub.sub = nil
			}
			if err := sameResult(m, k, &c.values[at], b); err != nil {
				return err
			}
		}
	}
	d.clear()
	detachments.Put(d) // not where there is an error, which speaks of what is in it
	return nil
}

// settleDims gives b the values of the symbols of open that it lacks and that static has numbers for, and reports whether there are some.
func settleDims(open, static Shape, b Bindings) (some bool) {
	if len(open) != len(static) {
		return false
	}
	for k, d := range open {
		name, ok := d.Symbol()
		n, isConst := static[k].Const()
		if _, bound := b[name]; ok && isConst && !bound {
			b[name], some = n, true
		}
	}
	return some
}

// detached returns a copy of a node in a graph of its own, with values in place of symbols.
func (c *ShapeChecks) detached(d *detachment, n *shapeCheck, ports []int32, sub *shapeValues) *Node {
	m := d.node(n.name, int(n.inputs), int(n.outputs))
	m.Op, m.Attrs, m.Schema = n.op, n.attrs, n.schema
	sub.begin()
	for k, at := range ports {
		if at < 0 {
			continue
		}
		v := &c.values[at]
		if k >= int(n.inputs) {
			d.result(k-int(n.inputs), v.name, v.typ)
			continue
		}
		w := d.operand(k)
		w.Name, w.Type, w.Const = v.name, v.typ, v.konst
		w.Type.Shape, w.Dims = sub.put(v.typ.Shape), sub.put(v.dims)
	}
	return m
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
func sameResult(n *Node, i int, before *openValue, b Bindings) error {
	v := n.Outputs[i]
	if comesTo(before.typ.Shape, v.Type.Shape, b) && before.dims == nil && v.Dims == nil {
		return nil // as nearly always; the rest is about the other cases
	}
	if before.typ.Shape != nil && v.Type.Shape != nil {
		dims, err := before.typ.Shape.Eval(b, nil)
		if t := TensorType(v.Type.DType, ShapeOf(dims...)); err == nil && !t.MayBe(v.Type) { // an error: only the run knows
			return portError(n, true, i, ErrShapeMismatch, t.String()+", as inferred from "+before.typ.String(), v.Type.String())
		}
	}
	if len(before.dims) != len(v.Dims) {
		return nil
	}
	for k, d := range before.dims {
		want, err := d.Eval(b)
		if got, ok := v.Dims[k].Const(); err == nil && ok && got != want {
			return portError(n, true, i, ErrShapeMismatch, Shape(before.dims).String(), Shape(v.Dims).String())
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

// detachments are those that no check is using.
var detachments = sync.Pool{New: func() any { return &detachment{} }}

// node returns a node of that name, without operator, operands and results, in a graph of its own.
func (d *detachment) node(name string, inputs, outputs int) *Node {
	ports := inputs + outputs
	if cap(d.values) < ports {
		d.values, d.list = make([]Value, ports), make([]*Value, ports)
	}
	d.values, d.list = d.values[:ports], d.list[:ports]
	clear(d.values)
	clear(d.list)
	d.g = Graph{Name: name, freshDims: detachedDims}
	d.n = Node{Name: name, graph: &d.g, Inputs: d.list[:inputs], Outputs: d.list[inputs:]}
	return &d.n
}

// clear lets go of the copy.
func (d *detachment) clear() {
	clear(d.values[:cap(d.values)])
	clear(d.list[:cap(d.list)])
	d.g, d.n = Graph{}, Node{}
}

// operand gives the node its operand i, and returns it to be filled in.
func (d *detachment) operand(i int) *Value {
	v := &d.values[i]
	v.graph, d.list[i] = &d.g, v
	return v
}

// result gives the node its result i, with a name and of a type nothing but the element type.
func (d *detachment) result(i int, name string, t Type) {
	at := len(d.n.Inputs) + i
	v := &d.values[at]
	v.Name, v.Type, v.graph, v.Producer, v.Index = name, withoutShape(t), &d.g, &d.n, i
	d.list[at] = v
}

// detachedDims keeps the fresh dims of detached nodes apart from those that their operands may speak of.
const detachedDims = 1 << 30

// shapeCollector finds the nodes that a ShapeChecks keeps.
type shapeCollector struct {
	nodes  []*Node
	ports  int // of all of them
	seed   maphash.Seed
	byHash map[uint64]int32 // one more than the place of the last node with a hash
	before []int32          // of each node: the same of the one with its hash before it, 0 for none
}

func (c *shapeCollector) collect(g *Graph) {
	for n := range g.Nodes() {
		switch {
		case n.carveName() != "":
			for _, r := range n.Regions {
				c.collect(r.Graph)
			}
		case n.Schema != nil && n.Schema.Infer != nil && len(n.Regions) == 0 && hasOpenOperand(n) && !holdsAlways(n):
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

// add takes n, unless there is a node like it.
func (c *shapeCollector) add(n *Node) {
	h := c.hash(n)
	last := c.byHash[h]
	for at := last; at > 0; at = c.before[at-1] {
		if alike(c.nodes[at-1], n) {
			return
		}
	}
	c.nodes, c.before, c.ports = append(c.nodes, n), append(c.before, last), c.ports+len(n.Inputs)+len(n.Outputs)
	c.byHash[h] = int32(len(c.nodes))
}

// copies returns copies of the nodes, and one of each of their values.
func (c *shapeCollector) copies() *ShapeChecks {
	out := &ShapeChecks{nodes: make([]shapeCheck, len(c.nodes)), ports: make([]int32, 0, c.ports)}
	values := make([]*Value, 0, c.ports)
	places := map[*Graph][]int32{} // of values in the list, by id, each one more than it
	for i, n := range c.nodes {
		out.nodes[i] = shapeCheck{op: n.Op, name: n.Name, attrs: n.Attrs, schema: n.Schema, inputs: int32(len(n.Inputs)), outputs: int32(len(n.Outputs)), full: holdsWhenFull(n)}
		place := places[n.graph]
		if place == nil {
			place = make([]int32, n.graph.ValueIDs())
			places[n.graph] = place
		}
		for _, list := range [2][]*Value{n.Inputs, n.Outputs} {
			for _, v := range list {
				if v == nil {
					out.ports = append(out.ports, -1)
					continue
				}
				if place[v.ID] == 0 {
					values = append(values, v)
					place[v.ID] = int32(len(values))
				}
				out.ports = append(out.ports, place[v.ID]-1)
			}
		}
	}
	out.values = make([]openValue, len(values))
	for i, v := range values {
		out.values[i] = openValue{v.Name, v.Type, v.Dims, readable(v)}
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

// alike reports whether inference has the same to say of two nodes.
func alike(m, n *Node) bool {
	same := func(v, w *Value) bool {
		return v == w || v != nil && w != nil &&
			v.Type.Equal(w.Type) && (v.Dims == nil) == (w.Dims == nil) && slices.EqualFunc(v.Dims, w.Dims, Dim.Equal)
	}
	return m.Op == n.Op && m.Schema == n.Schema && slices.EqualFunc(m.Attrs, n.Attrs, equalAttrs) &&
		slices.EqualFunc(m.Outputs, n.Outputs, same) &&
		slices.EqualFunc(m.Inputs, n.Inputs, func(v, w *Value) bool {
			if v == w {
				return true
			}
			if !same(v, w) {
				return false
			}
			x, y := readable(v), readable(w)
			return x == y || x != nil && y != nil && equalTensors(x, y)
		})
}
