package listen

import (
	"errors"
	"net"
	"sync"
	"syscall"
)

// entrance is a port's listener, of which is known when nobody accepts from it any more.
type entrance struct {
	net.Listener
	once sync.Once
	over chan struct{}
}

// Accept implements net.Listener. Who has got the error of a closed listener has done with the connections before it.
func (e *entrance) Accept() (net.Conn, error) {
	c, err := e.Listener.Accept()
	if errors.Is(err, net.ErrClosed) {
		e.once.Do(func() { close(e.over) })
	}
	return c, err
}

func (e *entrance) ended() bool {
	select {
	case <-e.over:
		return true
	default:
		return false
	}
}

// control calls f with the listener's file, and reports whether it has one.
func (e *entrance) control(f func(fd uintptr)) bool {
	of, ok := e.Listener.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := of.SyscallConn()
	return err == nil && raw.Control(f) == nil
}

// refuse has the system leave connections that come from now on unanswered, where it can, and reports whether it does: clients try again
// some time later, and find the port closed. Accept still returns those that came before.
func (e *entrance) refuse() bool {
	refused := false
	return e.control(func(fd uintptr) { refused = refuse(fd) }) && refused
}

// queues reports whether there are connections that nobody has accepted yet.
func (e *entrance) queues() bool {
	queued := false
	return e.control(func(fd uintptr) { queued = queues(fd) }) && queued
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
