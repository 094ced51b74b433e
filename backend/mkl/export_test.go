package mkl

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
)

// Decoded makes the descriptor of a layout and reads it back.
func Decoded(b backend.Backend, l graph.Layout, dims []int) (graph.Layout, bool, error) {
	d, err := b.(*mkl).l.desc(in(l, dims))
	if err != nil {
		return l, false, err
	}
	got, ok := d.layout(len(dims))
	return got, ok, nil
}

// DescriptorBytes returns the size that the library gives a tensor.
func DescriptorBytes(b backend.Backend, l graph.Layout, dims []int) (int64, error) {
	d, err := b.(*mkl).l.desc(in(l, dims))
	return d.bytes(), err
}

// Folded writes a layout over [G, O, I, …] of these dims as one over [G·O, I, …] and turns it back.
func Folded(b backend.Backend, tag string, dims []int) (folded, back string) {
	l, err := graph.ParseLayout(tag)
	if err != nil {
		return err.Error(), ""
	}
	d, err := b.(*mkl).l.desc(in(l, dims))
	if err != nil {
		return err.Error(), ""
	}
	s, _ := d.blocking(len(dims))
	f, ok := foldGroups(s)
	if !ok {
		return "none", ""
	}
	u, ok := unfoldGroups(f, len(dims)-1, dims[1] == 1)
	if !ok {
		return f.String(), "none"
	}
	return f.String(), u.String()
}

// Primitives returns how many primitives the library's cache knows.
func Primitives(b backend.Backend) int {
	c := &b.(*mkl).l.primitives
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.m)
}

// MadeFor returns the number of threads that Tanh of so many elements is made for in runs on that many.
func MadeFor(b backend.Backend, elements, threads int) int {
	l := b.(*mkl).l
	return l.elementwise(eltTanh, 0, 0, plain(elements)).threads(threads)
}

// Executions runs one small primitive again and again, with nothing around it but the call.
func Executions(b backend.Backend, elements, n int) error {
	m := b.(*mkl)
	pr, err := m.l.primitive(nil, 1, m.l.elementwise(eltTanh, 0, 0, plain(elements)))
	if err != nil {
		return err
	}
	at := place.Memory{Size: elements * 4}
	in := &instance{e: &executable{b: m, threads: 1}, slots: []place.Slot{{Kind: place.Data, Data: make([]byte, elements*4)}},
		steps: []step{{primitive: pr, args: []arg{{argSrc, at, pr.src, false}, {argDst, at, pr.dst, true}}}}}
	st, err := in.newState()
	if err != nil {
		return err
	}
	if err := st.BindTo(&backend.RunArgs{}); err != nil {
		return err
	}
	return m.l.withThreads(1, func() error {
		if err := st.invoke(0); err != nil {
			return err
		}
		for range n {
			dl.Invoke(st.calls[0].frame)
		}
		return nil
	})
}

// HandOvers hands a run without steps over to an executor for two threads, again and again.
func HandOvers(b backend.Backend, n int) error {
	l := b.(*mkl).l
	m := l.teams.acquire(l, 2)
	defer l.teams.release(m)
	st, err := (&instance{e: &executable{b: b.(*mkl), threads: 2}}).newState()
	if err != nil {
		return err
	}
	st.ctx = context.Background()
	for range n {
		if err := m.run(st.ctx, st); err != nil {
			return err
		}
	}
	return nil
}

// Inside starts runs at once in the team for that many threads, every third as one whose primitives have one thread. Each stays
// until so many have met. It returns how many were inside of the library at a time, and on how many threads executors ran, 0
// where that is not known.
func Inside(b backend.Backend, threads, meet, runs int) (most, executors int, err error) {
	l := b.(*mkl).l
	m := l.teams.acquire(l, threads)
	defer l.teams.release(m)
	var mu sync.Mutex
	var once sync.Once
	inside, ids, met := 0, map[int]bool{}, make(chan struct{})
	never, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	job := func(solo bool) step {
		return step{host: func(*state) error {
			mu.Lock()
			inside++
			if most = max(most, inside); inside == meet {
				once.Do(func() { close(met) })
			}
			if !solo {
				ids[threadID()] = true
			}
			mu.Unlock()
			select {
			case <-met:
				time.Sleep(time.Millisecond) // for those who have no business to be here
			case <-never.Done():
				return errors.New("too few have met")
			}
			mu.Lock()
			inside--
			mu.Unlock()
			return nil
		}}
	}
	errs := make(chan error, runs)
	for i := range runs {
		solo := i%3 == 0
		st, err := (&instance{e: &executable{b: b.(*mkl), threads: threads}, solo: solo, steps: []step{job(solo)}}).newState()
		if err != nil {
			return 0, 0, err
		}
		st.ctx = context.Background()
		go func() { errs <- m.run(st.ctx, st) }()
	}
	for range runs {
		err = errors.Join(err, <-errs)
	}
	if runtime.GOOS != "linux" {
		return most, 0, err
	}
	return most, len(ids), err
}

// WithoutVNNI runs f while the library counts as one that adds products in 16 bits.
func WithoutVNNI(b backend.Backend, f func()) {
	l := b.(*mkl).l
	l.saturates.Store(true)
	defer l.saturates.Store(false)
	f()
}

// ExactProducts reports whether the library multiplies all integers of eight bits exactly here.
func ExactProducts(b backend.Backend) bool { return b.(*mkl).l.exactProducts() }

// Recovered returns the integers behind a float constant with outputs along an axis, and their scales; nil where there are
// none.
func Recovered(t *tensor.Tensor, axis int) ([]int8, []float32) {
	w := new(fuse.Quants).WeightsOf(t, nil, nil, axis)
	if w == nil {
		return nil, nil
	}
	return tensor.Of[int8](w.Q), w.Scales
}

// Operators returns the names of the operators of the default domain that the backend has primitives for, and "pattern:" and
// the names of its fused nodes.
func Operators() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(table)), func(name string) bool { return name == operators.Convert })
}
