package graph

import "slices"

// SetOperand makes v (nil for omitted) the operand in slot k of n.
func (n *Node) SetOperand(k int, v *Value) {
	old := n.Operand(k)
	if old == v {
		return
	}
	if old != nil {
		old.removeUse(n, k)
	}
	if k < len(n.Inputs) {
		n.Inputs[k] = v
	} else {
		n.Captures[k-len(n.Inputs)] = v
	}
	if v != nil {
		v.addUse(n, k)
	}
}

// SetInputs replaces all inputs of n.
func (n *Node) SetInputs(vs ...*Value) {
	for k, v := range n.Operands() {
		v.removeUse(n, k)
	}
	n.Inputs = slices.Clone(vs)
	n.slots = make([]int32, len(n.Inputs)+len(n.Captures))
	for k, v := range n.Operands() {
		v.addUse(n, k)
	}
}

// AddCapture gives n one more captured operand and every region a parameter for it, and returns the parameters, one per
// region.
func (n *Node) AddCapture(v *Value) []*Value {
	n.Captures = append(n.Captures, v)
	n.slots = append(n.slots, 0)
	v.addUse(n, len(n.slots)-1)
	params := make([]*Value, len(n.Regions))
	for i, r := range n.Regions {
		params[i] = r.Graph.AddCapture(v.Name, v.Type)
		params[i].Dims = v.Dims
	}
	return params
}

// RemoveCapture drops capture i of n and the regions' parameters for it, which must be unused.
func (n *Node) RemoveCapture(i int) {
	base := len(n.Inputs)
	for k := base; k < len(n.slots); k++ {
		n.Captures[k-base].removeUse(n, k)
	}
	n.Captures = slices.Delete(n.Captures, i, i+1)
	n.slots = n.slots[:len(n.slots)-1]
	for k := base; k < len(n.slots); k++ {
		n.Captures[k-base].addUse(n, k)
	}
	for _, r := range n.Regions {
		r.Graph.Captures[i].kind = kindRemoved
		r.Graph.Captures = slices.Delete(r.Graph.Captures, i, i+1)
	}
}

// ReplaceUses makes every reader of old, graph outputs included, read v instead. It costs O(uses).
func (g *Graph) ReplaceUses(old, v *Value) {
	if old == v {
		return
	}
	for len(old.uses) > 0 {
		u := old.uses[len(old.uses)-1]
		u.Node.SetOperand(u.Slot, v)
	}
	g.MoveOutputs(old, v)
}

// Remove removes a node whose outputs nobody reads. It panics where somebody does: a programmer's error.
func (g *Graph) Remove(n *Node) {
	for _, o := range n.Outputs {
		if o != nil && (len(o.uses) > 0 || o.output > 0) {
			panic("graph: removing " + n.String() + ", whose result is used")
		}
	}
	for k, v := range n.Operands() {
		v.removeUse(n, k)
	}
	n.slots = nil
	n.Inputs, n.Captures = nil, nil
	for _, o := range n.Outputs {
		if o != nil {
			o.kind = kindRemoved
		}
	}
	g.nodes[n.pos] = nil
	n.graph = nil
	g.live--
}

// RemoveConst removes a constant or dims value that nobody reads.
func (g *Graph) RemoveConst(v *Value) {
	if len(v.uses) > 0 || v.output > 0 || g.consts[v.pos] != v {
		panic("graph: removing constant " + v.String() + ", which is used")
	}
	g.consts[v.pos] = nil
	v.kind = kindRemoved
}

// Compact closes the holes that removals left in the lists of nodes and constants. Ids stay. It must not be called during
// an iteration.
func (g *Graph) Compact() {
	g.nodes = slices.DeleteFunc(g.nodes, func(n *Node) bool { return n == nil })
	for i, n := range g.nodes {
		n.pos = i
	}
	g.consts = slices.DeleteFunc(g.consts, func(v *Value) bool { return v == nil })
	for i, v := range g.consts {
		v.pos = int32(i)
	}
}

// Sort puts the node list into the order of Topo.
func (g *Graph) Sort() error {
	order, err := g.Topo()
	if err != nil {
		return err
	}
	g.nodes = order
	for i, n := range order {
		n.pos = i
	}
	return nil
}

// Fresh returns a new unbacked symbol: a dim that only the data of a run determines.
func (g *Graph) Fresh() Dim { return g.fresh("?") }

// fresh returns a new symbol whose name begins so, with a number that no other symbol has.
func (g *Graph) fresh(prefix string) Dim {
	h := g.outermost()
	h.freshDims++
	return Sym(prefix + itoa(int(h.freshDims)))
}
