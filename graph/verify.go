package graph

import (
	"fmt"

	"github.com/carve-dev/carve/graph/tensor"
)

// MaxRegionDepth bounds how deep regions may be nested.
const MaxRegionDepth = 64

// Verify checks every invariant of g and of the graphs nested in it, and returns the first violation as a *VerifyError.
// It changes nothing and costs O(V+E), without recursion over nodes.
func Verify(g *Graph) error { return VerifyBut(g, 0) }

// VerifyBut is Verify without one invariant, which a pass that works in several stages leaves open in between.
func VerifyBut(g *Graph, open Invariant) error {
	if g == nil {
		return errNilGraph
	}
	if g.owner == nil && len(g.Captures) > 0 {
		return &VerifyError{Invariant: InvRegions, Graph: g.Name, Reason: fmt.Sprintf("%d captures without an owner", len(g.Captures))}
	}
	return verifyGraph(g, g.Name, 0, open)
}

func verifyGraph(g *Graph, path string, depth int, open Invariant) error {
	v := verifier{g: g, path: path, open: open}
	for _, check := range []func(){v.nodes, v.values, v.operands, v.uses, v.outputs} {
		if check(); v.err != nil {
			return v.err
		}
	}
	if _, err := g.Topo(); err != nil {
		return &VerifyError{Invariant: InvAcyclic, Graph: path, Err: err}
	}
	for _, n := range g.nodes {
		if n == nil {
			continue
		}
		if v.attrs(n); v.err != nil {
			return v.err
		}
		if v.regions(n, depth); v.err != nil {
			return v.err
		}
		if v.formats(n); v.err != nil {
			return v.err
		}
		if err := CheckNode(n); err != nil {
			return &VerifyError{Invariant: InvSchema, Graph: path, Node: n.String(), Err: err}
		}
	}
	for _, n := range g.nodes {
		if n == nil {
			continue
		}
		for _, r := range n.Regions {
			if err := verifyGraph(r.Graph, path+"/"+n.Name+"/"+r.Name, depth+1, open); err != nil {
				return err
			}
		}
	}
	return nil
}

type verifier struct {
	g    *Graph
	path string
	open Invariant // the one that is not checked, 0 for none
	err  error
}

func (c *verifier) fail(i Invariant, n *Node, v *Value, format string, args ...any) {
	if c.err != nil || i == c.open {
		return
	}
	e := &VerifyError{Invariant: i, Graph: c.path, Reason: fmt.Sprintf(format, args...)}
	if n != nil {
		e.Node = n.String()
	}
	if v != nil {
		e.Value = v.String()
	}
	c.err = e
}

// nodes checks invariant 1.
func (c *verifier) nodes() {
	seen := make([]bool, c.g.NodeIDs())
	live := 0
	for i, n := range c.g.nodes {
		switch {
		case n == nil:
			continue
		case n.graph != c.g:
			c.fail(InvNodes, n, nil, "listed by a graph that is not its own")
		case n.pos != i:
			c.fail(InvNodes, n, nil, "at position %d, knows %d", i, n.pos)
		case n.ID < 0 || n.ID >= len(seen) || seen[n.ID]:
			c.fail(InvNodes, n, nil, "id %d is out of range or taken", n.ID)
		}
		if c.err != nil {
			return
		}
		seen[n.ID] = true
		live++
	}
	if live != c.g.live {
		c.fail(InvNodes, nil, nil, "%d nodes listed, %d counted", live, c.g.live)
	}
}

// values checks invariants 2, 3, 10 and 11: it visits the definition of every value.
func (c *verifier) values() {
	seen := make([]bool, c.g.ValueIDs())
	define := func(v *Value, n *Node, kinds ...valueKind) {
		if v == nil {
			c.fail(InvValues, n, nil, "nil in a list of values")
			return
		}
		ok := false
		for _, k := range kinds {
			ok = ok || v.kind == k
		}
		switch {
		case v.graph != c.g:
			c.fail(InvValues, n, v, "belongs to another graph")
		case !ok:
			c.fail(InvValues, n, v, "is of kind %d where it is listed as %v", v.kind, kinds)
		case v.ID < 0 || v.ID >= len(seen):
			c.fail(InvValues, n, v, "id %d is out of range", v.ID)
		case seen[v.ID]:
			c.fail(InvSSA, n, v, "is defined twice, or shares id %d", v.ID)
		}
		if c.err != nil {
			return
		}
		seen[v.ID] = true
		if v.kind != kindResult && v.Producer != nil {
			c.fail(InvSSA, v.Producer, v, "has a producer but is no result")
		}
		c.contents(v)
	}
	for _, v := range c.g.Inputs {
		define(v, nil, kindInput)
	}
	for _, v := range c.g.Captures {
		define(v, nil, kindCapture)
	}
	for i, v := range c.g.consts {
		if v == nil {
			continue
		}
		if define(v, nil, kindConst, kindDims); c.err == nil && int(v.pos) != i {
			c.fail(InvValues, nil, v, "at position %d of the constants, knows %d", i, v.pos)
		}
	}
	for _, n := range c.g.nodes {
		if n == nil || c.err != nil {
			continue
		}
		for i, v := range n.Outputs {
			if v == nil {
				continue
			}
			if define(v, n, kindResult); c.err == nil && (v.Producer != n || v.Index != i) {
				c.fail(InvSSA, n, v, "is output %d, but knows output %d of %v", i, v.Index, v.Producer)
			}
		}
	}
}

// contents checks invariants 10 and 11 of one value.
func (c *verifier) contents(v *Value) {
	switch {
	case v.kind == kindConst && v.Const == nil:
		c.fail(InvConstants, nil, v, "has no data")
		return
	case v.kind != kindConst && v.Const != nil:
		c.fail(InvConstants, nil, v, "has data but is no constant")
		return
	case v.kind == kindConst:
		if err := checkStorage(v); err != nil {
			c.fail(InvConstants, nil, v, "%v", err)
		} else if !v.Type.IsTensor() || v.Type.DType != v.Const.DType || !sameDims(v.Type.Shape, v.Const.Shape) {
			c.fail(InvConstants, nil, v, "is of type %v with data of type %v", v.Type, v.Const)
		}
	case v.kind == kindDims && v.Dims == nil:
		c.fail(InvDims, nil, v, "is a dims value without dims")
		return
	}
	if v.Dims == nil || c.err != nil {
		return
	}
	t := v.Type
	if !t.IsTensor() || t.DType != tensor.Invalid && t.DType != tensor.Int64 && t.DType != tensor.Int32 {
		c.fail(InvDims, nil, v, "has known integers but is of type %v", t)
		return
	}
	if v.kind == kindDims && (t.DType == tensor.Invalid || t.Shape == nil) {
		c.fail(InvDims, nil, v, "is a dims value of type %v", t)
		return
	}
	switch {
	case len(t.Shape) > 1, t.Shape != nil && len(t.Shape) == 0 && len(v.Dims) != 1:
		c.fail(InvDims, nil, v, "has %d known integers for type %v", len(v.Dims), t)
	case len(t.Shape) == 1:
		if n, ok := t.Shape[0].Const(); ok && n != int64(len(v.Dims)) {
			c.fail(InvDims, nil, v, "has %d known integers for type %v", len(v.Dims), t)
		}
	}
}

func sameDims(s Shape, dims []int) bool {
	if s == nil || len(s) != len(dims) {
		return false
	}
	for i, d := range s {
		if !d.Is(int64(dims[i])) {
			return false
		}
	}
	return true
}

// operands checks invariant 4.
func (c *verifier) operands() {
	for _, n := range c.g.nodes {
		if n == nil {
			continue
		}
		if len(n.slots) != len(n.Inputs)+len(n.Captures) {
			c.fail(InvOperands, n, nil, "%d use slots for %d inputs and %d captures", len(n.slots), len(n.Inputs), len(n.Captures))
			return
		}
		for k, v := range n.Operands() {
			switch {
			case v.graph != c.g:
				c.fail(InvOperands, n, v, "operand %d belongs to another graph", k)
			case v.kind == kindRemoved || v.Producer != nil && v.Producer.graph != c.g:
				c.fail(InvOperands, n, v, "operand %d was removed", k)
			}
			if c.err != nil {
				return
			}
		}
		for i, v := range n.Captures {
			if v == nil {
				c.fail(InvOperands, n, nil, "capture %d is omitted", i)
				return
			}
		}
	}
}

// uses checks invariant 5: every operand has its use, and there are as many uses as operands.
func (c *verifier) uses() {
	operands, uses := 0, 0
	for _, n := range c.g.nodes {
		if n == nil {
			continue
		}
		for k, v := range n.Operands() {
			i := int(n.slots[k])
			if i < 0 || i >= len(v.uses) || v.uses[i] != (Use{n, k}) {
				c.fail(InvUses, n, v, "does not list its use as operand %d", k)
				return
			}
			operands++
		}
		for _, v := range n.Outputs {
			if v != nil {
				uses += len(v.uses)
			}
		}
	}
	for _, list := range [][]*Value{c.g.Inputs, c.g.Captures, c.g.consts} {
		for _, v := range list {
			if v != nil {
				uses += len(v.uses)
			}
		}
	}
	if operands != uses {
		c.fail(InvUses, nil, nil, "%d operands, but %d uses listed", operands, uses)
	}
}

// outputs checks invariant 6.
func (c *verifier) outputs() {
	count := make(map[*Value]int, len(c.g.Outputs))
	for i, v := range c.g.Outputs {
		if v == nil || v.graph != c.g || v.kind == kindRemoved {
			c.fail(InvOutputs, nil, v, "output %d is not a value of the graph", i)
			return
		}
		count[v]++
	}
	check := func(v *Value) {
		if v == nil {
			return
		}
		places := 0
		for at := v.output; at > 0 && places <= count[v]; at = c.g.nextOutput[at-1] {
			if int(at) > len(c.g.Outputs) || int(at) > len(c.g.nextOutput) || c.g.Outputs[at-1] != v {
				break
			}
			places++
		}
		if places != count[v] {
			c.fail(InvOutputs, nil, v, "is listed %d times as an output, counted %d", count[v], places)
		}
	}
	for _, list := range [][]*Value{c.g.Inputs, c.g.Captures, c.g.consts} {
		for _, v := range list {
			check(v)
		}
	}
	for _, n := range c.g.nodes {
		if n == nil {
			continue
		}
		for _, v := range n.Outputs {
			check(v)
		}
	}
}

// attrs checks invariant 8.
func (c *verifier) attrs(n *Node) {
	for i := range n.Attrs {
		a := &n.Attrs[i]
		if i > 0 && n.Attrs[i-1].Name >= a.Name {
			c.fail(InvAttrs, n, nil, "attribute %q stands after %q", a.Name, n.Attrs[i-1].Name)
		}
		if a.Kind == AttrNone || a.Kind > AttrDims {
			c.fail(InvAttrs, n, nil, "attribute %q is of no kind", a.Name)
		}
		if a.Kind == AttrTensor && a.Tensor == nil {
			c.fail(InvAttrs, n, nil, "attribute %q has no tensor", a.Name)
		}
	}
}

// regions checks invariant 9 of one node. That a region names no outer value follows from invariant 4.
func (c *verifier) regions(n *Node, depth int) {
	if len(n.Regions) == 0 {
		if len(n.Captures) > 0 {
			c.fail(InvRegions, n, nil, "%d captures without a region", len(n.Captures))
		}
		return
	}
	if depth+1 > MaxRegionDepth {
		c.fail(InvRegions, n, nil, "regions are nested deeper than %d", MaxRegionDepth)
		return
	}
	for i, r := range n.Regions {
		switch {
		case r.Graph == nil:
			c.fail(InvRegions, n, nil, "region %q has no graph", r.Name)
			return
		case r.Graph.owner != n:
			c.fail(InvRegions, n, nil, "region %q is owned by another node", r.Name)
			return
		case len(r.Graph.Captures) != len(n.Captures):
			c.fail(InvRegions, n, nil, "region %q has %d captures, its owner %d", r.Name, len(r.Graph.Captures), len(n.Captures))
			return
		}
		for _, o := range n.Regions[:i] {
			if o.Name == r.Name {
				c.fail(InvRegions, n, nil, "two regions are called %q", r.Name)
				return
			}
		}
		for k, p := range r.Graph.Captures {
			v := n.Captures[k]
			if p == nil || v == nil {
				continue // invariants 2 and 4
			}
			if p.Type.Kind != v.Type.Kind && p.Type.Kind != KindUnknown && v.Type.Kind != KindUnknown ||
				p.Type.DType != v.Type.DType && p.Type.DType != tensor.Invalid && v.Type.DType != tensor.Invalid {
				c.fail(InvRegions, n, v, "is of type %v, captured by region %q as %v", v.Type, r.Name, p.Type)
			}
		}
	}
}

// checkStorage checks a constant's data against its shape. A constant in another format than the host's is made by
// packing: its storage is there only after that pass, and as large as its format wants.
func checkStorage(v *Value) error {
	if v.Format == HostFormat {
		return v.Const.Check()
	}
	if !v.Const.DType.Valid() {
		return fmt.Errorf("%w: %v", tensor.ErrDType, v.Const.DType)
	}
	_, err := tensor.NumElements(v.Const.Shape)
	return err
}
