package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Convolutions of float64 over one to three axes. Those of one channel a group go through planes tap by tap; others, and all over three
// axes, are products of weights [channels out, taps] and columns [taps, positions], which for windows of one element are the images
// themselves. Columns are made in parts, in scratch memory of a worker, where those of an image are too many for the caches.

// Bounds of the columns of an image, in bytes and in positions, of the groups whose columns are all made at once, and of a band of a
// plane.
const (
	fewGroups     = 4
	columnBytes   = 1 << 20
	fewestColumns = 48
	mostColumns   = 512
	bandBytes     = 32 << 10
)

// depthAxis is what a window is along the first of three axes. Images have one slice.
type depthAxis struct {
	in, out                      int // slices
	kernel, stride, dilate, pads int // pads in front
}

// depthOf returns the first of three axes of a window over a source of spatial dims in, which a result of dims out is made of.
func depthOf(w *graph.Window, in, out []int) depthAxis {
	if len(in) < 3 {
		return depthAxis{in: 1, out: 1, kernel: 1, stride: 1, dilate: 1}
	}
	begin, _ := w.Pads(0, in[0], out[0])
	return depthAxis{in: in[0], out: out[0], kernel: w.Kernel[0], stride: w.Strides[0], dilate: w.Dilations[0], pads: begin}
}

// doubleWindows is what convolutions and transposed ones have in common, of images, or of volumes whose slices are images, of H x W.
type doubleWindows struct {
	conv.Map
	depth          depthAxis
	images, groups int
	in, out        int // channels of a group
	src, dst       place.Memory
	weights, bias  place.Memory
}

// doubleConv is a planned convolution.
type doubleConv struct {
	doubleWindows
	taps int // of a result, those of all its channels
}

// doubleConvSignatures are those of Conv and of ConvTranspose.
func doubleConvSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, w := n.Inputs[0], n.Inputs[1]
	if rank := len(x.Type.Shape); rank < 3 || rank > 5 || len(w.Type.Shape) != rank {
		return nil, property.Because(property.ShapeReason, "convolutions over one to three axes only, %v is %v", x, x.Type)
	}
	return operators.RowMajor(n), nil
}

func planDoubleConv(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	dx, dw, dy := p.Dims[x.ID], p.Dims[n.Inputs[1].ID], p.Dims[y.ID]
	w, err := graph.ConvAttrs(n, dw[2:])
	if err != nil {
		return err
	}
	c := &doubleConv{doubleWindows: doubleWindows{Map: windowMap(&w, dx[2:], dy[2:]), depth: depthOf(&w, dx[2:], dy[2:]),
		images: dx[0], groups: w.Group, in: dw[1], out: dw[0] / w.Group,
		src: p.In(x), dst: p.Out(y), weights: p.In(n.Inputs[1]), bias: p.In(n.Input(2))}}
	c.taps = c.in * c.depth.kernel * c.Kernel[0] * c.Kernel[1]
	if c.in == 1 && c.out == 1 && len(dx) < 5 {
		p.doubleDepthwise(c)
		return nil
	}
	return p.doubleDense(c)
}

// positions is the number of results of a channel.
func (c *doubleConv) positions() int { return c.depth.out * c.OH * c.OW }

// channel is the number of elements of a channel of the source.
func (c *doubleConv) channel() int { return c.depth.in * c.H * c.W }

// plain reports whether images are their own columns.
func (c *doubleConv) plain() bool {
	d := c.depth
	return d.kernel == 1 && d.stride == 1 && d.pads == 0 && d.in == d.out && c.Kernel == [2]int{1, 1} && c.Stride == [2]int{1, 1} && c.Pad == [4]int{} && c.OH == c.H && c.OW == c.W
}

// doubleDense emits a convolution as products.
func (p *planner) doubleDense(c *doubleConv) error {
	wide := max(min(columnBytes/(8*max(c.taps, 1))/8*8, mostColumns), fewestColumns)
	o, count := operands{a: c.weights, b: c.src}, c.images*c.groups
	if !c.plain() && (c.positions() > wide || count > fewGroups) {
		return p.doubleColumns(c, min(wide, c.positions()))
	}
	if !c.plain() {
		o.b = p.Temp(8 * count * c.taps * c.positions())
		columns := o.b
		p.emit(step{chunks: count * c.taps, grain: grainFor(float64(c.positions())*0.5 + 20), body: func(st *state, _, lo, hi int) {
			d, s := f64(st, columns), f64(st, c.src)
			for i := lo; i < hi; i++ {
				c.column(d[i*c.positions():][:c.positions()], s[i/c.taps*c.in*c.channel():], i%c.taps, 0)
			}
		}}, []place.Memory{c.src}, []place.Memory{columns})
	}
	a, b := make([]int, count), make([]int, count)
	for i := range a {
		a[i], b[i] = i%c.groups*c.out*c.taps, i*c.taps*c.positions()
	}
	spec := gemm.Spec{M: c.out, N: c.positions(), K: c.taps, B: gemm.Rows, Double: true}
	if err := p.doubleProduct(spec, o, place.Nowhere, place.Nowhere, c.dst, a, b); err != nil {
		return err
	}
	if c.bias.Slot >= 0 {
		image := compact([]int{c.images, c.groups * c.out, c.positions()})
		p.doubleBinary(double.Add, newBroadcast(image, image, compact([]int{c.groups * c.out, 1})), c.dst, c.bias, c.dst)
	}
	return nil
}

// doubleColumns emits a convolution whose columns are made in parts of so many positions.
func (p *planner) doubleColumns(c *doubleConv, wide int) error {
	parts, positions := ceilDiv(c.positions(), wide), c.positions()
	plan := func(n int) (*gemm.Plan, error) {
		return gemm.NewPlan(p.target, gemm.Spec{M: c.out, N: n, K: c.taps, LDC: positions, B: gemm.Rows, Double: true})
	}
	whole, err := plan(wide)
	if err != nil {
		return err
	}
	last, err := plan(positions - (parts-1)*wide)
	if err != nil {
		return err
	}
	scratch, kernels := p.scratch(8*c.taps*wide), p.doubles()
	p.emit(step{work: 1, chunks: c.images * c.groups * parts, grain: grainFor(float64(2*whole.Cost()) / 30), body: func(st *state, worker, lo, hi int) {
		d, s, w, b, columns := f64(st, c.dst), f64(st, c.src), f64(st, c.weights), f64(st, c.bias), scratch.doubles(st, worker)
		for i := lo; i < hi; i++ {
			one, from, plan := i/parts, i%parts*wide, whole
			n := min(wide, positions-from)
			if n != wide || i%parts == parts-1 {
				plan = last
			}
			for k := range c.taps {
				c.column(columns[k*n:][:n], s[one*c.in*c.channel():], k, from)
			}
			group, result := one%c.groups, d[one*c.out*positions+from:]
			plan.RunDouble(0, plan.Chunks(), gemm.Doubles{A: w[group*c.out*c.taps:], B: columns, C: result})
			if b == nil {
				continue
			}
			for r := range c.out {
				row := result[r*positions:][:n]
				kernels.Binary(double.Add, double.VS, row, row, b[group*c.out+r:])
			}
		}
	}}, []place.Memory{c.src, c.weights, c.bias}, []place.Memory{scratch.at, c.dst})
	return nil
}

// column writes what tap number k of a group reads at the positions from one on.
func (c *doubleConv) column(dst, src []float64, k, from int) {
	area := c.Kernel[0] * c.Kernel[1]
	volume := src[k/(c.depth.kernel*area)*c.channel():][:c.channel()]
	dz := k/area%c.depth.kernel*c.depth.dilate - c.depth.pads
	dy, dx := k%area/c.Kernel[1]*c.Dilate[0]-c.Pad[0], k%c.Kernel[1]*c.Dilate[1]-c.Pad[1]
	for len(dst) > 0 {
		row, x := from/c.OW, from%c.OW
		n := min(c.OW-x, len(dst))
		if z := row/c.OH*c.depth.stride + dz; z < 0 || z >= c.depth.in {
			clear(dst[:n])
		} else {
			c.line(dst[:n], volume[z*c.H*c.W:][:c.H*c.W], row%c.OH*c.Stride[0]+dy, x*c.Stride[1]+dx)
		}
		dst, from = dst[n:], from+n
	}
}

// line writes elements of a plane's row y from x on, a stride apart; what lies outside of the plane is 0.
func (c *doubleConv) line(dst, plane []float64, y, x int) {
	if y < 0 || y >= c.H {
		clear(dst)
		return
	}
	row, stride := plane[y*c.W:][:c.W], c.Stride[1]
	before := min(len(dst), max(0, ceilDiv(-x, stride)))
	inside := min(len(dst), max(before, ceilDiv(c.W-x, stride)))
	clear(dst[:before])
	clear(dst[inside:])
	if stride == 1 {
		if before < inside {
			copy(dst[before:inside], row[x+before:])
		}
		return
	}
	for i := before; i < inside; i++ {
		dst[i] = row[x+i*stride]
	}
}

// doubleDepthwise emits a convolution of one channel a group: a band of a plane is copied with its padding into scratch memory, and
// added tap by tap to the results of whole rows for a stride of 1, of which those that the stride asks for are taken.
func (p *planner) doubleDepthwise(c *doubleConv) {
	width := (c.OW-1)*c.Stride[1] + (c.Kernel[1]-1)*c.Dilate[1] + 1
	high := func(rows int) int { return (rows-1)*c.Stride[0] + (c.Kernel[0]-1)*c.Dilate[0] + 1 }
	rows := min(max(bandBytes/(8*width*(1+c.Stride[0])), 4), c.OH)
	bands, area := ceilDiv(c.OH, rows), high(rows)*width
	scratch, kernels := p.scratch(8*(area+rows*width)), p.doubles()
	step1 := *c // reads with a stride of 1
	step1.Stride = [2]int{1, 1}
	cost := float64(rows*width*c.taps) * 0.2
	p.emit(step{work: 1, chunks: c.images * c.groups * bands, grain: grainFor(cost), body: func(st *state, worker, lo, hi int) {
		d, s, w, b, x := f64(st, c.dst), f64(st, c.src), f64(st, c.weights), f64(st, c.bias), scratch.doubles(st, worker)
		for i := lo; i < hi; i++ {
			one, first := i/bands, i%bands*rows
			n := min(rows, c.OH-first)
			plane, sum := x[:high(n)*width], x[area:][:n*width]
			for r := range high(n) {
				step1.line(plane[r*width:][:width], s[one*c.H*c.W:][:c.H*c.W], first*c.Stride[0]+r-c.Pad[0], -c.Pad[1])
			}
			start := 0.0
			if b != nil {
				start = b[one%c.groups]
			}
			for j := range sum {
				sum[j] = start
			}
			c.addTaps(kernels, sum, plane, w[one%c.groups*c.taps:][:c.taps], width)
			c.take(d[(one*c.OH+first)*c.OW:][:n*c.OW], sum, width)
		}
	}}, []place.Memory{c.src, c.weights, c.bias}, []place.Memory{scratch.at, c.dst})
}

// addTaps adds a padded plane times each tap to rows of results: to all rows at once where these follow each other in the plane.
func (c *doubleConv) addTaps(kernels double.Kernels, sum, plane, taps []float64, width int) {
	for k, t := range taps {
		at := k/c.Kernel[1]*c.Dilate[0]*width + k%c.Kernel[1]*c.Dilate[1]
		if c.Stride[0] == 1 {
			kernels.MulAdd(sum, plane[at:min(at+len(sum), len(plane))], t)
			continue
		}
		for r := 0; r < len(sum); r += width {
			from := at + r*c.Stride[0]
			kernels.MulAdd(sum[r:r+width], plane[from:min(from+width, len(plane))], t)
		}
	}
}

// take copies the results that the stride along a row asks for, from rows of that width.
func (c *doubleConv) take(dst, sum []float64, width int) {
	for r := 0; r*c.OW < len(dst); r++ {
		row, out := sum[r*width:], dst[r*c.OW:][:c.OW]
		if c.Stride[1] == 1 {
			copy(out, row)
			continue
		}
		for i := range out {
			out[i] = row[i*c.Stride[1]]
		}
	}
}

func init() {
	registerDoubles(operator{Signatures: doubleConvSignatures, Plan: planDoubleConv}, 0, "Conv")
}
