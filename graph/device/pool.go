package device

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
)

// Pool is a Device that keeps the blocks that are freed and hands them out again: the one that fits best, where no more than
// half of it is wasted. Copies and streams are those of the Device beneath, whose blocks these are. It is safe for
// concurrent use.
type Pool struct {
	Device
	o PoolOptions

	mu   sync.Mutex
	used map[blockKey]Memory
	kept []keptBlock // by size
	age  int64
	most int64 // bytes in use at one time, since Trim
	s    PoolStats
}

// PoolOptions are the settings of a Pool.
type PoolOptions struct {
	// Limit is the most bytes in use, kept and reserved together. Kept blocks are given back to stay below it; an Alloc or a
	// Reserve beyond it gives a *LimitError. 0 is no limit but the device's.
	Limit int64
	// Keep is the most bytes kept; those that were freed first are given back first. 0 is no limit but Limit. With KeepPeak
	// the pool never holds more than was in use at one time since it was made or trimmed.
	Keep int64
}

// KeepPeak is a value of PoolOptions.Keep.
const KeepPeak int64 = -1

// PoolStats says what a Pool holds, and how well it serves.
type PoolStats struct {
	InUse    int64 // bytes handed out
	Kept     int64 // bytes kept
	Reserved int64 // bytes that lie elsewhere and count against the limit
	Peak     int64 // most bytes in use and kept together so far
	Hits     int64 // Allocs served by a kept block
	Misses   int64 // Allocs that the Device beneath served
}

// Held returns the bytes that the Pool has from the Device beneath.
func (s PoolStats) Held() int64 { return s.InUse + s.Kept }

// blockKey tells blocks apart: by their address on the host, by their handle elsewhere.
type blockKey struct {
	data   *byte
	handle uintptr
}

func keyOf(m Memory) blockKey {
	if len(m.Data) > 0 {
		return blockKey{data: unsafe.SliceData(m.Data)}
	}
	return blockKey{handle: m.Handle}
}

type keptBlock struct {
	m   Memory
	age int64
}

func bySize(b keptBlock, n int64) int { return cmp.Compare(b.m.Size, n) }

// NewPool returns a pool over a device. nil means the default options.
func NewPool(d Device, o *PoolOptions) *Pool {
	p := &Pool{Device: d, used: map[blockKey]Memory{}}
	if o != nil {
		p.o = *o
	}
	return p
}

// slackBytes are wasted by a block without a second thought.
const slackBytes = 64 << 10

// Alloc implements Device. The block may be larger than asked for. Where the device has no memory left, or the limit is
// reached, kept blocks are given back first.
func (p *Pool) Alloc(size int64) (Memory, error) {
	if size <= 0 {
		return p.Device.Alloc(size)
	}
	p.mu.Lock()
	i, _ := slices.BinarySearchFunc(p.kept, size, bySize)
	if i < len(p.kept) && (p.kept[i].m.Size/2 <= size || p.kept[i].m.Size-size <= slackBytes) {
		m := p.kept[i].m
		p.kept = slices.Delete(p.kept, i, i+1)
		p.s.Kept -= m.Size
		p.s.Hits++
		p.handOut(m)
		p.mu.Unlock()
		return m, nil
	}
	old, err := p.within(size)
	if err != nil {
		p.mu.Unlock()
		return Memory{}, err
	}
	if p.o.Keep == KeepPeak {
		old = append(old, p.dropUntil(max(p.most-p.s.InUse-size, 0))...)
	}
	p.s.InUse += size // for others that look at the limit meanwhile
	p.mu.Unlock()
	p.giveBack(old)
	m, err := p.Device.Alloc(size)
	if errors.Is(err, ErrOutOfMemory) && p.release() > 0 {
		m, err = p.Device.Alloc(size)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.s.InUse -= size
	if err != nil {
		return Memory{}, err
	}
	m.Size = max(m.Size, size)
	p.s.Misses++
	p.handOut(m)
	return m, nil
}

// within returns the kept blocks to give back so that size more bytes stay within the limit. It is called with mu held.
func (p *Pool) within(size int64) (old []Memory, err error) {
	if p.o.Limit <= 0 {
		return nil, nil
	}
	if used := p.s.InUse + p.s.Reserved; used > p.o.Limit-size {
		return nil, &LimitError{Device: p.ID().String(), Need: size, Used: used, Limit: p.o.Limit}
	}
	return p.dropUntil(p.o.Limit - size - p.s.InUse - p.s.Reserved), nil
}

// Reserve counts n more bytes that lie elsewhere, or -n fewer, against the limit. The error is a *LimitError.
func (p *Pool) Reserve(n int64) error {
	p.mu.Lock()
	var old []Memory
	var err error
	if n > 0 {
		old, err = p.within(n)
	}
	if err == nil {
		p.s.Reserved += n
	}
	p.mu.Unlock()
	p.giveBack(old)
	return err
}

// handOut notes a block that is in use from now on. It is called with mu held.
func (p *Pool) handOut(m Memory) {
	p.used[keyOf(m)] = m
	p.s.InUse += m.Size
	p.most = max(p.most, p.s.InUse)
	p.s.Peak = max(p.s.Peak, p.s.Held())
}

// takeBack notes that a block is in use no more, and returns it as the device gave it. ok is false where it is not the
// pool's.
func (p *Pool) takeBack(m Memory) (Memory, bool) {
	k := keyOf(m)
	own, ok := p.used[k]
	if ok {
		delete(p.used, k)
		p.s.InUse -= own.Size
	}
	return own, ok
}

// Free implements Device: the block is kept.
func (p *Pool) Free(m Memory) {
	p.mu.Lock()
	own, ok := p.takeBack(m)
	if !ok {
		p.mu.Unlock()
		p.Device.Free(m)
		return
	}
	i, _ := slices.BinarySearchFunc(p.kept, own.Size, bySize)
	p.age++
	p.kept = slices.Insert(p.kept, i, keptBlock{own, p.age})
	p.s.Kept += own.Size
	var old []Memory
	switch {
	case p.o.Keep == KeepPeak:
		old = p.dropUntil(max(p.most-p.s.InUse, 0))
	case p.o.Keep > 0:
		old = p.dropUntil(p.o.Keep)
	}
	p.mu.Unlock()
	p.giveBack(old)
}

// DirectFree implements Device: the block goes back to the system.
func (p *Pool) DirectFree(m Memory) {
	p.mu.Lock()
	own, ok := p.takeBack(m)
	p.mu.Unlock()
	if !ok {
		own = m
	}
	p.Device.DirectFree(own)
}

// ReleaseAll implements Device: what is kept goes back to the system, and what the Device beneath keeps.
func (p *Pool) ReleaseAll() {
	p.Trim()
	p.Device.ReleaseAll()
}

// Trim gives what is kept back to the system, and returns how many bytes that were.
func (p *Pool) Trim() int64 {
	n := p.release()
	p.mu.Lock()
	p.most = p.s.InUse
	p.mu.Unlock()
	return n
}

// release gives back what is kept, and returns how many bytes that were.
func (p *Pool) release() int64 {
	p.mu.Lock()
	n := p.s.Kept
	old := p.dropUntil(0)
	p.mu.Unlock()
	p.giveBack(old)
	return n
}

// dropUntil takes the blocks that were freed first out of the list until at most so many bytes are kept. It is called with
// mu held.
func (p *Pool) dropUntil(most int64) []Memory {
	var old []Memory
	for len(p.kept) > 0 && p.s.Kept > most {
		first := 0
		for i, b := range p.kept {
			if b.age < p.kept[first].age {
				first = i
			}
		}
		m := p.kept[first].m
		p.kept = slices.Delete(p.kept, first, first+1)
		p.s.Kept -= m.Size
		old = append(old, m)
	}
	return old
}

func (p *Pool) giveBack(list []Memory) {
	for _, m := range list {
		p.Device.DirectFree(m)
	}
}

// CopiesTo implements PeerCopier: what the Device beneath reaches.
func (p *Pool) CopiesTo(id tensor.DeviceID) bool { return CopiesTo(p.Device, id) }

// Stats returns what the pool holds now.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s
}
