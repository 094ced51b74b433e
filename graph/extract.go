package graph

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Errors of Extract and Inline, for errors.Is.
var (
	ErrNotConvex = errors.New("the set of nodes is not convex")
	ErrNodeSet   = errors.New("bad set of nodes")
	ErrNoBody    = errors.New("the node has no body that could be inlined")
	ErrOperator  = errors.New("no operator for a node that stands for others")
)

// Extract moves nodes of g into the region "body" of a new node that takes their place, and returns that node. Operator,
// name and attributes come from spec; its operands, results and regions are ignored.
//
// The nodes keep their identity but get ids of the body; so do the values between them. Order in the body is the given
// one where that is topological, otherwise a topological one. The inputs of the new node are the distinct values from
// outside, in order of first use, whatever reads them inside taking the body's input of the same index; constants and
// dims values are cloned inside instead, sharing their data, and removed outside where nothing else reads them. Its
// outputs are the values that are read outside, or are outputs of g, in order of definition. Names, types, formats and
// known contents go with the values. The provenance is that of the nodes in order, unless spec gives another.
//
// The error wraps ErrNodeSet (an empty set, a node given twice, one that is not g's) or ErrNotConvex. The first call costs
// O(V+E); others cost O(set + boundary + what lies between the set's first and last node in topological order), as long as
// edges are not changed by other means against that order.
func (g *Graph) Extract(nodes []*Node, spec NodeSpec) (*Node, error) {
	return g.extract(nodes, spec, false)
}

// Fuse is Extract for units that are run as one operator: constants are inputs of the new node like other values, so that
// its signatures can name formats for them.
func (g *Graph) Fuse(nodes []*Node, spec NodeSpec) (*Node, error) {
	return g.extract(nodes, spec, true)
}

func (g *Graph) extract(nodes []*Node, spec NodeSpec, open bool) (*Node, error) {
	set := g.marks(len(nodes))
	for _, n := range nodes {
		if n == nil || n.graph != g || set.has(n) {
			return nil, fmt.Errorf("%w: %v is not of the graph, or given twice", ErrNodeSet, n)
		}
		set.add(n)
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrNodeSet)
	}
	r, err := g.ranked()
	if err != nil {
		return nil, err
	}
	for _, n := range nodes { // nodes without operands have no rank when they are new
		if r.grow(n.ID); r.of[n.ID] == 0 {
			g.order = nil
			if r, err = g.ranked(); err != nil {
				return nil, err
			}
			break
		}
	}
	before, after, ok := r.region(&set, nodes)
	if !ok {
		return nil, fmt.Errorf("%w: %d nodes from %v on", ErrNotConvex, len(nodes), nodes[0])
	}
	nodes = inOrder(nodes, &set, r)
	x := extraction{g: g, body: New(spec.Name), open: open}
	g.order = nil // use lists are taken apart
	members := make([]int64, len(nodes))
	place := 0
	for i, n := range nodes {
		members[i], r.of[n.ID] = r.of[n.ID], 0
		place = max(place, n.pos)
	}
	x.move(nodes)
	x.operands()
	n := x.node(spec, place)
	if r.contract(n, members, before, after) {
		slices.Sort(members)
		x.body.members = members
	}
	g.order = r
	return n, nil
}

// inOrder returns the nodes in the given order where that is topological, else by rank.
func inOrder(nodes []*Node, set *marks, r *ranks) []*Node {
	last := int64(0)
	for _, n := range nodes { // by rank it is topological, as it nearly always is
		if r.of[n.ID] < last {
			last = math.MaxInt64
			break
		}
		last = r.of[n.ID]
	}
	if last < math.MaxInt64 {
		return nodes
	}
	var seen marks
	for _, n := range nodes {
		for _, v := range n.Operands() {
			if p := v.Producer; p != nil && set.has(p) && !seen.has(p) {
				out := slices.Clone(nodes)
				slices.SortFunc(out, func(a, b *Node) int { return cmp.Compare(r.of[a.ID], r.of[b.ID]) })
				return out
			}
		}
		seen.add(n)
	}
	return nodes
}

// extraction is one call of Extract.
type extraction struct {
	g, body *Graph
	open    bool              // constants are inputs
	inputs  []*Value          // of the new node
	own     []*Value          // the body's, one for each of inputs and each constant that was cloned
	outer   []*Value          // what each of them stands for
	inner   map[*Value]*Value // the same as a table, where they are many
	slab    []Value           // values that are not in use yet
	more    int               // operands from outside that have not been looked at
}

// move takes the nodes and their results out of g and into the body.
func (x *extraction) move(nodes []*Node) {
	x.body.nodes = make([]*Node, 0, len(nodes))
	for _, n := range nodes {
		x.g.nodes[n.pos] = nil
		x.g.live--
		x.body.adopt(n)
	}
}

// adopt appends a node that belongs to no list, with its results. Its operands stay as they are.
func (g *Graph) adopt(n *Node) {
	n.graph, n.ID, n.pos = g, int(g.nodeIDs), len(g.nodes)
	g.nodeIDs++
	g.nodes = append(g.nodes, n)
	g.live++
	for _, v := range n.Outputs {
		if v != nil {
			g.adoptValue(v)
		}
	}
}

func (g *Graph) adoptValue(v *Value) {
	v.graph, v.ID = g, int(g.values)
	g.values++
}

// operands makes the nodes read the body's own values in place of those outside.
func (x *extraction) operands() {
	for _, n := range x.body.nodes {
		for k := range n.slots {
			if v := n.Operand(k); v != nil && v.graph != x.body {
				x.more++
			}
		}
	}
	most := min(x.more, 4*fewValues)
	lists := make([]*Value, 3*most)
	x.own, x.outer, x.inputs = lists[:0:most], lists[most:most:2*most], lists[2*most:2*most]
	if x.open {
		x.body.Inputs = make([]*Value, 0, most)
	}
	for _, n := range x.body.nodes {
		for k := range n.slots {
			v := n.Operand(k)
			if v == nil || v.graph == x.body {
				continue
			}
			v.removeUse(n, k)
			in := x.param(v)
			x.more--
			if k < len(n.Inputs) {
				n.Inputs[k] = in
			} else {
				n.Captures[k-len(n.Inputs)] = in
			}
			in.addUse(n, k)
		}
	}
}

// fewValues is how many values are found again by looking at all of them, and are allocated at a time.
const fewValues = 8

// param returns the body's value for v of g.
func (x *extraction) param(v *Value) *Value {
	if x.inner != nil {
		if in := x.inner[v]; in != nil {
			return in
		}
	} else if i := slices.Index(x.outer, v); i >= 0 {
		return x.own[i]
	}
	in := x.value()
	if v.kind == kindConst && !x.open || v.kind == kindDims {
		x.body.addClone(in, v)
		x.body.sources = append(x.body.sources, source{in, v})
	} else {
		x.body.define(in, v.Name, v.Type, kindInput)
		x.body.Inputs = append(x.body.Inputs, in)
		in.Format, in.Dims = v.Format, v.Dims
		x.inputs = append(x.inputs, v)
	}
	x.own, x.outer = append(x.own, in), append(x.outer, v)
	if x.inner == nil && len(x.outer) > fewValues {
		x.inner = make(map[*Value]*Value, min(len(x.outer)+x.more, 1<<10))
		for i, o := range x.outer {
			x.inner[o] = x.own[i]
		}
	} else if x.inner != nil {
		x.inner[v] = in
	}
	return in
}

// value returns a value of no graph yet.
func (x *extraction) value() *Value {
	if len(x.slab) == 0 {
		x.slab = make([]Value, max(1, min(x.more, fewValues)))
	}
	v := &x.slab[0]
	x.slab = x.slab[1:]
	return v
}

// cloneConst adds a constant or dims value that shares the data of v.
func (g *Graph) cloneConst(v *Value) *Value {
	c := new(Value)
	g.addClone(c, v)
	return c
}

// addClone makes c, which is of no graph, a constant or dims value that shares the data of v.
func (g *Graph) addClone(c, v *Value) {
	g.define(c, v.Name, v.Type, v.kind)
	c.Const, c.Dims, c.Format = v.Const, v.Dims, v.Format
	c.pos = int32(len(g.consts))
	g.consts = append(g.consts, c)
}

// node makes the new node at that position of the list, and hands the results that are read outside over to it.
func (x *extraction) node(spec NodeSpec, place int) *Node {
	for _, s := range x.body.sources {
		if len(s.outer.uses) == 0 && s.outer.output == 0 {
			x.g.RemoveConst(s.outer)
		}
	}
	origins := spec.Origins
	if origins == nil {
		origins = mergedProvenance(x.body.nodes)
	}
	n := x.g.AddNode(NodeSpec{Op: spec.Op, Name: spec.Name, Attrs: spec.Attrs, Inputs: x.inputs,
		Regions: []Region{{"body", x.body}}, Origins: origins})
	x.g.nodes = x.g.nodes[:n.pos]
	n.pos = place
	x.g.nodes[place] = n
	var outputs []*Value
	for _, m := range x.body.nodes {
		for _, v := range m.Outputs {
			if v == nil {
				continue
			}
			if x.handOver(n, v) {
				outputs = append(outputs, v)
			}
		}
	}
	x.body.SetOutputs(outputs...)
	return n
}

// handOver gives n an output in place of the inner value v where something outside reads v, and reports whether it did.
func (x *extraction) handOver(n *Node, v *Value) bool {
	var outer *Value
	need := func() *Value {
		if outer == nil {
			n.Outputs = append(n.Outputs, nil)
			outer = n.newOutput(len(n.Outputs)-1, v.Name)
			outer.Type, outer.Format, outer.Dims = v.Type, v.Format, v.Dims
		}
		return outer
	}
	for i := len(v.uses) - 1; i >= 0; i-- { // SetOperand moves the last use into the gap, which was looked at before
		if u := v.uses[i]; u.Node.graph == x.g {
			u.Node.SetOperand(u.Slot, need())
		}
	}
	if v.output > 0 {
		x.g.MoveOutputs(v, need())
	}
	return outer != nil
}

// mergedProvenance returns the provenance of all nodes, in order, each name once. It is never nil.
func mergedProvenance(nodes []*Node) []string {
	count := 0
	for _, n := range nodes {
		count += max(1, len(n.Origins))
	}
	out := make([]string, 0, count)
	var seen map[string]bool // of many names
	if count > 2*fewValues {
		seen = make(map[string]bool, count)
	}
	for _, n := range nodes {
		list := n.Origins
		if list == nil {
			if n.Name == "" {
				continue
			}
			list = []string{n.Name}
		}
		for _, s := range list {
			if seen == nil && !slices.Contains(out, s) {
				out = append(out, s)
			} else if seen != nil && !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	return out
}
