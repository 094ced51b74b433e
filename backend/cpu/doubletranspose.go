package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/place"
)

// Transposed convolutions of float64 over one to three axes: weights, transposed, times the source are what each element of the source
// adds to each of the results that it reaches. A chunk is a few channels of the result; it makes these products for parts of the source, in
// scratch memory of a worker, and adds them up in the order of the source, so that no division changes a bit.

// scatteredBytes bounds the products that a chunk makes at a time.
const scatteredBytes = 256 << 10

// doubleTranspose is a planned transposed convolution.
type doubleTranspose struct {
	doubleWindows     // weights are [groups, out·area, in]
	area          int // of a channel's weights
	block         int // channels of the result that a chunk makes
	wide          int // positions of the source in a part
}

func planDoubleTranspose(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	dx, dw, dy := p.Dims[x.ID], p.Dims[n.Inputs[1].ID], p.Dims[y.ID]
	w, err := graph.ConvAttrs(n, dw[2:])
	if err != nil {
		return err
	}
	c := &doubleTranspose{area: product(dw[2:]), doubleWindows: doubleWindows{depth: depthOf(&w, dx[2:], dy[2:]), images: dx[0], groups: w.Group,
		in: dx[1] / w.Group, out: dw[1], src: p.In(x), dst: p.Out(y), bias: p.In(n.Input(2))}}
	if c.Map, err = convWindow(n, dx[2:], dw[2:], dy[2:]); err != nil {
		return err
	}
	if len(dx) == 5 {
		_, begin, _, err := w.ResolveTranspose(dx[2:])
		if err != nil {
			return err
		}
		c.depth.pads = begin[0]
	}
	if product(dy) == 0 {
		return nil
	}
	positions := product(dx[2:])
	c.wide = min(max(scatteredBytes/(8*max(c.area, 1))/8*8, 8), max(positions, 1))
	c.block = min(max(scatteredBytes/(8*max(c.area, 1)*c.wide), 1), c.out)
	c.weights = p.Temp(p.Bytes(n.Inputs[1]))
	p.permute([]int{c.groups, c.in, c.out * c.area}, []int{0, 2, 1}, 8, p.In(n.Inputs[1]), c.weights)
	return p.doubleTranspose(c, positions)
}

// doubleTranspose emits the products, and what adds them up. The number of rows of a product and of positions may be smaller in the
// last chunk and in the last part.
func (p *planner) doubleTranspose(c *doubleTranspose, positions int) error {
	plan := func(channels, wide int) (*gemm.Plan, error) {
		return gemm.NewPlan(p.target, gemm.Spec{M: channels * c.area, N: wide, K: c.in, LDB: positions, B: gemm.Rows, Double: true})
	}
	var plans [2][2]*gemm.Plan // by whether it is the last chunk of a group, and the last part
	blocks, parts := ceilDiv(c.out, c.block), ceilDiv(positions, c.wide)
	for i, channels := range [2]int{c.block, c.out - (blocks-1)*c.block} {
		for j, wide := range [2]int{c.wide, positions - (parts-1)*c.wide} {
			var err error
			if plans[i][j], err = plan(channels, max(wide, 0)); err != nil {
				return err
			}
		}
	}
	scratch := p.scratch(8 * c.block * c.area * c.wide)
	kernels, result := p.doubles(), c.depth.out*c.OH*c.OW
	cost := float64(parts) * float64(2*plans[0][0].Cost()) / 30
	p.emit(step{work: 1, chunks: c.images * c.groups * blocks, grain: grainFor(cost), body: func(st *state, worker, lo, hi int) {
		d, s, w, b, sums := f64(st, c.dst), f64(st, c.src), f64(st, c.weights), f64(st, c.bias), scratch.doubles(st, worker)
		for i := lo; i < hi; i++ {
			one, block := i/blocks, i%blocks // one is an image's group
			first := one%c.groups*c.out + block*c.block
			channels, last := c.block, 0
			if block == blocks-1 {
				channels, last = c.out-block*c.block, 1
			}
			planes := d[(one/c.groups*c.groups*c.out+first)*result:][:channels*result]
			fillPlanes(planes, b, first, result)
			for part := range parts {
				from, ends := part*c.wide, 0
				if part == parts-1 {
					ends = 1
				}
				n := min(c.wide, positions-from)
				run := plans[last][ends]
				run.RunDouble(0, run.Chunks(), gemm.Doubles{A: w[first*c.area*c.in:], B: s[one*c.in*positions+from:], C: sums})
				for k := range channels {
					c.scatter(kernels, planes[k*result:][:result], sums[k*c.area*n:][:c.area*n], from, n)
				}
			}
		}
	}}, []place.Memory{c.src, c.weights, c.bias}, []place.Memory{scratch.at, c.dst})
	return nil
}

// fillPlanes sets planes to the bias of their channels, from number first on, or to 0.
func fillPlanes(planes, bias []float64, first, size int) {
	if bias == nil {
		clear(planes)
		return
	}
	for i := range planes {
		planes[i] = bias[first+i/size]
	}
}

// scatter adds to a channel of the result what n positions of the source, from one on, give for each tap.
func (c *doubleTranspose) scatter(kernels double.Kernels, plane, sums []float64, from, n int) {
	area := c.Kernel[0] * c.Kernel[1]
	for k := range c.area {
		row := sums[k*n:][:n]
		dz := k/area*c.depth.dilate - c.depth.pads
		dy, dx := k%area/c.Kernel[1]*c.Dilate[0]-c.Pad[0], k%c.Kernel[1]*c.Dilate[1]-c.Pad[1]
		for at := from; len(row) > 0; {
			line, x := at/c.W, at%c.W
			count := min(c.W-x, len(row))
			z, y := line/c.H*c.depth.stride+dz, line%c.H*c.Stride[0]+dy
			if z >= 0 && z < c.depth.out && y >= 0 && y < c.OH {
				c.spread(kernels, plane[(z*c.OH+y)*c.OW:][:c.OW], row[:count], x*c.Stride[1]+dx)
			}
			row, at = row[count:], at+count
		}
	}
}

// spread adds elements to a row of the result, a stride apart from x on; what lies outside of it is dropped.
func (c *doubleTranspose) spread(kernels double.Kernels, line, row []float64, x int) {
	stride := c.Stride[1]
	lo := min(len(row), max(0, ceilDiv(-x, stride)))
	hi := min(len(row), max(lo, ceilDiv(len(line)-x, stride)))
	if lo == hi {
		return
	}
	if stride == 1 {
		to := line[x+lo : x+hi]
		kernels.Binary(double.Add, double.VV, to, to, row[lo:hi])
		return
	}
	for i := lo; i < hi; i++ {
		line[x+i*stride] += row[i]
	}
}

func init() {
	registerDoubles(operator{Signatures: doubleConvSignatures, Plan: planDoubleTranspose}, 0, "ConvTranspose")
}
