package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Compile implements backend.Backend.
func (b *Backend) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	return b.make(ctx, sub, o, nil)
}

// make compiles a group, or loads it from what it was saved as where that is not nil.
func (b *Backend) make(ctx context.Context, sub *graph.Graph, o backend.CompileOptions, saved []byte) (backend.Executable, error) {
	if b.closed.Load() {
		return nil, fmt.Errorf("%w: %s is closed", backend.ErrUnavailable, b.p.info.Name)
	}
	l := b.p.l
	w, done := b.p.writer()
	defer done()
	d, err := l.describeGroup(w, sub)
	if err != nil {
		return nil, err
	}
	weights := b.asONNX(ctx, w, d, sub)
	opts, h, cancel := one[cOptions](w), one[uint64](w), one[int32](w)
	*opts = cOptions{size: uint32(unsafe.Sizeof(*opts)), threads: int32(min(o.Threads, 1<<20)), cancel: address(cancel)}
	if w.err != nil {
		return nil, w.err
	}
	end := watch(ctx, cancel)
	if saved != nil {
		from := one[cSaved](w)
		*from = cSaved{size: uint32(unsafe.Sizeof(*from)), data: uintptr(unsafe.Pointer(unsafe.SliceData(saved))), len: uint64(len(saved))}
		err = b.p.do(w, "load", l.table.load, uintptr(b.p.handle), address(d.at), address(opts), address(from), address(h))
	} else {
		err = b.p.do(w, "compile", l.table.compile, uintptr(b.p.handle), address(d.at), address(opts), address(h))
	}
	end()
	if ctx.Err() != nil {
		if err == nil && *h != 0 {
			_ = b.p.plain("executable_close", l.table.executableClose, uintptr(*h))
		}
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if *h == 0 {
		return nil, fmt.Errorf("%w: compile gave no executable", ErrPlugin)
	}
	b.open.Add(1)
	e := &executable{b: b, sub: sub, handle: *h, symbols: d.symbols, constants: d.constants, nodes: d.nodes, sessions: map[uint64]*page{}, instances: map[uint64]bool{}, dead: &garbage{},
		saved: saved, weights: weights}
	return e, nil
}

// watch sets a flag, which C reads, when ctx ends. end takes the watch away: nothing is written once it has returned.
func watch(ctx context.Context, flag *int32) (end func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		atomic.StoreInt32(flag, 1)
		close(over)
	})
	return func() {
		if !stop() {
			<-over
		}
	}
}

// executable is a compiled group. Instances and sessions of it have no end of their own: those that nobody holds any more
// are closed when the next is made, and all of them with the executable. Nothing of the plugin is called by the collector.
type executable struct {
	b         *Backend
	sub       *graph.Graph
	handle    uint64
	symbols   []graph.Dim      // by number minus one
	constants []*graph.Value   // in the order of runs
	nodes     []*graph.Node    // in the order of the description
	saved     []byte           // that the plugin may read, and
	weights   []*tensor.Tensor // those of the graph as a model

	mu        sync.Mutex
	closed    bool
	instances map[uint64]bool
	sessions  map[uint64]*page // with the memory of their arguments
	dead      *garbage
}

// garbage are handles that nobody holds any more. The collector puts them here.
type garbage struct {
	mu        sync.Mutex
	sessions  []uint64
	instances []uint64
}

// deadSession is a session that nobody holds: the plugin's handle, and the token of its runs.
type deadSession struct{ handle, token uint64 }

func (g *garbage) session(d deadSession) {
	runs.take(d.token)
	g.mu.Lock()
	g.sessions = append(g.sessions, d.handle)
	g.mu.Unlock()
}

func (g *garbage) instance(h uint64) {
	g.mu.Lock()
	g.instances = append(g.instances, h)
	g.mu.Unlock()
}

func (g *garbage) take() (sessions, instances []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	sessions, instances = g.sessions, g.instances
	g.sessions, g.instances = nil, nil
	return sessions, instances
}

// sweep closes what nobody holds. It is called with the lock held.
func (e *executable) sweep() error {
	sessions, instances := e.dead.take()
	return errors.Join(e.closeSessions(sessions), e.closeInstances(instances))
}

func (e *executable) closeSessions(list []uint64) error {
	var err error
	for _, h := range list {
		if p := e.sessions[h]; p != nil {
			err = errors.Join(err, e.b.p.plain("session_close", e.b.p.l.table.sessionClose, uintptr(h)))
			p.end()
			delete(e.sessions, h)
		}
	}
	return err
}

func (e *executable) closeInstances(list []uint64) error {
	var err error
	for _, h := range list {
		if e.instances[h] {
			err = errors.Join(err, e.b.p.plain("instance_close", e.b.p.l.table.instanceClose, uintptr(h)))
			delete(e.instances, h)
		}
	}
	return err
}

// Close implements backend.Executable.
func (e *executable) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	err := errors.Join(e.closeSessions(slices.Sorted(maps.Keys(e.sessions))), e.closeInstances(slices.Sorted(maps.Keys(e.instances))))
	e.b.open.Add(-1)
	return errors.Join(err, e.b.p.plain("executable_close", e.b.p.l.table.executableClose, uintptr(e.handle)))
}

// Specialize implements backend.Executable.
func (e *executable) Specialize(_ context.Context, b graph.Bindings) (backend.Instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fmt.Errorf("%w: the group is closed", backend.ErrUnavailable)
	}
	if err := e.sweep(); err != nil {
		return nil, err
	}
	l := e.b.p.l
	w, done := e.b.p.writer()
	defer done()
	var bindings []cBinding
	for i, dim := range e.symbols {
		n, err := dim.Eval(b)
		if errors.Is(err, graph.ErrUnbound) {
			continue // it depends on data
		}
		if err != nil {
			return nil, err
		}
		bindings = append(bindings, cBinding{symbol: uint32(i) + 1, value: n})
	}
	h := one[uint64](w)
	if err := e.b.p.do(w, "specialize", l.table.specialize, uintptr(e.handle), list(w, bindings), uintptr(len(bindings)), address(h)); err != nil {
		return nil, err
	}
	if *h == 0 {
		return nil, fmt.Errorf("%w: specialize gave no instance", ErrPlugin)
	}
	e.instances[*h] = true
	in := &instance{e: e, handle: *h, bindings: b}
	runtime.AddCleanup(in, e.dead.instance, *h)
	if err := in.read(w); err != nil {
		return nil, err
	}
	return in, nil
}

// instance is a group for concrete shapes.
type instance struct {
	e        *executable
	handle   uint64
	bindings graph.Bindings
	needs    backend.Requirements
}

// Requirements implements backend.Instance.
func (in *instance) Requirements() backend.Requirements { return in.needs }

// read asks for the requirements.
func (in *instance) read(w *writer) error {
	e := in.e
	r := &in.needs
	r.Steps = 1
	out := one[uintptr](w)
	if w.err != nil {
		return w.err
	}
	var c cRequirements
	if fn := e.b.p.l.table.requirements; fn != 0 {
		if err := e.b.p.plain("requirements", fn, uintptr(in.handle), address(out)); err != nil {
			return err
		}
		var err error
		if c, err = view[cRequirements](*out, "requirements"); err != nil {
			return err
		}
	}
	if c.steps < 0 || c.steps > maxList {
		return fmt.Errorf("%w: requirements of %d sub-steps", ErrPlugin, c.steps)
	}
	r.Steps, r.NoReuse = max(int(c.steps), 1), c.flags&requirementsNoReuse != 0
	var err error
	if r.Inputs, err = in.portUses(c.inputs, e.sub.Inputs, "input"); err != nil {
		return err
	}
	if r.Outputs, err = in.portUses(c.outputs, e.sub.Outputs, "output"); err != nil {
		return err
	}
	if err := in.readBuffers(&c); err != nil {
		return err
	}
	return in.readLabels(&c)
}

// portUses reads how ports are used; where the plugin says nothing they are compact, and in use all the time.
func (in *instance) portUses(at uintptr, values []*graph.Value, what string) ([]backend.PortUse, error) {
	var list []cPort
	if at != 0 {
		var err error
		if list, err = views[cPort](at, uint64(len(values)), what); err != nil {
			return nil, err
		}
	}
	uses := make([]backend.PortUse, len(values))
	for i, v := range values {
		u := backend.PortUse{Last: in.needs.Steps - 1}
		if list != nil {
			c := list[i]
			if c.first < 0 || c.last < c.first || int(c.last) >= in.needs.Steps || c.bytes < 0 || c.align < 0 || c.align&(c.align-1) != 0 {
				return nil, fmt.Errorf("%w: %s %d: sub-steps %d to %d of %d, %d bytes aligned to %d", ErrPlugin, what, i, c.first, c.last,
					in.needs.Steps, c.bytes, c.align)
			}
			u = backend.PortUse{Bytes: c.bytes, First: int(c.first), Last: int(c.last), Strided: c.flags&portStrided != 0, Align: c.align}
		}
		if u.Bytes == 0 {
			var err error
			if u.Bytes, err = in.bytes(v); err != nil {
				return nil, err
			}
		}
		uses[i] = u
	}
	return uses, nil
}

// bytes is the physical size of a value, 0 where its shape depends on data.
func (in *instance) bytes(v *graph.Value) (int64, error) {
	dims, err := v.Type.Shape.Eval(in.bindings, nil)
	if errors.Is(err, graph.ErrUnbound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return in.e.b.size(v.Format, v.Type.DType, dims)
}

func (in *instance) readBuffers(c *cRequirements) error {
	r := &in.needs
	buffers, err := views[cBuffer](c.buffers, c.nBuffers, "buffer")
	if err != nil {
		return err
	}
	for i, b := range buffers {
		if b.first < 0 || b.last < b.first || int(b.last) >= r.Steps || b.bytes < 0 || b.align < 0 || b.align&(b.align-1) != 0 {
			return fmt.Errorf("%w: buffer %d: sub-steps %d to %d of %d, %d bytes aligned to %d", ErrPlugin, i, b.first, b.last, r.Steps, b.bytes, b.align)
		}
		r.Buffers = append(r.Buffers, backend.Buffer{Bytes: b.bytes, Align: b.align, First: int(b.first), Last: int(b.last)})
	}
	pairs, err := words[cInPlace](c.inplace, c.nInplace, "in-place pairs")
	if err != nil {
		return err
	}
	for _, x := range pairs {
		if x.output < 0 || x.input < 0 || int(x.output) >= len(r.Outputs) || int(x.input) >= len(r.Inputs) {
			return fmt.Errorf("%w: output %d in place of input %d", ErrPlugin, x.output, x.input)
		}
		r.InPlace = append(r.InPlace, backend.InPlace{Output: int(x.output), Input: int(x.input)})
	}
	forms, err := views[cConstantForm](c.constants, c.nConstants, "constant in another format")
	if err != nil {
		return err
	}
	for _, f := range forms {
		format, err := in.e.b.p.readFormat(f.format)
		if err != nil {
			return err
		}
		if int(f.index) >= len(in.e.constants) {
			return fmt.Errorf("%w: constant %d of %d", ErrPlugin, f.index, len(in.e.constants))
		}
		r.Constants = append(r.Constants, backend.ConstantForm{Index: int(f.index), Format: format})
	}
	return nil
}

func (in *instance) readLabels(c *cRequirements) error {
	if c.labels == 0 {
		return nil
	}
	labels, err := views[cLabel](c.labels, uint64(in.needs.Steps), "label")
	if err != nil {
		return err
	}
	for _, x := range labels {
		nodes, err := words[uint32](x.nodes, uint64(x.nNodes), "nodes of a label")
		if err != nil {
			return err
		}
		s := backend.StepInfo{Name: x.name.string(), Op: x.op.string()}
		for _, n := range nodes {
			if int(n) < len(in.e.nodes) {
				s.Origins = append(s.Origins, in.e.nodes[n].Provenance()...)
			}
		}
		in.needs.Labels = append(in.needs.Labels, s)
	}
	return nil
}
