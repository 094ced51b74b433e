package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// port takes connections of HTTP and gRPC. It looks at what each opens with, and gives it on: a client that speaks gRPC alone to grpc-go's
// own transport, which takes half as long as grpc-go behind net/http, and all others to net/http.
type port struct {
	at       net.Listener
	secure   *tls.Config   // nil for none
	silence  time.Duration // until the first byte
	patience time.Duration // with an opening, from then on
	calls    *handed       // nil where all connections are net/http's
	web      *handed
	log      *slog.Logger

	mu    sync.Mutex
	fresh map[*connection]struct{} // those that no server has begun to read
	group sync.WaitGroup
}

// serve takes connections until the port is closed, and waits until they are given on.
func (p *port) serve() {
	defer p.group.Wait()
	for pause := time.Duration(0); ; {
		c, err := p.at.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // too many open files, say
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			p.log.Warn("HTTP takes no connections", "error", err, "pause", pause)
			time.Sleep(pause)
		default:
			pause = 0
			x := &connection{Conn: c, of: p}
			p.mu.Lock()
			p.fresh[x] = struct{}{}
			p.mu.Unlock()
			p.group.Go(x.open)
		}
	}
}

// waits reports whether there are connections that no server has begun to read.
func (p *port) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.fresh) > 0
}

// cut ends those.
func (p *port) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.fresh {
		_ = c.Conn.Close()
	}
}

// connection is one of a port's. Whoever reads it has what was looked at once more.
type connection struct {
	net.Conn // with TLS once that is there; replaced under of.mu
	of       *port
	looked   []byte
	begun    bool
}

// begin says that a server reads a connection, or nobody will.
func (c *connection) begin() {
	c.begun = true
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.fresh, c)
}

// Read implements net.Conn.
func (c *connection) Read(b []byte) (int, error) {
	if !c.begun {
		c.begin()
	}
	if len(c.looked) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.looked)
	if c.looked = c.looked[n:]; len(c.looked) == 0 {
		c.looked = nil
	}
	return n, nil
}

// CloseWrite ends the sending: net/http does that some time before it closes.
func (c *connection) CloseWrite() error {
	if x, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return x.CloseWrite()
	}
	return nil
}

// open waits for a connection's first bytes, looks at it, and gives it on.
func (c *connection) open() {
	p := c.of
	err := c.wait()
	until := time.Now().Add(p.patience)
	if err == nil {
		err = c.secure(until)
	}
	if err != nil {
		p.log.Debug("a connection opens with nothing", "from", c.RemoteAddr(), "error", err)
		c.begin()
		_ = c.Close()
		return
	}
	to := p.web
	if p.calls != nil && c.look(until) == onlyCalls {
		to = p.calls
	}
	if !to.give(c) {
		c.begin()
		_ = c.Close()
	}
}

// firstBytes is how much is read of a connection at first.
const firstBytes = 1 << 10

// wait reads a connection's first bytes. A client that does not get to send, since others have its processors, is no slow one: as long as it is
// silent it holds up no more than a connection between two requests does, and may take as long.
func (c *connection) wait() error {
	_ = c.SetReadDeadline(time.Now().Add(c.of.silence))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	b := make([]byte, firstBytes)
	n, err := c.Conn.Read(b)
	if c.looked = b[:n]; n > 0 {
		return nil
	}
	return err
}

// begun is a connection of which the first bytes have been read.
type begun struct {
	net.Conn
	first []byte
}

// Read implements net.Conn.
func (b *begun) Read(to []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(to)
	}
	n := copy(to, b.first)
	b.first = b.first[n:]
	return n, nil
}

// secure does TLS's handshake where the port has a certificate.
func (c *connection) secure(until time.Time) error {
	if c.of.secure == nil {
		return nil
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	t := tls.Server(&begun{c.Conn, c.looked}, c.of.secure)
	c.looked = nil
	c.of.mu.Lock()
	c.Conn = t
	c.of.mu.Unlock()
	return t.HandshakeContext(ctx)
}

// maxOpening bounds what is kept of a connection: until they have settings of a server's, clients send 64 KiB of messages.
const maxOpening = 128 << 10

// look reads what a connection opens with. Where that does not come in time, or cannot be read, it is net/http's to find that out.
func (c *connection) look(until time.Time) kind {
	_ = c.SetReadDeadline(until)
	defer func() { _ = c.SetDeadline(time.Time{}) }()
	o := opening{b: append(make([]byte, 0, firstBytes), c.looked...)}
	defer func() { c.looked = o.rest() }()
	found := o.look()
	for found == undecided || found == anything && !o.settled() {
		if o.settings && !o.greeted { // clients may wait for settings before they ask
			o.greeted = true
			if err := c.greet(until); err != nil {
				return anything
			}
		}
		if len(o.b) == cap(o.b) {
			if len(o.b) >= maxOpening {
				return anything
			}
			o.b = append(make([]byte, 0, 2*cap(o.b)), o.b...)
		}
		n, err := c.Conn.Read(o.b[len(o.b):cap(o.b)])
		o.b = o.b[:len(o.b)+n]
		if found == undecided {
			found = o.look()
		}
		if err != nil {
			return found
		}
	}
	return found
}

// greet sends settings. The server that the connection is for sends its own later.
func (c *connection) greet(until time.Time) error {
	_ = c.SetWriteDeadline(until)
	return http2.NewFramer(c.Conn, nil).WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: maxStreams},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxHeader})
}

// handed is a listener of the connections that a port gives on.
type handed struct {
	at    net.Addr
	conns chan net.Conn
	once  sync.Once
	over  chan struct{}
}

func newHanded(at net.Addr) *handed {
	return &handed{at: at, conns: make(chan net.Conn), over: make(chan struct{})}
}

// give reports whether a connection has been taken.
func (h *handed) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.over:
		return false
	}
}

// Accept implements net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.over:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.over) })
	return nil
}

// Addr implements net.Listener.
func (h *handed) Addr() net.Addr { return h.at }
