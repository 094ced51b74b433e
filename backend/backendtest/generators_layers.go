package backendtest

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// layerGenerators are convolutions, products and pooling.
var layerGenerators = collect(
	each(convolve, "Conv", "ConvTranspose"),
	each(pool, "MaxPool", "AveragePool", "LpPool"),
	each(func(m *maker, op string) []*graph.Value {
		c := m.call(op, m.picture(m.image(m.between(1, 3))))
		if op == "GlobalLpPool" && m.chance(2) {
			c.int("p", m.between(1, 3))
		}
		return one(c.one())
	}, "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"),
	each(resize, "Resize", "Upsample"),
	map[string]generator{"MatMul": multiply, "Gemm": gemm, "GridSample": gridSample, "RoiAlign": roiAlign},
)

// picture adds an operand for layers: at times the result of another one, in the format that a backend likes for it.
func (m *maker) picture(shape []int) *graph.Value {
	if len(shape) == 4 && m.chance(3) {
		c := m.between(1, 20)
		return m.call("Conv", m.operand(tensor.Float32, shape[0], c, shape[2], shape[3]), m.weights(tensor.Float32, c, shape[1], c, 1, 1)).one()
	}
	return m.operand(tensor.Float32, shape...)
}

// window sets the attributes of a window over an image of these dims, and returns its size.
func (c *call) window(image []int) []int {
	m, n := c.m, len(image)-2
	var kernel, strides, dilations, pads []int
	for i, d := range image[2:] {
		k := m.between(1, min(d, pick(m, 1, 3, 3, 5, 7)))
		kernel, strides = append(kernel, k), append(strides, m.between(1, 3))
		dilations = append(dilations, 1)
		if m.chance(4) && k > 1 {
			dilations[i] = max(1, min(m.between(1, 3), (d-1)/(k-1)))
		}
	}
	for i := range 2 * n {
		pads = append(pads, m.between(0, kernel[i%n]/2))
	}
	if !m.chance(4) {
		c.ints("strides", strides...)
	}
	c.ints("dilations", dilations...)
	switch m.r.IntN(4) {
	case 0:
		c.text("auto_pad", pick(m, "SAME_UPPER", "SAME_LOWER", "VALID"))
	case 1:
	default:
		c.ints("pads", pads...)
	}
	return kernel
}

func convolve(m *maker, op string) []*graph.Value {
	image := m.image(pick(m, 1, 2, 2, 2, 3))
	in, out, groups := image[1], pick(m, 1, 3, 8, 16, 17, 24, 33), 1
	switch m.r.IntN(4) {
	case 0:
		groups, out = max(in, 1), max(in, 1)
	case 1:
		groups = pick(m, 2, 3)
		in, out = in*groups, out*groups
		image[1] = in
	}
	c := m.call(op)
	kernel := c.window(image)
	c.operand(0, m.picture(image))
	shape := append([]int{out, in / groups}, kernel...)
	if op == "ConvTranspose" {
		shape = append([]int{in, out / groups}, kernel...)
	}
	fan := in / groups
	for _, k := range kernel {
		fan *= k
	}
	c.operand(1, m.weights(tensor.Float32, fan, shape...))
	if m.chance(2) {
		c.operand(2, m.weights(tensor.Float32, 1, out))
	}
	if m.chance(2) {
		c.ints("kernel_shape", kernel...)
	}
	return one(c.int("group", groups).one())
}

func pool(m *maker, op string) []*graph.Value {
	image := m.image(pick(m, 1, 2, 2, 2, 3))
	c := m.call(op)
	kernel := c.window(image)
	c.ints("kernel_shape", kernel...)
	if m.chance(12) && op != "LpPool" { // windows that see padding alone
		c.attrs = slices.DeleteFunc(c.attrs, func(a graph.Attr) bool { return a.Name == "pads" || a.Name == "auto_pad" })
		c.ints("pads", slices.Concat(kernel, kernel)...)
	}
	indexed := op == "MaxPool" && m.chance(4) && c.schema.Since >= 8
	switch {
	case m.chance(8):
		c.operand(0, m.operand(tensor.Float64, image...))
	case indexed: // where two are nearly equal, no rounding decides
		c.operand(0, m.operand(tensor.Float32, image...))
	default:
		c.operand(0, m.picture(image))
	}
	if op == "LpPool" && m.chance(2) {
		c.int("p", m.between(1, 3))
	}
	if op == "MaxPool" && m.chance(4) && m.g.Opsets[""] >= 12 {
		c.operand(0, m.leaf(m.random(pick(m, tensor.Uint8, tensor.Int8), image...)))
	}
	c.flag("ceil_mode").flag("count_include_pad").flag("storage_order")
	if indexed {
		return c.out(2)
	}
	return one(c.one())
}

func multiply(m *maker, op string) []*graph.Value {
	dt := m.dtype(op, 0)
	rows, k, columns := m.length(pick(m, lengths...)), m.length(pick(m, lengths...)), m.length(pick(m, lengths...))
	batch := m.shape(m.rank(0, 2))
	a, b := append(append([]int{}, batch...), rows, k), append(m.broadcast(batch), k, columns)
	switch m.r.IntN(5) {
	case 0:
		a = []int{k}
	case 1:
		b = []int{k}
	case 2, 3:
		b = []int{k, columns}
	}
	return one(m.call(op, m.operand(dt, a...), m.weights(dt, k, b...)).one())
}

func gemm(m *maker, op string) []*graph.Value {
	dt := m.dtype(op, 0)
	rows, k, columns := m.length(pick(m, lengths...)), m.length(pick(m, lengths...)), m.length(pick(m, lengths...))
	a, b := []int{rows, k}, []int{k, columns}
	c := m.call(op)
	if m.chance(3) {
		a = []int{k, rows}
		c.int("transA", 1)
	}
	if m.chance(2) {
		b = []int{columns, k}
		c.int("transB", 1)
	}
	c.operand(0, m.operand(dt, a...))
	c.operand(1, m.weights(dt, k, b...))
	if !m.chance(4) || m.g.Opsets[""] < 11 {
		c.operand(2, m.operand(dt, pick(m, []int{rows, columns}, []int{columns}, []int{1, columns}, []int{rows, 1}, []int{1})...))
	}
	if m.chance(3) && dt.IsFloat() {
		c.float("alpha", 0.5).float("beta", 1.5)
	}
	return one(c.one())
}

func resize(m *maker, op string) []*graph.Value {
	if op == "Resize" && m.call(op).schema.Since >= 11 && m.chance(3) {
		return m.resample(op)
	}
	x := m.image(2)
	c := m.call(op, m.picture(x))
	if c.schema.Since == 11 { // which wants all operands, empty ones for none
		c.operand(1, m.constant(m.fill(tensor.Float32, []int{0}, nil)))
		c.operand(2, m.constant(m.fill(tensor.Float32, []int{0}, nil)))
	}
	scale := func() float64 { return pick(m, 1.0, 2, 3, 1.5, 0.5, 0.7) }
	h, w := scale(), scale()
	if op == "Upsample" {
		h, w = max(h, 1), max(w, 1)
	}
	if !c.has("sizes") || m.chance(2) {
		v := m.some(c, 1.0, 1, h, w)
		t := m.fill(tensor.Float32, []int{len(v)}, func(i int) float64 { return v[i] })
		c.set("scales", t, graph.FloatsAttr("scales", tensor.Of[float32](t)...))
	} else {
		var v []int
		for _, d := range m.some(c, float64(x[0]), float64(x[1]), float64(m.between(1, 2*x[2])), float64(m.between(1, 2*x[3]))) {
			v = append(v, int(d))
		}
		c.ints("sizes", v...)
	}
	c.text("mode", pick(m, "nearest", "linear"))
	if m.chance(2) {
		c.text("coordinate_transformation_mode", pick(m, "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"))
		c.text("nearest_mode", pick(m, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
	}
	return one(c.one())
}

func gridSample(m *maker, op string) []*graph.Value {
	axes := 2
	if m.call(op).schema.Since >= 20 {
		axes = pick(m, 1, 2, 2, 3)
	}
	x := m.image(axes)
	points := []int{x[0]}
	for range axes {
		points = append(points, m.between(1, 9))
	}
	c := m.call(op, m.operand(tensor.Float32, x...), m.within(tensor.Float32, -1.3, 1.3, append(points, axes)...))
	mode := pick(m, "linear", "nearest", "cubic")
	if c.schema.Since < 20 {
		mode = map[string]string{"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}[mode]
	}
	return one(c.text("mode", mode).text("padding_mode", pick(m, "zeros", "border", "reflection")).flag("align_corners").one())
}

// resample resizes some axes of any tensor in all ways that are sums of neighbours.
func (m *maker) resample(op string) []*graph.Value {
	shape := m.shape(m.between(1, 5))
	for i := range shape {
		shape[i] = max(min(shape[i], 9), 1)
	}
	c := m.call(op, m.operand(tensor.Float32, shape...))
	if c.schema.Since == 11 {
		c.operand(1, m.constant(m.fill(tensor.Float32, []int{0}, nil)))
		c.operand(2, m.constant(m.fill(tensor.Float32, []int{0}, nil)))
	}
	if m.chance(2) {
		c.set("scales", m.fill(tensor.Float32, []int{len(shape)}, func(i int) float64 { return pick(m, 1, 1, max(2.5, 1), max(0.4, 1/float64(shape[i]))) }), graph.Attr{})
	} else {
		var sizes []int
		for _, d := range shape {
			sizes = append(sizes, pick(m, d, m.between(1, 2*d)))
		}
		c.ints("sizes", sizes...)
	}
	c.text("mode", pick(m, "linear", "cubic", "cubic")).flag("antialias").flag("exclude_outside")
	c.text("coordinate_transformation_mode", pick(m, "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric"))
	if m.chance(2) {
		c.float("cubic_coeff_a", -0.5)
	}
	return one(c.one())
}

// some returns what stands for the axes that a Resize names, at times fewer than all, which it then names.
func (m *maker) some(c *call, all ...float64) []float64 {
	if !c.attr("axes") || !m.chance(3) {
		return all
	}
	axes := pick(m, []int64{2, 3}, []int64{-1, -2}, []int64{3}, []int64{2, 1, 3})
	c.attrs = append(c.attrs, graph.IntsAttr("axes", axes...))
	var out []float64
	for _, a := range axes {
		out = append(out, all[(a+4)%4])
	}
	return out
}

func roiAlign(m *maker, op string) []*graph.Value {
	x, count := m.image(2), m.length(m.between(1, 6))
	if x[0] == 0 {
		count = 0
	}
	which := m.leaf(m.fill(tensor.Int64, []int{count}, func(int) float64 { return float64(m.r.IntN(x[0])) }))
	c := m.call(op, m.operand(tensor.Float32, x...), m.within(tensor.Float32, -5, 20, count, 4), which)
	c.int("sampling_ratio", pick(m, 0, 1, 2, 3)).int("output_height", m.between(1, 4)).int("output_width", m.between(1, 4))
	return one(c.float("spatial_scale", pick(m, 1.0, 0.5, 0.25)).text("coordinate_transformation_mode", pick(m, "half_pixel", "output_half_pixel")).text("mode", pick(m, "avg", "max")).one())
}

// normGenerators are normalisations, softmax and reductions.
var normGenerators = collect(
	each(softmax, "Softmax", "LogSoftmax", "Hardmax"),
	each(rowNorm, "LpNormalization", "MeanVarianceNormalization"),
	map[string]generator{"DFT": dft, "STFT": stft},
	each(layerNorm, "LayerNormalization", "RMSNormalization"),
	each(reduce, "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
	map[string]generator{"BatchNormalization": batchNorm, "InstanceNormalization": groupNorm, "GroupNormalization": groupNorm, "LRN": lrn},
	each(labelLoss, "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
)

// labelLoss is of labels of classes, one of which may not count, as a number behind them may be.
func labelLoss(m *maker, op string) []*graph.Value {
	x, classes, ignored := m.image(m.between(0, 3)), m.between(1, 9), m.r.IntN(10)
	x[1] = classes
	labels := append([]int{x[0]}, x[2:]...)
	c := m.call(op, m.operand(tensor.Float32, x...), m.leaf(m.fill(pick(m, tensor.Int64, tensor.Int32), labels, func(int) float64 {
		return float64(pick(m, m.r.IntN(classes), m.r.IntN(classes), ignored%(classes+1)))
	})))
	if m.chance(2) {
		c.operand(2, m.parameter(m.uniform(tensor.Float32, 0.1, 2, classes)))
	}
	return one(c.int("ignore_index", ignored%(classes+1)).text("reduction", pick(m, "none", "sum", "mean")).one())
}

func softmax(m *maker, op string) []*graph.Value {
	shape := m.shape(m.rank(1, 4))
	c := m.call(op, m.operand(m.dtype(op, 0), shape...))
	if !m.chance(3) || len(shape) == 1 {
		c.int("axis", m.between(-len(shape), len(shape)-1))
	}
	return one(c.one())
}

func layerNorm(m *maker, op string) []*graph.Value {
	shape := m.shape(m.rank(1, 4))
	axis := len(shape) - 1
	if m.chance(3) {
		axis = m.r.IntN(len(shape))
	}
	c := m.call(op, m.operand(tensor.Float32, shape...), m.parameter(m.random(tensor.Float32, shape[axis:]...)))
	if m.chance(2) && op == "LayerNormalization" {
		c.operand(2, m.parameter(m.random(tensor.Float32, shape[axis:]...)))
	}
	return one(c.int("axis", axis-pick(m, 0, len(shape))).float("epsilon", 0.01).one())
}

func rowNorm(m *maker, op string) []*graph.Value {
	shape := m.shape(m.rank(1, 4))
	axis := m.r.IntN(len(shape))
	c := m.call(op, m.operand(tensor.Float32, shape...))
	if op == "LpNormalization" {
		return one(c.int("axis", axis-pick(m, 0, len(shape))).int("p", m.between(1, 2)).one())
	}
	return one(c.ints("axes", axis).one())
}

// dft is along an axis that is known when a model is compiled.
func dft(m *maker, op string) []*graph.Value {
	shape := m.shape(m.rank(2, 4))
	shape[len(shape)-1] = m.between(1, 2)
	axis := m.r.IntN(len(shape) - 1)
	c := m.call(op, m.operand(tensor.Float32, shape...)).int("inverse", m.between(0, 1))
	if c.schema.Since >= 20 {
		c.operand(2, m.constant(tensor.Scalar(int64(axis))))
	} else {
		c.int("axis", axis)
	}
	return one(c.one())
}

func stft(m *maker, op string) []*graph.Value {
	frame := m.between(1, 12)
	scalar := func(n int) *graph.Value { return m.constant(tensor.Scalar(int64(n))) }
	c := m.call(op, m.operand(tensor.Float32, m.between(1, 3), frame+m.between(0, 20), 1), scalar(m.between(1, 5)))
	if m.chance(2) {
		c.operand(2, m.operand(tensor.Float32, frame))
	}
	c.operand(3, scalar(frame))
	return one(c.one())
}

func batchNorm(m *maker, op string) []*graph.Value {
	shape := m.image(m.between(1, 3))
	v := func(lo, hi float64) *graph.Value { return m.constant(m.uniform(tensor.Float32, lo, hi, shape[1])) }
	if m.chance(6) {
		v = func(lo, hi float64) *graph.Value { return m.within(tensor.Float32, lo, hi, shape[1]) }
	}
	return one(m.call(op, m.picture(shape), v(-2, 2), v(-2, 2), v(-2, 2), v(0.2, 2)).float("epsilon", 0.001).one())
}

func groupNorm(m *maker, op string) []*graph.Value {
	shape := m.image(m.between(1, 3))
	groups := pick(m, 1, 2, 3)
	if op == "GroupNormalization" {
		shape[1] *= groups
	}
	c := m.call(op)
	n := shape[1]
	if op == "GroupNormalization" && c.schema.Since < 21 {
		n = groups
	}
	for i, v := range []*graph.Value{m.operand(tensor.Float32, shape...), m.weights(tensor.Float32, 1, n), m.weights(tensor.Float32, 1, n)} {
		c.operand(i, v)
	}
	return one(c.int("num_groups", groups).float("epsilon", 0.01).one())
}

func lrn(m *maker, op string) []*graph.Value {
	c := m.call(op, m.picture(m.image(m.between(1, 3)))).int("size", pick(m, 5, 5, m.between(1, 7)))
	if m.chance(2) {
		c.float("alpha", 0.3).float("beta", 0.6).float("bias", 1.5)
	}
	return one(c.one())
}

func reduce(m *maker, op string) []*graph.Value {
	dt := m.dtype(op, 0)
	shape := m.shape(m.rank(0, 5))
	if m.chance(3) {
		shape = m.image(2)
	}
	x := m.operand(dt, shape...)
	switch op {
	case "ReduceLogSum":
		x = m.within(dt, 1, 3, shape...)
	case "ReduceProd":
		x = m.within(dt, 1, 1.2, shape...)
	}
	c := m.call(op, x).flag("keepdims").flag("noop_with_empty_axes")
	var axes []int
	first := m.r.IntN(len(shape) + 1)
	for a := range shape {
		if a >= first || m.chance(3) {
			axes = append(axes, a-pick(m, 0, len(shape)))
		}
	}
	if len(axes) > 0 {
		c.ints("axes", axes...)
	}
	return one(c.one())
}
