package exec

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/pool"
)

// Session holds the memory of one run at a time: an arena per device, for every shape that it has run. It is used by one
// goroutine at a time.
type Session struct {
	m       *Machine
	frames  []*boundFrame                     // most recently used first
	arenas  map[tensor.DeviceID]device.Memory // each as large as the largest plan so far
	streams map[lane]device.Stream
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
	s := &Session{m: m, arenas: map[tensor.DeviceID]device.Memory{}, streams: map[lane]device.Stream{}}
	s.workers.Run = &s.run
	return s
}

type boundFrame struct {
	shapes [][]int
	f      *frame
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
	arenas, err := s.reserve(sp)
	if err != nil {
		return nil, err
	}
	f, err := s.newFrame(sp, arenas)
	if err != nil {
		f.free()
		return nil, err
	}
	s.frames = append([]*boundFrame{{shapes, f}}, s.frames...)
	return f, nil
}

// reserve returns the session's arenas for a spec. One that is too small is replaced, and the frames bound to it dropped.
func (s *Session) reserve(sp *Spec) (map[tensor.DeviceID]arena, error) {
	out := map[tensor.DeviceID]arena{}
	for _, d := range sp.devices() {
		need := s.m.arenaFor(sp, d)
		if have := s.arenas[d]; need > have.Size {
			s.dropFrames()
			dev := s.m.env.Transfer.Devices[d]
			if dev == nil {
				return nil, fmt.Errorf("%w: no backend has device %v", backend.ErrUnavailable, d)
			}
			if have.Size > 0 {
				s.release(dev, have)
				delete(s.arenas, d)
			}
			m, err := s.alloc(dev, need)
			if err != nil {
				return nil, err
			}
			s.arenas[d] = m
		}
		out[d] = arena{mem: s.arenas[d]}
	}
	return out, nil
}

// dropFrames frees what is bound to the arenas.
func (s *Session) dropFrames() {
	for _, b := range s.frames {
		b.f.free()
	}
	s.frames = nil
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
	s.dropFrames()
	for _, d := range sortedDevices(s.arenas) {
		s.release(s.m.env.Transfer.Devices[d], s.arenas[d])
		delete(s.arenas, d)
	}
	for _, l := range slices.SortedFunc(maps.Keys(s.streams), lane.compare) {
		_ = s.streams[l].Close() // what failed there has been told of by the run
	}
	clear(s.streams)
}

func sortedDevices[T any](m map[tensor.DeviceID]T) []tensor.DeviceID {
	out := make([]tensor.DeviceID, 0, len(m))
	for d := range m {
		out = append(out, d)
	}
	slices.SortFunc(out, compareDevices)
	return out
}

func compareDevices(a, b tensor.DeviceID) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Index, b.Index))
}
