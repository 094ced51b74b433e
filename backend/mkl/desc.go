package mkl

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/dl"
)

// shape describes a tensor to the library: dims and either a layout of carve's, strides in elements, or any layout that
// the library likes best.
type shape struct {
	dims    []int
	layout  graph.Layout
	strides []int
	any     bool
	known   *desc // a descriptor of the library's own, which layout names
	dtype   int32
}

func plain(dims ...int) shape { return shape{dims: dims, dtype: dtypeF32} }

func in(l graph.Layout, dims []int) shape { return shape{dims: dims, layout: l, dtype: dtypeF32} }

func anyOf(dims []int) shape { return shape{dims: dims, any: true, dtype: dtypeF32} }

// key identifies a shape in keys of caches.
func (s shape) key() string {
	if s.dims == nil {
		return "-"
	}
	b := appendInts(strconv.AppendInt(make([]byte, 0, 64), int64(s.dtype), 10), s.dims)
	switch {
	case s.any:
		b = append(b, '?')
	case s.known != nil:
		b = append(append(b, '='), s.layout.String()...)
	case s.strides != nil:
		b = appendInts(append(b, '/'), s.strides)
	default:
		b = append(b, s.layout.String()...)
	}
	return string(b)
}

// appendInts writes a list of numbers as fmt does.
func appendInts(b []byte, list []int) []byte {
	b = append(b, '[')
	for i, n := range list {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, ']')
}

// maxDims is the most dims of a memory descriptor.
const maxDims = 12

// descBytes is the size of version 2's memory descriptor.
const descBytes = 696

// desc is a memory descriptor: a struct of the caller's in version 2, a handle in version 3. It is immutable, and lies in
// the heap.
type desc struct {
	l      *library
	raw    [descBytes]byte
	handle uintptr
}

// c returns what the library knows the descriptor by; d has to be kept alive until the call is over.
func (d *desc) c() uintptr {
	if d == nil {
		return 0
	}
	if d.l.major == 2 {
		return uintptr(unsafe.Pointer(&d.raw))
	}
	return d.handle
}

// newDesc is not inlined, so that descriptors lie in the heap whatever becomes of them.
//
//go:noinline
func (l *library) newDesc(handle uintptr) *desc {
	d := &desc{l: l, handle: handle}
	if handle != 0 {
		runtime.AddCleanup(d, func(h uintptr) { _ = l.call("dnnl_memory_desc_destroy", h) }, handle)
	}
	return d
}

// dimsBlock is an array of dims that C reads.
type dimsBlock [maxDims]int64

// dimsOf is not inlined, so that the array lies in the heap.
//
//go:noinline
func dimsOf(dims []int) *dimsBlock {
	b := new(dimsBlock)
	for i, n := range dims {
		if i < maxDims {
			b[i] = int64(n)
		}
	}
	return b
}

// desc makes the descriptor of a shape, nil for a shape without dims.
func (l *library) desc(s shape) (*desc, error) {
	if s.dims == nil {
		return nil, nil
	}
	if len(s.dims) > maxDims || len(s.dims) == 0 {
		return nil, fmt.Errorf("%w: rank %d", ErrStatus, len(s.dims))
	}
	if s.known != nil {
		return s.known, nil
	}
	if s.any {
		return l.descByTag(s.dims, s.dtype, tagAny)
	}
	strides := s.strides
	if strides == nil {
		d, err := s.layout.Describe(len(s.dims))
		if err != nil {
			return nil, err
		}
		if len(d.Blocks) > 0 {
			tag, err := l.tags.find(l, len(s.dims), s.layout.String())
			if err != nil {
				return nil, err
			}
			return l.descByTag(s.dims, s.dtype, tag)
		}
		strides = make([]int, len(s.dims))
		n := 1
		for k := len(d.Order) - 1; k >= 0; k-- {
			strides[d.Order[k]] = n
			n *= max(s.dims[d.Order[k]], 1)
		}
	}
	ds, st := dimsOf(s.dims), dimsOf(strides)
	if l.major == 2 {
		d := l.newDesc(0)
		return d, l.call("dnnl_memory_desc_init_by_strides", d.c(), uintptr(len(s.dims)), uintptr(unsafe.Pointer(ds)), uintptr(s.dtype), uintptr(unsafe.Pointer(st)))
	}
	out := new(cell)
	if err := l.call("dnnl_memory_desc_create_with_strides", uintptr(unsafe.Pointer(out)), uintptr(len(s.dims)), uintptr(unsafe.Pointer(ds)), uintptr(s.dtype), uintptr(unsafe.Pointer(st))); err != nil {
		return nil, err
	}
	return l.newDesc(out.v), nil
}

func (l *library) descByTag(dims []int, dtype int32, tag int) (*desc, error) {
	ds := dimsOf(dims)
	if l.major == 2 {
		d := l.newDesc(0)
		return d, l.call("dnnl_memory_desc_init_by_tag", d.c(), uintptr(len(dims)), uintptr(unsafe.Pointer(ds)), uintptr(dtype), uintptr(tag))
	}
	out := new(cell)
	if err := l.call("dnnl_memory_desc_create_with_tag", uintptr(unsafe.Pointer(out)), uintptr(len(dims)), uintptr(unsafe.Pointer(ds)), uintptr(dtype), uintptr(tag)); err != nil {
		return nil, err
	}
	return l.newDesc(out.v), nil
}

// borrowed copies a descriptor that belongs to a primitive descriptor.
func (l *library) borrowed(p uintptr) (*desc, error) {
	if p == 0 {
		return nil, nil
	}
	if l.major == 2 {
		d := l.newDesc(0)
		d.raw = *(*[descBytes]byte)(pointer(p))
		return d, nil
	}
	out := new(cell)
	if err := l.call("dnnl_memory_desc_clone", uintptr(unsafe.Pointer(out)), p); err != nil {
		return nil, err
	}
	return l.newDesc(out.v), nil
}

// bytes returns the size of the tensor, padding included.
func (d *desc) bytes() int64 {
	if d == nil {
		return 0
	}
	n := int64(dl.Call(d.l.fn["dnnl_memory_desc_get_size"], d.c()))
	runtime.KeepAlive(d)
	return n
}

// equal reports whether two descriptors describe the same storage.
func (d *desc) equal(o *desc) bool {
	same := int32(dl.Call(d.l.fn["dnnl_memory_desc_equal"], d.c(), o.c())) != 0
	runtime.KeepAlive(d)
	runtime.KeepAlive(o)
	return same
}

// blocking is a descriptor's structure.
type blocking struct {
	dims, padded, strides []int64
	blocks                []graph.Block
	plainOffset           bool // nothing lies before the first element, and nothing else is unusual
}

// blocking reads the structure of a descriptor; ok is false where it is not of blocks.
func (d *desc) blocking(rank int) (blocking, bool) {
	if d.l.major == 2 {
		return d.blocking2(rank)
	}
	return d.blocking3(rank)
}

// Offsets in version 2's memory descriptor.
const (
	atDims        = 8
	atPadded      = 112
	atPaddedStart = 208
	atOffset      = 304
	atKind        = 312
	atStrides     = 320
	atBlocks      = 416
	atBlockSize   = 424
	atBlockDim    = 520
	atFlags       = 616

	winogradBytes = 40 // of what describes Winograd's weights, at atStrides
)

// isWinograd reports whether d is one of weights in Winograd's frequency domain, which version 3 has not.
func (d *desc) isWinograd() bool {
	return d.l.major == 2 && *(*int32)(unsafe.Pointer(&d.raw[atKind])) == formatWinograd
}

func (d *desc) blocking2(rank int) (blocking, bool) {
	at := func(off, n int) []int64 {
		return slices.Clone(unsafe.Slice((*int64)(unsafe.Pointer(&d.raw[off])), n))
	}
	if *(*int32)(unsafe.Pointer(&d.raw[atKind])) != formatBlocked {
		return blocking{}, false
	}
	b := blocking{dims: at(atDims, rank), padded: at(atPadded, rank), strides: at(atStrides, rank)}
	n := int(*(*int32)(unsafe.Pointer(&d.raw[atBlocks])))
	sizes, dims := at(atBlockSize, maxDims), at(atBlockDim, maxDims)
	for i := range min(n, maxDims) {
		b.blocks = append(b.blocks, graph.Block{Dim: int(dims[i]), Size: int(sizes[i])})
	}
	b.plainOffset = at(atOffset, 1)[0] == 0 && at(atFlags, 1)[0] == 0
	for _, x := range at(atPaddedStart, rank) {
		b.plainOffset = b.plainOffset && x == 0
	}
	return b, true
}

func (d *desc) blocking3(rank int) (blocking, bool) {
	out := new(cell)
	ask := func(what uintptr) bool {
		out.v = 0
		err := d.l.call("dnnl_memory_desc_query", d.handle, what, uintptr(unsafe.Pointer(out)))
		runtime.KeepAlive(d)
		return err == nil
	}
	list := func(what uintptr, n int) []int64 {
		if !ask(what) || out.v == 0 {
			return nil
		}
		return slices.Clone(unsafe.Slice((*int64)(pointer(out.v)), n))
	}
	if !ask(queryFormatKind) || int32(out.v) != formatBlocked {
		return blocking{}, false
	}
	b := blocking{dims: list(queryDims, rank), padded: list(queryPadded, rank), strides: list(queryStrides, rank), plainOffset: true}
	if !ask(queryBlocks) || b.dims == nil || b.padded == nil || b.strides == nil {
		return b, false
	}
	n := min(int(int32(out.v)), maxDims)
	if n > 0 {
		sizes, dims := list(queryBlockSize, n), list(queryBlockDim, n)
		if sizes == nil || dims == nil {
			return b, false
		}
		for i := range n {
			b.blocks = append(b.blocks, graph.Block{Dim: int(dims[i]), Size: int(sizes[i])})
		}
	}
	return b, true
}

// elements returns the number of elements, padding included.
func (b blocking) elements() int {
	n := 1
	for _, d := range b.padded {
		n *= int(d)
	}
	return n
}

// layout decodes a descriptor of that rank; ok is false where carve's layouts cannot describe it.
func (d *desc) layout(rank int) (l graph.Layout, ok bool) {
	b, ok := d.blocking(rank)
	if !ok || !b.plainOffset || rank > 8 {
		return l, false
	}
	return b.layout()
}

// layout turns a structure into carve's terms: the dims from the largest stride to the smallest, and the blocks. It is
// described where the storage is compact and padding goes to the next multiple of the blocks.
func (b blocking) layout() (graph.Layout, bool) {
	rank := len(b.dims)
	order := make([]int, rank)
	inner := make([]int64, rank)
	for i := range order {
		order[i], inner[i] = i, 1
	}
	unit := int64(1)
	for _, x := range b.blocks {
		if x.Dim < 0 || x.Dim >= rank || x.Size < 1 {
			return graph.Layout{}, false
		}
		inner[x.Dim] *= int64(x.Size)
		unit *= int64(x.Size)
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case b.strides[i] > b.strides[j]:
			return -1
		case b.strides[i] < b.strides[j]:
			return 1
		}
		return 0
	})
	for i := range rank {
		if b.padded[i] != (b.dims[i]+inner[i]-1)/inner[i]*inner[i] {
			return graph.Layout{}, false
		}
	}
	next := unit
	for k := rank - 1; k >= 0; k-- {
		i := order[k]
		n := b.padded[i] / inner[i]
		if n != 1 && b.strides[i] != next {
			return graph.Layout{}, false
		}
		next *= n
	}
	return tagLayout(order, b.blocks)
}

// tagLayout writes an order and blocks as a layout.
func tagLayout(order []int, blocks []graph.Block) (graph.Layout, bool) {
	var s strings.Builder
	split := map[int]bool{}
	for _, x := range blocks {
		split[x.Dim] = true
	}
	for _, i := range order {
		c := byte('a' + i)
		if split[i] {
			c = byte('A' + i)
		}
		s.WriteByte(c)
	}
	for _, x := range blocks {
		fmt.Fprintf(&s, "%d%c", x.Size, 'a'+x.Dim)
	}
	l, err := graph.ParseLayout(s.String())
	return l, err == nil
}

// tagTable finds the library's number of a blocked layout. The numbers change with every version, so the library is asked
// once for each number that it knows what it stands for.
type tagTable struct {
	mu sync.Mutex
	of map[int]map[string]int // rank → tag → number
}

// lastTag is beyond the numbers of all known versions.
const lastTag = 2048

func (t *tagTable) find(l *library, rank int, tag string) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.of[rank]
	if m == nil {
		m = map[string]int{}
		dims := make([]int, rank)
		for i := range dims {
			dims[i] = 256
		}
		for n := tagAny + 1; n < lastTag; n++ {
			d, err := l.descByTag(dims, dtypeF32, n)
			if err != nil {
				continue
			}
			if s, ok := d.layout(rank); ok {
				if _, dup := m[s.String()]; !dup {
					m[s.String()] = n
				}
			}
		}
		if t.of == nil {
			t.of = map[int]map[string]int{}
		}
		t.of[rank] = m
	}
	if n, ok := m[tag]; ok {
		return n, nil
	}
	return 0, fmt.Errorf("%w: it has no layout %s", ErrStatus, tag)
}

// dtypeOf returns the library's number of an element type, 0 where it has none.
func dtypeOf(dt tensor.DType) int32 {
	switch dt {
	case tensor.Float32:
		return dtypeF32
	case tensor.Int32:
		return dtypeS32
	case tensor.Int8:
		return dtypeS8
	case tensor.Uint8:
		return dtypeU8
	}
	return 0
}

// dtypeBytes is the size of an element, in bytes.
func dtypeBytes(dtype int32) int {
	switch dtype {
	case dtypeS8, dtypeU8:
		return 1
	}
	return 4
}
