package offheap

import (
	"math"
	"runtime"
	"sync/atomic"
	"unsafe"
)

const (
	defaultAlign = 64
	maxAlign     = 1 << 30
)

// HugePage is the size in bytes, and the alignment, from which Blocks ask for huge pages. What lies behind the last whole one stays small
// pages, so that nothing is rounded up. Their first touch costs a third of that of the small ones as a rule, and kernels gain 5 to 15 %.
const HugePage = 2 << 20

// Block is a piece of zeroed, writable memory. Bytes may be used by several goroutines; Free must not run at the same time
// as any other use.
type Block struct {
	data    []byte
	raw     []byte // what the system gave, data lies inside
	cleanup runtime.Cleanup
	freed   atomic.Bool
}

// Alloc returns a Block of n zeroed bytes that begin at a multiple of align, a power of two up to 1 GiB (0 means 64). The
// memory is returned by Free, or after the Block has become unreachable. It fails with an *Error wrapping ErrSize, ErrAlign,
// ErrNoMemory or the system's error. The cost is that of a system call; the pages are made at first touch.
func Alloc(n, align int) (*Block, error) {
	if align == 0 {
		align = defaultAlign
	}
	fail := func(err error) (*Block, error) { return nil, &Error{Op: "alloc", Bytes: int64(n), Err: err} }
	if align < 0 || align > maxAlign || align&(align-1) != 0 {
		return fail(ErrAlign)
	}
	huge := n >= HugePage
	if huge {
		align = max(align, HugePage)
	}
	if n < 0 || n > math.MaxInt-align {
		return fail(ErrSize)
	}
	if !Fits(int64(n)) {
		return fail(ErrNoMemory)
	}
	if n == 0 {
		return &Block{data: []byte{}}, nil
	}
	size := n
	if granule := granularity(); align > granule {
		size += align - granule // address space only: pages that are never touched are never made
	}
	raw, err := reserve(size)
	if err != nil {
		return fail(err)
	}
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & uintptr(align-1))
	b := &Block{raw: raw, data: raw[skip : skip+n : skip+n]}
	if huge {
		adviseHuge(b.data)
	}
	anonymous.Add(int64(n))
	b.cleanup = runtime.AddCleanup(b, func(m memory) { _ = m.free() }, memory{raw, n})
	return b, nil
}

// Populate makes pages of a part of a Block that is about to be written as a whole, in a few calls of the system: small ones, for each of
// which first touch would be a fault of its own, and in the place of huge ones, too, where the process has just seen that these take
// twice as long, as they do in virtual machines whose host takes free memory back. Other huge pages are left to first touch. It changes no
// content, and does nothing where the system has no such call. Parts of one Block may be populated at one time where they share no
// huge page.
func Populate(data []byte) { populate(data) }

// Bytes returns the memory: len and cap are the n of Alloc. It is nil after Free. The slice does not keep the Block alive:
// hold the Block for as long as the memory is in use.
func (b *Block) Bytes() []byte { return b.data }

// Free returns the memory to the system; no slice of it may be used afterwards. Freeing again, or a nil Block, does nothing.
func (b *Block) Free() error {
	if b == nil || b.freed.Swap(true) {
		return nil
	}
	m := memory{b.raw, len(b.data)}
	b.data, b.raw = nil, nil
	if m.n == 0 {
		return nil
	}
	b.cleanup.Stop()
	return m.free()
}

// memory is what a Block's cleanup needs. It must not refer to the Block.
type memory struct {
	raw []byte
	n   int
}

func (m memory) free() error {
	anonymous.Add(-int64(m.n))
	if err := release(m.raw); err != nil {
		return &Error{Op: "free", Bytes: int64(m.n), Err: err}
	}
	return nil
}
