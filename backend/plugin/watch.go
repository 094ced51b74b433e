package plugin

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// glance is how long after the end of a context the plugin's flag is set, at most. Calls that are over sooner cost the setting of
// a timer, and wake nobody.
const glance = 5 * time.Millisecond

// watch sets a flag that C reads when a context has ended, for one call after the other. It allocates for the first alone.
type watch struct {
	flag *int32

	mu    sync.Mutex
	done  <-chan struct{} // of the context; nil where none is watched
	call  uint64          // the one that is watched
	timer *time.Timer
}

// begin clears the flag and watches ctx for a call, whose number it returns. What was watched before no longer is.
func (w *watch) begin(ctx context.Context) (call uint64) {
	atomic.StoreInt32(w.flag, 0)
	done := ctx.Done()
	if done == nil && w.timer == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call++
	w.done = done
	w.look()
	return w.call
}

// look sets the flag where the context has ended, and looks again later where it has not. It is called with the lock held.
func (w *watch) look() {
	if w.done == nil {
		return
	}
	select {
	case <-w.done:
		atomic.StoreInt32(w.flag, 1)
		w.done = nil
	default:
		if w.timer != nil {
			w.timer.Reset(glance)
			return
		}
		w.timer = time.AfterFunc(glance, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.look()
		})
	}
}

// end takes the watch of a call away, unless another call has begun: nothing is written for it once end has returned.
func (w *watch) end(call uint64) {
	if call == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.call == call && w.done != nil {
		w.done = nil
		w.timer.Stop()
	}
}
