// Package constants keeps constants in other formats than the model stores them in: packed weights, copies outside of the
// model's file. Each is made once per constant and format. Those of the model's own constants are shared by everything that
// is compiled from the model ([Shared]); those that compilation made, and those on devices that end with a Program, belong
// to one Program.
//
// The package knows neither compiler nor run time.
package constants

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// Key is a constant in a format.
type Key struct {
	Constant *tensor.Tensor
	Format   graph.Format
}

// Store holds constants in formats and the memory that they lie in. The zero value is empty. It is safe for concurrent use.
type Store struct {
	mu        sync.Mutex
	made      map[Key]device.Memory
	allocated []allocation
	bytes     int64
	freed     bool
}

// allocation is memory that constants lie in.
type allocation struct {
	device device.Device
	mem    device.Memory
}

// Get returns where a constant lies in a format.
func (s *Store) Get(k Key) (device.Memory, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.made[k]
	return m, ok
}

// Bytes returns the memory that the store holds.
func (s *Store) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Free gives the memory back. What is added later is freed at once.
func (s *Store) Free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.allocated {
		b.device.Free(b.mem)
	}
	s.made, s.allocated, s.bytes, s.freed = nil, nil, 0, true
}

// Forget drops the keys, which hold what the constants were made of, and keeps the memory.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = nil
}

// Adopt takes note of constants in formats that lie in memory which others own.
func (s *Store) Adopt(made map[Key]device.Memory) error { return s.add(made, nil) }

// Copy copies bytes to memory of the host that the store owns.
func (s *Store) Copy(host device.Device, b []byte) ([]byte, error) {
	mem, err := host.Alloc(int64(len(b)))
	if err != nil {
		return nil, err
	}
	copy(mem.Data, b)
	return mem.Data[:len(b):len(b)], s.add(nil, []allocation{{host, mem}})
}

// add takes over what was made. The error wraps fs.ErrClosed after Free; the memory is freed then.
func (s *Store) add(made map[Key]device.Memory, allocated []allocation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freed {
		for _, b := range allocated {
			b.device.Free(b.mem)
		}
		return fmt.Errorf("constants: %w", fs.ErrClosed)
	}
	if s.made == nil {
		s.made = map[Key]device.Memory{}
	}
	for k, m := range made {
		s.made[k] = m
	}
	for _, b := range allocated {
		s.allocated = append(s.allocated, b)
		s.bytes += b.mem.Size
	}
	return nil
}

// Shared is the store of a model. One caller at a time packs constants of a model; packing is parallel in itself.
type Shared struct {
	Store
	turn  chan struct{} // held by who packs
	evict func()
	once  sync.Once
	own   map[*tensor.Tensor]bool
	graph *graph.Graph
}

// NewShared returns the store of a model. evict gives pages of its files back that have been read, nil for none.
func NewShared(g *graph.Graph, evict func()) *Shared {
	return &Shared{turn: make(chan struct{}, 1), graph: g, evict: evict}
}

func (s *Shared) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return func() { <-s.turn }, nil
}

// has reports whether a tensor is a constant of the model's graph.
func (s *Shared) has(t *tensor.Tensor) bool {
	s.once.Do(func() {
		s.own = map[*tensor.Tensor]bool{}
		s.collect(s.graph)
	})
	return s.own[t]
}

func (s *Shared) collect(g *graph.Graph) {
	for v := range g.Constants() {
		if v.IsConst() {
			s.own[v.Const] = true
		}
	}
	for n := range g.Nodes() {
		for _, r := range n.Regions {
			s.collect(r.Graph)
		}
	}
}

func (s *Shared) evictPages() {
	if s.evict != nil {
		s.evict()
	}
}
