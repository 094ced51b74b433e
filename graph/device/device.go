// Package device describes memory spaces and the order of work on them: Device, Stream and Event, and the host's Device.
//
// One memory space is one Device: every backend that works in the host's memory returns [Host], so that such backends
// share one arena and need no copies between them.
//
// # Where to start
//
// Who writes a backend for memory of its own implements [Device] and [Stream]; a [Memory]'s Handle means something to its
// Device alone, and carve reaches its content by the Device's copies and by converters. A backend in the host's memory
// returns [Host] and implements nothing of this package but, where work goes on after Enqueue, an [Event].
//
// The package imports graph/tensor and the leaves internal/offheap and internal/pool.
package device

import (
	"context"
	"errors"

	"github.com/carve-dev/carve/graph/tensor"
)

// Memory is a block of a device's memory. On the host Data is the block; elsewhere Handle is the device's name for it,
// which need not be an address. Views are made with an offset, never by arithmetic on Handle.
type Memory struct {
	Device tensor.DeviceID
	Data   []byte  // host only
	Handle uintptr // other devices
	Size   int64   // bytes
}

// Device is one memory space: allocation, movement, streams. Implementations are safe for concurrent use.
type Device interface {
	// ID returns DLPack's type and index; it is constant and unique among the devices of a process.
	ID() tensor.DeviceID

	// Alloc returns a block of at least size bytes aligned to tensor.Alignment. Its content is not defined. The error
	// wraps ErrOutOfMemory where the device has no such block.
	Alloc(size int64) (Memory, error)
	// Free gives a block back; the device may keep it for later Allocs. Freeing twice is a programmer's error.
	Free(Memory)
	// DirectFree gives a block back to the system at once.
	DirectFree(Memory)
	// ReleaseAll gives every kept block back to the system.
	ReleaseAll()

	// CopyTo copies src from the host to dst, off bytes into the block.
	CopyTo(ctx context.Context, dst Memory, off int64, src []byte) error
	// CopyFrom copies len(dst) bytes, from off bytes into the block, to the host.
	CopyFrom(ctx context.Context, dst []byte, src Memory, off int64) error
	// CopyBetween copies n bytes between two blocks of this device.
	CopyBetween(ctx context.Context, dst Memory, dstOff int64, src Memory, srcOff, n int64) error

	// NewStream returns a queue of work of one goroutine at a time.
	NewStream() (Stream, error)
}

// Stream is a queue in which work is done in order.
type Stream interface {
	// Parallel calls fn for ranges that cover [0, n) and returns when all calls have; on the host it spreads them over
	// carve's worker pool, within the run's limit of threads. Each call may come from another goroutine. Ranges have at
	// least one element. It is serial where the stream has no workers.
	Parallel(n int, fn func(lo, hi int))
	// Sync waits until everything queued is done, or ctx ends.
	Sync(ctx context.Context) error
	// Close waits for queued work and frees the stream.
	Close() error
}

// Event is the notify interface: the end of one piece of queued work. A nil Event has happened already.
type Event interface {
	// Wait returns the work's error when it ends, or ctx's error when that ends first.
	Wait(ctx context.Context) error
}

// Errors for errors.Is.
var (
	ErrOutOfMemory = errors.New("out of device memory")
	ErrBounds      = errors.New("outside of the memory block")
)
