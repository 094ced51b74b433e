package main

// #cgo CFLAGS: -I${SRCDIR}/../..
// #include "table.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime/cgo"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/internal/offheap"
)

// unit is the open processor.
type unit struct {
	kernels     []backend.Backend // those that groups are compiled for
	synchronous bool              // work is over when the call returns
	wrong       string            // an operator, groups with which give wrong results; "" for none
	c           arena

	mu         sync.Mutex
	blocks     map[uint64]*offheap.Block // by ticket
	last       uint64
	signatures map[string]**C.carve_signature

	executables, instances, sessions, events, streams atomic.Int64 // that the host has not closed
}

// arena is memory of C that lives as long as its owner.
type arena struct{ list []unsafe.Pointer }

func (a *arena) free() {
	for _, p := range a.list {
		C.free(p)
	}
}

// many returns n zeroed Ts in memory of C.
func many[T any](a *arena, n int) []T {
	var zero T
	p := C.calloc(C.size_t(max(n, 1)), C.size_t(unsafe.Sizeof(zero)))
	a.list = append(a.list, p)
	return unsafe.Slice((*T)(p), max(n, 1))[:n]
}

func (a *arena) text(s string) C.carve_str {
	if s == "" {
		return C.carve_str{}
	}
	b := many[byte](a, len(s))
	copy(b, s)
	return C.carve_str{data: (*C.char)(unsafe.Pointer(&b[0])), len: C.uint64_t(len(s))}
}

// text is a text of the host's.
func text(s C.carve_str) string { return C.GoStringN(s.data, C.int(s.len)) }

// handle gives a number to x, until it is closed.
func handle(x any) C.uint64_t { return C.uint64_t(cgo.NewHandle(x)) }

func of[T any](h C.uint64_t) T { return cgo.Handle(h).Value().(T) }

// guard turns a panic into a status: none may leave the library.
func guard(st *C.int32_t, e *C.carve_error) {
	if r := recover(); r != nil {
		*st = failed(e, fmt.Errorf("panic: %v", r))
	}
}

// failed fills a carve_error, and returns the status of an error; CARVE_OK for none.
func failed(e *C.carve_error, err error) C.int32_t {
	if err == nil {
		return C.CARVE_OK
	}
	if e != nil && e.text != nil {
		e.len = C.uint64_t(copy(unsafe.Slice((*byte)(unsafe.Pointer(e.text)), int(e.cap)), err.Error()))
	}
	switch {
	case errors.Is(err, context.Canceled):
		return C.CARVE_CANCELLED
	case errors.Is(err, device.ErrOutOfMemory), errors.Is(err, carve.ErrMemoryLimit):
		return C.CARVE_OUT_OF_MEMORY
	case errors.Is(err, errArgument):
		return C.CARVE_BAD_ARGUMENT
	}
	return C.CARVE_FAILED
}

var errArgument = errors.New("bad argument")

//export accProcessors
func accProcessors(out ***C.carve_processor, n *C.uint64_t, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	processors.Do(func() {
		var a arena
		p := &many[C.carve_processor](&a, 1)[0]
		*p = C.carve_processor{size: C.uint32_t(unsafe.Sizeof(*p)), device_type: 12, flags: C.CARVE_PROCESSOR_OWN_THREADS, memory_bytes: 1 << 34,
			name: a.text("accelerator"), arch: a.text("carve's kernels, behind queues")}
		processors.list = many[*C.carve_processor](&a, 1)
		processors.list[0] = p
	})
	*out, *n = &processors.list[0], 1
	return C.CARVE_OK
}

var processors struct {
	sync.Once
	list []*C.carve_processor
}

//export accOpen
func accOpen(_ C.uint32_t, options *C.carve_str, n C.uint64_t, out *C.uint64_t, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	u := &unit{blocks: map[uint64]*offheap.Block{}, signatures: map[string]**C.carve_signature{}}
	for _, o := range unsafe.Slice(options, int(n)) {
		key, value, _ := strings.Cut(text(o), "=")
		switch key {
		case "synchronous":
			u.synchronous = value == "true"
		case "wrong":
			u.wrong = value
		default:
			return failed(e, fmt.Errorf("%w: option %q", errArgument, key))
		}
	}
	for _, open := range []backend.Driver{cpu.Open, reference.Open} {
		k, err := open(backend.Config{})
		if err != nil {
			return failed(e, err)
		}
		u.kernels = append(u.kernels, k)
	}
	*out = handle(u)
	return C.CARVE_OK
}

//export accClose
func accClose(b C.uint64_t) (st C.int32_t) {
	defer guard(&st, nil)
	u := of[*unit](b)
	cgo.Handle(b).Delete()
	u.c.free()
	return C.CARVE_OK
}

//export accLive
func accLive(b C.uint64_t, out *C.carve_live) (st C.int32_t) {
	defer guard(&st, nil)
	u := of[*unit](b)
	u.mu.Lock()
	blocks := len(u.blocks)
	u.mu.Unlock()
	all := C.carve_live{size: out.size, executables: C.int64_t(u.executables.Load()), instances: C.int64_t(u.instances.Load()),
		sessions: C.int64_t(u.sessions.Load()), events: C.int64_t(u.events.Load()), streams: C.int64_t(u.streams.Load()), blocks: C.int64_t(blocks)}
	n := min(int(out.size), int(unsafe.Sizeof(all)))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(out)), n), unsafe.Slice((*byte)(unsafe.Pointer(&all)), n))
	return C.CARVE_OK
}
