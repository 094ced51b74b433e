package fake

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

// Op is a kind of call that may be made to fail.
type Op string

// The calls. Late is the end of a run or of a copy that was queued without an error.
const (
	Alloc       Op = "alloc"
	CopyTo      Op = "copy-to"
	CopyFrom    Op = "copy-from"
	CopyBetween Op = "copy-between"
	NewStream   Op = "new-stream"
	Record      Op = "record"
	WaitFor     Op = "wait-for"
	Compile     Op = "compile"
	Specialize  Op = "specialize"
	Launch      Op = "launch"
	LateLaunch  Op = "late-launch"
	LateCopy    Op = "late-copy"
)

// Call is one call of a fake device.
type Call struct {
	Op     Op
	Device int // index among the backend's
	N      int // how many calls of this Op there were before, on all devices
}

// ErrInjected is the error of a failure that was asked for.
var ErrInjected = errors.New("injected failure")

// error returns the injected failure of a call.
func (c Call) error() error {
	return fmt.Errorf("%w: %s %d on device %d", ErrInjected, c.Op, c.N, c.Device)
}

// FailNth returns an Options.Fail that makes call n, counted from 0, of an Op fail.
func FailNth(op Op, n int) func(Call) error {
	return func(c Call) error {
		if c.Op == op && c.N == n {
			return c.error()
		}
		return nil
	}
}

// FailSome returns an Options.Fail that makes a share of the calls fail, drawn by a seed. Without ops it is all of them.
func FailSome(seed uint64, share float64, ops ...Op) func(Call) error {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	return func(c Call) error {
		mu.Lock()
		defer mu.Unlock()
		if hit := r.Float64() < share; hit && (len(ops) == 0 || slices.Contains(ops, c.Op)) {
			return c.error()
		}
		return nil
	}
}

// fail asks whether a call fails.
func (m *machine) fail(op Op, dev int) error {
	m.mu.Lock()
	if m.calls == nil {
		m.calls = map[Op]int{}
	}
	c := Call{Op: op, Device: dev, N: m.calls[op]}
	m.calls[op]++
	m.mu.Unlock()
	if m.o.Fail == nil {
		return nil
	}
	return m.o.Fail(c)
}
