package backendtest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
)

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
