package cpu

import (
	"encoding/binary"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/vec"
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
		if scatterKinds[n.Inputs[0].Type.DType].join == nil {
			return nil, property.Because(property.DTypeReason, "reduction %q of %v", r, n.Inputs[0].Type.DType)
		}
	default:
		return nil, property.Because(property.Attribute, "reduction %q", r)
	}
	return indexed(1)(n)
}

// combine returns how a scattered run of bytes joins what is there.
func combine(k vec.Kernels, n *graph.Node) func(dst, src []byte) {
	r := n.Str("reduction", "none")
	switch {
	case r == "none":
		return func(dst, src []byte) { move(dst, src, len(src)) }
	case n.Inputs[0].Type.DType == tensor.Float32:
		op := map[string]vec.BinaryOp{"add": vec.Add, "mul": vec.Mul, "max": vec.Max, "min": vec.Min}[r]
		few := joinOf[float32](r)
		return func(dst, src []byte) {
			if len(dst) < 4*leastRun {
				few(dst, src)
				return
			}
			d := place.Elements[float32](dst)
			k.Binary(op, d, d, place.Elements[float32](src))
		}
	}
	return scatterKinds[n.Inputs[0].Type.DType].join(r)
}

// scatterKind is what updates elements of a type: runs of them, and one by one.
type scatterKind struct {
	join func(reduction string) func(dst, src []byte)
	one  func(reduction string) func(x *indices, o, u []byte, size, i, n int, r indexRow)
}

func scatterKindOf[T integer | float32 | float64]() scatterKind {
	return scatterKind{joinOf[T], scatterReduced[T]}
}

// scatterKinds are those of the types that there are reductions of.
var scatterKinds = map[tensor.DType]scatterKind{
	tensor.Float32: scatterKindOf[float32](), tensor.Float64: scatterKindOf[float64](), tensor.Int8: scatterKindOf[int8](), tensor.Int16: scatterKindOf[int16](),
	tensor.Int32: scatterKindOf[int32](), tensor.Int64: scatterKindOf[int64](), tensor.Uint8: scatterKindOf[uint8](), tensor.Uint16: scatterKindOf[uint16](),
	tensor.Uint32: scatterKindOf[uint32](), tensor.Uint64: scatterKindOf[uint64](),
}

func joinOf[T integer | float32 | float64](reduction string) func(dst, src []byte) {
	switch reduction {
	case "add":
		return joins(func(d, s []T) {
			for i, v := range s {
				d[i] += v
			}
		})
	case "mul":
		return joins(func(d, s []T) {
			for i, v := range s {
				d[i] *= v
			}
		})
	case "max":
		return joins(func(d, s []T) {
			for i, v := range s {
				d[i] = max(d[i], v)
			}
		})
	}
	return joins(func(d, s []T) {
		for i, v := range s {
			d[i] = min(d[i], v)
		}
	})
}

func joins[T integer | float32 | float64](join func(d, s []T)) func(dst, src []byte) {
	return func(dst, src []byte) { join(place.Elements[T](dst), place.Elements[T](src)) }
}

func reduceInto[T integer | float32 | float64](e *T, v T, reduction string) {
	switch reduction {
	case "add":
		*e += v
	case "mul":
		*e *= v
	case "max":
		*e = max(*e, v)
	default:
		*e = min(*e, v)
	}
}

func planScatterElements(p *planner, n *graph.Node) error {
	x, idx := n.Inputs[0], n.Inputs[1]
	d, di := p.Dims[x.ID], p.Dims[idx.ID]
	axis, size := axisOf(n, 0, len(d)), x.Type.DType.Size()
	src, index, updates, dst := p.In(x), p.In(idx), p.In(n.Inputs[2]), p.Out(n.Outputs[0])
	run, join, one := runAt(idx), combine(p.kernels, n), scatterOne(n)
	count, length := product(di), max(di[len(di)-1], 1)
	p.copyStep(dst, src, p.Bytes(x))
	p.emit(step{serial: func(st *state) { // in order: a later update wins
		o, u, read := st.Bytes(dst), st.Bytes(updates), st.indices(n, index)
		for i := 0; i < count; i += length {
			r := rowFrom(d, di, axis, i)
			for j := 0; j < length; {
				k := 1
				if r.next == 1 {
					k = run(st, index, i+j, length-j)
				}
				if k < leastRun {
					k = min(length-j, leastRun)
					one(&read, o, u, size, i+j, k, r)
				} else { // of one index
					at := r.base + read.at(i+j, r.length)*r.stride
					join(o[at*size:(at+k)*size], u[(i+j)*size:(i+j+k)*size])
				}
				r.base += k * r.next
				j += k
			}
		}
	}}, []place.Memory{index, updates}, []place.Memory{dst})
	return nil
}

// leastRun is how many elements of one index are worth a call of a kernel.
const leastRun = 32

// scatterOne returns what updates elements of a row one by one, of those that combine takes.
func scatterOne(n *graph.Node) func(x *indices, o, u []byte, size, i, n int, r indexRow) {
	if reduction := n.Str("reduction", "none"); reduction != "none" {
		return scatterKinds[n.Inputs[0].Type.DType].one(reduction)
	}
	return (*indices).scatter
}

// scatterReduced is scatter with a reduction.
func scatterReduced[T integer | float32 | float64](reduction string) func(x *indices, o, u []byte, size, i, n int, r indexRow) {
	return func(x *indices, o, u []byte, _, i, n int, r indexRow) {
		d, s := place.Elements[T](o), place.Elements[T](u)[i:i+n]
		at := r.base
		for k, v := range s {
			reduceInto(&d[at+x.at(i+k, r.length)*r.stride], v, reduction)
			at += r.next
		}
	}
}

func planScatterND(p *planner, n *graph.Node) error {
	x, idx := n.Inputs[0], n.Inputs[1]
	d, di := p.Dims[x.ID], p.Dims[idx.ID]
	k := di[len(di)-1]
	if k > len(d) {
		return property.Because(property.ShapeReason, "indices %v into %v", di, d)
	}
	rows, size := product(di[:len(di)-1]), product(d[k:])*x.Type.DType.Size()
	src, index, updates, dst := p.In(x), p.In(idx), p.In(n.Inputs[2]), p.Out(n.Outputs[0])
	join, replaces := combine(p.kernels, n), n.Str("reduction", "none") == "none"
	p.copyStep(dst, src, p.Bytes(x))
	one, alone := scatterOne(n), indexRow{length: d[0], stride: 1}
	single := k == 1 && product(d[1:]) == 1
	p.emit(step{serial: func(st *state) {
		o, u, read := st.Bytes(dst), st.Bytes(updates), st.indices(n, index)
		if single {
			one(&read, o, u, size, 0, rows, alone)
			return
		}
		for i := range rows {
			at := read.point(i*k, d[:k])
			if to, from := o[at*size:(at+1)*size], u[i*size:(i+1)*size]; replaces {
				move(to, from, size)
			} else {
				join(to, from)
			}
		}
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
