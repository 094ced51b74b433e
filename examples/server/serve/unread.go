package serve

import (
	"sync"

	"github.com/carve-dev/carve/examples/server/oip"
)

// Unread counts the bytes of a connection's answers that wait for its client to read them, where a transport queues answers behind the calls
// that they are for. They are among the bytes of all requests, and a connection may have a quarter of Options.MaxBytes; a single answer
// may be longer. It is safe for concurrent use; nil counts nothing.
type Unread struct {
	s *Server

	mu    sync.Mutex // guards what follows
	bytes int64
	full  bool // an answer has been refused, and none has been read since
	over  bool
}

// Unread returns a count for a connection. Close it with the connection, unless each Add has its Remove.
func (s *Server) Unread() *Unread { return &Unread{s: s} }

// Full returns why the connection's next request is not worth to be read; nil where it is.
func (u *Unread) Full() error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.full {
		return u.refuse()
	}
	return nil
}

// Add counts an answer of n bytes. Remove it when it has been sent or given up. The error is Exhausted: the answer is not to be sent.
func (u *Unread) Add(n int64) error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.over:
		return oip.Errorf(oip.Unavailable, "the connection is closed")
	case u.bytes > 0 && u.bytes+n > u.s.o.MaxBytes/4:
		u.full = true
		return u.refuse()
	}
	if err := u.s.reserve(n); err != nil {
		return err
	}
	u.bytes += n
	return nil
}

// refuse returns the error of a connection that is full. It is called with mu held.
func (u *Unread) refuse() error {
	return oip.Errorf(oip.Exhausted, "the connection has %d bytes of answers that its client has not read, %d are kept", u.bytes, u.s.o.MaxBytes/4)
}

// Remove ends the count of n bytes, which Add has counted.
func (u *Unread) Remove(n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over { // Close has done so
		return
	}
	u.bytes, u.full = u.bytes-n, false
	u.s.bytes.Add(-n)
}

// Close ends the count of what has not been removed: the connection is closed.
func (u *Unread) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.over {
		u.over = true
		u.s.bytes.Add(-u.bytes)
	}
}
