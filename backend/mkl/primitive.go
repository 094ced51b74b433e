package mkl

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"
	"weak"

	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/place"
)

// primitive is a kernel for concrete shapes. It is immutable, may be executed by several threads at a time, as its scratch
// memory is the caller's, and is shared by everyone who asks for the same one.
type primitive struct {
	l                 *library
	key               string // what it is in the library's cache: all that it was made from
	threads           int
	product           bool    // a convolution or matrix product, which does the node's FLOPs
	nanos             float64 // estimate of its time on one thread
	handle            uintptr
	impl              string // the library's name of the implementation
	src, weights, dst *desc
	scratch           *desc
	scratchBytes      int64
}

// post is an operation on a primitive's result, element by element, in the order of a list.
type post struct {
	kind        postKind
	alg         eltwise
	alpha, beta float32
	src         shape // of postBinaryAdd
}

type postKind uint8

const (
	postEltwise   postKind = iota
	postSum                // adds what the destination held
	postBinaryAdd          // adds another tensor: the primitive's argument argMany·(1+index)+argSrc1
)

func postKey(list []post) string {
	var s strings.Builder
	for _, p := range list {
		fmt.Fprintf(&s, " %d,%d,%g,%g,%s", p.kind, p.alg, p.alpha, p.beta, p.src.key())
	}
	return s.String()
}

// binaryArg returns the argument number of the operand of post operation i.
func (l *library) binaryArg(i int) int32 {
	base := map[int]int32{2: 16384, 3: 32768}[l.major]
	return base*int32(i+1) | argSrc1
}

// attr makes the attributes of a primitive: scratch memory of the caller's, scales and zero points, and post operations.
func (l *library) attr(list []post, q scaling) (handle uintptr, free func(), err error) {
	a, o := new(cell), new(cell)
	free = func() {
		if o.v != 0 {
			_ = l.call("dnnl_post_ops_destroy", o.v)
		}
		if a.v != 0 {
			_ = l.call("dnnl_primitive_attr_destroy", a.v)
		}
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	if err = l.call("dnnl_primitive_attr_create", uintptr(unsafe.Pointer(a))); err != nil {
		return 0, nil, err
	}
	if err = l.call("dnnl_primitive_attr_set_scratchpad_mode", a.v, scratchpadUser); err != nil {
		return 0, nil, err
	}
	if err = l.setScaling(a.v, q); err != nil {
		return 0, nil, err
	}
	if len(list) == 0 {
		return a.v, free, nil
	}
	if err = l.call("dnnl_post_ops_create", uintptr(unsafe.Pointer(o))); err != nil {
		return 0, nil, err
	}
	for _, p := range list {
		if err = l.appendPost(o.v, p); err != nil {
			return 0, nil, err
		}
	}
	if err = l.call("dnnl_primitive_attr_set_post_ops", a.v, o.v); err != nil {
		return 0, nil, err
	}
	return a.v, free, nil
}

func (l *library) appendPost(ops uintptr, p post) error {
	switch p.kind {
	case postSum:
		if l.major == 2 {
			return status("dnnl_post_ops_append_sum", l.fl.sum2(ops, 1))
		}
		return status("dnnl_post_ops_append_sum", l.fl.sum3(ops, 1, 0, 0))
	case postBinaryAdd:
		d, err := l.desc(p.src)
		if err != nil {
			return err
		}
		defer runtime.KeepAlive(d)
		return l.call("dnnl_post_ops_append_binary", ops, uintptr(binaryAdd), d.c())
	case postEltwise:
	}
	n := eltwiseNumbers[l.major][p.alg]
	if n == 0 {
		return errUnimplemented
	}
	if l.major == 2 {
		return status("dnnl_post_ops_append_eltwise", l.fl.eltwisePO2(ops, 1, n, p.alpha, p.beta))
	}
	return status("dnnl_post_ops_append_eltwise", l.fl.eltwisePO3(ops, n, p.alpha, p.beta))
}

// opDesc is version 2's description of an operation, larger than all of them. It lies in the heap.
type opDesc struct{ raw [8192]byte }

func (o *opDesc) c() uintptr { return uintptr(unsafe.Pointer(&o.raw)) }

//go:noinline
func newOpDesc() *opDesc { return new(opDesc) }

// recipe says how to make a primitive, once for each major version. shapes are described in order and passed on.
type recipe struct {
	key    string // everything beside shapes and posts that the primitive depends on
	shapes []shape
	posts  []post
	scaled scaling
	// ops are its operations, for an estimate of its time. Those of a convolution or matrix product are its node's.
	ops     float64
	product bool
	v2      func(op uintptr, d []*desc) error        // fills in version 2's operation descriptor
	v3      func(out, attr uintptr, d []*desc) error // makes version 3's primitive descriptor
	direct  func(out, attr uintptr, d []*desc) error // makes it in both versions, where they agree
}

// describe makes the primitive descriptor of a recipe. It asks for none where a tensor has no elements: versions of the library
// divide by such a dim.
func (l *library) describe(r recipe) (pd uintptr, err error) {
	ds := make([]*desc, len(r.shapes))
	for i, s := range r.shapes {
		if slices.Contains(s.dims, 0) {
			return 0, errEmpty
		}
		if ds[i], err = l.desc(s); err != nil {
			return 0, err
		}
	}
	attr, free, err := l.attr(r.posts, r.scaled)
	if err != nil {
		return 0, err
	}
	defer free()
	out := new(cell)
	switch {
	case r.direct != nil:
		err = r.direct(uintptr(unsafe.Pointer(out)), attr, ds)
	case l.major == 2:
		op := newOpDesc()
		if err = r.v2(op.c(), ds); err == nil {
			err = l.call("dnnl_primitive_desc_create", uintptr(unsafe.Pointer(out)), op.c(), attr, l.engine, 0)
		}
		runtime.KeepAlive(op)
	default:
		err = r.v3(uintptr(unsafe.Pointer(out)), attr, ds)
	}
	runtime.KeepAlive(ds)
	runtime.KeepAlive(out)
	return out.v, err
}

// cache shares primitives between all who use the library. It keeps none alive.
type cache struct {
	mu sync.Mutex
	m  map[string]weak.Pointer[primitive]
}

// primitive returns the primitive of a recipe, for that many threads: one, or those of a team.
func (l *library) primitive(m *team, threads int, r recipe) (*primitive, error) {
	create := l.alone
	if threads > 1 {
		create = m.create
	}
	key := l.fullKey(r, threads)
	l.primitives.mu.Lock()
	p := l.primitives.m[key].Value()
	l.primitives.mu.Unlock()
	if p != nil {
		return p, nil
	}
	err := create(func() (err error) {
		if p, err = l.build(r); err == nil {
			p.key, p.threads, p.product, p.nanos = key, threads, r.product, r.nanos()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	l.primitives.mu.Lock()
	defer l.primitives.mu.Unlock()
	if first := l.primitives.m[key].Value(); first != nil {
		return first, nil
	}
	if l.primitives.m == nil {
		l.primitives.m = map[string]weak.Pointer[primitive]{}
	}
	l.primitives.m[key] = weak.Make(p)
	runtime.AddCleanup(p, l.forget, key)
	return p, nil
}

// forget removes the entry of a primitive that is gone.
func (l *library) forget(key string) {
	l.primitives.mu.Lock()
	defer l.primitives.mu.Unlock()
	if l.primitives.m[key].Value() == nil {
		delete(l.primitives.m, key)
	}
}

func (l *library) fullKey(r recipe, threads int) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d %s", threads, r.key)
	for _, x := range r.shapes {
		s.WriteByte(' ')
		s.WriteString(x.key())
	}
	s.WriteString(postKey(r.posts))
	s.WriteString(l.scalingKey(r.scaled))
	return s.String()
}

// handles are what a primitive holds in the library.
type handles struct{ primitive, pd uintptr }

// build makes a primitive; the library generates its code.
func (l *library) build(r recipe) (*primitive, error) {
	pd, err := l.describe(r)
	if err != nil {
		return nil, err
	}
	p := &primitive{l: l, impl: l.implOf(pd)}
	out := new(cell)
	if err := l.call("dnnl_primitive_create", uintptr(unsafe.Pointer(out)), pd); err != nil {
		_ = l.call("dnnl_primitive_desc_destroy", pd)
		return nil, err
	}
	p.handle = out.v
	runtime.AddCleanup(p, func(h handles) {
		_ = l.call("dnnl_primitive_destroy", h.primitive)
		_ = l.call("dnnl_primitive_desc_destroy", h.pd)
	}, handles{p.handle, pd})
	for _, q := range []struct {
		what uintptr
		to   **desc
	}{{querySrc, &p.src}, {queryWeights, &p.weights}, {queryDst, &p.dst}, {queryScratchpad, &p.scratch}} {
		if *q.to, err = l.borrowed(dl.Call(l.fn["dnnl_primitive_desc_query_md"], pd, q.what, 0)); err != nil {
			return nil, err
		}
	}
	p.scratchBytes = p.scratch.bytes()
	runtime.KeepAlive(p)
	return p, nil
}

// implOf returns the name of the implementation that the library chose.
func (l *library) implOf(pd uintptr) string {
	out := new(cell)
	if l.call("dnnl_primitive_desc_query", pd, queryImpl, 0, uintptr(unsafe.Pointer(out))) != nil || out.v == 0 {
		return ""
	}
	s := pointer(out.v)
	n := 0
	for *(*byte)(unsafe.Add(s, n)) != 0 && n < 256 {
		n++
	}
	return strings.Clone(unsafe.String((*byte)(s), n))
}

// slow reports whether an implementation is the library's plain one, which is there to be right and not to be fast.
func slow(impl string) bool { return strings.HasPrefix(impl, "ref") }

// answer is what the library says about a recipe without making the primitive.
type answer struct {
	impl    string
	weights *desc // that it likes best
	how     string
	err     error
}

// answers remembers them.
type answers struct {
	mu sync.Mutex
	m  map[string]answer
}

// ask finds out how the library would do something on all processors: the implementation, and the layout of weights.
func (l *library) ask(a *answers, r recipe) answer {
	key := l.fullKey(r, 0)
	a.mu.Lock()
	defer a.mu.Unlock()
	if x, ok := a.m[key]; ok {
		return x
	}
	x := answer{how: key}
	x.err = l.withThreads(runtime.GOMAXPROCS(0), func() error {
		pd, err := l.describe(r)
		if err != nil {
			return err
		}
		x.impl = l.implOf(pd)
		x.weights, _ = l.borrowed(dl.Call(l.fn["dnnl_primitive_desc_query_md"], pd, queryWeights, 0)) // many have none
		return l.call("dnnl_primitive_desc_destroy", pd)
	})
	if a.m == nil {
		a.m = map[string]answer{}
	}
	a.m[key] = x
	return x
}

// operand is an argument of a primitive that runs by itself.
type operand struct {
	id   int32
	d    *desc
	data []byte
}

// execute runs a primitive by itself, outside of any plan, on the calling thread.
func (p *primitive) execute(list []operand) error {
	l, stream := p.l, new(cell)
	if err := l.call("dnnl_stream_create", uintptr(unsafe.Pointer(stream)), l.engine, 1); err != nil {
		return err
	}
	defer func() { _ = l.call("dnnl_stream_destroy", stream.v) }()
	args := make([]execArg, len(list))
	for i, a := range list {
		if int64(len(a.data)) < a.d.bytes() {
			return place.ErrShort
		}
		m := new(cell)
		if err := l.call("dnnl_memory_create", uintptr(unsafe.Pointer(m)), a.d.c(), l.engine, uintptr(unsafe.Pointer(unsafe.SliceData(a.data)))); err != nil {
			return err
		}
		defer func() { _ = l.call("dnnl_memory_destroy", m.v) }()
		args[i] = execArg{id: a.id, memory: m.v}
	}
	err := l.call("dnnl_primitive_execute", p.handle, stream.v, uintptr(len(args)), uintptr(unsafe.Pointer(unsafe.SliceData(args))))
	runtime.KeepAlive(list)
	runtime.KeepAlive(p)
	return err
}
