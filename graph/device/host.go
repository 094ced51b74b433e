package device

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
)

// Host is the host's memory. Blocks are mapped outside of Go's heap and given back to the system when they are freed.
var Host Device = &host{blocks: map[*byte]*offheap.Block{}}

// maxBlock is the most bytes of one block of the host: more than processors have addresses for.
const maxBlock = 1 << 46

type host struct {
	mu     sync.Mutex
	blocks map[*byte]*offheap.Block
}

func (*host) ID() tensor.DeviceID { return tensor.DeviceID{} }

func (h *host) Alloc(size int64) (Memory, error) {
	if size < 0 || size > maxBlock {
		return Memory{}, fmt.Errorf("%w: a block of %d bytes, which may have %d", ErrOutOfMemory, size, int64(maxBlock))
	}
	if size == 0 {
		return Memory{Data: []byte{}}, nil
	}
	b, err := offheap.Alloc(int(size), tensor.Alignment)
	if err != nil {
		return Memory{}, fmt.Errorf("%w: %d bytes: %w", ErrOutOfMemory, size, err)
	}
	data := b.Bytes()
	h.mu.Lock()
	h.blocks[unsafe.SliceData(data)] = b
	h.mu.Unlock()
	return Memory{Data: data, Size: int64(len(data))}, nil
}

func (h *host) Free(m Memory) {
	if len(m.Data) == 0 {
		return
	}
	p := unsafe.SliceData(m.Data)
	h.mu.Lock()
	b := h.blocks[p]
	delete(h.blocks, p)
	h.mu.Unlock()
	if b != nil {
		b.Free()
	}
}

func (h *host) DirectFree(m Memory) { h.Free(m) }
func (*host) ReleaseAll()           {}

// The host copies at once, whatever the stream.

func (*host) CopyTo(_ context.Context, _ Stream, dst Memory, off int64, src []byte) error {
	if off < 0 || off > int64(len(dst.Data)) || int64(len(src)) > int64(len(dst.Data))-off {
		return fmt.Errorf("%w: %d bytes at %d of %d", ErrBounds, len(src), off, len(dst.Data))
	}
	copy(dst.Data[off:], src)
	return nil
}

func (*host) CopyFrom(_ context.Context, _ Stream, dst []byte, src Memory, off int64) error {
	if off < 0 || off > int64(len(src.Data)) || int64(len(dst)) > int64(len(src.Data))-off {
		return fmt.Errorf("%w: %d bytes at %d of %d", ErrBounds, len(dst), off, len(src.Data))
	}
	copy(dst, src.Data[off:])
	return nil
}

func (h *host) CopyBetween(ctx context.Context, s Stream, dst Memory, dstOff int64, src Memory, srcOff, n int64) error {
	if n < 0 || srcOff < 0 || srcOff > int64(len(src.Data)) || n > int64(len(src.Data))-srcOff {
		return fmt.Errorf("%w: %d bytes at %d of %d", ErrBounds, n, srcOff, len(src.Data))
	}
	return h.CopyTo(ctx, s, dst, dstOff, src.Data[srcOff:srcOff+n])
}

func (*host) NewStream() (Stream, error) { return HostStream{}, nil }

// HostStream is the host's Stream: work is done when it is called, so there is never anything in it. Work that an instance
// on the host does in background is ordered by its Event alone.
type HostStream struct{}

// Record implements Stream: everything has happened.
func (HostStream) Record() (Event, error) { return nil, nil }

// WaitFor implements Stream: the caller waits.
func (HostStream) WaitFor(ctx context.Context, e Event) error {
	if e == nil {
		return nil
	}
	_ = e.Wait(ctx) // how the work ended is not this stream's matter
	if done, _ := e.Done(); !done {
		return ctx.Err()
	}
	return nil
}

// Sync implements Stream.
func (HostStream) Sync(ctx context.Context) error { return ctx.Err() }

// Close implements Stream.
func (HostStream) Close() error { return nil }
