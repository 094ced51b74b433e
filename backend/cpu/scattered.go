package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
)

// A transposed convolution of few results, which would leave most of a block of 16 without work, is a product: weights, transposed, times the source are what
// each element of the source adds to each of the results that it reaches. Blocks of these overlap, and are added up as Col2Im does. Inverse Fourier transforms
// of sound are such, and the last layers of generators and of detectors of text.

// scatteredWeights are the formats of the weights [C, OC, kernel...] by their rank, transposed: [OC, kernel..., C].
var scatteredWeights = map[int]graph.Format{3: mustFormat("bca"), 4: mustFormat("bcda"), 5: mustFormat("bcdea")}

const (
	mostScattered = 4  // results
	mostOverlaps  = 16 // blocks that reach an element of the image, about: as many times as large are all blocks together
	addingTaps    = 40 // multiply-adds that take as long as it does to add an element
)

// scatters reports whether a transposed convolution with constant weights is computed so.
func scatters(n *graph.Node) bool {
	w := n.Inputs[1]
	dims, static := w.Type.Shape.Static()
	if !static || !w.IsConst() || n.Int("group", 1) != 1 || dims[1] < 1 || dims[1] > mostScattered || dims[1]*(dims[0]+addingTaps) >= 8*dims[0] {
		return false
	}
	overlaps := product(dims[2:])
	strides, _ := n.Ints("strides")
	for _, s := range strides {
		overlaps /= max(1, int(min(s, int64(overlaps)+1)))
	}
	return overlaps <= mostOverlaps
}

// scatteredSignature is that of such a convolution.
func scatteredSignature(n *graph.Node) graph.Signature {
	s := operators.RowMajor(n)[0]
	s.Name = "columns"
	s.Inputs[1] = graph.Fixed(scatteredWeights[len(n.Inputs[1].Type.Shape)])
	return s
}

// scattered emits such a convolution with its tail.
func (p *planner) scattered(n *graph.Node, in []*graph.Value, out *graph.Value, t tail) error {
	dx, dw, dy := p.Dims[in[0].ID], p.Dims[in[1].ID], p.Dims[out.ID]
	w, err := graph.ConvAttrs(n, dw[2:])
	if err != nil {
		return err
	}
	_, begin, _, err := w.ResolveTranspose(dx[2:])
	if err != nil {
		return err
	}
	one := poolAxis{in: 1, out: 1, kernel: 1, stride: 1, dilate: 1}
	axes := [3]poolAxis{one, one, one}
	for i := range begin {
		axes[3-len(begin)+i] = poolAxis{in: dy[2+i], out: dx[2+i], kernel: w.Kernel[i], stride: w.Strides[i], dilate: w.Dilations[i], begin: begin[i]}
	}
	l := newOverlapped(axes, 4)
	rows := dy[1] * l.taps
	blocks := p.Temp(4 * dx[0] * rows * l.positions)
	spec := gemm.Spec{M: rows, N: l.positions, K: dx[1], B: gemm.Rows}
	if err := p.imageProducts(spec, dx[0], p.ConstantIn(in[1], in[1].Format, 4*rows*dx[1]), p.In(in[0]), blocks); err != nil {
		return err
	}
	dst := p.Out(out)
	p.addBlocks(l, blocks, dst, dy[0]*dy[1])
	bias := place.Nowhere
	if len(in) > 2 && in[2] != nil {
		bias = p.In(in[2])
	}
	p.finishPlanes(dst, bias, dy[0]*dy[1], dy[1], product(dy[2:]), t)
	return nil
}

// imageProducts emits the products of a matrix and so many images, each of which is one.
func (p *planner) imageProducts(spec gemm.Spec, images int, a, b, c place.Memory) error {
	batch := gemm.Batch{A: make([]int, images), B: make([]int, images), C: make([]int, images)}
	for i := range images {
		batch.B[i], batch.C[i] = i*spec.K*spec.N, i*spec.M*spec.N
	}
	if spec.LDB = spec.N; packsFirst(p.target, &spec) {
		b, batch.B = p.packedFirst(b, batch.B, &spec)
		spec.B, spec.LDB = gemm.Packed, 0
	}
	plan, err := gemm.NewPlan(p.target, spec)
	if err != nil {
		return err
	}
	p.emit(step{work: 1, chunks: images * plan.Chunks(), grain: productGrain(plan), body: func(st *state, _, lo, hi int) {
		plan.RunBatch(lo, hi, gemm.Args{A: st.F32(a), B: st.F32(b), C: st.F32(c)}, batch)
	}}, []place.Memory{a, b}, []place.Memory{c})
	return nil
}

// finishPlanes emits what is done with planes of so many numbers that lie one behind the other: the bias of their channel is added, and what comes behind that.
func (p *planner) finishPlanes(planes, bias place.Memory, count, channels, size int, t tail) {
	kernels, post := p.kernels, t.post(p.kernels)
	if bias.Slot < 0 && post == nil && !t.act.clip && t.slopes == nil {
		return
	}
	const part = 4 << 10
	parts := ceilDiv(size, part)
	p.emit(step{chunks: count * parts, grain: grainFor(part / 4), body: func(st *state, _, lo, hi int) {
		all, b := st.F32(planes), st.F32(bias)
		for i := lo; i < hi; i++ {
			plane, from := i/parts, i%parts*part
			x := all[plane*size+from : plane*size+min(from+part, size)]
			if b != nil {
				kernels.BinaryScalar(vec.Add, x, x, b[plane%channels])
			}
			if t.act.clip {
				kernels.ApplyRows(vec.Clip, x, len(x), x, len(x), 1, len(x), vec.Params{A: t.act.lo, B: t.act.hi})
			}
			if t.slopes != nil {
				kernels.BinaryScalar(vec.PRelu, x, x, t.slopes.of(plane%channels))
			}
			if post != nil {
				post(x)
			}
		}
	}}, []place.Memory{planes, bias}, []place.Memory{planes})
}
