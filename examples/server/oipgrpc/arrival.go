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

// arrival is the context of a call, and bounds the time until the call's message has been read: grpc-go itself waits for as long as the
// client keeps its stream open.
type arrival struct {
	context.Context
	timer *time.Timer
	late  atomic.Bool
}

// arrivalKey is the key under which an arrival has itself.
type arrivalKey struct{}

// arriving returns the context of a call whose message has so long to arrive. After that stop ends the reading; it must do nothing to
// a call that has ended.
func arriving(ctx context.Context, within time.Duration, stop func()) context.Context {
	a := &arrival{Context: ctx}
	a.timer = time.AfterFunc(within, func() {
		a.late.Store(true)
		stop()
	})
	return a
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

// arrived ends the bound in time of a call whose message has been read, or which is a stream.
func arrived(ctx context.Context) {
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		a.timer.Stop()
	}
}

// tapped begins the arrival of each call of a grpc.Server that has a port of its own.
func (o Options) tapped() grpc.ServerOption {
	return grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		ctx, cancel := context.WithCancel(ctx)
		return arriving(ctx, o.messageTimeout(), cancel), nil
	})
}

// Handler returns a grpc.Server as a handler of HTTP/2, with the bound in time that its calls have on a port of their own. Clients that
// are too slow have Unavailable there, not DeadlineExceeded.
func Handler(calls *grpc.Server, o Options) http.Handler {
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
		ctx := arriving(r.Context(), o.messageTimeout(), stop)
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
