// Package fake is an accelerator that exists in memory alone: a backend with one or several devices that work by
// themselves, for the specs of whoever drives devices. Nothing of it is easier than the real thing:
//
//   - a Memory's Handle is no address: only the device's copies and kernels reach what is behind it;
//   - each stream is a queue on a goroutine of its own, with delays that are drawn by a seed, so that streams overtake each
//     other; the device sleeps while it works, and uses no processor;
//   - memory that is handed out, or that a failure leaves behind, holds garbage;
//   - each call may be made to fail: when it is made, or late, in its Event.
//
// It watches its user. Every piece of work carries a vector clock, by which streams, events and the host's waits are known
// to be ordered or not, whatever the delays were: two pieces of work that touch the same bytes, one of them writing, without
// an order between them are a fault, as are copies from host memory that changes under way, blocks that are freed while work
// on them is pending or used when they are freed, events and streams that are used after Close. Faults returns them, and
// Leaks what was not given back.
//
// The kernels are another backend's: the reference's, or that of Options.Kernels, on the device's memory.
//
// The package imports the backend contract and backend/reference, not the compiler.
package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// Options are the settings of a fake backend.
type Options struct {
	Name    string           // default "fake"
	Devices int              // number of devices, default 1
	Index   int32            // of the first among tensor.ExtDev's, default 100
	Memory  int64            // bytes of each device; 0 is no limit
	NoPeers bool             // its devices do not copy to each other
	Seed    uint64           // of delays
	Delay   time.Duration    // longest delay before a piece of work; 0 is none
	Work    time.Duration    // how long a group's run sleeps
	Fail    func(Call) error // asked at each call; an error makes it fail. nil: nothing fails. Safe for concurrent use

	// Kernels are whose kernels run, on host memory; nil means the reference's. It has to be synchronous.
	Kernels backend.Backend
	// Layouts are the described layouts in which the device holds tensors beside row-major: those that Kernels asks for.
	Layouts []graph.Layout
	// Accept limits the nodes that it takes; nil means all whose tensors are of known shape.
	Accept func(n *graph.Node) bool
	// Dynamic lets it take nodes whose shapes depend on data.
	Dynamic bool
	// Strided says that ports take strides; it is asked about each operand that has some, and an answer of false is a
	// ContiguousError. nil: ports take compact storage.
	Strided func(output bool, operand int) bool
	// Align is the alignment that ports ask for; 0 means none.
	Align int64
}

// Backend is a fake backend, as it works on one of its devices. The views of On share everything.
type Backend struct {
	*machine
	first int // device that it works on
}

var (
	_ backend.Backend   = (*Backend)(nil)
	_ backend.Placeable = (*Backend)(nil)
)

// machine is what the views of a backend share.
type machine struct {
	o        Options
	kernels  backend.Backend
	devices  []*fakeDevice
	listed   []device.Device
	watch    watch
	landing  landing
	touching sync.Mutex // held while device memory is read or written: what is not ordered is a fault, and no race of Go's

	mu    sync.Mutex
	stats Stats
	calls map[Op]int
	open  map[string]int // streams, events, executables: how many are not closed
}

// New returns a fake backend.
func New(o Options) *Backend {
	o.Name, o.Devices, o.Index = cmp.Or(o.Name, "fake"), max(o.Devices, 1), cmp.Or(o.Index, 100)
	m := &machine{o: o, kernels: o.Kernels, open: map[string]int{}}
	if m.kernels == nil {
		m.kernels = &reference.Backend{Name: "reference"}
	}
	for i := range o.Devices {
		d := &fakeDevice{m: m, number: i, id: tensor.DeviceID{Type: tensor.ExtDev, Index: o.Index + int32(i)}, blocks: map[uintptr]*block{}, last: uintptr(7 + 1000*i)}
		m.devices = append(m.devices, d)
		m.listed = append(m.listed, d)
	}
	return &Backend{m, 0}
}

// Info implements backend.Backend.
func (b *Backend) Info() backend.Info {
	name := b.o.Name
	if b.first > 0 {
		name = fmt.Sprintf("%s:%d", name, b.first)
	}
	return backend.Info{Name: name, Version: "1", Processor: "imaginary accelerator", Memory: cmp.Or(b.o.Memory, 1<<30)}
}

// Properties implements backend.Backend.
func (b *Backend) Properties() []property.SubgraphProperty { return nil }

// Devices implements backend.Backend.
func (b *Backend) Devices() []device.Device {
	list := []device.Device{b.listed[b.first]}
	return append(append(list, b.listed[:b.first]...), b.listed[b.first+1:]...)
}

// On implements backend.Placeable.
func (b *Backend) On(id tensor.DeviceID) (backend.Backend, error) {
	for i, d := range b.devices {
		if d.id == id {
			return &Backend{b.machine, i}, nil
		}
	}
	return nil, fmt.Errorf("%w: %s has no device %v", backend.ErrUnavailable, b.o.Name, id)
}

// Converters implements backend.Backend: copies between the host and the devices, in each layout.
func (b *Backend) Converters() []convert.Converter {
	var list []convert.Converter
	for _, l := range append([]graph.Layout{graph.RowMajor}, b.o.Layouts...) {
		list = append(list, convert.Copies(l, convert.Cost{Fixed: 2000, PerByte: 0.1}, b.listed...)...)
	}
	return list
}

// Close implements backend.Backend. What was not given back before stays visible to Leaks.
func (b *Backend) Close() error { return nil }

// Supports implements backend.Backend: what the kernels support, on the device.
func (b *Backend) Supports(n *graph.Node) backend.Support {
	if b.o.Accept != nil && !b.o.Accept(n) {
		return backend.No(property.Unsupported, "not accepted")
	}
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v == nil {
				continue
			}
			if !v.Type.IsTensor() || v.Type.DType.Size() == 0 {
				return backend.No(property.DTypeReason, "%v", v.Type)
			}
			if !v.Type.Backed() && !b.o.Dynamic {
				return backend.No(property.DynamicShape, "%v", v.Type)
			}
		}
	}
	s := b.kernels.Supports(n)
	var here []graph.Signature
	for _, sig := range s.Signatures {
		if sig, ok := b.onDevice(n, sig); ok {
			here = append(here, sig)
		}
	}
	if s.Signatures = here; s.Reason == nil && len(here) == 0 {
		return backend.No(property.Unsupported, "its formats are not the device's")
	}
	return s
}

// onDevice returns a signature of the host's with formats of the device; ok is false where it has not got the layouts. Small
// constants of integers, axes and the like, stay on the host, where kernels are chosen by them.
func (b *Backend) onDevice(n *graph.Node, s graph.Signature) (out graph.Signature, ok bool) {
	ok = true
	format := func(f graph.Format) graph.Format {
		ok = ok && f.Device.IsHost() && (f.Layout == graph.RowMajor || slices.Contains(b.o.Layouts, f.Layout))
		return graph.Format{Device: b.devices[b.first].id, Layout: f.Layout}
	}
	ports := func(list []graph.Port) []graph.Port {
		out := slices.Clone(list)
		for i := range out {
			if out[i].Var == 0 {
				out[i].Format = format(out[i].Format)
			}
		}
		return out
	}
	for i, v := range n.Inputs {
		if v != nil && (v.IsDims() || v.IsConst() && v.Type.DType.IsInt() && v.Const.Len() <= 64) {
			defer func() { out.Inputs[i] = graph.Fixed(graph.HostFormat) }()
		}
	}
	out = graph.Signature{Name: s.Name, Inputs: ports(s.Inputs), Outputs: ports(s.Outputs), Extra: s.Extra}
	for _, v := range s.Vars {
		list := make([]graph.Format, len(v))
		for i, f := range v {
			list[i] = format(f)
		}
		out.Vars = append(out.Vars, list)
	}
	return out, ok
}

// Compile implements backend.Backend.
func (b *Backend) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	if err := b.fail(Compile, b.first); err != nil {
		return nil, err
	}
	g, err := sub.Clone()
	if err != nil {
		return nil, err
	}
	for _, v := range g.ValuesByID() {
		if v == nil {
			continue
		}
		if v.IsConst() && v.Const.Device == b.devices[b.first].id { // kernels may be chosen by what they hold
			if v.Const, err = b.devices[b.first].fetch(v); err != nil {
				return nil, err
			}
		}
		v.Format.Device = tensor.DeviceID{}
	}
	inner, err := b.kernels.Compile(ctx, g, o)
	if err != nil {
		return nil, err
	}
	b.count("executables", 1)
	return &executable{m: b.machine, d: b.devices[b.first], sub: g, inner: inner}, nil
}
