package oipgrpc

import (
	"container/list"
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

	mu    sync.Mutex // guards what follows
	calls list.List  // of *arrival
	timer *time.Timer
	set   bool // the timer runs
}

// arrival is the context of a call, and bounds the time until the call's message has been read: grpc-go itself waits for as long as the
// client keeps its stream open.
type arrival struct {
	context.Context
	of   *arrivals
	at   *list.Element // in of.calls, guarded by of.mu
	due  time.Time
	stop func() // ends the reading; it does nothing to a call that has ended
	late atomic.Bool
}

// begin returns the context of a call whose message is to arrive. Where it does not, stop is called.
func (l *arrivals) begin(ctx context.Context, stop func()) context.Context {
	a := &arrival{Context: ctx, of: l, due: time.Now().Add(l.within), stop: stop}
	l.mu.Lock()
	defer l.mu.Unlock()
	a.at = l.calls.PushBack(a)
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
	defer l.mu.Unlock()
	for l.set = false; l.calls.Len() > 0; {
		a := l.calls.Front().Value.(*arrival)
		if left := time.Until(a.due); left > 0 {
			l.timer.Reset(left)
			l.set = true
			return
		}
		l.calls.Remove(a.at)
		a.late.Store(true)
		go a.stop()
	}
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
		a.of.mu.Lock()
		defer a.of.mu.Unlock()
		a.of.calls.Remove(a.at) // which does nothing where it has been removed
	}
}

// tapped begins the arrival of each call of a grpc.Server that has a port of its own.
func (o Options) tapped() grpc.ServerOption {
	l := &arrivals{within: o.messageTimeout()}
	return grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		ctx, cancel := context.WithCancel(ctx)
		return l.begin(ctx, cancel), nil
	})
}

// Handler returns a grpc.Server as a handler of HTTP/2, with the bound in time that its calls have on a port of their own. Clients that
// are too slow have Unavailable there, not DeadlineExceeded.
func Handler(calls *grpc.Server, o Options) http.Handler {
	l := &arrivals{within: o.messageTimeout()}
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
		ctx := l.begin(r.Context(), stop)
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
