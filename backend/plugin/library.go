package plugin

import (
	_ "embed"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
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
	apart   *apart // where it runs in a process of its own; nil otherwise

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
	l, _, err := load(path, nil)
	if err != nil {
		return nil, err
	}
	if err := l.readProcessors(here); err != nil {
		return nil, err
	}
	return l, l.readOwn(here)
}

// load opens a library in this process, and asks for its table, whose address it returns. far is the process that it works
// for, nil for this one.
func load(path string, far *isolate.Host) (*Library, uintptr, error) {
	lib, err := dl.Open(path)
	if err != nil {
		return nil, 0, err
	}
	query, err := lib.Symbol("carve_plugin_query")
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %s: %w", ErrPlugin, path, err)
	}
	l := &Library{path: path, name: path}
	if l.host, err = newHost(l, far); err != nil {
		return nil, 0, err
	}
	var p page
	defer p.end()
	w := &writer{page: &p}
	q, e := one[cQuery](w), w.error()
	*q = cQuery{size: uint32(unsafe.Sizeof(*q)), abiMajor: abiMajor, abiMinor: abiMinor, host: l.host.table(), err: e.address()}
	if w.err != nil {
		return nil, 0, w.err
	}
	at := dl.Call(query, address(q))
	if at == 0 {
		return nil, 0, fmt.Errorf("%w: %s serves no version %d.%d: %q", ErrVersion, path, abiMajor, abiMinor, e.string())
	}
	return l, at, l.readTable(w.side, at)
}

// readTable reads the plugin's table.
func (l *Library) readTable(from side, at uintptr) (err error) {
	if l.table, err = view[cTable](from, at, "carve_plugin"); err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	if l.table.abiMajor != abiMajor {
		return fmt.Errorf("%w: %s answers with version %d.%d, wanted is %d", ErrVersion, l.path, l.table.abiMajor, l.table.abiMinor, abiMajor)
	}
	l.name, l.version, l.vendor = from.text(l.table.name), from.text(l.table.version), from.text(l.table.vendor)
	if !validName(l.name) {
		return fmt.Errorf("%w: %s has the name %q", ErrPlugin, l.path, l.name)
	}
	return nil
}

// readProcessors asks which processors there are, and looks whether the functions are there that they need.
func (l *Library) readProcessors(from side) error {
	p := page{region: from.shared()}
	defer p.end()
	w := &writer{page: &p, side: from}
	out, n, e := one[uintptr](w), one[uint64](w), w.error()
	if w.err != nil {
		return w.err
	}
	st, err := l.call(from, l.table.processors, address(out), address(n), e.address())
	if err != nil {
		return err
	}
	if st == statusNotImplemented {
		return nil
	}
	if st != statusOK {
		return l.failed("processors", st, e)
	}
	list, err := views[cProcessor](from, *out, *n, "processor")
	if err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	for _, c := range list {
		p := Processor{Name: from.text(c.name), Arch: from.text(c.arch), Version: from.text(c.version), Memory: max(c.memoryBytes, 0), index: c.index,
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

const errorBytes = 1024

// callError is a carve_error for calls. Where its text lies is not looked up in it: the callee may have changed that.
type callError struct {
	*cError
	buf []byte
}

// error returns a callError for a call.
func (w *writer) error() callError {
	e := callError{one[cError](w), many[byte](w, errorBytes)}
	*e.cError = cError{size: uint32(unsafe.Sizeof(cError{})), index: -1, text: address(&e.buf[0]), cap: errorBytes}
	return e
}

func (e callError) address() uintptr { return address(e.cError) }

// string is the text that the callee has left.
func (e callError) string() string { return written(e.buf, e.len) }

// clear prepares the struct for another call.
func (e callError) clear() { e.index, e.len = -1, 0 }

// failed returns the error of a status below 0.
func (l *Library) failed(function string, st status, e callError) error {
	if st == statusOK || st == statusPending {
		return nil
	}
	err := &Error{Plugin: l.name, Function: function, Status: int(st), Index: -1}
	if e.cError != nil {
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
	st, err := l.call(w.side, fn, append(args, e.address())...)
	if err != nil {
		return err
	}
	if st == statusOK || st == statusPending {
		return nil
	}
	if e.len == 0 && l.table.lastError != 0 && w.proc == nil {
		return l.failedWithLast(function, st, e)
	}
	return l.failed(function, st, e)
}

// failedWithLast asks for the text of this thread's last failure. The goroutine may have changed threads since: then the
// text is another's, or none, so it is only asked for where the error has none.
func (l *Library) failedWithLast(function string, st status, e callError) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e.len = uint64(dl.Call(l.table.lastError, e.text, uintptr(e.cap)))
	return l.failed(function, st, e)
}
