package memplan

import "context"

// halt polls the end of a context cheaply. The zero value never ends. It may
// be copied and used by several goroutines.
type halt struct {
	done <-chan struct{}
}

func newHalt(ctx context.Context) halt { return halt{ctx.Done()} }

// stopped reports whether the context has ended.
func (h halt) stopped() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// pollMask spaces polls in loops whose single step takes up to a few
// microseconds: they poll when step&pollMask == 0.
const pollMask = 1<<8 - 1
