package cpu

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Convolutions of 8-bit integers over one to three axes. A step writes the image with its channels last, each group's in whole quads,
// and pads it with its zero point. Windows are then segments of that image, multiplied by weights in panels as a matrix is, or,
// where each channel has a filter of its own, weighed sixteen channels at a time. Results are transposed back to planes while they
// are near.

// Formats of the weights of dense convolutions of 8-bit integers: panels of 16 outputs, quads of input channels side by side.
var (
	quadsOIHW = mustFormat("AcdB16a4b")
	quadsOIW  = mustFormat("AcB16a4b")
)

// integerConv is a convolution of known shapes.
type integerConv struct {
	conv.Map
	deep                  depthAxis
	images, groups, c, oc int // c and oc of one group
	planes, rows, cols    int // of the padded image: what windows reach
	width                 int // elements of a group in a pixel of the padded image
	depthwise             bool
	last                  bool // channels come last in the result
	taps                  quant.Taps
	product               quant.Product
	shift                 int            // what is added to the elements of the image, and to its zero point; see shift
	image                 place.Memory   // padded
	pixelSums             place.Memory   // of each group of its pixels about the zero point, where weights have zero points
	merged                int            // groups of the model in each of these
	packed                place.Memory   // weights in panels
	own                   []byte         // the same, where they are packed here
	summed                []int32        // sums of the weights of each output, in whole panels for each group; nil where a run makes them
	late                  lateWeights    // what a run makes of weights that are not constant
	starts                place.Memory   // what the sums of outputs begin with
	tapped                [][]int16      // weights of depthwise convolutions, by block of 16 channels
	zeros                 place.Memory   // zero points of the weights, as int32
	made                  *packedWeights // what is made of the weights once
	squares               *quant.Squares // where tiles of 2 x 2 results are made at a time; else nil
	about                 []int32        // zero points that the weights' other forms count from, as zerosOf returns them; nil for 0
	rounds                bool           // sums may be rounded as they are made, of weights that are words
}

// pixel returns the elements of a pixel of the padded image.
func (c *integerConv) pixel() int {
	if c.depthwise {
		return c.width
	}
	return c.groups * c.width
}

// pixels returns the number of results of an image for each channel.
func (c *integerConv) pixels() int { return c.deep.out * c.OH * c.OW }

// allTaps returns the number of elements of a window, of one channel.
func (c *integerConv) allTaps() int { return c.deep.kernel * c.Kernel[0] * c.Kernel[1] }

// planeSize returns the number of elements of the operand in each channel.
func (c *integerConv) planeSize() int { return c.deep.in * c.H * c.W }

// padded returns the elements of an image, padded.
func (c *integerConv) padded() int { return c.planes * c.rows * c.cols * c.pixel() }

// outputs returns the number of channels of the result.
func (c *integerConv) outputs() int { return c.groups * c.oc }

// panels returns the number of panels of weights of a group.
func (c *integerConv) panels() int { return quant.Panels(c.oc) }

// mostPadded bounds the elements of a padded image, as a multiple of those of operand and result: attributes may ask for any padding.
const mostPadded = 64

// newIntegerConv resolves a convolution of dims [N, C, …] by [O, I, …].
func newIntegerConv(n *graph.Node, dx, dw, dy []int) (*integerConv, error) {
	w, err := graph.ConvAttrs(n, dw[2:])
	if err != nil {
		return nil, err
	}
	m := windowMap(&w, dx[2:], dy[2:])
	c := &integerConv{Map: m, deep: depthOf(&w, dx[2:], dy[2:]), images: dx[0], groups: int(n.Int("group", 1)), c: dw[1], oc: dw[0]}
	if c.groups < 1 || c.groups*c.c != dx[1] || c.oc%c.groups != 0 {
		return nil, property.Because(property.ShapeReason, "%d groups of weights %v for %v", c.groups, dw, dx)
	}
	c.oc /= c.groups
	c.depthwise = c.c == 1 && c.oc == 1 && c.groups > 1
	c.merge()
	c.planes = (c.deep.out-1)*c.deep.stride + (c.deep.kernel-1)*c.deep.dilate + 1
	c.rows, c.cols = reachOf(m, 0, m.OH), reachOf(m, 1, m.OW)
	if m.Pad[0] == 0 && m.Pad[1] == 0 && c.rows <= m.H && c.cols <= m.W { // the image is the padded one
		c.rows, c.cols = m.H, m.W
	}
	if padded := float64(c.planes) * float64(c.rows) * float64(c.cols) * float64(c.images*c.groups) * float64(c.c+1); padded > mostPadded*float64(product(dx)+product(dy))+1<<20 {
		return nil, property.Because(property.ShapeReason, "%d x %d x %d pixels that are padded to %d x %d x %d", c.deep.in, m.H, m.W, c.planes, c.rows, c.cols)
	}
	if c.depthwise {
		c.width = quant.Panels(c.groups) * quant.Panel
		for i := range c.allTaps() {
			c.taps.Offsets = append(c.taps.Offsets, c.tap(i))
		}
		if len(c.taps.Offsets)%2 != 0 { // its weights are 0
			c.taps.Offsets = append(c.taps.Offsets, 0)
		}
		return c, nil
	}
	c.width = 4 * quant.Quads(c.c)
	c.product.Quads = quant.Quads(c.c)
	if c.groups == 1 && m.Dilate[1] == 1 { // a row of the window is one segment
		c.product.Quads *= m.Kernel[1]
		for y := range c.deep.kernel * m.Kernel[0] {
			c.product.Segments = append(c.product.Segments, c.tap(y*m.Kernel[1]))
		}
		return c, nil
	}
	for i := range c.allTaps() {
		c.product.Segments = append(c.product.Segments, c.tap(i))
	}
	return c, nil
}

// merge makes one group of several that have few outputs, as many as fill a panel: weights are then 0 where an output does not look.
func (c *integerConv) merge() {
	c.merged = 1
	if c.depthwise || c.groups == 1 {
		return
	}
	for m := 2; m <= c.groups && m*c.oc <= quant.Panel; m++ {
		if c.groups%m == 0 {
			c.merged = m
		}
	}
	c.groups, c.c, c.oc = c.groups/c.merged, c.c*c.merged, c.oc*c.merged
}

// reachOf returns how many elements along an axis the windows of so many results reach over.
func reachOf(m conv.Map, axis, results int) int {
	return (results-1)*m.Stride[axis] + (m.Kernel[axis]-1)*m.Dilate[axis] + 1
}

// tap returns where tap i lies behind its window's offset, in elements.
func (c *integerConv) tap(i int) int {
	line, x := i/c.Kernel[1], i%c.Kernel[1]
	z, y := line/c.Kernel[0], line%c.Kernel[0]
	return ((z*c.deep.dilate*c.rows+y*c.Dilate[0])*c.cols + x*c.Dilate[1]) * c.pixel()
}

// windows writes the offsets of the windows of results from first on of an image.
func (c *integerConv) windows(dst []int, first int) {
	row, step := c.cols*c.pixel(), c.Stride[1]*c.pixel()
	line, x := first/c.OW, first%c.OW
	for len(dst) > 0 {
		n := min(c.OW-x, len(dst))
		at := (line/c.OH*c.deep.stride*c.rows+line%c.OH*c.Stride[0])*row + x*step
		for i := range dst[:n] {
			dst[i] = at
			at += step
		}
		dst, x, line = dst[n:], 0, line+1
	}
}

// mostReach is the most elements along an axis that a window reaches over, or that are padded.
const mostReach = 1024

// reachesFar reports whether a convolution asks for more than that, in its attributes and by its weights.
func reachesFar(n *graph.Node, w *graph.Value) bool {
	pads, _ := n.Ints("pads")
	dilations, _ := n.Ints("dilations")
	for i := range w.Type.Shape[2:] {
		k, ok := operators.ConstDim(w, 2+i)
		d := int64(1)
		if i < len(dilations) {
			d = dilations[i]
		}
		if !ok || k > mostReach || d > mostReach || int64(k-1)*d > mostReach {
			return true
		}
	}
	return slices.ContainsFunc(pads, func(p int64) bool { return p > mostReach || p < -mostReach })
}

// integerConvSignature says how a convolution of 8-bit integers reads its operands, at these places among its inputs.
func integerConvSignature(n *graph.Node, xZero, w, wZero int) (graph.Signature, *property.Reason) {
	var none graph.Signature
	x, v := n.Input(0), n.Input(w)
	if !isByte(x) || !isByte(v) {
		return none, property.Because(property.DTypeReason, "integers of 8 bits only, found %v and %v", x.Type, v.Type)
	}
	rank := len(x.Type.Shape)
	if rank < 3 || rank > 5 || len(v.Type.Shape) != rank {
		return none, property.Because(property.ShapeReason, "convolutions over one to three axes only, %v is %v", x, x.Type)
	}
	if far := reachesFar(n, v); far {
		return none, property.Because(property.Attribute, "windows of more than %d elements, or as much padding", mostReach)
	}
	if !zeroFits(n.Input(xZero), x.Type.DType, graph.D(1)) || !zeroFits(fuse.Behind(n.Input(wZero)), v.Type.DType, v.Type.Shape[0]) {
		return none, property.Because(property.Unsupported, "zero points are neither one number nor one for each output")
	}
	groups := int(n.Int("group", 1))
	oc, ok1 := operators.ConstDim(v, 0)
	ic, ok2 := operators.ConstDim(v, 1)
	if !ok1 || !ok2 || groups < 1 || oc%groups != 0 {
		return none, property.Because(property.ShapeReason, "weights %v in %d groups", v.Type, groups)
	}
	s := graph.UniformSignature("row-major", n, rowMaj)
	var f graph.Format
	s.Name, f = convWeights(rank, groups, oc, ic)
	s.Inputs[w] = graph.Fixed(f)
	return s, nil
}

// convWeights returns the name of the kernel of a convolution, and the format that it wants of weights, by the rank of these, and
// how many groups, outputs, and inputs of a group there are. Those of groups that do not fall on panels, and of volumes, are packed when it is planned.
func convWeights(rank, groups, oc, ic int) (name string, f graph.Format) {
	switch {
	case groups > 1 && ic == 1 && oc == groups:
		return "depthwise", rowMaj
	case groups > 1 && oc/groups%quant.Panel != 0:
		return "groups", rowMaj
	case rank == 5:
		return "volumes", rowMaj
	case rank == 3:
		return "packed", quadsOIW
	}
	return "packed", quadsOIHW
}

// integerConv resolves a convolution, and emits what stands before its sums.
func (p *planner) integerConv(n *graph.Node, x, w integerOperand, y *graph.Value) (*integerConv, error) {
	c, err := newIntegerConv(n, p.Dims[x.v.ID], p.Dims[w.v.ID], p.Dims[y.ID])
	if err != nil {
		return nil, err
	}
	return c, p.beforeSums(c, x, w, y, nil)
}

// beforeSums emits what stands before the sums of a convolution: the padded image, and weights in the forms of the kernels. Sums begin
// with add of each channel, where there is such.
func (p *planner) beforeSums(c *integerConv, x, w integerOperand, y *graph.Value, add []int32) error {
	c.zeros, c.pixelSums, c.last = place.Nowhere, place.Nowhere, y.Format == lastChannels
	c.late = lateWeights{sums: place.Nowhere, taps: place.Nowhere}
	c.taps.Signed = x.signed()
	if !c.depthwise {
		c.product.Signed, c.shift, c.packed = w.signed(), shift(x.signed(), w.signed()), w.at
	}
	if !w.constant() {
		p.emitLateWeights(c, w)
		p.wholeImage(c, x)
		p.startOutputs(c, x, add)
		return nil
	}
	if c.depthwise {
		taps, err := keep(p.e, p.Node, func() (*tapped, error) { return tapWeights(c, w) })
		if err != nil {
			return err
		}
		c.tapped, c.summed = taps.blocks, taps.sums
	} else {
		p.takeSquares(c, w)
		if !w.centred() {
			c.about = c.zerosOf(w.zero.Const.Bytes(), w.signed())
			if c.squares == nil && !c.rounds {
				c.zeros, c.about = p.Own(asBytes(c.about)), nil
			}
		}
		made, err := keep(p.e, p.Node, func() (*packedWeights, error) { return c.packWeights(p.integers, w) })
		if err != nil {
			return err
		}
		c.own, c.summed, c.made = made.own, made.sums, made
		if c.about != nil {
			c.summed = slices.Clone(c.summed)
			p.integers.Subtract(c.summed, c.about, int32(c.allTaps()*c.c))
		}
		if s := c.squares; s != nil {
			s.Weights = made.squares.of(func() []int16 {
				return p.integers.SquareWeights(c.panelsOf(w), s.Channels, s.Panels, s.Signed, c.about)
			})
		}
	}
	p.wholeImage(c, x)
	p.startOutputs(c, x, add)
	return nil
}

// packedWeights are weights in panels, where the constant does not hold them so, and the sums of their columns.
type packedWeights struct {
	own            []byte
	sums           []int32
	words, squares onceWords
}

// lateWeights are the sums of weights that are not constant, as those of integerConv, and of depthwise convolutions the weights by block
// of 16 channels, made in a run.
type lateWeights struct{ sums, taps place.Memory }

// emitLateWeights emits what packedWeights and tapped are of constant weights, and their zero points.
func (p *planner) emitLateWeights(c *integerConv, w integerOperand) {
	src, zero, signed, kernels := w.at, p.In(w.zero), w.signed(), p.integers
	c.late.sums = p.Temp(4 * c.columns())
	sums := c.late.sums
	if c.depthwise {
		blocks := quant.Panels(c.groups)
		c.late.taps = p.Temp(2 * c.blockTaps() * blocks)
		taps := c.late.taps
		p.emit(step{chunks: blocks, grain: grainFor(float64(c.blockTaps()) * 4), body: func(st *state, _, lo, hi int) {
			s, z, t, d := st.Bytes(src), st.Bytes(zero), of[int16](st, taps), of[int32](st, sums)
			for b := lo; b < hi; b++ {
				c.tapBlock(t[b*c.blockTaps():][:c.blockTaps()], d[b*quant.Panel:][:quant.Panel], b, s, z, signed)
			}
		}}, []place.Memory{src, zero}, []place.Memory{taps, sums})
		return
	}
	if w.v.Format == rowMaj {
		c.packed = p.Temp(c.packedBytes())
		packed := c.packed
		p.emit(step{serial: func(st *state) {
			d := st.Bytes(packed)
			clear(d)
			c.packGroups(d, st.Bytes(src), st.Bytes(zero))
		}}, []place.Memory{src, zero}, []place.Memory{packed})
	}
	if !w.centred() {
		c.zeros = p.Temp(4 * c.columns())
	}
	packed, zeros, quads := c.packed, c.zeros, c.depth()/4
	p.emit(step{serial: func(st *state) {
		kernels.ColumnSums(of[int32](st, sums), st.Bytes(packed), quads, c.groups*c.panels(), signed)
		c.writeZeros(of[int32](st, zeros), st.Bytes(zero), signed)
	}}, []place.Memory{packed, zero}, []place.Memory{sums, zeros})
}

// sumsOf returns the sums of the weights of each output.
func (c *integerConv) sumsOf(st *state) []int32 {
	if c.summed != nil {
		return c.summed
	}
	return of[int32](st, c.late.sums)
}

// panelsOf returns constant weights in panels.
func (c *integerConv) panelsOf(w integerOperand) []byte {
	if c.own != nil {
		return c.own
	}
	return w.v.Const.Data[w.v.Const.Offset:]
}

// packWeights returns what is made of the weights once.
func (c *integerConv) packWeights(kernels quant.Kernels, w integerOperand) (p *packedWeights, err error) {
	panels, quads := c.groups*c.panels(), len(c.product.Segments)*c.product.Quads
	p = &packedWeights{sums: make([]int32, panels*quant.Panel)}
	packed := w.v.Const.Data[w.v.Const.Offset:]
	if w.v.Format == rowMaj {
		src, zeros := w.constants()
		if outputs, taps := c.outputs(), c.allTaps(); len(src) != outputs*(c.c/c.merged)*taps {
			return nil, fmt.Errorf("%w: %d weights for %d outputs", tensor.ErrShape, len(src), outputs)
		}
		p.own = make([]byte, c.packedBytes())
		c.packGroups(p.own, src, zeros)
		packed = p.own
	}
	kernels.ColumnSums(p.sums, packed, quads, panels, c.product.Signed)
	return p, nil
}

// packedBytes returns the size of weights in panels.
func (c *integerConv) packedBytes() int { return c.groups * c.panels() * quant.PanelBytes(c.depth()/4) }

// packGroups packs weights [O, I, …], each group's outputs in panels of their own, in dst, which is zero. Where an output of merged
// groups does not look, they are its zero point.
func (c *integerConv) packGroups(dst, src, zeros []byte) {
	outputs, taps, in := c.outputs(), c.allTaps(), c.c/c.merged
	deep := quant.Quads(c.c)
	for o := range outputs {
		group, j := o/c.oc, o%c.oc
		from := j * c.merged / c.oc * in // the first of the group's channels at which the output looks
		panel := dst[(group*c.panels()+j/quant.Panel)*quant.PanelBytes(taps*deep):]
		for i := range taps * c.c {
			tap, ch := i/c.c, i%c.c
			b := byte(0)
			if k := ch - from; k >= 0 && k < in {
				b = src[(o*in+k)*taps+tap]
			} else if len(zeros) > 0 {
				b = zeros[min(o, len(zeros)-1)]
			}
			panel[(tap*deep+ch/4)*4*quant.Panel+j%quant.Panel*4+ch%4] = b
		}
	}
}

// zerosOf returns the zero points of the weights of each output, each group's in whole panels.
func (c *integerConv) zerosOf(z []byte, signed bool) []int32 {
	d := make([]int32, c.columns())
	c.writeZeros(d, z, signed)
	return d
}

func (c *integerConv) writeZeros(d []int32, z []byte, signed bool) {
	width := c.panels() * quant.Panel
	for i := range d {
		d[i] = int32(zeroPoint(z, i/width*c.oc+min(i%width, c.oc-1), signed))
	}
}

// columns returns the number of sums of weights.
func (c *integerConv) columns() int {
	if c.depthwise {
		return c.width
	}
	return c.groups * c.panels() * quant.Panel
}

// startOutputs emits what the sums of outputs begin with: add, and minus the image's zero point, times the sums of the weights. It is
// made once where zero point and weights are constant.
func (p *planner) startOutputs(c *integerConv, x integerOperand, add []int32) {
	begin := make([]int32, c.columns())
	for i, a := range add {
		begin[c.column(i)] = a
	}
	kernels, signed := p.integers, x.signed()
	if zero, ok := x.constantZero(); ok && c.summed != nil {
		kernels.Subtract(begin, c.summed, int32(zero+c.shift))
		c.starts = p.Own(asBytes(begin))
		return
	}
	c.starts = p.Temp(4 * len(begin))
	dst, zero := c.starts, p.In(x.zero)
	p.emit(step{serial: func(st *state) {
		d := of[int32](st, dst)
		copy(d, begin)
		kernels.Subtract(d, c.sumsOf(st)[:len(d)], int32(zeroPoint(st.Bytes(zero), 0, signed)+c.shift))
	}}, []place.Memory{zero, c.late.sums}, []place.Memory{dst})
}

// column returns where output i stands among columns of which each group has whole panels.
func (c *integerConv) column(i int) int {
	if c.depthwise {
		return i
	}
	return i/c.oc*c.panels()*quant.Panel + i%c.oc
}

// windowSum returns the sum of what a window of a group sees.
func (c *integerConv) windowSum(sums []int32, image, group, i int) int32 {
	total := int32(0)
	line, x0 := i/c.OW, i%c.OW*c.Stride[1]
	z0, y0 := line/c.OH*c.deep.stride, line%c.OH*c.Stride[0]
	for k := range c.deep.kernel * c.Kernel[0] {
		z, y := z0+k/c.Kernel[0]*c.deep.dilate, y0+k%c.Kernel[0]*c.Dilate[0]
		row := ((image*c.planes+z)*c.rows+y)*c.cols + x0
		for x := range c.Kernel[1] {
			total += sums[(row+x*c.Dilate[1])*c.groups+group]
		}
	}
	return total
}

// convFinish makes results of the sums of pixels [at, at+n) of an image and channels [col, col+cols), in rows ld apart at x, which
// it may overwrite. Behind the channels are sums of channels that there are not, up to a whole panel.
type convFinish func(st *state, x []int32, ld, image, at, n, col, cols int)

// convParts divides the sums of a convolution into parts of some rows, which are pixels, and some panels, which are channels.
type convParts struct {
	pixels, panels, columns, groups int // of an image and a group
	rows, wide                      int // of a part
	downs, acrosses                 int // parts of them
}

// convPart is one of these.
type convPart struct{ image, group, row, rows, panel, panels, col, cols int } // col of all groups

// parts returns those of that many rows of a convolution, at least, in whole tiles; of AMX in whole lines of the result, where they are that many.
func (p *planner) parts(c *integerConv, rows int) *convParts {
	d := &convParts{pixels: c.pixels(), panels: c.panels(), columns: c.oc, groups: c.groups}
	if c.depthwise {
		d.panels, d.columns, d.groups = quant.Panels(c.groups), c.groups, 1
	}
	d.rows = roundUp(ceilDiv(d.pixels, ceilDiv(d.pixels, rows)), quant.Height)
	if p.integers.Tiles() && !c.depthwise {
		if d.rows = ceilDiv(d.pixels, ceilDiv(d.pixels, rows)); d.rows >= c.OW {
			d.rows = roundUp(d.rows, c.OW)
		}
	}
	if d.wide = min(sumPanels, d.panels); !c.depthwise {
		d.wide = p.panelsOf(d.panels, d.rows, c.depth(), c.images*c.groups*d.pixels)
	}
	d.downs, d.acrosses = ceilDiv(d.pixels, d.rows), ceilDiv(d.panels, d.wide)
	return d
}

// depth returns how many products a sum has, in whole quads.
func (c *integerConv) depth() int {
	if c.depthwise {
		return 4 * len(c.taps.Offsets)
	}
	return 4 * len(c.product.Segments) * c.product.Quads
}

// count returns the number of parts of an image.
func (d *convParts) count() int { return d.groups * d.downs * d.acrosses }

// at returns part i of all images.
func (d *convParts) at(i int) convPart {
	each := d.downs * d.acrosses
	x := convPart{image: i / each / d.groups, group: i / each % d.groups, row: i % each % d.downs * d.rows, panel: i % each / d.downs * d.wide}
	x.rows, x.panels = min(d.rows, d.pixels-x.row), min(d.wide, d.panels-x.panel)
	x.col, x.cols = x.group*d.columns+x.panel*quant.Panel, min(x.panels*quant.Panel, d.columns-x.panel*quant.Panel)
	return x
}

// sumRowsOf returns the rows of a part whose sums are stored. Where there are few panels it is more of them, as many sums: what is done for each part takes as
// long as for a larger one.
func (p *planner) sumRowsOf(c *integerConv) int {
	panels, all := c.panels(), c.images*c.groups*c.pixels()
	switch {
	case c.depthwise:
		panels, all = quant.Panels(c.groups), c.images*c.pixels()
	case p.integers.Tiles():
		return tileRows
	}
	return max(sumRows, min(sumRows*sumPanels/panels, all/(4*p.e.threads)))
}

// emitConvSums emits the sums of a convolution. done reads and writes what is given besides.
func (p *planner) emitConvSums(c *integerConv, done convFinish, reads, writes []place.Memory) {
	if c.squares != nil {
		p.emitSquares(c, done, reads, writes)
		return
	}
	d := p.parts(c, p.sumRowsOf(c))
	ld := d.wide * quant.Panel
	c.product.LDC, c.taps.LDC = ld, ld
	sums, offsets, kernels := p.scratch(4*d.rows*ld), p.scratch(8*d.rows), p.integers
	st := step{work: 1, chunks: c.images * d.count(), grain: p.productGrain(d.rows, ld, c.depth())}
	st.body = func(st *state, worker, lo, hi int) {
		x, windows := sums.of(st, worker), asInts(offsets.bytes(st, worker))
		for i := lo; i < hi; i++ {
			part := d.at(i)
			c.windows(windows[:part.rows], part.row)
			c.sum(st, kernels, x, windows[:part.rows], &part)
			done(st, x, ld, part.image, part.row, part.rows, part.col, part.cols)
		}
	}
	p.emit(st, append([]place.Memory{c.image, c.packed, c.starts, c.zeros, c.pixelSums, c.late.sums, c.late.taps}, reads...), append([]place.Memory{sums.at, offsets.at}, writes...))
}

func roundUp(n, to int) int { return ceilDiv(n, to) * to }

// sum writes the sums of a part, whose windows these are.
func (c *integerConv) sum(st *state, kernels quant.Kernels, x []int32, windows []int, part *convPart) {
	if c.depthwise {
		whole, starts := st.Bytes(c.image)[part.image*c.padded():], of[int32](st, c.starts)
		for j := range part.panels {
			at := (part.panel + j) * quant.Panel
			kernels.Convolve(&c.taps, x[j*quant.Panel:], whole[at:], windows, c.block(st, part.panel+j), starts[at:])
		}
		return
	}
	a, b, start := c.operands(st, part)
	product, panel := c.product, part.group*c.panels()+part.panel
	product.Columns = c.sumsOf(st)[panel*quant.Panel:][:part.panels*quant.Panel]
	kernels.Multiply(&product, x, a, windows, b, start, part.panels)
	if zeros := of[int32](st, c.zeros); zeros != nil {
		pixelSums := of[int32](st, c.pixelSums)
		z := zeros[(part.group*c.panels()+part.panel)*quant.Panel:][:part.panels*quant.Panel]
		for k := range windows {
			kernels.Subtract(x[k*c.product.LDC:][:len(z)], z, c.windowSum(pixelSums, part.image, part.group, part.row+k))
		}
	}
}

// operands returns the image that the windows of a part lie in, its panels of weights, and what its sums begin with.
func (c *integerConv) operands(st *state, part *convPart) (a, b []byte, start []int32) {
	a = st.Bytes(c.image)[part.image*c.padded()+part.group*c.width:]
	panel := part.group*c.panels() + part.panel
	if b = c.own; b == nil {
		b = st.Bytes(c.packed)
	}
	return a, b[panel*quant.PanelBytes(c.depth()/4):], of[int32](st, c.starts)[panel*quant.Panel:]
}

// bytes returns a worker's part.
func (s scratch) bytes(st *state, worker int) []byte {
	return st.Bytes(s.at.Part(worker*s.size, s.size))
}

// asFloats returns words as float32. They share memory.
func asFloats(x []int32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// asBytes returns elements as bytes. They share memory.
func asBytes[T tensor.Element](x []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(one)))
}

// asInts returns bytes as int. They share memory.
func asInts(b []byte) []int {
	return unsafe.Slice((*int)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(0)))
}

// keepConvSums is the finish of convolutions whose result are the sums: planes of int32 at dst.
func (p *planner) keepConvSums(c *integerConv, dst place.Memory) convFinish {
	target, outputs, pixels := p.target, c.outputs(), c.pixels()
	return func(st *state, x []int32, ld, image, at, n, col, cols int) {
		reorder.Transpose2D(target, st.F32(dst)[(image*outputs+col)*pixels+at:], asFloats(x), n, cols, ld, pixels)
	}
}

func convIntegerSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	s, why := integerConvSignature(n, 2, 1, 3)
	if why != nil {
		return nil, why
	}
	return []graph.Signature{s}, nil
}

// convInteger emits what stands before the sums of a ConvInteger, whose operands and result these are.
func (p *planner) convInteger(n *graph.Node, in []*graph.Value, y *graph.Value) (*integerConv, error) {
	in = append(append([]*graph.Value{}, in...), nil, nil)[:4]
	return p.integerConv(n, p.integerOperand(in[0], in[2]), p.integerOperand(in[1], in[3]), y)
}

func planConvInteger(p *planner, n *graph.Node) error {
	dst := p.Out(n.Outputs[0])
	c, err := p.convInteger(n, n.Inputs, n.Outputs[0])
	if err != nil {
		return err
	}
	p.emitConvSums(c, p.keepConvSums(c, dst), nil, []place.Memory{dst})
	return nil
}

func init() {
	table.Register("ConvInteger", operator{Signatures: convIntegerSignatures, Plan: planConvInteger})
}
