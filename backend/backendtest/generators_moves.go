package backendtest

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

// moveGenerators are operators that put elements elsewhere.
var moveGenerators = map[string]generator{
	"Transpose": func(m *maker, op string) []*graph.Value {
		x := m.moved(op, 0, 5)
		c := m.call(op, x)
		if !m.chance(5) {
			c.ints("perm", m.r.Perm(len(m.shapeOf(x)))...)
		}
		return one(c.one())
	},
	"Slice": slice, "Split": split, "Concat": concat, "Expand": expand, "Pad": pad, "Tile": tile,
	"Reshape": reshape, "Squeeze": squeeze, "Unsqueeze": unsqueeze,
	"Flatten": func(m *maker, op string) []*graph.Value {
		x := m.moved(op, 0, 4)
		return one(m.behind(m.call(op, x).int("axis", m.between(0, len(m.shapeOf(x)))).one()))
	},
	"Identity": func(m *maker, op string) []*graph.Value { return one(m.behind(m.call(op, m.moved(op, 0, 4)).one())) },
	"Dropout":  func(m *maker, op string) []*graph.Value { return one(m.behind(m.call(op, m.moved(op, 0, 4)).one())) },
	"DepthToSpace": func(m *maker, op string) []*graph.Value {
		b := m.between(1, 3)
		s := m.image(2)
		s[1] *= b * b
		return one(m.call(op, m.operand(m.dtype(op, 0), s...)).int("blocksize", b).text("mode", pick(m, "DCR", "CRD")).one())
	},
	"SpaceToDepth": func(m *maker, op string) []*graph.Value {
		b := m.between(1, 3)
		s := m.image(2)
		s[2], s[3] = s[2]*b, s[3]*b
		return one(m.call(op, m.operand(m.dtype(op, 0), s...)).int("blocksize", b).one())
	},
	"ConstantOfShape": func(m *maker, op string) []*graph.Value {
		shape := m.shape(m.rank(0, 4))
		list := m.fill(tensor.Int64, []int{len(shape)}, func(i int) float64 { return float64(shape[i]) })
		c := m.call(op, m.leaf(list))
		if m.chance(2) {
			c.attrs = append(c.attrs, graph.TensorAttr("value", m.random(pick(m, tensor.Float32, tensor.Int64, tensor.Bool, tensor.Uint8), 1)))
		}
		return one(c.one())
	},
}

// moved adds an operand of any type that an operator moves; an image, at times, that a layer made.
func (m *maker) moved(op string, lo, hi int) *graph.Value {
	if hi >= 4 && m.chance(3) {
		return m.picture(m.image(2))
	}
	return m.operand(m.dtype(op, 0), m.shape(m.rank(lo, hi))...)
}

// behind adds a node behind a view, which would otherwise be no step at all.
func (m *maker) behind(v *graph.Value) *graph.Value {
	if t := m.c.Values[v]; t != nil && t.DType == tensor.Float32 && m.chance(2) {
		return m.call("Relu", v).one()
	}
	return v
}

func slice(m *maker, op string) []*graph.Value {
	x := m.moved(op, 1, 5)
	shape := m.shapeOf(x)
	c := m.call(op, x)
	var starts, ends, axes, steps []int
	for a, d := range shape {
		if len(shape) > 1 && m.chance(2) {
			continue
		}
		from, to, step := m.between(-d, max(0, d-1)), 0, 1
		begin := (from + d) % max(1, d)
		to = m.between(begin, d) + 1
		if c.has("steps") && m.chance(3) {
			step = pick(m, 2, 3, -1, -2)
			if step < 0 {
				to = pick(m, -d-1, begin-d-1)
			}
		}
		starts, ends, axes, steps = append(starts, from), append(ends, to), append(axes, a), append(steps, step)
	}
	c.ints("starts", starts...).ints("ends", ends...).ints("axes", axes...)
	if m.chance(2) || c.has("steps") && len(steps) > 0 {
		c.ints("steps", steps...)
	}
	return one(c.one())
}

func split(m *maker, op string) []*graph.Value {
	x := m.moved(op, 1, 4)
	shape := m.shapeOf(x)
	if len(shape) == 0 {
		return nil
	}
	a := m.r.IntN(len(shape))
	if len(shape) == 4 && m.chance(2) {
		a = 1
	}
	parts := []int{}
	if shape[a] == 0 {
		parts = []int{0, 0}
	}
	for left := shape[a]; left > 0 && len(parts) < 4; {
		k := m.between(1, left)
		if len(parts) == 3 {
			k = left
		}
		parts, left = append(parts, k), left-k
	}
	return m.call(op, x).int("axis", a-pick(m, 0, len(shape))).ints("split", parts...).out(len(parts))
}

func concat(m *maker, op string) []*graph.Value {
	dt := m.dtype(op, 0)
	shape := m.shape(m.rank(1, 4))
	image := m.chance(2)
	if image {
		shape, dt = m.image(2), tensor.Float32
	}
	m.symbol = -1
	a := m.r.IntN(len(shape))
	var list []*graph.Value
	for range m.between(1, 4) {
		s := append([]int{}, shape...)
		s[a] = m.length(m.between(1, 20))
		if image {
			list = append(list, m.picture(s))
		} else {
			list = append(list, m.operand(dt, s...))
		}
	}
	if m.chance(4) {
		list = append(list, list[0])
	}
	return one(m.call(op, list...).int("axis", a-pick(m, 0, len(shape))).one())
}

func expand(m *maker, op string) []*graph.Value {
	to := m.shape(m.rank(0, 4))
	return one(m.call(op, m.operand(m.dtype(op, 0), m.broadcast(to)...)).ints("shape", to...).one())
}

func pad(m *maker, op string) []*graph.Value {
	mode := pick(m, "constant", "constant", "reflect", "edge")
	dt := m.dtype(op, 0)
	shape := m.shape(m.rank(1, 4))
	c := m.call(op, m.operand(dt, shape...))
	pads := make([]int, 2*len(shape))
	for i := range pads {
		pads[i] = m.between(0, 2)
		if mode == "reflect" {
			pads[i] = min(pads[i], shape[i%len(shape)]-1)
		}
		if mode != "constant" && shape[i%len(shape)] == 0 {
			pads[i] = 0 // there is nothing to repeat
		}
	}
	c.text("mode", mode).ints("pads", pads...)
	if mode == "constant" && m.chance(2) {
		c.float("value", 1).float("constant_value", 1)
	}
	return one(c.one())
}

func tile(m *maker, op string) []*graph.Value {
	shape := m.shape(m.rank(1, 4))
	times := make([]int, len(shape))
	for i := range times {
		times[i] = pick(m, 1, 1, 2, 3)
	}
	return one(m.call(op, m.operand(m.dtype(op, 0), shape...)).ints("repeats", times...).one())
}

func reshape(m *maker, op string) []*graph.Value {
	x := m.moved(op, 1, 4)
	shape := m.shapeOf(x)
	if len(shape) < 2 {
		return one(m.behind(m.call(op, x).ints("shape", 1, -1).one()))
	}
	return one(m.behind(m.call(op, x).ints("shape", pick(m, []int{-1}, []int{0, -1}, []int{-1, shape[len(shape)-1]}, []int{0, 1, -1})...).one()))
}

func squeeze(m *maker, op string) []*graph.Value {
	shape := m.shape(m.rank(1, 4))
	a := m.r.IntN(len(shape))
	m.symbol = -1
	shape[a] = 1
	return one(m.behind(m.call(op, m.operand(m.dtype(op, 0), shape...)).ints("axes", a).one()))
}

func unsqueeze(m *maker, op string) []*graph.Value {
	x := m.moved(op, 0, 3)
	return one(m.behind(m.call(op, x).ints("axes", m.between(0, len(m.shapeOf(x)))).one()))
}

// indexGenerators are operators with indices, and those that order and scan.
var indexGenerators = collect(map[string]generator{"Gather": gather, "GatherElements": gatherElements, "GatherND": gatherND, "ScatterND": scatterND,
	"TopK": topK, "CumSum": cumSum, "CumProd": cumSum, "Trilu": trilu, "Det": squares, microsoft.Domain + ":Inverse": squares, "OneHot": oneHot, "Range": between, "ReverseSequence": reverseSequence, "RotaryEmbedding": rotaryEmbedding}, each(arg, "ArgMax", "ArgMin"), each(scatterElements, "Scatter", "ScatterElements"))

// indices adds an operand of indices into a dim, from its end too.
func (m *maker) indices(limit func(i int) int, shape ...int) *graph.Value {
	return m.leaf(m.fill(pick(m, tensor.Int64, tensor.Int64, tensor.Int32), shape, func(i int) float64 { return float64(m.between(-limit(i), limit(i)-1)) }))
}

func gather(m *maker, op string) []*graph.Value {
	shape := m.shape(m.rank(1, 4))
	a := m.r.IntN(len(shape))
	list := m.broadcast([]int{3, 4})
	if shape[a] == 0 {
		list = []int{2, 0}
	}
	at := m.indices(func(int) int { return shape[a] }, list...)
	return one(m.call(op, m.operand(m.dtype(op, 0), shape...), at).int("axis", a-pick(m, 0, len(shape))).one())
}

// part returns dims at most as long.
func (m *maker) part(shape []int) []int {
	out := make([]int, len(shape))
	for i, d := range shape {
		out[i] = min(d, m.length(m.between(1, max(1, d))))
	}
	return out
}

func gatherElements(m *maker, op string) []*graph.Value {
	shape := m.shape(m.rank(1, 4))
	a := m.r.IntN(len(shape))
	at := m.indices(func(int) int { return shape[a] }, m.part(shape)...)
	return one(m.call(op, m.operand(m.dtype(op, 0), shape...), at).int("axis", a-pick(m, 0, len(shape))).one())
}

func gatherND(m *maker, op string) []*graph.Value {
	shape := m.shape(m.rank(1, 4))
	c := m.call(op)
	batch := 0
	if c.has("batch_dims") {
		batch = m.r.IntN(len(shape))
	}
	k := m.between(1, len(shape)-batch)
	rows := m.between(1, 5)
	if slices.Contains(shape[batch:batch+k], 0) {
		rows = 0
	}
	s := append(append(append([]int{}, shape[:batch]...), rows), k)
	m.symbol = -1
	c.operand(0, m.operand(m.dtype(op, 0), shape...))
	at := m.leaf(m.fill(tensor.Int64, s, func(i int) float64 { d := shape[batch+i%k]; return float64(m.between(-d, d-1)) }))
	c.operand(1, at)
	return one(c.int("batch_dims", batch).one())
}

// reduction gives a call an attribute "reduction", which newer versions of ScatterElements and ScatterND have.
func (c *call) reduction() *call {
	if c.schema.Since >= 18 && c.m.chance(2) {
		return c.text("reduction", pick(c.m, "none", "add", "mul", "max", "min"))
	}
	return c
}

func scatterElements(m *maker, op string) []*graph.Value {
	if op == "Scatter" {
		m.g.Opsets[""] = 10
	}
	dt := m.dtype(op, 0)
	shape := m.shape(m.rank(1, 4))
	a := m.r.IntN(len(shape))
	part := m.part(shape)
	part[a] = min(part[a], 4)
	order := m.r.Perm(shape[a]) // without indices that come twice, but where they are added up, the order is not said
	inner := 1
	for _, d := range part[a+1:] {
		inner *= d
	}
	at := m.leaf(m.fill(tensor.Int64, part, func(i int) float64 { return float64(order[i/inner%part[a]] - pick(m, 0, shape[a])) }))
	return one(m.call(op, m.operand(dt, shape...), at, m.operand(dt, part...)).int("axis", a).reduction().one())
}

func scatterND(m *maker, op string) []*graph.Value {
	dt := m.dtype(op, 0)
	shape := m.shape(m.rank(1, 4))
	k := m.between(1, len(shape))
	n := min(m.between(1, 4), shape[0])
	if slices.Contains(shape[:k], 0) {
		n = 0
	}
	rows := m.r.Perm(shape[0])
	m.symbol = -1
	at := m.leaf(m.fill(tensor.Int64, []int{n, k}, func(i int) float64 {
		if i%k == 0 {
			return float64(rows[i/k])
		}
		return float64(m.r.IntN(shape[i%k]))
	}))
	return one(m.call(op, m.operand(dt, shape...), at, m.operand(dt, append([]int{n}, shape[k:]...)...)).reduction().one())
}

// ties adds an operand with many equal numbers.
func (m *maker) ties(dt tensor.DType, shape []int) *graph.Value {
	if m.chance(2) {
		return m.operand(dt, shape...)
	}
	return m.within(dt, 0, 3, shape...)
}

func arg(m *maker, op string) []*graph.Value {
	shape := m.shape(m.rank(1, 4))
	a := m.r.IntN(len(shape))
	if !slices.Contains(append(shape[:a:a], shape[a+1:]...), 0) {
		shape[a] = max(1, shape[a])
	}
	c := m.call(op, m.ties(m.dtype(op, 0), shape)).int("axis", a).flag("keepdims").flag("select_last_index")
	return one(c.one())
}

func topK(m *maker, op string) []*graph.Value {
	shape := m.shape(m.rank(1, 4))
	a := m.r.IntN(len(shape))
	k := min(shape[a], m.length(m.between(1, max(1, shape[a]))))
	c := m.call(op, m.ties(m.dtype(op, 0), shape)).int("k", k).int("K", k).int("axis", a).flag("largest")
	if c.has("K") && m.chance(3) { // known in the run alone
		c.operand(1, m.feed(tensor.From([]int64{int64(k)}, 1)))
	}
	return c.out(2)
}

func cumSum(m *maker, op string) []*graph.Value {
	shape := m.shape(m.rank(1, 4))
	return one(m.call(op, m.operand(m.dtype(op, 0), shape...)).int("axis", m.between(-len(shape), len(shape)-1)).flag("exclusive").flag("reverse").one())
}

func reverseSequence(m *maker, op string) []*graph.Value {
	shape := m.shape(m.between(2, 4))
	m.symbol = -1
	batch := m.r.IntN(2)
	lengths := m.leaf(m.fill(tensor.Int64, shape[batch:batch+1], func(int) float64 { return float64(m.between(0, shape[1-batch])) }))
	return one(m.call(op, m.operand(m.dtype(op, 0), shape...), lengths).int("batch_axis", batch).int("time_axis", 1-batch).one())
}

// rotaryEmbedding turns all of a head or its first elements, of heads that stand in front of the positions or within them.
func rotaryEmbedding(m *maker, op string) []*graph.Value {
	m.symbol = -1
	dt := m.dtype(op, 0)
	batch, heads, length, half := m.between(1, 3), m.between(1, 3), m.between(1, 5), m.between(1, 9)
	width := 2*half + pick(m, 0, 0, 1, 6)
	shape := pick(m, []int{batch, heads, length, width}, []int{batch, length, heads * width})
	angles := []int{batch, length, half}
	var ids *graph.Value
	if m.chance(2) {
		angles = []int{m.between(1, 7), half}
		ids = m.leaf(m.fill(tensor.Int64, []int{batch, length}, func(int) float64 { return float64(m.r.IntN(angles[0])) }))
	}
	c := m.call(op, m.operand(dt, shape...), m.operand(dt, angles...), m.operand(dt, angles...)).flag("interleaved")
	if ids != nil {
		c.operand(3, ids)
	}
	if len(shape) == 3 {
		c.int("num_heads", heads)
	}
	if width > 2*half || m.chance(3) {
		c.int("rotary_embedding_dim", 2*half)
	}
	return one(c.one())
}

func oneHot(m *maker, op string) []*graph.Value {
	shape, depth := m.shape(m.between(0, 3)), m.between(0, 6)
	x := m.operand(pick(m, tensor.Int64, tensor.Int32, m.dtype(op, 0)), shape...)
	values := m.operand(m.dtype(op, 2), 2)
	return one(m.call(op, x, m.constant(tensor.Scalar(int64(depth))), values).int("axis", m.between(-len(shape)-1, len(shape))).one())
}

func between(m *maker, op string) []*graph.Value {
	dt := pick(m, tensor.Int64, tensor.Int32, tensor.Float32, m.dtype(op, 0))
	number := func(x int) *graph.Value { return m.constant(m.fill(dt, nil, func(int) float64 { return float64(x) })) }
	return one(m.call(op, number(m.between(-9, 9)), number(m.between(-9, 9)), number(pick(m, -3, -1, 1, 2))).one())
}

// squares makes matrices whose largest elements stand in other columns than the diagonal's, and which are far from having no inverse.
func squares(m *maker, op string) []*graph.Value {
	m.g.Opsets[microsoft.Domain] = 1
	n, aside := pick(m, 1, 2, 3, 4, 9, 17), m.between(0, 3)
	shape := append(m.shape(m.between(0, 2)), n, n)
	return one(m.call(op, m.leaf(m.fill(m.dtype(op, 0), shape, func(i int) float64 {
		x := 2*m.r.Float64() - 1
		if row := i / n % n; (row+aside)%n == i%n {
			x += float64(n)
		}
		return x
	}))).one())
}

func trilu(m *maker, op string) []*graph.Value {
	c := m.call(op, m.operand(m.dtype(op, 0), m.shape(m.rank(2, 4))...)).flag("upper")
	if m.chance(2) {
		c.int("k", m.between(-9, 9))
	}
	return one(c.one())
}
