package cpu_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/property"
)

// guardedBackend is a backend whose instances run with every input, output, constant and buffer between pages that may not
// be touched, filled with NaN before its time begins and after it ends. It checks that padding lanes of blocked results
// are zero, in every mode.
type guardedBackend struct {
	backend.Backend
	name   string
	accept func(node string) bool // by the model's name of a node; nil: everything
	side   guard.Side
	on     bool
	faults []error
	steps  []string // the operators of the instances' steps
}

func (b *guardedBackend) Info() backend.Info {
	i := b.Backend.Info()
	i.Name = b.name
	return i
}

func (b *guardedBackend) ConvertersOf(l graph.Layout) []convert.Converter {
	return b.Backend.(convert.Source).ConvertersOf(l)
}

func (b *guardedBackend) Supports(n *graph.Node) backend.Support {
	if b.accept != nil {
		for _, name := range n.Provenance() {
			if !b.accept(name) {
				return backend.No(property.Veto, "refused by the test")
			}
		}
	}
	return b.Backend.Supports(n)
}

func (b *guardedBackend) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	e, err := b.Backend.Compile(ctx, sub, o)
	if err != nil {
		return nil, err
	}
	return &guardedExecutable{e, b, sub}, nil
}

type guardedExecutable struct {
	backend.Executable
	b   *guardedBackend
	sub *graph.Graph
}

func (e *guardedExecutable) Specialize(ctx context.Context, bind graph.Bindings) (backend.Instance, error) {
	i, err := e.Executable.Specialize(ctx, bind)
	if errors.Is(err, graph.ErrUnbound) { // the group is specialised in the run
		return nil, err
	}
	if err != nil {
		e.b.faults = append(e.b.faults, fmt.Errorf("specialize: %w", err))
		return nil, err
	}
	for _, l := range i.Requirements().Labels {
		e.b.steps = append(e.b.steps, l.Op)
	}
	return &guardedInstance{i, e}, nil
}

type guardedInstance struct {
	backend.Instance
	e *guardedExecutable
}

func (i *guardedInstance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	var ev device.Event
	var err error
	if i.e.b.on {
		ev, err = i.guarded(ctx, a)
	} else {
		ev, err = i.Instance.Enqueue(ctx, a)
	}
	if err == nil {
		err = i.lanes(a)
	}
	if err != nil {
		i.e.b.faults = append(i.e.b.faults, err)
	}
	return ev, err
}

// lanes checks the padding lanes of blocked outputs.
func (i *guardedInstance) lanes(a *backend.RunArgs) error {
	for k, v := range i.e.sub.Outputs {
		t := a.Outputs[k]
		if t == nil || v.Format != graph.On(graph.NCHW16c) || v.Type.DType != tensor.Float32 {
			continue
		}
		c, hw := t.Shape[1], t.Shape[2]*t.Shape[3]
		blocks := (c + 15) / 16
		f := floatsOf(t.Data[t.Offset:][:t.Shape[0]*blocks*hw*64])
		for at := range f {
			if at/16/hw%blocks*16+at%16 >= c && f[at] != 0 {
				return fmt.Errorf("padding lane %d of %v holds %v", at, v, f[at])
			}
		}
	}
	return nil
}

func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// fence is a range of bytes between guard pages.
type fence struct {
	*guard.Buffer
	data []byte
}

func newFence(bytes int, side guard.Side) (*fence, error) {
	b, err := guard.New((bytes+3)/4, side)
	if err != nil {
		return nil, err
	}
	all := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(b.Data))), len(b.Data)*4)
	if side == guard.End {
		all = all[len(all)-bytes:]
	}
	return &fence{b, all[:bytes:bytes]}, nil
}

// spoil fills the range with NaN.
func (f *fence) spoil() {
	for i := range f.Data {
		f.Data[i] = math.Float32frombits(0x7fc5a5a5)
	}
}

// constantBytes is what a constant takes in a format.
func (i *guardedInstance) constantBytes(f graph.Format, c *tensor.Tensor) int {
	size := graph.PhysicalSize
	if f.Layout.IsOpaque() {
		size = i.e.b.ConvertersOf(f.Layout)[0].Size
	}
	n, err := size(f, c.DType, c.Shape)
	if err != nil {
		panic(err)
	}
	return int(n)
}

// guarded runs the instance on copies of its own.
func (i *guardedInstance) guarded(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	var all []*fence
	defer func() {
		for _, f := range all {
			_ = f.Free()
		}
	}()
	replace := func(ts []*tensor.Tensor, bytes func(k int) int) ([]*tensor.Tensor, []*fence, error) {
		out, fences := make([]*tensor.Tensor, len(ts)), make([]*fence, len(ts))
		for k, t := range ts {
			if t == nil {
				continue
			}
			f, err := newFence(bytes(k), i.e.b.side)
			if err != nil {
				return nil, nil, err
			}
			all, fences[k] = append(all, f), f
			out[k] = &tensor.Tensor{DType: t.DType, Shape: t.Shape, Data: f.data, Strings: t.Strings}
		}
		return out, fences, nil
	}
	r := i.Requirements()
	g := &backend.RunArgs{Workers: a.Workers, Stream: a.Stream, Alloc: a.Alloc}
	var ins, outs, consts, bufs []*fence
	var err error
	if g.Inputs, ins, err = replace(a.Inputs, func(k int) int { return int(r.Inputs[k].Bytes) }); err != nil {
		return nil, err
	}
	if g.Outputs, outs, err = replace(a.Outputs, func(k int) int { return int(r.Outputs[k].Bytes) }); err != nil {
		return nil, err
	}
	if g.Buffers, bufs, err = replace(a.Buffers, func(k int) int { return int(r.Buffers[k].Bytes) }); err != nil {
		return nil, err
	}
	var constants []*graph.Value
	for v := range i.e.sub.Constants() {
		constants = append(constants, v)
	}
	if g.Constants, consts, err = replace(a.Constants, func(k int) int { return i.constantBytes(constants[k].Format, a.Constants[k]) }); err != nil {
		return nil, err
	}
	for k, f := range ins {
		copy(f.data, a.Inputs[k].Data[a.Inputs[k].Offset:])
	}
	for k, f := range consts {
		if f != nil {
			copy(f.data, a.Constants[k].Data[a.Constants[k].Offset:])
		}
	}
	g.Trace = func(s int) { // sub-step s is over
		for k, u := range r.Inputs {
			if u.Last == s && s < r.Steps-1 {
				ins[k].spoil()
			}
		}
		for k, u := range r.Outputs {
			if u.First == s+1 && outs[k] != nil { // strings are allocated
				outs[k].spoil()
			}
		}
		for k, u := range r.Buffers {
			if u.First == s+1 || u.Last == s {
				bufs[k].spoil()
			}
		}
	}
	ev, err := i.Instance.Enqueue(ctx, g)
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		if err := f.Check(); err != nil {
			return nil, err
		}
	}
	for k, f := range outs {
		if f != nil {
			copy(a.Outputs[k].Data[a.Outputs[k].Offset:], f.data)
		}
	}
	return ev, nil
}
