//go:build amd64 || arm64

package isolate

import (
	"runtime"
	"sync/atomic"
	"time"
)

// pace is how long the other side works, as a rule, before it says something that one waits for: a mean, in which the latest counts a
// quarter. Who waits looks for it by itself as long as it is to be expected, and sleeps at once where it takes long: a processor is
// then there for who does the work. It is the other side that measures: what it takes to wake somebody is not part of it, or two that
// sleep would wake each other for ever. The zero pace expects it at once. It is safe for concurrent use; a time may get lost.
type pace struct{ mean atomic.Int64 }

// Waiting by looking, beyond which sleeping costs less: falling asleep and being woken takes some microseconds on both sides.
const (
	leastSpin = 2 * time.Microsecond
	mostSpin  = 40 * time.Microsecond
	waking    = 20 * time.Microsecond // until somebody works who was asleep
)

// alone says that the other side cannot work while one looks.
var alone = runtime.NumCPU() == 1

// note counts one more time.
func (p *pace) note(d time.Duration) {
	old := p.mean.Load()
	p.mean.Store(old + (int64(min(max(d, 0), 4*mostSpin))-old)/4) // one that took very long is forgotten soon
}

// spin is how long to look before sleeping, where the other side had to be woken or not.
func (p *pace) spin(woken bool) time.Duration {
	mean := time.Duration(p.mean.Load())
	if alone || mean > mostSpin {
		return 0
	}
	most := min(2*mean+leastSpin, mostSpin)
	if woken {
		most += waking
	}
	return most
}
