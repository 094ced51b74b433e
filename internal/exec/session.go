package exec

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/pool"
)

// Session holds the memory of one run at a time: an arena per device, for every shape that it has run. It is used by one
// goroutine at a time.
type Session struct {
	m       *Machine
	frames  []*boundFrame // most recently used first
	arena   device.Memory // the host's, as large as the largest plan so far
	streams map[tensor.DeviceID]device.Stream
	run     pool.Run
	workers device.Workers // on run
	held    atomic.Int64   // bytes of all device memory
	beside  atomic.Int64   // bytes beside that, where MaxArenaBytes bounds them
	loops   int            // that are running, in each other
	profile *profiler
	check   *checker         // looks at each group; nil otherwise
	in      []*tensor.Tensor // inputs of the current run
	closed  bool
}

func newSession(m *Machine) *Session {
	s := &Session{m: m, streams: map[tensor.DeviceID]device.Stream{}}
	s.workers.Run = &s.run
	return s
}

type boundFrame struct {
	shapes [][]int
	f      *frame
}

// stream returns the session's stream of a device.
func (s *Session) stream(d tensor.DeviceID) device.Stream {
	d = d.Canonical()
	if st := s.streams[d]; st != nil {
		return st
	}
	if dev := s.m.env.Transfer.Devices[d]; dev != nil {
		if st, err := dev.NewStream(); err == nil {
			s.streams[d] = st
		}
	}
	return s.streams[d]
}

// alloc takes device memory within MaxArenaBytes.
func (s *Session) alloc(d device.Device, n int64) (device.Memory, error) {
	if limit, used := s.m.env.MaxArenaBytes, s.held.Load()+s.beside.Load(); limit > 0 && used+n > limit {
		return device.Memory{}, fmt.Errorf("%w: %d bytes with %d in use, limit %d", ErrMemoryLimit, n, used, limit)
	}
	m, err := d.Alloc(n)
	if err == nil {
		m.Device = d.ID()
		s.held.Add(m.Size)
	}
	return m, err
}

func (s *Session) release(d device.Device, m device.Memory) {
	s.held.Add(-m.Size)
	d.Free(m)
}

// frameFor returns the frame for the session's input shapes.
func (s *Session) frameFor(ctx context.Context, in []*tensor.Tensor) (*frame, error) {
	for i, b := range s.frames {
		if matches(b.shapes, in) {
			copy(s.frames[1:i+1], s.frames[:i])
			s.frames[0] = b
			s.m.touch(b.f.s)
			return b.f, nil
		}
	}
	shapes := make([][]int, len(in))
	for i, t := range in {
		if t != nil {
			shapes[i] = slices.Clone(t.Shape)
		}
	}
	sp, err := s.m.spec(ctx, shapes)
	if err != nil {
		return nil, err
	}
	s.frames = slices.DeleteFunc(s.frames, func(b *boundFrame) bool {
		if s.m.cached(b.f.s) {
			return false
		}
		b.f.free()
		return true
	})
	if need := s.m.arenaFor(sp); need > int64(len(s.arena.Data)) {
		if err := s.growArena(need); err != nil {
			return nil, err
		}
	}
	f, err := s.newFrame(sp, s.arena)
	if err != nil {
		f.free()
		return nil, err
	}
	s.frames = append([]*boundFrame{{shapes, f}}, s.frames...)
	return f, nil
}

// growArena replaces the host arena by a larger one; frames bound to the old one are dropped.
func (s *Session) growArena(need int64) error {
	for _, b := range s.frames {
		b.f.free()
	}
	s.frames = nil
	if s.arena.Size > 0 {
		s.release(device.Host, s.arena)
		s.arena = device.Memory{}
	}
	m, err := s.alloc(device.Host, need)
	if err != nil {
		return err
	}
	s.arena = m
	return nil
}

func matches(shapes [][]int, in []*tensor.Tensor) bool {
	for i, t := range in {
		if t != nil && !slices.Equal(shapes[i], t.Shape) {
			return false
		}
	}
	return true
}

// Close frees the session's memory. It must not be in use.
func (s *Session) Close() error {
	s.closed = true
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if !s.m.live[s] {
		return nil
	}
	s.m.drop(s)
	return nil
}

// free gives everything back.
func (s *Session) free() {
	for _, b := range s.frames {
		b.f.free()
	}
	s.frames = nil
	if s.arena.Size > 0 {
		s.release(device.Host, s.arena)
		s.arena = device.Memory{}
	}
	for _, d := range sortedDevices(s.streams) {
		s.streams[d].Close()
	}
	clear(s.streams)
}

func sortedDevices[T any](m map[tensor.DeviceID]T) []tensor.DeviceID {
	out := make([]tensor.DeviceID, 0, len(m))
	for d := range m {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b tensor.DeviceID) int {
		if a.Type != b.Type {
			return int(a.Type - b.Type)
		}
		return int(a.Index - b.Index)
	})
	return out
}
