// Package device describes memory spaces and the order of work on them: Device, Stream and Event, the host's Device, and
// the Workers that do a run's work on the host.
//
// One memory space is one Device: every backend that works in the host's memory returns [Host], so that such backends
// share one arena and need no copies between them.
//
// # Where to start
//
// Who writes a backend for memory of its own implements [Device], [Stream] and [Event]; a [Memory]'s Handle means something
// to its Device alone, and carve reaches its content by the Device's copies and by converters. Where the processor is driven
// by calls that return when the work is done, [Queue] is the Stream, and its Events are ready-made. A backend in the host's
// memory returns [Host] and implements nothing of this package; where its work goes on after Enqueue, a [HostEvent] tells of
// the end.
//
// The package imports graph/tensor and the leaves internal/offheap and internal/pool.
package device

import (
	"context"
	"errors"

	"github.com/carve-dev/carve/graph/tensor"
)

// Memory is a block of a device's memory. On the host Data is the block; elsewhere Handle is the device's name for it,
// which need not be an address. Views are made with an offset, never by arithmetic on Handle. A Device knows a block by
// Data or Handle: Size is for the caller, and 0 where it is not known (MemoryOf).
type Memory struct {
	Device tensor.DeviceID
	Data   []byte  // host only
	Handle uintptr // other devices; on the host the allocator's own
	Size   int64   // bytes
}

// MemoryOf returns the block that a tensor lies in, for copies: element 0 is t.Offset bytes behind its start.
func MemoryOf(t *tensor.Tensor) Memory {
	return Memory{Device: t.Device, Data: t.Data, Handle: t.Handle}
}

// Device is one memory space: allocation, movement, streams. Implementations are safe for concurrent use.
//
// A copy goes on a stream of the device. It begins after everything that was queued there before, and the call may return
// before it is over: until then both blocks, and the host's bytes, stay where they are, what is read is not written, and
// what is written is not read. An error that is returned says that nothing was queued; a later one is that of the stream's
// next Record or Sync. With a nil Stream the copy is over when the call returns. A copy of no bytes does nothing. Where a
// block does not have the bytes, the error wraps ErrBounds.
type Device interface {
	// ID returns DLPack's type and index; it is constant and unique among the devices of a process.
	ID() tensor.DeviceID

	// Alloc returns a block of at least size bytes aligned to tensor.Alignment. Its content is not defined. The error
	// wraps ErrOutOfMemory where the device has no such block.
	Alloc(size int64) (Memory, error)
	// Free gives a block back, which no work uses any more; the device may keep it for later Allocs. Freeing twice is a
	// programmer's error.
	Free(Memory)
	// DirectFree gives a block back to the system at once.
	DirectFree(Memory)
	// ReleaseAll gives every kept block back to the system.
	ReleaseAll()

	// CopyTo copies src from the host to dst, off bytes into the block.
	CopyTo(ctx context.Context, s Stream, dst Memory, off int64, src []byte) error
	// CopyFrom copies len(dst) bytes, from off bytes into the block, to the host.
	CopyFrom(ctx context.Context, s Stream, dst []byte, src Memory, off int64) error
	// CopyBetween copies n bytes between two blocks of this device, which do not overlap, or from one to another device's
	// (see PeerCopier).
	CopyBetween(ctx context.Context, s Stream, dst Memory, dstOff int64, src Memory, srcOff, n int64) error

	// NewStream returns a queue of work of one goroutine at a time. Streams of one device are not ordered among each other
	// but by events.
	NewStream() (Stream, error)
}

// PeerCopier is implemented by a Device whose CopyBetween reaches other devices without passing through the host: dst is
// then a block of the other device, by its Memory.Device, while src and the stream are this one's. The other device's
// streams wait for the copy by an Event. Which pairs there are may change from machine to machine, not while a process runs.
type PeerCopier interface {
	Device
	// CopiesTo reports whether CopyBetween takes blocks of that device as dst.
	CopiesTo(id tensor.DeviceID) bool
}

// CopiesTo reports whether d copies to blocks of that device by itself: its own, or a peer's.
func CopiesTo(d Device, id tensor.DeviceID) bool {
	if d.ID() == id || d.ID().IsHost() && id.IsHost() {
		return true
	}
	p, ok := d.(PeerCopier)
	return ok && p.CopiesTo(id)
}

// Allocator gives memory of the host for arenas, constants and staging. [Host] is the default; others give memory that a
// device reads faster, that another process sees, or that lies in large pages. Implementations are safe for concurrent use.
// Every Device of the host is one, and [HostWith] makes a Device of one.
type Allocator interface {
	// Alloc returns a block of at least size bytes aligned to tensor.Alignment, with Data. Its content is not defined. Handle
	// may name the block for who knows the allocator. The error wraps ErrOutOfMemory where there is no such block.
	Alloc(size int64) (Memory, error)
	// Free gives a block back, which no work uses any more.
	Free(Memory)
}

// Errors for errors.Is.
var (
	ErrOutOfMemory = errors.New("out of device memory")
	ErrBounds      = errors.New("outside of the memory block")
	ErrStream      = errors.New("a stream of another device")
	ErrClosed      = errors.New("the stream is closed")
	ErrAllocator   = errors.New("an allocator gave a block that is too small or not aligned")
	// ErrReset says that a device has failed, and works again, or soon does, without what lay on it: who still has what was written
	// there may begin anew.
	ErrReset = errors.New("the device was reset")
	// ErrLost says that work was in vain because the device was reset by other work.
	ErrLost = errors.New("lost when the device was reset")
	// ErrGone says that a device works no more in this process. What is compiled for it fails from then on; what is compiled anew gets
	// other devices.
	ErrGone = errors.New("the device works no more in this process")
)
