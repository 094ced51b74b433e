package plugin

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/offheap"
)

// The services of the host: one set of C functions for all plugins, whose first argument is the number of a hostLibrary.
// Callbacks cannot be given back, so there is never more than this set.

// hostLibrary is what the services know of a plugin.
type hostLibrary struct {
	l    *Library
	far  *isolate.Host // the process that the plugin works for, nil for this one
	page page          // of the table, for ever

	mu     sync.Mutex
	blocks map[uintptr]*offheap.Block // by address, that plugins have from alloc

	logger atomic.Pointer[slog.Logger]

	at *cHost
}

var hosts struct {
	sync.Mutex
	list []*hostLibrary // ctx is the index plus one
	once sync.Once
	fns  cHost
}

func newHost(l *Library, far *isolate.Host) (*hostLibrary, error) {
	hosts.once.Do(func() {
		hosts.fns = cHost{
			alloc: dl.Callback(hostAlloc), free: dl.Callback(hostFree), log: dl.Callback(hostLog), parallelFor: dl.Callback(hostParallelFor),
			output: dl.Callback(hostOutput), done: dl.Callback(hostDone),
		}
	})
	h := &hostLibrary{l: l, far: far, blocks: map[uintptr]*offheap.Block{}}
	w := &writer{page: &h.page}
	h.at = one[cHost](w)
	if w.err != nil {
		return nil, w.err
	}
	hosts.Lock()
	defer hosts.Unlock()
	hosts.list = append(hosts.list, h)
	*h.at = hosts.fns
	h.at.size, h.at.abiMinor, h.at.ctx = uint32(unsafe.Sizeof(*h.at)), abiMinor, uintptr(len(hosts.list))
	return h, nil
}

// table is the address of the carve_host.
func (h *hostLibrary) table() uintptr { return address(h.at) }

// hostOf returns the plugin that calls, nil for a ctx that is nobody's.
func hostOf(ctx uintptr) *hostLibrary {
	hosts.Lock()
	defer hosts.Unlock()
	if ctx == 0 || ctx > uintptr(len(hosts.list)) {
		return nil
	}
	return hosts.list[ctx-1]
}

func hostAlloc(ctx, bytes, align uintptr) uintptr {
	h := hostOf(ctx)
	if h == nil || bytes > offheapLimit || align > pageAlign {
		return 0
	}
	b, err := offheap.Alloc(int(max(bytes, 1)), int(align))
	if err != nil {
		return 0
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b.Bytes())))
	h.mu.Lock()
	h.blocks[at] = b
	h.mu.Unlock()
	return at
}

const pageAlign = 1 << 21

func hostFree(ctx, block uintptr) uintptr {
	h := hostOf(ctx)
	if h == nil || block == 0 {
		return 0
	}
	h.mu.Lock()
	b := h.blocks[block]
	delete(h.blocks, block)
	h.mu.Unlock()
	if b != nil {
		b.Free()
	}
	return 0
}

func hostLog(ctx, level, text, n uintptr) uintptr {
	h := hostOf(ctx)
	if h == nil {
		return 0
	}
	said := here.text(cStr{text, uint64(n)})
	if h.far != nil {
		h.far.Log(uint32(level), said)
	} else {
		h.log(uint32(level), said)
	}
	return 0
}

// log logs what a plugin says.
func (h *hostLibrary) log(level uint32, text string) {
	if log := h.logger.Load(); log != nil {
		levels := [...]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
		log.Log(context.Background(), levels[min(level, uint32(len(levels)-1))], text, "plugin", h.l.name)
	}
}

// runs are the sessions that enqueue just now, by the token of carve_run.
var runs tokens[weak.Pointer[session]]

// running returns the session of a token, nil where it does not enqueue now.
func running(token uintptr) *session {
	w, _ := runs.get(uint64(token))
	if s := w.Value(); s != nil && s.args != nil {
		return s
	}
	return nil
}

func hostParallelFor(ctx, run, n, fn, arg uintptr) uintptr {
	if int64(n) < 0 || fn == 0 {
		return badArgument
	}
	if h := hostOf(ctx); h != nil && h.far != nil {
		parallel(int(n), fn, arg)
		return 0
	}
	var workers *device.Workers
	if c := calling(run); c != nil {
		workers = c.args.Workers
	} else if s := running(run); s != nil {
		workers = s.args.Workers
	} else {
		return badArgument
	}
	workers.Parallel(int(n), func(lo, hi int) { dl.Call(fn, arg, uintptr(lo), uintptr(hi)) })
	return 0
}

// badArgument is CARVE_BAD_ARGUMENT as the word that a callback returns.
const badArgument = ^uintptr(7)

func hostOutput(ctx, run, index, shape, ndim uintptr) uintptr {
	if h := hostOf(ctx); h != nil && h.far != nil {
		ret, ok := h.far.Upcall([4]uint64{uint64(run), uint64(index), uint64(shape), uint64(ndim)})
		if !ok {
			return badArgument
		}
		return uintptr(ret)
	}
	return giveOutput(nil, run, index, shape, ndim)
}

// giveOutput gives an output of a run its storage. Where l is not nil, the run has to be one of that library.
func giveOutput(l *Library, run, index, shape, ndim uintptr) uintptr {
	if c := calling(run); c != nil && (l == nil || c.k.l == l) {
		c.refused = c.output(uint64(index), shape, uint64(ndim))
		return refusal(c.refused)
	}
	s := running(run)
	if s == nil || l != nil && s.in.e.b.p.l != l {
		return badArgument
	}
	err := s.output(uint64(index), shape, uint64(ndim))
	if err != nil {
		s.refused = err
	}
	return refusal(err)
}

// refusal is the status of an error as the word that a callback returns.
func refusal(err error) uintptr {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, device.ErrOutOfMemory):
		return ^uintptr(3)
	}
	return badArgument
}

// waiting are the events that a plugin will tell the end of, by token.
var waiting tokens[*event]

func hostDone(ctx, token, st uintptr) uintptr {
	if h := hostOf(ctx); h != nil && h.far != nil {
		h.far.Done(uint64(token), int32(st))
		return 0
	}
	happened(uint64(token), status(int32(st)))
	return 0
}

// happened has the event of a token told that it is over.
func happened(token uint64, st status) {
	if e, ok := waiting.take(token); ok { // a second call finds nothing
		go e.happened(st) // the plugin calls from a thread of its own, in which nothing of it may be called
	}
}

// tokens gives numbers to values. The zero value is ready. It is safe for concurrent use.
type tokens[T any] struct {
	last atomic.Uint64
	m    sync.Map
}

// put returns the token of a value.
func (t *tokens[T]) put(v T) uint64 {
	n := t.last.Add(1)
	t.m.Store(n, v)
	return n
}

func (t *tokens[T]) get(n uint64) (T, bool) {
	v, ok := t.m.Load(n)
	if !ok {
		var zero T
		return zero, false
	}
	return v.(T), true
}

// take returns a value and forgets it.
func (t *tokens[T]) take(n uint64) (T, bool) {
	v, ok := t.m.LoadAndDelete(n)
	if !ok {
		var zero T
		return zero, false
	}
	return v.(T), true
}
