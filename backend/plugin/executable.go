package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"sync"
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
	w, done := b.p.writer()
	defer done()
	e := &executable{b: b, sub: sub, threads: o.Threads, saved: saved, sessions: map[handle]*page{}, instances: map[handle]bool{}, dead: &garbage{}}
	d, err := e.compile(ctx, w)
	if err != nil {
		return nil, err
	}
	b.open.Add(1)
	e.symbols, e.constants, e.nodes = d.symbols, d.constants, d.nodes
	return e, nil
}

// compile compiles the group in the life of w, or loads it.
func (e *executable) compile(ctx context.Context, w *writer) (*description, error) {
	b, l := e.b, e.b.p.l
	if b.p.proc != nil {
		w.keep = &page{region: w.region}
	}
	d, err := l.describeGroup(w, e.sub)
	if err != nil {
		w.keep.end()
		return nil, err
	}
	e.weights = b.asONNX(ctx, w, d, e.sub)
	opts, h, cancel := one[cOptions](w), one[uint64](w), one[int32](w)
	*opts = cOptions{size: uint32(unsafe.Sizeof(*opts)), threads: int32(min(e.threads, 1<<20)), cancel: address(cancel)}
	from := one[cSaved](w)
	*from = cSaved{size: uint32(unsafe.Sizeof(*from)), data: w.constant(e.saved), len: uint64(len(e.saved))}
	if w.err != nil {
		w.keep.end()
		return nil, w.err
	}
	ends := watch{flag: cancel}
	call := ends.begin(ctx)
	if e.saved != nil {
		err = b.p.do(w, "load", l.table.load, b.p.handle(), address(d.at), address(opts), address(from), address(h))
	} else {
		err = b.p.do(w, "compile", l.table.compile, b.p.handle(), address(d.at), address(opts), address(h))
	}
	ends.end(call)
	at := handle{w.life, *h}
	switch {
	case ctx.Err() != nil:
		if err == nil && at.word != 0 {
			_ = b.p.end(at, "executable_close", l.table.executableClose)
		}
		err = ctx.Err()
	case err == nil && at.word == 0:
		err = fmt.Errorf("%w: compile gave no executable", ErrPlugin)
	}
	if err != nil {
		w.keep.end()
		return nil, err
	}
	e.keep.end() // of an earlier life
	e.at, e.keep = at, w.keep
	return d, nil
}

// executable is a compiled group. Instances and sessions of it have no end of their own: those that nobody holds any more
// are closed when the next is made, and all of them with the executable. Nothing of the plugin is called by the collector.
type executable struct {
	b         *Backend
	sub       *graph.Graph
	threads   int
	symbols   []graph.Dim      // by number minus one
	constants []*graph.Value   // in the order of runs
	nodes     []*graph.Node    // in the order of the description
	saved     []byte           // that the plugin may read, and
	weights   []*tensor.Tensor // those of the graph as a model

	mu        sync.Mutex
	at        handle
	keep      *page // copies of constants that the plugin's process has no other way to see
	closed    bool
	instances map[handle]bool
	sessions  map[handle]*page // with the memory of their arguments
	dead      *garbage
}

// garbage are handles that nobody holds any more. The collector puts them here.
type garbage struct {
	mu        sync.Mutex
	sessions  []handle
	instances []handle
}

// deadSession is a session that nobody holds: the plugin's handle, and the token of its runs.
type deadSession struct {
	at    handle
	token uint64
}

func (g *garbage) session(d deadSession) {
	runs.take(d.token)
	g.mu.Lock()
	g.sessions = append(g.sessions, d.at)
	g.mu.Unlock()
}

func (g *garbage) instance(h handle) {
	g.mu.Lock()
	g.instances = append(g.instances, h)
	g.mu.Unlock()
}

func (g *garbage) take() (sessions, instances []handle) {
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

func (e *executable) closeSessions(list []handle) error {
	var err error
	for _, h := range list {
		if p := e.sessions[h]; p != nil {
			err = errors.Join(err, e.b.p.end(h, "session_close", e.b.p.l.table.sessionClose))
			p.end()
			delete(e.sessions, h)
		}
	}
	return err
}

func (e *executable) closeInstances(list []handle) error {
	var err error
	for _, h := range list {
		if e.instances[h] {
			err = errors.Join(err, e.b.p.end(h, "instance_close", e.b.p.l.table.instanceClose))
			delete(e.instances, h)
		}
	}
	return err
}

// revive compiles the group again where it was compiled in another life than that of w, with the lock held.
func (e *executable) revive(ctx context.Context, w *writer) error {
	if w.err != nil || w.life == e.at.life {
		return w.err
	}
	_, err := e.compile(ctx, w)
	return err
}

// compareHandles orders handles.
func compareHandles(a, b handle) int {
	return cmp.Or(cmp.Compare(a.life, b.life), cmp.Compare(a.word, b.word))
}

// Close implements backend.Executable.
func (e *executable) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	err := errors.Join(e.closeSessions(slices.SortedFunc(maps.Keys(e.sessions), compareHandles)),
		e.closeInstances(slices.SortedFunc(maps.Keys(e.instances), compareHandles)))
	e.b.open.Add(-1)
	err = errors.Join(err, e.b.p.end(e.at, "executable_close", e.b.p.l.table.executableClose))
	e.keep.end()
	return err
}

// Specialize implements backend.Executable.
func (e *executable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fmt.Errorf("%w: the group is closed", backend.ErrUnavailable)
	}
	if err := e.sweep(); err != nil {
		return nil, err
	}
	w, done := e.b.p.writer()
	defer done()
	in := &instance{e: e, bindings: b}
	if err := in.specialize(ctx, w); err != nil {
		return nil, err
	}
	if err := in.read(w); err != nil {
		return nil, err
	}
	return in, nil
}

// instance is a group for concrete shapes.
type instance struct {
	e        *executable
	at       handle // under the executable's lock
	bindings graph.Bindings
	needs    backend.Requirements
}

// specialize makes the instance in the life of w, with the executable's lock held.
func (in *instance) specialize(ctx context.Context, w *writer) error {
	e := in.e
	if err := e.revive(ctx, w); err != nil {
		return err
	}
	var bindings []cBinding
	for i, dim := range e.symbols {
		n, err := dim.Eval(in.bindings)
		if errors.Is(err, graph.ErrUnbound) {
			continue // it depends on data
		}
		if err != nil {
			return err
		}
		bindings = append(bindings, cBinding{symbol: uint32(i) + 1, value: n})
	}
	h := one[uint64](w)
	if err := e.b.p.do(w, "specialize", e.b.p.l.table.specialize, uintptr(e.at.word), list(w, bindings), uintptr(len(bindings)), address(h)); err != nil {
		return err
	}
	at := handle{w.life, *h}
	if at.word == 0 {
		return fmt.Errorf("%w: specialize gave no instance", ErrPlugin)
	}
	in.at = at
	e.instances[at] = true
	runtime.AddCleanup(in, e.dead.instance, at)
	return nil
}

// revive makes the instance again where it was made in another life than that of w, with the executable's lock held.
func (in *instance) revive(ctx context.Context, w *writer) error {
	if w.err != nil || w.life == in.at.life {
		return w.err
	}
	if err := in.specialize(ctx, w); err != nil {
		return err
	}
	again := &instance{e: in.e, at: in.at, bindings: in.bindings}
	if err := again.read(w); err != nil {
		return err
	}
	if !reflect.DeepEqual(again.needs, in.needs) {
		return fmt.Errorf("%w: requirements are others than in an earlier process", ErrPlugin)
	}
	return nil
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
		if err := e.b.p.plain(w.side, "requirements", fn, uintptr(in.at.word), address(out)); err != nil {
			return err
		}
		var err error
		if c, err = view[cRequirements](w.side, *out, "requirements"); err != nil {
			return err
		}
	}
	if c.steps < 0 || c.steps > maxList {
		return fmt.Errorf("%w: requirements of %d sub-steps", ErrPlugin, c.steps)
	}
	r.Steps, r.NoReuse = max(int(c.steps), 1), c.flags&requirementsNoReuse != 0
	var err error
	if r.Inputs, err = in.portUses(w.side, c.inputs, e.sub.Inputs, "input"); err != nil {
		return err
	}
	if r.Outputs, err = in.portUses(w.side, c.outputs, e.sub.Outputs, "output"); err != nil {
		return err
	}
	if err := in.readBuffers(w.side, &c); err != nil {
		return err
	}
	return in.readLabels(w.side, &c)
}

// portUses reads how ports are used; where the plugin says nothing they are compact, and in use all the time.
func (in *instance) portUses(from side, at uintptr, values []*graph.Value, what string) ([]backend.PortUse, error) {
	var list []cPort
	if at != 0 {
		var err error
		if list, err = views[cPort](from, at, uint64(len(values)), what); err != nil {
			return nil, err
		}
	}
	uses := make([]backend.PortUse, len(values))
	for i, v := range values {
		u := backend.PortUse{Last: in.needs.Steps - 1}
		if list != nil {
			c := list[i]
			if c.first < 0 || c.last < c.first || int(c.last) >= in.needs.Steps || c.bytes < 0 || !alignable(c.align) {
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

// alignable reports whether memory can be aligned so: blocks are to tensor.Alignment, and what lies in them to no more.
func alignable(align int64) bool {
	return align >= 0 && align <= tensor.Alignment && align&(align-1) == 0
}

func (in *instance) readBuffers(from side, c *cRequirements) error {
	r := &in.needs
	buffers, err := views[cBuffer](from, c.buffers, c.nBuffers, "buffer")
	if err != nil {
		return err
	}
	for i, b := range buffers {
		if b.first < 0 || b.last < b.first || int(b.last) >= r.Steps || b.bytes < 0 || !alignable(b.align) {
			return fmt.Errorf("%w: buffer %d: sub-steps %d to %d of %d, %d bytes aligned to %d", ErrPlugin, i, b.first, b.last, r.Steps, b.bytes, b.align)
		}
		r.Buffers = append(r.Buffers, backend.Buffer{Bytes: b.bytes, Align: b.align, First: int(b.first), Last: int(b.last)})
	}
	pairs, err := words[cInPlace](from, c.inplace, c.nInplace, "in-place pairs")
	if err != nil {
		return err
	}
	for _, x := range pairs {
		if x.output < 0 || x.input < 0 || int(x.output) >= len(r.Outputs) || int(x.input) >= len(r.Inputs) {
			return fmt.Errorf("%w: output %d in place of input %d", ErrPlugin, x.output, x.input)
		}
		r.InPlace = append(r.InPlace, backend.InPlace{Output: int(x.output), Input: int(x.input)})
	}
	forms, err := views[cConstantForm](from, c.constants, c.nConstants, "constant in another format")
	if err != nil {
		return err
	}
	for _, f := range forms {
		format, err := in.e.b.p.readFormat(from, f.format)
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

func (in *instance) readLabels(from side, c *cRequirements) error {
	if c.labels == 0 {
		return nil
	}
	labels, err := views[cLabel](from, c.labels, uint64(in.needs.Steps), "label")
	if err != nil {
		return err
	}
	for _, x := range labels {
		nodes, err := words[uint32](from, x.nodes, uint64(x.nNodes), "nodes of a label")
		if err != nil {
			return err
		}
		s := backend.StepInfo{Name: from.text(x.name), Op: from.text(x.op)}
		for _, n := range nodes {
			if int(n) < len(in.e.nodes) {
				s.Origins = append(s.Origins, in.e.nodes[n].Provenance()...)
			}
		}
		in.needs.Labels = append(in.needs.Labels, s)
	}
	return nil
}
