package fake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// executable is a group compiled by the kernels' backend.
type executable struct {
	m     *machine
	d     *fakeDevice
	sub   *graph.Graph
	inner backend.Executable
}

// Close implements backend.Executable.
func (e *executable) Close() error {
	e.m.count("executables", -1)
	return e.inner.Close()
}

// Specialize implements backend.Executable.
func (e *executable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	if err := e.m.fail(Specialize, e.d.number); err != nil {
		return nil, err
	}
	inner, err := e.inner.Specialize(ctx, b)
	if err != nil {
		return nil, err
	}
	in := &instance{e: e, inner: inner, reqs: inner.Requirements()}
	in.reqs.Inputs, in.reqs.Outputs = slices.Clone(in.reqs.Inputs), slices.Clone(in.reqs.Outputs)
	for _, ports := range [][]backend.PortUse{in.reqs.Inputs, in.reqs.Outputs} {
		for i := range ports {
			ports[i].Strided, ports[i].Align = e.m.o.Strided != nil, e.m.o.Align
		}
	}
	if n := len(in.reqs.Constants); n > 0 {
		return nil, fmt.Errorf("the kernels want %d constants in formats that the device has not got", n)
	}
	return in, nil
}

// instance is a group for concrete shapes.
type instance struct {
	e     *executable
	inner backend.Instance
	reqs  backend.Requirements
}

// Requirements implements backend.Instance.
func (in *instance) Requirements() backend.Requirements { return in.reqs }

// Enqueue implements backend.Instance.
func (in *instance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	m, d := in.e.m, in.e.d
	if err := m.fail(Launch, d.number); err != nil {
		return nil, err
	}
	s, err := d.stream(a.Stream)
	if err != nil {
		return nil, err
	}
	if err := in.lie(a.Inputs, false); err != nil {
		return nil, err
	}
	if err := in.lie(a.Outputs, true); err != nil {
		return nil, err
	}
	m.note(func(s *Stats) { s.Launches++ })
	late := m.fail(LateLaunch, d.number)
	l, ok := a.Local.(*local)
	if !ok || l.in != in {
		l = &local{in: in}
		a.Local = l
	}
	before := placesOf(a)
	e := s.do("a group", func(p *piece) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.note(func(s *Stats) { s.Runs++ })
		time.Sleep(m.o.Work)
		if !slices.Equal(before, placesOf(a)) {
			m.watch.fault("the arguments of %s changed before its event", p.what)
		}
		return l.run(ctx, p, a, late)
	})
	m.count("events", 1)
	return e, nil
}

// lie returns why the group cannot take operands as they lie.
func (in *instance) lie(list []*tensor.Tensor, output bool) error {
	m := in.e.m
	for i, t := range list {
		if t == nil {
			continue
		}
		if !t.IsCompact() {
			if m.o.Strided == nil {
				m.watch.fault("operand %d is strided, which its port does not take", i)
			}
			if m.o.Strided == nil || !m.o.Strided(output, i) {
				return &backend.ContiguousError{Output: output, Operand: i, Problem: fmt.Sprintf("strides are %v", t.Strides)}
			}
		}
		if a := m.o.Align; a > 0 && int64(t.Offset)%a != 0 {
			return &backend.ContiguousError{Output: output, Operand: i, Problem: fmt.Sprintf("%d bytes into the block, which has to be a multiple of %d", t.Offset, a)}
		}
	}
	return nil
}

// spot is where an operand lies.
type spot struct {
	handle uintptr
	offset int
	shape  string
}

// placesOf returns what a run's arguments point at.
func placesOf(a *backend.RunArgs) []spot {
	var out []spot
	for _, list := range [][]*tensor.Tensor{a.Inputs, a.Outputs, a.Constants, a.Buffers} {
		for _, t := range list {
			if t == nil {
				out = append(out, spot{})
				continue
			}
			out = append(out, spot{t.Handle, t.Offset, fmt.Sprint(t.Shape, t.Strides)})
		}
	}
	return out
}

// local is an instance's state for a session: the kernels' arguments, on the device's memory.
type local struct {
	in   *instance
	args backend.RunArgs
}

// run does a group's work. It is called on the queue's goroutine.
func (l *local) run(ctx context.Context, p *piece, a *backend.RunArgs, late error) error {
	l.in.e.m.touching.Lock()
	defer l.in.e.m.touching.Unlock()
	sub, x := l.in.e.sub, &l.args
	var scatter []func()
	var err error
	x.Inputs, err = l.reach(p, a.Inputs, sub.Inputs, false)
	if err != nil {
		return err
	}
	if x.Outputs, err = l.reach(p, a.Outputs, sub.Outputs, true); err != nil {
		return err
	}
	if x.Constants, err = l.reach(p, a.Constants, slices.Collect(sub.Constants()), false); err != nil {
		return err
	}
	if x.Buffers, err = l.reach(p, a.Buffers, nil, true); err != nil {
		return err
	}
	for i, t := range x.Outputs { // the kernels write strided results together
		if t == nil || t.IsCompact() {
			continue
		}
		c, err := tensor.New(t.DType, t.Shape...)
		if err != nil {
			return err
		}
		x.Outputs[i] = c
		scatter = append(scatter, func() { spread(t, c) })
	}
	if late != nil {
		for _, t := range x.Outputs {
			if t != nil {
				spoil(t.Data[t.Offset:])
			}
		}
		return late
	}
	x.Trace, x.Reserve = a.Trace, a.Reserve
	x.Alloc = func(output int, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
		t, err := a.Alloc(output, dt, shape)
		if err != nil {
			return nil, err
		}
		list, err := l.reach(p, []*tensor.Tensor{t}, sub.Outputs[output:output+1], true)
		if err != nil {
			return nil, err
		}
		return list[0], nil
	}
	e, err := l.in.inner.Enqueue(ctx, x)
	if err == nil {
		err = device.Wait(ctx, e)
	}
	if err == nil {
		for _, f := range scatter {
			f()
		}
	}
	return err
}

// reach returns tensors on the device as tensors of the host: their bytes are the blocks'. Strided inputs are gathered.
// values, where they are not nil, have the formats.
func (l *local) reach(p *piece, list []*tensor.Tensor, values []*graph.Value, write bool) ([]*tensor.Tensor, error) {
	d := l.in.e.d
	out := make([]*tensor.Tensor, len(list))
	for i, t := range list {
		if t == nil {
			continue
		}
		if values != nil && values[i].IsConst() && t.Device.IsHost() {
			out[i] = t
			continue
		}
		if t.Device != d.id && t.Len() > 0 {
			d.m.watch.fault("%s: operand %d is on %v", p.what, i, t.Device)
			return nil, fmt.Errorf("%w: operand %d is on %v", errHandle, i, t.Device)
		}
		size := int64(t.NumBytes())
		if !t.IsCompact() {
			last := 0
			for k, n := range t.Shape {
				last += (n - 1) * t.Strides[k]
			}
			size = int64(t.DType.Bytes(last + 1))
		} else if values != nil {
			var err error
			if size, err = graph.PhysicalSize(values[i].Format, t.DType, t.Shape); err != nil {
				return nil, err
			}
		}
		h := &tensor.Tensor{DType: t.DType, Shape: t.Shape, Strides: t.Strides, Data: []byte{}}
		if size > 0 {
			b, err := d.block(device.MemoryOf(t), int64(t.Offset), size)
			if err != nil {
				return nil, err
			}
			p.touch(b, int64(t.Offset), size, write)
			h.Data = b.data[t.Offset : int64(t.Offset)+size : int64(t.Offset)+size]
		}
		if !write && !h.IsCompact() {
			var err error
			if h, err = h.Clone(); err != nil {
				return nil, err
			}
		}
		out[i] = h
	}
	return out, nil
}

// spread writes a compact tensor to the places of a strided one.
func spread(dst, src *tensor.Tensor) {
	size, index := dst.DType.Size(), make([]int, len(dst.Shape))
	for i := range src.Len() {
		at := 0
		for k, x := range index {
			at += x * dst.Strides[k]
		}
		copy(dst.Data[at*size:(at+1)*size], src.Data[i*size:])
		for k := len(index) - 1; k >= 0; k-- {
			if index[k]++; index[k] < dst.Shape[k] {
				break
			}
			index[k] = 0
		}
	}
}
