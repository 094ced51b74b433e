package listen

import (
	"errors"
	"net"
	"sync"
)

// entrance is a port's listener, of which is known when nobody accepts from it any more. Closing it loses no connection that the system has taken.
type entrance struct {
	net.Listener
	once sync.Once
	over chan struct{}

	mu     sync.Mutex // held while it closes
	closed bool
	queued []net.Conn // that the system had taken by then
}

// Close implements net.Listener. Clients of connections that the system has taken and nobody has accepted yet may have sent something: closing alone would cut
// them off. Accept returns those first.
func (e *entrance) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed, e.queued = true, takeQueued(e.Listener)
	}
	return e.Listener.Close()
}

// Accept implements net.Listener. Who has got the error of a closed listener has done with the connections before it.
func (e *entrance) Accept() (net.Conn, error) {
	c, err := e.Listener.Accept()
	if err == nil {
		return c, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.queued); n > 0 {
		c, e.queued = e.queued[n-1], e.queued[:n-1]
		return c, nil
	}
	if e.closed { // the system may say something else while the port closes
		err = net.ErrClosed
	}
	if errors.Is(err, net.ErrClosed) {
		e.once.Do(func() { close(e.over) })
	}
	return nil, err
}
func (e *entrance) ended() bool {
	select {
	case <-e.over:
		return true
	default:
		return false
	}
}

// unreadOf is a listener whose connections stand in a set until their server begins to read them.
type unreadOf struct {
	net.Listener
	set *sync.Map
}

// Accept implements net.Listener.
func (u unreadOf) Accept() (net.Conn, error) {
	c, err := u.Listener.Accept()
	if err != nil {
		return nil, err
	}
	x := &unread{Conn: c, set: u.set}
	u.set.Store(x, nil)
	return x, nil
}

// unread is a connection of unreadOf.
type unread struct {
	net.Conn
	set  *sync.Map
	once sync.Once
}

func (u *unread) begin() { u.once.Do(func() { u.set.Delete(u) }) }

// Read implements net.Conn.
func (u *unread) Read(b []byte) (int, error) {
	u.begin()
	return u.Conn.Read(b)
}

// Close implements net.Conn.
func (u *unread) Close() error {
	u.begin()
	return u.Conn.Close()
}
