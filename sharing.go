package carve

import (
	"cmp"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/memplan/schedule"
)

// What the memory model knows of values that lie in others: views, parts of what a node cuts, operands of a concatenation.

// share says which values lie in others.
func (m *memoryModel) share(nodes []*graph.Node, s *schedule.Graph) {
	var concats []*graph.Node
	for _, n := range nodes {
		if n.Is("Concat") {
			concats = append(concats, n)
			continue
		}
		for _, v := range n.Outputs {
			if v != nil && m.isPart(n, v) {
				s.Within[v.ID] = n.Inputs[0].ID
			}
		}
	}
	slices.SortStableFunc(concats, func(a, b *graph.Node) int { return cmp.Compare(len(b.Inputs), len(a.Inputs)) })
	longest := map[*graph.Value]*graph.Node{} // the longest that begins with a value
	for _, n := range concats {
		y := n.Outputs[0]
		apart := m.imagesApart(n)
		if !apart && !m.contiguous(n) || m.size(y) == 0 {
			continue
		}
		if big := longest[n.Inputs[0]]; big != nil && !y.IsOutput() && y.Format == big.Outputs[0].Format && len(n.Inputs) < len(big.Inputs) &&
			slices.Equal(n.Inputs, big.Inputs[:len(n.Inputs)]) && (!apart || readApart(y)) {
			s.Within[y.ID] = big.Outputs[0].ID
			continue
		}
		for _, v := range n.Inputs {
			if apart && (!isImageKernel(v.Producer) || !readApart(v)) {
				continue
			}
			for isView(v.Producer) && v.Producer.Inputs[0].HasOneUse() && s.Within[v.ID] == v.Producer.Inputs[0].ID {
				v = v.Producer.Inputs[0] // made in the result for the view's sake
			}
			if v.Producer != nil && !v.IsOutput() && s.Within[v.ID] == v.ID && !v.Producer.Is("Concat", "Slice", "Split") && s.Within[y.ID] != v.ID {
				s.Within[v.ID] = y.ID
			}
		}
		if longest[n.Inputs[0]] == nil {
			longest[n.Inputs[0]] = n
		}
	}
}

// imagesApart reports whether a Concat on cpu puts the channels of several images together, which its kernels for images
// write where they belong.
func (m *memoryModel) imagesApart(n *graph.Node) bool {
	y := n.Outputs[0]
	shape := m.dims(y)
	o := y.Graph().Owner()
	if len(shape) != 4 || shape[0] < 2 || place.ConcatAxis(n) != 1 || y.Format.Layout.IsRowMajor() || o == nil || o.Backend != "cpu" {
		return false
	}
	return m.sumOfParts(n) == m.size(y)
}

// isImageKernel reports whether n, if there is one, is an operator on images that writes and reads them where they lie apart,
// or such a one with others fused behind it.
func isImageKernel(n *graph.Node) bool {
	is := func(n *graph.Node) bool {
		return n.Is("Conv", "ConvTranspose", "MaxPool", "AveragePool", "BatchNormalization")
	}
	if n == nil || !n.IsCarve(graph.OpFused) {
		return n != nil && is(n)
	}
	for k := range n.Regions[0].Graph.Nodes() {
		if is(k) {
			return true
		}
	}
	return false
}

// readApart reports whether all readers of v are concatenations, or read it with its images apart.
func readApart(v *graph.Value) bool {
	return !slices.ContainsFunc(v.Uses(), func(u graph.Use) bool { return !u.Node.Is("Concat") && !isImageKernel(u.Node) })
}

// isPart reports whether the result y of n lies in n's first operand: the operand in another shape, or what a Slice or a
// Split takes of it where that lies together and is nobody's output.
func (m *memoryModel) isPart(n *graph.Node, y *graph.Value) bool {
	if isView(n) {
		return true
	}
	if n.Op.Domain != "" || len(n.Inputs) == 0 || n.Inputs[0] == nil || y.IsOutput() {
		return false
	}
	x := n.Inputs[0]
	dx, dy := m.dims(x), m.dims(y)
	if x.IsConst() || x.Format != y.Format || len(dx) == 0 || dy == nil {
		return false
	}
	switch n.Op.Name {
	case "Transpose":
		perm, ok := n.Ints("perm")
		if !ok {
			for k := range dx {
				perm = append(perm, int64(len(dx)-1-k))
			}
		}
		last := int64(-1) // only dims of 1 move
		for _, a := range perm {
			if a < 0 || a >= int64(len(dx)) || dx[a] != 1 && a < last {
				return false
			}
			if dx[a] != 1 {
				last = a
			}
		}
		return x.Format.Layout.IsRowMajor()
	case "Slice", "Split":
		return m.liesTogether(n, y, dx, dy)
	}
	return false
}

// liesTogether reports whether what a Slice or a Split takes of its operand lies together there: ones in front of the dim
// that is cut, and all of those behind it; in a blocked layout whole blocks of channels.
func (m *memoryModel) liesTogether(n *graph.Node, y *graph.Value, dx, dy []int) bool {
	if len(dx) != len(dy) {
		return false
	}
	if steps := n.Input(4); steps != nil && n.Is("Slice") {
		for _, d := range steps.Dims {
			if c, ok := d.Const(); !ok || c != 1 {
				return false
			}
		}
		if steps.Dims == nil {
			return false
		}
	}
	cut := len(dx) - 1 // the last dim that is cut
	for cut >= 0 && dx[cut] == dy[cut] {
		cut--
	}
	for k := range cut {
		if dy[k] != 1 {
			return false
		}
	}
	if y.Format.Layout.IsRowMajor() || cut < 0 {
		return true
	}
	if cut != 1 || len(dx) != 4 {
		return false
	}
	start := 0
	if n.Is("Slice") {
		var ok bool
		if start, ok = place.ChannelSlice(n); !ok {
			return false
		}
	} else {
		for _, v := range n.Outputs[:y.Index] {
			d := m.dims(v)
			if len(d) != 4 {
				return false
			}
			start += d[1]
		}
	}
	return place.WholeChannels(y.Format, dx, start, dy[1])
}

// contiguous reports whether the operands of a Concat are contiguous in the result: nothing but ones in front of the axis,
// and in a blocked layout whole blocks.
func (m *memoryModel) contiguous(n *graph.Node) bool {
	y := n.Outputs[0]
	shape := m.dims(y)
	axis := place.ConcatAxis(n)
	if axis < 0 || axis >= len(shape) {
		return false
	}
	for _, d := range shape[:axis] {
		if d != 1 {
			return false
		}
	}
	if y.Format.Layout.IsRowMajor() {
		return true
	}
	return m.sumOfParts(n) == m.size(y)
}

// sumOfParts returns the bytes of a Concat's operands.
func (m *memoryModel) sumOfParts(n *graph.Node) int64 {
	sum := int64(0)
	for _, v := range n.Inputs {
		sum += m.size(v)
	}
	return sum
}

// isView reports whether n, if there is one, gives its operand another shape and nothing else.
func isView(n *graph.Node) bool {
	return n != nil && place.IsView(n) && n.Inputs[0] != nil && !n.Inputs[0].IsConst() && n.Inputs[0].Format == n.Outputs[0].Format
}
