package main

// #include "table.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
)

//export accAlloc
func accAlloc(b C.uint64_t, bytes, align C.uint64_t, out *C.carve_mem, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	u := of[*unit](b)
	if bytes > 1<<34 {
		return failed(e, fmt.Errorf("%w: %d bytes", device.ErrOutOfMemory, bytes))
	}
	m, err := offheap.Alloc(int(bytes), int(align))
	if err != nil {
		return failed(e, err)
	}
	u.mu.Lock()
	u.last++
	u.blocks[u.last] = m
	out.handle, out.bytes = C.uint64_t(u.last), C.int64_t(bytes)
	u.mu.Unlock()
	return C.CARVE_OK
}

//export accFree
func accFree(b, ticket C.uint64_t) (st C.int32_t) {
	defer guard(&st, nil)
	u := of[*unit](b)
	u.mu.Lock()
	m := u.blocks[uint64(ticket)]
	delete(u.blocks, uint64(ticket))
	u.mu.Unlock()
	if m == nil {
		return C.CARVE_BAD_ARGUMENT
	}
	m.Free()
	return C.CARVE_OK
}

// bytes returns n bytes of a block.
func (u *unit) bytes(ticket, off, n uint64) ([]byte, error) {
	u.mu.Lock()
	m := u.blocks[ticket]
	u.mu.Unlock()
	if m == nil {
		return nil, fmt.Errorf("%w: no block %d", errArgument, ticket)
	}
	b := m.Bytes()
	if off > uint64(len(b)) || n > uint64(len(b))-off {
		return nil, fmt.Errorf("%w: %d bytes from %d on of a block of %d", errArgument, n, off, len(b))
	}
	return b[off : off+n : off+n], nil
}

// host returns n bytes of the host's memory.
func host(at, off, n uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(uintptr(at+off))), int(n))
}

// storage returns the bytes of a tensor, on the host or in a block.
func (u *unit) storage(t *C.carve_tensor, n int) ([]byte, error) {
	if n == 0 {
		return []byte{}, nil
	}
	if t.data == nil {
		return nil, fmt.Errorf("%w: a tensor without storage", errArgument)
	}
	if t.device_type == C.int32_t(tensor.Host) {
		return unsafe.Slice((*byte)(unsafe.Add(t.data, int(t.byte_offset))), n), nil
	}
	return u.bytes(uint64(uintptr(t.data)), uint64(t.byte_offset), uint64(n))
}

//export accCopy
func accCopy(b C.uint64_t, copies **C.carve_copy, n C.uint64_t, stream C.uint64_t, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	u := of[*unit](b)
	for _, p := range unsafe.Slice(copies, int(n)) {
		c := *p
		work := func() error { return u.copy(&c) }
		if stream == 0 || u.synchronous {
			if err := work(); err != nil {
				return failed(e, err)
			}
			continue
		}
		of[*queue](stream).q.Do(work)
	}
	return C.CARVE_OK
}

func (u *unit) copy(c *C.carve_copy) (err error) {
	var dst, src []byte
	n := uint64(c.bytes)
	if c.kind == C.CARVE_COPY_FROM {
		dst = host(uint64(c.dst), uint64(c.dst_offset), n)
	} else if dst, err = u.bytes(uint64(c.dst), uint64(c.dst_offset), n); err != nil {
		return err
	}
	if c.kind == C.CARVE_COPY_TO {
		src = host(uint64(c.src), uint64(c.src_offset), n)
	} else if src, err = u.bytes(uint64(c.src), uint64(c.src_offset), n); err != nil {
		return err
	}
	copy(dst, src)
	return nil
}
