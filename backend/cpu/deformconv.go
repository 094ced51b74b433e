package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// DeformConv is a product of the pixels that windows see, each at the place to which an offset moves it, and the weights. Images have their channels
// last, with a border of zeros, so that all channels of a place are sampled at once and none needs to know where an image ends. Results have their channels last
// too, and are brought into their layout behind the product.

// deformedWeights is the format of constant weights [OC, C/groups, kh, kw]: panels of 16 results, with the channels of a tap side by side.
var deformedWeights = mustFormat("Acdb16a")

// packsDeformed reports whether weights are constants that lie in whole panels.
func packsDeformed(n *graph.Node) bool {
	oc, ok := operators.ConstDim(n.Inputs[1], 0)
	g := int(n.Int("group", 1))
	return n.Inputs[1].IsConst() && (g == 1 || ok && oc%g == 0 && oc/g%16 == 0)
}

func deformConvSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	for _, v := range n.Inputs {
		if v != nil && !operators.IsFloat32(v) {
			return nil, operators.NotFloat32(v)
		}
	}
	for _, i := range []int{0, 1, 2} {
		if !is4D(n.Inputs[i]) {
			return nil, property.Because(property.ShapeReason, "images only, %v is %v", n.Inputs[i], n.Inputs[i].Type)
		}
	}
	s := graph.UniformSignature("nchw16c", n, rowMaj)
	s.Inputs[0], s.Outputs[0] = graph.Fixed(blocked), graph.Variable(0)
	s.Vars = [][]graph.Format{{blocked, rowMaj}}
	if packsDeformed(n) {
		s.Inputs[1] = graph.Fixed(deformedWeights)
	}
	return []graph.Signature{s}, nil
}

// deformConv is a planned DeformConv.
type deformConv struct {
	axes                 [3]poolAxis // the last two
	channels, results    int
	groups, offsets      int // groups of channels: of the product, and of offsets
	taps, in, out        int // in and out are channels of a group of the product
	positions, wide      int // of an image, and of a part
	border, offset, mask place.Memory
	weights, bias        place.Memory
	product              [2]*gemm.Plan // of a whole part, and of an image's last one
	packed               bool
	tapAt                [][2]float64 // where taps lie, along the height and the width
	room                 scratch      // columns, a pixel, and a float for each block of channels
	points               *conv.Points
	kernels              vec.Kernels
}

// partBytes is how many bytes of columns a part has, about: less than the second cache holds. Each part reads all weights, so that it has
// leastPart positions at least.
const (
	partBytes = 192 << 10
	leastPart = 48
)

// newDeformConv returns what the shapes and attributes of a node say of it.
func newDeformConv(p *planner, n *graph.Node) (*deformConv, error) {
	dx, dw, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Inputs[1].ID], p.Dims[n.Outputs[0].ID]
	window, err := graph.ConvAttrs(n, dw[2:])
	if err != nil {
		return nil, err
	}
	c := &deformConv{axes: poolAxes(&window, dx[2:], dy[2:]), channels: dx[1], results: dy[1], groups: window.Group, offsets: int(n.Int("offset_group", 1)),
		taps: dw[2] * dw[3], in: dw[1], positions: dy[2] * dy[3], offset: p.In(n.Inputs[2]), mask: place.Nowhere, bias: place.Nowhere,
		weights: p.In(n.Inputs[1]), kernels: p.kernels}
	if c.groups < 1 || dw[0]%c.groups != 0 || dx[1] != c.groups*dw[1] || c.offsets < 1 || c.channels%c.offsets != 0 ||
		!sameDims(p.Dims[n.Inputs[2].ID], []int{dx[0], 2 * c.offsets * c.taps, dy[2], dy[3]}) {
		return nil, property.Because(property.ShapeReason, "offsets %v and weights %v of %v", p.Dims[n.Inputs[2].ID], dw, dx)
	}
	if m := n.Input(4); m != nil {
		if c.mask = p.In(m); !sameDims(p.Dims[m.ID], []int{dx[0], c.offsets * c.taps, dy[2], dy[3]}) {
			return nil, property.Because(property.ShapeReason, "a mask %v", p.Dims[m.ID])
		}
	}
	if b := n.Input(3); b != nil {
		if c.bias = p.In(b); product(p.Dims[b.ID]) != dy[1] {
			return nil, property.Because(property.ShapeReason, "bias %v", p.Dims[b.ID])
		}
	}
	c.out = dw[0] / c.groups
	for t := range c.taps {
		c.tapAt = append(c.tapAt, [2]float64{float64(t / dw[3] * c.axes[1].dilate), float64(t % dw[3] * c.axes[2].dilate)})
	}
	if c.taps == 0 || c.channels == 0 {
		return nil, property.Because(property.ShapeReason, "weights %v of %v", dw, dx)
	}
	return c, nil
}

func planDeformConv(p *planner, n *graph.Node) error {
	c, err := newDeformConv(p, n)
	if err != nil {
		return err
	}
	x, w, y := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	dx, dw := p.Dims[x.ID], p.Dims[w.ID]
	if c.packed = w.Format != rowMaj; !c.packed && c.in > 1 && c.taps > 1 {
		c.weights = p.Temp(4 * product(dw))
		p.permute([]int{dw[0], c.in, c.taps}, []int{0, 2, 1}, 4, p.In(w), c.weights)
	}
	c.wide = min(max(partBytes/(4*c.taps*c.channels)/12*12, leastPart), 240, c.positions)
	if err := c.plan(p); err != nil {
		return err
	}
	c.border = p.Temp(4 * dx[0] * (dx[2] + 2) * (dx[3] + 2) * c.channels)
	p.borderedPixels(dx, p.In(x), c.border)
	made := p.Temp(4 * dx[0] * c.positions * c.results)
	parts := ceilDiv(c.positions, c.wide)
	p.emit(step{work: 1, chunks: dx[0] * parts, grain: grainFor(float64(c.wide*c.taps*c.channels) * float64(c.out+40) / 30), body: func(st *state, worker, lo, hi int) {
		for i := lo; i < hi; i++ {
			c.part(st, worker, i/parts, i%parts*c.wide, st.F32(made))
		}
	}}, []place.Memory{c.border, c.offset, c.mask, c.weights, c.bias}, []place.Memory{made, c.room.at})
	to, _ := reorderLayout(y.Format)
	return p.reorder(reorder.Spec{N: dx[0], C: c.results, HW: c.positions, From: reorder.NHWC, To: to}, made, p.Out(y))
}

// plan plans the products, and the room for their columns.
func (c *deformConv) plan(p *planner) (err error) {
	k := c.taps * c.in
	spec := gemm.Spec{M: c.wide, N: c.out, K: k, LDA: c.groups * k, LDC: c.results, B: gemm.Columns, Bias: c.bias.Slot >= 0}
	if c.packed {
		spec.B = gemm.Packed
	}
	if c.product[0], err = gemm.NewPlan(p.target, spec); err != nil {
		return err
	}
	spec.M = (c.positions-1)%c.wide + 1
	if c.product[1], err = gemm.NewPlan(p.target, spec); err != nil {
		return err
	}
	c.room = p.scratch(4 * (c.wide*c.groups*k + c.channels + c.channels/16))
	c.points = conv.NewPoints(p.target, c.channels, c.channels)
	return nil
}

// borderedPixels emits a copy of blocked images with their channels last and a border of zeros of one pixel.
func (p *planner) borderedPixels(d []int, src, dst place.Memory) {
	channels, h, w := d[1], d[2], d[3]
	blocks := ceilDiv(channels, 16)
	p.emit(step{chunks: d[0] * (h + 2), grain: grainFor(float64(w*channels) * 0.15), body: func(st *state, _, lo, hi int) {
		x, y := st.F32(src), st.F32(dst)
		for i := lo; i < hi; i++ {
			to, row := y[i*(w+2)*channels:][:(w+2)*channels], i%(h+2)-1
			if row < 0 || row >= h {
				clear(to)
				continue
			}
			clear(to[:channels])
			clear(to[(w+1)*channels:])
			for b := range blocks {
				from, n := x[((i/(h+2)*blocks+b)*h+row)*w*16:][:w*16], min(16, channels-16*b)
				for k := range w {
					pixel := to[(k+1)*channels+16*b:]
					if n == 16 {
						*(*[16]float32)(pixel) = *(*[16]float32)(from[16*k:])
					} else {
						copy(pixel[:n], from[16*k:])
					}
				}
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

// part computes the positions of an image from one on.
func (c *deformConv) part(st *state, worker, image, first int, made []float32) {
	n, k := min(c.wide, c.positions-first), c.taps*c.in
	room := c.room.floats(st, worker)
	s := sampled{columns: room[:n*c.groups*k], pixel: room[c.wide*c.groups*k:][:c.channels], weights: room[c.wide*c.groups*k+c.channels:]}
	offset, mask, pixels := st.F32(c.offset), st.F32(c.mask), st.F32(c.border)
	size := (c.axes[1].in + 2) * (c.axes[2].in + 2) * c.channels
	s.pixels = pixels[image*size:][:size]
	columns := s.columns
	for i := range n {
		at := first + i
		y, x := c.begin(at)
		s.columns = columns[i*c.groups*k:][:c.groups*k]
		for g := range c.offsets {
			for t, place := range c.tapAt {
				number := (image*c.offsets+g)*c.taps + t
				fy, fx := y+place[0]+float64(offset[2*number*c.positions+at]), x+place[1]+float64(offset[(2*number+1)*c.positions+at])
				by := float32(1)
				if mask != nil {
					by = mask[number*c.positions+at]
				}
				c.sample(&s, g, t, fy, fx, by)
			}
		}
	}
	plan := c.product[0]
	if n != c.wide || first+n == c.positions {
		plan = c.product[1]
	}
	b, bias, made := st.F32(c.weights), st.F32(c.bias), made[(image*c.positions+first)*c.results:]
	if !c.packed && c.out < fewResults {
		c.multiply(made, columns, b, bias, n)
		return
	}
	for g := range c.groups {
		a := gemm.Args{A: columns[g*k:], B: b[g*c.out*k:], C: made[g*c.out:]}
		if bias != nil {
			a.Bias = bias[g*c.out:]
		}
		plan.Run(0, plan.Chunks(), a)
	}
}

// begin returns where the window of a position begins in an image with its border.
func (c *deformConv) begin(position int) (y, x float64) {
	return float64(position/c.axes[2].out*c.axes[1].stride - c.axes[1].begin + 1), float64(position%c.axes[2].out*c.axes[2].stride - c.axes[2].begin + 1)
}

// inside reports whether a place in an image with its border sees something of the image.
func (c *deformConv) inside(y, x float64) bool {
	return y > 0 && y < float64(c.axes[1].in+1) && x > 0 && x < float64(c.axes[2].in+1)
}

// fewResults is how many results of a group a product is worth planning for.
const fewResults = 4

// multiply computes the results of n positions whose groups have few each.
func (c *deformConv) multiply(made, columns, weights, bias []float32, n int) {
	k := c.taps * c.in
	for i := range n {
		out := made[i*c.results:][:c.results]
		for r := range out {
			a, w, sum := columns[(i*c.groups+r/c.out)*k:][:k], weights[r*k:][:k], float32(0)
			if bias != nil {
				sum = bias[r]
			}
			for j, x := range a {
				sum += x * w[j]
			}
			out[r] = sum
		}
	}
}

// sampled is what places of an image are sampled to: the columns of a position. pixel and weights are scratch memory.
type sampled struct{ columns, pixels, pixel, weights []float32 }

// sample writes the channels of group g of offsets, times by, to where the product has them for tap t: those at a place of the image in its border.
func (c *deformConv) sample(s *sampled, g, t int, y, x float64, by float32) {
	count := c.channels / c.offsets
	width, from := c.axes[2].in, g*count
	out := s.pixel[:count]
	if c.groups == 1 {
		out = s.columns[t*c.in+from:][:count]
	}
	if !c.inside(y, x) {
		clear(out)
	} else {
		row, column := int(y), int(x)
		top := s.pixels[(row*(width+2)+column)*c.channels+from:]
		bottom := top[(width+2)*c.channels:]
		fx, fy, whole := float32(x-float64(column)), float32(y-float64(row)), count&^15
		if whole > 0 {
			c.points.Sample(out[:whole], top, bottom, fx, fy, s.weights)
			if by != 1 {
				c.kernels.BinaryScalar(vec.Mul, out[:whole], out[:whole], by)
			}
		}
		blend(out[whole:], top[whole:], bottom[whole:], c.channels, fx, fy, by)
	}
	if c.groups == 1 {
		return
	}
	group, first := from/c.in, from%c.in
	for len(out) > 0 {
		n := min(len(out), c.in-first)
		to := s.columns[(group*c.taps+t)*c.in+first:][:n]
		if n == 1 {
			to[0] = out[0]
		} else {
			copy(to, out)
		}
		out, group, first = out[n:], group+1, 0
	}
}

// blend is what conv.Points samples, for few channels, times a number.
func blend(out, top, bottom []float32, far int, x, y, by float32) {
	if len(out) == 0 {
		return
	}
	a, b, c, d := top[:len(out)], top[far:][:len(out)], bottom[:len(out)], bottom[far:][:len(out)]
	for i := range out {
		t := a[i] + (b[i]-a[i])*x
		u := c[i] + (d[i]-c[i])*x
		out[i] = (t + (u-t)*y) * by
	}
}

func init() {
	table.Register("DeformConv", operator{Signatures: deformConvSignatures, Plan: planDeformConv})
}
