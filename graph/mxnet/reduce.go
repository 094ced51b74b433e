package mxnet

import (
	"math"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

func reduceOperators() map[string]operator {
	table := map[string]operator{}
	reduction := func(onnx string) operator {
		return single(func(o *op) *graph.Value { return o.reduced(onnx, o.reducedInput()) })
	}
	named(table, reduction("ReduceSum"), "sum", "sum_axis", "_np_sum", "_npi_sum")
	named(table, reduction("ReduceMean"), "mean", "_npi_mean")
	named(table, reduction("ReduceProd"), "prod", "_np_prod", "_np_product", "_npi_prod")
	named(table, reduction("ReduceMax"), "max", "max_axis", "_np_max", "_np_amax", "_npi_max")
	named(table, reduction("ReduceMin"), "min", "min_axis", "_np_min", "_np_amin", "_npi_min")
	for name, x := range map[string]struct {
		onnx string
		v    float64
	}{"nansum": {"ReduceSum", 0}, "nanprod": {"ReduceProd", 1}} {
		named(table, single(func(o *op) *graph.Value {
			in := o.reducedInput()
			return o.reduced(x.onnx, o.call("Where", nil, o.call("IsNaN", nil, in), o.like(in, x.v), in))
		}), name)
	}
	named(table, single(func(o *op) *graph.Value { return o.reduced("ReduceSumSquare", o.reducedInput()) }), "_square_sum")
	named(table, single(norm), "norm")
	named(table, operator{do: moments}, "moments")
	named(table, operator{do: variance}, "_npi_std", "_npi_var")
	named(table, single(cumulative), "cumsum", "_np_cumsum", "_npi_cumsum")
	for name, onnx := range map[string]string{"_npi_any": "ReduceMax", "_npi_all": "ReduceMin", "_np_any": "ReduceMax", "_np_sometrue": "ReduceMax", "_np_all": "ReduceMin"} {
		named(table, single(func(o *op) *graph.Value {
			return o.cast(o.reduced(onnx, o.cast(o.truth(o.reducedInput()), tensor.Int32)), tensor.Bool)
		}), name)
	}
	return table
}

// reducedInput is the operand of a reduction, cast where the attribute dtype says so.
func (o *op) reducedInput() *graph.Value {
	o.inputs(1, 1)
	o.ignore("safe_acc")
	o.text("initial", "None", "None")
	x := o.input(0)
	if dt := o.dtype("dtype", tensor.Invalid); dt != tensor.Invalid {
		return o.cast(x, dt)
	}
	if o.kind == "_npi_mean" {
		return o.floating(x)
	}
	return x
}

// reducedAxes reads the attributes axis and exclude: the axes that go, all of them where none are named.
func (o *op) reducedAxes(x *graph.Value, key string) (axes []int, all bool) {
	list, _ := o.list(key)
	exclude := o.flag("exclude", false)
	if len(list) == 0 {
		return nil, !exclude
	}
	rank := o.rank(x)
	for i := range list {
		list[i] = o.axisOf(list[i], rank)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if exclude {
		for i := range rank {
			if !slices.Contains(list, i) {
				axes = append(axes, i)
			}
		}
		return axes, len(axes) == rank
	}
	return list, len(list) == rank
}

// reduced reduces as the attributes axis, keepdims and exclude say.
func (o *op) reduced(name string, x *graph.Value) *graph.Value {
	axes, all := o.reducedAxes(x, "axis")
	keep := o.flag("keepdims", false)
	if !all && len(axes) == 0 {
		return x
	}
	return o.legacyScalar(o.reduce(name, x, keep, axes...), all && !keep)
}

// legacyScalar makes a scalar a vector of one element but under NumPy's names, whatever shapes the symbol follows.
func (o *op) legacyScalar(y *graph.Value, scalar bool) *graph.Value {
	if scalar && !o.scalarResult() {
		return o.unsqueeze(y, 0)
	}
	return y
}

func (o *op) scalarResult() bool {
	return o.sym.NumPy && (strings.HasPrefix(o.kind, "_np_") || strings.HasPrefix(o.kind, "_npi_"))
}

// shapeScalar makes a scalar a vector of one element where the symbol does not follow NumPy's shapes.
func (o *op) shapeScalar(y *graph.Value, scalar bool) *graph.Value {
	if scalar && !o.sym.NumPy {
		return o.unsqueeze(y, 0)
	}
	return y
}

func norm(o *op) *graph.Value {
	name := "ReduceL2"
	switch n := o.integer("ord", 2); n {
	case 1:
		name = "ReduceL1"
	case 2:
	default:
		o.fail(ErrAttribute, "ord: 1 or 2 is expected, found %d", n)
	}
	if text, ok := o.n.Attr("out_dtype"); ok && text != "None" {
		x := o.cast(o.input(0), o.dtype("out_dtype", tensor.Float32))
		return o.reduced(name, x)
	}
	o.ignore("out_dtype")
	return o.reduced(name, o.reducedInput())
}

// spread returns the mean of the squares of what x differs from its mean, divided by n-ddof.
func (o *op) spread(x *graph.Value, axes []int, all, keep bool, ddof int) (mean, variance *graph.Value) {
	inner := o.reduce("ReduceMean", x, true, axes...)
	d := o.call("Sub", nil, x, inner)
	variance = o.reduce("ReduceMean", o.call("Mul", nil, d, d), keep, axes...)
	if ddof != 0 {
		n := 1
		if all {
			axes = axesFrom(0, o.rank(x))
		}
		for _, a := range axes {
			n *= o.static(x, a)
		}
		o.require(n != ddof, "ddof is the number of elements")
		variance = o.times(variance, float64(n)/float64(n-ddof))
	}
	if keep {
		return inner, variance
	}
	return o.reduce("ReduceMean", x, false, axes...), variance
}

func moments(o *op) []*graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	axes, all := o.reducedAxes(x, "axes")
	keep := o.flag("keepdims", false)
	mean, v := o.spread(x, axes, all, keep, 0)
	if keep && !o.used(0) { // then MXNet does not compute the mean, and subtracts what its memory holds: 0 in a fresh process
		v = o.reduce("ReduceMean", o.call("Mul", nil, x, x), true, axes...)
	}
	return []*graph.Value{o.legacyScalar(mean, all && !keep), o.legacyScalar(v, all && !keep)}
}

func variance(o *op) []*graph.Value {
	x := o.floating(o.reducedInput())
	axes, all := o.reducedAxes(x, "axis")
	keep := o.flag("keepdims", false)
	_, v := o.spread(x, axes, all, keep, o.integer("ddof", 0))
	if o.kind == "_npi_std" {
		v = o.call("Sqrt", nil, v)
	}
	return []*graph.Value{v, nil}
}

func cumulative(o *op) *graph.Value {
	x := o.reducedInput()
	axis, ok := o.optional("axis")
	if !ok {
		x = o.reshape(x, rest)
	}
	return o.call("CumSum", nil, x, o.scalar(tensor.Int64, float64(axis)))
}

// creationOperators make tensors of attributes, or of other tensors' shapes.
func creationOperators() map[string]operator {
	table := map[string]operator{}
	constant := func(v float64) operator {
		return single(func(o *op) *graph.Value { return o.filledShape(v) })
	}
	named(table, constant(0), "_zeros", "_npi_zeros", "zeros")
	named(table, constant(1), "_ones", "_npi_ones", "ones")
	named(table, single(func(o *op) *graph.Value { return o.filledShape(o.typed("", "_value", "value")) }), "_full", "full", "_npi_full")
	like := func(v float64) operator {
		return single(func(o *op) *graph.Value {
			o.inputs(1, 1)
			o.ignore("ctx")
			return o.fill(o.input(0), o.dtype("dtype", o.typeOf(o.input(0))), v)
		})
	}
	named(table, like(0), "zeros_like", "_npi_zeros_like", "_np_zeros_like")
	named(table, like(1), "ones_like", "_npi_ones_like", "_np_ones_like")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		o.ignore("ctx")
		return o.fill(o.input(0), o.dtype("dtype", o.typeOf(o.input(0))), o.requiredNumber("fill_value"))
	}), "_npi_full_like", "full_like")
	named(table, single(arange), "_arange", "_npi_arange")
	named(table, single(linspace), "_linspace", "_npi_linspace")
	named(table, single(eye), "_eye", "_npi_eye", "_npi_identity")
	named(table, single(arangeLike), "_contrib_arange_like", "_npx_arange_like")
	named(table, single(indexArray), "_contrib_index_array", "_npx_index_array")
	return table
}

// zeros makes a tensor of a shape that is known, all elements v.
func (o *op) zeros(dt tensor.DType, shape []int, v float64) *graph.Value {
	for _, d := range shape {
		o.require(d >= 0, "a dim of %d", d)
	}
	t, err := tensor.New(dt, 1)
	if err == nil {
		err = tensor.Encode(t, []float64{v})
	}
	if err != nil {
		o.fail(ErrTooLarge, "%v", err)
	}
	return o.call("ConstantOfShape", attrs(graph.TensorAttr("value", t)), o.ints(ints64(shape)...))
}

// filledShape is a tensor of the attribute shape. Where NumPy's rules are off, a dim of 0 is one that MXNet finds by looking at
// the readers: 1 stands for it, which broadcasts, and recurrent layers know what it means.
func (o *op) filledShape(v float64) *graph.Value {
	o.inputs(0, 0)
	o.ignore("ctx")
	dt := o.dtype("dtype", tensor.Float32)
	shape, _ := o.list("shape")
	open := false
	if !o.sym.NumPy {
		for i, d := range shape {
			if d == 0 {
				shape[i], open = 1, true
			}
		}
	}
	y := o.zeros(dt, shape, v)
	if open {
		o.t.open[y] = true
	}
	return y
}

// typed reads a number that MXNet 2 writes as one of three, of which value_type says which, as in int_value, uint_value and
// double_value, and versions before under the key old.
func (o *op) typed(before, after, old string) float64 {
	if _, ok := o.n.Attr("value_type"); !ok {
		return o.requiredNumber(old)
	}
	kinds := []string{"int", "uint", "double"}
	kind := o.required("value_type")
	o.require(kind >= 0 && kind < len(kinds), "value_type is %d", kind)
	for _, k := range kinds {
		o.ignore(before + k + after)
	}
	return o.requiredNumber(before + kinds[kind] + after)
}

// maxRange bounds the elements of what is counted up.
const maxRange = 1 << 24

func arange(o *op) *graph.Value {
	o.inputs(0, 0)
	o.ignore("ctx", "infer_range")
	start, step, repeats := o.number("start", 0), o.number("step", 1), o.integer("repeat", 1)
	dt := o.dtype("dtype", tensor.Float32)
	stop := start
	if text := o.value("stop"); text != "" {
		stop = o.number("stop", 0)
	} else {
		start = 0
	}
	n := math.Ceil((stop - start) / step)
	o.require(step != 0 && repeats >= 1 && n >= 0 && n*float64(repeats) <= maxRange, "from %v to %v by %v, %d times", start, stop, step, repeats)
	out := make([]float64, 0, int(n)*repeats)
	for i := range int(n) {
		for range repeats {
			out = append(out, start+float64(i)*step)
		}
	}
	return o.values(dt, out, len(out))
}

func linspace(o *op) *graph.Value {
	o.inputs(0, 0)
	o.ignore("ctx", "infer_range", "repeat")
	start, stop, n := 0.0, o.typed("stop_", "", "stop"), o.required("num")
	if _, ok := o.n.Attr("value_type"); ok {
		start = o.typed("start_", "", "start")
	} else {
		start = o.number("start", 0)
	}
	endpoint := o.flag("endpoint", true)
	dt := o.dtype("dtype", tensor.Float32)
	o.ignore("step")
	o.require(n >= 0 && n <= maxRange, "%d numbers", n)
	parts := n
	if endpoint {
		parts--
	}
	return o.values(dt, spaced(start, stop, n, parts), n)
}

// spaced returns n numbers with equal distances, so many of which lie between start and stop.
func spaced(start, stop float64, n, parts int) []float64 {
	out := make([]float64, n)
	for i := range out {
		if out[i] = start; i > 0 {
			out[i] = start + float64(i)*(stop-start)/float64(parts)
		}
	}
	return out
}

func eye(o *op) *graph.Value {
	o.inputs(0, 0)
	o.ignore("ctx")
	dt := o.dtype("dtype", tensor.Float32)
	rows, k := 0, o.integer("k", 0)
	if o.kind == "_npi_identity" {
		shape, _ := o.list("shape")
		o.require(len(shape) == 2 && shape[0] == shape[1], "shape %v", shape)
		rows = shape[0]
	} else {
		rows = o.required("N")
	}
	columns := o.integer("M", 0)
	if columns == 0 {
		columns = rows
	}
	o.require(rows >= 0 && columns >= 0 && int64(rows)*int64(columns) <= maxRange, "%d by %d elements", rows, columns)
	return o.values(dt, eyeOf(rows, columns, k), rows, columns)
}

func eyeOf(rows, columns, k int) []float64 {
	out := make([]float64, rows*columns)
	for i := range rows {
		if j := i + k; j >= 0 && j < columns {
			out[i*columns+j] = 1
		}
	}
	return out
}

// arangeLike counts up along an axis, or over all elements; each number comes so many times.
func arangeLike(o *op) *graph.Value {
	o.inputs(1, 1)
	o.ignore("ctx")
	x := o.input(0)
	start, step, repeats := o.number("start", 0), o.number("step", 1), o.integer("repeat", 1)
	o.require(repeats >= 1, "repeat of %d", repeats)
	dt := tensor.Float32
	if o.typeOf(x).IsFloat() {
		dt = o.typeOf(x)
	}
	scaled := func(i *graph.Value) *graph.Value {
		if repeats != 1 {
			i = o.call("Div", nil, i, o.scalar(tensor.Int64, float64(repeats)))
		}
		y := o.cast(i, dt)
		if step != 1 {
			y = o.times(y, step)
		}
		if start != 0 {
			y = o.plus(y, start)
		}
		return y
	}
	if axis, ok := o.optional("axis"); ok {
		return scaled(o.positions(o.dim(x, o.axisOf(axis, o.rank(x)))))
	}
	dims := o.dims(x)
	n := fixed(1)
	for _, d := range dims {
		n = o.mul(n, d)
	}
	return o.reshape(scaled(o.positions(n)), dims...)
}

// indexArray is the places of all elements: for each, its numbers along the axes.
func indexArray(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	rank := o.rank(x)
	axes, ok := o.list("axes")
	if !ok {
		axes = axesFrom(0, rank)
	}
	shape := o.call("Shape", nil, x)
	parts := make([]*graph.Value, len(axes))
	for i, a := range axes {
		a = o.axisOf(a, rank)
		list := slices.Repeat([]extent{fixed(1)}, rank)
		list[a] = rest
		parts[i] = o.unsqueeze(o.call("Expand", nil, o.reshape(o.positions(o.dim(x, a)), list...), shape), rank)
	}
	o.require(len(parts) > 0, "no axes")
	return o.concat(rank, parts...)
}
