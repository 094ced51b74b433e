package backendtest

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// devices tries memory: blocks, copies there and back, bounds.
func (s *suite) devices(t tester) {
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
		if err := errors.Join(d.CopyTo(ctx, nil, m, 300, src), d.CopyBetween(ctx, nil, other, 100, m, 300, 600), d.CopyFrom(ctx, nil, got, other, 100)); err != nil {
			t.Errorf("%v: %v", d.ID(), err)
		}
		if !bytes.Equal(src, got) {
			t.Errorf("%v: what was copied comes back otherwise", d.ID())
		}
		for name, err := range map[string]error{
			"CopyTo": d.CopyTo(ctx, nil, m, m.Size-10, src), "CopyFrom": d.CopyFrom(ctx, nil, got, m, -1),
			"CopyBetween": d.CopyBetween(ctx, nil, m, 0, other, other.Size, 1),
		} {
			if err == nil {
				t.Errorf("%v: %s outside of a block goes through", d.ID(), name)
			}
		}
		stream, err := d.NewStream()
		if err != nil {
			t.Fatalf("%v: %v", d.ID(), err)
		}
		if err := errors.Join(stream.Sync(ctx), stream.Close()); err != nil {
			t.Errorf("%v: %v", d.ID(), err)
		}
		if err := queued(ctx, d, m, src); err != nil {
			t.Errorf("%v: streams: %v", d.ID(), err)
		}
		d.Free(m)
		d.DirectFree(other)
		d.ReleaseAll()
	}
}

// queued brings bytes through a block by two streams, which events order, and behind an event of the host's.
func queued(ctx context.Context, d device.Device, m device.Memory, src []byte) error {
	first, err := d.NewStream()
	if err != nil {
		return err
	}
	second, err := d.NewStream()
	if err != nil {
		return errors.Join(err, first.Close())
	}
	back, gate := make([]byte, len(src)), device.NewEvent()
	go gate.Complete(nil)
	err = func() error {
		if err := errors.Join(first.WaitFor(ctx, gate), first.WaitFor(ctx, nil), d.CopyTo(ctx, first, m, 0, src)); err != nil {
			return err
		}
		e, err := first.Record()
		if err != nil {
			return err
		}
		if err := second.WaitFor(ctx, e); err != nil {
			return err
		}
		over := make(chan error, 1)
		if e == nil {
			over <- nil
		} else {
			e.Notify(func(err error) { over <- err })
			e.Close()
		}
		if err := errors.Join(d.CopyFrom(ctx, second, back, m, 0), second.Sync(ctx), <-over); err != nil {
			return err
		}
		if !bytes.Equal(back, src) {
			return errors.New("a copy behind an event does not see what was copied before it")
		}
		return nil
	}()
	return errors.Join(err, first.Close(), second.Close())
}

// cancellation ends contexts before and during runs; the program stays usable.
func (s *suite) cancellation(t tester) {
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
	s.ended(t)
}

// ended gives groups contexts that have ended: their runs say so.
func (s *suite) ended(t tester) {
	b := s.backend(t)
	w := &watched{Backend: b, t: t, mode: "with a context that has ended", ended: true}
	p, err := compile(t, network.parse(t), w, carve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	agree(t, network, p, nil) // it is run again, with a context that goes on
}

// mostGarbage is how many bytes of Go's memory a run may allocate when a session has run before: events and the like.
const mostGarbage = 16 << 10

// allocations runs a program into outputs of its own: backends work in the memory that carve gives them.
func (s *suite) allocations(t tester) {
	b := s.backend(t)
	if b.Info().Oracle {
		t.Skip("the oracle's kernels are plain")
	}
	p := must(t, network.parse(t), b)
	if mine, all := share(t, p, b.Info().Name); mine < all {
		t.Skip("the backend does not run the whole network")
	}
	feed, err := feeds(network.parse(t), nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	var in, out []*tensor.Tensor
	for _, v := range network.parse(t).Inputs {
		in = append(in, feed[v.Name].(*tensor.Tensor))
	}
	for _, v := range network.parse(t).Outputs {
		dims, err := v.Type.Shape.Eval(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		o, err := tensor.New(v.Type.DType, dims...)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	run := func(times int) {
		for range times {
			if err := p.RunInto(context.Background(), in, out); err != nil {
				t.Fatal(err)
			}
		}
	}
	run(3)
	const times = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run(times)
	runtime.ReadMemStats(&after)
	if per := (after.TotalAlloc - before.TotalAlloc) / times; per > mostGarbage {
		t.Errorf("a run allocates %d bytes of memory of its own", per)
	}
}

// concurrency runs a program from many goroutines: the results are the same, bit by bit.
func (s *suite) concurrency(t tester) {
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
