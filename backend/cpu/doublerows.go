package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Softmax, normalisation and reductions of float64, but for ReduceProd, which is plain.

func planDoubleSoftmax(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.Dims[x.ID]
	axis := axisOf(n, -1, len(d))
	to := min(axis+1, len(d))
	if n.Op.Since < 13 { // everything from the axis on is one row
		axis, to = axisOf(n, 1, len(d)), len(d)
	}
	p.softmaxDoubles(p.In(x), p.Out(y), []int{product(d[:axis]), product(d[axis:to]), product(d[to:])}, n.Is("LogSoftmax"))
	return nil
}

// softmaxDoubles emits the softmax of float64 [outer, columns, inner] over columns, or its logarithms.
func (p *planner) softmaxDoubles(src, dst place.Memory, d []int, logarithm bool) {
	outer, cols, inner := d[0], d[1], d[2]
	t, kernels, made := place.Nowhere, p.doubles(), dst
	if inner != 1 { // the axis last
		t = p.Temp(8 * product(d))
		p.permute([]int{outer, cols, inner}, []int{0, 2, 1}, 8, src, t)
		src, made = t, t
	}
	p.emit(step{chunks: outer * inner, grain: grainFor(float64(cols)*1.2 + 20), body: func(st *state, _, lo, hi int) {
		o, s := f64(st, made), f64(st, src)
		kernels.Softmaxes(o[lo*cols:hi*cols], s[lo*cols:hi*cols], cols, logarithm)
	}}, []place.Memory{src}, []place.Memory{made})
	if inner != 1 {
		p.permute([]int{outer, inner, cols}, []int{0, 2, 1}, 8, t, dst)
	}
}

// doubleNormSignatures is layerNormSignatures for float64.
func doubleNormSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	for _, o := range n.Outputs[1:] {
		if o != nil && (o.NumUses() > 0 || o.IsOutput()) {
			return nil, property.Because(property.Unsupported, "mean or inverse deviation as an output")
		}
	}
	if microsoft.SpreadsScale(n) {
		return nil, property.Because(property.ShapeReason, "a scale that is spread over rows")
	}
	return operators.RowMajor(n), nil
}

func planDoubleNorm(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.Dims[x.ID]
	axis := axisOf(n, -1, len(d))
	rows, cols, eps := product(d[:axis]), product(d[axis:]), float64(n.Float("epsilon", 1e-5))
	src, gamma, beta, dst, kernels, rms := p.In(x), p.In(n.Input(1)), p.In(n.Input(2)), p.Out(y), p.doubles(), n.Is("RMSNormalization")
	for _, m := range []place.Memory{gamma, beta} {
		if m.Slot >= 0 && m.Size != 8*cols {
			return property.Because(property.ShapeReason, "scale of %d bytes for rows of %d", m.Size, cols)
		}
	}
	for _, o := range n.Outputs[1:] {
		if o != nil {
			p.Out(o)
		}
	}
	p.emit(step{chunks: rows, grain: grainFor(float64(cols)*0.5 + 20), body: func(st *state, _, lo, hi int) {
		o, s, g, b := f64(st, dst), f64(st, src), f64(st, gamma), f64(st, beta)
		for i := lo; i < hi; i++ {
			kernels.Norm(rms, o[i*cols:(i+1)*cols], s[i*cols:(i+1)*cols], g, b, eps)
		}
	}}, []place.Memory{src, gamma, beta}, []place.Memory{dst})
	return nil
}

// planDoubleGroupNorm emits a normalisation over groups of channels: of each group as one row, and then scale and bias of its channels.
func planDoubleGroupNorm(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	d := p.Dims[x.ID]
	if d[1] == 0 {
		return nil
	}
	groups, plane := groupsOf(n, d[1]), product(d[2:])
	per := d[1] / groups
	perGroup := n.Is("GroupNormalization") && n.Op.Since < 21 // scales belong to groups
	scales := per
	if perGroup {
		scales = 1
	}
	if err := p.fitsGroups(n, n.Inputs, groups, scales); err != nil {
		return err
	}
	eps, kernels := float64(n.Float("epsilon", 1e-5)), p.doubles()
	src, gamma, beta, dst := p.In(x), p.In(n.Inputs[1]), p.In(n.Inputs[2]), p.Out(n.Outputs[0])
	p.emit(step{chunks: d[0] * groups, grain: grainFor(float64(per*plane)*0.6 + 20), body: func(st *state, _, lo, hi int) {
		o, s, g, b := f64(st, dst), f64(st, src), f64(st, gamma), f64(st, beta)
		for i := lo; i < hi; i++ {
			whole := o[i*per*plane : (i+1)*per*plane]
			kernels.Norm(false, whole, s[i*per*plane:(i+1)*per*plane], nil, nil, eps)
			for k := range per {
				at, row := i%groups*per+k, whole[k*plane:(k+1)*plane]
				if perGroup {
					at = i % groups
				}
				kernels.Scale(row, row, g[at])
				kernels.Binary(double.Add, double.VS, row, row, b[at:])
			}
		}
	}}, []place.Memory{src, gamma, beta}, []place.Memory{dst})
	return nil
}

// doubleReduction is how a row is reduced to one number, and what is done with those of rows of count elements, nil for nothing.
type doubleReduction struct {
	op    double.ReduceOp
	after func(k double.Kernels, x []float64, count int)
}

var doubleReductions = map[string]doubleReduction{
	"ReduceSum": {op: double.Sum},
	"ReduceMean": {op: double.Sum, after: func(k double.Kernels, x []float64, count int) {
		by := [1]float64{float64(count)}
		k.Binary(double.Div, double.VS, x, x, by[:])
	}},
	"ReduceMax":       {op: double.Greatest},
	"ReduceMin":       {op: double.Least},
	"ReduceSumSquare": {op: double.SumSquares},
	"ReduceL1":        {op: double.SumAbs},
	"ReduceL2":        {op: double.SumSquares, after: func(k double.Kernels, x []float64, _ int) { k.Apply(double.Sqrt, x, x) }},
	"ReduceLogSum":    {op: double.Sum, after: func(k double.Kernels, x []float64, _ int) { k.Apply(double.Log, x, x) }},
}

func doubleReduceSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := unknownAxes(n); why != nil && !chooses(n) {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

// planDoubleLogSumExp emits ln Σ e^x: the axes last, row by row.
func planDoubleLogSumExp(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	axes, err := p.reduceAxes(n)
	if err != nil {
		return err
	}
	l := p.reduced(p.Dims[x.ID], axes, 8, p.In(x))
	if l.inner != 1 {
		t := p.Temp(p.Bytes(x))
		p.permute([]int{l.outer, l.count, l.inner}, []int{0, 2, 1}, 8, l.src, t)
		l = reducedPlace{src: t, outer: l.outer * l.inner, count: l.count, inner: 1}
	}
	dst, kernels := p.Out(n.Outputs[0]), p.doubles()
	p.emit(step{chunks: l.outer, grain: grainFor(float64(l.count)*1.2 + 20), body: func(st *state, _, lo, hi int) {
		o, s := f64(st, dst), f64(st, l.src)
		kernels.LogSumExps(o[lo:hi], s[lo*l.count:hi*l.count], l.count)
	}}, []place.Memory{l.src}, []place.Memory{dst})
	return nil
}

func planDoubleReduce(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	axes, err := p.reduceAxes(n)
	if err != nil {
		return err
	}
	l := p.reduced(p.Dims[x.ID], axes, 8, p.In(x))
	p.doubleReduce(doubleReductions[n.Op.Name], l, p.Out(n.Outputs[0]))
	return nil
}

// doubleReduce emits a reduction: of rows, or of columns in pieces.
func (p *planner) doubleReduce(r doubleReduction, l reducedPlace, dst place.Memory) {
	kernels := p.doubles()
	if l.inner == 1 {
		p.emit(step{chunks: l.outer, grain: grainFor(float64(l.count)*0.3 + 10), body: func(st *state, _, lo, hi int) {
			o, s := f64(st, dst), f64(st, l.src)
			r.rows(kernels, o[lo:hi], s[lo*l.count:], l.count)
		}}, []place.Memory{l.src}, []place.Memory{dst})
		return
	}
	wide := doubleScratch
	if r.op == double.Sum || r.op == double.Greatest || r.op == double.Least { // which need no scratch memory
		wide = doubleColumns
	}
	pieces := ceilDiv(l.inner, wide)
	p.emit(step{chunks: l.outer * pieces, grain: grainFor(float64(l.count*min(l.inner, wide))*0.2 + 10), body: func(st *state, _, lo, hi int) {
		o, s := f64(st, dst), f64(st, l.src)
		for c := lo; c < hi; c++ {
			i, from := c/pieces, c%pieces*wide
			to := min(from+wide, l.inner)
			r.columns(kernels, o[i*l.inner+from:i*l.inner+to], s[i*l.count*l.inner+from:], l.count, l.inner)
		}
	}}, []place.Memory{l.src}, []place.Memory{dst})
}

// Up to how many elements of a row loops take less than a call of a kernel: those for extremes wait for NaN.
const (
	shortSums     = 20
	shortExtremes = 10
)

// rows reduces rows of count elements, one behind the other.
func (r *doubleReduction) rows(k double.Kernels, d, s []float64, count int) {
	short := shortSums
	if r.op == double.Greatest || r.op == double.Least {
		short = shortExtremes
	}
	if count > 0 && count <= short {
		r.shortRows(d, s, count)
	} else {
		for i := range d {
			d[i] = k.Reduce(r.op, s[i*count:(i+1)*count])
		}
	}
	if r.after != nil {
		r.after(k, d, count)
	}
}

// shortRows is rows of one element or more, without what is done after it: four at a time, whose operations wait for each other in no row but their own.
func (r *doubleReduction) shortRows(d, s []float64, count int) {
	i := 0
	for ; i+4 <= len(d); i += 4 {
		r.fourRows((*[4]float64)(d[i:]), s[i*count:], count)
	}
	for ; i < len(d); i++ {
		row := s[i*count:][:count]
		v := r.first(row[0])
		for _, x := range row[1:] {
			switch r.op {
			case double.Sum:
				v += x
			case double.SumSquares:
				v += float64(x * x)
			case double.SumAbs:
				v += math.Abs(x)
			case double.Greatest:
				v = max(v, x)
			case double.Least:
				v = min(v, x)
			}
		}
		d[i] = v
	}
}

// first is what a row of one element is reduced to.
func (r *doubleReduction) first(x float64) float64 {
	switch r.op {
	case double.SumSquares:
		return x * x
	case double.SumAbs:
		return math.Abs(x)
	default:
		return x
	}
}

// fourRows is shortRows of four, in the same order.
func (r *doubleReduction) fourRows(d *[4]float64, s []float64, count int) {
	a, b, c, e := s[:count], s[count:][:count], s[2*count:][:count], s[3*count:][:count]
	v, w, x, y := r.first(a[0]), r.first(b[0]), r.first(c[0]), r.first(e[0])
	switch r.op {
	case double.Sum:
		for i := 1; i < len(a) && i < len(b) && i < len(c) && i < len(e); i++ {
			v, w, x, y = v+a[i], w+b[i], x+c[i], y+e[i]
		}
	case double.SumSquares:
		for i := 1; i < len(a) && i < len(b) && i < len(c) && i < len(e); i++ {
			v, w, x, y = v+float64(a[i]*a[i]), w+float64(b[i]*b[i]), x+float64(c[i]*c[i]), y+float64(e[i]*e[i])
		}
	case double.SumAbs:
		for i := 1; i < len(a) && i < len(b) && i < len(c) && i < len(e); i++ {
			v, w, x, y = v+math.Abs(a[i]), w+math.Abs(b[i]), x+math.Abs(c[i]), y+math.Abs(e[i])
		}
	case double.Greatest:
		for i := 1; i < len(a) && i < len(b) && i < len(c) && i < len(e); i++ {
			v, w, x, y = max(v, a[i]), max(w, b[i]), max(x, c[i]), max(y, e[i])
		}
	case double.Least:
		for i := 1; i < len(a) && i < len(b) && i < len(c) && i < len(e); i++ {
			v, w, x, y = min(v, a[i]), min(w, b[i]), min(x, c[i]), min(y, e[i])
		}
	}
	d[0], d[1], d[2], d[3] = v, w, x, y
}

// doubleColumns is how many columns are reduced at a time where rows are taken as they are: their results stay in the first cache.
const doubleColumns = 1024

// columns reduces count rows, ld apart, to one: of at most doubleScratch elements, where it makes others of theirs first.
func (r *doubleReduction) columns(k double.Kernels, d, s []float64, count, ld int) {
	var scratch [doubleScratch]float64
	join := double.Add
	switch r.op {
	case double.Greatest:
		join = double.Max
	case double.Least:
		join = double.Min
	default:
	}
	for i := range count {
		row, part := s[i*ld:][:len(d)], scratch[:min(len(d), len(scratch))]
		switch r.op {
		case double.SumSquares:
			k.Binary(double.Mul, double.VV, part, row, row)
			row = part
		case double.SumAbs:
			k.Apply(double.Abs, part, row)
			row = part
		default:
		}
		if i == 0 {
			copy(d, row)
			continue
		}
		k.Binary(join, double.VV, d, d, row)
	}
	if r.after != nil {
		r.after(k, d, count)
	}
}

func init() {
	registerDoubles(operator{Settle: overFirst, Plan: planDoubleSoftmax}, 0, "Softmax", "LogSoftmax")
	registerDoubles(operator{Signatures: doubleNormSignatures, Settle: overFirst, Plan: planDoubleNorm}, 0, "LayerNormalization", "RMSNormalization")
	registerDoubles(operator{Signatures: normalisedGroups, Settle: overFirst, Plan: planDoubleGroupNorm}, 0, "InstanceNormalization", "GroupNormalization")
	registerDoubles(operator{Signatures: doubleReduceSignatures, Plan: whereEmpty(planDoubleLogSumExp)}, 1, "ReduceLogSumExp")
	for name := range doubleReductions {
		registerDoubles(operator{Signatures: doubleReduceSignatures, Plan: whereEmpty(planDoubleReduce)}, 1, name)
	}
}
