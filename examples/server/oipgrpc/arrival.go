package oipgrpc

import (
	"container/list"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// arrivals are the calls whose messages are on the way, in the order of their coming. They bound the time until a call's message has been
// read: grpc-go itself waits for as long as the client keeps its stream open. Each has as long as the others, so that one timer, which is
// set when it has run out, does for all but those whose messages turn out to be long, which have timers of their own.
type arrivals struct {
	within time.Duration

	mu    sync.Mutex // guards what follows
	calls list.List  // of arrival
	timer *time.Timer
	set   bool // the timer runs
}

// arrival is a call whose message is on the way.
type arrival struct {
	due    time.Time
	stream ending
	own    *time.Timer // nil while the call is in the list
}

// ending is what grpc-go's streams have to end a call, which is in the context of its handler. A context of our own could end it too, but
// takes a microsecond of each call: a thirtieth of all that one with a small message costs at both ends.
type ending interface {
	WriteStatus(*status.Status) error
}

// begin notes a call whose message is to arrive, in the context of its handler.
func (l *arrivals) begin(ctx context.Context) *list.Element {
	stream, ok := grpc.ServerTransportStreamFromContext(ctx).(ending)
	if !ok {
		return nil
	}
	a := arrival{due: time.Now().Add(l.within), stream: stream}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.timer == nil:
		l.timer = time.AfterFunc(l.within, l.cut)
	case !l.set:
		l.timer.Reset(l.within)
	}
	l.set = true
	return l.calls.PushBack(a)
}

// extend gives a call a second more for each MiB of its message, as package rest does.
func (l *arrivals) extend(at *list.Element, length uint32) {
	more := time.Duration(length>>20) * time.Second
	if at == nil || more == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := at.Value.(arrival)
	l.calls.Remove(at)
	if left := time.Until(a.due); left > 0 { // it has not been cut off
		a.own = time.AfterFunc(left+more, func() { a.cut(l.within + more) })
		at.Value = a
	}
}

// end ends the bound in time of a call whose message has been read.
func (l *arrivals) end(at *list.Element) {
	if at == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls.Remove(at) // which does nothing where it has been removed
	if own := at.Value.(arrival).own; own != nil {
		own.Stop()
	}
}

// cut ends a call whose time has run out.
func (a arrival) cut(within time.Duration) {
	_ = a.stream.WriteStatus(status.Newf(codes.DeadlineExceeded, "the message has not arrived within %v", within)) // or the call is over
}

// cut ends calls whose time has run out.
func (l *arrivals) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.set = false; l.calls.Len() > 0; {
		a := l.calls.Front().Value.(arrival)
		if left := time.Until(a.due); left > 0 {
			l.timer.Reset(left)
			l.set = true
			return
		}
		l.calls.Remove(l.calls.Front())
		go a.cut(l.within)
	}
}

func (o Options) messageTimeout() time.Duration {
	if o.MessageTimeout <= 0 {
		return 30 * time.Second
	}
	return o.MessageTimeout
}
