package memplan

import "context"

// halt says when to stop: when a context ends, or when another goroutine has
// made the work useless. The zero value never stops. It may be copied and used
// by several goroutines.
type halt struct {
	done <-chan struct{}
	quit func() bool // nil never quits
}

// newHalt returns a halt that stops when ctx ends, which a nil one never does.
func newHalt(ctx context.Context) halt {
	if ctx == nil {
		return halt{}
	}
	return halt{done: ctx.Done()}
}

// orWhen returns a halt that also stops when quit returns true.
func (h halt) orWhen(quit func() bool) halt { return halt{h.done, quit} }

// stopped reports whether to stop. It takes some nanoseconds.
func (h halt) stopped() bool {
	select {
	case <-h.done:
		return true
	default:
		return h.quit != nil && h.quit()
	}
}

// pollMask spaces polls in loops whose single step takes up to a few
// microseconds: they poll when step&pollMask == 0.
const pollMask = 1<<6 - 1

// chunkMask does the same for loops whose single step takes nanoseconds.
const chunkMask = 1<<14 - 1
