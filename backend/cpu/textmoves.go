package cpu

import (
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Operators that move strings: Gather, ArrayFeatureExtractor, Where and Concat, and those of strided copies, which are Slice, Split, Tile, Expand and
// Transpose; and those that make strings of two, or of integers.

// textSignatures takes operators of strings as they are.
func textSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	return operators.RowMajor(n), nil
}

// copyTexts copies strings that lie a step apart to places that do, from the first on.
func copyTexts(to []string, every int, from []string, first, step int) {
	if step == 1 && every == 1 {
		copy(to, from[first:first+len(to)])
		return
	}
	for i := 0; i < len(to); i += every {
		to[i] = from[first]
		first += step
	}
}

// planGatherTexts emits what takes strings along an axis by their places there. Those of ArrayFeatureExtractor are of the last axis, and
// do not count from the end.
func planGatherTexts(p *planner, n *graph.Node) error {
	x, index, y := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	from, at, d := p.textsOf(x), p.In(index), p.Dims[x.ID]
	axis, ends := len(d)-1, n.Is("Gather")
	if ends {
		axis = axisOf(n, 0, len(d))
	}
	length, count, inner := d[axis], product(p.Dims[index.ID]), product(d[axis+1:])
	p.emit(step{chunks: product(d[:axis]) * count, grain: grainFor(10 + 3*float64(inner)), body: func(st *state, _, lo, hi int) {
		list, out, read := from.list(st), st.texts[y.ID], st.indices(n, at)
		for i, k := lo, lo%max(count, 1); i < hi; i++ {
			place := read.place(k, length, ends)
			copyTexts(out[i*inner:][:inner], 1, list, from.first+(i/count*length+place)*inner*from.step, from.step)
			if k++; k == count {
				k = 0
			}
		}
	}}, []place.Memory{p.In(x), at}, nil)
	return nil
}

// place is at where indices may count from the end, and else an error for those that do.
func (x *indices) place(i, length int, ends bool) int {
	if !ends && x.wide[i] < 0 {
		panic(backend.OutOfRange(x.n, 1, x.wide[i], 0, int64(length)-1))
	}
	return x.at(i, length)
}

// planWhereTexts emits a choice for each string of the result.
func planWhereTexts(p *planner, n *graph.Node) error {
	c, x, y, r := n.Inputs[0], n.Inputs[1], n.Inputs[2], n.Outputs[0]
	cond, yes, no := p.In(c), p.textsOf(x), p.textsOf(y)
	b := newBroadcast(p.laidTexts(r), p.laid(c), p.laidTexts(x), p.laidTexts(y))
	if b.total == 0 {
		return nil
	}
	p.emit(step{chunks: b.rows, grain: grainFor(3*float64(b.inner) + 10), body: func(st *state, _, lo, hi int) {
		test, s, t, out := of[uint8](st, cond), yes.list(st), no.list(st), st.texts[r.ID]
		for row := lo; row < hi; row++ {
			k, i, j := b.offset(0, row), yes.first+b.offset(1, row), no.first+b.offset(2, row)
			to := out[b.result(row):][:b.inner]
			for e := range to {
				if test[k] != 0 {
					to[e] = s[i]
				} else {
					to[e] = t[j]
				}
				k, i, j = k+b.step[0], i+b.step[1], j+b.step[2]
			}
		}
	}}, []place.Memory{cond, p.In(x), p.In(y)}, nil)
	return nil
}

// planConcatTexts emits copies of the operands, row by row.
func planConcatTexts(p *planner, n *graph.Node) error {
	y := n.Outputs[0]
	d, axis, at := p.Dims[y.ID], place.ConcatAxis(n), 0
	whole := product(d[axis:])
	for _, v := range n.Inputs {
		from, inner, first := p.textsOf(v), product(p.Dims[v.ID][axis:]), at
		at += inner
		if inner == 0 {
			continue
		}
		p.emit(step{chunks: product(d[:axis]), grain: grainFor(10 + 3*float64(inner)), body: func(st *state, _, lo, hi int) {
			list, out := from.list(st), st.texts[y.ID]
			if inner == 1 { // a column
				copyTexts(out[lo*whole+first:(hi-1)*whole+first+1], whole, list, from.first+lo*from.step, from.step)
				return
			}
			for i := lo; i < hi; i++ {
				copyTexts(out[i*whole+first:][:inner], 1, list, from.first+i*inner*from.step, from.step)
			}
		}}, []place.Memory{p.In(v)}, nil)
	}
	return nil
}

// textCopySignatures takes strided copies of strings whose sizes and places are known when shapes are.
func textCopySignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if n.Is("Slice") && n.Op.Since < 10 || n.Is("Tile") && n.Op.Since < 6 {
		return nil, property.Because(property.Unsupported, "%v of operator set %d", n.Op, n.Op.Since)
	}
	if !n.Is("Expand", "Split") {
		if why := known(n); why != nil {
			return nil, why
		}
	}
	if slices.Contains(n.Outputs, nil) {
		return nil, property.Because(property.Unsupported, "a part is omitted, so that its size is not known")
	}
	return operators.RowMajor(n), nil
}

func planTextCopy(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	dx, from := p.Dims[x.ID], p.laidTexts(x)
	split, start := axisOf(n, 0, len(dx)), 0
	for _, y := range n.Outputs {
		dy := p.Dims[y.ID]
		c := copySpec{dims: dy, src: from.strides, dst: tensor.CompactStrides(dy), size: 1}
		if product(dy) == 0 {
			continue
		}
		switch n.Op.Name {
		case "Slice":
			var err error
			if c, err = p.sliceOf(n, from.strides); err != nil {
				return err
			}
			c.dst, c.size = tensor.CompactStrides(dy), 1
		case "Split":
			c.srcOff = start * from.strides[split]
			start += dy[split]
		case "Tile":
			c = tiled(dx, dy, from.strides, c.dst, 1)
		case "Expand":
			c.src = from.broadcast(len(dy))
		default:
			perm := fuse.Perm(n, len(dx))
			if perm == nil {
				return property.Because(property.Attribute, "perm of %v", n)
			}
			c.src = nil
			for _, k := range perm {
				c.src = append(c.src, from.strides[k])
			}
		}
		p.copyTextRows(c, x, y)
	}
	return nil
}

// copyTextRows emits a strided copy of strings, row by row.
func (p *planner) copyTextRows(c copySpec, x, y *graph.Value) {
	from, id := p.textsOf(x), y.ID
	if c = c.coalesced(); len(c.dims) == 0 {
		c.dims, c.src, c.dst = []int{1}, []int{1}, []int{1}
	}
	last := len(c.dims) - 1
	row, every := 1+(c.dims[last]-1)*c.dst[last], c.dst[last]
	p.emit(step{chunks: product(c.dims[:last]), grain: grainFor(10 + 3*float64(c.dims[last])), body: func(st *state, _, lo, hi int) {
		list, out := from.list(st), st.texts[id]
		for w := c.walk(lo, last); w.row < hi; w.next() {
			copyTexts(out[w.dst:][:row], every, list, from.first+w.src, c.src[last])
		}
	}}, []place.Memory{p.In(x)}, nil)
}

// madeOf returns a string of bytes that nobody writes to any more.
func madeOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// leastReserved is how many bytes of strings a worker makes before it tells of them.
const leastReserved = 1 << 20

// planStringConcat emits strings of two each, those of rows in memory of their own.
func planStringConcat(p *planner, n *graph.Node) error {
	x, y, r := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	front, back := p.textsOf(x), p.textsOf(y)
	b := newBroadcast(p.laidTexts(r), p.laidTexts(x), p.laidTexts(y))
	if b.total == 0 {
		return nil
	}
	p.emit(step{chunks: b.rows, grain: grainFor(25*float64(b.inner) + 10), body: func(st *state, _, lo, hi int) {
		s, t, out, untold := front.list(st), back.list(st), st.texts[r.ID], 0
		for row := lo; row < hi; row++ {
			first, second, size := front.first+b.offset(0, row), back.first+b.offset(1, row), 0
			for e := range b.inner {
				size += len(s[first+e*b.step[0]]) + len(t[second+e*b.step[1]])
			}
			if untold += size; untold >= leastReserved {
				if err := st.reserve(int64(untold)); err != nil {
					st.fail(err)
					return
				}
				untold = 0
			}
			to, memory := out[b.result(row):][:b.inner], make([]byte, 0, size)
			for e := range to {
				begin := len(memory)
				memory = append(append(memory, s[first+e*b.step[0]]...), t[second+e*b.step[1]]...)
				to[e] = madeOf(memory[begin:])
			}
		}
	}}, []place.Memory{p.In(x), p.In(y)}, nil)
	return nil
}

// numeralSignatures takes casts of integers to strings.
func numeralSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; x.Type.DType != tensor.Int64 && x.Type.DType != tensor.Int32 {
		return nil, property.Because(property.DTypeReason, "%v is %v", x, x.Type.DType)
	}
	return operators.RowMajor(n), nil
}

// pairsOfDigits are 00 to 99.
var pairsOfDigits = func() (t [100][2]byte) {
	for i := range t {
		t[i] = [2]byte{'0' + byte(i/10), '0' + byte(i%10)}
	}
	return t
}()

// longestNumeral is how many characters an integer has at most.
const longestNumeral = 20

// numeral writes an integer in front of place at, and returns where it begins.
func numeral(to []byte, at int, v int64) int {
	u := uint64(v)
	if v < 0 {
		u = -u
	}
	for ; u >= 10; u /= 100 {
		at -= 2
		pair := pairsOfDigits[u%100]
		to[at], to[at+1] = pair[0], pair[1]
	}
	if u > 0 || v == 0 {
		at--
		to[at] = '0' + byte(u)
	}
	if v < 0 {
		at--
		to[at] = '-'
	}
	return at
}

func planNumerals(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	const part = 64 // numbers whose strings share memory
	src, count, wide := p.In(x), product(p.Dims[x.ID]), x.Type.DType == tensor.Int64
	p.emit(step{chunks: ceilDiv(count, part), grain: grainFor(25 * part), body: func(st *state, _, lo, hi int) {
		out := st.texts[y.ID]
		var room [longestNumeral * part]byte
		var begins [part + 1]int
		var block [part]int64
		for ; lo < hi; lo++ {
			to := out[lo*part : min((lo+1)*part, count)]
			numbers := block[:len(to)]
			if wide {
				copy(numbers, of[int64](st, src)[lo*part:])
			} else {
				for i, v := range of[int32](st, src)[lo*part:][:len(to)] {
					numbers[i] = int64(v)
				}
			}
			at := len(room) // from the end on, where the last digit of the last number is
			begins[len(to)] = at
			for i := len(to) - 1; i >= 0; i-- {
				at = numeral(room[:], at, numbers[i])
				begins[i] = at
			}
			all := string(room[at:])
			for i := range to {
				to[i] = all[begins[i]-at : begins[i+1]-at]
			}
		}
	}}, []place.Memory{src}, nil)
	return nil
}
