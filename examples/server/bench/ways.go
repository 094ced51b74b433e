package main

import (
	"bytes"
	"context"
	"net"
	"net/http"

	"google.golang.org/grpc"

	"github.com/carve-dev/carve/examples/server/listen"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/oipgrpc"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/examples/server/rest"
	"github.com/carve-dev/carve/examples/server/serve"
	"github.com/carve-dev/carve/graph/tensor"
)

// The ways by name.
const (
	bareLoop     = "bare loop"
	queued       = "queue and loop"
	computing    = "computing alone"
	loopback     = "loopback alone"
	bareGRPC     = "gRPC echo alone"
	plainGRPC    = "gRPC, run alone" // a server of grpc-go's that does nothing but run the model
	plainBinary  = "HTTP, plain client"
	clientBinary = "HTTP, net/http"
	gRPC         = "gRPC"              // whose client has the bytes of its requests ready, as that of the echo has
	sharedGRPC   = "gRPC, HTTP's port" // and so has this one's
	clientGRPC   = "gRPC, own client"

	// Servers of the same libraries, with the same settings but for the memory that gRPC's connections are read into, that answer the same
	// bytes at once. Clients are the same, but that of clientGRPC.
	plainEcho  = "echo, plain client"
	clientEcho = "echo, net/http"

	// The same, with a run by the caller behind each answer: what a server could reach that costs nothing but its library, and nothing but
	// the bytes.
	bareTripLoop = "loopback and loop"
	plainLoop    = "echo and loop, plain"
	clientLoop   = "echo and loop, net/http"
	grpcLoop     = "gRPC echo and loop"
)

// echoes are what the served ways are seen beside, loops the same with a run.
var (
	echoes = map[string]string{plainBinary: plainEcho, clientBinary: clientEcho, gRPC: bareGRPC, sharedGRPC: bareGRPC, clientGRPC: bareGRPC, plainGRPC: bareGRPC}
	loops  = map[string]string{plainBinary: plainLoop, clientBinary: clientLoop, gRPC: grpcLoop, sharedGRPC: grpcLoop, clientGRPC: grpcLoop}
)

// way is one way to have a request answered.
type way struct {
	name  string
	paced bool // it is measured at 80 %, too
	ask   func() error
	measured
}

// request returns a request of zeros, its inputs and its size; open dims are 1.
func request(v *repository.Version) (*oip.Request, map[string]tensor.Value, int, error) {
	q, inputs, size := &oip.Request{Model: v.Name}, map[string]tensor.Value{}, 0
	for _, p := range v.Inputs {
		shape := make([]int, len(p.Shape))
		for i, d := range p.Shape {
			shape[i] = max(1, int(d))
		}
		t, err := tensor.New(p.DType, shape...)
		if err != nil {
			return nil, nil, 0, err
		}
		inputs[p.Name], size = t, size+t.NumBytes()
		q.Inputs = append(q.Inputs, oip.Named{Name: p.Name, Tensor: t})
	}
	return q, inputs, size, nil
}

// stage is a subject that is served, with the ways to ask it.
type stage struct {
	ways  []*way
	sent  int // bytes of a request's tensors
	close []func()
}

func (s *stage) end() {
	for i := len(s.close) - 1; i >= 0; i-- {
		s.close[i]()
	}
}

// start starts a server of the subject. The stage is to be ended, with an error too.
func (x *subject) start(ctx context.Context, set *settings) (s *stage, err error) {
	s = &stage{}
	later := func(f func()) { s.close = append(s.close, f) }
	models, name, err := x.open(ctx, set)
	if err != nil {
		return s, err
	}
	later(func() { _ = models.Close(ctx) })
	v, err := models.Acquire(ctx, name, "")
	if err != nil {
		return s, err
	}
	later(v.Release)
	l, err := listen.Start(serve.New(models, serve.Options{}), listen.Options{HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0"})
	if err != nil {
		return s, err
	}
	later(func() { _ = l.Shutdown(ctx, 0) })
	q, inputs, sent, err := request(v)
	if err != nil {
		return s, err
	}
	s.sent = sent
	first, err := v.Program().Run(ctx, inputs)
	if err != nil {
		return s, err
	}
	back := 0
	for _, o := range first {
		if t, ok := o.(*tensor.Tensor); ok {
			back += t.NumBytes()
		}
	}
	run := func(inputs map[string]tensor.Value) error { _, err := v.Program().Run(ctx, inputs); return err }
	together := func(inputs map[string]tensor.Value) error { _, _, err := v.Run(ctx, 0, inputs); return err }
	s.ways = append(s.ways, &way{name: bareLoop, ask: func() error { return run(inputs) }},
		&way{name: queued, ask: func() error { return together(inputs) }})
	trips, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	go serveEcho(trips, sent, back)
	e := newEcho(trips.Addr().String(), sent, back)
	later(func() { _ = trips.Close(); closeAll(e.conns) })
	s.ways = append(s.ways, &way{name: loopback, paced: true, ask: e.ask})
	if err := s.overGRPC(ctx, l, v, q); err != nil {
		return s, err
	}
	alone, err := computes(s.way(bareGRPC))
	if err != nil {
		return s, err
	}
	s.ways = append(s.ways, alone)
	if err := s.overHTTP(ctx, l, q); err != nil || !x.ceiling {
		return s, err
	}
	if x.batch > 0 {
		run = together
	}
	s.ceilings(run, inputs)
	return s, nil
}

// ceilings adds the echoes with a run behind them. Callers have inputs of their own for it, as requests have that are read: what many of
// them take of the caches is no server's fault.
func (s *stage) ceilings(run func(map[string]tensor.Value) error, inputs map[string]tensor.Value) {
	for _, of := range []struct{ trip, loop string }{{loopback, bareTripLoop}, {plainEcho, plainLoop}, {clientEcho, clientLoop}, {bareGRPC, grpcLoop}} {
		trip, own := s.way(of.trip), make(chan map[string]tensor.Value, maxIdle)
		s.ways = append(s.ways, &way{name: of.loop, ask: func() error {
			if err := trip.ask(); err != nil {
				return err
			}
			var in map[string]tensor.Value
			select {
			case in = <-own:
			default:
				in = map[string]tensor.Value{}
				for name, v := range inputs {
					t, err := v.(*tensor.Tensor).Clone()
					if err != nil {
						return err
					}
					in[name] = t
				}
			}
			err := run(in)
			own <- in
			return err
		}})
	}
}

// way returns a way by its name, nil where there is none.
func (s *stage) way(name string) *way {
	for _, w := range s.ways {
		if w.name == name {
			return w
		}
	}
	return nil
}

// overHTTP adds the ways over HTTP, echoes of the same messages among them.
func (s *stage) overHTTP(ctx context.Context, l *listen.Listeners, q *oip.Request) error {
	pool := &http.Transport{MaxIdleConnsPerHost: maxIdle, DisableCompression: true, WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10}
	s.close = append(s.close, pool.CloseIdleConnections)
	at := l.Addr("http").String()
	plain, err := newPlainHTTP(at, func(base string) error {
		_, err := (&rest.Client{Base: base}).Infer(ctx, q)
		return err
	})
	if err != nil {
		return err
	}
	var body bytes.Buffer
	header, err := plain.answer(&body)
	if err != nil {
		return err
	}
	echoAt, stop, err := overNet(echoHTTP(header, body.Bytes()))
	if err != nil {
		return err
	}
	s.close = append(s.close, stop)
	for _, of := range []struct{ plain, client, at string }{{plainEcho, clientEcho, echoAt}, {plainBinary, clientBinary, at}} {
		p := &plainHTTP{at: of.at, bytes: plain.bytes, conns: make(chan *ends, maxIdle)}
		h := &rest.Client{Base: "http://" + of.at, HTTP: &http.Client{Transport: pool}}
		s.close = append(s.close, func() { closeAll(p.conns) })
		s.ways = append(s.ways, &way{name: of.plain, paced: true, ask: p.ask},
			&way{name: of.client, paced: true, ask: func() error { _, err := h.Infer(ctx, q); return err }})
	}
	closeAll(plain.conns)
	return nil
}

// overGRPC adds the ways over gRPC, an echo of the same messages among them, and a server that only runs the model.
func (s *stage) overGRPC(ctx context.Context, l *listen.Listeners, v *repository.Version, q *oip.Request) error {
	question, answer, err := messages(ctx, l.Addr("grpc").String(), q)
	if err != nil {
		return err
	}
	bare, at, err := answering(func([]byte) ([]byte, error) { return answer, nil }, oipgrpc.TransportOptions()...)
	if err != nil {
		return err
	}
	s.close = append(s.close, bare.Stop)
	f, err := plainly(ctx, v, q, answer)
	if err != nil {
		return err
	}
	plain, runs, err := answering(f, oipgrpc.TransportOptions()...)
	if err != nil {
		return err
	}
	s.close = append(s.close, plain.Stop)
	for _, of := range []struct{ name, at string }{
		{bareGRPC, at.Addr().String()}, {plainGRPC, runs.Addr().String()}, {gRPC, l.Addr("grpc").String()}, {sharedGRPC, l.Addr("http").String()}, {clientGRPC, l.Addr("grpc").String()},
	} {
		conn, err := connect(of.at)
		if err != nil {
			return err
		}
		s.close = append(s.close, func() { _ = conn.Close() })
		ask := func() error {
			var a []byte
			return conn.Invoke(ctx, inferMethod, &question, &a, grpc.ForceCodecV2(rawCodec{}))
		}
		if of.name == clientGRPC {
			g := oipgrpc.NewClient(conn)
			ask = func() error { _, err := g.Infer(ctx, q); return err }
		}
		s.ways = append(s.ways, &way{name: of.name, paced: true, ask: ask})
	}
	return nil
}
