package plugin

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
)

// ErrOutOfProcess says that the platform cannot run plugins in processes of their own: Linux on amd64 and arm64 can.
var ErrOutOfProcess = isolate.ErrUnsupported

// Process says how a plugin runs in a process of its own.
type Process struct {
	// Timeout is how long a call, or the work that it queues, may take before the process is killed. 0 means 30 s.
	Timeout time.Duration
	// CompileTimeout is the same for compilations. 0 means 10 min.
	CompileTimeout time.Duration
	// Host is the program whose main calls HostMain, "" for the one that runs. The tool carve is one.
	Host string
}

// Times that a Process has by default.
const (
	defaultTimeout        = 30 * time.Second
	defaultCompileTimeout = 10 * time.Minute
	leastStart            = 10 * time.Second // to begin in
)

// Options of a plugin's processor that are the host's, and not passed on.
const (
	optionTimeout        = "timeout"
	optionCompileTimeout = "compile-timeout"
	optionHost           = "host"
)

// processOf reads the options that are about a process of its own. p is nil where the plugin is to run in this one: then
// rest is everything else. The error wraps backend.ErrOption.
func processOf(options map[string]string) (p *Process, rest map[string]string, err error) {
	rest = maps.Clone(options)
	delete(rest, backend.OutOfProcess)
	text, asked := options[backend.OutOfProcess]
	if !asked {
		return nil, rest, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s=%q is neither true nor false", backend.ErrOption, backend.OutOfProcess, text)
	}
	if !on {
		return nil, rest, nil
	}
	p = &Process{Host: options[optionHost]}
	for key, at := range map[string]*time.Duration{optionTimeout: &p.Timeout, optionCompileTimeout: &p.CompileTimeout} {
		if s, ok := options[key]; ok {
			if *at, err = time.ParseDuration(s); err != nil || *at <= 0 {
				return nil, nil, fmt.Errorf("%w: %s=%q is no time like 30s", backend.ErrOption, key, s)
			}
		}
		delete(rest, key)
	}
	delete(rest, optionHost)
	return p, rest, nil
}

// apart is what a Library has of the process that it runs in. The process is there while a backend is open.
type apart struct {
	timeout, compileTimeout time.Duration
	host                    []string

	mu      sync.Mutex
	users   int
	proc    *isolate.Process
	before  isolate.Stats // of processes that were closed
	entries atomic.Uint64 // bits of the functions that the table has
	brought atomic.Uint64 // digest of what there is beside processors
	table   atomic.Uint64 // its address in the process that was started last
	known   bool          // the table and processors have been read

	running events
}

// aparts are the libraries that run in processes of their own, by path and settings.
var aparts struct {
	sync.Mutex
	m map[apartKey]*Library
}

type apartKey struct {
	path string
	o    Process
}

// OpenOutOfProcess opens the plugin at a path in a process of its own, whose memory holds the plugin alone; nil options are
// their defaults. Backends of the same path and options share the process, which is there while one of them is open. What
// becomes of it is an error of the call that meets it, a *ProcessError; a new process takes its place, and backends go on in
// it. The error wraps backend.ErrUnavailable, and ErrOutOfProcess, ErrHost, ErrVersion, ErrPlugin or ErrProcess.
func OpenOutOfProcess(path string, o *Process) (*Library, error) {
	l, err := openApart(path, o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
	}
	return l, nil
}

func openApart(path string, o *Process) (*Library, error) {
	if o == nil {
		o = &Process{}
	}
	if !isolate.Supported {
		return nil, ErrOutOfProcess
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	a := &apart{timeout: defaultTimeout, compileTimeout: defaultCompileTimeout}
	if o.Timeout > 0 {
		a.timeout = o.Timeout
	}
	if o.CompileTimeout > 0 {
		a.compileTimeout = o.CompileTimeout
	}
	switch {
	case o.Host != "":
		a.host = []string{o.Host, HostCommand}
	case !hooked.Load():
		return nil, fmt.Errorf("%w: main has to call plugin.HostMain first, or the option %s to name a program that does", ErrHost, optionHost)
	}
	aparts.Lock()
	defer aparts.Unlock()
	key := apartKey{path, Process{a.timeout, a.compileTimeout, o.Host}}
	if l := aparts.m[key]; l != nil {
		return l, nil
	}
	l := &Library{path: path, name: path, apart: a}
	l.host = &hostLibrary{l: l}
	if _, err := l.enter(); err != nil { // which reads what the library has
		return nil, err
	}
	l.leave()
	if aparts.m == nil {
		aparts.m = map[apartKey]*Library{}
	}
	aparts.m[key] = l
	return l, nil
}

// enter returns the library's process, and starts it for the first user.
func (l *Library) enter() (*isolate.Process, error) {
	a := l.apart
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.proc == nil {
		if err := l.start(); err != nil {
			return nil, err
		}
	}
	a.users++
	return a.proc, nil
}

// leave ends the process with its last user.
func (l *Library) leave() {
	a := l.apart
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.users--; a.users == 0 {
		l.stop()
	}
}

// stop ends the process, with the lock held.
func (l *Library) stop() {
	a := l.apart
	a.proc.Close()
	s := a.proc.Stats()
	a.before.Restarts += s.Restarts
	if s.Last != nil {
		a.before.Last = s.Last
	}
	a.proc = nil
}

// start starts the process, with the lock held.
func (l *Library) start() error {
	a := l.apart
	proc, err := isolate.Start(isolate.Config{
		Host: a.host, Library: l.path, Start: max(a.timeout, leastStart), Check: l.check,
		Upcall: func(w [4]uint64) uint64 {
			return uint64(giveOutput(l, uintptr(w[0]), uintptr(w[1]), uintptr(w[2]), uintptr(w[3])))
		},
		Done: func(token uint64, st int32) {
			if e, ok := waiting.get(token); ok && e.p.l == l {
				happened(token, status(st))
			}
		},
		Log: l.host.log, Tick: a.running.overdue, Ended: a.running.lost,
	})
	if err != nil {
		return startError(err)
	}
	a.proc = proc
	if a.known {
		return nil
	}
	if err := l.read(proc); err != nil {
		l.stop()
		return err
	}
	a.known = true
	return nil
}

// read reads what does not change from process to process.
func (l *Library) read(proc *isolate.Process) error {
	life, err := proc.Life(0)
	if err != nil {
		return l.processError("carve_plugin_query", err)
	}
	from := side{l, proc, life}
	if err := l.readTable(from, uintptr(l.apart.table.Load())); err != nil {
		return err
	}
	for i, e := range l.table.entries() { // addresses mean nothing here: numbers are called
		if e != 0 {
			l.table.entries()[i] = firstFunction + uintptr(i)
		}
	}
	if err := l.readProcessors(from); err != nil {
		return err
	}
	return l.readOwn(from)
}

// check compares what a process has with what the one before it had.
func (l *Library) check(h isolate.Hello) error {
	a := l.apart
	a.table.Store(h.Table)
	had, brought := a.entries.Swap(h.Functions), a.brought.Swap(h.Brought)
	if had != 0 && (had != h.Functions || brought != h.Brought) {
		return fmt.Errorf("has other functions than before: %s was changed", l.path)
	}
	return nil
}

// startError says why a process could not be started.
func startError(err error) error {
	var f *isolate.Failure
	if !errors.As(err, &f) {
		return err
	}
	cause := causes[f.Kind]
	switch {
	case f.Kind == isolate.Refused && f.Code == helloVersion:
		return fmt.Errorf("%w: %s", ErrVersion, f.Text)
	case f.Kind == isolate.Refused:
		return fmt.Errorf("%w: %s", ErrPlugin, f.Text)
	case f.Kind == isolate.Exited:
		cause = ErrHost // most likely its main does not call HostMain
	}
	return fmt.Errorf("%w: %w: the process %s", ErrProcess, cause, f.Text)
}

// stats tell how the process has fared since the library was opened.
func (l *Library) stats() isolate.Stats {
	a := l.apart
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.before
	if a.proc != nil {
		now := a.proc.Stats()
		s.Restarts += now.Restarts
		if now.Last != nil {
			s.Last = now.Last
		}
	}
	return s
}

// events are those of work that is under way in another process.
type events struct {
	mu sync.Mutex
	m  map[*event]time.Time // until when they have to happen
}

func (x *events) add(e *event, limit time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.m == nil {
		x.m = map[*event]time.Time{}
	}
	x.m[e] = time.Now().Add(limit)
}

func (x *events) remove(e *event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.m, e)
}

// overdue returns a Failure where work has not ended in time.
func (x *events) overdue(life uint64, now time.Time) *isolate.Failure {
	var late []*event
	x.mu.Lock()
	for e, until := range x.m {
		if e.at.life == life && now.After(until) {
			late = append(late, e)
		}
	}
	x.mu.Unlock()
	for _, e := range late {
		if done, _ := e.Done(); !done { // nobody may have asked
			return &isolate.Failure{Kind: isolate.Hung, Text: fmt.Sprintf("has not done the work of a run within %v", e.p.l.apart.timeout)}
		}
	}
	return nil
}

// lost tells all who wait that a life is over.
func (x *events) lost(life uint64, _ *isolate.Failure) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for e := range x.m {
		if e.at.life == life {
			go e.happened(statusDeviceLost)
		}
	}
}
