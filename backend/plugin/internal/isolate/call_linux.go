//go:build amd64 || arm64

package isolate

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
)

// Call calls function fn of the library in a life, and returns its result. what is the function's name, for errors. After limit
// the life is ended. The error is a *Failure. It costs about a microsecond where both processes have a processor to themselves,
// some ten where one of them sleeps.
func (p *Process) Call(number uint64, what *string, fn uint32, args [6]uintptr, limit time.Duration) (uintptr, error) {
	l, err := p.of(number)
	if err != nil {
		return 0, err
	}
	i, err := l.take(what)
	if err != nil {
		return 0, err
	}
	defer l.give(i)
	s := &l.area.slots[i]
	s.fn = fn
	for k, a := range args {
		s.args[k] = uint64(a)
	}
	if err := l.await(i, &p.paces[fn%paces], l.request(i, opCall), limit); err != nil {
		return 0, err
	}
	l.worked.Store(true)
	return uintptr(s.ret), nil
}

var reading = "a request to read"

// Read copies memory of the child's to dst. An address that is not there ends the life.
func (p *Process) Read(number uint64, at uintptr, dst []byte, limit time.Duration) error {
	return p.read(number, opBytes, dst, len(slot{}.data), limit, func(s *slot, from, n int) {
		s.args[0], s.args[1] = uint64(at)+uint64(from), uint64(n)
	})
}

// ReadStruct reads a struct that begins with its size, as ReadStructs does.
func (p *Process) ReadStruct(number uint64, at uintptr, dst []byte, limit time.Duration) error {
	clear(dst)
	return p.read(number, opStruct, dst, len(dst), limit, func(s *slot, _, n int) { s.args[0], s.args[2] = uint64(at), uint64(n) })
}

// ReadStructs reads n structs that begin with their size, from a list of pointers to them, to dst, of which each gets size
// bytes. Its first four bytes tell how many the struct has, of which no more were copied, and 0 for NULL. What it does not
// have is zero.
func (p *Process) ReadStructs(number uint64, list uintptr, n, size int, dst []byte, limit time.Duration) error {
	clear(dst)
	return p.read(number, opStructs, dst[:n*size], len(slot{}.data)/size*size, limit, func(s *slot, from, n int) {
		s.args[0], s.args[1], s.args[2] = uint64(list)+uint64(from/size*8), uint64(n/size), uint64(size)
	})
}

// read reads in pieces of at most most bytes; ask writes the arguments for the n bytes behind from.
func (p *Process) read(number uint64, op uint32, dst []byte, most int, limit time.Duration, ask func(s *slot, from, n int)) error {
	l, err := p.of(number)
	if err != nil {
		return err
	}
	i, err := l.take(&reading)
	if err != nil {
		return err
	}
	defer l.give(i)
	s := &l.area.slots[i]
	for from := 0; from < len(dst); from += most {
		n := min(most, len(dst)-from)
		ask(s, from, n)
		if err := l.await(i, &p.reads, l.request(i, op), limit); err != nil {
			return err
		}
		copy(dst[from:from+n], s.data[:])
	}
	return nil
}

// take returns a slot that nobody uses.
func (l *life) take(what *string) (int, error) {
	select {
	case <-l.dead:
		return 0, l.missed()
	case <-l.tickets:
	}
	if l.over() {
		l.tickets <- struct{}{}
		return 0, l.missed()
	}
	for {
		taken := l.taken.Load()
		i := bits.TrailingZeros64(^taken) // the lowest, whose thread has worked last
		if l.taken.CompareAndSwap(taken, taken|1<<i) {
			l.what[i].Store(what)
			return i, nil
		}
	}
}

// missed is the Failure of a call that was not made, since the life is over.
func (l *life) missed() *Failure {
	return &Failure{Kind: Gone, Text: "is about to be started again: it " + l.reason.Text}
}

func (l *life) give(i int) {
	l.taken.And(^(uint64(1) << i))
	l.tickets <- struct{}{}
}

// request has the child do what stands in the slot, and says whether it had to be woken for that.
func (l *life) request(i int, op uint32) (woken bool) {
	s := &l.area.slots[i]
	l.calls[i]++
	s.number, s.op, s.pause = l.calls[i], op, uint64(time.Since(l.replied[i]))
	return s.give(stateRequest)
}

// await returns when a slot has the reply to the call that is under way, and answers what the child asks in between. The child
// takes time at that pace, and had to be woken or not.
func (l *life) await(i int, p *pace, woken bool, limit time.Duration) error {
	s := &l.area.slots[i]
	begin := time.Now()
	for {
		st, err := l.settle(i, p.spin(woken), begin, limit)
		switch {
		case err != nil:
			return err
		case st == stateReply && s.answers == l.calls[i]:
			p.note(time.Duration(s.work))
			l.replied[i] = time.Now()
			return nil
		case st == stateUpcall && s.answers != l.calls[i]:
			s.upRet = l.p.c.Upcall(s.up)
			woken = s.give(stateAnswered)
		default:
			return l.fail(l.corrupt(i, st))
		}
	}
}

// settle waits until the state of a slot is for the parent to see, which looks at it for spin before it sleeps.
func (l *life) settle(i int, spin time.Duration, begin time.Time, limit time.Duration) (uint32, error) {
	s := &l.area.slots[i]
	st := s.look(mine, spin)
	if !mine(st) {
		return st, nil
	}
	defer atomic.StoreUint32(&s.wait, waitNot)
	for slept := time.Now(); time.Since(slept) < threadFor; {
		atomic.StoreUint32(&s.wait, waitFutex)
		if st = atomic.LoadUint32(&s.state); !mine(st) {
			return st, nil
		}
		futexWait(&s.state, st, threadFor/2)
	}
	left := time.NewTimer(limit - time.Since(begin))
	defer left.Stop()
	for {
		atomic.StoreUint32(&s.wait, waitMessage)
		if st = atomic.LoadUint32(&s.state); !mine(st) {
			return st, nil
		}
		select {
		case <-l.wake[i]:
		case <-l.dead:
			return 0, l.reason
		case <-left.C:
			return 0, l.fail(&Failure{Kind: Hung, Text: fmt.Sprintf("has not answered %s within %v", *l.what[i].Load(), limit)})
		}
	}
}
