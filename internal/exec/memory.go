package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
)

// Sessions take memory from a pool per device, which the machine has. What one gives back, because it ends or needs more, is
// there for the next; a pool never holds more than sessions have had in use at one time. MaxArenaBytes bounds what a session
// takes on all devices together, DeviceLimits what all sessions and the pool take on one. Where a limit or the device says no,
// memory that nobody uses is given up first (relief).

// space is a device as the machine and its sessions use it: memory comes from the pool, and from what is idle.
type space struct {
	*device.Pool
	m *Machine
}

// makeSpaces puts pools between the machine and its devices.
func (m *Machine) makeSpaces() {
	m.spaces = map[tensor.DeviceID]*space{}
	devices := map[tensor.DeviceID]device.Device{}
	for id, d := range m.env.Transfer.Devices {
		if d == device.Host {
			d = populated{d}
		}
		m.spaces[id] = &space{device.NewPool(d, &device.PoolOptions{Limit: m.env.DeviceLimits[id], Keep: device.KeepPeak}), m}
		devices[id] = m.spaces[id]
	}
	m.env.Transfer.Devices = devices
}

// populated is a device of host memory whose blocks have their pages, where these are dear to make one by one: runs write all of an arena.
type populated struct{ device.Device }

// Alloc implements device.Device.
func (d populated) Alloc(n int64) (device.Memory, error) {
	m, err := d.Device.Alloc(n)
	offheap.Populate(m.Data)
	return m, err
}

// Alloc implements device.Device. The error wraps ErrMemoryLimit where it is one of DeviceLimits that forbids the allocation.
func (d *space) Alloc(n int64) (device.Memory, error) {
	for r := d.relief(); ; {
		mem, err := d.Pool.Alloc(n)
		if err == nil || !r.next(err) {
			return mem, d.limited(err)
		}
	}
}

// Reserve is that of Pool, with the errors of Alloc.
func (d *space) Reserve(n int64) error {
	for r := d.relief(); ; {
		err := d.Pool.Reserve(n)
		if err == nil || !r.next(err) {
			return d.limited(err)
		}
	}
}

// limited returns an error about the device's limit as ErrMemoryLimit, and others as they are.
func (d *space) limited(err error) error {
	var limit *device.LimitError
	if errors.As(err, &limit) && limit.Limit == d.m.env.DeviceLimits[d.ID().Canonical()] {
		own := *limit
		own.Kind = ErrMemoryLimit
		return &own
	}
	return err
}

// alloc takes memory of a device for the session.
func (s *Session) alloc(d device.Device, n int64) (device.Memory, error) {
	for tried := false; ; tried = true {
		err := s.fitsSum(n, s.held.Load()+s.beside.Load())
		if err == nil {
			var mem device.Memory
			if mem, err = d.Alloc(n); err == nil {
				mem.Device, mem.Size = d.ID(), n // the pool knows how large the block is
				s.held.Add(n)
				return mem, nil
			}
		}
		if tried || !isShort(err) || !s.dropOthers() {
			return device.Memory{}, err
		}
	}
}

// release gives memory of alloc back.
func (s *Session) release(d device.Device, m device.Memory) {
	s.held.Add(-m.Size)
	d.Free(m)
}

// isShort reports whether there is too little memory.
func isShort(err error) bool {
	return errors.Is(err, device.ErrOutOfMemory) || errors.Is(err, ErrMemoryLimit)
}

// fitsSum reports an error for n more bytes that are beyond MaxArenaBytes.
func (s *Session) fitsSum(n, used int64) error {
	if limit := s.m.env.MaxArenaBytes; limit > 0 && used > limit-n {
		return &device.LimitError{Need: n, Used: used, Limit: limit, Kind: ErrMemoryLimit}
	}
	return nil
}

// shrink gives back what the session holds on devices. Nothing of it is in use.
func (s *Session) shrink() {
	s.dropFrames()
	s.store = store{}
	for _, list := range []map[tensor.DeviceID]device.Memory{s.late, s.arenas} {
		for _, d := range sortedDevices(list) {
			s.release(s.m.env.Transfer.Devices[d], list[d])
			delete(list, d)
		}
	}
}

// relief gives up, one after another, what nobody uses on a device: the memory of idle sessions, the one that has been idle
// longest first, and last what the device and the cache of specialisations keep.
type relief struct {
	d    *space
	idle []*Session
	step int
}

func (d *space) relief() relief { return relief{d: d} }

// next gives something up after an allocation has failed with err. It reports whether another try is worth it.
func (r *relief) next(err error) bool {
	var limit *device.LimitError
	if !errors.Is(err, device.ErrOutOfMemory) || errors.As(err, &limit) && limit.Need > limit.Limit {
		return false
	}
	m := r.d.m
	if r.step == 0 {
		r.step, r.idle = 1, m.sessionsByUse()
	}
	for len(r.idle) > 0 {
		s := r.idle[0]
		r.idle = r.idle[1:]
		if s.yield(r.d.ID().Canonical()) {
			return true
		}
	}
	if r.step == 1 {
		r.step = 2
		m.dropSpecs()
		r.d.ReleaseAll()
		return true
	}
	return false
}

// dropOthers frees the frames of other shapes than that of the run under way. It reports whether that gave memory back. It may
// be called by several goroutines of that run.
func (s *Session) dropOthers() bool {
	s.dropping.Lock()
	defer s.dropping.Unlock()
	before := s.held.Load()
	s.frames = slices.DeleteFunc(s.frames, func(b *boundFrame) bool {
		if b.f == s.current {
			return false
		}
		b.free()
		return true
	})
	return s.held.Load() < before
}

// yield gives back what the session holds, where it is idle and has something on a device. It reports whether that was so.
func (s *Session) yield(d tensor.DeviceID) bool {
	if !s.busy.TryLock() {
		return false
	}
	defer s.busy.Unlock()
	if !s.idle() {
		return false
	}
	if s.arenas[d].Size == 0 && s.late[d].Size == 0 {
		return false
	}
	s.shrink()
	return true
}

// sessionsByUse returns the sessions, the one that was used longest ago first.
func (m *Machine) sessionsByUse() []*Session {
	m.mu.Lock()
	list := make([]*Session, 0, len(m.live))
	for s := range m.live {
		list = append(list, s)
	}
	m.mu.Unlock()
	used := map[*Session]int64{}
	for _, s := range list {
		used[s] = s.used.Load()
	}
	slices.SortFunc(list, func(a, b *Session) int { return cmp.Compare(used[a], used[b]) })
	return list
}

// Trim gives back to the system what nobody uses: the memory of idle sessions, what the pools keep, and specialisations that
// no session has bound, which are made anew when they are asked for. It returns the bytes of device memory that went back.
func (m *Machine) Trim() int64 {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	if m.closed.Load() {
		m.mu.Unlock()
		return 0
	}
	m.inside++
	m.mu.Unlock()
	for _, s := range m.sessionsByUse() {
		if s.busy.TryLock() {
			if s.idle() {
				s.shrink()
			}
			s.busy.Unlock()
		}
	}
	m.dropSpecs()
	var n int64
	for _, id := range sortedDevices(m.spaces) {
		n += m.spaces[id].Trim()
		m.spaces[id].ReleaseAll()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inside--
	m.endUnused()
	return n
}

// PoolStats returns what the pools hold, by device, the host first; nothing once the machine has ended.
func (m *Machine) PoolStats() (devices []tensor.DeviceID, stats []device.PoolStats) {
	m.mu.Lock()
	ended := m.ended
	m.mu.Unlock()
	if ended {
		return nil, nil
	}
	devices = sortedDevices(m.spaces)
	for _, d := range devices {
		stats = append(stats, m.spaces[d].Stats())
	}
	return devices, stats
}

// bounded reports whether what a run holds beside its arenas counts against a limit.
func (m *Machine) bounded() bool {
	return m.env.MaxArenaBytes > 0 || m.env.DeviceLimits[tensor.DeviceID{}] > 0
}

// fits reports an error for a buffer that can never be had: beyond a limit, or more than the memory of the host that is left.
func (m *Machine) fits(d tensor.DeviceID, n int64) error {
	d = d.Canonical()
	if limit := m.env.DeviceLimits[d]; limit > 0 && n > limit {
		return &device.LimitError{Device: d.String(), Need: n, Limit: limit, Kind: ErrMemoryLimit}
	}
	if limit := m.env.MaxArenaBytes; limit > 0 && n > limit {
		return &device.LimitError{Need: n, Limit: limit, Kind: ErrMemoryLimit}
	}
	return m.isThere(n)
}

// isThere reports an error for n bytes that the system has not got, also when everything that is idle is given up.
func (m *Machine) isThere(n int64) error {
	host := m.spaces[tensor.DeviceID{}]
	for r := host.relief(); !offheap.Fits(n); host.Trim() {
		err := fmt.Errorf("%w: %d bytes, %d are left on the host", device.ErrOutOfMemory, n, offheap.Available())
		if s := host.Stats(); n > offheap.Available()+s.Held() || !r.next(err) {
			return err
		}
	}
	return nil
}

// form returns a constant in another format. Where its device has no room for it, what is idle there makes some.
func (m *Machine) form(ctx context.Context, v *graph.Value, f graph.Format) (*tensor.Tensor, error) {
	d := m.spaces[f.Device.Canonical()]
	if d == nil {
		return m.env.Constants.Form(ctx, v, f)
	}
	for r := d.relief(); ; d.Trim() { // constants do not come from the pool
		t, err := m.env.Constants.Form(ctx, v, f)
		if err == nil || !r.next(err) {
			return t, err
		}
	}
}
