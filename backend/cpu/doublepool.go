package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Pooling and batch normalisation of float64.

func doublePoolSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	rank := len(x.Type.Shape)
	if w, err := graph.PoolAttrs(n); err != nil || rank < 3 || rank > 5 || len(w.Kernel) != rank-2 {
		return nil, property.Because(property.ShapeReason, "windows over one to three axes only, %v is %v", x, x.Type)
	}
	return operators.RowMajor(n), nil
}

// poolAxis is an axis of a pooling.
type poolAxis struct{ in, out, kernel, stride, dilate, begin, end int }

// poolAxes returns the axes of a pooling, three of them: those that there are not have one element.
func poolAxes(w *graph.Window, in, out []int) [3]poolAxis {
	one := poolAxis{in: 1, out: 1, kernel: 1, stride: 1, dilate: 1}
	axes := [3]poolAxis{one, one, one}
	for i := range in {
		a := &axes[3-len(in)+i]
		*a = poolAxis{in: in[i], out: out[i], kernel: w.Kernel[i], stride: w.Strides[i], dilate: w.Dilations[i]}
		a.begin, a.end = w.Pads(i, in[i], out[i])
	}
	return axes
}

// window is what one result covers along the axis: [from, to) in steps of the dilation; so many of its elements lie in the padded source.
func (a *poolAxis) window(at int) (from, to, padded int) {
	from = at*a.stride - a.begin
	for k := range a.kernel {
		if from+k*a.dilate < a.in+a.end {
			padded++
		}
	}
	to = min(from+(a.kernel-1)*a.dilate+1, a.in)
	for from < 0 {
		from += a.dilate
	}
	return from, to, padded
}

// doublePool is a pooling of float64.
type doublePool struct {
	axes             [3]poolAxis
	average, include bool // padding counts
	kernels          double.Kernels
	taps             []doubleTap // along the last axis
	counts           []int       // elements along that axis of each window, those in padding included where they count
}

// doubleTap is what results [from, to) see of a row at a place of their window: elements from first on, a stride apart.
type doubleTap struct{ from, to, first int }

// alongRows finds the taps along the last axis, and what windows have along it.
func (l *doublePool) alongRows() {
	a := &l.axes[2]
	for k := range a.kernel {
		off := k*a.dilate - a.begin
		t := doubleTap{from: min(max(ceilDiv(-off, a.stride), 0), a.out)}
		t.to = max(t.from, min(a.out, ceilDiv(a.in-off, a.stride)))
		t.first = t.from*a.stride + off
		l.taps = append(l.taps, t)
	}
	for i := range a.out {
		l.counts = append(l.counts, a.count(i, l.include))
	}
}

// count is how many elements of the source a window has along the axis, or of the padded source where padding counts.
func (a *poolAxis) count(at int, padding bool) int {
	from, to, padded := a.window(at)
	if padding {
		return padded
	}
	return ceilDiv(max(to-from, 0), a.dilate)
}

// row writes a row of a channel's results.
func (l *doublePool) row(out, x []float64, z, y int) {
	a, op := &l.axes, double.Max
	z0, z1, _ := a[0].window(z)
	y0, y1, _ := a[1].window(y)
	setAll(out, math.Inf(-1))
	if l.average {
		clear(out)
		op = double.Add
	}
	for z := z0; z < z1; z += a[0].dilate {
		for y := y0; y < y1; y += a[1].dilate {
			row := x[(z*a[1].in+y)*a[2].in:][:a[2].in]
			for _, t := range l.taps {
				if t.from < t.to {
					l.join(op, out[t.from:t.to], row[t.first:], a[2].stride)
				}
			}
		}
	}
	if !l.average {
		return
	}
	near := a[0].count(z, l.include) * a[1].count(y, l.include)
	for i, count := range l.counts {
		out[i] /= float64(max(near*count, 1)) // the mean of no elements is 0
	}
}

// join makes of each result, and of an element, the greater one or the sum; elements are a stride apart.
func (l *doublePool) join(op double.BinaryOp, out, x []float64, stride int) {
	switch {
	case stride == 1:
		l.kernels.Binary(op, double.VV, out, out, x[:len(out)])
	case op == double.Add:
		for i := range out {
			out[i] += x[i*stride]
		}
	default:
		for i := range out {
			out[i] = max(out[i], x[i*stride])
		}
	}
}

func planDoublePool(p *planner, n *graph.Node) error {
	if hasIndices(n) {
		return planMaxIndices(p, n)
	}
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	w, err := graph.PoolAttrs(n)
	if err != nil {
		return err
	}
	l := &doublePool{axes: poolAxes(&w, dx[2:], dy[2:]), average: n.Is("AveragePool"), include: n.Int("count_include_pad", 0) != 0, kernels: p.doubles()}
	l.alongRows()
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	height, width, row := l.axes[1].out, l.axes[2].out, product(dx[2:])
	rows := l.axes[0].out * height // of a channel
	cost := float64(width*product(w.Kernel)) * 0.5
	p.emit(step{chunks: dx[0] * dx[1] * rows, grain: grainFor(cost), body: func(st *state, _, lo, hi int) {
		d, s := f64(st, dst), f64(st, src)
		for i := lo; i < hi; i++ {
			l.row(d[i*width:][:width], s[i/rows*row:][:row], i%rows/height, i%height)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

func doubleGlobalSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; len(x.Type.Shape) < 3 {
		return nil, property.Because(property.ShapeReason, "images only, %v is %v", x, x.Type)
	}
	return operators.RowMajor(n), nil
}

func planDoubleGlobal(p *planner, n *graph.Node) error {
	d, r := p.Dims[n.Inputs[0].ID], doubleReductions["ReduceMax"]
	if n.Is("GlobalAveragePool") {
		r = doubleReductions["ReduceMean"]
	}
	p.doubleReduce(r, reducedPlace{src: p.In(n.Inputs[0]), outer: d[0] * d[1], count: product(d[2:]), inner: 1}, p.Out(n.Outputs[0]))
	return nil
}

func doubleBatchNormSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if n.Int("training_mode", 0) != 0 || n.Int("is_test", 1) == 0 || n.Int("spatial", 1) == 0 || len(n.Inputs[0].Type.Shape) < 2 {
		return nil, property.Because(property.Unsupported, "inference by channel only")
	}
	for _, o := range n.Outputs[1:] {
		if o != nil && (o.NumUses() > 0 || o.IsOutput()) {
			return nil, property.Because(property.Unsupported, "statistics as outputs")
		}
	}
	return operators.RowMajor(n), nil
}

func planDoubleBatchNorm(p *planner, n *graph.Node) error {
	d, eps, kernels := p.Dims[n.Inputs[0].ID], float64(n.Float("epsilon", 1e-5)), p.doubles()
	channels, hw := d[1], product(d[2:])
	var in [5]place.Memory
	for i, v := range n.Inputs {
		in[i] = p.In(v)
	}
	dst := p.Out(n.Outputs[0])
	for _, o := range n.Outputs[1:] {
		if o != nil {
			p.Out(o)
		}
	}
	p.emit(step{chunks: d[0] * channels, grain: grainFor(float64(hw)*0.3 + 20), body: func(st *state, _, lo, hi int) {
		o, s, scale, shift, mean, variance := f64(st, dst), f64(st, in[0]), f64(st, in[1]), f64(st, in[2]), f64(st, in[3]), f64(st, in[4])
		for i := lo; i < hi; i++ {
			c := i % channels
			by := scale[c] / math.Sqrt(variance[c]+eps)
			moved := [1]float64{shift[c] - mean[c]*by}
			for at, end := i*hw, (i+1)*hw; at < end; at += nearDoubles {
				row := o[at:min(at+nearDoubles, end)]
				kernels.Scale(row, s[at:][:len(row)], by)
				kernels.Binary(double.Add, double.VS, row, row, moved[:])
			}
		}
	}}, in[:], []place.Memory{dst})
	return nil
}

func init() {
	registerDoubles(operator{Signatures: doublePoolSignatures, Plan: planDoublePool}, 0, "MaxPool", "AveragePool")
	registerDoubles(operator{Signatures: doublePoolSignatures, Plan: planLpPool}, 0, "LpPool")
	registerDoubles(operator{Signatures: doubleGlobalSignatures, Plan: planDoubleGlobal}, 0, "GlobalAveragePool", "GlobalMaxPool")
	registerDoubles(operator{Signatures: doubleBatchNormSignatures, Settle: overFirst, Plan: planDoubleBatchNorm}, 0, "BatchNormalization")
}
