package cpu

import (
	"math"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// LabelEncoder and OneHotEncoder between numbers, and ArrayFeatureExtractor. Strings are package reference's.

// placeOf finds integer keys: in a table of the integers between the least and the largest key where these lie close together.
type placeOf struct {
	base   int64
	dense  []int32 // one more than the place, 0 for integers that are no keys
	sparse map[int64]int32
}

// newPlaceOf maps keys to their places; the last one of equal keys counts.
func newPlaceOf(keys []int64) *placeOf {
	p := &placeOf{}
	if len(keys) == 0 {
		return p
	}
	low, high := keys[0], keys[0]
	for _, k := range keys {
		low, high = min(low, k), max(high, k)
	}
	if uint64(high)-uint64(low) < uint64(8*len(keys)+64) {
		p.base, p.dense = low, make([]int32, high-low+1)
		for i, k := range keys {
			p.dense[k-low] = int32(i) + 1
		}
		return p
	}
	p.sparse = make(map[int64]int32, len(keys))
	for i, k := range keys {
		p.sparse[k] = int32(i)
	}
	return p
}

func (p *placeOf) find(k int64) (int, bool) {
	if p.sparse != nil {
		i, ok := p.sparse[k]
		return int(i), ok
	}
	if d := uint64(k) - uint64(p.base); d < uint64(len(p.dense)) && p.dense[d] > 0 {
		return int(p.dense[d]) - 1, true
	}
	return 0, false
}

// encoder is a LabelEncoder from numbers to numbers. Floating-point keys are found by their bits, NaN and the zeros by one each.
type encoder struct {
	at     *placeOf
	values []byte // and the default one behind them
}

// key returns what stands for a number.
func key(f float64) int64 {
	switch {
	case f == 0:
		return 0
	case f != f:
		return int64(math.Float64bits(math.NaN()))
	}
	return int64(math.Float64bits(f))
}

// listOf returns the first of some attributes as a tensor, nil where the node has none, or has strings.
func listOf(n *graph.Node, names ...string) *tensor.Tensor {
	for _, name := range names {
		switch a := n.Attrs.Lookup(name); {
		case a == nil:
		case a.Kind == graph.AttrTensor && a.Tensor.Check() == nil && a.Tensor.DType != tensor.String:
			return a.Tensor
		case a.Kind == graph.AttrInts:
			return tensor.From(a.Ints)
		case a.Kind == graph.AttrFloats:
			return tensor.From(a.Floats)
		default:
			return nil
		}
	}
	return nil
}

func newEncoder(n *graph.Node) (*encoder, *property.Reason) {
	keys, values := listOf(n, "keys_tensor", "keys_strings", "keys_int64s", "keys_floats"), listOf(n, "values_tensor", "values_strings", "values_int64s", "values_floats")
	from := n.Inputs[0].Type.DType
	if keys == nil || values == nil || keys.Len() != values.Len() || from.IsFloat() != keys.DType.IsFloat() || values.DType != n.Outputs[0].Type.DType {
		return nil, property.Because(property.Attribute, "keys or values are missing, or strings")
	}
	def := listOf(n, "default_tensor")
	switch {
	case def != nil:
	case values.DType.IsFloat():
		def = tensor.From([]float32{float32(n.Float("default_float", float32(math.Copysign(0, -1))))})
	default:
		def = tensor.From([]int64{n.Int("default_int64", -1)})
	}
	list := make([]int64, keys.Len())
	var err error
	if keys.DType.IsFloat() {
		floats := make([]float64, len(list))
		err = tensor.Decode(floats, keys)
		for i, f := range floats {
			list[i] = key(f)
		}
	} else {
		var wide *tensor.Tensor
		if wide, err = tensor.Convert(keys, tensor.Int64, nil); err == nil {
			copy(list, place.Elements[int64](wide.Bytes()))
		}
	}
	if err == nil {
		def, err = tensor.Convert(def, values.DType, nil)
	}
	if err == nil {
		values, err = values.Clone()
	}
	if err != nil || def.Len() != 1 {
		return nil, property.Because(property.Attribute, "default_tensor %v: %v", def, err)
	}
	return &encoder{at: newPlaceOf(list), values: append(append([]byte{}, values.Bytes()...), def.Bytes()...)}, nil
}

// labelSignatures takes labels that are numbers, to numbers.
func labelSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	for _, v := range []*graph.Value{n.Inputs[0], n.Outputs[0]} {
		switch v.Type.DType {
		case tensor.Float32, tensor.Float64, tensor.Int64, tensor.Int32, tensor.Int16:
		default:
			return nil, property.Because(property.DTypeReason, "%v has element type %v", v, v.Type.DType)
		}
	}
	if _, why := newEncoder(n); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

func planLabelEncoder(p *planner, n *graph.Node) error {
	e, err := keep(p.e, n, func() (*encoder, error) {
		e, why := newEncoder(n)
		if why != nil {
			return nil, why
		}
		return e, nil
	})
	if err != nil {
		return err
	}
	switch n.Inputs[0].Type.DType {
	case tensor.Float32:
		encode(p, n, e, func(x float32) int64 { return key(float64(x)) })
	case tensor.Float64:
		encode(p, n, e, key)
	case tensor.Int64:
		encode(p, n, e, func(x int64) int64 { return x })
	case tensor.Int32:
		encode(p, n, e, func(x int32) int64 { return int64(x) })
	default:
		encode(p, n, e, func(x int16) int64 { return int64(x) })
	}
	return nil
}

func encode[S tensor.Element](p *planner, n *graph.Node, e *encoder, key func(S) int64) {
	src, dst, size := p.In(n.Inputs[0]), p.Out(n.Outputs[0]), n.Outputs[0].Type.DType.Size()
	last := len(e.values)/size - 1
	p.emit(step{chunks: product(p.Dims[n.Outputs[0].ID]), grain: grainFor(10), body: func(st *state, _, lo, hi int) {
		x, y := of[S](st, src), st.Bytes(dst)
		for i := lo; i < hi; i++ {
			at, ok := e.at.find(key(x[i]))
			if !ok {
				at = last
			}
			move(y[i*size:], e.values[at*size:], size)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

// oneHotSignatures takes integers; that one is no category is an error where zeros is 0, which package reference makes.
func oneHotSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if dt := n.Inputs[0].Type.DType; dt != tensor.Int64 && dt != tensor.Int32 {
		return nil, property.Because(property.DTypeReason, "%v has element type %v", n.Inputs[0], dt)
	}
	if cats, _ := n.Ints("cats_int64s"); len(cats) == 0 || len(n.Strs("cats_strings")) > 0 || n.Int("zeros", 1) == 0 {
		return nil, property.Because(property.Attribute, "%d categories that are integers, zeros %d", len(cats), n.Int("zeros", 1))
	}
	return operators.RowMajor(n), nil
}

func planOneHotEncoder(p *planner, n *graph.Node) error {
	cats, _ := n.Ints("cats_int64s")
	at := newPlaceOf(cats)
	src, dst, wide := p.In(n.Inputs[0]), p.Out(n.Outputs[0]), n.Inputs[0].Type.DType == tensor.Int64
	to, _ := dst.Runs(4 * len(cats))
	p.emit(step{chunks: product(p.Dims[n.Inputs[0].ID]), grain: grainFor(10 + float64(len(cats))/4), body: func(st *state, _, lo, hi int) {
		y := st.F32(dst)
		if wide {
			oneHot(y, to, of[int64](st, src), at, len(cats), lo, hi)
		} else {
			oneHot(y, to, of[int32](st, src), at, len(cats), lo, hi)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

// oneHot writes rows [lo, hi) of so many numbers, which lie where runs say.
func oneHot[T int32 | int64](y []float32, to place.Runs, x []T, at *placeOf, width, lo, hi int) {
	for lo < hi {
		first, n := to.At(lo, hi-lo)
		for i, x := range x[lo:][:n] {
			row := y[(first+i*to.Near)/4:][:width]
			clear(row)
			if k, ok := at.find(int64(x)); ok {
				row[k] = 1
			}
		}
		lo += n
	}
}

// oneHotStrided is the Strided of OneHotEncoder: of results whose rows of all categories are whole.
func oneHotStrided(_ *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	cats, _ := n.Ints("cats_int64s")
	_, ok := m.Runs(4 * len(cats))
	return ok && v == n.Outputs[0] && v.Format == rowMaj
}

// planArrayFeatureExtractor emits what takes elements of the last axis; indices do not count from the end.
func planArrayFeatureExtractor(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	d, size := p.Dims[x.ID], x.Type.DType.Size()
	length, count := d[len(d)-1], product(p.Dims[n.Inputs[1].ID])
	src, index, dst := p.In(x), p.In(n.Inputs[1]), p.Out(n.Outputs[0])
	p.emit(step{chunks: product(d[:len(d)-1]), grain: grainFor(float64(count) * 2), body: func(st *state, _, lo, hi int) {
		list := of[int64](st, index)[:count]
		for _, at := range list {
			if uint64(at) >= uint64(length) {
				panic(backend.OutOfRange(n, 1, at, 0, int64(length)-1))
			}
		}
		switch size {
		case 4:
			extract(of[uint32](st, dst), of[uint32](st, src), list, length, lo, hi)
		case 8:
			extract(of[uint64](st, dst), of[uint64](st, src), list, length, lo, hi)
		default:
			from, to := st.Bytes(src), st.Bytes(dst)
			for i := lo; i < hi; i++ {
				for k, at := range list {
					move(to[(i*count+k)*size:], from[(i*length+int(at))*size:], size)
				}
			}
		}
	}}, []place.Memory{src, index}, []place.Memory{dst})
	return nil
}

// extract takes elements of rows [lo, hi), which have length, by a list of their places.
func extract[T uint32 | uint64](to, from []T, list []int64, length, lo, hi int) {
	to = to[lo*len(list) : hi*len(list)]
	if len(list) == 1 {
		at := lo*length + int(list[0])
		for i := range to {
			to[i] = from[at]
			at += length
		}
		return
	}
	for i := lo; i < hi; i++ {
		row, out := from[i*length:][:length], to[(i-lo)*len(list):][:len(list)]
		for k, at := range list {
			out[k] = row[at]
		}
	}
}

func extractSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if dt := n.Inputs[1].Type.DType; dt != tensor.Int64 {
		return nil, property.Because(property.DTypeReason, "indices %v are %v", n.Inputs[1], dt)
	}
	return operators.RowMajor(n), nil
}
