package mkl

import (
	"context"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/offheap"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/internal/pool"
	"github.com/carve-dev/carve/property"
)

// instance is a subgraph for concrete shapes.
type instance struct {
	e     *executable
	steps []step
	slots []place.Slot
	reqs  backend.Requirements
	solo  bool // every primitive has one thread
	calls int  // of users' kernels
}

// Requirements implements backend.Instance.
func (in *instance) Requirements() backend.Requirements { return in.reqs }

// state is an instance bound to a session's memory. What the library sees of it lies outside of Go's heap.
type state struct {
	place.Storage
	in     *instance
	ctx    context.Context
	run    *pool.Run     // of carve's workers, parked but while a user's kernel runs
	calls  []call        // one per step
	lists  [][][]float32 // of host steps, by step
	single *dl.Frame
	trace  func(int)
	job    func() // for an executor: runs the steps, and says so to over
	over   chan struct{}
	err    error
	block  *offheap.Block

	kernels []*property.KernelArgs // of users' kernels
}

// call is a step's call of the library, prepared once.
type call struct {
	frame *dl.Frame
	args  []boundArg
}

// boundArg is an argument: a memory object of the library's, and the address that it was given last.
type boundArg struct {
	memory uintptr
	at     unsafe.Pointer
}

// execArg is the library's dnnl_exec_arg_t.
type execArg struct {
	id     int32
	_      int32
	memory uintptr
}

// Enqueue implements backend.Instance: it runs the steps and returns when they are done.
func (in *instance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	if in.e.b.fail == "run" {
		return nil, errInjected
	}
	st, ok := a.Local.(*state)
	if !ok || st.in != in {
		var err error
		if st, err = in.newState(); err != nil {
			return nil, err
		}
		a.Local = st
	}
	if err := st.BindTo(a); err != nil {
		return nil, err
	}
	st.ctx, st.trace = ctx, a.Trace
	if a.Workers != nil {
		st.run = a.Workers.Run
	}
	err := in.e.team.run(ctx, st)
	st.ctx, st.trace, st.run = nil, nil, nil
	st.Unbind()
	return nil, err
}

// held are a state's objects in the library.
type held struct {
	l        *library
	memories []uintptr
	stream   uintptr
}

func (h *held) free() {
	for _, m := range h.memories {
		_ = h.l.call("dnnl_memory_destroy", m)
	}
	if h.stream != 0 {
		_ = h.l.call("dnnl_stream_destroy", h.stream)
	}
}

// newState prepares the calls of a session.
func (in *instance) newState() (*state, error) {
	l := in.e.b.l
	st := &state{in: in, Storage: place.NewStorage(in.slots), calls: make([]call, len(in.steps)),
		lists: make([][][]float32, len(in.steps)), over: make(chan struct{}, 1)}
	frame, arg := int(unsafe.Sizeof(dl.Frame{})), int(unsafe.Sizeof(execArg{}))
	size := frame
	for i := range in.steps {
		size += frame + arg*len(in.steps[i].args)
	}
	st.job = func() {
		st.guarded()
		st.over <- struct{}{}
	}
	var err error
	if st.block, err = offheap.Alloc(size, 64); err != nil {
		return nil, err
	}
	at := unsafe.Pointer(unsafe.SliceData(st.block.Bytes()))
	take := func(n int) unsafe.Pointer {
		p := at
		at = unsafe.Add(at, n)
		return p
	}
	h := &held{l: l}
	runtime.AddCleanup(st, (*held).free, h)
	out := new(cell)
	if err := l.call("dnnl_stream_create", uintptr(unsafe.Pointer(out)), l.engine, 1); err != nil {
		return nil, err
	}
	h.stream = out.v
	st.single = (*dl.Frame)(take(frame))
	for i := range in.steps {
		s := &in.steps[i]
		if s.primitive == nil {
			st.lists[i] = make([][]float32, len(s.sources))
			continue
		}
		c := &st.calls[i]
		c.frame = (*dl.Frame)(take(frame))
		args := take(arg * len(s.args))
		*c.frame = dl.Frame{Fn: l.fn["dnnl_primitive_execute"], Args: [dl.FrameArgs]uintptr{s.primitive.handle, h.stream, uintptr(len(s.args)), uintptr(args)}}
		for k, x := range s.args {
			// Without an address yet: giving one clears padding, which only the step's own turn may do.
			if err := l.call("dnnl_memory_create", uintptr(unsafe.Pointer(out)), x.d.c(), l.engine, 0); err != nil {
				return nil, err
			}
			runtime.KeepAlive(x.d)
			h.memories = append(h.memories, out.v)
			c.args = append(c.args, boundArg{memory: out.v})
			*(*execArg)(unsafe.Add(args, k*arg)) = execArg{id: x.id, memory: out.v}
		}
	}
	if in.e.b.fail == "execute" {
		for i := len(st.calls) - 1; i >= 0; i-- {
			if f := st.calls[i].frame; f != nil {
				f.Args[0] = 0 // no primitive: the library refuses
				break
			}
		}
	}
	return st, nil
}

// pollEvery is how many steps run between looks at the context.
const pollEvery = 8

// steps runs the steps in order, on a thread with the team's number of threads set. The library wants the number that a
// primitive was made for when it is executed, too.
func (st *state) steps() error {
	l, most := st.in.e.b.l, st.in.e.threads
	if st.in.solo {
		most = 1
	}
	now := most
	defer func() {
		if now != most {
			st.use(l, most)
		}
	}()
	for i := range st.in.steps {
		s := &st.in.steps[i]
		if s.host != nil {
			if err := s.host(st); err != nil {
				return err
			}
		} else {
			if s.primitive.threads != now {
				now = s.primitive.threads
				st.use(l, now)
			}
			if err := st.invoke(i); err != nil {
				return err
			}
		}
		if st.trace != nil {
			st.trace(i)
		}
		if i%pollEvery == pollEvery-1 {
			if err := st.ctx.Err(); err != nil {
				return err
			}
		}
	}
	runtime.KeepAlive(st.in)
	return st.ctx.Err()
}

// use sets the library's number of threads for this thread.
func (st *state) use(l *library, threads int) {
	if l.setThreads != 0 {
		*st.single = dl.Frame{Fn: l.setThreads, Args: [dl.FrameArgs]uintptr{uintptr(threads)}}
		dl.Invoke(st.single)
	}
}

// invoke executes one primitive. It gives the library addresses that changed since the session's last run.
func (st *state) invoke(i int) error {
	s, c := &st.in.steps[i], &st.calls[i]
	for k := range c.args {
		x := &c.args[k]
		p := st.At(s.args[k].at)
		if p == x.at {
			continue
		}
		l := st.in.e.b.l
		*st.single = dl.Frame{Fn: l.setData, Args: [dl.FrameArgs]uintptr{x.memory, uintptr(p)}}
		dl.Invoke(st.single)
		if err := status("dnnl_memory_set_data_handle", int32(st.single.Ret)); err != nil {
			return err
		}
		x.at = p
	}
	dl.Invoke(c.frame)
	if int32(c.frame.Ret) != 0 {
		return fmt.Errorf("%v: %w", st.in.reqs.Labels[i].Name, status("dnnl_primitive_execute", int32(c.frame.Ret)))
	}
	return nil
}
