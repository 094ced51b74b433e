package fake

import (
	"sync"
	"unsafe"
)

// landing is the host's memory as copies touch it: what is written there is known to be ordered with what is read there, as
// on the devices.
type landing struct {
	mu      sync.Mutex
	touched block // accesses by address
	under   map[*span]bool
}

// span is a range of addresses that a queued copy will write.
type span struct{ from, to uintptr }

func spanOf(b []byte) span {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return span{from, from + uintptr(len(b))}
}

// begin notes that a copy to b is queued; end that it is over.
func (l *landing) begin(b []byte) (end func()) {
	x := spanOf(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.under == nil {
		l.under = map[*span]bool{}
	}
	l.under[&x] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.under, &x)
	}
}

// pending reports whether a queued copy will write to b.
func (l *landing) pending(b []byte) bool {
	x := spanOf(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	for o := range l.under {
		if o.from < x.to && x.from < o.to {
			return true
		}
	}
	return false
}

// touch notes that a piece of work reads or writes b. It is called by one goroutine at a time.
func (l *landing) touch(p *piece, b []byte, write bool) {
	x := spanOf(b)
	p.touch(&l.touched, int64(x.from), int64(len(b)), write)
}
