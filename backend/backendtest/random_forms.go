package backendtest

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

// RandomForms returns a case like those of RandomQuantised, of what quantisers and ONNX Runtime's optimiser write besides: operators on
// the integers themselves, masks, casts, operators of com.microsoft with channels last, activations of 16 bits and weights of 4. Its
// numbers are as exact; what is a function with rounded results ends a branch, and may be a step off.
func RandomForms(seed uint64, zeros int) (*Case, error) {
	m := newMaker("forms", seed)
	m.g.Opsets[""], m.g.Opsets[microsoft.Domain] = pick(m, 13, 13, 17, 19, 21, newest), 1
	n := &formsNet{quantisedNet: &quantisedNet{maker: m, zeros: zeros}}
	shape := []int{pick(m, 1, 1, 2, 3), pick(m, 1, 2, 3, 4, 8, 16, 17, 32, 40), pick(m, 1, 2, 4, 8, m.between(1, 14)), pick(m, 1, 2, 4, 8, m.between(1, 14))}
	if m.chance(4) {
		shape = shape[:m.between(2, 3)]
	}
	n.add(m.feed(m.anyBytes(n.byteType(), shape...)))
	for range m.between(2, 8) {
		if m.err != nil {
			break
		}
		n.advance()
	}
	out := append(n.ends, n.last())
	for _, v := range n.values[:len(n.values)-1] {
		if m.chance(6) {
			out = append(out, v)
		}
	}
	if m.chance(3) {
		out = append(out, n.floats(n.last()))
	}
	return m.finish(out)
}

// formsNet is a quantised network with more steps.
type formsNet struct {
	*quantisedNet
	ends []*graph.Value // results that nothing reads
}

// advance adds an operator, or a few, to one of the last values.
func (n *formsNet) advance() {
	v := n.values[max(0, len(n.values)-1-n.r.IntN(2))]
	if len(n.shapeOf(v)) < 2 {
		return
	}
	list := []func(v *graph.Value){n.chosen, n.chosen, n.looked, n.rearranged, n.stretched, n.reduced, n.cast, n.widened, n.nibbles, n.paired, n.gemm, n.curve}
	if s := n.shapeOf(v); len(s) == 4 {
		list = append(list, n.turned, n.turned, n.turned, n.resized)
	}
	if n.chance(3) || n.isWide(v) && n.chance(2) {
		n.step()
		return
	}
	pick(n.maker, list...)(v)
}

// same lists integers with the quantisation of another.
func (n *formsNet) same(y, v *graph.Value) {
	if t := n.c.Values[y]; n.err == nil && t != nil && t.Len() > 0 {
		n.values, n.how[y] = append(n.values, y), n.how[v]
	}
}

// inFloats does f to what v stands for, and quantises the result as v is; or to the integers, where f chooses and moves elements.
func (n *formsNet) inFloats(v *graph.Value, f func(x *graph.Value) *graph.Value) {
	if n.chance(2) {
		n.same(f(v), v)
		return
	}
	y := f(n.floats(v))
	n.exact[y] = true
	n.same(n.quantize(y, n.how[v]), v)
}

// sibling returns a value of v's shape and quantisation, a new input.
func (n *formsNet) sibling(v *graph.Value, shape ...int) *graph.Value {
	u := n.feed(n.anyBytes(n.how[v].dtype, shape...))
	n.how[u] = n.how[v]
	return u
}

// mask returns truth values that broadcast to a shape.
func (n *formsNet) mask(v *graph.Value) *graph.Value {
	shape := n.shapeOf(v)
	switch n.r.IntN(5) {
	case 0:
		return n.leaf(n.random(tensor.Bool, n.broadcast(shape)...))
	case 1:
		return n.call("Not", n.mask(v)).one()
	case 2:
		return n.call(pick(n.maker, "And", "Or", "Xor"), n.mask(v), n.mask(v)).one()
	case 3:
		return n.call("Cast", v).int("to", int(tensor.Bool)).one()
	}
	limit := n.constant(n.fill(tensor.Float32, nil, func(int) float64 { return math.Ldexp(float64(n.between(-30, 30)), -5) }))
	return n.call(pick(n.maker, "Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual"), n.floats(v), limit).one()
}

// chosen selects elements of two values by a mask.
func (n *formsNet) chosen(v *graph.Value) {
	mask, shape := n.mask(v), n.shapeOf(v)
	u := n.sibling(v, pick(n.maker, shape, n.broadcast(shape))...)
	if n.isWide(v) || n.chance(3) {
		list := []*graph.Value{n.floats(v), n.floats(u)}
		n.r.Shuffle(2, func(i, j int) { list[i], list[j] = list[j], list[i] })
		y := n.call("Where", mask, list[0], list[1]).one()
		n.exact[y] = true
		n.same(n.quantize(y, n.how[v]), v)
		return
	}
	if n.chance(3) {
		q := n.levels(n.how[v].dtype, -4)
		n.list(n.scaledCall("QLinearWhere", q, mask, n.of(v), n.of(u)), q)
		return
	}
	n.same(n.call("Where", mask, v, u).one(), v)
}

// looked takes rows by indices that a run gives.
func (n *formsNet) looked(v *graph.Value) {
	shape := n.shapeOf(v)
	axis := n.r.IntN(len(shape))
	from := func(int) float64 { return float64(n.between(-shape[axis], shape[axis]-1)) }
	if n.chance(3) {
		to := slices.Clone(shape)
		to[axis] = n.between(1, 9)
		at := n.leaf(n.fill(tensor.Int64, to, from))
		n.inFloats(v, func(x *graph.Value) *graph.Value { return n.call("GatherElements", x, at).int("axis", axis).one() })
		return
	}
	at := n.leaf(n.fill(pick(n.maker, tensor.Int64, tensor.Int32), []int{n.between(1, 9)}, from))
	n.inFloats(v, func(x *graph.Value) *graph.Value { return n.call("Gather", x, at).int("axis", axis).one() })
}

// rearranged moves the elements of integers, or of what they stand for.
func (n *formsNet) rearranged(v *graph.Value) {
	shape := n.shapeOf(v)
	axis := n.r.IntN(len(shape))
	n.inFloats(v, func(x *graph.Value) *graph.Value {
		switch k := n.r.IntN(4); {
		case k == 0 && len(shape) == 4 && shape[1]%4 == 0:
			return n.call("DepthToSpace", x).int("blocksize", 2).text("mode", pick(n.maker, "DCR", "CRD")).one()
		case k == 1 && len(shape) == 4 && shape[2]%2 == 0 && shape[3]%2 == 0:
			return n.call("SpaceToDepth", x).int("blocksize", 2).one()
		case k == 2 && shape[axis]%2 == 0:
			c := n.call("Split", x).int("axis", axis)
			if n.g.Opsets[""] >= 18 {
				c.int("num_outputs", 2)
			}
			return c.out(2)[n.r.IntN(2)]
		}
		return n.call("Transpose", x).ints("perm", n.r.Perm(len(shape))...).one()
	})
}

// stretched repeats elements, or puts zeros around them.
func (n *formsNet) stretched(v *graph.Value) {
	shape := n.shapeOf(v)
	if size := n.c.Values[v].Len(); size > 20000 {
		return
	}
	times, pads := make([]int, len(shape)), make([]int, 2*len(shape))
	for i := range times {
		times[i] = pick(n.maker, 1, 1, 2)
	}
	for i := range pads {
		pads[i] = pick(n.maker, 0, 0, 1, 2)
	}
	switch n.r.IntN(3) {
	case 0:
		n.inFloats(v, func(x *graph.Value) *graph.Value { return n.call("Tile", x).ints("repeats", times...).one() })
	case 1:
		y := n.call("Pad", n.floats(v)).ints("pads", pads...).text("mode", pick(n.maker, "constant", "edge")).one()
		n.exact[y] = true
		n.same(n.quantize(y, n.how[v]), v)
	default:
		n.inFloats(v, func(x *graph.Value) *graph.Value {
			return n.call("Expand", n.call("Slice", x).ints("starts", 0).ints("ends", 1).ints("axes", 0).one()).ints("shape", append([]int{3}, shape[1:]...)...).one()
		})
	}
}

// reduced takes the largest or the least of lines, or means over a power of two.
func (n *formsNet) reduced(v *graph.Value) {
	shape := n.shapeOf(v)
	axis := n.r.IntN(len(shape))
	if l := shape[axis]; l&(l-1) == 0 && n.chance(2) && !n.isWide(v) {
		q := n.levels(n.how[v].dtype, -5)
		c := n.scaledCall("QLinearReduceMean", q, n.of(v))
		c.attrs = append(c.attrs, graph.IntsAttr("axes", int64(axis)), graph.IntAttr("keepdims", 1))
		n.list(c, q)
		return
	}
	op := pick(n.maker, "ReduceMax", "ReduceMin")
	n.inFloats(v, func(x *graph.Value) *graph.Value { return n.call(op, x).ints("axes", axis).int("keepdims", 1).one() })
}

// cast makes other numbers of the integers, and these of those.
func (n *formsNet) cast(v *graph.Value) {
	through := pick(n.maker, tensor.Int32, tensor.Int64, tensor.Float32, tensor.Float16, tensor.Int16)
	if n.isWide(v) && through == tensor.Float16 {
		through = tensor.Int32
	}
	x := n.call("Cast", v).int("to", int(through)).one()
	if n.chance(2) {
		n.same(n.call("Cast", x).int("to", int(n.how[v].dtype)).one(), v)
		return
	}
	x = n.call("Cast", x).int("to", int(tensor.Float32)).one()
	n.round(n.call("Mul", x, n.constant(tensor.Scalar(float32(math.Ldexp(1, -n.between(3, 6)))))).one())
}

// resized changes the number of pixels: nearest on integers as well, linear by halves and quarters.
func (n *formsNet) resized(v *graph.Value) {
	if n.c.Values[v].Len() > 20000 {
		return
	}
	mode, by := pick(n.maker, "nearest", "linear"), pick(n.maker, float32(2), 2, 4)
	resize := func(x *graph.Value) *graph.Value {
		c := n.call("Resize", x)
		c.operand(1, nil)
		c.operand(2, n.constant(tensor.From([]float32{1, 1, by, by}, 4)))
		return c.text("mode", mode).text("coordinate_transformation_mode", pick(n.maker, "asymmetric", "half_pixel")).text("nearest_mode", pick(n.maker, "floor", "ceil")).one()
	}
	if mode == "nearest" {
		n.inFloats(v, resize)
		return
	}
	n.round(resize(n.floats(v)))
}
