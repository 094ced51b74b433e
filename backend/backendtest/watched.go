package backendtest

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"reflect"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// watched is a backend with an eye on what its groups do: what was claimed and fails, which a fallback would hide, is an
// error of the test, and so are Requirements that cannot be, sub-steps that Trace is not told of, and operands that are
// written. Ports that take strides get some. Each run is waited for.
type watched struct {
	backend.Backend
	t     tester
	mode  string
	ended bool // contexts of runs have ended
}

func (w *watched) errorf(format string, args ...any) {
	w.t.Helper()
	if w.mode != "" {
		format += " (" + w.mode + ")"
	}
	w.t.Errorf(format, args...)
}

// ConvertersOf implements convert.Source where the backend does.
func (w *watched) ConvertersOf(l graph.Layout) []convert.Converter {
	if s, ok := w.Backend.(convert.Source); ok {
		return s.ConvertersOf(l)
	}
	return nil
}

// Negotiate implements backend.Negotiator where the backend does.
func (w *watched) Negotiate(ctx context.Context, sub *graph.Graph) (map[*graph.Value]graph.Format, error) {
	if n, ok := w.Backend.(backend.Negotiator); ok {
		return n.Negotiate(ctx, sub)
	}
	return nil, nil
}

// Claims implements backend.Claimer where the backend does.
func (w *watched) Claims(ctx context.Context, g *graph.Graph) ([]property.Claim, error) {
	if c, ok := w.Backend.(backend.Claimer); ok {
		return c.Claims(ctx, g)
	}
	return nil, nil
}

// Estimate implements backend.Estimator where the backend does.
func (w *watched) Estimate(ctx context.Context, sub *graph.Graph, b graph.Bindings, o backend.CompileOptions) (*backend.Footprint, error) {
	if e, ok := w.Backend.(backend.Estimator); ok {
		return e.Estimate(ctx, sub, b, o)
	}
	return nil, errors.ErrUnsupported
}

// Close leaves the backend open: the test closes it.
func (w *watched) Close() error { return nil }

// Compile implements backend.Backend.
func (w *watched) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	before := sub.String()
	e, err := w.Backend.Compile(ctx, sub, o)
	if err != nil {
		if ctx.Err() == nil {
			w.errorf("%s: claimed, but does not compile: %v", operators(sub), err)
		}
		return nil, err
	}
	if sub.String() != before {
		w.errorf("%s: Compile changed the graph", operators(sub))
	}
	return &watchedExecutable{e, w, sub}, nil
}

// operators names the operators of a group.
func operators(sub *graph.Graph) string {
	list := ""
	for n := range sub.Nodes() {
		if len(list) > 100 {
			return list + " …"
		}
		list += " " + n.Op.Name
	}
	return "group of" + list
}

type watchedExecutable struct {
	backend.Executable
	w   *watched
	sub *graph.Graph
}

// Specialize implements backend.Executable.
func (e *watchedExecutable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	in, err := e.Executable.Specialize(ctx, b)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, graph.ErrUnbound) {
			e.w.errorf("%s: claimed, but refused for %v: %v", operators(e.sub), b, err)
		}
		return nil, err
	}
	r := in.Requirements()
	if !reflect.DeepEqual(r, in.Requirements()) {
		e.w.errorf("%s: Requirements change from call to call", operators(e.sub))
	}
	for _, why := range doubts(&r, e.sub, b) {
		e.w.errorf("%s: Requirements: %s", operators(e.sub), why)
	}
	return &watchedInstance{in, e, r}, nil
}

// doubts returns what is wrong with an instance's requirements.
func doubts(r *backend.Requirements, sub *graph.Graph, b graph.Bindings) (list []string) {
	doubt := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	steps := max(r.Steps, 1)
	if r.Steps < 0 {
		doubt("%d sub-steps", r.Steps)
	}
	if n := len(r.Labels); n != 0 && n != steps {
		doubt("%d labels for %d sub-steps", n, steps)
	}
	span := func(what string, first, last int) {
		if first < 0 || last < first || last >= steps {
			doubt("%s is used from %d to %d of %d sub-steps", what, first, last, steps)
		}
	}
	align := func(what string, a int64) {
		if a < 0 || bits.OnesCount64(uint64(a)) > 1 {
			doubt("%s is aligned to %d", what, a)
		}
	}
	ports := func(what string, uses []backend.PortUse, values []*graph.Value) {
		if len(uses) != len(values) {
			doubt("%d %ss for %d", len(uses), what, len(values))
			return
		}
		for i, u := range uses {
			name := fmt.Sprintf("%s %d", what, i)
			span(name, u.First, u.Last)
			align(name, u.Align)
			v := values[i]
			if u.Bytes <= 0 || v.Format.Layout.IsOpaque() {
				continue // carve knows the size of what has a layout
			}
			dims, err := v.Type.Shape.Eval(b, nil)
			if err != nil {
				continue
			}
			if size, err := graph.PhysicalSize(v.Format, v.Type.DType, dims); err == nil && u.Bytes < size {
				doubt("%s has %d bytes, but %v%v in %v has %d", name, u.Bytes, v.Type.DType, dims, v.Format, size)
			}
		}
	}
	ports("input", r.Inputs, sub.Inputs)
	ports("output", r.Outputs, sub.Outputs)
	for i, x := range r.Buffers {
		name := fmt.Sprintf("buffer %d", i)
		span(name, x.First, x.Last)
		align(name, x.Align)
		if x.Bytes < 0 {
			doubt("%s has %d bytes", name, x.Bytes)
		}
	}
	for _, p := range r.InPlace {
		if p.Output < 0 || p.Output >= len(sub.Outputs) || p.Input < 0 || p.Input >= len(sub.Inputs) {
			doubt("output %d in the place of input %d, of %d and %d", p.Output, p.Input, len(sub.Outputs), len(sub.Inputs))
		}
	}
	return list
}

type watchedInstance struct {
	backend.Instance
	e *watchedExecutable
	r backend.Requirements
}

// Enqueue implements backend.Instance.
func (in *watchedInstance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	w, name := in.e.w, operators(in.e.sub)
	if w.ended {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := in.finish(ended, a); !errors.Is(err, context.Canceled) {
			w.errorf("%s: the context has ended, but the run returns %v", name, err)
		}
		_ = a.Stream.Sync(ctx) // the stream tells of that run too, which is not the next one's matter
		return nil, in.finish(ctx, a)
	}
	told, trace, stray := 0, a.Trace, false
	a.Trace = func(step int) {
		stray = stray || step != told
		told++
		if trace != nil {
			trace(step)
		}
	}
	operands, stretched := a.Inputs, in.stretch(a)
	sums := in.sums(a)
	err := in.finish(ctx, a)
	var far *backend.ContiguousError
	if errors.As(err, &far) && !far.Output && stretched[far.Operand] {
		a.Inputs = operands // as it may
		told = 0
		sums = in.sums(a)
		err = in.finish(ctx, a)
	}
	a.Trace, a.Inputs = trace, operands
	switch {
	case err != nil && ctx.Err() == nil:
		w.errorf("%s: claimed, but the run fails: %v", name, err)
	case err == nil && (stray || told != in.r.Steps && told != max(in.r.Steps, 1)):
		w.errorf("%s: Trace is called %d times, or out of order, for %d sub-steps", name, told, max(in.r.Steps, 1))
	}
	if err == nil {
		for b, sum := range sums {
			if maphash.Bytes(seed, unsafe.Slice(b.p, b.n)) != sum {
				w.errorf("%s: the run writes an operand", name)
			}
		}
	}
	return nil, err
}

// finish runs the instance to its end. A panic is told of, and goes on.
func (in *watchedInstance) finish(ctx context.Context, a *backend.RunArgs) error {
	defer func() {
		if r := recover(); r != nil {
			in.e.w.errorf("%s: the run panics: %v", operators(in.e.sub), r)
			panic(r)
		}
	}()
	e, err := in.Instance.Enqueue(ctx, a)
	if err != nil || e == nil {
		return err
	}
	defer e.Close()
	if err = e.Wait(ctx); ctx.Err() != nil {
		return errors.Join(err, e.Wait(context.WithoutCancel(ctx)))
	}
	return err
}

// stretch gives ports that take strides operands whose elements lie apart, and returns which.
func (in *watchedInstance) stretch(a *backend.RunArgs) map[int]bool {
	done := map[int]bool{}
	for i, t := range a.Inputs {
		if i >= len(in.r.Inputs) || !in.r.Inputs[i].Strided || t == nil || !t.Device.IsHost() || !t.IsCompact() || len(t.Shape) == 0 || t.DType.Size() == 0 {
			continue
		}
		wide := append([]int(nil), t.Shape...)
		wide[len(wide)-1] = 2*wide[len(wide)-1] + 1
		all, err := tensor.New(t.DType, wide...)
		if err != nil {
			continue
		}
		s := *t
		s.Data, s.Offset, s.Strides = all.Data, 0, tensor.CompactStrides(wide)
		row, size := t.Shape[len(t.Shape)-1], t.DType.Size()
		for k, from := 0, t.Bytes(); k < t.Len(); k++ {
			at := (k/row*wide[len(wide)-1] + 2*(k%row)) * size
			copy(all.Data[at:at+size], from[k*size:])
		}
		s.Strides[len(s.Strides)-1] = 2
		if len(done) == 0 {
			a.Inputs = append([]*tensor.Tensor(nil), a.Inputs...)
		}
		a.Inputs[i], done[i] = &s, true
	}
	return done
}

var seed = maphash.MakeSeed()

// bytesAt is memory of the host.
type bytesAt struct {
	p *byte
	n int
}

// sums returns sums of the operands on the host that share no memory with what the run may write. Where dead memory is
// filled, operands are as well.
func (in *watchedInstance) sums(a *backend.RunArgs) map[bytesAt]uint64 {
	if in.e.w.mode != "" {
		return nil
	}
	var writes [][]byte
	for _, t := range append(append([]*tensor.Tensor(nil), a.Outputs...), a.Buffers...) {
		if t != nil {
			writes = append(writes, t.Data)
		}
	}
	out := map[bytesAt]uint64{}
	for _, t := range append(append([]*tensor.Tensor(nil), a.Inputs...), a.Constants...) {
		if t == nil || len(t.Data) == 0 || !t.Device.IsHost() {
			continue
		}
		shared := false
		for _, w := range writes {
			shared = shared || overlap(w, t.Data)
		}
		if !shared {
			out[bytesAt{unsafe.SliceData(t.Data), len(t.Data)}] = maphash.Bytes(seed, t.Data)
		}
	}
	return out
}

func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	p, q := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}
