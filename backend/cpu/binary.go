package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

var floatBinary = map[string]vec.BinaryOp{"Add": vec.Add, "Sub": vec.Sub, "Mul": vec.Mul, "Div": vec.Div, "Max": vec.Max, "Min": vec.Min}

// binarySignatures are those of Add and its like: both operands blocked or both row-major; in the blocked layout one of
// them may have a single value per channel, or be a single number.
func binarySignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := alignsByAxis(n); why != nil {
		return nil, why
	}
	if len(n.Inputs) != 2 {
		return nil, property.Because(property.Unsupported, "%d operands", len(n.Inputs))
	}
	a, b := n.Inputs[0], n.Inputs[1]
	if a.Type.DType != b.Type.DType {
		return nil, operators.NotFloat32(b)
	}
	if !operators.IsFloat32(a) {
		return integerSignatures(n)
	}
	y := n.Outputs[0]
	plain := operators.RowMajor(n)
	sameA, sameB := a.Type.Shape.Equal(y.Type.Shape), b.Type.Shape.Equal(y.Type.Shape)
	if sameA && sameB {
		return followSignatures(n, 2), nil
	}
	if !is4D(y) {
		return plain, nil
	}
	block := graph.Signature{Name: "per-channel", Outputs: []graph.Port{graph.Fixed(blocked)}}
	full, other, swap := a, b, false
	if !sameA && sameB {
		full, other, swap = b, a, true
	}
	if !full.Type.Shape.Equal(y.Type.Shape) || !scaleShaped(n, other, swap) {
		return plain, nil
	}
	small := rowMaj
	if !other.IsConst() {
		small = blocked
	}
	block.Inputs = []graph.Port{graph.Fixed(blocked), graph.Fixed(small)}
	if swap {
		block.Inputs[0], block.Inputs[1] = block.Inputs[1], block.Inputs[0]
	}
	return append([]graph.Signature{block}, plain...), nil
}

// alignsByAxis turns down the broadcasting of operator sets before 7 where an attribute says which axes of two operands
// belong together. An axis of operators of one operand is another matter.
func alignsByAxis(n *graph.Node) *property.Reason {
	if n.Op.Since < 7 && len(n.Inputs) == 2 && n.Attrs.Lookup("axis") != nil {
		return property.Because(property.Version, "broadcasting along an axis, as %v before operator set 7", n.Op.Name)
	}
	return nil
}

// scaleShaped reports whether a blocked kernel exists for full ∘ other: other has one value per channel (and image), or is
// a constant of one element.
func scaleShaped(n *graph.Node, other *graph.Value, swapped bool) bool {
	if n.Op.Name == "Max" || n.Op.Name == "Min" || (n.Op.Name == "Div" || n.Op.Name == "Sub") && swapped {
		return false
	}
	if n.Op.Name == "Div" && !invertible(other) {
		return false
	}
	if _, ok := fuse.Scalar(other); ok {
		return true
	}
	if n.Op.Name == "Sub" && !other.IsConst() {
		return false
	}
	switch s := other.Type.Shape; len(s) {
	case 4:
		return s[2].Is(1) && s[3].Is(1) && s[1].Equal(n.Outputs[0].Type.Shape[1]) && !s[1].Is(1) && (s[0].Is(1) || !other.IsConst())
	case 3:
		return other.IsConst() && s[1].Is(1) && s[2].Is(1) && !s[0].Is(1)
	}
	return false
}

// invertible reports whether v is a constant by whose reciprocals one may multiply: they are ordinary numbers.
func invertible(v *graph.Value) bool {
	if !v.IsConst() {
		return false
	}
	vals, err := paddedFloats(v.Const, v.Const.Len())
	if err != nil {
		return false
	}
	const least, most = 0x1p-126, 0x1p126
	for _, x := range vals {
		if x = max(x, -x); !(x >= least && x <= most) {
			return false
		}
	}
	return true
}

// settleBinary lets the result overwrite an operand of its shape: of images and one value per channel, the images.
func settleBinary(p *planner, n *graph.Node) {
	y := n.Outputs[0]
	for _, v := range n.Inputs {
		if operators.IsFloat32(v) && v.Format == y.Format && sameDims(p.Dims[v.ID], p.Dims[y.ID]) && p.inPlace(y, v) {
			return
		}
	}
}

func planBinary(p *planner, n *graph.Node) error {
	a, b, y := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	if !operators.IsFloat32(a) {
		return planIntegerBinary(p, n)
	}
	op := floatBinary[n.Op.Name]
	if y.Format == blocked && (a.Format != blocked || b.Format != blocked || !sameDims(p.Dims[a.ID], p.Dims[b.ID])) {
		return p.perChannel(n, op)
	}
	p.binary(op, a, b, y)
	if op == vec.Div { // 0/0
		p.clearLanes(p.usedLanes(y), p.Out(y))
	}
	return nil
}

func sameDims(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// perChannel runs full ∘ other with one value of other per channel as a scale or shift.
func (p *planner) perChannel(n *graph.Node, op vec.BinaryOp) error {
	full, other, y := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	if !sameDims(p.Dims[full.ID], p.Dims[y.ID]) {
		full, other = other, full
	}
	d := p.Dims[y.ID]
	src, dst := p.In(full), p.Out(y)
	spec := conv.ScaleSpec{N: d[0], C: d[1], HW: d[2] * d[3], SrcImage: src.Pitch / 4, DstImage: dst.Pitch / 4}
	shifts := op == vec.Add || op == vec.Sub
	dynamic := place.Nowhere
	var scale, shift []float32
	if c := p.constant(other); c != nil {
		var err error
		if scale, shift, err = constantScale(c, op, d[1]); err != nil {
			return err
		}
	} else {
		dynamic = p.In(other)
		image := ceilDiv(d[1], 16) * 16
		if p.Dims[other.ID][0] == 1 {
			image = 0
		}
		if shifts {
			scale, spec.ShiftImage = channelValues(d[1], 1), image
		} else {
			spec.ScaleImage = image
		}
	}
	plan, err := conv.NewScale(p.target, spec)
	if err != nil {
		return err
	}
	p.emit(p.convStep(plan, float64(product(d))*0.1, func(st *state) conv.Tensors {
		t := conv.Tensors{Src: st.F32(src), Dst: st.F32(dst), Weights: scale, Bias: shift}
		switch {
		case dynamic.Slot < 0:
		case shifts:
			t.Bias = st.F32(dynamic)
		default:
			t.Weights = st.F32(dynamic)
		}
		return t
	}), []place.Memory{src, dynamic}, []place.Memory{dst})
	return nil
}

// channelValues returns x for each channel, and zeros up to a whole block.
func channelValues(channels int, x float32) []float32 {
	out := make([]float32, ceilDiv(channels, 16)*16)
	for i := range channels {
		out[i] = x
	}
	return out
}

// constantScale returns ∘ c as a scale and a shift (nil: none) per channel; c has one element, or one per channel.
func constantScale(c *tensor.Tensor, op vec.BinaryOp, channels int) (scale, shift []float32, err error) {
	vals, err := paddedFloats(c, ceilDiv(channels, 16)*16)
	if err != nil {
		return nil, nil, err
	}
	if c.Len() == 1 {
		vals = channelValues(channels, vals[0])
	}
	for i := range channels {
		switch op {
		case vec.Sub:
			vals[i] = -vals[i]
		case vec.Div:
			vals[i] = 1 / vals[i]
		}
	}
	if op == vec.Add || op == vec.Sub {
		return channelValues(channels, 1), vals, nil
	}
	return vals, nil, nil
}

// binary emits a broadcasting float operator on row-major tensors, or on blocked ones of one shape.
func (p *planner) binary(op vec.BinaryOp, a, b, y *graph.Value) {
	dst := p.Out(y)
	p.binaryOver(op, newBroadcast(p.laid(y), p.laid(a), p.laid(b)), p.In(a), p.In(b), dst)
}

// laid are the dims of a tensor and the strides of its elements.
type laid struct{ dims, strides []int }

// compact returns the dims and strides of a contiguous row-major tensor.
func compact(dims []int) laid { return laid{dims, tensor.CompactStrides(dims)} }

// laid returns how a value lies: as its dims say, or, in blocked layouts, as a vector for each image.
func (p *planner) laid(v *graph.Value) laid {
	d := p.Dims[v.ID]
	if inBlocks(v.Format) {
		d = []int{d[0], p.Bytes(v) / 4 / max(d[0], 1)}
	}
	return laid{d, stridesAt(p.In(v), d, v.Type.DType.Size())}
}

// binaryStrided is the Strided of binary operators: of row-major ones, on images of one shape, and on images with one value per
// channel.
func binaryStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	y := n.Outputs[0]
	if v.Format != blocked {
		return y.Format == rowMaj && operators.WholeDims(p, n, v, m)
	}
	return sameDims(p.Dims[v.ID], p.Dims[y.ID]) && p.wholeImages(v, m)
}

// broadcast is an element-wise loop over coalesced dims: rows of inner elements, with the strides of each operand.
type broadcast struct {
	outer   []int   // dims above the inner row
	strides [][]int // per operand and for the result, the last one, per outer dim, in elements
	inner   int
	step    []int // per operand: 1 for vectors, 0 for a repeated scalar
	rows    int
	total   int
}

// newBroadcast coalesces the dims of result over operands that broadcast to it.
func newBroadcast(result laid, operands ...laid) *broadcast {
	out := result.dims
	rank := len(out)
	operands = append(operands, result)
	strides := make([][]int, len(operands))
	for i, o := range operands {
		strides[i] = o.broadcast(rank)
	}
	var dims []int
	kept := make([][]int, len(operands))
	for k := 0; k < rank; k++ {
		if out[k] == 1 {
			continue
		}
		join := len(dims) > 0
		for i := range operands {
			if join {
				last := kept[i][len(kept[i])-1]
				join = last == strides[i][k]*out[k]
			}
		}
		if join {
			dims[len(dims)-1] *= out[k]
			for i := range operands {
				kept[i][len(kept[i])-1] = strides[i][k]
			}
			continue
		}
		dims = append(dims, out[k])
		for i := range operands {
			kept[i] = append(kept[i], strides[i][k])
		}
	}
	b := &broadcast{inner: 1, rows: 1, step: make([]int, len(operands)), total: product(out)}
	if len(dims) > 0 {
		last := len(dims) - 1
		b.inner = dims[last]
		b.outer = dims[:last]
		for i := range operands {
			b.step[i] = kept[i][last]
			kept[i] = kept[i][:last]
		}
	} else {
		for i := range b.step {
			b.step[i] = 1
		}
	}
	b.strides = kept
	for _, d := range b.outer {
		b.rows *= d
	}
	return b
}

// broadcast returns the distances of elements of a tensor that is broadcast to a rank: 0 along dims that it repeats.
func (l laid) broadcast(rank int) []int {
	strides := make([]int, rank)
	for j, d := range l.dims {
		if d != 1 {
			strides[rank-len(l.dims)+j] = l.strides[j]
		}
	}
	return strides
}

// result returns where a row of the result begins.
func (b *broadcast) result(row int) int { return b.offset(len(b.strides)-1, row) }

// offset returns where operand i's row begins.
func (b *broadcast) offset(i, row int) int {
	off := 0
	for k := len(b.outer) - 1; k > 0; k-- {
		off += row % b.outer[k] * b.strides[i][k]
		row /= b.outer[k]
	}
	if len(b.outer) > 0 { // mostly of one dim: no division
		off += row * b.strides[i][0]
	}
	return off
}

func (p *planner) binaryOver(op vec.BinaryOp, b *broadcast, ma, mb, dst place.Memory) {
	if b.total == 0 {
		return
	}
	s, kernels := step{}, p.into(dst)
	const short = 16 // elements of rows that a call for each takes longer for
	if j := p.joinRows(b, 4, 4); j != nil && b.inner < short {
		joinedRows2(p, j, ma, mb, dst, func(d, x []float32, dx int, y []float32, dy int) {
			switch n := len(d); {
			case dx == 0 && dy == 0:
				kernels.ScalarBinary(op, d[:1], x[0], y[:1])
				setAll(d, d[0])
			case dx == 0:
				kernels.ScalarBinary(op, d, x[0], y[:n])
			case dy == 0:
				kernels.BinaryScalar(op, d, x[:n], y[0])
			default:
				kernels.Binary(op, d, x[:n], y[:n])
			}
		})
		return
	}
	if f := p.flatBinary(op, b, ma, mb, dst); f != nil {
		p.emitFlat(f, []place.Memory{ma, mb}, []place.Memory{dst})
		return
	}
	switch {
	case b.rows == 1 || b.inner >= elementsPerChunk: // long rows: chunks of elements
		per := ceilDiv(b.inner, elementsPerChunk)
		s.chunks, s.grain = b.rows*per, grainFor(400)
		s.body = func(st *state, _, lo, hi int) {
			d, x, y := st.F32(dst), st.F32(ma), st.F32(mb)
			for c := lo; c < hi; {
				row, part := c/per, c%per
				n := min(hi-c, per-part)
				from, to := part*elementsPerChunk, min((part+n)*elementsPerChunk, b.inner)
				at := b.result(row)
				b.run(kernels, op, d[at+from:at+to], x, y, b.offset(0, row), b.offset(1, row), from, to)
				c += n
			}
		}
	default:
		s.chunks, s.grain = b.rows, grainFor(float64(b.inner)*0.1+10)
		s.body = func(st *state, _, lo, hi int) {
			b.runAllRows(kernels, op, st.F32(dst), st.F32(ma), st.F32(mb), lo, hi, [3]int{})
		}
	}
	p.emit(s, []place.Memory{ma, mb}, []place.Memory{dst})
}

// flatBinary returns what a step of two float32 operands says of itself where rows of the result lie one behind the other and a part has several, nil elsewhere:
// operands lie as the result does, or are read again for it.
func (p *planner) flatBinary(op vec.BinaryOp, b *broadcast, operand0, operand1, dst place.Memory) *flat {
	if b.rows > 1 && 2*b.inner > elementsPerChunk || !b.alike(2) {
		return nil
	}
	f := &flat{count: b.total, unit: 1, nanos: 0.1 + 10/float64(b.inner)}
	if b.rows > 1 {
		f.unit = b.inner
	}
	operands := [2]place.Memory{operand0, operand1}
	alike := [2]bool{b.alike(0), b.alike(1)}
	for i, m := range operands {
		if alike[i] {
			f.same = append(f.same, flatPlace{m, 4})
		} else {
			f.wholly = append(f.wholly, m)
		}
	}
	f.same = append(f.same, flatPlace{dst, 4})
	cached, past := p.kernels, p.kernels.Past()
	f.body = func(st *state, _ int, at [3][]byte, from, to int, far bool) {
		kernels := cached
		if far {
			kernels = past
		}
		var begins [3]int // at which elements what there is of operands, and of the result, begins
		var list [2][]float32
		given := 0
		for i, m := range operands {
			if alike[i] {
				list[i], begins[i] = place.Elements[float32](at[given]), from
				given++
			} else {
				list[i] = st.F32(m)
			}
		}
		d := place.Elements[float32](at[given])
		if b.rows == 1 {
			b.run(kernels, op, d, list[0], list[1], -begins[0], -begins[1], from, to)
			return
		}
		begins[2] = from
		b.runAllRows(kernels, op, d, list[0], list[1], from/b.inner, to/b.inner, begins)
	}
	return f
}

// alike reports whether the elements of operand i, or of the result, lie one behind the other as those of a contiguous result do.
func (b *broadcast) alike(i int) bool {
	apart := b.inner
	for k := len(b.outer) - 1; k >= 0; k-- {
		if b.outer[k] > 1 && b.strides[i][k] != apart {
			return false
		}
		apart *= b.outer[k]
	}
	return b.step[i] == 1
}

// runAllRows computes rows [lo, hi) of operands and a result that begin at these elements.
func (b *broadcast) runAllRows(kernels vec.Kernels, op vec.BinaryOp, d, x, y []float32, lo, hi int, begins [3]int) {
	last := len(b.outer) - 1
	for row := lo; row < hi; {
		n := min(hi-row, b.outer[last]-row%b.outer[last])
		b.runRows(kernels, op, d[b.result(row)-begins[2]:], x[b.offset(0, row)-begins[0]:], y[b.offset(1, row)-begins[1]:], n)
		row += n
	}
}

// runRows computes rows that lie along the last dim above the inner ones.
func (b *broadcast) runRows(kernels vec.Kernels, op vec.BinaryOp, d, x, y []float32, rows int) {
	last := len(b.outer) - 1
	lda, ldb, ldd := b.strides[0][last], b.strides[1][last], b.strides[2][last]
	form := vec.VV
	switch {
	case b.step[0] == 0 && b.step[1] == 0:
		for r := range rows {
			b.run(kernels, op, d[r*ldd:][:b.inner], x, y, r*lda, r*ldb, 0, b.inner)
		}
		return
	case b.step[1] == 0:
		form = vec.VS
	case b.step[0] == 0:
		form = vec.SV
	}
	kernels.BinaryRows(op, form, d, ldd, x, lda, y, ldb, rows, b.inner)
}

// run computes elements [from, to) of one row.
func (b *broadcast) run(kernels vec.Kernels, op vec.BinaryOp, d, x, y []float32, ox, oy, from, to int) {
	switch {
	case b.step[0] == 0 && b.step[1] == 0:
		kernels.ScalarBinary(op, d[:1], x[ox], y[oy:oy+1])
		for i := 1; i < len(d); i++ {
			d[i] = d[0]
		}
	case b.step[1] == 0:
		kernels.BinaryScalar(op, d, x[ox+from:ox+to], y[oy])
	case b.step[0] == 0:
		kernels.ScalarBinary(op, d, x[ox], y[oy+from:oy+to])
	default:
		kernels.Binary(op, d, x[ox+from:ox+to], y[oy+from:oy+to])
	}
}

// elementwise2 emits a broadcasting operator by a Go function.
func elementwise2[A, B tensor.Element, R tensor.Element](p *planner, n *graph.Node, fn func(a A, b B) R) error {
	x, y, r := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	dst := p.Out(r)
	elementwise2Over(p, newBroadcast(p.laid(r), p.laid(x), p.laid(y)), p.In(x), p.In(y), dst, fn)
	return nil
}

func elementwise2Over[A, B tensor.Element, R tensor.Element](p *planner, b *broadcast, mx, my, dst place.Memory, fn func(a A, b B) R) {
	rows2(p, b, mx, my, dst, each2(fn))
}

func init() {
	for _, name := range []string{"Add", "Sub", "Mul", "Div"} { // Max and Min: nary.go
		table.Register(name, operator{Signatures: binarySignatures, Settle: settleBinary, Plan: planBinary, Strided: binaryStrided})
	}
}
