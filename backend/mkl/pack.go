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
	"github.com/carve-dev/carve/internal/offheap"
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
func (p *planner) ownPack(v *graph.Value, from shape, to *desc, how string) (memory, error) {
	c := constantBehind(v)
	if c == nil || !c.IsConst() {
		return nowhere, fmt.Errorf("weights %v are not constant", v)
	}
	data := c.Const.Bytes()
	if len(data) == 0 {
		return nowhere, fmt.Errorf("weights %v are empty", v)
	}
	key := packKey{weak.Make(c.Const), from.key() + how}
	t := &p.l.packs
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.m[key].Value()
	if w == nil {
		src, err := p.l.desc(from)
		if err != nil {
			return nowhere, err
		}
		if w, err = p.l.reorderNow(src, to, data); err != nil {
			return nowhere, err
		}
		if t.m == nil {
			t.m = map[packKey]weak.Pointer[packed]{}
		}
		t.m[key] = weak.Make(w)
		runtime.AddCleanup(w, t.forget, key)
	}
	b := w.block.Bytes()
	p.slots = append(p.slots, slotInfo{kind: fromData, data: b, keep: w, first: -1})
	return memory{slot: len(p.slots) - 1, size: len(b)}, nil
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
		return nil, errShort
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
	if p.bytes(x) == p.bytes(y) && sameOrder(x.Format.Layout, y.Format.Layout, p.dims[x.ID]) {
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
	p.run(pr, 0, arg{argSrc, p.in(x), pr.src, false}, arg{argDst, p.out(y), pr.dst, true})
	return nil
}

// hostConvert is a reorder of carve's own, for what the library does not reorder.
func (p *planner) hostConvert(x, y *graph.Value) error {
	move, err := planMove(x, y, p.dims[x.ID])
	if err != nil {
		return err
	}
	src, dst := p.in(x), p.out(y)
	p.emit(step{host: func(st *state) error { return move(st.ctx, st.bytes(dst), st.bytes(src)) }}, []memory{src}, []memory{dst})
	return nil
}

// hostMove copies between two places.
type hostMove func(ctx context.Context, dst, src []byte) error
