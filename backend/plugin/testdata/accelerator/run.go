package main

// #include "table.h"
import "C"

import (
	"context"
	"fmt"
	"runtime/cgo"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// executable is a group: a program of carve's, for all sizes. Where constants are sizes of inputs, the program is made with
// the instance's, at its first session.
type executable struct {
	u       *unit
	threads int
	group   *described
	wrong   bool // its results are to be wrong
	p       *program
}

// program is a compiled group.
type program struct {
	m *carve.Model
	p *carve.Program
}

func (p *program) close() {
	if p != nil {
		p.p.Close()
		p.m.Close()
	}
}

// build compiles a group.
func (x *executable) build(ctx context.Context, g *graph.Graph) (*program, error) {
	m := carve.FromGraph(g)
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "cpu"}, {Name: "reference"}}, Threads: x.threads})
	if err != nil {
		m.Close()
		return nil, err
	}
	return &program{m, p}, nil
}

// until returns a context that ends when the host sets its flag.
func until(flag *C.int32_t) (ctx context.Context, end func()) {
	if flag == nil {
		return context.Background(), func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for ctx.Err() == nil {
			if atomic.LoadInt32((*int32)(unsafe.Pointer(flag))) != 0 {
				cancel()
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return ctx, cancel
}

//export accCompile
func accCompile(b C.uint64_t, g *C.carve_graph, o *C.carve_options, out *C.uint64_t, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	x := &executable{u: of[*unit](b), threads: int(o.threads)}
	var err error
	if x.group, err = x.u.read(g); err != nil {
		return failed(e, err)
	}
	x.wrong = slices.ContainsFunc(x.group.nodes, func(n *graph.Node) bool { return n.Op.Name == x.u.wrong })
	if len(x.group.sizes) == 0 {
		ctx, end := until(o.cancel)
		x.p, err = x.build(ctx, x.group.g)
		end()
	}
	if err != nil {
		return failed(e, err)
	}
	x.u.executables.Add(1)
	*out = handle(x)
	return C.CARVE_OK
}

//export accExecutableClose
func accExecutableClose(h C.uint64_t) (st C.int32_t) {
	defer guard(&st, nil)
	x := of[*executable](h)
	cgo.Handle(h).Delete()
	x.p.close()
	x.u.executables.Add(-1)
	return C.CARVE_OK
}

// instance is a group for concrete sizes.
type instance struct {
	x    *executable
	late []bool // outputs whose sizes are not among the bindings: they depend on data

	mu sync.Mutex
	p  *program // its own, where the executable has none
}

//export accSpecialize
func accSpecialize(h C.uint64_t, bindings *C.carve_binding, n C.uint64_t, out *C.uint64_t, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	in := &instance{x: of[*executable](h)}
	bound := map[uint32]bool{0: true}
	for _, b := range unsafe.Slice(bindings, int(n)) {
		bound[uint32(b.symbol)] = true
	}
	for _, symbols := range in.x.group.outputs {
		in.late = append(in.late, slices.ContainsFunc(symbols, func(s uint32) bool { return !bound[s] }))
	}
	in.x.u.instances.Add(1)
	*out = handle(in)
	return C.CARVE_OK
}

//export accInstanceClose
func accInstanceClose(h C.uint64_t) (st C.int32_t) {
	defer guard(&st, nil)
	in := of[*instance](h)
	cgo.Handle(h).Delete()
	in.p.close()
	in.x.u.instances.Add(-1)
	return C.CARVE_OK
}

// program returns the one of a session whose constants are at run.
func (in *instance) program(run *C.carve_run) (*program, error) {
	if in.x.p != nil {
		return in.x.p, nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.p != nil {
		return in.p, nil
	}
	g, err := in.x.group.g.Clone()
	if err != nil {
		return nil, err
	}
	given := len(g.Inputs) - len(in.x.group.sizes) // the sizes stand last
	for i, k := range in.x.group.sizes {
		t, err := in.x.u.constant(unsafe.Slice(run.constants, k+1)[k])
		if err != nil {
			return nil, err
		}
		if t, err = t.Clone(); err != nil {
			return nil, err
		}
		v := g.Inputs[given+i]
		g.ReplaceUses(v, g.AddConst(v.Name+"_size", t))
	}
	g.Inputs = g.Inputs[:given]
	if err := graph.InferGraph(g); err != nil {
		return nil, err
	}
	in.p, err = in.x.build(context.Background(), g)
	return in.p, err
}

// session is a sequence of runs.
type session struct {
	in      *instance
	run     *C.carve_run
	q       *queue // nil: there are no queues
	s       *carve.Session
	p       *program
	inputs  []*tensor.Tensor
	outputs []*tensor.Tensor
	cancel  flagged
}

// flagged is a context that has ended when the host has set its flag.
type flagged struct {
	context.Context
	flag *int32
}

// Err implements context.Context.
func (f flagged) Err() error {
	if f.flag != nil && atomic.LoadInt32(f.flag) != 0 {
		return context.Canceled
	}
	return nil
}

//export accSessionOpen
func accSessionOpen(h C.uint64_t, run *C.carve_run, stream C.uint64_t, out *C.uint64_t, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	s := &session{in: of[*instance](h), run: run, cancel: flagged{context.Background(), (*int32)(unsafe.Pointer(run.cancel))}}
	if stream != 0 {
		s.q = of[*queue](stream)
	}
	var err error
	if s.p, err = s.in.program(run); err != nil {
		return failed(e, err)
	}
	if s.s, err = s.p.p.NewSession(); err != nil {
		return failed(e, err)
	}
	for range s.p.p.Inputs() {
		s.inputs = append(s.inputs, &tensor.Tensor{})
	}
	for range s.p.p.Outputs() {
		s.outputs = append(s.outputs, &tensor.Tensor{})
	}
	s.in.x.u.sessions.Add(1)
	*out = handle(s)
	return C.CARVE_OK
}

//export accSessionClose
func accSessionClose(h C.uint64_t) (st C.int32_t) {
	defer guard(&st, nil)
	s := of[*session](h)
	cgo.Handle(h).Delete()
	s.in.x.u.sessions.Add(-1)
	return failed(nil, s.s.Close())
}

// bind points tensors at what the host has put into its own, but for those that late names. No more is done where an operand
// is missing.
func (s *session) bind(list []*tensor.Tensor, cs **C.carve_tensor, late []bool) (err error) {
	for i, c := range unsafe.Slice(cs, len(list)) {
		t := list[i]
		t.DType, t.Shape = tensor.DType(c._type), t.Shape[:0]
		for _, n := range unsafe.Slice(c.shape, int(c.ndim)) {
			t.Shape = append(t.Shape, int(n))
		}
		if late != nil && late[i] && c.data == nil {
			continue
		}
		if t.Data, err = s.in.x.u.storage(c, t.NumBytes()); err != nil {
			return err
		}
	}
	return nil
}

//export accEnqueue
func accEnqueue(h C.uint64_t, ev *C.uint64_t, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	s := of[*session](h)
	if err := s.bind(s.inputs, s.run.inputs, nil); err != nil {
		return failed(e, err)
	}
	if err := s.bind(s.outputs, s.run.outputs, s.in.late); err != nil {
		return failed(e, err)
	}
	queued := s.q != nil && !s.in.x.u.synchronous
	switch {
	case slices.Contains(s.in.late, true): // the host gives storage within the call alone
		return failed(e, s.later(queued))
	case !queued:
		return failed(e, s.work())
	}
	*ev = s.in.x.u.event(s.q.q.Do(s.work))
	return C.CARVE_OK
}

func (s *session) work() error {
	err := s.s.RunInto(s.cancel, s.inputs, s.outputs)
	if err == nil && s.in.x.wrong {
		tensor.Of[float32](s.outputs[0])[0]++
	}
	return err
}

// later runs a group whose results have shapes that depend on data: behind what is queued, and on the thread of enqueue where the
// host is asked for storage.
func (s *session) later(queued bool) error {
	in := map[string]tensor.Value{}
	for i, p := range s.p.p.Inputs() {
		in[p.Name] = s.inputs[i]
	}
	var out map[string]tensor.Value
	work := func() (err error) {
		out, err = s.s.Run(s.cancel, in)
		return err
	}
	var err error
	if queued {
		err = s.q.q.Do(work).Wait(context.Background())
	} else {
		err = work()
	}
	if err != nil {
		return err
	}
	outputs := unsafe.Slice(s.run.outputs, len(s.outputs))
	for i, p := range s.p.p.Outputs() {
		t, ok := out[p.Name].(*tensor.Tensor)
		if !ok {
			return fmt.Errorf("output %d is no tensor", i)
		}
		if s.in.late[i] && outputs[i].data == nil {
			shape := make([]C.int64_t, len(t.Shape)+1)
			for k, n := range t.Shape {
				shape[k] = C.int64_t(n)
			}
			if st := C.host_output(C.host_table(), s.run.run, C.uint64_t(i), &shape[0], C.uint64_t(len(t.Shape))); st != C.CARVE_OK {
				return fmt.Errorf("%w: no storage for output %d of %v: status %d", errArgument, i, t.Shape, st)
			}
		}
		dst, err := s.in.x.u.storage(outputs[i], t.NumBytes())
		if err != nil {
			return err
		}
		copy(dst, t.Bytes())
	}
	return nil
}
