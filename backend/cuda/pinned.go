package cuda

import (
	"math/bits"
	"sync"
	"unsafe"
)

// pinned is memory of the host that the device copies from and to by itself. Copies of other memory wait, and for those on streams
// the host may not: they pass through it. What no copy uses is kept, up to mostPinned.
type pinned struct {
	mu   sync.Mutex
	kept [64][]slot // by the logarithm of the size
	size int
}

// slot is a block of pinned memory.
type slot struct {
	address uintptr
	size    int
}

const (
	leastSlot  = 4 << 10
	mostSlot   = 8 << 20  // a longer copy is done in parts
	mostPinned = 64 << 20 // kept by a device
	mostHeld   = 64 << 20 // used by a stream's copies, which wait beyond that
)

func (s slot) bytes(n int) []byte { return unsafe.Slice((*byte)(pointer(s.address)), s.size)[:n] }

// take returns a slot of at least n bytes, at most mostSlot.
func (p *pinned) take(c *call, n int) (slot, error) {
	class := bits.Len(uint(max(n, leastSlot) - 1))
	p.mu.Lock()
	if list := p.kept[class]; len(list) > 0 {
		s := list[len(list)-1]
		p.kept[class] = list[:len(list)-1]
		p.size -= s.size
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	const portable = 1 // to all contexts
	a, err := c.create(fnMemHostAlloc, 1<<class, portable)
	return slot{a, 1 << class}, err
}

// give takes a slot back that no copy uses.
func (p *pinned) give(c *call, s slot) {
	p.mu.Lock()
	if p.size+s.size <= mostPinned {
		class := bits.Len(uint(s.size - 1))
		p.kept[class] = append(p.kept[class], s)
		p.size += s.size
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	_ = c.do(fnMemFreeHost, s.address) // there is nobody to tell
}

// free gives back what no copy uses.
func (p *pinned) free(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for class, list := range p.kept {
		for _, s := range list {
			_ = c.do(fnMemFreeHost, s.address) // there is nobody to tell
		}
		p.kept[class] = nil
	}
	p.size = 0
}
