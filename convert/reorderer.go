package convert

import (
	"context"
	"runtime"
	"sync"
	"unsafe"

	"github.com/carve-dev/carve/graph/device"
)

// chunkBytes is about how much of the target a chunk writes: long enough to be worth a call, short enough to spread over
// the workers and to notice the end of a context.
const chunkBytes = 128 << 10

// serialBytes is the size of a tensor that one goroutine moves sooner than the others are called.
const serialBytes = 64 << 10

// Copies of so many bytes, which no cache keeps, go in parts from whose size on copy writes past the caches on amd64.
const (
	farBytes = 8 << 20
	farPart  = 1 << 20
)

// reorderer moves whole storages in chunks that are independent of each other. It is immutable.
type reorderer struct {
	chunks int
	serial bool // too small to be spread
	zero   bool // the target is zeroed before, since move leaves its padding out
	move   func(dst, src []byte, lo, hi int)
	jobs   sync.Pool // of *job
}

// newReorderer makes a reorderer of items that write that many bytes each; move is called for ranges of items.
func newReorderer(items, bytes int, move func(dst, src []byte, lo, hi int)) *reorderer {
	per := max(1, chunkBytes/max(bytes, 1))
	r := &reorderer{chunks: (items + per - 1) / per, serial: items*bytes <= serialBytes}
	r.move = func(dst, src []byte, lo, hi int) {
		for ; lo < hi; lo++ {
			move(dst, src, lo*per, min((lo+1)*per, items))
		}
	}
	r.jobs.New = func() any {
		j := &job{r: r}
		j.part, j.wipe = j.work, j.zero // made once: a closure per run would be an allocation
		return j
	}
	return r
}

// run moves src to dst, on the workers where it is worth it, and tells of parts of the source that it has read. It returns ctx's error where ctx ended before the
// last chunk was begun; the target's content is not defined then.
func (r *reorderer) run(ctx context.Context, dst, src []byte, x Exec) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.serial {
		if r.zero {
			clear(dst)
		}
		r.move(dst, src, 0, r.chunks)
		if x.Progress != nil {
			x.Progress(len(src))
		}
		return nil
	}
	j := r.jobs.Get().(*job)
	j.ctx, j.dst, j.src, j.progress = ctx, dst, src, x.Progress
	if r.zero {
		j.clear(x.Workers)
	}
	x.Workers.Parallel(r.chunks, j.part)
	j.ctx, j.dst, j.src, j.progress = nil, nil, nil, nil
	r.jobs.Put(j)
	return ctx.Err()
}

// job is one run of a reorderer.
type job struct {
	r        *reorderer
	ctx      context.Context
	dst, src []byte
	progress func(bytes int) // nil where nobody wants to know
	part     func(lo, hi int)
	wipe     func(lo, hi int)
}

func (j *job) work(lo, hi int) {
	for ; lo < hi && j.ctx.Err() == nil; lo++ {
		j.r.move(j.dst, j.src, lo, lo+1)
		if j.progress != nil {
			j.progress(len(j.src) / j.r.chunks)
		}
	}
}

// clear zeroes the target.
func (j *job) clear(w *device.Workers) {
	w.Parallel((len(j.dst)+chunkBytes-1)/chunkBytes, j.wipe)
}

func (j *job) zero(lo, hi int) {
	for ; lo < hi && j.ctx.Err() == nil; lo++ {
		clear(j.dst[lo*chunkBytes : min((lo+1)*chunkBytes, len(j.dst))])
	}
}

// unalignedAccess says that loads and stores of the processor may have any address. Constants of a mapped model file may
// begin anywhere.
const unalignedAccess = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" || runtime.GOARCH == "386" || runtime.GOARCH == "wasm" ||
	runtime.GOARCH == "ppc64le" || runtime.GOARCH == "s390x"

func aligned(b []byte, size int) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(size) == 0
}

// elements returns storage as elements of T.
func elements[T any](b []byte) []T {
	var z T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(z)))
}

// copyReorder is the move between storages of equal order: nil where they are not.
func copyReorder(src, dst *strided, size int) *reorderer {
	if !dst.ordered(src.described.Order, src.described.Blocks...) && !sameOrder(src, dst) {
		return nil
	}
	n, part := dst.elements*size, 64<<10
	if n >= farBytes {
		part = farPart
	}
	return newReorderer((n+part-1)/part, part, func(d, s []byte, lo, hi int) {
		copy(d[lo*part:min(hi*part, n)], s[lo*part:min(hi*part, n)])
	})
}

// sameOrder reports whether two layouts without padding, for these dims, store the same sequence: axes of one step do not
// count.
func sameOrder(a, b *strided) bool {
	if a.elements != product(a.dims) || b.elements != a.elements {
		return false
	}
	x, y := a.merged(), b.merged()
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] != y[i] {
			return false
		}
	}
	return true
}

// merged returns the axes without those of one step, neighbours of the same dim that follow each other joined.
func (s *strided) merged() []axis {
	var out []axis
	for _, a := range s.axes {
		if a.count == 1 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].dim == a.dim && out[n-1].step == a.step*a.count {
			a.count *= out[n-1].count
			out[n-1] = a
			continue
		}
		out = append(out, a)
	}
	return out
}
