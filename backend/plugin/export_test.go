package plugin

import "context"

// PID returns the number of the process that a backend's plugin runs in, 0 where there is none at the moment.
func PID(b *Backend) int {
	if b.p.proc == nil {
		return 0
	}
	return b.p.proc.PID()
}

// LibraryPID returns the number of the process that a library runs in, of those that are open out of process; 0 where there is none.
func LibraryPID(path string) int {
	aparts.Lock()
	defer aparts.Unlock()
	for key, l := range aparts.m {
		if key.path != path {
			continue
		}
		l.apart.mu.Lock()
		proc := l.apart.proc
		l.apart.mu.Unlock()
		if proc != nil {
			return proc.PID()
		}
	}
	return 0
}

// Watch is a watch, for specs.
type Watch struct{ w watch }

// NewWatch returns one that sets a flag.
func NewWatch(flag *int32) *Watch { return &Watch{watch{flag: flag}} }

// Begin begins to watch ctx.
func (w *Watch) Begin(ctx context.Context) uint64 { return w.w.begin(ctx) }

// End ends the watch of a call.
func (w *Watch) End(call uint64) { w.w.end(call) }
