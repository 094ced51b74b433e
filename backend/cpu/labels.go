package cpu

import (
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/cast"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// LabelEncoder, OneHotEncoder and ArrayFeatureExtractor.

// placeOf finds integer keys: in a table of the integers between the least and the largest key where these lie close together, else in one of open addresses.
type placeOf struct {
	base  int64
	dense []int32 // one more than the place, 0 for integers that are no keys
	slots []keyed // a power of two of them
	shift int     // of hashes, to numbers of slots
	odd   uint64  // by which keys are multiplied, drawn at random: no model's keys meet in few slots (Dietzfelbinger et al., 1997)
}

// keyed is a key and one more than its place, 0 for none.
type keyed struct {
	key int64
	at  int32
}

// findAll writes the places of keys, and other for those that there are not.
func (p *placeOf) findAll(places []int32, keys []int64, other int32) {
	places = places[:len(keys)]
	if p.slots != nil {
		for i, k := range keys {
			at := p.slot(k).at - 1
			places[i] = at + at>>31&(other+1)
		}
		return
	}
	dense, base := p.dense, uint64(p.base)
	for i, k := range keys {
		at := int32(0)
		if len(dense) > 0 {
			at = dense[min(uint64(k)-base, uint64(len(dense)-1))] // without a branch, which data would mislead
		}
		at--
		places[i] = at + at>>31&(other+1)
	}
}

// counting says which of equal keys counts. As in ONNX Runtime it is the first of LabelEncoder, whose lists ONNX says nothing of, and the
// last of other operators and of LabelEncoder's first version.
type counting int

const (
	lastCounts counting = iota
	firstCounts
)

// newPlaceOf maps keys to their places.
func newPlaceOf(keys []int64, c counting) *placeOf {
	p := &placeOf{}
	if len(keys) == 0 {
		return p
	}
	low, high := keys[0], keys[0]
	for _, k := range keys {
		low, high = min(low, k), max(high, k)
	}
	if uint64(high)-uint64(low) < uint64(8*len(keys)+64) {
		p.base, p.dense = low, make([]int32, high-low+2) // the last for all that lie beyond
		for i, k := range keys {
			if at := &p.dense[k-low]; *at == 0 || c == lastCounts {
				*at = int32(i) + 1
			}
		}
		return p
	}
	p.shift, p.odd = 64-bits.Len(uint(4*len(keys))), rand.Uint64()|1
	p.slots = make([]keyed, 1<<(64-p.shift))
	for i, k := range keys {
		if slot := p.slot(k); slot.at == 0 || c == lastCounts {
			*slot = keyed{k, int32(i) + 1}
		}
	}
	return p
}

// slot returns where a key lies, or would: more than half of all slots are free.
func (p *placeOf) slot(k int64) *keyed {
	for at := uint64(k) * p.odd >> p.shift; ; at++ {
		if s := &p.slots[at&uint64(len(p.slots)-1)]; s.at == 0 || s.key == k {
			return s
		}
	}
}

// enter maps keys to their places.
func enter[K comparable](m map[K]int32, keys []K, c counting) {
	for i, k := range keys {
		if _, there := m[k]; !there || c == lastCounts {
			m[k] = int32(i)
		}
	}
}

func (p *placeOf) find(k int64) (int, bool) {
	if p.slots != nil {
		at := p.slot(k).at
		return int(at) - 1, at > 0
	}
	if d := uint64(k) - uint64(p.base); d < uint64(len(p.dense)) && p.dense[d] > 0 {
		return int(p.dense[d]) - 1, true
	}
	return 0, false
}

// encoder is a LabelEncoder. Floating-point keys are found by their bits, NaN and the zeros by one each. As in ONNX Runtime keys that are NaN are
// found from version 4 on, which has keys of several types, and not before.
type encoder struct {
	at     *placeOf
	words  *words   // keys that are strings
	values []byte   // and the default one behind them
	count  int      // of values
	texts  []string // the same of strings
}

// unfound is a key of no number: the bits of a NaN that key does not return.
var unfound = int64(math.Float64bits(math.NaN())) ^ 2

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

// listOf returns the first of some attributes as a tensor, nil where the node has none.
func listOf(n *graph.Node, names ...string) *tensor.Tensor {
	for _, name := range names {
		switch a := n.Attrs.Lookup(name); {
		case a == nil:
		case a.Kind == graph.AttrTensor && a.Tensor.Check() == nil:
			return a.Tensor
		case a.Kind == graph.AttrInts:
			return tensor.From(a.Ints)
		case a.Kind == graph.AttrFloats:
			return tensor.From(a.Floats)
		case a.Kind == graph.AttrStrings:
			return tensor.FromStrings(a.Strs)
		default:
			return nil
		}
	}
	return nil
}

// encoded returns the keys and values of a LabelEncoder. Version 1 maps strings to their numbers in a list, and back.
func encoded(n *graph.Node) (keys, values *tensor.Tensor) {
	strs := n.Strs("classes_strings")
	if len(strs) == 0 {
		return listOf(n, "keys_tensor", "keys_strings", "keys_int64s", "keys_floats"), listOf(n, "values_tensor", "values_strings", "values_int64s", "values_floats")
	}
	numbers := make([]int64, len(strs))
	for i := range numbers {
		numbers[i] = int64(i)
	}
	if keys, values = tensor.FromStrings(strs), tensor.From(numbers); n.Inputs[0].Type.DType != tensor.String {
		keys, values = values, keys
	}
	return keys, values
}

func newEncoder(n *graph.Node) (*encoder, *property.Reason) {
	keys, values := encoded(n)
	from, to := n.Inputs[0].Type.DType, n.Outputs[0].Type.DType
	if keys == nil || values == nil || keys.Len() != values.Len() || values.DType != to ||
		from.IsFloat() != keys.DType.IsFloat() || (from == tensor.String) != (keys.DType == tensor.String) {
		return nil, property.Because(property.Attribute, "keys or values are missing, or of other types")
	}
	e := &encoder{}
	c := firstCounts
	if len(n.Strs("classes_strings")) > 0 {
		c = lastCounts
	}
	if err := e.find(keys, c, n.Op.Since); err != nil {
		return nil, property.Because(property.Attribute, "keys: %v", err)
	}
	def := listOf(n, "default_tensor")
	switch {
	case def != nil:
	case to == tensor.String:
		def = tensor.FromStrings([]string{n.Str("default_string", "_Unused")})
	case to.IsFloat():
		def = tensor.From([]float32{float32(n.Float("default_float", float32(math.Copysign(0, -1))))})
	default:
		def = tensor.From([]int64{n.Int("default_int64", -1)})
	}
	if err := e.give(values, def); err != nil {
		return nil, property.Because(property.Attribute, "default_tensor %v: %v", def, err)
	}
	return e, nil
}

// find sets the keys of a version of the operator.
func (e *encoder) find(keys *tensor.Tensor, c counting, version int) error {
	if keys.DType == tensor.String {
		e.words = newWords(keys.Strings[:keys.Len()], c)
		return nil
	}
	list := make([]int64, keys.Len())
	if keys.DType.IsFloat() {
		floats := make([]float64, len(list))
		err := tensor.Decode(floats, keys)
		for i, f := range floats {
			if list[i] = key(f); f != f && version < 4 {
				list[i] = unfound
			}
		}
		e.at = newPlaceOf(list, c)
		return err
	}
	wide, err := tensor.Convert(keys, tensor.Int64, nil)
	if err == nil {
		copy(list, place.Elements[int64](wide.Bytes()))
	}
	e.at = newPlaceOf(list, c)
	return err
}

// give sets the values, and the one of all that is no key.
func (e *encoder) give(values, def *tensor.Tensor) error {
	if def.DType != values.DType && (def.DType == tensor.String || values.DType == tensor.String) || def.Len() != 1 {
		return tensor.ErrDType
	}
	if values.DType == tensor.String {
		e.texts, e.count = append(slices.Clone(values.Strings[:values.Len()]), def.Strings[0]), values.Len()+1
		return nil
	}
	def, err := tensor.Convert(def, values.DType, nil)
	if err != nil {
		return err
	}
	if values, err = values.Clone(); err == nil {
		e.values, e.count = append(append([]byte{}, values.Bytes()...), def.Bytes()...), values.Len()+1
	}
	return err
}

// labelSignatures takes labels that are strings or numbers of some types.
func labelSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	for _, v := range []*graph.Value{n.Inputs[0], n.Outputs[0]} {
		switch v.Type.DType {
		case tensor.Float32, tensor.Float64, tensor.Int64, tensor.Int32, tensor.Int16, tensor.String:
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
	case tensor.String:
		encodeTexts(p, n, e)
	case tensor.Float32:
		encode[float32](p, n, e)
	case tensor.Float64:
		encode[float64](p, n, e)
	case tensor.Int64:
		encode[int64](p, n, e)
	case tensor.Int32:
		encode[int32](p, n, e)
	default:
		encode[int16](p, n, e)
	}
	return nil
}

// floatKeys and wholeKeys write what stands for some numbers.

func floatKeys[S float32 | float64](keys []int64, x []S) {
	for i, f := range x[:len(keys)] {
		keys[i] = key(float64(f))
	}
}

func wholeKeys[S int16 | int32 | int64](keys []int64, x []S) {
	for i, k := range x[:len(keys)] {
		keys[i] = int64(k)
	}
}

// keysOf writes what stands for numbers of a type that labels have. To call it through a variable would have keys on the heap.
func keysOf[S tensor.Element](keys []int64, x []S) {
	switch x := any(x).(type) {
	case []float32:
		floatKeys(keys, x)
	case []float64:
		floatKeys(keys, x)
	case []int64:
		wholeKeys(keys, x)
	case []int32:
		wholeKeys(keys, x)
	case []int16:
		wholeKeys(keys, x)
	}
}

func encode[S tensor.Element](p *planner, n *graph.Node, e *encoder) {
	src := p.In(n.Inputs[0])
	e.emit(p, n, func(st *state, places []int32, lo int) {
		var room [placesTogether]int64
		keys := room[:len(places)]
		keysOf(keys, of[S](st, src)[lo:])
		e.at.findAll(places, keys, int32(e.count-1))
	})
}

// encodeTexts is encode for strings.
func encodeTexts(p *planner, n *graph.Node, e *encoder) {
	e.emit(p, n, e.words.among(p.textsOf(n.Inputs[0]), int32(e.count-1)))
}

// placesTogether is how many elements are looked up before their values are written.
const placesTogether = 128

// emit emits the lookup of all elements: find gives the places of the values of those from lo on.
func (e *encoder) emit(p *planner, n *graph.Node, find func(st *state, places []int32, lo int)) {
	y := n.Outputs[0]
	dst, size := p.Out(y), y.Type.DType.Size()
	room := p.scratch(4 * placesTogether)
	p.emit(step{chunks: product(p.Dims[y.ID]), grain: grainFor(10), body: func(st *state, worker, lo, hi int) {
		for ; lo < hi; lo += placesTogether {
			places := room.of(st, worker)[:min(hi-lo, placesTogether)]
			find(st, places, lo)
			switch size {
			case 0:
				choose(st.texts[y.ID][lo:], e.texts, places)
			case 4:
				choose(of[uint32](st, dst)[lo:], place.Elements[uint32](e.values), places)
			case 8:
				choose(of[uint64](st, dst)[lo:], place.Elements[uint64](e.values), places)
			default:
				choose(of[uint16](st, dst)[lo:], place.Elements[uint16](e.values), places)
			}
		}
	}}, []place.Memory{p.In(n.Inputs[0])}, []place.Memory{dst, room.at})
}

// choose writes the values at some places.
func choose[T any](to, values []T, places []int32) {
	to = to[:len(places)]
	for i, at := range places {
		to[i] = values[at]
	}
}

// oneHotSignatures takes numbers and strings, of which the node has categories: floats are cut to integers.
func oneHotSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	dt := n.Inputs[0].Type.DType
	switch dt {
	case tensor.Int64, tensor.Int32, tensor.Float32, tensor.Float64, tensor.String:
	default:
		return nil, property.Because(property.DTypeReason, "%v has element type %v", n.Inputs[0], dt)
	}
	cats, _ := n.Ints("cats_int64s")
	if strs := n.Strs("cats_strings"); len(cats) > 0 == (len(strs) > 0) || len(strs) > 0 != (dt == tensor.String) {
		return nil, property.Because(property.Attribute, "%d categories that are integers, %d strings, of %v", len(cats), len(strs), dt)
	}
	return operators.RowMajor(n), nil
}

// oneHot is a OneHotEncoder of so many categories.
type oneHot struct {
	width  int
	strict bool // what is no category is an error
}

// errNoCategory is what a strict OneHotEncoder fails with. The run is done again by package reference, which says which element is none.
var errNoCategory = errors.New("no category")

func planOneHotEncoder(p *planner, n *graph.Node) error {
	cats, _ := n.Ints("cats_int64s")
	strs := n.Strs("cats_strings")
	h := oneHot{max(len(cats), len(strs)), n.Int("zeros", 1) == 0}
	p.mayFail = p.mayFail || h.strict
	if n.Inputs[0].Type.DType == tensor.String {
		h.emit(p, n, newWords(strs, lastCounts).among(p.textsOf(n.Inputs[0]), -1))
		return nil
	}
	h.emitNumbers(p, n, newPlaceOf(cats, lastCounts))
	return nil
}

// emitNumbers is emit for numbers, of which floats are cut to integers.
func (h oneHot) emitNumbers(p *planner, n *graph.Node, at *placeOf) {
	src, set, from := p.In(n.Inputs[0]), p.target.Set, castKinds[n.Inputs[0].Type.DType]
	h.emit(p, n, func(st *state, places []int32, lo int) {
		if from == cast.Int64 {
			at.findAll(places, of[int64](st, src)[lo:][:len(places)], -1)
			return
		}
		var room [placesTogether]int64
		keys := room[:len(places)]
		cast.Elements(set, asBytes(keys), cast.Int64, st.Bytes(src)[lo*from.Size():], from, len(keys))
		at.findAll(places, keys, -1)
	})
}

// emit emits the rows of all elements, which lie where runs say; find gives the categories of elements from lo on, -1 for none.
func (h oneHot) emit(p *planner, n *graph.Node, find func(st *state, places []int32, lo int)) {
	dst, room := p.Out(n.Outputs[0]), p.scratch(4*placesTogether)
	to, _ := dst.Runs(4 * h.width)
	p.emit(step{chunks: product(p.Dims[n.Inputs[0].ID]), grain: grainFor(10 + float64(h.width)/4), body: func(st *state, worker, lo, hi int) {
		y := st.F32(dst)
		for lo < hi {
			first, n := to.At(lo, min(hi-lo, placesTogether))
			places := room.of(st, worker)[:n]
			find(st, places, lo)
			h.write(st, y[first/4:], to.Near/4, places)
			lo += n
		}
	}}, []place.Memory{p.In(n.Inputs[0])}, []place.Memory{dst, room.at})
}

// write writes rows that lie a step apart.
func (h oneHot) write(st *state, y []float32, step int, places []int32) {
	if step == h.width {
		clear(y[:len(places)*step])
	}
	none := int32(0) // negative where an element has none
	for i, k := range places {
		row := y[i*step:][:h.width]
		if step != h.width {
			clear(row)
		}
		without := k >> 31
		none |= without
		row[k&^without] = math.Float32frombits(oneBits &^ uint32(without)) // without a branch, which data would mislead
	}
	if h.strict && none != 0 {
		st.fail(errNoCategory)
	}
}

// oneBits are the bits of 1.
const oneBits = 0x3f800000

// oneHotStrided is the Strided of OneHotEncoder: of results whose rows of all categories are whole.
func oneHotStrided(_ *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	cats, _ := n.Ints("cats_int64s")
	_, ok := m.Runs(4 * max(len(cats), len(n.Strs("cats_strings"))))
	return ok && v == n.Outputs[0] && v.Format == rowMaj
}

// planArrayFeatureExtractor emits what takes elements of the last axis; indices do not count from the end (package reference says why).
func planArrayFeatureExtractor(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	d, size := p.Dims[x.ID], x.Type.DType.Size()
	length, count := d[len(d)-1], product(p.Dims[n.Inputs[1].ID])
	src, index, dst := p.In(x), p.In(n.Inputs[1]), p.Out(n.Outputs[0])
	if size == 4 && p.takeColumns(n.Inputs[1], src, dst, product(d[:len(d)-1]), length) {
		return nil
	}
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
