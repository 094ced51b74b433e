package oipgrpc

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"
)

// arrivals are the calls whose messages are on the way, in the order of their coming. Each has as long as the others, so that one timer,
// which is set when it has run out, does for all.
type arrivals struct {
	within time.Duration

	mu          sync.Mutex // guards what follows
	first, last *arrival
	timer       *time.Timer
	set         bool // the timer runs
}

// arrival is the context of a call, and bounds the time until the call's message has been read: grpc-go itself waits for as long as the
// client keeps its stream open.
type arrival struct {
	context.Context
	list        *arrivals
	prev, next  *arrival
	due         time.Time
	stop        func() // ends the reading; it does nothing to a call that has ended
	late        atomic.Bool
	outstanding bool // it is in the list, guarded by list.mu
}

// begin returns the context of a call whose message is to arrive. Where it does not, stop is called.
func (l *arrivals) begin(ctx context.Context, stop func()) context.Context {
	a := &arrival{Context: ctx, list: l, due: time.Now().Add(l.within), stop: stop, outstanding: true}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.prev = l.last; a.prev == nil {
		l.first = a
	} else {
		a.prev.next = a
	}
	l.last = a
	switch {
	case l.timer == nil:
		l.timer = time.AfterFunc(l.within, l.cut)
	case !l.set:
		l.timer.Reset(l.within)
	}
	l.set = true
	return a
}

// cut ends the reading of messages whose time has run out.
func (l *arrivals) cut() {
	l.mu.Lock()
	var late []*arrival
	for now := time.Now(); l.first != nil && !l.first.due.After(now); {
		late = append(late, l.first)
		l.remove(l.first)
	}
	if l.set = l.first != nil; l.set {
		l.timer.Reset(time.Until(l.first.due))
	}
	l.mu.Unlock()
	for _, a := range late {
		a.late.Store(true)
		a.stop()
	}
}

// remove takes a call out, which may be out already. It is called with mu held.
func (l *arrivals) remove(a *arrival) {
	if !a.outstanding {
		return
	}
	if a.outstanding = false; a.prev == nil {
		l.first = a.next
	} else {
		a.prev.next = a.next
	}
	if a.next == nil {
		l.last = a.prev
	} else {
		a.next.prev = a.prev
	}
	a.prev, a.next = nil, nil
}

// Err implements context.Context. Of a message that was too late it is context.DeadlineExceeded, which grpc-go tells the client.
func (a *arrival) Err() error {
	err := a.Context.Err()
	if err != nil && a.late.Load() {
		return context.DeadlineExceeded
	}
	return err
}

// Value implements context.Context.
func (a *arrival) Value(key any) any {
	if key == (arrivalKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// arrivalKey is the key under which an arrival has itself.
type arrivalKey struct{}

// arrived ends the bound in time of a call whose message has been read, or which is a stream.
func arrived(ctx context.Context) {
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		a.list.mu.Lock()
		defer a.list.mu.Unlock()
		a.list.remove(a)
	}
}

// tapped begins the arrival of each call of a grpc.Server that has a port of its own.
func (o Options) tapped() grpc.ServerOption {
	list := &arrivals{within: o.messageTimeout()}
	return grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		ctx, cancel := context.WithCancel(ctx)
		return list.begin(ctx, cancel), nil
	})
}

// Handler returns a grpc.Server as a handler of HTTP/2, with the bound in time that its calls have on a port of their own. Clients that
// are too slow have Unavailable there, not DeadlineExceeded.
func Handler(calls *grpc.Server, o Options) http.Handler {
	list := &arrivals{within: o.messageTimeout()}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var mu sync.Mutex
		over := false // guarded by mu: w is not used any more then
		stop := func() {
			mu.Lock()
			defer mu.Unlock()
			if !over {
				_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // HTTP/2 has them by stream
			}
		}
		ctx := list.begin(r.Context(), stop)
		defer func() {
			arrived(ctx)
			mu.Lock()
			defer mu.Unlock()
			over = true
		}()
		calls.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (o Options) messageTimeout() time.Duration {
	if o.MessageTimeout <= 0 {
		return 30 * time.Second
	}
	return o.MessageTimeout
}
