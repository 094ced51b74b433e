package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/kernel/winograd"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
)

// Volumes are tensors of three spatial axes. In their blocked layout, [N, D, C/16, H, W, 16], a slice of the depth is an image
// as the kernels for two axes know it: a convolution is a sum of such over the depth of its kernel, and pooling goes over
// slices first and then over the depth.

var (
	volume = mustFormat("acBde16b")

	// Weights of convolutions over three axes: those over two, once per slice of the kernel's depth.
	denseVolumeWeights     = mustFormat("cABde16b16a")
	slimVolumeWeights      = mustFormat("cAbde16a")
	transposeVolumeWeights = mustFormat("cBAde16a16b")
)

// is5D reports whether v is a float32 tensor of rank 5, which may be a blocked volume.
func is5D(v *graph.Value) bool { return operators.IsFloat32(v) && v != nil && len(v.Type.Shape) == 5 }

// inBlocks reports whether a format has blocks of 16 channels.
func inBlocks(f graph.Format) bool { return f == blocked || f == volume }

// blockedFormat returns the blocked layout of a value; ok is false where it has none.
func blockedFormat(v *graph.Value) (f graph.Format, ok bool) {
	if is5D(v) {
		return volume, true
	}
	return blocked, is4D(v)
}

// slices2D returns the dims of a volume as those of images: its slices.
func slices2D(d []int) []int { return []int{d[0] * d[2], d[1], d[3], d[4]} }

// reorderVolume emits a change between the row-major and the blocked layout.
func (p *planner) reorderVolume(d []int, toBlocks bool, src, dst place.Memory) error {
	v, err := reorder.NewVolume(p.target, d[0], d[1], d[2], d[3]*d[4], toBlocks)
	if err != nil {
		return err
	}
	p.runMover(v, src, dst)
	return nil
}

// sliced returns where a row-major volume [N, C, D, H, W] lies as [N, D, C, H, W].
func (p *planner) sliced(d []int, src place.Memory) place.Memory {
	if d[2] == 1 || d[1] == 1 {
		return src
	}
	t := p.Temp(product(d) * 4)
	p.permute([]int{d[0], d[1], d[2], d[3] * d[4]}, []int{0, 2, 1, 3}, 4, src, t)
	return t
}

// depthTap is a slice of a kernel that meets a slice of the source.
type depthTap struct{ kernel, source int }

// depthRun is a run of slices of a result to which the same slices of the kernel contribute: count of them from first on, apart
// slices from one to the next. taps are those of the first; each further slice reads source slices that are step behind. A
// slice to which no slice of the kernel contributes is a run of its own.
type depthRun struct {
	first, count, apart, step int
	taps                      []depthTap
}

// depthRuns cuts the depth of a convolution's result into runs: in slices of the source and out of the result.
func depthRuns(w *graph.Window, transposed bool, in, out, begin int) []depthRun {
	apart, step := 1, w.Strides[0]
	if transposed {
		apart, step = step, apart
	}
	taps := func(o int) (list []depthTap) {
		for k := range w.Kernel[0] {
			i := o*w.Strides[0] + k*w.Dilations[0] - begin
			if transposed {
				if i = o + begin - k*w.Dilations[0]; i%w.Strides[0] != 0 {
					continue
				}
				i /= w.Strides[0]
			}
			if i >= 0 && i < in {
				list = append(list, depthTap{k, i})
			}
		}
		return list
	}
	sameKernel := func(a, b depthTap) bool { return a.kernel == b.kernel }
	var runs []depthRun
	for phase := range min(apart, out) {
		open := false
		for o := phase; o < out; o += apart {
			t := taps(o)
			if open && len(t) > 0 && slices.EqualFunc(t, runs[len(runs)-1].taps, sameKernel) {
				runs[len(runs)-1].count++
				continue
			}
			runs, open = append(runs, depthRun{first: o, count: 1, apart: apart, step: step, taps: t}), true
		}
	}
	return runs
}

// besideSource returns the map of a convolution with its source so far in the padding that no window meets it.
func besideSource(s conv.Spec) conv.Map {
	m := s.Map
	reach := (m.Kernel[0] - 1) * max(m.Dilate[0], 1)
	if s.Transposed {
		m.Pad[0] = m.H*max(m.Stride[0], 1) + reach
	} else {
		m.Pad[0] = (m.OH-1)*max(m.Stride[0], 1) + reach + 1
	}
	return m
}

// volumeConv emits a convolution or transposed convolution over three axes with its tail: for every run of slices of the
// result one planar convolution per tap, each of which adds to what those before it have left.
func (p *planner) volumeConv(n *graph.Node, in []*graph.Value, out *graph.Value, t tail) error {
	x, w := in[0], in[1]
	dx, dw, dy := p.Dims[x.ID], p.Dims[w.ID], p.Dims[out.ID]
	depth, empty := dx[2], product(dx[2:]) == 0
	if empty { // as beside an element
		dx, depth = []int{dx[0], dx[1], 1, max(dx[3], 1), max(dx[4], 1)}, 0
	}
	v := volumeSteps{p: p, tail: t, w: w, dx: dx, dw: dw, dy: dy, convCall: convCall{weights: place.Nowhere, residual: place.Nowhere},
		spec: conv.Spec{C: dx[1], OC: dy[1], Groups: int(n.Int("group", 1)), Transposed: n.Is("ConvTranspose")}}
	window, err := graph.ConvAttrs(n, dw[2:])
	if err != nil {
		return err
	}
	if v.spec.Map, err = convWindow(n, dx[2:], dw[2:], dy[2:]); err != nil {
		return err
	}
	begin, _ := window.Pads(0, dx[2], dy[2])
	if v.spec.Transposed {
		_, cut, _, err := window.ResolveTranspose(dx[2:])
		if err != nil {
			return err
		}
		begin = cut[0]
	}
	channels := ceilDiv(dx[1], 16) * 16
	if v.src = p.In(x); x.Format == rowMaj {
		v.spec.Source, v.src, channels = conv.Planar, p.sliced(dx, v.src), dx[1]
	}
	if empty {
		v.src = p.Temp(4 * dx[0] * channels * dx[3] * dx[4])
	}
	v.from, v.to = channels*dx[3]*dx[4], ceilDiv(dy[1], 16)*16*dy[3]*dy[4]
	var bias *graph.Value
	if len(in) > 2 {
		bias = in[2]
	}
	if err := p.convBias(&v.convCall, bias, ceilDiv(dy[1], 16)*16); err != nil {
		return err
	}
	if t.residual != nil {
		v.residual = p.In(t.residual)
	}
	v.dst = p.Out(out)
	v.m = winogradOf(w.Format.Layout)
	for _, run := range depthRuns(&window, v.spec.Transposed, depth, dy[2], begin) {
		s := v.spec
		if len(run.taps) == 0 { // bias and tail are all there is
			run.taps, s.Map = []depthTap{{}}, besideSource(v.spec)
		}
		for i := range run.taps {
			if err := v.emitTap(s, &run, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// volumeSteps is a convolution over three axes while its steps are emitted.
type volumeSteps struct {
	convCall // of all slices
	p        *planner
	spec     conv.Spec // of one slice
	tail     tail

	w          *graph.Value
	dx, dw, dy []int // of source, weights and result
	from, to   int   // floats of a slice of source and result
	m          int   // of F(m) where slices are convolved by Winograd's algorithm, else 0
}

// emitTap emits the convolutions, one per image, of a run's slices with the slice of the kernel of tap i. The first adds bias and
// residual, the others the result so far; the last applies the tail.
func (v *volumeSteps) emitTap(s conv.Spec, run *depthRun, i int) error {
	p, tap := v.p, run.taps[i]
	s.N = run.count
	if run.count > 1 {
		s.SrcImage, s.DstImage, s.ResImage = run.step*v.from, run.apart*v.to, run.apart*v.to
	}
	if i == len(run.taps)-1 {
		tail{act: v.tail.act, slopes: v.tail.slopes, levels: v.tail.levels}.epilogue(p.kernels, &s.Epilogue)
	}
	c := convCall{bias: v.bias, biasAt: v.biasAt, residual: v.residual, work: run.count}
	s.Residual = v.tail.residual != nil
	if i > 0 {
		c.bias, c.biasAt, c.residual, s.Residual = nil, place.Nowhere, v.dst, true
	}
	emit, size, err := v.planSlices(s)
	if err != nil {
		return err
	}
	c.weights = v.weights.Part(tap.kernel*size, size)
	for b := range v.dx[0] {
		part := func(m place.Memory, slices, first, apart, size int) place.Memory {
			if m.Slot < 0 {
				return m
			}
			return m.Part(4*size*(b*slices+first), 4*size*((run.count-1)*apart+1))
		}
		one := c
		one.src = part(v.src, v.dx[2], tap.source, run.step, v.from)
		one.residual = part(c.residual, v.dy[2], run.first, run.apart, v.to)
		one.dst = part(v.dst, v.dy[2], run.first, run.apart, v.to)
		emit(one)
	}
	return nil
}

// planSlices plans the convolution of slices, makes the weights ready, and returns what emits it, and the bytes of the weights of a slice of the kernel.
func (v *volumeSteps) planSlices(s conv.Spec) (emit func(convCall), size int, err error) {
	p := v.p
	if v.m > 0 {
		plan, err := winograd.NewPlan(p.target, v.m, s, p.e.threads)
		if err != nil {
			return nil, 0, err
		}
		size = 4 * plan.WeightFloats()
		if v.weights.Slot < 0 {
			v.weights = p.ConstantIn(v.w, v.w.Format, v.dw[2]*size)
		}
		return func(c convCall) { p.emitWinograd(plan, &c) }, size, nil
	}
	plan, err := conv.NewConv(p.target, s)
	if err != nil {
		return nil, 0, err
	}
	size = 4 * plan.WeightFloats()
	return func(c convCall) {
		c.plan = plan
		p.emitConv(c)
	}, size, v.ready(plan, size)
}

// ready makes the weights ready, of which those of a slice have so many bytes, once for all plans: these differ in their maps alone. Weights that
// are no constants are packed slice by slice.
func (v *volumeSteps) ready(plan *conv.Plan, one int) (err error) {
	if v.weights.Slot >= 0 {
		return nil
	}
	p, w, need := v.p, v.w, v.dw[2]*one
	if v.weights, err = p.packedBefore(w, need); err != nil || v.weights.Slot >= 0 {
		return err
	}
	slice := v.dw[3] * v.dw[4]
	slices, size := p.In(w), 4*v.dw[0]*v.dw[1]*slice
	if v.dw[2] > 1 {
		slices = p.Temp(v.dw[2] * size)
		p.permute([]int{1, v.dw[0] * v.dw[1], v.dw[2], slice}, []int{0, 2, 1, 3}, 4, p.In(w), slices)
	}
	v.weights = p.Temp(need)
	for k := range v.dw[2] {
		p.packWeightsTo(plan, slices.Part(k*size, size), v.weights.Part(k*one, one))
	}
	return nil
}

// volumePool emits a pooling over three axes: of slices, and then over the depth, where [H, W] of a slice is one axis. The
// mean over a box is that of means.
func (p *planner) volumePool(x, y *graph.Value, w *graph.Window, kind conv.Pooling) error {
	dx, dy := p.Dims[x.ID], p.Dims[y.ID]
	channels := ceilDiv(dx[1], 16) * 16
	src, dst := p.In(x), p.Out(y)
	flat := conv.PoolSpec{N: dx[0] * dx[2], C: dx[1], Map: windowMap(w, dx[2:], dy[2:]), Pooling: kind}
	between := dst
	deep := w.Kernel[0] != 1 || w.Strides[0] != 1 || dx[2] != dy[2]
	if deep {
		between = p.Temp(4 * dx[0] * dx[2] * channels * dy[3] * dy[4])
	}
	if err := p.pool(flat, src, between); err != nil || !deep {
		return err
	}
	begin, end := w.Pads(0, dx[2], dy[2])
	row := channels / 16 * dy[3] * dy[4]
	return p.pool(conv.PoolSpec{N: dx[0], C: 16, Pooling: kind, Map: conv.Map{H: dx[2], W: row, OH: dy[2], OW: row,
		Kernel: [2]int{w.Kernel[0], 1}, Stride: [2]int{w.Strides[0], 1}, Dilate: [2]int{w.Dilations[0], 1}, Pad: [4]int{begin, 0, end, 0}}}, between, dst)
}

// volumeGlobalPool emits the mean or maximum of each channel of a blocked volume to row-major [N, C].
func (p *planner) volumeGlobalPool(d []int, kind conv.Pooling, src, dst place.Memory) error {
	channels := ceilDiv(d[1], 16) * 16
	plan, err := conv.NewGlobalPool(p.target, d[0]*d[2], d[1], d[3]*d[4], kind, 0, 0)
	if err != nil {
		return err
	}
	slices := p.Temp(4 * d[0] * d[2] * channels)
	p.runMover(plan, src, slices)
	made := dst
	if d[1] != channels {
		made = p.Temp(4 * d[0] * channels)
	}
	row := channels / 16
	if err := p.pool(conv.PoolSpec{N: d[0], C: 16, Pooling: kind, Map: conv.Map{H: d[2], W: row, OH: 1, OW: row, Kernel: [2]int{d[2], 1}}}, slices, made); err != nil {
		return err
	}
	if d[1] != channels {
		p.strided(copySpec{dims: []int{d[0], d[1]}, src: []int{channels, 1}, dst: []int{d[1], 1}, size: 4}, made, dst)
	}
	return nil
}
