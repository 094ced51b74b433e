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
	there, rounds, ok := move(t, r, devices, src, graph.HostFormat, x.format)
	if !ok {
		return false
	}
	back, roundsBack, ok := move(t, r, devices, there, x.format, graph.HostFormat)
	if ok && !bytes.Equal(back.Bytes(), src.Bytes()) && !((rounds || roundsBack) && nearly(back, src)) {
		t.Errorf("%v of %v%v: what comes back differs", x.format, x.dtype, x.dims)
	}
	return ok
}

// nearly reports whether floats differ by no more than a few roundings of the largest of them.
func nearly(a, b *tensor.Tensor) bool {
	x, y := tensor.Of[float32](a), tensor.Of[float32](b)
	if x == nil || len(x) != len(y) {
		return false
	}
	var most, off float64
	for i := range x {
		most, off = max(most, math.Abs(float64(y[i]))), max(off, math.Abs(float64(x[i])-float64(y[i])))
	}
	return off <= 16*most*0x1p-24
}

// move converts along the cheapest path. rounds says that a converter on it does; ok is false where one does not handle such tensors.
func move(t tester, r *convert.Registry, devices map[tensor.DeviceID]device.Device, src *tensor.Tensor, from, to graph.Format) (out *tensor.Tensor, rounds, ok bool) {
	t.Helper()
	path, err := r.Path(from, to)
	if err != nil {
		t.Errorf("%v to %v: %v", from, to, err)
		return nil, false, false
	}
	for _, hop := range path {
		rounds = rounds || hop.Rounds
		if hop.Supports != nil && !hop.Supports(src.DType, len(src.Shape)) {
			return nil, false, false
		}
		run, err := hop.Prepare(src.DType, src.Shape, func(cause error) { t.Errorf("%v to %v: %v", hop.From, hop.To, cause) })
		if err != nil {
			return nil, false, false
		}
		size, err := r.Size(hop.To, src.DType, src.Shape)
		if err != nil {
			t.Errorf("%v: %v", hop.To, err)
			return nil, false, false
		}
		d := devices[hop.To.Device]
		if hop.To.Device.IsHost() {
			d = device.Host
		}
		if d == nil {
			t.Errorf("%v: the backend has no such device", hop.To)
			return nil, false, false
		}
		m, err := d.Alloc(size)
		if err != nil {
			t.Errorf("%v: %v", hop.To, err)
			return nil, false, false
		}
		t.Cleanup(func() { d.Free(m) })
		next := &tensor.Tensor{DType: src.DType, Shape: src.Shape, Device: hop.To.Device, Data: m.Data, Handle: m.Handle}
		if err := run(context.Background(), next, src, convert.Exec{}); err != nil {
			t.Errorf("%s: %v", hop.Name, err)
			return nil, false, false
		}
		src = next
	}
	if src.Data != nil && src.Device.IsHost() {
		c := *src
		c.Data = c.Data[:min(len(c.Data), math.MaxInt)]
		src = &c
	}
	return src, rounds, true
}
