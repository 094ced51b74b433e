package oipgrpc

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// ahead bounds how far the body of a call behind net/http is read before the call takes it: grpc-go reads on there for as long as something comes.
type ahead struct {
	io.ReadCloser

	mu     sync.Mutex // guards what follows
	more   sync.Cond
	room   int // bytes that may be read
	open   bool
	closed bool
}

// readAhead is how many bytes of a body may be read before the call takes them, beside those that it waits for.
const readAhead = 256 << 10

// aheadKey is the key of contexts that have an *ahead.
type aheadKey struct{}

// ReadAsTaken returns a request for grpc.Server's ServeHTTP whose body is read as its call takes it.
func ReadAsTaken(r *http.Request) *http.Request {
	a := &ahead{ReadCloser: r.Body, room: readAhead}
	a.more.L = &a.mu
	r = r.WithContext(context.WithValue(r.Context(), aheadKey{}, a))
	r.Body = a
	return r
}

// aheadOf returns the one of a call's context, nil for none.
func aheadOf(ctx context.Context) *ahead {
	a, _ := ctx.Value(aheadKey{}).(*ahead)
	return a
}

// Read implements io.Reader.
func (a *ahead) Read(b []byte) (int, error) {
	a.mu.Lock()
	for a.room <= 0 && !a.open && !a.closed {
		a.more.Wait()
	}
	a.mu.Unlock()
	n, err := a.ReadCloser.Read(b)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.room -= n
	return n, err
}

// Close implements io.Closer.
func (a *ahead) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.more.Broadcast()
	return a.ReadCloser.Close()
}

// allow says that the call waits for n bytes. It does nothing for nil, as the others.
func (a *ahead) allow(n int) {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.room += n
	a.mu.Unlock()
	a.more.Broadcast()
}

// unbounded says that the call is read by grpc-go, which does not tell what it takes.
func (a *ahead) unbounded() {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.open = true
	a.mu.Unlock()
	a.more.Broadcast()
}
