package mkl

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"unsafe"
	"weak"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/offheap"
	"github.com/carve-dev/carve/internal/place"
)

// packed are weights in a layout that carve cannot describe, or that were chosen for concrete shapes only. They lie outside
// of Go's heap and are shared between all instances that want them.
type packed struct{ block *offheap.Block }

// packs are the packed weights that are in use, by the constant and what it was turned into. A constant is known by its
// identity: another one may come to lie at the address of one that is gone.
type packs struct {
	mu sync.Mutex
	m  map[packKey]weak.Pointer[packed]
}

type packKey struct {
	constant weak.Pointer[tensor.Tensor]
	how      string
}

// ownPack emits no step: it reorders a constant now, once for all who want it so, and makes a slot of the result.
func (p *planner) ownPack(v *graph.Value, from shape, to *desc, how string) (place.Memory, error) {
	c := fuse.Behind(v)
	if c == nil || !c.IsConst() {
		return place.Nowhere, fmt.Errorf("weights %v are not constant", v)
	}
	data := c.Const.Bytes()
	if len(data) == 0 {
		return place.Nowhere, fmt.Errorf("weights %v are empty", v)
	}
	key := packKey{weak.Make(c.Const), from.key() + how}
	t := &p.l.packs
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.m[key].Value()
	if w == nil {
		src, err := p.l.desc(from)
		if err != nil {
			return place.Nowhere, err
		}
		if w, err = p.l.reorderNow(src, to, data); err != nil {
			return place.Nowhere, err
		}
		if t.m == nil {
			t.m = map[packKey]weak.Pointer[packed]{}
		}
		t.m[key] = weak.Make(w)
		runtime.AddCleanup(w, t.forget, key)
	}
	return p.Own(w.block.Bytes(), w), nil
}

func (t *packs) forget(key packKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m[key].Value() == nil {
		delete(t.m, key)
	}
}

// reorderNow copies data, which src describes, to new memory as to describes it.
func (l *library) reorderNow(src, to *desc, data []byte) (*packed, error) {
	if int64(len(data)) < src.bytes() {
		return nil, place.ErrShort
	}
	block, err := offheap.Alloc(int(max(to.bytes(), 1)), 64)
	if err != nil {
		return nil, err
	}
	pd, pr, stream, a, b := new(cell), new(cell), new(cell), new(cell), new(cell)
	defer func() {
		for _, x := range []struct {
			call string
			c    *cell
		}{{"dnnl_memory_destroy", a}, {"dnnl_memory_destroy", b}, {"dnnl_stream_destroy", stream},
			{"dnnl_primitive_destroy", pr}, {"dnnl_primitive_desc_destroy", pd}} {
			if x.c.v != 0 {
				_ = l.call(x.call, x.c.v)
			}
		}
	}()
	for _, err := range []error{
		l.call("dnnl_reorder_primitive_desc_create", uintptr(unsafe.Pointer(pd)), src.c(), l.engine, to.c(), l.engine, 0),
		l.call("dnnl_stream_create", uintptr(unsafe.Pointer(stream)), l.engine, 1),
		l.call("dnnl_memory_create", uintptr(unsafe.Pointer(a)), src.c(), l.engine, uintptr(unsafe.Pointer(unsafe.SliceData(data)))),
		l.call("dnnl_memory_create", uintptr(unsafe.Pointer(b)), to.c(), l.engine, uintptr(unsafe.Pointer(unsafe.SliceData(block.Bytes())))),
	} {
		if err != nil {
			return nil, err
		}
	}
	if err := l.call("dnnl_primitive_create", uintptr(unsafe.Pointer(pr)), pd.v); err != nil {
		return nil, err
	}
	args := &[2]execArg{{id: argSrc, memory: a.v}, {id: argDst, memory: b.v}}
	err = l.call("dnnl_primitive_execute", pr.v, stream.v, 2, uintptr(unsafe.Pointer(args)))
	runtime.KeepAlive(src)
	runtime.KeepAlive(to)
	runtime.KeepAlive(data)
	return &packed{block}, err
}

// planConvert emits a change of layout inside of a group.
func planConvert(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if p.Bytes(x) == p.Bytes(y) && sameOrder(x.Format.Layout, y.Format.Layout, p.Dims[x.ID]) {
		p.alias(y, x)
		return nil
	}
	from, to := p.shape(x), p.shape(y)
	if from.dtype == 0 {
		return p.hostConvert(x, y)
	}
	pr, err := p.make(p.l.reorder(from, to))
	if err != nil {
		return p.hostConvert(x, y)
	}
	p.run(pr, 0, arg{argSrc, p.In(x), pr.src, false}, arg{argDst, p.Out(y), pr.dst, true})
	return nil
}

// hostConvert is a reorder of carve's own, for what the library does not reorder.
func (p *planner) hostConvert(x, y *graph.Value) error {
	move, err := planMove(x, y, p.Dims[x.ID])
	if err != nil {
		return err
	}
	src, dst := p.In(x), p.Out(y)
	p.emit(step{host: func(st *state) error { return move(st.ctx, st.Bytes(dst), st.Bytes(src)) }}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

// hostMove copies between two places.
type hostMove func(ctx context.Context, dst, src []byte) error
