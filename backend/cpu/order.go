package cpu

import (
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/cast"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// ArgMax and ArgMin of float32, float64 and integers, and TopK. The first of equals wins. ONNX leaves NaN open: here, as in package reference, TopK
// counts it as larger than every number, and ArgMax and ArgMin pass it over unless it comes first.

func argSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; !operators.IsFloat32(x) && !isDouble(x) && !isWhole(x) {
		return nil, operators.NotFloat32(x)
	}
	if len(n.Inputs[0].Type.Shape) == 0 {
		return nil, property.Because(property.ShapeReason, "a scalar")
	}
	return operators.RowMajor(n), nil
}

func planArg(p *planner, n *graph.Node) error {
	if x := n.Inputs[0]; isDouble(x) {
		op, k := double.Greatest, p.doubles()
		if n.Is("ArgMin") {
			op = double.Least
		}
		return planArgOf(p, n, func(row []float64) float64 { return k.Reduce(op, row) })
	} else if isWhole(x) {
		return integerKinds[x.Type.DType].arg(p, n)
	}
	return planArgOf[float32](p, n, nil)
}

// planArgIntegers is planArg of integers.
func planArgIntegers[T integer](p *planner, n *graph.Node) error {
	op, set := element.Max, p.target.Set
	if n.Is("ArgMin") {
		op = element.Min
	}
	return planArgOf(p, n, func(row []T) T { return element.Fold(set, op, row) })
}

// planArgOf emits the step; most returns the greatest, or least, element of a row of other numbers than float32.
func planArgOf[T ordered](p *planner, n *graph.Node, most func(row []T) T) error {
	x := n.Inputs[0]
	d := p.Dims[x.ID]
	axis := axisOf(n, 0, len(d))
	count, inner := d[axis], product(d[axis+1:])
	if count == 0 {
		return property.Because(property.ShapeReason, "no element along axis %d of %v", axis, d)
	}
	r := argRows{count: count, inner: inner, least: n.Is("ArgMin"), last: n.Int("select_last_index", 0) != 0, kernels: p.kernels, set: p.target.Set}
	src, dst := p.In(x), p.Out(n.Outputs[0])
	if rows := product(d[:axis]); operators.IsFloat32(x) && inner == 1 && count > 1 && count <= fewInRow && rows >= leastRows {
		p.argFew(&r, src, dst, rows)
		return nil
	}
	p.emit(step{chunks: product(d[:axis]) * inner, grain: grainFor(float64(count) * 2), body: func(st *state, _, lo, hi int) {
		o, s := of[int64](st, dst), of[T](st, src)
		if inner > 1 {
			for i := lo; i < hi; {
				n := min(hi-i, inner-i%inner, argColumns)
				argOfColumns(&r, o[i:i+n], s[i/inner*count*inner+i%inner:])
				i += n
			}
			return
		}
		if rows, ok := any(s).([]float32); ok && (count > shortRow || r.least || r.last) {
			r.ofFloats(o[lo:hi], rows[lo*count:hi*count])
			return
		} else if ok {
			for i := lo; i < hi; i++ {
				o[i] = int64(firstOfFew(rows[i*count:][:count]))
			}
			return
		}
		if count > shortRow {
			ofOthers(&r, o[lo:hi], s[lo*count:hi*count], most)
			return
		}
		for i := lo; i < hi; i++ {
			o[i] = int64(argOfRow(&r, s[i*count:][:count]))
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

// argFew emits ArgMax or ArgMin of rows of so few elements that they are turned, some at a time, and looked through as columns.
func (p *planner) argFew(r *argRows, src, dst place.Memory, rows int) {
	target, count, columns := p.target, r.count, *r
	columns.inner = argColumns
	room := p.scratch(4 * argColumns * count)
	p.emit(step{chunks: rows, grain: grainFor(float64(count)), body: func(st *state, worker, lo, hi int) {
		o, s, turned := of[int64](st, dst), st.F32(src), room.floats(st, worker)
		for lo < hi {
			n := min(hi-lo, argColumns)
			reorder.Transpose2D(target, turned, s[lo*count:], n, count, count, argColumns)
			argOfColumns(&columns, o[lo:lo+n], turned)
			lo += n
		}
	}}, []place.Memory{src}, []place.Memory{dst, room.at})
}

// topKOf returns how many elements TopK takes, and its axis. ok is false where the number is not known at compile time.
func topKOf(n *graph.Node) (k, axis int, ok bool) {
	axis = axisOf(n, -1, len(n.Inputs[0].Type.Shape))
	if n.Op.Since < 10 {
		return int(n.Int("k", 0)), axis, true
	}
	v, ok := constInt(n.Input(1))
	return int(v), axis, ok
}

func topKSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if len(x.Type.Shape) == 0 {
		return nil, property.Because(property.ShapeReason, "a scalar")
	}
	if rankingOf(x.Type.DType) == nil {
		return nil, property.Because(property.DTypeReason, "%v is %v", x, x.Type.DType)
	}
	if _, _, ok := topKOf(n); !ok && !place.Told(n, n.Input(1)) && !chooses(n) {
		return nil, property.Because(property.Unsupported, "number of elements %v is not known at compile time", n.Input(1))
	}
	return operators.RowMajor(n), nil
}

// topRows is TopK of a tensor: of count elements along an axis, in rows of which inner lie beside each other, the first k.
type topRows struct {
	k, count, inner int
	largest         bool
	dt              tensor.DType
	rank            ranking
	scan            scanning // of few elements, nil for none
	target          isa.Target
	widened         *topRows // of a contiguous row of half precision as float32, nil for other types
}

func topRowsOf(target isa.Target, n *graph.Node, d []int, axis, k int) topRows {
	dt := n.Inputs[0].Type.DType
	t := topRows{target: target, k: k, count: d[axis], inner: product(d[axis+1:]), largest: n.Int("largest", 1) != 0, dt: dt, rank: rankingOf(dt)}
	if k > 0 && k <= fewScanned && k <= t.count && !(dt == tensor.Float32 && t.sifts()) {
		t.scan = scannings[dt]
	}
	if isHalf(dt) {
		t.widened = &topRows{target: target, k: k, count: t.count, inner: 1, largest: t.largest, dt: tensor.Float32, rank: ranksOfFloats}
		if k > 0 && k <= fewScanned && k <= t.count && !t.sifts() {
			t.widened.scan = scannings[tensor.Float32]
		}
	}
	return t
}

// sifts reports whether so few elements are taken that most are passed over without a rank.
func (t *topRows) sifts() bool {
	const leastSifted = 256
	return t.k > 0 && t.count >= leastSifted && 4*t.k <= t.count
}

// wide reports whether ranks have more than 32 bits.
func (t *topRows) wide() bool { return t.dt.Size() > 4 }

// columns returns how many rows that lie beside each other are sifted at once, 0 where each is for itself.
func (t *topRows) columns() int {
	if t.inner < 8 || t.k > few || t.dt != tensor.Float32 || !t.sifts() {
		return 0
	}
	return min(t.inner, siftBlock)
}

// gathered returns how many rows that lie beside each other are copied to where each is contiguous before they are read, 0 where they are read as they lie: elements of
// a cache line, of types whose rows are then passed over quickly.
func (t *topRows) gathered() int {
	size := t.dt.Size()
	if t.inner < 2 || t.columns() > 0 || size != 2 && size != 4 && size != 8 || t.scan == nil && t.widened == nil && !t.sifts() {
		return 0
	}
	return min(t.inner, 64/size)
}

// rowBytes is the scratch memory of a row.
func (t *topRows) rowBytes() int {
	if t.widened != nil {
		return ceilDiv(20*t.count, 8) * 8
	}
	return 16 * t.count
}

// columnBytes is the scratch memory of columns: of each the first k keys so far and room for one more, and its limit, or of rows that are gathered.
func (t *topRows) columnBytes() int {
	return t.columns()*(8*(t.k+1)+4) + t.gathered()*t.count*t.dt.Size()
}

// runAll orders rows [lo, hi). room has columnBytes().
func (t *topRows) runAll(r *rows, lo, hi int, room, src, values []byte, at []int64) {
	if columns := t.columns(); columns > 0 {
		keys, limits := place.Elements[uint64](room[:8*columns*(t.k+1)]), place.Elements[float32](room[8*columns*(t.k+1):])
		for lo < hi {
			n := min(columns, hi-lo, t.inner-lo%t.inner)
			t.siftColumns(place.Elements[float32](src)[lo/t.inner*t.count*t.inner+lo%t.inner:], keys, limits[:n])
			for c := range n {
				first := keys[c*(t.k+1):][:t.k]
				t.put(placesOf(first), lo+c, src, values, at)
			}
			lo += n
		}
	}
	for some := t.gathered(); some > 0 && lo < hi; {
		n := min(some, hi-lo, t.inner-lo%t.inner)
		t.gather(room, src[(lo/t.inner*t.count*t.inner+lo%t.inner)*t.dt.Size():], n)
		for c := range n {
			t.put(t.first(r, c*t.count, 1, room), lo+c, src, values, at)
		}
		lo += n
	}
	for i := lo; i < hi; i++ {
		t.run(r, i, src, values, at)
	}
}

// gather copies n rows, which begin beside each other in src, to room, one after the other.
func (t *topRows) gather(room, src []byte, n int) {
	set, end := t.target.Set, ((t.count-1)*t.inner+n)*t.dt.Size()
	switch src = src[:end]; t.dt.Size() {
	case 2:
		element.Transpose(set, place.Elements[uint16](room), place.Elements[uint16](src), t.count, n, t.inner, t.count)
	case 4:
		reorder.Transpose2D(t.target, place.Elements[float32](room), place.Elements[float32](src), t.count, n, t.inner, t.count)
	default:
		element.Transpose(set, place.Elements[uint64](room), place.Elements[uint64](src), t.count, n, t.inner, t.count)
	}
}

// siftColumns finds the keys of the first k elements of some columns, which begin beside each other in src. An element of each is compared with
// the last of the first k of its column so far at once.
func (t *topRows) siftColumns(src []float32, keys []uint64, limits []float32) {
	flip, skip, each := uint64(0), element.AtLeast, t.k+1
	if t.largest {
		flip, skip = math.MaxUint32, element.AtMost
	}
	for c := range limits {
		for j := range t.k {
			insertKey(keys[c*each:][:j+1], keyOf(j, src[j*t.inner+c], flip))
		}
		limits[c] = floatOf(keys[c*each+t.k-1], flip)
	}
	var words [siftBlock / 8]uint64
	skipped := (*[siftBlock]bool)(unsafe.Pointer(&words))[:len(limits)]
	for j := t.k; j < t.count; j++ {
		row := src[j*t.inner:][:len(limits)]
		element.Compare(t.target.Set, skip, skipped, row, limits) // NaN is not skipped
		for w := range words[:ceilDiv(len(row), 8)] {
			for taken := words[w] ^ 0x0101010101010101; taken != 0; taken &= taken - 1 {
				c := 8*w + bits.TrailingZeros64(taken)/8
				if c >= len(row) {
					break
				}
				list := keys[c*each:][:each]
				if key := keyOf(j, row[c], flip); key < list[t.k-1] {
					insertKey(list, key)
					limits[c] = floatOf(list[t.k-1], flip)
				}
			}
		}
	}
}

// run orders row i of src, which is read as it lies. values and at may be nil.
func (t *topRows) run(r *rows, i int, src, values []byte, at []int64) {
	base := i/t.inner*t.count*t.inner + i%t.inner
	t.put(t.first(r, base, t.inner, src), i, src, values, at)
}

// first returns the places of the first elements of a row, whose elements lie stride apart in src from element base on.
func (t *topRows) first(r *rows, base, stride int, src []byte) []uint64 {
	if stride == 1 && t.widened != nil {
		reorder.FromHalf(t.target, r.near, place.Elements[uint16](src)[base:][:t.count], halves[t.dt])
		return t.widened.first(r, 0, 1, asBytes(r.near))
	}
	if stride == 1 {
		if first := t.quick(r, base, src); first != nil {
			return first
		}
	}
	t.rank(r.keys, src, base, stride)
	return r.first(t.k, t.wide(), t.largest)
}

// quick returns the places of the first elements of a contiguous row, which begins at element base of src, without ranks of all; nil where that is no way.
func (t *topRows) quick(r *rows, base int, src []byte) []uint64 {
	if t.scan != nil {
		if first := t.scan(r.order[:t.k], src, base, t.count, t.largest); first != nil {
			return first
		}
	}
	if t.sifts() {
		return t.sift(r, base, src)
	}
	return nil
}

// sift returns the places of the first elements of a row, which begins at element base of src: of floats as near to its elements as there are, where they are none.
// Where that may turn elements into equals those that may be among the first are ranked themselves; the result is nil if these are too many.
func (t *topRows) sift(r *rows, base int, src []byte) []uint64 {
	flip := uint64(0)
	if t.largest {
		flip = math.MaxUint32
	}
	if t.dt == tensor.Float32 {
		return r.sift(t.target, place.Elements[float32](src)[base:][:t.count], t.k, flip)
	}
	near := place.Elements[float32](asBytes(r.order[t.count/2:]))[:t.count] // behind the result, which is a quarter at most
	part := src[base*t.dt.Size():][:t.count*t.dt.Size()]
	cast.Elements(t.target.Set, asBytes(near), cast.Float32, part, castKinds[t.dt], t.count)
	if t.dt.Size() <= 2 { // floats hold them
		return r.sift(t.target, near, t.k, flip)
	}
	places := r.notBehind(t.target.Set, near, floatOf(r.bound(t.target, near, t.k, flip), flip), flip)
	if places == nil {
		return nil
	}
	some := rows{keys: r.keys[:len(places)], order: r.order[:len(places)]}
	for j, at := range places {
		t.rank(some.keys[j:j+1], part, int(at), 1)
	}
	first := some.first(t.k, t.wide(), t.largest)
	for j, at := range first {
		first[j] = places[at]
	}
	return first
}

// put writes the first elements of row i.
func (t *topRows) put(first []uint64, i int, src, values []byte, at []int64) {
	base := i/t.inner*t.count*t.inner + i%t.inner
	out, size := i/t.inner*t.k*t.inner+i%t.inner, t.dt.Size()
	for j, e := range first {
		if values != nil {
			from := (base + int(e)*t.inner) * size
			copy(values[(out+j*t.inner)*size:][:size], src[from:])
		}
		if at != nil {
			at[out+j*t.inner] = int64(e)
		}
	}
}

// check returns why k elements cannot be taken, nil where they can.
func (t *topRows) check(n *graph.Node) error {
	switch {
	case t.k < 0 || t.k > t.count:
		return backend.OutOfRange(n, 1, int64(t.k), 0, int64(t.count))
	case t.count > math.MaxUint32:
		return property.Because(property.ShapeReason, "%d elements", t.count)
	}
	return nil
}

func planTopK(p *planner, n *graph.Node) error {
	d := p.Dims[n.Inputs[0].ID]
	k, axis, ok := topKOf(n)
	if !ok { // as shapes say
		for _, y := range n.Outputs {
			if y != nil {
				k = p.Dims[y.ID][axis]
			}
		}
	}
	t := topRowsOf(p.target, n, d, axis, k)
	if err := t.check(n); err != nil {
		return err
	}
	src, values, indices := p.In(n.Inputs[0]), p.Out(n.Output(0)), p.Out(n.Output(1))
	keys, columns := t.rowBytes(), t.columnBytes()
	room := ceilDiv(keys+columns, 64) * 64
	scratch := p.Temp(p.e.threads * room)
	p.emit(step{chunks: product(d[:axis]) * t.inner, grain: grainFor(float64(t.count) * 5), body: func(st *state, worker, lo, hi int) {
		mine := st.Bytes(scratch)[worker*room:][:room]
		r := rowsIn(mine[:keys], t.count)
		t.runAll(&r, lo, hi, mine[keys:][:columns], st.Bytes(src), st.Bytes(values), of[int64](st, indices))
	}}, []place.Memory{src}, []place.Memory{values, indices, scratch})
	return nil
}

// chooseTopK is TopK of a number of elements that the run finds. Rows are done one after the other.
func chooseTopK(c *choice) error {
	x, n := c.x[0], c.in.n
	_, axis, _ := topKOf(n)
	if c.x[1].Len() != 1 {
		return property.Because(property.ShapeReason, "K has %d elements", c.x[1].Len())
	}
	t := topRowsOf(c.in.e.target, n, x.Shape, axis, int(oneInteger(c.x[1])))
	if err := t.check(n); err != nil {
		return err
	}
	if err := c.reserve(t.rowBytes()); err != nil {
		return err
	}
	shape := slices.Clone(x.Shape)
	shape[axis] = t.k
	values, err := c.result(0, x.DType, shape)
	if err != nil {
		return err
	}
	indices, err := c.result(1, tensor.Int64, shape)
	if err != nil {
		return err
	}
	c.rows.room(t.rowBytes(), t.count)
	src, at := x.Bytes(), place.Elements[int64](indices)
	for i := range product(x.Shape[:axis]) * t.inner {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		t.run(&c.rows, i, src, values, at)
	}
	return nil
}

func init() {
	table.Register("ArgMax", operator{Signatures: argSignatures, Plan: planArg})
	table.Register("ArgMin", operator{Signatures: argSignatures, Plan: planArg})
	table.Register("TopK", operator{Signatures: topKSignatures, Plan: planTopK})
}
