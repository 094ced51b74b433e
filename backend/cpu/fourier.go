package cpu

import (
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/fourier"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// DFT and STFT of float32 and float64, row-major. Transforms are made in float64, inverse ones of float32 in that type, as package reference makes
// them; a forward one of an even number of real numbers is one of half as many complex numbers.

// longestTransform bounds the tables of a transform, which lie beside the plan's memory; longer ones run on the reference kernels.
const longestTransform = 1 << 22

// columns is how many transforms along an inner axis are read and written side by side: those that share cache lines.
const columns = 8

// spectra are transforms of rows of numbers that lie some stride apart.
type spectra struct {
	rows                         int // outer ones, each of inner rows that lie side by side
	inner                        int
	perBatch, batchStep, rowStep int // where row i begins: i/perBatch·batchStep + i%perBatch·rowStep
	in, length, bins             int // numbers that there are, that are transformed, and results
	channels, parts              int // 1 for real numbers, 2 for complex ones: operand and result
	inverse, mirrored            bool
	src, window, dst             place.Memory // window's size is 0 for none
}

func fourierSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if dt := x.Type.DType; dt != tensor.Float32 && dt != tensor.Float64 {
		return nil, operators.NotFloat32(x)
	}
	for i, v := range n.Inputs[1:] {
		switch {
		case v == nil:
		case n.Is("STFT") && i == 1:
			if v.Type.DType != x.Type.DType {
				return nil, property.Because(property.DTypeReason, "a window of %v", v.Type)
			}
		case v.Dims == nil || !v.IsConst() && !v.IsDims():
			return nil, property.Because(property.Unsupported, "operand %v is not known at compile time", v)
		}
	}
	return operators.RowMajor(n), nil
}

func planDFT(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d, dy := p.Dims[x.ID], p.Dims[y.ID]
	rank := len(d)
	axis := axisOf(n, 1, rank)
	if n.Op.Since >= 20 {
		axis = rank - 2
		if list, err := p.Ints(n.Input(2)); err != nil || len(list) > 1 {
			return property.Because(property.ShapeReason, "axis %v", list)
		} else if len(list) == 1 {
			axis = (list[0] + rank) % rank
		}
	}
	s := &spectra{rows: product(d[:axis]), inner: product(d[axis+1 : rank-1]), perBatch: 1, in: d[axis], bins: dy[axis], channels: d[rank-1], parts: dy[rank-1],
		window: place.Nowhere, inverse: n.Int("inverse", 0) != 0}
	onesided := n.Int("onesided", 0) != 0
	s.mirrored = onesided && s.inverse
	s.batchStep = s.in * s.inner * s.channels
	s.length = s.in
	if s.mirrored {
		s.length = 2 * (s.in - 1)
	}
	if list, err := p.Ints(n.Input(1)); err != nil || len(list) > 1 {
		return property.Because(property.ShapeReason, "dft_length %v", list)
	} else if len(list) == 1 {
		s.length = list[0]
	}
	s.src, s.dst = p.In(x), p.Out(y)
	return s.plan(p, x.Type.DType)
}

func planSTFT(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d, dy := p.Dims[x.ID], p.Dims[y.ID]
	s := &spectra{rows: dy[0] * dy[1], inner: 1, perBatch: dy[1], bins: dy[2], channels: 1, parts: 2, src: p.In(x), window: p.In(n.Input(2)), dst: p.Out(y)}
	if len(d) == 3 {
		s.channels = d[2]
	}
	s.length = d[1]
	if w := n.Input(2); w != nil {
		s.length = product(p.Dims[w.ID])
	}
	step, err := p.Ints(n.Inputs[1])
	if err != nil || len(step) != 1 {
		return property.Because(property.ShapeReason, "frame_step %v", step)
	}
	if list, err := p.Ints(n.Input(3)); err != nil || len(list) > 1 || len(list) == 1 && n.Input(2) != nil && list[0] != s.length {
		return property.Because(property.ShapeReason, "frame_length %v", list)
	} else if len(list) == 1 {
		s.length = list[0]
	}
	s.in, s.batchStep, s.rowStep = s.length, d[1]*s.channels, step[0]*s.channels
	if s.length > d[1] || step[0] < 1 || (d[1]-s.length)/step[0]+1 != dy[1] {
		return property.Because(property.ShapeReason, "frames of %d every %v of %d", s.length, step, d[1])
	}
	return s.plan(p, x.Type.DType)
}

// plan emits the transforms.
func (s *spectra) plan(p *planner, dt tensor.DType) error {
	most := s.length
	if !s.mirrored && s.length/2+1 == s.bins {
		most = s.bins
	}
	if s.length < 1 || s.length > longestTransform || s.bins != most || s.channels < 1 || s.channels > 2 {
		return property.Because(property.ShapeReason, "a transform of %d numbers to %d", s.length, s.bins)
	}
	switch {
	case s.inverse && dt == tensor.Float32 && fourier.Single(s.length):
		planSpectra[float32, float32](p, s)
	case dt == tensor.Float32:
		planSpectra[float32, float64](p, s)
	default:
		planSpectra[float64, float64](p, s)
	}
	return nil
}

// planSpectra plans transforms of elements E that are made in T.
func planSpectra[E, T fourier.Float](p *planner, s *spectra) {
	t := &transforms[E, T]{spectra: s, width: min(s.inner, columns)}
	if s.channels == 1 && !s.inverse && s.length%2 == 0 {
		t.real = fourier.NewReal[T](s.length)
		t.each, t.work = s.length/2, t.real.Half.Scratch()+s.length/2+1
	} else {
		t.whole = fourier.New[T](s.length, s.inverse)
		t.each, t.work = s.length, t.whole.Scratch()
	}
	room := p.scratch((t.width*t.each + t.work) * int(unsafe.Sizeof(fourier.Complex[T]{})))
	tiles := ceilDiv(s.inner, max(t.width, 1))
	p.emit(step{chunks: s.rows * tiles, grain: grainFor(float64(t.each*t.width) * 12), body: func(st *state, worker, lo, hi int) {
		mem := complexes[T](room.bytes(st, worker))
		x, w, y := of[E](st, s.src), of[E](st, s.window), of[E](st, s.dst)
		for i := lo; i < hi; i++ {
			first := i % tiles * t.width
			t.tile(x, w, y, mem, i/tiles, first, min(t.width, s.inner-first))
		}
	}}, []place.Memory{s.src, s.window}, []place.Memory{s.dst, room.at})
}

func complexes[T fourier.Float](b []byte) []fourier.Complex[T] {
	return unsafe.Slice((*fourier.Complex[T])(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(fourier.Complex[T]{})))
}

// transforms are spectra with what makes them.
type transforms[E, T fourier.Float] struct {
	*spectra
	real       *fourier.Real[T] // of real numbers, an even number of them
	whole      *fourier.Transform[T]
	width      int // rows of a tile
	each, work int // numbers of a row, and scratch
}

// tile makes the transforms of some rows that lie side by side.
func (t *transforms[E, T]) tile(x, w, y []E, mem []fourier.Complex[T], row, first, count int) {
	rows, rest := mem[:t.width*t.each], mem[t.width*t.each:]
	x = x[row/t.perBatch*t.batchStep+row%t.perBatch*t.rowStep+first*t.channels:]
	if t.real != nil {
		t.readPairs(rows, x, w, count)
	} else {
		t.read(rows, x, w, count)
	}
	stride := t.inner * t.parts
	y = y[row*t.bins*stride+first*t.parts:]
	for c := range count {
		z := rows[c*t.each:][:t.each]
		if t.real == nil {
			t.whole.Run(z, rest)
			t.write(y[c*t.parts:], z, stride)
			continue
		}
		bins := rest[:t.each+1]
		t.real.Run(bins, z, rest[t.each+1:])
		t.write(y[c*2:], bins[:min(len(bins), t.bins)], stride)
		for k := len(bins); k < t.bins; k++ { // the other half, which is its mirror image
			v := bins[t.length-k]
			y[k*stride+c*2], y[k*stride+c*2+1] = E(v.Re), -E(v.Im)
		}
	}
}

// read reads rows, with zeros behind what there is, or with the half that symmetry leaves out.
func (t *transforms[E, T]) read(rows []fourier.Complex[T], x, w []E, count int) {
	there := min(t.in, t.length)
	for c := range count {
		row := rows[c*t.each:][:t.each]
		clear(row[there:])
	}
	for k := range there {
		at, by := k*t.inner*t.channels, T(1)
		if w != nil {
			by = T(w[k])
		}
		for c := range count {
			v := fourier.Complex[T]{Re: T(x[at]) * by}
			if t.channels == 2 {
				v.Im = T(x[at+1]) * by
			}
			at += t.channels
			rows[c*t.each+k] = v
			if t.mirrored && k > 0 && t.length-k >= t.in {
				rows[c*t.each+t.length-k] = fourier.Complex[T]{Re: v.Re, Im: -v.Im}
			}
		}
	}
}

// readPairs reads rows of real numbers, two of which make a complex one.
func (t *transforms[E, T]) readPairs(rows []fourier.Complex[T], x, w []E, count int) {
	there := min(t.in, t.length)
	for c := range count {
		row := rows[c*t.each:][:t.each]
		clear(row[there/2:])
	}
	for k := range there {
		by := T(1)
		if w != nil {
			by = T(w[k])
		}
		for c := range count {
			v := T(x[k*t.inner+c]) * by
			if p := &rows[c*t.each+k/2]; k%2 == 0 {
				p.Re = v
			} else {
				p.Im = v
			}
		}
	}
}

// write writes the first bins of a row.
func (t *transforms[E, T]) write(y []E, z []fourier.Complex[T], stride int) {
	for k := range min(t.bins, len(z)) {
		at := k * stride
		y[at] = E(z[k].Re)
		if t.parts == 2 {
			y[at+1] = E(z[k].Im)
		}
	}
}

func init() {
	dft, stft := operator{Signatures: fourierSignatures, Plan: planDFT}, operator{Signatures: fourierSignatures, Plan: planSTFT}
	table.Register("DFT", dft)
	table.Register("STFT", stft)
	doubleTable.Register("DFT", dft)
	doubleTable.Register("STFT", stft)
}
