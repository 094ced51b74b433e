package cpu

import (
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
)

// A cache of keys or values grows along an axis: an output is an input with something behind it. The caller may keep both in one
// tensor that is long enough: the input's strides, which are then the output's, are those of the longer one. Whoever reads the output
// in the group is attention, which goes by the strides of a run.

// extends reports whether a Concat makes such an output, in a plan or in its subgraph.
func (p *planner) extends(n *graph.Node) bool {
	if !place.Appends(n) || n.Inputs[0].NumUses() != 1 || n.Inputs[0].IsOutput() || n.Outputs[0].Format != rowMaj || n.Inputs[0].Format != rowMaj {
		return false
	}
	count := 0
	for _, v := range p.Sub.Outputs {
		if v == n.Outputs[0] {
			count++
		}
	}
	return count == 1 && !slices.ContainsFunc(n.Outputs[0].Uses(), func(u graph.Use) bool { return !p.readsExtended(u.Node, n.Outputs[0]) })
}

// readsExtended reports whether a node reads v, an output that may have strides, by the strides of a run.
func (p *planner) readsExtended(n *graph.Node, v *graph.Value) bool {
	if !n.IsCarve(graph.OpFused) || n.Str("pattern", "") != attentionName {
		return false
	}
	f, err := p.attentionOf(n)
	if err != nil {
		return false
	}
	body := n.Regions[0].Graph.Inputs
	for i, x := range n.Inputs {
		if x == v && body[i] != f.k.value && body[i] != f.v.value {
			return false
		}
	}
	return true
}

// extend emits a Concat that writes behind its first operand where the result lies in that one's place.
func (p *planner) extend(n *graph.Node) {
	past, now, y := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	size, axis := y.Type.DType.Size(), place.ConcatAxis(n)
	input, output := slices.Index(p.Sub.Inputs, past), slices.Index(p.Sub.Outputs, y)
	if x := (backend.InPlace{Output: output, Input: input}); !slices.Contains(p.Reqs.Extends, x) {
		p.Reqs.Extends = append(p.Reqs.Extends, x)
	}
	outer, inner := p.Dims[y.ID][:axis], product(p.Dims[y.ID][axis+1:])*size
	old, added := p.Dims[past.ID][axis]*inner, p.Dims[now.ID][axis]*inner
	src := p.In(now)
	body := func(st *state, _, lo, hi int) {
		x, out := st.a.Inputs[input], st.a.Outputs[output]
		from, to, end := x.Data[x.Offset:], out.Data[out.Offset:], st.Bytes(src)
		same := sameStorage(x, out)
		for i := lo; i < hi; i++ {
			at := offsetOf(out, outer, i, old+added, size)
			if old > 0 && !same {
				copy(to[at:at+old], from[offsetOf(x, outer, i, old, size):])
			}
			copy(to[at+old:at+old+added], end[i*added:])
		}
	}
	p.emit(step{chunks: product(outer), grain: grainFor(float64(old+added) / 10), body: body},
		[]place.Memory{p.In(past), src}, []place.Memory{p.Out(y)})
}

// sameStorage reports whether two tensors begin at one address.
func sameStorage(a, b *tensor.Tensor) bool {
	return a.Offset < len(a.Data) && b.Offset < len(b.Data) && unsafe.Pointer(&a.Data[a.Offset]) == unsafe.Pointer(&b.Data[b.Offset])
}

// offsetOf returns the offset in bytes of the i-th of the blocks of block bytes that a tensor consists of, counted in the order of its outer
// dims.
func offsetOf(t *tensor.Tensor, outer []int, i, block, size int) int {
	if t.Strides == nil {
		return i * block
	}
	off := 0
	for k := len(outer) - 1; k >= 0; k-- {
		off += i % outer[k] * t.Strides[k]
		i /= outer[k]
	}
	return off * size
}

// checkExtended turns down operands of extensions whose inner dims are not compact.
func (in *instance) checkExtended(a *backend.RunArgs) error {
	for _, x := range in.reqs.Extends {
		old, grown := a.Inputs[x.Input], a.Outputs[x.Output]
		axis := len(old.Shape)
		for k, n := range grown.Shape {
			if n != old.Shape[k] {
				axis = k
			}
		}
		if axis == len(old.Shape) { // nothing is added: any axis may be the one
			axis = 0
		}
		for i, t := range []*tensor.Tensor{old, grown} {
			if !compactFrom(t, axis) {
				return &backend.ContiguousError{Output: i == 1, Operand: []int{x.Input, x.Output}[i], Problem: "strides along what is joined"}
			}
		}
	}
	return nil
}

// compactFrom reports whether a tensor's strides from an axis on are those of a compact one.
func compactFrom(t *tensor.Tensor, axis int) bool {
	n := 1
	for k := len(t.Shape) - 1; k >= axis && t.Strides != nil; k-- {
		if t.Shape[k] != 1 && t.Strides[k] != n {
			return false
		}
		n *= t.Shape[k]
	}
	return true
}
