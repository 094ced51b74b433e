package oipgrpc

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"

	"github.com/carve-dev/carve/examples/server/serve"
)

// Credentials returns a transport's credentials, with which each connection's answers are counted until they have been sent: grpc-go queues them
// for as long as a client does not read, up to as many as it has calls, whatever their length.
func Credentials(s *serve.Server, of credentials.TransportCredentials) credentials.TransportCredentials {
	return counting{of, s}
}

// counting is Credentials.
type counting struct {
	credentials.TransportCredentials
	s *serve.Server
}

// ServerHandshake implements credentials.TransportCredentials.
func (c counting) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	u := c.s.Unread()
	return &counted{conn, u}, Counted{info, u}, nil
}

// Clone implements credentials.TransportCredentials.
func (c counting) Clone() credentials.TransportCredentials {
	return counting{c.TransportCredentials.Clone(), c.s}
}

// Counted is what is known of the peer of a connection whose answers are counted.
type Counted struct {
	credentials.AuthInfo // of the credentials within

	unread *serve.Unread
}

// counted is a connection whose answers are counted. What grpc-go has not sent when it is closed is not freed.
type counted struct {
	net.Conn
	unread *serve.Unread
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.unread.Close()
	return c.Conn.Close()
}

// unreadKey is the key of contexts that have an *Unread.
type unreadKey struct{}

// ConnContext is for http.Server's field of that name, where that hands calls to a grpc.Server: as Credentials for grpc-go's own transport.
func ConnContext(s *serve.Server) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, unreadKey{}, s.Unread())
	}
}

// unreadOf returns the count of a call's connection, nil where there is none.
func unreadOf(ctx context.Context) *serve.Unread {
	if p, ok := peer.FromContext(ctx); ok {
		if c, ok := p.AuthInfo.(Counted); ok {
			return c.unread
		}
	}
	u, _ := ctx.Value(unreadKey{}).(*serve.Unread)
	return u
}

// plainFrom is the length from which an answer is not compressed.
const plainFrom = 64 << 10

// held counts an answer until it has been sent. Buffers of 1 KiB and less, whose end grpc-go does not tell, are not counted: a connection has
// no more of them than streams. Of an answer that is compressed the end is not told either, so that only short ones are.
func held(ctx context.Context, list mem.BufferSlice) (mem.BufferSlice, error) {
	if n := list.Len(); n > plainFrom {
		_ = grpc.SetSendCompressor(ctx, "identity") // or the stream has begun, whose answers are not compressed
	}
	n, u := 0, unreadOf(ctx)
	for _, b := range list {
		if !mem.IsBelowBufferPoolingThreshold(b.Len()) {
			n += b.Len()
		}
	}
	if u == nil || n == 0 {
		return list, nil
	}
	if err := u.Add(int64(n)); err != nil {
		return nil, err
	}
	for i, b := range list {
		if data := b.ReadOnlyData(); !mem.IsBelowBufferPoolingThreshold(len(data)) {
			data = data[:len(data):len(data)]
			list[i] = mem.NewBuffer(&data, sent{u})
		}
	}
	return list, nil
}

// sent is the pool that what has been sent goes to.
type sent struct{ unread *serve.Unread }

// Get implements mem.BufferPool, as nobody uses it.
func (sent) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}

// Put implements mem.BufferPool.
func (s sent) Put(b *[]byte) { s.unread.Remove(int64(len(*b))) }
