package backendtest

import (
	"bytes"
	"context"
	"math"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// stored is a tensor in a format.
type stored struct {
	format graph.Format
	dtype  tensor.DType
	dims   []int
}

// formats returns the formats that a backend names, in its converters and in signatures for the cases, and the constants
// that these want in a format of their own.
func formats(t tester, b backend.Backend) (list []graph.Format, constants []stored) {
	t.Helper()
	seen := map[graph.Format]bool{}
	add := func(f graph.Format) {
		if !seen[f] && !(f.Layout.IsOpaque() && asked(b, f.Layout)) { // what a source knows is one constant's
			seen[f] = true
			list = append(list, f)
		}
	}
	for _, c := range b.Converters() {
		add(c.From)
		add(c.To)
	}
	for _, c := range cases {
		for n := range c.parse(t).Nodes() {
			for _, sig := range b.Supports(n).Signatures {
				for k, p := range sig.Inputs {
					if v := n.Inputs[k]; p.Var == 0 && v != nil && v.IsConst() && p.Format != graph.HostFormat {
						constants = append(constants, stored{p.Format, v.Const.DType, v.Const.Shape})
					}
				}
				for _, ports := range [][]graph.Port{sig.Inputs, sig.Outputs} {
					for _, p := range ports {
						if p.Var == 0 {
							add(p.Format)
						}
					}
				}
				for _, v := range sig.Vars {
					for _, f := range v {
						add(f)
					}
				}
			}
		}
	}
	return list, constants
}

// asked reports whether a backend is the source of a layout's converters.
func asked(b backend.Backend, l graph.Layout) bool {
	s, ok := b.(convert.Source)
	return ok && len(s.ConvertersOf(l)) > 0
}

// tripTypes are the element types that are brought there and back.
var tripTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int8, tensor.Uint8, tensor.Int32, tensor.Int64}

// converters brings tensors from the host format to every format of the backend and back, bit by bit: activations of
// several shapes and types, and constants as the backend wants them.
func (s *suite) converters(t tester) {
	b := s.backend(t)
	list, constants := formats(t, b)
	registry, err := convert.NewRegistry(b.Converters(), list...)
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := b.(convert.Source); ok {
		registry.AddSource(s)
	}
	devices := map[tensor.DeviceID]device.Device{{}: device.Host}
	for _, d := range b.Devices() {
		devices[d.ID()] = d
	}
	for _, f := range list {
		for _, dims := range [][]int{{2, 3, 5, 7}, {1, 16, 4, 4}, {3, 20, 1, 1}, {1, 1, 1, 1}, {5, 33}, {40, 16}, {2, 17, 3}, {1, 4, 3, 2, 5}} {
			if !f.Layout.IsOpaque() {
				if _, err := f.Layout.Describe(len(dims)); err != nil {
					continue // a layout for another rank
				}
			}
			for _, dt := range tripTypes {
				trip(t, registry, devices, stored{f, dt, dims})
			}
		}
	}
	for _, c := range constants {
		if !trip(t, registry, devices, c) {
			t.Errorf("a signature wants a constant %v%v in %v, which no converter makes or undoes", c.dtype, c.dims, c.format)
		}
	}
}

// trip converts one tensor to a format and back; it reports whether there are converters.
func trip(t tester, r *convert.Registry, devices map[tensor.DeviceID]device.Device, x stored) bool {
	t.Helper()
	src, err := tensor.New(x.dtype, x.dims...)
	if err != nil {
		t.Fatal(err)
	}
	random := source(3)
	if err := random.fill(src); err != nil {
		t.Fatal(err)
	}
	there, ok := move(t, r, devices, src, graph.HostFormat, x.format)
	if !ok {
		return false
	}
	back, ok := move(t, r, devices, there, x.format, graph.HostFormat)
	if ok && !bytes.Equal(back.Bytes(), src.Bytes()) {
		t.Errorf("%v of %v%v: what comes back differs", x.format, x.dtype, x.dims)
	}
	return ok
}

// move converts along the cheapest path. ok is false where a converter does not handle such tensors.
func move(t tester, r *convert.Registry, devices map[tensor.DeviceID]device.Device, src *tensor.Tensor, from, to graph.Format) (out *tensor.Tensor, ok bool) {
	t.Helper()
	path, err := r.Path(from, to)
	if err != nil {
		t.Errorf("%v to %v: %v", from, to, err)
		return nil, false
	}
	for _, hop := range path {
		if hop.Supports != nil && !hop.Supports(src.DType, len(src.Shape)) {
			return nil, false
		}
		run, err := hop.Plan(src.DType, src.Shape)
		if err != nil {
			return nil, false
		}
		size, err := r.Size(hop.To, src.DType, src.Shape)
		if err != nil {
			t.Errorf("%v: %v", hop.To, err)
			return nil, false
		}
		d := devices[hop.To.Device]
		if hop.To.Device.IsHost() {
			d = device.Host
		}
		if d == nil {
			t.Errorf("%v: the backend has no such device", hop.To)
			return nil, false
		}
		m, err := d.Alloc(size)
		if err != nil {
			t.Errorf("%v: %v", hop.To, err)
			return nil, false
		}
		t.Cleanup(func() { d.Free(m) })
		next := &tensor.Tensor{DType: src.DType, Shape: src.Shape, Device: hop.To.Device, Data: m.Data, Handle: m.Handle}
		if err := run(context.Background(), next, src, convert.Exec{}); err != nil {
			t.Errorf("%s: %v", hop.Name, err)
			return nil, false
		}
		src = next
	}
	if src.Data != nil && src.Device.IsHost() {
		c := *src
		c.Data = c.Data[:min(len(c.Data), math.MaxInt)]
		src = &c
	}
	return src, true
}
