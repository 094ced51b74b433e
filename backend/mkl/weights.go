package mkl

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"unsafe"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
	"github.com/carve-dev/carve/internal/place"
)

// Weights are formats of constants: what the library chose for them is decoded into a layout of carve's where it is a
// permutation and blocking, and gets a name as an opaque layout of this backend's elsewhere, such as weights in Winograd's
// frequency domain. Either way package convert packs them, once per constant and format.

// packedLayout is a layout of weights that carve cannot describe. It is one of tensors of its dims only, and immutable.
type packedLayout struct {
	l      *library
	format graph.Format
	dims   []int // of the constant
	from   shape // the constant as the model has it, in the library's terms
	to     shape
	packed int  // bytes in the library's layout, rounded up to whole cache lines
	keeps  bool // the constant as the model has it lies behind: the library knows no way back
}

// packedLayouts are those that the backend has come across.
type packedLayouts struct {
	mu   sync.Mutex
	list []*packedLayout
	m    map[graph.Layout]*packedLayout
}

// packedAlign is the alignment of both parts of packed weights, in bytes.
const packedAlign = 64

// weightFormat returns the format of a constant of these dims for the descriptor that the library chose. from describes the
// constant as the model has it; decode turns a structure in the library's terms into a layout of the constant, and how
// names all that the descriptor was chosen for: two descriptors never share a name.
func (b *mkl) weightFormat(dims []int, from shape, to *desc, decode func(blocking) (graph.Layout, bool), how string) (graph.Format, error) {
	if to == nil {
		return graph.Format{}, fmt.Errorf("%w: it names no layout of weights", ErrStatus)
	}
	s, blocked := to.blocking(len(from.dims))
	simple := blocked && s.plainOffset && int64(s.elements()*dtypeBytes(from.dtype)) == to.bytes()
	if simple {
		if l, ok := decode(s); ok {
			return graph.On(l), nil
		}
	}
	kind, content := "packed", how
	switch {
	case simple:
		kind, content = "blocked", fmt.Sprint(s)
	case to.isWinograd():
		kind, content = "winograd", fmt.Sprint(to.raw[atStrides:atStrides+winogradBytes])
	}
	h := fnv.New64a()
	fmt.Fprint(h, from.key(), content)
	name := kind
	for _, d := range from.dims {
		name += fmt.Sprintf("-%d", d)
	}
	l, err := graph.OpaqueLayout("mkl", b.l.version(), fmt.Sprintf("%s-%016x", name, h.Sum64()))
	if err != nil {
		return graph.Format{}, err
	}
	b.packed.mu.Lock()
	defer b.packed.mu.Unlock()
	if b.packed.m[l] != nil {
		return graph.On(l), nil
	}
	for _, f := range b.packed.list { // chosen for something else, which other shapes of one model are
		if f.from.key() == from.key() && slices.Equal(f.dims, dims) && f.to.known.equal(to) {
			return f.format, nil
		}
	}
	f := &packedLayout{l: b.l, format: graph.On(l), dims: slices.Clone(dims), from: from,
		to: shape{dims: from.dims, layout: l, dtype: from.dtype, known: to}}
	f.packed = (int(to.bytes()) + packedAlign - 1) / packedAlign * packedAlign
	f.keeps = !simple || !b.l.reorders(f.to, f.from)
	if b.packed.m == nil {
		b.packed.m = map[graph.Layout]*packedLayout{}
	}
	b.packed.m[l], b.packed.list = f, append(b.packed.list, f)
	return graph.On(l), nil
}

// packedLayout returns what stands behind an opaque layout, nil for another's.
func (b *mkl) packedLayout(l graph.Layout) *packedLayout {
	b.packed.mu.Lock()
	defer b.packed.mu.Unlock()
	return b.packed.m[l]
}

// ConvertersOf implements convert.Source.
func (b *mkl) ConvertersOf(l graph.Layout) []convert.Converter {
	f := b.packedLayout(l)
	if f == nil {
		return nil
	}
	one := func(name string, from, to graph.Format, plan func() (convert.Move, error)) convert.Converter {
		return convert.Converter{Name: name, From: from, To: to, Cost: convert.HostCost,
			Supports: func(dt tensor.DType, rank int) bool { return dtypeOf(dt) == f.from.dtype && rank == len(f.dims) },
			Size: func(_ graph.Format, dt tensor.DType, dims []int) (int64, error) {
				return int64(f.bytes()), f.check(dt, dims)
			},
			Plan: func(dt tensor.DType, dims []int) (convert.Move, error) {
				if err := f.check(dt, dims); err != nil {
					return nil, err
				}
				return plan()
			}}
	}
	return []convert.Converter{one("mkl-pack", graph.HostFormat, f.format, f.pack), one("mkl-unpack", f.format, graph.HostFormat, f.unpack)}
}

// check returns why a tensor cannot be packed so.
func (f *packedLayout) check(dt tensor.DType, dims []int) error {
	if dtypeOf(dt) != f.from.dtype || !slices.Equal(dims, f.dims) {
		return fmt.Errorf("%w: %v%v in %v, which is for %v", tensor.ErrShape, dt, dims, f.format, f.dims)
	}
	return nil
}

// plainBytes is the size of the constant as the model has it.
func (f *packedLayout) plainBytes() int { return product(f.dims) * dtypeBytes(f.from.dtype) }

// bytes is the size of the packed weights.
func (f *packedLayout) bytes() int {
	if f.keeps {
		return f.packed + f.plainBytes()
	}
	return f.packed
}

// pack plans the way into the layout.
func (f *packedLayout) pack() (convert.Move, error) {
	r, err := f.l.newReordering(f.from, f.to)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, dst, src *tensor.Tensor, _ convert.Exec) error {
		d, s, err := f.storage(ctx, dst, src, f.bytes(), f.plainBytes())
		if err != nil {
			return err
		}
		if f.keeps {
			copy(d[f.packed:], s)
		}
		return r.run(d, s)
	}, nil
}

// unpack plans the way back.
func (f *packedLayout) unpack() (convert.Move, error) {
	if f.keeps {
		return func(ctx context.Context, dst, src *tensor.Tensor, _ convert.Exec) error {
			d, s, err := f.storage(ctx, dst, src, f.plainBytes(), f.bytes())
			if err == nil {
				copy(d, s[f.packed:])
			}
			return err
		}, nil
	}
	r, err := f.l.newReordering(f.to, f.from)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, dst, src *tensor.Tensor, _ convert.Exec) error {
		d, s, err := f.storage(ctx, dst, src, f.plainBytes(), f.bytes())
		if err != nil {
			return err
		}
		return r.run(d, s)
	}, nil
}

// storage returns the bytes of both ends of a conversion.
func (f *packedLayout) storage(ctx context.Context, dst, src *tensor.Tensor, to, from int) (d, s []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if len(dst.Data)-dst.Offset < to || len(src.Data)-src.Offset < from {
		return nil, nil, fmt.Errorf("%w: %v needs a source of %d bytes, and has %d, and a destination of %d, and has %d", tensor.ErrShape, f.format,
			from, max(len(src.Data)-src.Offset, 0), to, max(len(dst.Data)-dst.Offset, 0))
	}
	return dst.Data[dst.Offset : dst.Offset+to], src.Data[src.Offset : src.Offset+from], nil
}

// reorders reports whether the library knows a way from one layout to another.
func (l *library) reorders(from, to shape) bool {
	pd, err := l.describe(l.reorder(from, to))
	if err == nil {
		_ = l.call("dnnl_primitive_desc_destroy", pd)
	}
	return err == nil
}

// reordering copies constants from one layout to another, on one thread.
type reordering struct {
	pr       *primitive
	src, dst *desc
	size     int // of elements
}

func (l *library) newReordering(from, to shape) (*reordering, error) {
	pr, err := l.primitive(nil, 1, l.reorder(from, to))
	if err != nil {
		return nil, err
	}
	src, err := l.desc(from)
	if err != nil {
		return nil, err
	}
	dst, err := l.desc(to)
	return &reordering{pr: pr, src: src, dst: dst, size: dtypeBytes(from.dtype)}, err
}

// run reorders. Storage that is not aligned to its elements, as a file may have it, is copied first. Copies and scratch
// memory, which may be as large as the result, lie outside of Go's heap and are freed at once.
func (r *reordering) run(dst, src []byte) error {
	if uintptr(unsafe.Pointer(unsafe.SliceData(src)))%uintptr(r.size) != 0 {
		b, err := offheap.Alloc(len(src), packedAlign)
		if err != nil {
			return err
		}
		defer func() { _ = b.Free() }()
		copy(b.Bytes(), src)
		src = b.Bytes()
	}
	args := []operand{{argSrc, r.src, src}, {argDst, r.dst, dst}}
	if n := int(r.pr.scratchBytes); n > 0 {
		b, err := offheap.Alloc(n, packedAlign)
		if err != nil {
			return err
		}
		defer func() { _ = b.Free() }()
		args = append(args, operand{argScratchpad, r.pr.scratch, b.Bytes()})
	}
	return r.pr.l.withThreads(1, func() error { return r.pr.execute(args) })
}

// constant returns where a constant lies in a format: as the subgraph has it, or as one that the instance asks for.
func (p *planner) constant(v *graph.Value, f graph.Format) (place.Memory, error) {
	if !v.IsConst() {
		return place.Nowhere, fmt.Errorf("weights %v are no constant of the group", v)
	}
	size, err := p.b.formatBytes(f, v)
	return p.ConstantIn(v, f, size), err
}

// formatBytes returns the size of a constant in a format.
func (b *mkl) formatBytes(f graph.Format, v *graph.Value) (int, error) {
	if w := b.packedLayout(f.Layout); w != nil {
		return w.bytes(), w.check(v.Const.DType, v.Const.Shape)
	}
	n, err := graph.PhysicalSize(f, v.Const.DType, v.Const.Shape)
	return int(n), err
}
