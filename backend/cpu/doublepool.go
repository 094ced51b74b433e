package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Pooling and batch normalisation of float64.

func doublePoolSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	rank := len(x.Type.Shape)
	if w, err := graph.PoolAttrs(n); err != nil || rank != 3 && rank != 4 || len(w.Kernel) != rank-2 {
		return nil, property.Because(property.ShapeReason, "windows over one or two axes only, %v is %v", x, x.Type)
	}
	if len(n.Outputs) > 1 && n.Outputs[1] != nil {
		return nil, property.Because(property.Unsupported, "indices as an output")
	}
	return operators.RowMajor(n), nil
}

// poolWindow is what one result of a pooling covers along an axis: [from, to) in steps of the dilation; so many of its elements lie in the padded plane.
func poolWindow(m *conv.Map, axis, size, at int) (from, to, padded int) {
	from = at*m.Stride[axis] - m.Pad[axis]
	for k := range m.Kernel[axis] {
		if from+k*m.Dilate[axis] < size+m.Pad[axis+2] {
			padded++
		}
	}
	to = min(from+(m.Kernel[axis]-1)*m.Dilate[axis]+1, size)
	for from < 0 {
		from += m.Dilate[axis]
	}
	return from, to, padded
}

func planDoublePool(p *planner, n *graph.Node) error {
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	w, err := graph.PoolAttrs(n)
	if err != nil {
		return err
	}
	m := windowMap(&w, dx[2:], dy[2:])
	average, include := n.Is("AveragePool"), n.Int("count_include_pad", 0) != 0
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	cost := float64(m.OH*m.OW*m.Kernel[0]*m.Kernel[1]) * 1.5
	p.emit(step{chunks: dx[0] * dx[1], grain: grainFor(cost), body: func(st *state, _, lo, hi int) {
		d, s := f64(st, dst), f64(st, src)
		for i := lo; i < hi; i++ {
			plane, out := s[i*m.H*m.W:][:m.H*m.W], d[i*m.OH*m.OW:][:m.OH*m.OW]
			for at := range out {
				y0, y1, rows := poolWindow(&m, 0, m.H, at/m.OW)
				x0, x1, cols := poolWindow(&m, 1, m.W, at%m.OW)
				sum, most, count := 0.0, math.Inf(-1), 0
				for y := y0; y < y1; y += m.Dilate[0] {
					row := plane[y*m.W:][:m.W]
					for x := x0; x < x1; x += m.Dilate[1] {
						sum, most = sum+row[x], max(most, row[x])
						count++
					}
				}
				switch {
				case !average:
					out[at] = most
				case include:
					out[at] = sum / float64(rows*cols)
				default:
					out[at] = sum / float64(count)
				}
			}
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
			c, row := i%channels, o[i*hw:(i+1)*hw]
			off := [1]float64{mean[c]}
			kernels.Binary(double.Sub, double.VS, row, s[i*hw:], off[:])
			kernels.Scale(row, row, scale[c]/math.Sqrt(variance[c]+eps))
			kernels.Binary(double.Add, double.VS, row, row, shift[c:])
		}
	}}, in[:], []place.Memory{dst})
	return nil
}

func init() {
	registerDoubles(operator{Signatures: doublePoolSignatures, Plan: planDoublePool}, 0, "MaxPool", "AveragePool")
	registerDoubles(operator{Signatures: doubleGlobalSignatures, Plan: planDoubleGlobal}, 0, "GlobalAveragePool", "GlobalMaxPool")
	registerDoubles(operator{Signatures: doubleBatchNormSignatures, Settle: overFirst, Plan: planDoubleBatchNorm}, 0, "BatchNormalization")
}
