package graph

import "github.com/carve-dev/carve/graph/tensor"

// mergeBranches makes convolutions of one operand that are added or subtracted one, whose weights are their sum or difference, where the window and
// the groups of one of them hold those of the other: branches that networks are trained with, such as those of RepVGG (DOI
// 10.1109/CVPR46437.2021.01352), MobileOne and FastViT. A BatchNormalization of the operand is such a branch too, of one tap.
func (s *simplifier) mergeBranches() error {
	return s.each(func(n *Node) error {
		for i := 0; i < 2 && isSum(n, "Add", "Sub"); i++ {
			if a, ok := branchOf(n.Inputs[i], n.Outputs[0]); ok && s.mergeBranch(addend{n, i}, a, n.Inputs[1-i], maxAddends) {
				i = -1 // n may have gone, or have another operand
			}
		}
		return nil
	})
}

// maxAddends bounds how deep sums are searched for a branch that goes with another.
const maxAddends = 8

// isSum reports whether n, which may have been removed, is one of those operators, of two values.
func isSum(n *Node, operators ...string) bool {
	return n.graph != nil && n.Is(operators...) && len(n.Inputs) == 2 && n.Inputs[0] != nil && n.Inputs[1] != nil
}

// addend is an operand of an Add or Sub.
type addend struct {
	sum     *Node
	operand int
}

// minuend reports whether the other operand is subtracted from this one.
func (a addend) minuend() bool { return a.operand == 0 && a.sum.Is("Sub") }

// branch is a convolution with constant weights, or what is as good as one.
type branch struct {
	node   *Node
	window Window
	weight []float64 // [M, C/group, k…]; nil until it is wanted
	bias   []float64 // of M channels
	inner  int       // C/group
}

// branchOf describes the convolution that makes v, which the sum alone reads, once, and which has the sum's type.
func branchOf(v, sum *Value) (branch, bool) {
	p := v.Producer
	if p == nil || !v.HasOneUse() || !v.Type.Equal(sum.Type) || v.Format != sum.Format || len(sum.Type.Shape) < 3 {
		return branch{}, false
	}
	if t := sum.Type.DType; t != tensor.Float32 && t != tensor.Float64 {
		return branch{}, false // sums of weights in half precision would be rounded
	}
	if a, ok := normalisation(p); ok {
		kernel := make([]int, len(sum.Type.Shape)-2)
		for i := range kernel {
			kernel[i] = 1
		}
		zero := make([]int, len(kernel))
		w := Window{Kernel: kernel, Strides: kernel, Dilations: kernel, Begin: zero, Group: len(a.scale)}
		return branch{p, w, a.scale, a.shift, 1}, finite(a.scale) && finite(a.shift)
	}
	l, ok := linearOf(p)
	if !ok || !p.Is("Conv") || l.weight.Const == nil {
		return branch{}, false
	}
	bias, ok := l.biasOf(p)
	w, err := ConvAttrs(p, l.weight.Const.Shape[2:])
	if w.AutoPad == PadValid {
		w.Begin = make([]int, len(w.Kernel))
	}
	return branch{p, w, nil, bias, l.weight.Const.Shape[1]}, ok && err == nil && (w.AutoPad == PadExplicit || w.AutoPad == PadValid)
}

// mergeBranch seeks, among what is added up to v, a branch that a, an operand of the Add or Sub that v is the other of, can be merged with.
func (s *simplifier) mergeBranch(at addend, a branch, v *Value, depth int) bool {
	sum := v.Producer
	if b, ok := branchOf(v, at.sum.Outputs[0]); ok {
		return s.mergePair(at, a, addend{at.sum, 1 - at.operand}, b)
	}
	if depth == 0 || sum == nil || !isSum(sum, "Add") || !v.HasOneUse() {
		return false
	}
	for i, u := range sum.Inputs {
		if b, ok := branchOf(u, at.sum.Outputs[0]); ok && s.mergePair(at, a, addend{sum, i}, b) || !ok && s.mergeBranch(at, a, u, depth-1) {
			return true
		}
	}
	return false
}

// mergePair merges two branches, a of them an operand of the Add or Sub that both are added up in, into that which holds the other,
// and takes the other out of its sum.
func (s *simplifier) mergePair(at addend, a branch, bt addend, b branch) bool {
	if a.node.Inputs[0] != b.node.Inputs[0] {
		return false
	}
	host, guest, gone := a, b, bt
	taps, ok := host.taps(guest)
	if !ok || gone.minuend() {
		host, guest, gone = b, a, at
		taps, ok = host.taps(guest)
	}
	if !ok || gone.minuend() {
		return false
	}
	sign := 1.0
	if at.sum.Is("Sub") {
		sign = -1
	}
	rest, out := gone.sum.Inputs[1-gone.operand], gone.sum.Outputs[0]
	if rest.Format != out.Format || !s.addWeights(host, guest, taps, sign) {
		return false
	}
	s.absorb(host.node, guest.node)
	s.absorb(host.node, gone.sum)
	s.replace(out, rest)
	s.g.Remove(gone.sum)
	s.g.Remove(guest.node)
	return true
}

// taps returns where in the window of b the taps of other lie, by axis; ok is false where b does not hold them all, or not the groups.
func (b branch) taps(other branch) (taps [][]int, ok bool) {
	w, o := b.window, other.window
	if !b.node.Is("Conv") || o.Group%w.Group != 0 {
		return nil, false
	}
	taps = make([][]int, len(w.Kernel))
	for axis := range taps {
		if w.Strides[axis] != o.Strides[axis] {
			return nil, false
		}
		for k := range o.Kernel[axis] {
			d := k*o.Dilations[axis] - o.Begin[axis] + w.Begin[axis]
			if d < 0 || d%w.Dilations[axis] != 0 || d/w.Dilations[axis] >= w.Kernel[axis] {
				return nil, false
			}
			taps[axis] = append(taps[axis], d/w.Dilations[axis])
		}
	}
	return taps, true
}

// addWeights adds guest's weights and bias, with that sign, to host's, at the taps of host's window that are given.
func (s *simplifier) addWeights(host, guest branch, taps [][]int, sign float64) bool {
	l, ok := linearOf(host.node)
	if !ok || int64(l.weight.Const.NumBytes()) > s.o.MaxFold {
		return false
	}
	add := guest.weight
	if add == nil {
		c := guest.node.Inputs[1].Const
		if add = make([]float64, c.Len()); tensor.Decode(add, c) != nil {
			return false
		}
	}
	w, err := l.weight.Const.Clone()
	if err != nil || w.Len() != l.channels*l.run {
		return false
	}
	at := []int{0} // positions in host's window
	for axis, list := range taps {
		var next []int
		for _, p := range at {
			for _, t := range list {
				next = append(next, p*host.window.Kernel[axis]+t)
			}
		}
		at = next
	}
	if f := tensor.Of[float32](w); f != nil {
		addTaps(f, host, guest, l.channels, at, add, sign)
	} else {
		addTaps(tensor.Of[float64](w), host, guest, l.channels, at, add, sign)
	}
	host.node.SetOperand(1, s.g.AddConst(l.weight.Name, w))
	if host.node.Input(2) == nil && guest.node.Is("Conv") && guest.node.Input(2) == nil {
		return true
	}
	for c := range host.bias {
		host.bias[c] += sign * guest.bias[c]
	}
	s.setBias(host.node, l, host.bias)
	return true
}

// addTaps adds guest's weights, with that sign, to host's, w, of so many channels: its taps at these positions of host's window.
func addTaps[T float32 | float64](w []T, host, guest branch, channels int, at []int, add []float64, sign float64) {
	size := len(w) / (channels * host.inner)
	for c := range channels {
		in := c/(channels/guest.window.Group)*guest.inner - c/(channels/host.window.Group)*host.inner // the first of the group's in host's group
		to, from := w[(c*host.inner+in)*size:], add[c*guest.inner*len(at):]
		for i := range guest.inner {
			for k, p := range at {
				to[i*size+p] = T(float64(to[i*size+p]) + sign*from[i*len(at)+k])
			}
		}
	}
}
