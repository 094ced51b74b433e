package backendtest

import (
	"bytes"
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// formats returns the formats that a backend names: in its converters, and in signatures for the cases.
func formats(t *testing.T, b backend.Backend) (list []graph.Format, converters []convert.Converter) {
	seen := map[graph.Format]bool{}
	add := func(f graph.Format) {
		if !seen[f] {
			seen[f] = true
			list = append(list, f)
		}
	}
	converters = b.Converters()
	for _, c := range converters {
		add(c.From)
		add(c.To)
	}
	for _, c := range cases {
		for n := range c.parse(t).Nodes() {
			for _, sig := range b.Supports(n).Signatures {
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
	return list, converters
}

// converters brings tensors from the host format to every format of the backend and back, bit by bit.
func (s *suite) converters(t *testing.T) {
	b := s.backend(t)
	list, converters := formats(t, b)
	registry, err := convert.NewRegistry(converters, list...)
	if err != nil {
		t.Fatal(err)
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
			trip(t, registry, devices, f, dims)
		}
	}
}

// trip converts one tensor to a format and back.
func trip(t *testing.T, r *convert.Registry, devices map[tensor.DeviceID]device.Device, f graph.Format, dims []int) {
	t.Helper()
	src, err := tensor.New(tensor.Float32, dims...)
	if err != nil {
		t.Fatal(err)
	}
	random := source(3)
	if err := random.fill(src); err != nil {
		t.Fatal(err)
	}
	there, ok := move(t, r, devices, src, graph.HostFormat, f)
	if !ok {
		return
	}
	back, ok := move(t, r, devices, there, f, graph.HostFormat)
	if ok && !bytes.Equal(back.Bytes(), src.Bytes()) {
		t.Errorf("%v of %v: what comes back differs", f, dims)
	}
}

// move converts along the cheapest path. ok is false where a converter does not handle such tensors.
func move(t *testing.T, r *convert.Registry, devices map[tensor.DeviceID]device.Device, src *tensor.Tensor, from, to graph.Format) (out *tensor.Tensor, ok bool) {
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
		if err := run(context.Background(), next, src, nil); err != nil {
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

// devices tries memory: blocks, copies there and back, bounds.
func (s *suite) devices(t *testing.T) {
	for _, d := range s.backend(t).Devices() {
		ctx := context.Background()
		m, err := d.Alloc(1000)
		if err != nil {
			t.Fatalf("%v: %v", d.ID(), err)
		}
		other, err := d.Alloc(1000)
		if err != nil {
			t.Fatalf("%v: %v", d.ID(), err)
		}
		src, got := make([]byte, 600), make([]byte, 600)
		for i := range src {
			src[i] = byte(i*7 + 1)
		}
		if err := errors.Join(d.CopyTo(ctx, m, 300, src), d.CopyBetween(ctx, other, 100, m, 300, 600), d.CopyFrom(ctx, got, other, 100)); err != nil {
			t.Errorf("%v: %v", d.ID(), err)
		}
		if !bytes.Equal(src, got) {
			t.Errorf("%v: what was copied comes back otherwise", d.ID())
		}
		for name, err := range map[string]error{
			"CopyTo": d.CopyTo(ctx, m, m.Size-10, src), "CopyFrom": d.CopyFrom(ctx, got, m, -1),
			"CopyBetween": d.CopyBetween(ctx, m, 0, other, other.Size, 1),
		} {
			if err == nil {
				t.Errorf("%v: %s outside of a block goes through", d.ID(), name)
			}
		}
		stream, err := d.NewStream()
		if err != nil {
			t.Fatalf("%v: %v", d.ID(), err)
		}
		var mu sync.Mutex
		seen := make([]int, 100)
		stream.Parallel(len(seen), func(lo, hi int) {
			mu.Lock()
			defer mu.Unlock()
			for i := lo; i < hi; i++ {
				seen[i]++
			}
		})
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("%v: index %d was run %d times", d.ID(), i, n)
			}
		}
		if err := errors.Join(stream.Sync(ctx), stream.Close()); err != nil {
			t.Errorf("%v: %v", d.ID(), err)
		}
		d.Free(m)
		d.DirectFree(other)
		d.ReleaseAll()
	}
}

// cancellation ends contexts before and during runs; the program stays usable.
func (s *suite) cancellation(t *testing.T) {
	c := network
	p := must(t, c.parse(t), s.backend(t))
	in, err := feeds(c.parse(t), nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Run(ended, in); !errors.Is(err, context.Canceled) {
		t.Errorf("a run with a context that has ended returns %v", err)
	}
	for range 20 {
		during, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Add(1)
		go func() {
			defer wg.Done()
			cancel()
		}()
		if _, err := p.Run(during, in); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a run whose context ends returns %v", err)
		}
		wg.Wait()
	}
	agree(t, c, p, nil)
}

// concurrency runs a program from many goroutines: the results are the same, bit by bit.
func (s *suite) concurrency(t *testing.T) {
	c := network
	p := must(t, c.parse(t), s.backend(t))
	agree(t, c, p, nil)
	in, err := feeds(c.parse(t), nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	want, err := p.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 20 {
				got, err := p.Run(context.Background(), in)
				if err != nil {
					t.Error(err)
					return
				}
				for name, w := range want {
					if why := compare(got[name], w); why != "" {
						t.Errorf("output %s %s", name, why)
						return
					}
				}
			}
		}()
	}
	wg.Wait()
}
