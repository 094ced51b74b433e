package microsoft

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// nBits multiplies with weights of a few bits. Those of 4 bits in blocks that kernels take stay what they are: backends read them as
// 4 bits. Others are said with DequantizeLinear, unless a backend has a kernel for them.
var nBits = operator{
	name: "MatMulNBits",
	schema: "in A:T1 B:T2 scales:T1 zero_points?:T3 g_idx?:T4 bias?:T1\nout Y:T1\nat K:int! N:int! accuracy_level:int=0 bits:int=4 " +
		"block_size:int! weight_prepacked:int=0\nty T1=bfloat16,float,float16 T2=uint8 T3=bfloat16,float,float16,uint8 T4=int32",
	expand: matMulNBits,
	keep: func(n *graph.Node) bool {
		zeros := n.Input(3)
		return n.Int("bits", 4) == 4 && n.Int("block_size", 0)%32 == 0 && n.Input(4) == nil &&
			(zeros == nil || zeros.Const != nil && zeros.Const.DType == tensor.Uint8)
	},
	infer: func(c *graph.Inference) error {
		o := &op{n: c.Node, in: c.Node.Inputs}
		return o.try(func(o *op) {
			w := o.readWeights()
			a := c.Shape(0)
			if a == nil {
				return
			}
			o.require(len(a) > 0, ErrShape, "a scalar operand")
			k, ok := a[len(a)-1].Const()
			o.require(!ok || k == w.k, ErrShape, "%v for weights of %d rows", c.Type(0), w.k)
			y := append(graph.Shape{}, a...)
			y[len(y)-1] = graph.D(int(w.n))
			c.SetType(0, graph.TensorType(c.DType(0), y))
		})
	},
	eval: evalNBits,
}

// blockwiseOperators have weights of few bits, a scale for each block of them.
var blockwiseOperators = []operator{
	nBits,
	{name: "MatMulBnb4", schema: "in A:T1 B:T2 absmax:T1\nout Y:T1\nat K:int! N:int! block_size:int! quant_type:int! training_mode:int=0 transB:int=1\n" +
		"ty T1=bfloat16,float,float16 T2=uint8", expand: matMulBnb4},
	{name: "GatherBlockQuantized", schema: "in data:T1 indices:Tind scales:T2 zero_points?:T1\nout output:T2\nat bits:int=4 block_size:int=128 gather_axis:int=0 " +
		"quantize_axis:int=1\nty T1=int4,uint4,uint8 T2=bfloat16,float,float16 Tind=int32,int64", expand: gatherBlocks},
}

// weights are quantised weights of MatMulNBits: columns of the product are rows.
type weights struct {
	k, n, bits, block, blocks int64
	of                        *graph.Value // [n, blocks, block·bits/8] bytes
	scales, zeros             *graph.Value // zeros is nil where they are in the middle of the range
}

func (o *op) readWeights() weights {
	w := weights{k: o.n.Int("K", 0), n: o.n.Int("N", 0), bits: o.n.Int("bits", 4), block: o.n.Int("block_size", 0), of: o.in[1], scales: o.in[2], zeros: o.input(3)}
	o.require(w.k > 0 && w.k <= 1<<31 && w.n > 0 && w.n <= 1<<31, ErrAttribute, "K %d and N %d", w.k, w.n)
	o.require(w.bits == 2 || w.bits == 4 || w.bits == 8, ErrAttribute, "%d bits", w.bits)
	o.require(w.block >= 16 && w.block <= 1<<16 && w.block&(w.block-1) == 0, ErrAttribute, "a block size of %d", w.block)
	o.refuse(o.flag("weight_prepacked"), "weights packed for a device")
	w.blocks = (w.k + w.block - 1) / w.block
	s := o.shape(w.of)
	size := graph.D(1)
	for _, d := range s {
		size = size.Mul(d)
	}
	if n, ok := size.Const(); ok {
		o.require(n == w.n*w.blocks*w.block*w.bits/8, ErrShape, "weights of %d bytes, expected %d·%d·%d bits", n, w.n, w.blocks*w.block, w.bits)
	}
	return w
}

// matMulNBits says the operator in standard ones. Weights that are constant stay as they are, under DequantizeLinear.
func matMulNBits(o *op) {
	w := o.readWeights()
	var real *graph.Value
	if c := w.of.Const; c != nil && !o.has(4) && (w.zeros == nil || w.zeros.Const != nil && w.zeros.Type.DType == tensor.Uint8) {
		real = o.constantWeights(&w)
	} else {
		real = o.unpackedWeights(&w)
	}
	if w.blocks*w.block != w.k {
		real = o.slice(real, 1, 0, w.k)
	}
	o.set(0, o.withBias(o.call("MatMul", nil, o.in[0], o.turned(real)), o.input(5)))
}

// eachZero calls f with the zero point of each block, of which those of a row begin with a byte.
func (w *weights) eachZero(b []byte, f func(i, zero int64)) error {
	per := 8 / w.bits
	row := (w.blocks + per - 1) / per
	if int64(len(b)) != w.n*row {
		return fmt.Errorf("%w: zero points of %d bytes, expected %d", ErrShape, len(b), w.n*row)
	}
	for i := range w.n * w.blocks {
		r, c := i/w.blocks, i%w.blocks
		f(i, int64(b[r*row+c/per]>>(c%per*w.bits))&(1<<w.bits-1))
	}
	return nil
}

// Zeros returns the zero points of a MatMulNBits whose zero points are constant: one for each block, row by row, or one for all.
func Zeros(n *graph.Node) ([]float32, error) {
	var w weights
	o := &op{n: n, in: n.Inputs}
	if err := o.try(func(o *op) { w = o.readWeights() }); err != nil {
		return nil, err
	}
	if w.zeros == nil {
		return []float32{float32(int64(1) << (w.bits - 1))}, nil
	}
	if w.zeros.Const == nil || w.zeros.Const.DType != tensor.Uint8 {
		return nil, fmt.Errorf("%v: %w: zero points that are no constant bytes", n, ErrUnsupported)
	}
	out := make([]float32, w.n*w.blocks)
	if err := w.eachZero(w.zeros.Const.Bytes(), func(i, z int64) { out[i] = float32(z) }); err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	return out, nil
}

// evalNBits computes a node that Expand keeps.
func evalNBits(c *call) error {
	var w weights
	o := &op{n: c.n, in: c.n.Inputs}
	if err := o.try(func(o *op) { w = o.readWeights() }); err != nil {
		return err
	}
	x, err := c.input(0, -1)
	if err != nil {
		return err
	}
	if x.Rank() == 0 || int64(x.Shape[x.Rank()-1]) != w.k || c.has(4) || int64(c.in[1].Len()) != w.n*w.blocks*w.block*w.bits/8 || int64(c.in[2].Len()) != w.n*w.blocks {
		return fmt.Errorf("%w: %v for %d bits of %d x %d", ErrShape, x, w.bits, w.k, w.n)
	}
	zeros := make([]float64, w.n*w.blocks)
	for i := range zeros {
		zeros[i] = float64(int64(1) << (w.bits - 1))
	}
	if c.has(3) {
		if err := w.eachZero(c.in[3].Bytes(), func(i, z int64) { zeros[i] = float64(z) }); err != nil {
			return err
		}
	}
	a, err := c.floats(0)
	if err != nil {
		return err
	}
	scales, err := c.floats(2)
	if err != nil {
		return err
	}
	bytes, rows := c.in[1].Bytes(), len(a)/int(w.k)
	y, column := make([]float32, rows*int(w.n)), make([]float64, w.k)
	for n := range w.n {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		for i := range w.k {
			b := n*w.blocks + i/w.block
			at := n*w.blocks*w.block + i
			column[i] = (float64(packedAt(bytes, int(at), int(w.bits))) - zeros[b]) * float64(scales[b])
		}
		for r := range rows {
			sum := 0.0
			for i, v := range a[r*int(w.k):][:w.k] {
				sum += float64(v) * column[i]
			}
			if c.has(5) {
				sum += c.in[5].Float64At(int(n))
			}
			y[r*int(w.n)+int(n)] = float32(sum)
		}
	}
	return c.put(0, x.DType, y, append(append([]int{}, x.Shape[:x.Rank()-1]...), int(w.n))...)
}

func integerOf(bits int64) tensor.DType {
	switch bits {
	case 2:
		return tensor.Uint2
	case 4:
		return tensor.Uint4
	}
	return tensor.Uint8
}

// constantWeights returns the weights [n, blocks·block] as real numbers of constants in integers of as many bits.
func (o *op) constantWeights(w *weights) *graph.Value {
	dt := integerOf(w.bits)
	q := o.constant(&tensor.Tensor{DType: dt, Shape: []int{int(w.n), int(w.blocks * w.block)}, Data: w.of.Const.Bytes()})
	zeros, err := tensor.New(dt, int(w.n), int(w.blocks))
	if err != nil {
		o.fail(ErrUnsupported, "%v", err)
	}
	list := make([]int64, w.n*w.blocks)
	for i := range list {
		list[i] = 1 << (w.bits - 1)
	}
	if w.zeros != nil {
		if err := w.eachZero(w.zeros.Const.Bytes(), func(i, z int64) { list[i] = z }); err != nil {
			panic(fault{err})
		}
	}
	if err := tensor.EncodeInts(zeros, list); err != nil {
		o.fail(ErrUnsupported, "%v", err)
	}
	as := attrs(graph.IntAttr("axis", 1), graph.IntAttr("block_size", w.block))
	since := opset
	if dt == tensor.Uint2 {
		since = 25 // the first that has it
	}
	return o.add(graph.Op{Name: "DequantizeLinear", Since: since}, 1, as, q, o.reshape(w.scales, w.n, w.blocks), o.constant(zeros))[0]
}

// unpacked returns the integers that the bytes of x hold, the low bits first, along its last axis, which is a number: [..., last].
func (o *op) unpacked(x *graph.Value, bits, last int64) *graph.Value {
	if bits == 8 {
		return x
	}
	var parts []*graph.Value
	mask := o.scalar(tensor.Uint8, float64(int64(1)<<bits-1))
	for shift := int64(0); shift < 8; shift += bits {
		v := x
		if shift > 0 {
			v = o.call("BitShift", attrs(graph.StringAttr("direction", "RIGHT")), x, o.scalar(tensor.Uint8, float64(shift)))
		}
		parts = append(parts, o.unsqueeze(o.call("BitwiseAnd", nil, v, mask), -1))
	}
	dims := make([]int64, o.rank(x))
	dims[len(dims)-1] = last
	return o.reshape(o.concat(-1, parts...), dims...)
}

// unpackedWeights is constantWeights for weights that a run knows, zero points that are real numbers, and columns in another order.
func (o *op) unpackedWeights(w *weights) *graph.Value {
	dt := o.dtype(w.scales)
	bytes := o.reshape(w.of, w.n, w.blocks, w.block*w.bits/8)
	q := o.cast(o.unpacked(bytes, w.bits, w.block), dt)
	scales := o.reshape(w.scales, w.n, w.blocks)
	zeros := o.like(scales, float64(int64(1)<<(w.bits-1)))
	switch {
	case w.zeros == nil:
	case o.dtype(w.zeros) != tensor.Uint8:
		zeros = o.reshape(o.cast(w.zeros, dt), w.n, w.blocks, 1)
	default:
		per := 8 / w.bits
		row := (w.blocks + per - 1) / per
		z := o.slice(o.unpacked(o.reshape(w.zeros, w.n, row), w.bits, row*per), 1, 0, w.blocks)
		zeros = o.unsqueeze(o.cast(z, dt), 2)
	}
	if !o.has(4) {
		return o.reshape(o.times(o.call("Sub", nil, q, zeros), o.unsqueeze(scales, 2)), w.n, w.blocks*w.block)
	}
	group := func(v *graph.Value) *graph.Value { // the parameter of the block of each column
		if len(v.Type.Shape) == 0 {
			return v
		}
		return o.call("Gather", attrs(graph.IntAttr("axis", 1)), o.reshape(v, w.n, w.blocks), o.in[4])
	}
	q = o.slice(o.reshape(q, w.n, w.blocks*w.block), 1, 0, w.k)
	real := o.times(o.call("Sub", nil, q, group(zeros)), group(scales))
	w.blocks, w.block = 1, w.k // no columns are left over
	return real
}

// Numbers that 4 bits stand for, by quant_type: a floating-point type, and quantiles of the normal distribution.
var bnb4 = [2][]float32{
	{0, 0.0052083333, 0.6666667, 1, 0.3333333, 0.5, 0.1666667, 0.25, 0, -0.0052083333, -0.6666667, -1, -0.3333333, -0.5, -0.1666667, -0.25},
	{-1, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0, 0.0795803, 0.1609302, 0.2461123, 0.33791524,
		0.44070983, 0.562617, 0.72295684, 1},
}

// matMulBnb4 multiplies with weights that are places in a table, the high bits first, times the greatest number of their block.
func matMulBnb4(o *op) {
	k, n, block, kind := o.n.Int("K", 0), o.n.Int("N", 0), o.n.Int("block_size", 0), o.n.Int("quant_type", 0)
	o.require(k > 0 && n > 0 && k <= 1<<31 && n <= 1<<31, ErrAttribute, "K %d and N %d", k, n)
	o.require(block > 0 && block <= 1<<31 && (kind == 0 || kind == 1), ErrAttribute, "block size %d and type %d", block, kind)
	bytes := o.reshape(o.in[1], -1)
	high := o.call("BitShift", attrs(graph.StringAttr("direction", "RIGHT")), bytes, o.scalar(tensor.Uint8, 4))
	low := o.call("BitwiseAnd", nil, bytes, o.scalar(tensor.Uint8, 15))
	places := o.slice(o.reshape(o.concat(1, o.unsqueeze(high, 1), o.unsqueeze(low, 1)), -1), 0, 0, n*k)
	table := o.cast(o.constant(tensor.From(bnb4[kind], 16)), o.dtype(o.in[2]))
	q := o.call("Gather", nil, table, o.cast(places, tensor.Int32))
	absmax := o.reshape(o.in[2], -1, 1)
	blocks := (n*k + block - 1) / block
	if over := blocks*block - n*k; over > 0 {
		q = o.call("Pad", nil, q, o.ints(0, over))
	}
	real := o.slice(o.reshape(o.times(o.reshape(q, blocks, block), absmax), -1), 0, 0, n*k)
	rows, columns := n, k
	if o.n.Int("transB", 1) == 0 {
		rows, columns = k, n
	}
	b := o.reshape(real, rows, columns)
	if o.n.Int("transB", 1) != 0 {
		b = o.turned(b)
	}
	o.set(0, o.call("MatMul", nil, o.in[0], b))
}

// gatherBlocks takes slices of quantised data, and makes them real numbers: of all data first where blocks run along another axis than the last.
func gatherBlocks(o *op) {
	data, scales := o.in[0], o.in[2]
	rank := o.rank(data)
	norm := func(name string, def int64) int {
		a, err := graph.NormAxis(o.n.Int(name, def), rank)
		if err != nil {
			o.fail(ErrAttribute, "%s: %v", name, err)
		}
		return a
	}
	axis, along := norm("gather_axis", 0), norm("quantize_axis", 1)
	bits, block := o.n.Int("bits", 4), o.n.Int("block_size", 128)
	o.require((bits == 2 || bits == 4 || bits == 8) && block >= 16 && block <= 1<<16, ErrAttribute, "%d bits in blocks of %d", bits, block)
	if along != rank-1 || axis == along {
		o.refuse(o.dtype(data) == tensor.Uint8, "bytes with blocks along another axis than the last, or along the gathered one")
		real := o.call("DequantizeLinear", attrs(graph.IntAttr("axis", int64(along)), graph.IntAttr("block_size", block)), data, scales, o.input(3))
		o.set(0, o.call("Gather", attrs(graph.IntAttr("axis", int64(axis))), real, o.in[1]))
		return
	}
	last := int64(o.static(data, along))
	zero := 0.0
	bytes := o.dtype(data) == tensor.Uint8
	if bytes {
		last *= 8 / bits
		zero = float64(int64(1) << (bits - 1))
	}
	blocks := (last + block - 1) / block
	take := func(v *graph.Value, columns int64) *graph.Value {
		if o.dtype(v) == tensor.Int4 || o.dtype(v) == tensor.Uint4 {
			v = o.cast(v, tensor.Int8)
		}
		v = o.call("Gather", attrs(graph.IntAttr("axis", int64(axis))), v, o.in[1])
		if bytes && o.dtype(v) == tensor.Uint8 {
			per := 8 / bits
			if v = o.unpacked(v, bits, (columns+per-1)/per*per); columns%per != 0 {
				v = o.slice(v, int64(o.rank(v)-1), 0, columns)
			}
		}
		return o.cast(v, o.dtype(scales))
	}
	q, s := take(data, last), take(scales, blocks)
	at := int64(o.rank(q))
	if over := blocks*block - last; over > 0 {
		q = o.call("Pad", nil, q, o.ints(0, over), nil, o.ints(at-1))
	}
	dims := make([]int64, at+1)
	dims[at-1], dims[at] = blocks, block
	q = o.reshape(q, dims...)
	if o.has(3) {
		q = o.call("Sub", nil, q, o.unsqueeze(take(o.in[3], blocks), at))
	} else if zero != 0 {
		q = o.call("Sub", nil, q, o.like(q, zero))
	}
	flat := make([]int64, at)
	flat[at-1] = blocks * block
	y := o.reshape(o.times(q, o.unsqueeze(s, at)), flat...)
	if blocks*block > last {
		y = o.slice(y, at-1, 0, last)
	}
	o.set(0, y)
}
