package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// DeformConv of float64: products of the weights and of columns [taps, positions], in parts. Where the pixels of a tap are, and with which weights, is found once
// for all channels of a group of offsets. Planes have a border of zeros, and one more row of them below, where what lies outside of the image is read.

// doubleDeform is a planned one.
type doubleDeform struct {
	*deformConv

	set           isa.Set
	kernels       double.Kernels
	height, width int           // of a plane with its border
	plans         [2]*gemm.Plan // of a whole part, and of an image's last one
	room          scratch       // columns, weights of pixels, and where these are
	dst           place.Memory
}

func doubleDeformSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	for _, v := range n.Inputs[:3] {
		if len(v.Type.Shape) != 4 {
			return nil, property.Because(property.ShapeReason, "images only, %v is %v", v, v.Type)
		}
	}
	return operators.RowMajor(n), nil
}

func planDoubleDeform(p *planner, n *graph.Node) error {
	c, err := newDeformConv(p, n)
	if err != nil {
		return err
	}
	dx := p.Dims[n.Inputs[0].ID]
	d := &doubleDeform{deformConv: c, set: p.target.Set, kernels: p.doubles(), height: dx[2] + 3, width: dx[3] + 2, dst: p.Out(n.Outputs[0])}
	if d.height*d.width > math.MaxInt32 {
		return property.Because(property.ShapeReason, "images of %v", dx[2:])
	}
	c.wide = min(max(columnBytes/(8*c.channels*c.taps)/8*8, fewestColumns), mostColumns, c.positions)
	parts := ceilDiv(c.positions, c.wide)
	for i, positions := range []int{c.wide, c.positions - (parts-1)*c.wide} {
		spec := gemm.Spec{M: c.out, N: positions, K: c.in * c.taps, LDC: c.positions, B: gemm.Rows, Double: true}
		if d.plans[i], err = gemm.NewPlan(p.target, spec); err != nil {
			return err
		}
	}
	c.border = p.Temp(8 * dx[0] * dx[1] * d.height * d.width)
	d.bordered(p, p.In(n.Inputs[0]), dx[0]*dx[1])
	d.room = p.scratch(8*c.wide*(c.channels*c.taps+4) + 4*c.wide)
	grain := grainFor(float64(2*d.plans[0].Cost()*c.groups)/30 + float64(c.wide*c.channels*c.taps))
	p.emit(step{work: 1, chunks: dx[0] * parts, grain: grain, body: func(st *state, worker, lo, hi int) {
		for i := lo; i < hi; i++ {
			d.part(st, d.room.doubles(st, worker), i/parts, i%parts*c.wide)
		}
	}}, []place.Memory{c.border, c.offset, c.mask, c.weights, c.bias}, []place.Memory{d.dst, d.room.at})
	return nil
}

// bordered emits a copy of planes with their border.
func (d *doubleDeform) bordered(p *planner, src place.Memory, planes int) {
	border, h, w := d.border, d.axes[1].in, d.axes[2].in
	size := d.height * d.width
	p.emit(step{chunks: planes, grain: grainFor(float64(size) * 0.5), body: func(st *state, _, lo, hi int) {
		x, y := f64(st, src), f64(st, border)
		for i := lo; i < hi; i++ {
			to := y[i*size:][:size]
			clear(to)
			for row := range h {
				copy(to[(row+1)*d.width+1:][:w], x[(i*h+row)*w:])
			}
		}
	}}, []place.Memory{src}, []place.Memory{border})
}

// part computes the positions of an image from one on.
func (d *doubleDeform) part(st *state, room []float64, image, first int) {
	n, k := min(d.wide, d.positions-first), d.in*d.taps
	columns, weights := room[:n*d.channels*d.taps], room[d.wide*d.channels*d.taps:][:4*n]
	at := place.Elements[int32](asBytes(room[d.wide*(d.channels*d.taps+4):]))[:n]
	planes, size, count := f64(st, d.border), d.height*d.width, d.channels/d.offsets
	for g := range d.offsets {
		for t := range d.taps {
			d.pixels(st, at, weights, (image*d.offsets+g)*d.taps+t, t, first)
			for channel := g * count; channel < (g+1)*count; channel++ {
				plane := planes[(image*d.channels+channel)*size:][:size]
				element.BilinearDoubles(d.set, columns[(channel*d.taps+t)*n:][:n], plane, at, weights, d.width)
			}
		}
	}
	plan := d.plans[0]
	if n != d.wide || first+n == d.positions {
		plan = d.plans[1]
	}
	w, bias, results := f64(st, d.weights), f64(st, d.bias), f64(st, d.dst)[image*d.results*d.positions+first:]
	for g := range d.groups {
		result := results[g*d.out*d.positions:]
		plan.RunDouble(0, plan.Chunks(), gemm.Doubles{A: w[g*d.out*k:], B: columns[g*k*n:], C: result})
		for r := 0; r < d.out && bias != nil; r++ {
			row := result[r*d.positions:][:n]
			d.kernels.Binary(double.Add, double.VS, row, row, bias[g*d.out+r:])
		}
	}
}

// pixels finds for positions from one on where in a plane the first of the four pixels of a tap is, and their weights: 0 outside of the image. The tap has that number among those
// of all images and groups of offsets.
func (d *doubleDeform) pixels(st *state, at []int32, weights []float64, number, tap, first int) {
	offsets := f64(st, d.offset)
	down, right := offsets[2*number*d.positions+first:][:len(at)], offsets[(2*number+1)*d.positions+first:][:len(at)]
	mask := f64(st, d.mask)
	for i := range at {
		y, x := d.begin(first + i)
		y, x = y+d.tapAt[tap][0]+down[i], x+d.tapAt[tap][1]+right[i]
		w := weights[4*i:][:4]
		if !d.inside(y, x) {
			at[i] = int32((d.height - 2) * d.width) // in a plane
			clear(w)
			continue
		}
		row, column := int(y), int(x)
		at[i] = int32(row*d.width + column) // in a plane
		fy, fx, by := y-float64(row), x-float64(column), 1.0
		if mask != nil {
			by = mask[number*d.positions+first+i]
		}
		w[0], w[1], w[2], w[3] = (1-fy)*(1-fx)*by, (1-fy)*fx*by, fy*(1-fx)*by, fy*fx*by
	}
}

func init() {
	registerDoubles(operator{Signatures: doubleDeformSignatures, Plan: planDoubleDeform}, 0, "DeformConv")
}
