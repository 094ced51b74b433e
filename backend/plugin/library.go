package plugin

import (
	_ "embed"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/dl"
)

// Header is carve_plugin.h, the interface that a plugin is written against: C99 and C++11.
//
//go:embed carve_plugin.h
var Header string

// Library is an open plugin. It is immutable, safe for concurrent use, and stays open until the process ends.
type Library struct {
	path    string
	name    string
	version string
	vendor  string
	table   cTable
	host    *hostLibrary
	lib     *dl.Library

	processors []Processor
	operators  []*ownOperator
	properties []*ownProperty
	passes     []*ownPass
}

// Processor is one that a plugin brings. It becomes a backend of that name.
type Processor struct {
	Name    string
	Arch    string // for people
	Version string // of the implementation
	Memory  int64  // bytes, 0 for the host's or where not known

	index    uint32
	flags    uint64
	deviceTy int32
	deviceID int32
}

// Path returns the path that the library was opened by.
func (l *Library) Path() string { return l.path }

// Name returns the plugin's own name.
func (l *Library) Name() string { return l.name }

// Version returns the plugin's version.
func (l *Library) Version() string { return l.version }

// Vendor returns who made the plugin, "" where it does not say.
func (l *Library) Vendor() string { return l.vendor }

// Processors lists what the plugin found in this machine.
func (l *Library) Processors() []Processor { return slices.Clone(l.processors) }

// libraries are the open ones, by path.
var libraries struct {
	sync.Mutex
	m map[string]*Library
}

// Open opens the plugin at a path. A plugin that is open already is given again. The error wraps backend.ErrUnavailable, and
// dl's errors, ErrVersion or ErrPlugin.
func Open(path string) (*Library, error) {
	libraries.Lock()
	defer libraries.Unlock()
	if l := libraries.m[path]; l != nil {
		return l, nil
	}
	l, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
	}
	if libraries.m == nil {
		libraries.m = map[string]*Library{}
	}
	libraries.m[path] = l
	return l, nil
}

func open(path string) (*Library, error) {
	lib, err := dl.Open(path)
	if err != nil {
		return nil, err
	}
	query, err := lib.Symbol("carve_plugin_query")
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrPlugin, path, err)
	}
	l := &Library{path: path, name: path, lib: lib}
	if l.host, err = newHost(l); err != nil {
		return nil, err
	}
	var p page
	defer p.end()
	w := &writer{page: &p}
	q, e := one[cQuery](w), w.error()
	*q = cQuery{size: uint32(unsafe.Sizeof(*q)), abiMajor: abiMajor, abiMinor: abiMinor, host: l.host.table(), err: address(e)}
	if w.err != nil {
		return nil, w.err
	}
	at := dl.Call(query, address(q))
	if at == 0 {
		return nil, fmt.Errorf("%w: %s serves no version %d.%d: %q", ErrVersion, path, abiMajor, abiMinor, e.string())
	}
	if l.table, err = view[cTable](at, "carve_plugin"); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if l.table.abiMajor != abiMajor {
		return nil, fmt.Errorf("%w: %s answers with version %d.%d, wanted is %d", ErrVersion, path, l.table.abiMajor, l.table.abiMinor, abiMajor)
	}
	l.name, l.version, l.vendor = l.table.name.string(), l.table.version.string(), l.table.vendor.string()
	if !validName(l.name) {
		return nil, fmt.Errorf("%w: %s has the name %q", ErrPlugin, path, l.name)
	}
	if err := l.readProcessors(w); err != nil {
		return nil, err
	}
	return l, l.readOwn()
}

// readProcessors asks which processors there are, and looks whether the functions are there that they need.
func (l *Library) readProcessors(w *writer) error {
	out, n, e := one[uintptr](w), one[uint64](w), w.error()
	if w.err != nil {
		return w.err
	}
	st := l.call(l.table.processors, address(out), address(n), address(e))
	if st == statusNotImplemented {
		return nil
	}
	if st != statusOK {
		return l.failed("processors", st, e)
	}
	list, err := views[cProcessor](*out, *n, "processor")
	if err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	for _, c := range list {
		p := Processor{Name: c.name.string(), Arch: c.arch.string(), Version: c.version.string(), Memory: max(c.memoryBytes, 0), index: c.index,
			flags: c.flags, deviceTy: c.deviceType, deviceID: c.deviceID}
		if p.Version == "" {
			p.Version = l.version
		}
		if !validName(p.Name) {
			return fmt.Errorf("%w: %s: processor %d has the name %q", ErrPlugin, l.path, c.index, p.Name)
		}
		if slices.ContainsFunc(l.processors, func(q Processor) bool { return q.Name == p.Name }) {
			return fmt.Errorf("%w: %s: two processors have the name %q", ErrPlugin, l.path, p.Name)
		}
		if err := l.complete(&p); err != nil {
			return err
		}
		l.processors = append(l.processors, p)
	}
	return nil
}

// complete checks that the table has what a processor requires.
func (l *Library) complete(p *Processor) error {
	t := &l.table
	need := []struct {
		name string
		fn   uintptr
	}{
		{"open", t.open}, {"close", t.close}, {"operators", t.operators}, {"supports", t.supports}, {"compile", t.compile},
		{"executable_close", t.executableClose}, {"specialize", t.specialize}, {"instance_close", t.instanceClose},
		{"session_open", t.sessionOpen}, {"enqueue", t.enqueue}, {"session_close", t.sessionClose},
	}
	if p.flags&processorHostMemory == 0 {
		need = append(need, []struct {
			name string
			fn   uintptr
		}{{"alloc", t.alloc}, {"free", t.free}, {"copy", t.copy}}...)
	}
	if t.streamOpen != 0 {
		need = append(need, []struct {
			name string
			fn   uintptr
		}{{"stream_record", t.streamRecord}, {"stream_wait", t.streamWait}, {"stream_sync", t.streamSync}, {"stream_close", t.streamClose},
			{"event_poll", t.eventPoll}, {"event_wait", t.eventWait}, {"event_close", t.eventClose}}...)
	}
	for _, f := range need {
		if f.fn == 0 {
			return fmt.Errorf("%w: %s: processor %s needs the function %s", ErrPlugin, l.path, p.Name, f.name)
		}
	}
	return nil
}

// validName reports whether a name is one for reports and options: lower-case letters, digits and hyphens.
func validName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// call calls a function of the table that returns a status.
func (l *Library) call(fn uintptr, args ...uintptr) status {
	if fn == 0 {
		return statusNotImplemented
	}
	return status(int32(invoke(fn, args...)))
}

const errorBytes = 1024

// error returns a carve_error for a call.
func (w *writer) error() *cError {
	e := one[cError](w)
	b := many[byte](w, errorBytes)
	*e = cError{size: uint32(unsafe.Sizeof(*e)), index: -1, text: address(&b[0]), cap: errorBytes}
	return e
}

// string is the text that the callee has left.
func (e *cError) string() string { return cStr{e.text, min(e.len, e.cap)}.string() }

// clear prepares the struct for another call.
func (e *cError) clear() { e.index, e.len = -1, 0 }

// failed returns the error of a status below 0.
func (l *Library) failed(function string, st status, e *cError) error {
	if st == statusOK || st == statusPending {
		return nil
	}
	err := &Error{Plugin: l.name, Function: function, Status: int(st), Index: -1}
	if e != nil {
		err.Index, err.Text = int(max(e.index, -1)), e.string()
	}
	return err
}

// do calls a function with w's error behind its arguments, and turns the status into an error.
func (l *Library) do(w *writer, function string, fn uintptr, args ...uintptr) error {
	e := w.error()
	if w.err != nil {
		return w.err
	}
	st := l.call(fn, append(args, address(e))...)
	if st >= 0 {
		return nil
	}
	if e.len == 0 && l.table.lastError != 0 {
		return l.failedWithLast(function, st, e)
	}
	return l.failed(function, st, e)
}

// failedWithLast asks for the text of this thread's last failure. The goroutine may have changed threads since: then the
// text is another's, or none, so it is only asked for where the error has none.
func (l *Library) failedWithLast(function string, st status, e *cError) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e.len = uint64(dl.Call(l.table.lastError, e.text, uintptr(e.cap)))
	return l.failed(function, st, e)
}
