package mxnet

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// quantisedOperators become QuantizeLinear and DequantizeLinear around the operators on real numbers, the form in which backends
// find what they run on integers. A 32-bit result that is quantised again is kept as the numbers that it stands for.
func quantisedOperators() map[string]operator {
	table := map[string]operator{}
	named(table, operator{do: quantize}, "_contrib_quantize_v2", "_contrib_quantize")
	named(table, single(dequantize), "_contrib_dequantize")
	requantized := operator{do: requantize, takesReal: true}
	named(table, requantized, "_contrib_requantize")
	deq := table["_contrib_dequantize"]
	deq.takesReal = true
	table["_contrib_dequantize"] = deq
	named(table, operator{do: func(o *op) []*graph.Value { return o.quantizedLayer(convolution) }}, "_contrib_quantized_conv")
	named(table, operator{do: func(o *op) []*graph.Value { return o.quantizedLayer(fullyConnected) }}, "_contrib_quantized_fully_connected")
	named(table, operator{do: func(o *op) []*graph.Value { return o.onReal(func(x *graph.Value) *graph.Value { return o.pool(x) }) }}, "_contrib_quantized_pooling")
	named(table, operator{do: func(o *op) []*graph.Value {
		return o.onReal(func(x *graph.Value) *graph.Value { return o.call("Flatten", nil, x) })
	}}, "_contrib_quantized_flatten")
	named(table, operator{do: func(o *op) []*graph.Value { return o.onReal(o.permuted) }}, "_npx_quantized_transpose")
	named(table, operator{do: func(o *op) []*graph.Value { return o.onReal(o.reshapedByCodes) }}, "_npx_quantized_reshape")
	named(table, operator{do: func(o *op) []*graph.Value {
		return o.onReal(func(x *graph.Value) *graph.Value { return o.activate(x, o.text("act_type", "relu", "relu")) })
	}}, "_contrib_quantized_act")
	named(table, operator{do: quantizedConcat}, "_contrib_quantized_concat")
	named(table, operator{do: func(o *op) []*graph.Value { return o.quantizedPair("Add") }}, "_contrib_quantized_elemwise_add")
	named(table, operator{do: func(o *op) []*graph.Value { return o.quantizedPair("Mul") }}, "_contrib_quantized_elemwise_mul")
	named(table, operator{do: quantizedNorm}, "_contrib_quantized_batch_norm")
	named(table, operator{do: quantizedEmbedding}, "_contrib_quantized_embedding")
	named(table, operator{do: quantizeAsymmetric}, "_contrib_quantize_asym")
	named(table, operator{do: quantizedRecurrent}, "_contrib_quantized_rnn")
	named(table, operator{do: fusedConvolution}, "_sg_mkldnn_conv", "_sg_onednn_conv")
	named(table, operator{do: fusedConnected}, "_sg_mkldnn_fully_connected", "_sg_onednn_fully_connected")
	return table
}

// bound returns the number that a constant operand holds: an end of a range.
func (o *op) bound(i int) float64 {
	v := o.input(i)
	if v.Const == nil || v.Const.Len() != 1 {
		o.fail(ErrUnsupported, "input %d is a range that only a run knows: calibrate the model", i)
	}
	return v.Const.Float64At(0)
}

// ends adds the constants that an operator gives as the ends of its result's range.
func (o *op) ends(lo, hi float64) (a, b *graph.Value) {
	return o.values(tensor.Float32, []float64{lo}, 1), o.values(tensor.Float32, []float64{hi}, 1)
}

// scaleOf returns what one step of an integer type stands for: int8 has 127 of them on each side, uint8 255 above 0.
func (o *op) scaleOf(dt tensor.DType, lo, hi float64) *graph.Value {
	m := math.Max(math.Abs(lo), math.Abs(hi))
	switch dt {
	case tensor.Uint8:
		m = hi / 255
		if lo < 0 {
			o.fail(ErrUnsupported, "a range of unsigned integers from %v", lo)
		}
	case tensor.Int8:
		m /= 127
	default:
		m /= math.MaxInt32
	}
	if !(m > 0) || math.IsInf(m, 0) {
		m = 1e-30 // everything is 0
	}
	return o.scalar(tensor.Float32, m)
}

// toIntegers quantises x to the range; toReal is the other way.
func (o *op) toIntegers(x *graph.Value, dt tensor.DType, lo, hi float64) *graph.Value {
	return o.call("QuantizeLinear", nil, x, o.scaleOf(dt, lo, hi), o.scalar(dt, 0))
}

func (o *op) toReal(x *graph.Value, lo, hi float64) *graph.Value {
	if o.t.real[x] {
		return x
	}
	return o.call("DequantizeLinear", nil, x, o.scaleOf(o.typeOf(x), lo, hi), o.scalar(o.typeOf(x), 0))
}

// calibrated reads the range that calibration found.
func (o *op) calibrated() (lo, hi float64) {
	if o.value("min_calib_range") == "" || o.value("max_calib_range") == "" {
		o.fail(ErrUnsupported, "it has no calibrated range")
	}
	return o.number("min_calib_range", 0), o.number("max_calib_range", 0)
}

// integerType reads out_type; auto is uint8 where the range has nothing below 0.
func (o *op) integerType(lo float64, def string) tensor.DType {
	switch o.text("out_type", def, "auto", "int8", "uint8") {
	case "int8":
		return tensor.Int8
	case "uint8":
		return tensor.Uint8
	}
	if lo >= 0 {
		return tensor.Uint8
	}
	return tensor.Int8
}

func quantize(o *op) []*graph.Value {
	var lo, hi float64
	def := "int8"
	if o.kind == "_contrib_quantize" {
		o.inputs(3, 3)
		lo, hi = o.bound(1), o.bound(2)
		def = "uint8"
	} else {
		o.inputs(1, 1)
		lo, hi = o.calibrated()
	}
	dt := o.integerType(lo, def)
	return o.integers(o.input(0), dt, lo, hi)
}

// quantizeAsymmetric spreads a range over unsigned integers, its least number at 0: real·scale + shift, of which both are results. Where
// the range was not calibrated it is that of the numbers.
func quantizeAsymmetric(o *op) []*graph.Value {
	o.inputs(1, 1)
	x := o.floating(o.input(0))
	o.ignore("min_calib_range", "max_calib_range")
	one := func(v float64) *graph.Value { return o.values(o.typeOf(x), []float64{v}, 1) }
	var scale, shift *graph.Value
	if o.value("min_calib_range") != "" && o.value("max_calib_range") != "" {
		lo, hi := o.calibrated()
		o.require(hi > lo, "a range from %v to %v", lo, hi)
		step := float32(255 / float64(float32(hi)-float32(lo)))
		scale, shift = one(float64(step)), one(float64(255-float32(hi)*step))
	} else {
		extreme := func(name string) *graph.Value { return o.reshape(o.reduce(name, x, false), fixed(1)) }
		hi := extreme("ReduceMax")
		scale = o.call("Div", nil, one(255), o.call("Max", nil, o.minus(hi, extreme("ReduceMin")), one(1e-30)))
		shift = o.minus(one(255), o.call("Mul", nil, hi, scale))
	}
	y := o.call("Round", nil, o.call("Add", nil, o.call("Mul", nil, x, scale), shift))
	return []*graph.Value{o.cast(o.call("Clip", nil, y, o.like(y, 0), o.like(y, 255)), tensor.Uint8), scale, shift}
}

// quantizedRecurrent is an LSTM of unsigned integers: data, parameters and states as those of RNN, then scale and shift of the data. What
// the integers stand for goes through the layers in full precision, where MXNet rounds weights and states, too.
func quantizedRecurrent(o *op) []*graph.Value {
	o.inputs(6, 6)
	o.ignore("quantized")
	o.text("mode", "", "lstm")
	scale, shift := o.input(4), o.input(5)
	in := o.in
	o.in = append([]*graph.Value{o.call("Div", nil, o.minus(o.cast(o.input(0), o.typeOf(scale)), shift), scale)}, in[1:4]...)
	y := recurrent(o)
	o.in = in
	return y
}

func requantize(o *op) []*graph.Value {
	o.inputs(3, 3)
	lo, hi := o.calibrated()
	dt := o.integerType(lo, "int8")
	x := o.input(0)
	if !o.t.real[x] {
		x = o.toReal(x, o.bound(1), o.bound(2))
	}
	return o.integers(x, dt, lo, hi)
}

func dequantize(o *op) *graph.Value {
	o.inputs(3, 3)
	o.ignore("out_type")
	if x := o.input(0); o.t.real[x] {
		return o.call("Identity", nil, x)
	}
	return o.toReal(o.input(0), o.bound(1), o.bound(2))
}

// quantizedLayer is a layer on integers: data, weight, bias, then the ends of their ranges. Its result is in 32-bit integers.
func (o *op) quantizedLayer(layer func(*op) *graph.Value) []*graph.Value {
	parts := 3
	if o.flag("no_bias", false) {
		parts = 2
	}
	o.inputs(3*parts, 3*parts)
	in := o.in
	real := make([]*graph.Value, parts)
	for i := range real {
		real[i] = o.toReal(o.input(i), o.bound(parts+2*i), o.bound(parts+2*i+1))
	}
	o.in = real
	y := layer(o)
	o.in = in
	o.t.real[y] = true
	a, b := o.ends(-math.MaxFloat32, math.MaxFloat32)
	return []*graph.Value{y, a, b}
}

// onReal applies f to the numbers that integers stand for, and quantises the result as they were.
func (o *op) onReal(f func(*graph.Value) *graph.Value) []*graph.Value {
	o.inputs(3, 3)
	x, lo, hi := o.input(0), o.bound(1), o.bound(2)
	y := f(o.toReal(x, lo, hi))
	return o.integers(y, o.typeOf(x), lo, hi)
}

// quantizedConcat brings operands to the range that holds all of theirs.
func quantizedConcat(o *op) []*graph.Value {
	n := o.required("num_args")
	o.require(n > 0 && n <= maxParts, "%d operands", n)
	o.inputs(3*n, 3*n)
	lo, hi, dt := math.Inf(1), math.Inf(-1), tensor.Uint8
	xs := make([]*graph.Value, n)
	for i := range xs {
		a, b := o.bound(n+2*i), o.bound(n+2*i+1)
		lo, hi = math.Min(lo, a), math.Max(hi, b)
		if o.typeOf(o.input(i)) == tensor.Int8 {
			dt = tensor.Int8
		}
		xs[i] = o.toReal(o.input(i), a, b)
	}
	return o.integers(o.concat(o.integer("dim", 1), xs...), dt, lo, hi)
}

// integers quantises a result to a range, and gives its ends.
func (o *op) integers(y *graph.Value, dt tensor.DType, lo, hi float64) []*graph.Value {
	a, b := o.ends(lo, hi)
	return []*graph.Value{o.toIntegers(y, dt, lo, hi), a, b}
}

// quantizedPair applies an operator to two operands: data, data, then the ends of their ranges. Where it was calibrated the result is
// in 8-bit integers, unsigned ones for the sum of two that are, else in 32-bit ones.
func (o *op) quantizedPair(name string) []*graph.Value {
	o.inputs(6, 6)
	y := o.call(name, nil, o.toReal(o.input(0), o.bound(2), o.bound(3)), o.toReal(o.input(1), o.bound(4), o.bound(5)))
	if name == "Mul" && o.flag("enable_float_output", false) {
		o.ignore("min_calib_range", "max_calib_range")
		return []*graph.Value{y, nil, nil}
	}
	if o.value("min_calib_range") != "" && o.value("max_calib_range") != "" {
		lo, hi := o.calibrated()
		if name == "Add" && o.typeOf(o.input(0)) == tensor.Uint8 && o.typeOf(o.input(1)) == tensor.Uint8 {
			return o.integers(y, tensor.Uint8, 0, math.Max(math.Abs(lo), math.Abs(hi)))
		}
		return o.integers(y, tensor.Int8, lo, hi)
	}
	o.t.real[y] = true
	a, b := o.ends(-math.MaxFloat32, math.MaxFloat32)
	return []*graph.Value{y, a, b}
}

// quantizedNorm is a normalisation of integers: data, gamma, beta, mean, variance, then the ends of the data's range.
func quantizedNorm(o *op) []*graph.Value {
	o.inputs(7, 7)
	lo, hi := o.calibrated()
	in := o.in
	o.in = append([]*graph.Value{o.toReal(o.input(0), o.bound(5), o.bound(6))}, in[1:5]...)
	y := batchNorm(o)[0]
	o.in = in
	return o.integers(y, tensor.Int8, lo, hi)
}

// quantizedEmbedding takes rows of integers: numbers, weight, then the ends of the weight's range.
func quantizedEmbedding(o *op) []*graph.Value {
	o.inputs(4, 4)
	in := o.in
	o.in = in[:2]
	y := embedding(o)
	o.in = in
	a, b := o.ends(o.bound(2), o.bound(3))
	return []*graph.Value{y, a, b}
}

// fused translates the subgraph that a fused node stands for on real numbers. Its operands are those of the subgraph, integers
// among them, then the ends of the ranges of these.
func (o *op) fused() (y *graph.Value, quantized bool) {
	s, vars := o.subgraph(0, 1)
	quantized = o.flag("quantized", false)
	o.require(len(o.in) >= len(vars), "%d inputs for %d variables", len(o.in), len(vars))
	at := len(vars)
	values := make([]*graph.Value, len(vars))
	for i := range vars {
		v := o.input(i)
		if dt := o.typeOf(v); dt == tensor.Int8 || dt == tensor.Uint8 {
			o.require(at+1 < len(o.in), "the range of input %d is missing", i)
			v = o.toReal(v, o.bound(at), o.bound(at+1))
			at += 2
		}
		values[i] = v
	}
	o.require(at == len(o.in), "%d inputs are expected, found %d", at, len(o.in))
	in := o.t.scope(o.g, s, o.label+"/fused/")
	in.scalars = o.scalars
	for i, k := range vars {
		in.values[k] = []*graph.Value{values[i]}
	}
	if quantized {
		in.integerWeights(o)
	}
	out, err := in.run(s.Heads)
	if err != nil {
		panic(fault{err})
	}
	o.require(len(out) == 1, "a fused subgraph with %d results", len(out))
	return out[0], quantized
}

// integerWeights translates the convolution of a fused subgraph, and the normalisation behind it, with weights in 8-bit integers, a
// scale for each filter, as MXNet makes them when it runs: so that a backend finds a convolution of integers. Where weights are no
// constants everything stays as it is.
func (s *scope) integerWeights(o *op) {
	conv, norm := -1, -1
	for i := range s.sym.Nodes {
		switch n := &s.sym.Nodes[i]; {
		case n.Op == "Convolution" && conv < 0:
			conv = i
		case n.Op == "BatchNorm" && conv >= 0 && norm < 0 && len(n.Inputs) == 5 && n.Inputs[0].Node == conv:
			norm = i
		}
	}
	if conv < 0 {
		return
	}
	n := s.sym.Nodes[conv]
	data := func(e Entry) []float64 {
		v := s.values[e.Node]
		if v == nil || v[0].Const == nil || !v[0].Const.DType.IsFloat() {
			return nil
		}
		out := make([]float64, v[0].Const.Len())
		if tensor.Decode(out, v[0].Const) != nil {
			return nil
		}
		return out
	}
	if len(n.Inputs) < 2 || s.values[n.Inputs[0].Node] == nil || data(n.Inputs[1]) == nil {
		return
	}
	w, shape := data(n.Inputs[1]), s.values[n.Inputs[1].Node][0].Const.Shape
	if len(shape) < 3 || shape[0] == 0 || len(w) == 0 {
		return
	}
	bias := make([]float64, shape[0])
	if len(n.Inputs) > 2 {
		if b := data(n.Inputs[2]); len(b) == len(bias) {
			copy(bias, b)
		} else {
			return
		}
	}
	if norm >= 0 && !s.folded(&s.sym.Nodes[norm], data, w, bias) {
		return
	}
	scales := make([]float64, shape[0])
	row := len(w) / shape[0]
	for k := range scales {
		for _, x := range w[k*row : (k+1)*row] {
			scales[k] = math.Max(scales[k], math.Abs(x)/127)
		}
		if !(scales[k] > 0) {
			scales[k] = 1e-30
		}
		for i := range row {
			w[k*row+i] = math.RoundToEven(w[k*row+i] / scales[k])
		}
	}
	n.Attrs = append([]Pair{}, n.Attrs...)
	n.set("no_bias", "False")
	inner := &op{scope: s, n: &n, label: s.t.label(s.prefix + n.Name)}
	weight := inner.call("DequantizeLinear", attrs(graph.IntAttr("axis", 0)), inner.values(tensor.Int8, w, shape...),
		inner.values(tensor.Float32, scales, shape[0]))
	inner.in = []*graph.Value{s.values[n.Inputs[0].Node][0], weight, inner.values(tensor.Float32, bias, shape[0])}
	y := convolution(inner)
	if key, ok := inner.unread(); ok {
		o.fail(ErrAttribute, "%.80s is no attribute of %s", key, n.Op)
	}
	s.values[conv] = []*graph.Value{y}
	if norm >= 0 {
		s.values[norm] = []*graph.Value{y, nil, nil}
	}
}

// folded puts a normalisation into the weights and bias in front of it; false where its statistics are not known.
func (s *scope) folded(n *Node, data func(Entry) []float64, w, bias []float64) bool {
	o := &op{scope: s, n: n}
	eps, fixed := o.number("eps", 1e-3), o.flag("fix_gamma", true)
	gamma, beta, mean, variance := data(n.Inputs[1]), data(n.Inputs[2]), data(n.Inputs[3]), data(n.Inputs[4])
	for _, v := range [][]float64{gamma, beta, mean, variance} {
		if len(v) != len(bias) {
			return false
		}
	}
	if axis := o.integer("axis", 1); axis != 1 {
		return false
	}
	row := len(w) / len(bias)
	for k := range bias {
		g := gamma[k]
		if fixed {
			g = 1
		}
		f := g / math.Sqrt(variance[k]+eps)
		for i := range row {
			w[k*row+i] *= f
		}
		bias[k] = (bias[k]-mean[k])*f + beta[k]
	}
	return true
}

// fusedResult quantises the result of a fused node where it was calibrated.
func (o *op) fusedResult(y *graph.Value, quantized bool) []*graph.Value {
	float := o.flag("enable_float_output", false)
	if !quantized || float {
		o.ignore("min_calib_range", "max_calib_range")
		return []*graph.Value{y, nil, nil}
	}
	lo, hi := o.calibrated()
	dt := tensor.Int8
	if lo >= 0 {
		dt = tensor.Uint8
	}
	return o.integers(y, dt, lo, hi)
}

func fusedConvolution(o *op) []*graph.Value {
	o.ignore("with_bn", "with_act", "with_sum", "with_postsum_act", "dedup_subgraph")
	return o.fusedResult(o.fused())
}

func fusedConnected(o *op) []*graph.Value {
	o.ignore("with_eltwise", "with_sum", "channel_wise_quantize", "dedup_subgraph")
	return o.fusedResult(o.fused())
}
