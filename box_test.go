package carve_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// box is a backend whose memory is reached by copies only and whose layout is opaque: the bytes of a tensor backwards.
// Its kernels are the reference's, so that results are bit-equal. It works asynchronously.
type box struct {
	name string
	mem  *boxMemory
	// ops are the operators that it takes; nil means all.
	ops map[string]bool
	// dynamic lets it take operands whose shape depends on data.
	dynamic bool
	// fail is asked before every run of a node.
	fail func(n *graph.Node) error
	// slow, where it is not nil, holds every run until the channel is closed, whatever the context says.
	slow chan struct{}
	// running counts the runs that have begun and not ended.
	running atomic.Int64
	closed  atomic.Bool
}

var boxes atomic.Int32

func newBox(name string, ops ...string) *box {
	b := &box{name: name, mem: &boxMemory{index: boxes.Add(1), blocks: map[uintptr][]byte{}}}
	if len(ops) > 0 {
		b.ops = map[string]bool{}
		for _, op := range ops {
			b.ops[op] = true
		}
	}
	return b
}

type boxMemory struct {
	mu     sync.Mutex
	index  int32
	blocks map[uintptr][]byte
	last   uintptr
}

func (m *boxMemory) ID() tensor.DeviceID { return tensor.DeviceID{Type: tensor.ExtDev, Index: m.index} }

func (m *boxMemory) Alloc(size int64) (device.Memory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last += 3 // handles are no addresses and not dense
	m.blocks[m.last] = make([]byte, size)
	return device.Memory{Device: m.ID(), Handle: m.last, Size: size}, nil
}

func (m *boxMemory) Free(x device.Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.blocks[x.Handle]; !ok {
		panic(fmt.Sprintf("block %d is freed twice", x.Handle))
	}
	delete(m.blocks, x.Handle)
}

func (m *boxMemory) DirectFree(x device.Memory) { m.Free(x) }
func (m *boxMemory) ReleaseAll()                {}

func (m *boxMemory) live() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.blocks)
}

var errBlock = errors.New("no such block")

func (m *boxMemory) at(x device.Memory, off, n int64) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.blocks[x.Handle]
	if n == 0 {
		return nil, nil
	}
	if !ok || off < 0 || off+n > int64(len(b)) {
		return nil, fmt.Errorf("%w: %d, bytes %d to %d", errBlock, x.Handle, off, off+n)
	}
	return b[off : off+n], nil
}

func (m *boxMemory) CopyTo(_ context.Context, s device.Stream, dst device.Memory, off int64, src []byte) error {
	b, err := m.at(dst, off, int64(len(src)))
	if err != nil {
		return err
	}
	return onQueue(s, func() error { copy(b, src); return nil })
}

func (m *boxMemory) CopyFrom(_ context.Context, s device.Stream, dst []byte, src device.Memory, off int64) error {
	b, err := m.at(src, off, int64(len(dst)))
	if err != nil {
		return err
	}
	return onQueue(s, func() error { copy(dst, b); return nil })
}

func (m *boxMemory) CopyBetween(ctx context.Context, s device.Stream, dst device.Memory, do int64, src device.Memory, so, n int64) error {
	b, err := m.at(src, so, n)
	if err != nil {
		return err
	}
	return m.CopyTo(ctx, s, dst, do, b)
}

func (m *boxMemory) NewStream() (device.Stream, error) { return &device.Queue{}, nil }

// onQueue does work on a stream of the box, at once where it is nil.
func onQueue(s device.Stream, work func() error) error {
	if s == nil {
		return work()
	}
	s.(*device.Queue).Do(work)
	return nil
}

func (b *box) format() graph.Format {
	l, err := graph.OpaqueLayout(b.name, "1", "backwards")
	if err != nil {
		panic(err)
	}
	return graph.Format{Device: b.mem.ID(), Layout: l}
}

func (b *box) Info() backend.Info                      { return backend.Info{Name: b.name, Version: "1"} }
func (b *box) Properties() []property.SubgraphProperty { return nil }
func (b *box) Devices() []device.Device                { return []device.Device{b.mem} }

func (b *box) Close() error {
	b.closed.Store(true)
	return nil
}

func (b *box) Supports(n *graph.Node) backend.Support {
	if n.Op.Domain != "" || (b.ops != nil && !b.ops[n.Op.Name]) {
		return backend.No(property.Unsupported, "not in the box")
	}
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v == nil {
				continue
			}
			if !v.Type.IsTensor() || v.Type.DType.Size() == 0 {
				return backend.No(property.DTypeReason, "%v", v.Type)
			}
			if !v.Type.Backed() && !b.dynamic {
				return backend.No(property.DynamicShape, "%v", v.Type)
			}
		}
	}
	return backend.Support{Signatures: []graph.Signature{graph.UniformSignature("backwards", n, b.format())}}
}

func (b *box) Converters() []convert.Converter {
	size := func(_ graph.Format, dt tensor.DType, d []int) (int64, error) {
		n, err := tensor.NumElements(d)
		return int64(dt.Bytes(n)), err
	}
	move := func(upload bool) func(tensor.DType, []int) (convert.Move, error) {
		return func(tensor.DType, []int) (convert.Move, error) {
			return func(ctx context.Context, dst, src *tensor.Tensor, x convert.Exec) error {
				d, s := *dst, *src
				return onQueue(x.Stream, func() error {
					if upload {
						return b.put(ctx, &d, s.Bytes())
					}
					return b.get(ctx, d.Bytes(), &s)
				})
			}, nil
		}
	}
	cost := convert.Cost{Fixed: 1000, PerByte: 1}
	return []convert.Converter{
		{Name: "in", From: graph.HostFormat, To: b.format(), Cost: cost, Size: size, Plan: move(true)},
		{Name: "out", From: b.format(), To: graph.HostFormat, Cost: cost, Size: size, Plan: move(false)},
	}
}

func (b *box) put(ctx context.Context, dst *tensor.Tensor, src []byte) error {
	back := make([]byte, len(src))
	for i, x := range src {
		back[len(src)-1-i] = x
	}
	return b.mem.CopyTo(ctx, nil, device.MemoryOf(dst), int64(dst.Offset), back)
}

func (b *box) get(ctx context.Context, dst []byte, src *tensor.Tensor) error {
	if err := b.mem.CopyFrom(ctx, nil, dst, device.MemoryOf(src), int64(src.Offset)); err != nil {
		return err
	}
	for i, j := 0, len(dst)-1; i < j; i, j = i+1, j-1 {
		dst[i], dst[j] = dst[j], dst[i]
	}
	return nil
}

func (b *box) Compile(_ context.Context, sub *graph.Graph, _ backend.CompileOptions) (backend.Executable, error) {
	order, err := sub.Topo()
	return &boxed{b: b, sub: sub, order: order}, err
}

// boxed is executable and instance at once: sizes are looked at when it runs.
type boxed struct {
	b     *box
	sub   *graph.Graph
	order []*graph.Node
	bind  graph.Bindings
	req   backend.Requirements
}

func (x *boxed) Close() error { return nil }

func (x *boxed) Specialize(_ context.Context, bind graph.Bindings) (backend.Instance, error) {
	y := *x
	y.bind = bind
	return &y, nil
}

func (x *boxed) Requirements() backend.Requirements { return x.req }

func (x *boxed) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	x.b.running.Add(1)
	return a.Stream.(*device.Queue).Do(func() error {
		defer x.b.running.Add(-1)
		if x.b.slow != nil {
			<-x.b.slow
			ctx = context.WithoutCancel(ctx)
		}
		return x.run(ctx, a)
	}), nil
}

func (x *boxed) run(ctx context.Context, a *backend.RunArgs) error {
	vals := make([]tensor.Value, x.sub.ValueIDs())
	fetch := func(v *graph.Value, t *tensor.Tensor) error {
		h, err := tensor.New(t.DType, t.Shape...)
		if err != nil {
			return err
		}
		vals[v.ID] = h
		return x.b.get(ctx, h.Bytes(), t)
	}
	for i, v := range x.sub.Inputs {
		if err := fetch(v, a.Inputs[i]); err != nil {
			return err
		}
	}
	i := 0
	for v := range x.sub.Constants() {
		if a.Constants[i] != nil {
			if err := fetch(v, a.Constants[i]); err != nil {
				return err
			}
		} else {
			data := make([]int64, len(v.Dims))
			for k, d := range v.Dims {
				n, err := d.Eval(x.bind)
				if err != nil {
					return err
				}
				data[k] = n
			}
			vals[v.ID] = tensor.From(data, len(data))
		}
		i++
	}
	for _, n := range x.order {
		if x.b.fail != nil {
			if err := x.b.fail(n); err != nil {
				return err
			}
		}
		in := make([]tensor.Value, len(n.Inputs))
		for k, v := range n.Inputs {
			if v != nil {
				in[k] = vals[v.ID]
			}
		}
		out, err := reference.Evaluate(ctx, n, in)
		if err != nil {
			return err
		}
		for k, v := range n.Outputs {
			if v != nil {
				vals[v.ID] = out[k]
			}
		}
	}
	for i, v := range x.sub.Outputs {
		dst, t := a.Outputs[i], vals[v.ID].(*tensor.Tensor)
		if dst == nil {
			var err error
			if dst, err = a.Alloc(i, t.DType, t.Shape); err != nil {
				return err
			}
		}
		if err := x.b.put(ctx, dst, t.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
