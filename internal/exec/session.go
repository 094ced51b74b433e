package exec

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/pool"
)

// Session holds the memory of one run at a time: an arena per device, for every shape that it has run. It is used by one
// goroutine at a time, between Enter and Leave.
type Session struct {
	m         *Machine
	busy      sync.Mutex                        // held by who uses the session, or takes its memory
	used      atomic.Int64                      // Machine.clock
	frames    []*boundFrame                     // most recently used first
	current   *frame                            // of them, that of the run under way
	dropping  sync.Mutex                        // while the others are dropped
	arenas    map[tensor.DeviceID]device.Memory // each as large as the largest plan so far, or larger: see grown
	late      map[tensor.DeviceID]device.Memory // buffers of late groups, which run one after another
	streams   map[lane]device.Stream
	run       pool.Run
	workers   device.Workers // on run
	held      atomic.Int64   // bytes of all device memory
	beside    atomic.Int64   // bytes beside that, where MaxArenaBytes bounds them
	store     store          // for results of shapes that depend on data
	lateNodes int            // of the instances of late groups that frames keep
	loops     int            // that are running, in each other
	profile   *profiler
	check     *checker         // looks at each group; nil otherwise
	named     []tensor.Value   // room for inputs by name
	in        []*tensor.Tensor // inputs of the current run
	ins       []Operand        // the same, as the caller has them
	outs      []Operand
	wanted    []bool       // per output of the current run
	provide   Provide      // of the current run, nil where results are made for it
	pending   *frame       // whose run has been enqueued, and has not been settled
	over      *atomic.Bool // that run is over
	closed    bool
}

func newSession(m *Machine) *Session {
	s := &Session{m: m, arenas: map[tensor.DeviceID]device.Memory{}, late: map[tensor.DeviceID]device.Memory{}, streams: map[lane]device.Stream{}}
	s.workers.Run = &s.run
	return s
}

// Enter begins a use of the session. Where its memory is being taken, since it was idle, it waits.
func (s *Session) Enter() {
	s.busy.Lock()
	s.used.Store(s.m.clock.Add(1))
}

// Leave ends a use of the session.
func (s *Session) Leave() { s.busy.Unlock() }

// boundFrame is the frame for the main block at some shapes. Its spec counts it.
type boundFrame struct {
	shapes [][]int
	f      *frame
}

func (b *boundFrame) free() {
	b.f.free()
	b.f.s.frames.Add(-1)
}

// frameFor returns the frame for the session's input shapes.
func (s *Session) frameFor(ctx context.Context, in []*tensor.Tensor) (*frame, error) {
	for i, b := range s.frames {
		if matches(b.shapes, in) {
			copy(s.frames[1:i+1], s.frames[:i])
			s.frames[0] = b
			s.current = b.f
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
	s.current = nil
	sp, err := s.m.spec(ctx, shapes)
	if err != nil {
		return nil, err
	}
	sp.frames.Add(1)
	s.frames = slices.DeleteFunc(s.frames, func(b *boundFrame) bool {
		if !b.f.s.dropped.Load() {
			return false
		}
		b.free()
		return true
	})
	f, err := s.bind(sp)
	if err != nil {
		sp.frames.Add(-1)
		return nil, err
	}
	s.frames = slices.Insert(s.frames, 0, &boundFrame{shapes, f})
	s.current = f
	return f, nil
}

// bind returns a frame for a spec, in the session's arenas.
func (s *Session) bind(sp *Spec) (*frame, error) {
	arenas, err := s.reserve(sp)
	if err != nil {
		return nil, err
	}
	f, err := s.newFrame(sp, arenas)
	if err != nil {
		f.free()
		return nil, err
	}
	return f, nil
}

// moreRoom is the most bytes by which an arena that grows is larger than it must be, unless an eighth of it is more.
const moreRoom = 8 << 20

// grown returns the bytes of an arena that takes the place of a smaller one: with room for larger shapes to come, so that lengths that
// grow do not take new memory each time.
func grown(need int64) int64 { return need + max(min(need, moreRoom), need/8) }

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
			room := need
			if have.Size > 0 && d.IsHost() && !s.m.bounded() {
				room = grown(need)
			}
			m, err := s.alloc(dev, room)
			if err != nil && room > need {
				m, err = s.alloc(dev, need)
			}
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
		b.free()
	}
	s.frames, s.current = nil, nil
}

func matches(shapes [][]int, in []*tensor.Tensor) bool {
	for i, t := range in {
		if t != nil && !slices.Equal(shapes[i], t.Shape) {
			return false
		}
	}
	return true
}

// Close gives the session's memory back, to the machine, which keeps it for the next. It must not be in use.
func (s *Session) Close() error {
	s.end()
	return nil
}

func (s *Session) end() {
	s.Enter()
	defer s.Leave()
	s.closed = true
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.live[s] {
		s.m.drop(s)
	}
}

// free gives everything back.
func (s *Session) free() {
	s.quiesce(context.Background())
	s.shrink()
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
