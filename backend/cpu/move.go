package cpu

import (
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Operators that only move elements: Transpose, Slice, Split, Expand, Tile, Pad, Gather. All of them become copies
// described by strides.

// copySpec copies a strided box of elements: dst[i…] = src[i…].
type copySpec struct {
	dims     []int
	src, dst []int // strides in elements
	srcOff   int
	dstOff   int
	size     int // of an element
}

// coalesced drops dims of 1 and joins dims that are contiguous on both sides.
func (c copySpec) coalesced() copySpec {
	out := copySpec{srcOff: c.srcOff, dstOff: c.dstOff, size: c.size}
	for k, d := range c.dims {
		if d == 1 {
			continue
		}
		if last := len(out.dims) - 1; last >= 0 && out.src[last] == c.src[k]*d && out.dst[last] == c.dst[k]*d {
			out.dims[last] *= d
			out.src[last], out.dst[last] = c.src[k], c.dst[k]
			continue
		}
		out.dims, out.src, out.dst = append(out.dims, d), append(out.src, c.src[k]), append(out.dst, c.dst[k])
	}
	return out
}

// strided emits a copy.
func (p *planner) strided(c copySpec, src, dst place.Memory) {
	for _, d := range c.dims {
		if d == 0 {
			return
		}
	}
	c = c.coalesced().wider()
	if last := len(c.dims) - 1; c.size <= 8 && last >= 1 && c.src[last] != 1 && c.dst[last] == 1 && p.transposed(c, src, dst) {
		return
	}
	if c.takesAlternate() {
		p.alternate(c, src, dst)
		return
	}
	chunks, grain, body := c.pieces()
	p.emit(step{chunks: chunks, grain: grain, body: func(st *state, _, lo, hi int) { body(st.Bytes(dst), st.Bytes(src), lo, hi) }}, []place.Memory{src}, []place.Memory{dst})
}

// pieces returns into how many chunks a coalesced copy of some elements is cut, how many of them are worth a call, and what copies chunks [lo, hi).
func (c copySpec) pieces() (chunks, grain int, body func(d, s []byte, lo, hi int)) {
	last := len(c.dims) - 1
	if last < 0 {
		c.dims, c.src, c.dst, last = []int{1}, []int{1}, []int{1}, 0
	}
	rows := product(c.dims[:last])
	if c.src[last] == 1 && c.dst[last] == 1 {
		n := c.dims[last] * c.size
		parts := max(1, n>>16)
		per := ceilDiv(n, parts)
		return rows * parts, grainFor(float64(per)*0.05 + 5), func(d, s []byte, lo, hi int) { c.copyRows(d, s, n, parts, per, lo, hi) }
	}
	body = func(d, s []byte, lo, hi int) { copyLoop(&c, d, s, last, lo, hi) }
	switch c.size {
	case 4:
		body = func(d, s []byte, lo, hi int) {
			copyTyped(&c, place.Elements[uint32](d), place.Elements[uint32](s), last, lo, hi)
		}
	case 8:
		body = func(d, s []byte, lo, hi int) {
			copyTyped(&c, place.Elements[uint64](d), place.Elements[uint64](s), last, lo, hi)
		}
	case 2:
		body = func(d, s []byte, lo, hi int) {
			copyTyped(&c, place.Elements[uint16](d), place.Elements[uint16](s), last, lo, hi)
		}
	case 1:
		body = func(d, s []byte, lo, hi int) { copyTyped(&c, d, s, last, lo, hi) }
	}
	return rows, grainFor(float64(c.dims[last]) + 10), body
}

// copyRows copies chunks of contiguous rows of n bytes, each of which is parts chunks of per bytes.
func (c *copySpec) copyRows(d, s []byte, n, parts, per, lo, hi int) {
	last := len(c.dims) - 1
	if parts == 1 {
		if n <= element.LongestShort && last > 0 && c.src[last-1] >= 0 && c.dst[last-1] >= 0 {
			c.copyShort(d, s, n, lo, hi)
			return
		}
		w := c.walk(lo, last)
		for ; w.row < hi; w.next() {
			copy(d[w.dst*c.size:][:n], s[w.src*c.size:][:n])
		}
		return
	}
	for i := lo; i < hi; i++ {
		row, part := i/parts, i%parts
		do, so := c.offsets(row, last)
		from, to := part*per, min((part+1)*per, n)
		copy(d[do+from:do+to], s[so+from:so+to])
	}
}

// offsets returns where row r of the dims before last begins on both sides, in bytes.
func (c *copySpec) offsets(r, last int) (dst, src int) {
	dst, src = c.dstOff, c.srcOff
	for k := last - 1; k >= 0; k-- {
		i := r % c.dims[k]
		r /= c.dims[k]
		dst += i * c.dst[k]
		src += i * c.src[k]
	}
	return dst * c.size, src * c.size
}

// copyWalk goes through the rows of a copy one after the other: dst and src are where a row begins, in elements.
type copyWalk struct {
	c         *copySpec
	row, last int
	dst, src  int
	index     [6]int // of the row in the dims before last, if these are no more
}

// walk returns a walk from row r of the dims before last.
func (c *copySpec) walk(r, last int) copyWalk {
	w := copyWalk{c: c, row: r, last: last}
	w.dst, w.src = c.offsets(r, last)
	w.dst, w.src = w.dst/c.size, w.src/c.size
	for k := last - 1; k >= 0 && last <= len(w.index); k-- {
		w.index[k] = r % c.dims[k]
		r /= c.dims[k]
	}
	return w
}

// next goes to the next row, by additions where offsets would divide.
func (w *copyWalk) next() {
	c := w.c
	w.row++
	if w.last > len(w.index) {
		w.dst, w.src = c.offsets(w.row, w.last)
		w.dst, w.src = w.dst/c.size, w.src/c.size
		return
	}
	for k := w.last - 1; k >= 0; k-- {
		w.dst += c.dst[k]
		w.src += c.src[k]
		if w.index[k]++; w.index[k] < c.dims[k] {
			return
		}
		w.dst -= c.dims[k] * c.dst[k]
		w.src -= c.dims[k] * c.src[k]
		w.index[k] = 0
	}
}

// fillRow fills a row with x: its first elements one by one, the others as copies of what is there, up to 1,024 at a time, which
// the first-level cache holds.
func fillRow[T any](row []T, x T) {
	const oneByOne, repeated = 16, 1024
	for i := range row[:min(oneByOne, len(row))] {
		row[i] = x
	}
	for done := oneByOne; done < len(row); {
		done += copy(row[done:], row[:min(done, repeated)])
	}
}

func copyTyped[T any](c *copySpec, d, s []T, last, lo, hi int) {
	ds, ss, n := c.dst[last], c.src[last], c.dims[last]
	w := c.walk(lo, last)
	for ; w.row < hi; w.next() {
		do, so := w.dst, w.src
		if ss == 0 && ds == 1 { // one element, repeated
			fillRow(d[do:do+n], s[so])
			continue
		}
		for range n {
			d[do] = s[so]
			do += ds
			so += ss
		}
	}
}

func copyLoop(c *copySpec, d, s []byte, last, lo, hi int) {
	ds, ss, n := c.dst[last]*c.size, c.src[last]*c.size, c.dims[last]
	w := c.walk(lo, last)
	for ; w.row < hi; w.next() {
		do, so := w.dst*c.size, w.src*c.size
		for range n {
			copy(d[do:do+c.size], s[so:so+c.size])
			do += ds
			so += ss
		}
	}
}

// transposeSignatures: images of 8-bit integers may have the format that their transposition gives or takes away in words of the graph,
// so that it moves nothing; those of whole blocks of channels may be blocked, so that it moves blocks of a pixel.
func transposeSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	moved := operators.RowMajor(n)
	side := movesChannels(n)
	if side < 0 {
		return moved, nil
	}
	s := operators.RowMajor(n)[0]
	image, port := []*graph.Value{n.Inputs[0], n.Outputs[0]}[side], []*graph.Port{&s.Inputs[0], &s.Outputs[0]}[side]
	switch c, known := image.Type.Shape[1].Const(); {
	case isByteImage(image):
		s.Name, *port = "renamed", graph.Fixed(lastChannels)
	case is4D(image) && known && c > 0 && c%16 == 0:
		s.Name, *port = "blocks", graph.Fixed(blocked)
	default:
		return moved, nil
	}
	return append([]graph.Signature{s}, moved...), nil // of those that ask for no conversion the first is chosen
}

// movesChannels returns which of a transposition's operand, 0, and its result, 1, is an image with its channels in front of its two axes where the other
// has them last, -1 where neither is.
func movesChannels(n *graph.Node) int {
	if len(n.Inputs[0].Type.Shape) == 4 {
		switch perm := fuse.Perm(n, 4); {
		case slices.Equal(perm, []int{0, 2, 3, 1}):
			return 0
		case slices.Equal(perm, []int{0, 3, 1, 2}):
			return 1
		}
	}
	return -1
}

// renamed reports whether a transposition moves nothing for the formats that were chosen.
func renamed(n *graph.Node) bool {
	return isByteImage(n.Inputs[0]) && n.Inputs[0].Format != n.Outputs[0].Format
}

func settleTranspose(p *planner, n *graph.Node) {
	if renamed(n) {
		operators.View(p, n)
		return
	}
	operators.Transpose(p, n)
}

func planTranspose(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	dx := p.Dims[x.ID]
	perm := fuse.Perm(n, len(dx))
	if perm == nil {
		return property.Because(property.Attribute, "perm of %v", n)
	}
	if renamed(n) || operators.KeepsBytes(dx, perm) {
		p.ViewOr(y, x, p.copyStep)
		return nil
	}
	src, dst, size := p.In(x), p.Out(y), x.Type.DType.Size()
	switch {
	case x.Format == blocked:
		p.pixelBlocks(dx[0], dx[2]*dx[3], dx[1]/16, true, src, dst)
	case y.Format == blocked:
		p.pixelBlocks(dx[0], dx[1]*dx[2], dx[3]/16, false, src, dst)
	default:
		p.permute(dx, perm, size, src, dst)
	}
	return nil
}

func transposeStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	return n.Inputs[0].Format == n.Outputs[0].Format && operators.WholeDims(p, n, v, m)
}

// permute emits the transposition of a row-major tensor of these dims: axis i of the result is axis perm[i] of src. Rows of
// both, where they are strided, are whole dims.
func (p *planner) permute(dims, perm []int, size int, src, dst place.Memory) {
	strides := stridesAt(src, dims, size)
	c := copySpec{size: size}
	for _, a := range perm {
		c.dims, c.src = append(c.dims, dims[a]), append(c.src, strides[a])
	}
	c.dst = stridesAt(dst, c.dims, size)
	p.strided(c, src, dst)
}

// known returns why the operands behind the first are not small integers that are known when shapes are.
func known(n *graph.Node) *property.Reason {
	for _, v := range n.Inputs[1:] {
		if v != nil && !place.Told(n, v) {
			return property.Because(property.Unsupported, "operand %v is not known at compile time", v)
		}
	}
	return nil
}

func expandSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	return operators.RowMajor(n), nil
}

func settleExpand(p *planner, n *graph.Node) {
	if product(p.Dims[n.Inputs[0].ID]) == product(p.Dims[n.Outputs[0].ID]) {
		operators.View(p, n)
	}
}

func planExpand(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	dy := p.Dims[y.ID]
	if product(p.Dims[x.ID]) == product(dy) {
		p.ViewOr(y, x, p.copyStep)
		return nil
	}
	dst := p.Out(y)
	p.strided(copySpec{dims: dy, dst: p.strides(y), src: p.laid(x).broadcast(len(dy)), size: x.Type.DType.Size()}, p.In(x), dst)
	return nil
}

func padSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	mode := n.Str("mode", "constant")
	switch mode {
	case "constant":
	case "edge", "reflect", "wrap":
		if len(n.Inputs[0].Type.Shape) == 0 {
			return nil, property.Because(property.ShapeReason, "a scalar operand")
		}
	default:
		return nil, property.Because(property.Attribute, "mode %q", mode)
	}
	if n.Op.Since >= 11 {
		for _, i := range []int{1, 3} {
			if v := n.Input(i); v != nil && !place.Told(n, v) {
				return nil, property.Because(property.Unsupported, "operand %v is not known at compile time", v)
			}
		}
		if why := operators.NotSingle(n.Input(2)); why != nil {
			return nil, why
		}
	}
	plain := operators.RowMajor(n)
	if mode == "constant" && is4D(n.Inputs[0]) && padsBlocks(n) && padsZero(n) {
		s := graph.Signature{Name: "nchw16c", Inputs: []graph.Port{graph.Fixed(blocked)}, Outputs: []graph.Port{graph.Fixed(blocked)}}
		for range n.Inputs[1:] {
			s.Inputs = append(s.Inputs, graph.Fixed(rowMaj))
		}
		return append([]graph.Signature{s}, plain...), nil
	}
	return plain, nil
}

// padsZero reports whether a Pad fills with zeros, as is known when the model is compiled.
func padsZero(n *graph.Node) bool {
	if n.Op.Since < 11 {
		return n.Float("value", 0) == 0
	}
	v := n.Input(2)
	if v == nil {
		return true
	}
	if !v.IsConst() {
		return false
	}
	if x, ok := fuse.Scalar(v); ok {
		return x == 0
	}
	return !slices.ContainsFunc(v.Const.Bytes(), func(b byte) bool { return b != 0 })
}

// padsBlocks reports whether constant pads leave the batch alone, and channels, but for others behind them: lanes of a block that have no channel are zeros.
func padsBlocks(n *graph.Node) bool {
	var pads []int64
	if n.Op.Since < 11 {
		pads, _ = n.Ints("pads")
	} else {
		if n.Input(3) != nil {
			return false
		}
		for _, d := range n.Input(1).Dims {
			c, ok := d.Const()
			if !ok {
				return false
			}
			pads = append(pads, c)
		}
	}
	return len(pads) == 8 && pads[0] == 0 && pads[1] == 0 && pads[4] == 0 && pads[5] >= 0
}

func planPad(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	dx, dy := append([]int{}, p.Dims[x.ID]...), append([]int{}, p.Dims[y.ID]...)
	pads := toInts(n, "pads")
	var axes []int
	if n.Op.Since >= 11 {
		var err error
		if pads, err = p.Ints(n.Input(1)); err != nil {
			return err
		}
		if axes, err = p.Ints(n.Input(3)); err != nil {
			return err
		}
	}
	before := make([]int, len(dx))
	for i := range len(pads) / 2 {
		axis := i
		if len(axes) > 0 {
			axis = axes[i]
		}
		if axis < 0 {
			axis += len(dx)
		}
		before[axis] = pads[i]
	}
	if n.Str("mode", "constant") != "constant" {
		return planPadRepeated(p, n, before)
	}
	size := x.Type.DType.Size()
	if x.Format == blocked { // as [N, C/16, H, W·16]
		for _, d := range [][]int{dx, dy} {
			d[1], d[3] = ceilDiv(d[1], 16), d[3]*16
		}
		before[3] *= 16
	}
	p.padRows(dx, dy, before, size, p.padding(n, size), p.In(x), p.Out(y))
	return nil
}

// padding returns the element, of that size, that Pad puts around its operand.
func (p *planner) padding(n *graph.Node, size int) place.Memory {
	if n.Op.Since >= 11 {
		if v := n.Input(2); v != nil {
			return p.In(v)
		}
		return p.Own(make([]byte, size))
	}
	pattern := make([]byte, size)
	if v, err := tensor.Convert(tensor.Scalar(n.Float("value", 0)), n.Inputs[0].Type.DType, nil); err == nil { // a number, or the fill stays 0
		copy(pattern, v.Bytes())
	}
	return p.Own(pattern)
}

func tileSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := known(n); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

func planTile(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if dst := p.Out(y); product(p.Dims[x.ID]) != 0 && !p.tileBlocks(p.Dims[x.ID], p.Dims[y.ID], x.Type.DType.Size(), p.In(x), dst) {
		p.strided(tiled(p.Dims[x.ID], p.Dims[y.ID], p.strides(x), p.strides(y), x.Type.DType.Size()), p.In(x), dst)
	}
	return nil
}

// tileBlocks emits the copy of what several axes repeat in short runs: each run is read once, and what an axis repeats is copied from the
// result. It reports whether it did; dims of the axes before are the chunks.
func (p *planner) tileBlocks(dx, dy []int, size int, src, dst place.Memory) bool {
	const least, most = 16, 4096 // bytes of a run
	first, last, reps := -1, -1, make([]int, len(dx))
	for a := range dx {
		if reps[a] = dy[a] / dx[a]; reps[a] != 1 {
			if last = a; first < 0 {
				first = a
			}
		}
	}
	if first == last || product(dy) == 0 || src.Pitch != 0 || dst.Pitch != 0 {
		return false
	}
	run, outer := product(dx[last:])*size, product(dx[:first])
	if run < least || run > most || outer < p.e.threads {
		return false
	}
	in, out := product(dx[first:])*size, product(dy[first:])*size
	p.emit(step{chunks: outer, grain: grainFor(float64(out)*0.05 + float64(in)/float64(run)*20), body: func(st *state, _, lo, hi int) {
		d, s := st.Bytes(dst), st.Bytes(src)
		for i := lo; i < hi; i++ {
			tileBlock(d[i*out:][:out], s[i*in:][:in], dx[first:last], reps[first:last+1], run)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return true
}

// tileBlock repeats s as reps say, the last of them a run of bytes, each of the others a dim of dims, and returns how many bytes it has written and read.
func tileBlock(d, s []byte, dims, reps []int, run int) (written, read int) {
	if len(dims) == 0 {
		written, read = copy(d, s[:run]), run
	} else {
		for range dims[0] {
			w, r := tileBlock(d[written:], s[read:], dims[1:], reps[1:], run)
			written, read = written+w, read+r
		}
	}
	block := written
	for range reps[0] - 1 {
		written += copy(d[written:], d[:block])
	}
	return written, read
}

// tiled returns the copy of a tensor of dims dx, which has elements, to one of dims dy: each dim is repeat and dim.
func tiled(dx, dy, sx, sy []int, size int) copySpec {
	c := copySpec{size: size}
	for k := range dx {
		c.dims = append(c.dims, dy[k]/dx[k], dx[k])
		c.src = append(c.src, 0, sx[k])
		c.dst = append(c.dst, dx[k]*sy[k], sy[k])
	}
	return c
}

func gatherSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if dt := n.Inputs[1].Type.DType; dt != tensor.Int64 && dt != tensor.Int32 {
		return nil, property.Because(property.DTypeReason, "indices %v are %v", n.Inputs[1], dt)
	}
	return operators.RowMajor(n), nil
}

func planGather(p *planner, n *graph.Node) error {
	x, idx, y := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	dx := p.Dims[x.ID]
	axis := int(n.Int("axis", 0))
	if axis < 0 {
		axis += len(dx)
	}
	outer, inner := product(dx[:axis]), product(dx[axis+1:])*x.Type.DType.Size()
	count, length := product(p.Dims[idx.ID]), dx[axis]
	src, index, dst := p.In(x), p.In(idx), p.Out(y)
	from, _ := src.Runs(inner)
	to, _ := dst.Runs(inner)
	if inner == 4 && axis == len(dx)-1 && p.takeColumns(idx, src, dst, outer, length) {
		return nil
	}
	if blocks := gathersOf[inner]; blocks != nil && x.Type.DType.Size() >= 4 && src.Pitch == 0 && dst.Pitch == 0 {
		p.emit(step{chunks: outer * count, grain: grainFor(float64(inner) * 0.2), body: func(st *state, _, lo, hi int) {
			blocks(st.Bytes(dst), st.Bytes(src), st.indices(n, index), lo, hi, count, length)
		}}, []place.Memory{src, index}, []place.Memory{dst})
		return nil
	}
	if src.Pitch == 0 && dst.Pitch == 0 {
		p.emit(step{chunks: outer * count, grain: grainFor(float64(inner)*0.1 + 10), body: func(st *state, _, lo, hi int) {
			gatherRuns(st.Bytes(dst), st.Bytes(src), st.indices(n, index), lo, hi, count, length, inner)
		}}, []place.Memory{src, index}, []place.Memory{dst})
		return nil
	}
	p.emit(step{chunks: outer * count, grain: grainFor(float64(inner)*0.1 + 10), body: func(st *state, _, lo, hi int) {
		d, s, read := st.Bytes(dst), st.Bytes(src), st.indices(n, index)
		for i := lo; i < hi; i++ {
			k := read.at(i%count, length)
			at, _ := to.At(i, 1)
			of, _ := from.At(i/count*length+k, 1)
			move(d[at:], s[of:], inner)
		}
	}}, []place.Memory{src, index}, []place.Memory{dst})
	return nil
}

// gathersOf are gatherElements of elements of so many bytes, of words of 32 bits.
var gathersOf = map[int]func(dst, src []byte, read indices, lo, hi, count, length int){
	4: gatherWords[uint32], 8: gatherWords[uint64], 12: gatherWords[[3]uint32], 16: gatherWords[[4]uint32], 32: gatherWords[[8]uint32], 64: gatherWords[[16]uint32],
}

func gatherWords[T any](dst, src []byte, read indices, lo, hi, count, length int) {
	size := int(unsafe.Sizeof(*new(T)))
	d := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(dst))), len(dst)/size)
	s := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(src))), len(src)/size)
	gatherElements(d, s, read, lo, hi, count, length)
}

// gatherRuns is gatherElements of elements of any size.
func gatherRuns(dst, src []byte, read indices, lo, hi, count, length, size int) {
	for lo < hi {
		first := lo % count
		row, end := src[lo/count*length*size:][:length*size], min(hi, lo-first+count)
		for ; lo < end; lo++ {
			move(dst[lo*size:][:size], row[read.at(first, length)*size:][:size], size)
			first++
		}
	}
}

// gatherElements sets elements [lo, hi) of dst, count of each row of src, which have length, by their indices.
func gatherElements[T any](dst, src []T, read indices, lo, hi, count, length int) {
	if count == 1 {
		for at := read.at(0, length) + lo*length; lo < hi; lo++ {
			dst[lo] = src[at]
			at += length
		}
		return
	}
	for lo < hi {
		first := lo % count
		row, out := src[lo/count*length:][:length], dst[lo:lo+min(count-first, hi-lo)]
		lo += len(out)
		if read.wide == nil {
			for k := range out {
				out[k] = row[read.at(first+k, length)]
			}
			continue
		}
		for k, at := range read.wide[first:][:len(out)] {
			if uint64(at) >= uint64(len(row)) {
				at = int64(read.at(first+k, length))
			}
			out[k] = row[at]
		}
	}
}

// gatherStrided is the Strided of Gather: of the operand and the result where each row holds whole slices.
func gatherStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	x := n.Inputs[0]
	if v != x && v.Producer != n || v == n.Inputs[1] {
		return false
	}
	d := p.Dims[x.ID]
	_, ok := m.Runs(product(d[axisOf(n, 0, len(d))+1:]) * x.Type.DType.Size())
	return ok
}

func init() {
	table.Register("Transpose", operator{Signatures: transposeSignatures, Settle: settleTranspose, Plan: planTranspose, Strided: transposeStrided})
	table.Register("Expand", operator{Signatures: expandSignatures, Settle: settleExpand, Plan: planExpand, Strided: operators.WholeDims[*planner]})
	table.Register("Pad", operator{Signatures: padSignatures, Plan: planPad})
	table.Register("Tile", operator{Signatures: tileSignatures, Plan: planTile, Strided: operators.WholeDims[*planner]})
	table.Register("Gather", operator{Signatures: gatherSignatures, Plan: planGather, Strided: gatherStrided})
}
