package cpu

import (
	"encoding/binary"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// GatherElements, GatherND, ScatterElements and ScatterND, row-major.

// indices reads operand 1 of a node, of int64 or int32.
type indices struct {
	n      *graph.Node
	wide   []int64
	narrow []int32 // where wide is nil
}

func (st *state) indices(n *graph.Node, m place.Memory) indices {
	if n.Inputs[1].Type.DType == tensor.Int64 {
		return indices{n: n, wide: of[int64](st, m)}
	}
	return indices{n: n, narrow: of[int32](st, m)}
}

// at returns index i of an axis of length. It counts from the end where it is negative, and a panic with a *backend.RangeError,
// which Enqueue returns, says that the axis has no such element.
func (x *indices) at(i, length int) int {
	var k int64
	if x.wide != nil {
		k = x.wide[i]
	} else {
		k = int64(x.narrow[i])
	}
	if uint64(k) < uint64(length) {
		return int(k)
	}
	if k >= int64(length) || k < -int64(length) {
		panic(backend.BadIndex(x.n, 1, k, length))
	}
	return int(k) + length
}

// point returns which element of a tensor with these dims the indices from i on are.
func (x *indices) point(i int, dims []int) (at int) {
	if x.wide == nil {
		for j, n := range dims {
			at = at*n + x.at(i+j, n)
		}
		return at
	}
	for j, k := range x.wide[i:][:len(dims)] {
		n := dims[j]
		if uint64(k) >= uint64(n) {
			k = int64(x.at(i+j, n))
		}
		at = at*n + int(k)
	}
	return at
}

// places writes n times what point returns for indices from i on, one after the other.
func (x *indices) places(at []int, i int, dims []int, n int) {
	if len(dims) != 1 || x.wide == nil {
		for r := range at {
			at[r] = x.point(i+r*len(dims), dims) * n
		}
		return
	}
	length := dims[0]
	for r, k := range x.wide[i:][:len(at)] {
		if uint64(k) >= uint64(length) {
			k = int64(x.at(i+r, length))
		}
		at[r] = int(k) * n
	}
}

// move copies an element, or some, of size bytes.
func move(dst, src []byte, size int) {
	switch size {
	case 1:
		dst[0] = src[0]
	case 2:
		binary.NativeEndian.PutUint16(dst, binary.NativeEndian.Uint16(src))
	case 4:
		binary.NativeEndian.PutUint32(dst, binary.NativeEndian.Uint32(src))
	case 8:
		binary.NativeEndian.PutUint64(dst, binary.NativeEndian.Uint64(src))
	default:
		copy(dst[:size], src)
	}
}

// runAt returns a reader of how many of n elements of an index operand, from i on, are the same.
func runAt(v *graph.Value) func(st *state, m place.Memory, i, n int) int {
	if v.Type.DType == tensor.Int64 {
		return func(st *state, m place.Memory, i, n int) int { return equalFirst(of[int64](st, m)[i : i+n]) }
	}
	return func(st *state, m place.Memory, i, n int) int { return equalFirst(of[int32](st, m)[i : i+n]) }
}

// equalFirst returns how many elements at the start of a slice that is not empty are equal.
func equalFirst[T comparable](s []T) int {
	for i, x := range s {
		if x != s[0] {
			return i
		}
	}
	return len(s)
}

// indexed returns a signature for an operator whose operand at is an index.
func indexed(at int) func(n *graph.Node) ([]graph.Signature, *property.Reason) {
	return func(n *graph.Node) ([]graph.Signature, *property.Reason) {
		if dt := n.Inputs[at].Type.DType; dt != tensor.Int64 && dt != tensor.Int32 {
			return nil, property.Because(property.DTypeReason, "indices %v are %v", n.Inputs[at], dt)
		}
		if len(n.Inputs[0].Type.Shape) == 0 || len(n.Inputs[at].Type.Shape) == 0 {
			return nil, property.Because(property.ShapeReason, "a scalar operand")
		}
		return operators.RowMajor(n), nil
	}
}

// along returns where element i of a tensor of dims idx lies in one of dims d, with its place along axis left out, and the
// distance of two elements of d along axis. Both in elements.
func along(d, idx []int, axis, i int) (base, stride int) {
	n := 1
	for k := len(d) - 1; k >= 0; k-- {
		at := i % idx[k]
		i /= idx[k]
		if k == axis {
			stride = n
		} else {
			base += at * n
		}
		n *= d[k]
	}
	return base, stride
}

func planGatherElements(p *planner, n *graph.Node) error {
	x, idx := n.Inputs[0], n.Inputs[1]
	d, di := p.Dims[x.ID], p.Dims[idx.ID]
	axis, size := axisOf(n, 0, len(d)), x.Type.DType.Size()
	src, index, dst := p.In(x), p.In(idx), p.Out(n.Outputs[0])
	count, length := product(di), max(di[len(di)-1], 1)
	const part = 2048 // of a row
	parts := ceilDiv(length, part)
	p.emit(step{chunks: count / length * parts, grain: max(1, part/length), body: func(st *state, _, lo, hi int) {
		o, s, read := st.Bytes(dst), st.Bytes(src), st.indices(n, index)
		for c := lo; c < hi; c++ {
			from := c % parts * part
			i := c/parts*length + from
			read.gather(o, s, size, i, min(part, length-from), rowFrom(d, di, axis, i))
		}
	}}, []place.Memory{src, index}, []place.Memory{dst})
	return nil
}

func planGatherND(p *planner, n *graph.Node) error {
	x, idx := n.Inputs[0], n.Inputs[1]
	d, di := p.Dims[x.ID], p.Dims[idx.ID]
	batch := int(n.Int("batch_dims", 0))
	k := di[len(di)-1]
	if batch < 0 || batch >= len(di) || batch+k > len(d) {
		return property.Because(property.ShapeReason, "indices %v into %v", di, d)
	}
	rows := product(di[:len(di)-1])
	perBatch := rows / max(product(di[:batch]), 1)
	image, inner := product(d[batch:]), product(d[batch+k:])
	size := inner * x.Type.DType.Size()
	images, lengths := image/max(inner, 1), d[batch:batch+k]
	src, index, dst := p.In(x), p.In(idx), p.Out(n.Outputs[0])
	p.emit(step{chunks: rows, grain: grainFor(float64(size)*0.05 + 10), body: func(st *state, _, lo, hi int) {
		o, s, read := st.Bytes(dst), st.Bytes(src), st.indices(n, index)
		for i := lo; i < hi; i++ {
			at := 0
			for j, length := range lengths {
				at = at*length + read.at(i*k+j, length)
			}
			if batch > 0 {
				at += i / perBatch * images
			}
			move(o[i*size:], s[at*size:], size)
		}
	}}, []place.Memory{src, index}, []place.Memory{dst})
	return nil
}

func scatterSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	switch r := n.Str("reduction", "none"); r {
	case "none":
	case "add", "mul", "max", "min":
		if joinings[n.Inputs[0].Type.DType] == nil {
			return nil, property.Because(property.DTypeReason, "reduction %q of %v", r, n.Inputs[0].Type.DType)
		}
	default:
		return nil, property.Because(property.Attribute, "reduction %q", r)
	}
	return indexed(1)(n)
}

func planScatterElements(p *planner, n *graph.Node) error {
	x, idx := n.Inputs[0], n.Inputs[1]
	d, di, axis := joinedAxes(p.Dims[x.ID], p.Dims[idx.ID], axisOf(n, 0, len(p.Dims[x.ID])))
	size := x.Type.DType.Size()
	src, index, updates, dst := p.In(x), p.In(idx), p.In(n.Inputs[2]), p.Out(n.Outputs[0])
	run, j := runAt(idx), p.joining(n)
	count, length := product(di), max(di[len(di)-1], 1)
	p.copyStep(dst, src, p.Bytes(x))
	p.emit(step{serial: func(st *state) { // in order: a later update wins
		o, u, read := st.Bytes(dst), st.Bytes(updates), st.indices(n, index)
		for i := 0; i < count; i += length {
			r := rowFrom(d, di, axis, i)
			for at := 0; at < length; {
				k := min(length-at, pieceOfRow)
				if r.next == 1 {
					if same := run(st, index, i+at, k); same < leastRun {
						k = min(k, leastRun)
					} else { // of one index
						first := r.base + read.at(i+at, r.length)*r.stride
						j.run(o[first*size:(first+same)*size], u[(i+at)*size:(i+at+same)*size])
						r.base, at = r.base+same, at+same
						continue
					}
				}
				j.row(read, o, u, i+at, k, r)
				r.base += k * r.next
				at += k
			}
		}
	}}, []place.Memory{index, updates}, []place.Memory{dst})
	return nil
}

// joinedAxes leaves out axes of one element, but for that which indices count along, and joins those that indices name all elements of: there are fewer, longer rows.
func joinedAxes(d, idx []int, axis int) (dims, of []int, at int) {
	for k := range d {
		last := len(dims) - 1
		switch {
		case k == axis:
			at = len(dims)
		case d[k] == 1 && idx[k] == 1:
			continue
		case last >= 0 && (k < axis || last > at) && idx[k] == d[k]:
			dims[last], of[last] = dims[last]*d[k], of[last]*idx[k]
			continue
		}
		dims, of = append(dims, d[k]), append(of, idx[k])
	}
	return dims, of, at
}

func planScatterND(p *planner, n *graph.Node) error {
	x, idx := n.Inputs[0], n.Inputs[1]
	d, di := p.Dims[x.ID], p.Dims[idx.ID]
	k := di[len(di)-1]
	if k > len(d) {
		return property.Because(property.ShapeReason, "indices %v into %v", di, d)
	}
	rows, inner := product(di[:len(di)-1]), product(d[k:])
	src, index, updates, dst := p.In(x), p.In(idx), p.In(n.Inputs[2]), p.Out(n.Outputs[0])
	if p.updateBox(n, src, updates, dst) {
		return nil
	}
	j := p.joining(n)
	p.copyStep(dst, src, p.Bytes(x))
	alone := indexRow{length: d[0], stride: 1}
	single := k == 1 && inner == 1
	p.emit(step{serial: func(st *state) {
		o, u, read := st.Bytes(dst), st.Bytes(updates), st.indices(n, index)
		if single {
			j.row(read, o, u, 0, rows, alone)
			return
		}
		j.points(read, o, u, d[:k], rows, inner)
	}}, []place.Memory{index, updates}, []place.Memory{dst})
	return nil
}

func init() {
	table.Register("GatherElements", operator{Signatures: indexed(1), Plan: planGatherElements})
	table.Register("GatherND", operator{Signatures: indexed(1), Plan: planGatherND})
	table.Register("ScatterElements", operator{Signatures: scatterSignatures, Plan: planScatterElements})
	table.Register("Scatter", operator{Signatures: scatterSignatures, Plan: planScatterElements})
	table.Register("ScatterND", operator{Signatures: scatterSignatures, Plan: planScatterND})
}
