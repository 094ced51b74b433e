//go:build amd64 || arm64

package isolate

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/carve-dev/carve/internal/offheap"
)

// Region is memory that a process shares with its child, at the same address in both. It is safe for concurrent use.
type Region struct {
	fd   int
	base uintptr
	size uintptr

	mu     sync.Mutex
	free   []extent // ascending, no two adjacent
	live   int      // blocks that are handed out
	closed bool
}

// extent is a range of a region, in bytes from its start.
type extent struct{ off, n uintptr }

// places are where regions are tried: addresses that programs do not use by themselves, for processors with 47 or 48 bits of
// addresses and for those with 39. Sizes are of addresses: memory is taken when it is used.
var places = []struct{ base, size, count uintptr }{{1 << 44, 1 << 38, 128}, {1 << 37, 1 << 33, 16}}

// nextPlace makes the regions of a process lie apart.
var nextPlace atomic.Uintptr

const granule = 4096

// collections is how often a region without a place has garbage collected, which takes about 50 ms in all.
const collections = 10

// NewRegion makes a region.
func NewRegion() (*Region, error) {
	fd, err := unix.MemfdCreate("carve-plugin", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	var r *Region
	for wait := range collections {
		if r, err = newRegion(fd); err == nil {
			return r, nil
		}
		runtime.GC() // gives back the blocks that nobody holds, and with the last of a closed region its place; a while later
		time.Sleep(time.Duration(wait) * time.Millisecond)
	}
	_ = unix.Close(fd)
	return nil, fmt.Errorf("shared memory: %w", err)
}

// newRegion maps a file where there is a place.
func newRegion(fd int) (*Region, error) {
	var err error = unix.ENOMEM
	for _, p := range places {
		for range p.count {
			base := p.base + nextPlace.Add(1)%p.count*p.size
			if err = unix.Ftruncate(fd, int64(p.size)); err != nil {
				break
			}
			if err = mapAt(fd, base, p.size); err == nil {
				return &Region{fd: fd, base: base, size: p.size, free: []extent{{0, p.size}}}, nil
			}
		}
	}
	return nil, err
}

// mapAt maps the file at an address, where nothing may be yet.
func mapAt(fd int, base, size uintptr) error {
	at, err := unix.MmapPtr(fd, 0, pointer(base), size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_NORESERVE|unix.MAP_FIXED_NOREPLACE)
	if err != nil {
		return err
	}
	if uintptr(at) != base { // a kernel that does not know the flag takes the address for a wish
		_ = unix.MunmapPtr(at, size)
		return unix.EEXIST
	}
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, base, size, unix.MADV_DONTDUMP)
	return nil
}

// pointer is the pointer of an address outside of Go's heap.
func pointer(a uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

// Block is a piece of a region.
type Block struct {
	r       *Region
	at      extent
	data    []byte
	cleanup runtime.Cleanup
	freed   atomic.Bool
}

// Bytes returns the memory.
func (b *Block) Bytes() []byte { return b.data }

// Alloc returns n zeroed bytes at a multiple of align, a power of two up to 2 MiB. They are given back by Free, or when
// nobody holds the Block any more. The error wraps offheap.ErrNoMemory.
func (r *Region) Alloc(n, align int) (*Block, error) {
	size := (uintptr(max(n, 1)) + granule - 1) &^ (granule - 1)
	mask := uintptr(max(align, granule)) - 1
	if n < 0 || size > r.size || !offheap.Fits(int64(size)) {
		return nil, fmt.Errorf("%w: %d bytes of shared memory", offheap.ErrNoMemory, n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range r.free {
		off := (e.off + mask) &^ mask // the base is aligned to more
		if r.closed || off-e.off+size > e.n {
			continue
		}
		var rest []extent
		if off > e.off {
			rest = append(rest, extent{e.off, off - e.off})
		}
		if end := off + size; end < e.off+e.n {
			rest = append(rest, extent{end, e.off + e.n - end})
		}
		r.free = slices.Replace(r.free, i, i+1, rest...)
		r.live++
		b := &Block{r: r, at: extent{off, size}, data: unsafe.Slice((*byte)(pointer(r.base+off)), n)}
		b.cleanup = runtime.AddCleanup(b, func(e extent) { r.release(e) }, b.at)
		return b, nil
	}
	return nil, fmt.Errorf("%w: %d bytes of shared memory", offheap.ErrNoMemory, n)
}

// Free gives the memory back. Freeing again, or a nil Block, does nothing.
func (b *Block) Free() error {
	if b == nil || b.freed.Swap(true) {
		return nil
	}
	b.cleanup.Stop()
	b.data = nil
	b.r.release(b.at)
	return nil
}

// release gives an extent back, and its memory to the system: what is allocated next reads as zero.
func (r *Region) release(e extent) {
	if unix.Fallocate(r.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(e.off), int64(e.n)) != nil {
		clear(unsafe.Slice((*byte)(pointer(r.base+e.off)), e.n))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := slices.BinarySearchFunc(r.free, e, func(a, b extent) int {
		if a.off < b.off {
			return -1
		}
		return 1
	})
	r.free = slices.Insert(r.free, i, e)
	if i+1 < len(r.free) && e.off+e.n == r.free[i+1].off {
		r.free[i].n += r.free[i+1].n
		r.free = slices.Delete(r.free, i+1, i+2)
	}
	if i > 0 && r.free[i-1].off+r.free[i-1].n == r.free[i].off {
		r.free[i-1].n += r.free[i].n
		r.free = slices.Delete(r.free, i, i+1)
	}
	r.live--
	r.unmap()
}

// Close gives the region back when the last of its blocks is freed.
func (r *Region) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.unmap()
	}
}

// unmap ends a closed region without blocks, with the lock held.
func (r *Region) unmap() {
	if r.closed && r.live == 0 {
		_ = unix.MunmapPtr(pointer(r.base), r.size)
		_ = unix.Close(r.fd)
	}
}

// Contains reports whether bytes lie in the region.
func (r *Region) Contains(b []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return at >= r.base && at-r.base < r.size
}
