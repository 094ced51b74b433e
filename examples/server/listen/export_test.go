package listen

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// NextBound is how the bound of Go's memory moves.
var NextBound = nextBound

// Narrow has the bound as it was before the first overload.
func (p *Processors) Narrow() {
	p.heap.mu.Lock()
	p.heap.least, p.heap.bound = usualGarbage, 0
	p.heap.mu.Unlock()
	p.heap.settle()
}

// ServeAt serves HTTP from a listener, and returns what closes it as Shutdown does.
func ServeAt(at net.Listener, h http.Handler) (stop func(context.Context) error) {
	e := &entrance{Listener: at, over: make(chan struct{})}
	l := &Listeners{log: slog.New(slog.DiscardHandler), ports: []*entrance{e}, patience: time.Second}
	l.serveHTTP("slow", e, h)
	return func(ctx context.Context) error {
		l.closePorts(ctx)
		return l.https[0].Shutdown(ctx)
	}
}
