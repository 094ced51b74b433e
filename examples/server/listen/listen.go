// Package listen puts a server on the network: REST and gRPC on one port, gRPC and metrics on ports of their own, with TLS where
// files for it are given, and takes it off again without losing requests.
package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/carve-dev/carve/examples/server/oipgrpc"
	"github.com/carve-dev/carve/examples/server/rest"
	"github.com/carve-dev/carve/examples/server/serve"
)

// Options are the settings of Start. An address of "" leaves that port closed.
type Options struct {
	HTTP    string // REST over HTTP/1 and HTTP/2, and gRPC
	GRPC    string // gRPC alone
	Metrics string // MetricsHandler, under /metrics
	Pprof   string // profiles, under /debug/pprof/: keep it from strangers

	MetricsHandler http.Handler
	// Wrap is put around the handler of REST, and Interceptors around gRPC's calls, for tracing.
	Wrap         func(http.Handler) http.Handler
	Interceptors []grpc.ServerOption

	// Cert and Key are files in PEM for TLS; both "" for none. They are read again when they change.
	Cert, Key string

	// Mixed says that gRPC libraries' connections to HTTP may have other requests too, from a proxy that sends none of the fields by which
	// proxies are known: Forwarded, Via, X-Forwarded-*, X-Real-IP, X-Envoy-*. Such libraries' connections are grpc-go's alone by default.
	Mixed bool

	// TooManyRequests tells a full queue from a server that is away: 429 and ResourceExhausted.
	TooManyRequests bool
	// BodyTimeout is how long a body or a gRPC call's message may take to arrive, and at most how long a header, from its first byte on; 0 means
	// the defaults of packages rest and oipgrpc. A connection may send nothing at first for four times as long.
	BodyTimeout time.Duration
	Log         *slog.Logger // of connections; nil discards it
}

// Listeners is a server on the network.
type Listeners struct {
	s      *serve.Server
	https  []*http.Server
	ports  []*entrance
	shared *port        // of HTTP and gRPC; nil where it is closed
	fresh  sync.Map     // net.Conn of HTTP that have not asked for anything yet
	called sync.Map     // *callsOn of gRPC's own port
	kept   atomic.Int64 // connections of HTTP
	over   atomic.Bool  // ports close
	grpc   *grpc.Server // by its own transport
	inner  *grpc.Server // behind net/http
	addrs  map[string]net.Addr
	group  sync.WaitGroup
	log    *slog.Logger
	once   sync.Once

	patience time.Duration // with headers
}

// silence returns how long a new connection may send nothing.
func (o Options) silence() time.Duration {
	if o.BodyTimeout > 0 {
		return 4 * o.BodyTimeout
	}
	return 2 * time.Minute
}

// calls returns the settings of gRPC.
func (o Options) calls() oipgrpc.Options {
	return oipgrpc.Options{ResourceExhausted: o.TooManyRequests, MessageTimeout: o.BodyTimeout}
}

// patience returns how long a header may take to arrive.
func (o Options) patience() time.Duration {
	const most = 10 * time.Second
	if o.BodyTimeout > 0 {
		return min(o.BodyTimeout, most)
	}
	return most
}

// Start opens the ports. When it returns they take connections. Stop them with Shutdown.
func Start(s *serve.Server, o Options) (*Listeners, error) {
	l := &Listeners{s: s, addrs: map[string]net.Addr{}, log: o.Log}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	secure, err := certificates(o.Cert, o.Key)
	if err != nil {
		return nil, err
	}
	if err := l.open(s, o, secure); err != nil {
		l.closePorts(context.Background())
		for _, x := range l.https {
			_ = x.Close()
		}
		l.grpc.Stop()
		l.inner.Stop()
		l.group.Wait()
		return nil, err
	}
	return l, nil
}

func (l *Listeners) open(s *serve.Server, o Options, secure *tls.Config) error {
	l.patience = o.patience()
	l.grpc, l.inner = l.calls(s, o), l.calls(s, o)
	if err := l.both(s, o, secure); err != nil {
		return err
	}
	if o.MetricsHandler != nil {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", o.MetricsHandler)
		if err := l.http("metrics", o.Metrics, mux); err != nil {
			return err
		}
	}
	profiles := http.NewServeMux()
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("/debug/pprof/trace", pprof.Trace)
	if err := l.http("pprof", o.Pprof, profiles); err != nil {
		return err
	}
	if o.GRPC == "" {
		return nil
	}
	at, err := l.listen("grpc", o.GRPC)
	if err != nil {
		return err
	}
	if secure != nil {
		at = tls.NewListener(at, secure)
	}
	l.serveCalls(callsOf{at, &l.called})
	return nil
}

// calls returns a server of gRPC.
func (l *Listeners) calls(s *serve.Server, o Options) *grpc.Server {
	x := grpc.NewServer(append(oipgrpc.ServerOptions(s, o.calls()), o.Interceptors...)...)
	oipgrpc.Register(x, s, o.calls())
	return x
}

// serveCalls serves gRPC by its own transport.
func (l *Listeners) serveCalls(at net.Listener) {
	l.group.Go(func() {
		if err := l.grpc.Serve(at); err != nil && !l.over.Load() {
			l.log.Error("gRPC", "error", err)
		}
	})
}

// listen opens a port.
func (l *Listeners) listen(name, address string) (net.Listener, error) {
	var c net.ListenConfig
	c.SetMultipathTCP(false) // which takes no filters: see entrance.refuse
	at, err := c.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	e := &entrance{Listener: at, over: make(chan struct{})}
	l.addrs[name], l.ports = at.Addr(), append(l.ports, e)
	return e, nil
}

// both opens the port of REST and gRPC.
func (l *Listeners) both(s *serve.Server, o Options, secure *tls.Config) error {
	if o.HTTP == "" {
		return nil
	}
	at, err := l.listen("http", o.HTTP)
	if err != nil {
		return err
	}
	l.shared = &port{at: at, secure: secure, silence: o.silence(), patience: l.patience, web: newHanded(at.Addr()), log: l.log, fresh: map[*connection]struct{}{}}
	if !o.Mixed {
		l.shared.calls = newHanded(at.Addr())
		l.serveCalls(l.shared.calls)
	}
	l.serveHTTP("http", l.shared.web, l.handler(s, o))
	l.group.Go(l.shared.serve)
	return nil
}

// handler returns a handler of REST and gRPC.
func (l *Listeners) handler(s *serve.Server, o Options) http.Handler {
	plain := rest.Handler(s, rest.Options{TooManyRequests: o.TooManyRequests, BodyTimeout: o.BodyTimeout})
	if o.Wrap != nil {
		plain = o.Wrap(plain)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			l.inner.ServeHTTP(w, oipgrpc.ReadAsTaken(r))
			return
		}
		plain.ServeHTTP(w, r)
	})
}

// http opens a port for a handler.
func (l *Listeners) http(name, address string, h http.Handler) error {
	if address == "" {
		return nil
	}
	at, err := l.listen(name, address)
	if err == nil {
		l.serveHTTP(name, at, h)
	}
	return err
}

// Bounds of HTTP/2.
const (
	maxStreams = 1024
	maxHeader  = 64 << 10
)

// serveHTTP serves HTTP by net/http.
func (l *Listeners) serveHTTP(name string, at net.Listener, h http.Handler) {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		ConnContext: oipgrpc.ConnContext(l.s), Handler: l.bounded(h), Protocols: &protocols, ErrorLog: slog.NewLogLogger(l.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: l.patience, IdleTimeout: 2 * time.Minute, WriteTimeout: time.Hour, MaxHeaderBytes: maxHeader,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: 4 << 20, MaxReceiveBufferPerStream: 1 << 20,
			MaxReadFrameSize: 256 << 10, SendPingTimeout: 30 * time.Second, PingTimeout: 30 * time.Second,
		},
	}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			l.kept.Add(1)
			l.fresh.Store(c, nil)
			return
		case http.StateClosed, http.StateHijacked:
			l.kept.Add(-1)
		case http.StateActive, http.StateIdle:
		}
		l.fresh.Delete(c)
	}
	l.https = append(l.https, server)
	l.group.Go(func() {
		if err := server.Serve(at); err != nil && !errors.Is(err, http.ErrServerClosed) && !l.over.Load() {
			l.log.Error("HTTP", "port", name, "error", err)
		}
	})
}

// bounded gives what is left of a body when a handler has answered, or does not read it, as long as a header to arrive: net/http reads
// it before the connection's next request, without a bound in time. Handlers that read bodies set deadlines of their own. A stream of HTTP/2
// ends with its handler.
func (l *Listeners) bounded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.over.Load() {
			w.Header().Set("Connection", "close") // see letGo; over HTTP/2 net/http sends GOAWAY instead
		}
		if r.ProtoMajor > 1 || r.Body == http.NoBody {
			h.ServeHTTP(w, r)
			return
		}
		c := http.NewResponseController(w)
		_ = c.SetReadDeadline(time.Now().Add(l.patience)) // there is one for connections
		h.ServeHTTP(w, r)
		_ = c.SetReadDeadline(time.Now().Add(l.patience))
	})
}

// Addr returns the address of a port: "http", "grpc", "metrics" or "pprof"; nil where it is closed.
func (l *Listeners) Addr(name string) net.Addr { return l.addrs[name] }

// Shutdown takes the server off the network: it is not ready at once, goes on answering for as long as linger, so that balancers
// send no more, takes no connections after that, and waits for the requests under way. Where ctx ends first they are cut off,
// and its error is returned.
func (l *Listeners) Shutdown(ctx context.Context, linger time.Duration) error {
	var err error
	l.once.Do(func() {
		l.s.Leave()
		select {
		case <-time.After(linger):
		case <-ctx.Done():
		}
		err = l.stop(ctx)
	})
	return err
}

// How long is waited when ports close, in time of within: for handshakes that have begun to end, for what a connection asks for first, and for
// clients to use a connection once more.
const (
	maxHandshake = 20 * time.Millisecond
	maxFresh     = time.Second
	maxKept      = 250 * time.Millisecond
)

// within waits until done says so, and reports whether it has. It gives up with ctx, or when so much time is over, of which what others had this
// process's processors in counts little: clients may not have got to send either.
func within(ctx context.Context, most time.Duration, done func() bool) bool {
	const pause = 2 * time.Millisecond
	for spent := time.Duration(0); !done(); spent += pause {
		if spent >= most || ctx.Err() != nil {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// closePorts takes no connections any more, and waits until those that were taken have asked for something: net/http's Shutdown
// drops requests that it reads later. The system cuts off connections that stand in a queue which closes: so the queues are emptied first.
func (l *Listeners) closePorts(ctx context.Context) {
	refused := false
	for _, at := range l.ports {
		refused = at.refuse() || refused
	}
	if refused {
		within(ctx, maxHandshake, func() bool { return false })
	}
	within(ctx, maxFresh, func() bool { return !slices.ContainsFunc(l.ports, (*entrance).queues) })
	l.over.Store(true)
	for _, at := range l.ports {
		_ = at.Close()
	}
	if within(ctx, maxFresh, l.begun) {
		return
	}
	if l.shared != nil {
		l.shared.cut()
	}
	l.cutCalls((*callsOn).silent)
}

// cutCalls ends connections of gRPC's own port. grpc-go itself waits for those that have not opened as long as they may be silent, with its Stop, too.
func (l *Listeners) cutCalls(which func(*callsOn) bool) {
	l.called.Range(func(c, _ any) bool {
		if x := c.(*callsOn); which(x) {
			_ = x.Conn.Close()
		}
		return true
	})
}

// begun reports whether all connections that were taken from closed ports are being read.
func (l *Listeners) begun() bool {
	if l.shared != nil && l.shared.waits() {
		return false
	}
	for _, at := range l.ports { // a connection that is being accepted is not counted yet
		if !at.ended() {
			return false
		}
	}
	begun := true
	l.fresh.Range(func(any, any) bool {
		begun = false
		return false
	})
	l.called.Range(func(c, _ any) bool {
		begun = begun && !c.(*callsOn).silent()
		return begun
	})
	return begun
}

// letGo waits until clients have left their connections of HTTP: with ports closed, each answer says that it is the connection's last.
// net/http's Shutdown closes those that are idle at the moment, as those of clients that ask again and again are between two requests: what
// these have sent meanwhile would be lost, without a word that it may be sent again.
func (l *Listeners) letGo(ctx context.Context) {
	within(ctx, maxKept, func() bool { return l.kept.Load() == 0 })
}

func (l *Listeners) stop(ctx context.Context) error {
	var group sync.WaitGroup
	failed := make(chan error, len(l.https)+1)
	l.closePorts(ctx)
	l.letGo(ctx)
	group.Go(func() {
		cut := make(chan error, 1)
		done := context.AfterFunc(ctx, func() {
			cut <- l.s.Drain(ctx) // which says whether requests are under way still
			l.cutCalls(func(*callsOn) bool { return true })
			l.grpc.Stop()
		})
		l.grpc.GracefulStop()
		if !done() {
			failed <- <-cut
		}
	})
	for _, x := range l.https {
		group.Go(func() { failed <- x.Shutdown(ctx) })
	}
	group.Wait()
	l.group.Wait()
	l.inner.Stop() // its connections are HTTP's, which have ended
	close(failed)
	var err error
	for e := range failed {
		if !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	err = errors.Join(err, l.s.Drain(ctx))
	for _, x := range l.https {
		_ = x.Close()
	}
	return err
}
