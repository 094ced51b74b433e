package place

import (
	"cmp"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// ConcatAxis returns the axis of a Concat, counted from the front.
func ConcatAxis(n *graph.Node) int {
	axis := int(n.Int("axis", 1))
	if axis < 0 {
		axis += len(n.Outputs[0].Type.Shape)
	}
	return axis
}

// Appends reports whether a Concat makes an output of the subgraph that has a new end behind an input of another length in each run,
// as that of a cache. Its operands lie elsewhere: their places in the result would change with the length.
func Appends(n *graph.Node) bool {
	if !n.Is("Concat") || len(n.Inputs) != 2 || !n.Outputs[0].IsOutput() || !n.Inputs[0].IsInput() || n.Inputs[0] == n.Inputs[1] {
		return false
	}
	_, fixed := n.Inputs[0].Type.Shape[ConcatAxis(n)].Const()
	return !fixed
}

// OnBlocks reports whether the channels of all operands of a Concat but the last fall on blocks of its result's layout.
func (p *Plan) OnBlocks(n *graph.Node) bool {
	y := n.Outputs[0]
	b := channelBlock(y.Format, len(p.Dims[y.ID]))
	if b < 2 {
		return b == 1
	}
	for _, v := range n.Inputs[:len(n.Inputs)-1] {
		if p.Dims[v.ID][1]%b != 0 {
			return false
		}
	}
	return true
}

// concatRows is how the operands of a Concat lie in its result: the result has count rows of row bytes, and each operand is a
// part of every one of them.
type concatRows struct{ count, row int }

// rowsOf returns how the operands of a Concat lie in its result. ok is false where these are no strided rows: in blocked
// layouts along other axes than the channels, or where channels do not fall on blocks.
func (p *Plan) rowsOf(n *graph.Node) (r concatRows, ok bool) {
	y := n.Outputs[0]
	d, axis := p.Dims[y.ID], ConcatAxis(n)
	if p.Bytes(y) == 0 || channelBlock(y.Format, len(d)) != 1 && axis > 1 || !p.OnBlocks(n) {
		return r, false
	}
	r.count = 1
	for _, k := range d[:axis] {
		r.count *= k
	}
	for _, v := range n.Inputs {
		r.row += p.Bytes(v) / r.count
	}
	return r, r.row*r.count == p.Bytes(y)
}

// ConcatPlaces returns where the operands of a Concat belong in its result, which lies at whole: Nowhere for those that are
// empty, or that no Memory can describe there. ok is false where operands are no strided rows of the result.
func (p *Plan) ConcatPlaces(n *graph.Node, whole Memory) (parts []Memory, ok bool) {
	r, ok := p.rowsOf(n)
	if !ok {
		return nil, false
	}
	off := 0
	for _, v := range n.Inputs {
		own := p.Bytes(v) / r.count
		m, fits := whole.Rows(off, own, r.row, r.count)
		if !fits || own == 0 {
			m = Nowhere
		}
		parts = append(parts, m)
		off += own
	}
	return parts, true
}

// concats decides where the operands of concatenations are made.
type concats struct {
	*Plan
	align    int
	mayAlias func(n *graph.Node) bool
	strided  func(n *graph.Node, v *graph.Value, m Memory) bool
}

// WantConcats decides which values are made directly in the result of a Concat that reads them, and which results of a
// Concat are the beginning of another's: a chain of concatenations that grow, as in DenseNet, shares one buffer. A Concat
// whose result is part of another's comes after that one, else the longest gets its operands first. Operands have to begin
// at multiples of align bytes. Contiguous operands whose producer may alias its own operand instead (mayAlias) are not asked
// for, unless they are views of something that can be made there. Call WantOutputs before: operands of a Concat that is an
// output are then made in the caller's memory.
//
// strided reports whether a node's kernel can read or write v, an operand or result, at m in strided rows. An operand is made
// there only where that holds for its producer and all its readers. nil stands for no kernel.
func (p *Plan) WantConcats(align int, mayAlias func(*graph.Node) bool, strided func(n *graph.Node, v *graph.Value, m Memory) bool) {
	if strided == nil {
		strided = func(*graph.Node, *graph.Value, Memory) bool { return false }
	}
	c := &concats{p, align, mayAlias, strided}
	list := p.concatsInOrder()
	byFirst := map[*graph.Value]*graph.Node{} // the longest contiguous Concat that begins with a value
	for i, n := range list {
		rows, ok := p.rowsOf(n)
		if !ok || Appends(n) {
			continue
		}
		y := n.Outputs[0]
		if rows.count == 1 {
			big := byFirst[n.Inputs[0]]
			if big != nil && p.Want[y.ID].Slot < 0 && y.Format == big.Outputs[0].Format && begins(n, big) {
				p.Want[y.ID] = p.Want[big.Outputs[0].ID].Part(0, p.Bytes(y))
				continue
			}
			if (big == nil || len(big.Inputs) < len(n.Inputs)) && p.Want[y.ID].Pitch == 0 {
				byFirst[n.Inputs[0]] = n
			}
		}
		if p.Want[y.ID].Slot < 0 {
			p.Want[y.ID] = p.Temp(p.Bytes(y))
		}
		c.wantOperands(n, list[i+1:], rows)
	}
}

// concatsInOrder returns the concatenations in the order in which they get their operands.
func (p *Plan) concatsInOrder() []*graph.Node {
	var list []*graph.Node
	depth := map[*graph.Node]int{} // how many others a result ends up in, one in the other
	var into func(v *graph.Value) int
	into = func(v *graph.Value) int {
		most := 0
		for _, u := range v.Uses() {
			switch {
			case u.Node.Is("Concat"):
				most = max(most, depth[u.Node]+1)
			case IsView(u.Node):
				most = max(most, into(u.Node.Outputs[0]))
			}
		}
		return most
	}
	for _, n := range slices.Backward(p.Order) {
		if n.Is("Concat") {
			depth[n] = into(n.Outputs[0])
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b *graph.Node) int {
		return cmp.Or(depth[a]-depth[b], len(b.Inputs)-len(a.Inputs))
	})
	return list
}

// wantOperands asks for the operands of a Concat in its result, and for the results of those among others that it begins
// with.
func (c *concats) wantOperands(n *graph.Node, others []*graph.Node, rows concatRows) {
	whole := c.Want[n.Outputs[0].ID]
	parts, _ := c.ConcatPlaces(n, whole)
	var short []*graph.Node // the concatenations that n begins with; contiguous ones are WantConcats' own matter
	var places []Memory     // of their results
	if rows.count > 1 {
		for _, m := range others {
			if at, ok := c.beginning(m, n, whole, rows); ok {
				short, places = append(short, m), append(places, at)
			}
		}
	}
	fits := func(i int) bool { return c.fits(n, i, parts[i], short) }
	for again := true; again; { // drop short ones of which an operand does not fit: they are copied anyway
		again = false
		for k, m := range short {
			for i := range m.Inputs {
				again = again || !fits(i)
			}
			if again {
				short, places = slices.Delete(short, k, k+1), slices.Delete(places, k, k+1)
				break
			}
		}
	}
	var made []int
	for i := range n.Inputs {
		if fits(i) {
			made = append(made, i)
		}
	}
	for _, i := range made {
		for _, v := range c.behind(n.Inputs[i]) {
			c.Want[v.ID] = parts[i]
		}
	}
	for k, m := range short {
		c.Want[m.Outputs[0].ID] = places[k]
	}
}

// beginning returns where the result of Concat m belongs in that of n, at whole, if n begins with the operands of m and all
// readers of m's result can deal with that.
func (c *concats) beginning(m, n *graph.Node, whole Memory, rows concatRows) (at Memory, ok bool) {
	v := m.Outputs[0]
	own, ok := c.rowsOf(m)
	if !ok || own.count != rows.count || !begins(m, n) || v.Format != n.Outputs[0].Format || v.IsOutput() || c.Want[v.ID].Slot >= 0 {
		return Nowhere, false
	}
	at, ok = whole.Rows(0, own.row, rows.row, rows.count)
	return at, ok && at.Pitch > 0 && c.readable(v, at, nil)
}

// fits reports whether operand i of a Concat can be made at m, in its result. Readers in short do not count: their results are
// the beginning of this one, so that they copy nothing.
func (c *concats) fits(n *graph.Node, i int, m Memory, short []*graph.Node) bool {
	v := n.Inputs[i]
	if m.Slot < 0 || v.Producer == nil || v.IsOutput() || c.Want[v.ID].Slot >= 0 || c.Where[v.ID].Slot >= 0 ||
		m.Off%c.align != 0 || m.Pitch%c.align != 0 || slices.Index(n.Inputs, v) < i {
		return false
	}
	list := c.behind(v)
	source := list[len(list)-1]
	if source.Producer == nil {
		return false
	}
	if m.Pitch == 0 {
		return !c.mayAlias(source.Producer)
	}
	once := !slices.Contains(n.Inputs[i+1:], v)
	return c.strided(source.Producer, source, m) &&
		c.readable(v, m, func(r *graph.Node) bool { return r == n && once || slices.Contains(short, r) })
}

// readable reports whether all kernels that read v, or a view of it, can do so at m; except names readers that do not count.
func (c *concats) readable(v *graph.Value, m Memory, except func(*graph.Node) bool) bool {
	for _, u := range v.Uses() {
		if except != nil && except(u.Node) {
			continue
		}
		if !c.strided(u.Node, v, m) {
			return false
		}
		if IsView(u.Node) && u.Slot == 0 { // elsewhere it is copied
			if w := u.Node.Outputs[0]; c.Want[w.ID].Slot < 0 && !c.readable(w, m, nil) {
				return false
			}
		}
	}
	return true
}

// begins reports whether a Concat's operands are the first, but not all, of another's.
func begins(short, long *graph.Node) bool {
	k := len(short.Inputs)
	return k < len(long.Inputs) && slices.Equal(short.Inputs, long.Inputs[:k])
}

// ConcatChannels is the choice of channels that a Concat of blocked tensors is, for reorder.NewGather, and where its
// operands lie.
func (p *Plan) ConcatChannels(n *graph.Node) (sources []reorder.Source, table []reorder.Channel, reads []Memory) {
	for i, v := range n.Inputs {
		c := p.Dims[v.ID][1]
		sources = append(sources, reorder.Source{C: c})
		reads = append(reads, p.In(v))
		for k := range c {
			table = append(table, reorder.Channel{Tensor: i, Channel: k})
		}
	}
	return sources, table, reads
}
