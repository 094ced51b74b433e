package listen

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/net/http2"
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

// callsOf is a listener of gRPC's own port, whose open connections stand in a set.
type callsOf struct {
	net.Listener
	open *sync.Map
}

// Accept implements net.Listener.
func (o callsOf) Accept() (net.Conn, error) {
	c, err := o.Listener.Accept()
	if err != nil {
		return nil, err
	}
	x := &callsOn{Conn: c, open: o.open}
	o.open.Store(x, nil)
	return x, nil
}

// callsOn is a connection of callsOf.
type callsOn struct {
	net.Conn
	open *sync.Map
	said atomic.Int64 // bytes that were read, until they are enough
}

// hello is how many bytes a client of gRPC opens with at least, before which grpc-go makes nothing of a connection: the preface, and settings.
const hello = int64(len(http2.ClientPreface)) + frameHead

// silent reports whether the client has not opened yet.
func (c *callsOn) silent() bool { return c.said.Load() < hello }

// Read implements net.Conn.
func (c *callsOn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.silent() {
		c.said.Add(int64(n))
	}
	return n, err
}

// Close implements net.Conn.
func (c *callsOn) Close() error {
	c.open.Delete(c)
	return c.Conn.Close()
}
