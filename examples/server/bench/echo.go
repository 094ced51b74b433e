package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/oipgrpc"
)

// echo asks a server that answers messages of one size with messages of another, over TCP.
type echo struct {
	at      string
	in, out int
	conns   chan *ends
}

// ends is a connection of a caller's with its memory.
type ends struct {
	net.Conn
	r                *bufio.Reader
	question, answer []byte
}

// serveEcho answers on a listener until it is closed.
func serveEcho(l net.Listener, in, out int) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			question, answer := make([]byte, in), make([]byte, out)
			for {
				if _, err := io.ReadFull(c, question); err != nil {
					return
				}
				if _, err := c.Write(answer); err != nil {
					return
				}
			}
		}()
	}
}

func newEcho(at string, in, out int) *echo {
	return &echo{at: at, in: in, out: out, conns: make(chan *ends, maxIdle)}
}

// maxIdle is how many connections of a kind are kept.
const maxIdle = 256

func (e *echo) ask() error {
	c, err := dial(e.conns, e.at)
	if err != nil {
		return err
	}
	if c.question == nil {
		c.question, c.answer = make([]byte, e.in), make([]byte, e.out)
	}
	if _, err := c.Write(c.question); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, c.answer); err != nil {
		return err
	}
	keep(e.conns, c)
	return nil
}

// dial returns a kept connection, or a new one.
func dial(kept chan *ends, at string) (*ends, error) {
	select {
	case c := <-kept:
		return c, nil
	default:
	}
	c, err := net.Dial("tcp", at)
	if err != nil {
		return nil, err
	}
	return &ends{Conn: c, r: bufio.NewReaderSize(c, 64<<10)}, nil
}

func keep(kept chan *ends, c *ends) {
	select {
	case kept <- c:
	default:
		_ = c.Close()
	}
}

func closeAll(kept chan *ends) {
	for {
		select {
		case c := <-kept:
			_ = c.Close()
		default:
			return
		}
	}
}

// plainHTTP sends one request over and over by a client that does no more than HTTP/1.1 needs, so that what is measured is the server.
type plainHTTP struct {
	at    string
	bytes []byte
	conns chan *ends
}

// newPlainHTTP notes what a client sends to a server's HTTP port.
func newPlainHTTP(at string, send func(base string) error) (*plainHTTP, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	var b bytes.Buffer
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer c.Close()
		q, err := http.ReadRequest(bufio.NewReader(io.TeeReader(c, &b)))
		if err == nil {
			_, err = io.Copy(io.Discard, q.Body)
		}
		done <- err
	}()
	_ = send("http://" + l.Addr().String()) // is not answered
	return &plainHTTP{at: at, bytes: b.Bytes(), conns: make(chan *ends, maxIdle)}, <-done
}

func (h *plainHTTP) ask() error {
	_, err := h.answer(io.Discard)
	return err
}

// answer asks, and returns the header of the answer, whose body is written to w.
func (h *plainHTTP) answer(w io.Writer) (http.Header, error) {
	c, err := dial(h.conns, h.at)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(h.bytes); err != nil {
		return nil, err
	}
	a, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(w, a.Body); err != nil {
		return nil, err
	}
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", a.StatusCode)
	}
	keep(h.conns, c)
	return a.Header, nil
}

// overNet serves on a port as net/http does.
func overNet(h http.Handler) (at string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: h, Protocols: &protocols, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	return l.Addr().String(), func() { _ = s.Close() }, nil
}

// echoHTTP reads what it is sent and answers with a header and a body.
func echoHTTP(header http.Header, body []byte) http.HandlerFunc {
	var rooms sync.Pool
	return func(w http.ResponseWriter, r *http.Request) {
		room, ok := rooms.Get().(*[]byte)
		if !ok || int64(len(*room)) < r.ContentLength {
			b := make([]byte, max(r.ContentLength, 0))
			room = &b
		}
		defer rooms.Put(room)
		if _, err := io.ReadFull(r.Body, (*room)[:max(r.ContentLength, 0)]); err != nil {
			return
		}
		maps.Copy(w.Header(), header)
		_, _ = w.Write(body)
	}
}

// rawCodec leaves messages as they are: *[]byte both ways.
type rawCodec struct{}

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

const inferMethod = "/inference.GRPCInferenceService/ModelInfer"

// answering returns a server of grpc-go that answers whatever it is asked by f.
func answering(f func(question []byte) ([]byte, error), options ...grpc.ServerOption) (*grpc.Server, net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	s := grpc.NewServer(append(options, grpc.ForceServerCodecV2(rawCodec{}))...)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "inference.GRPCInferenceService", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "ModelInfer",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var in []byte
			if err := decode(&in); err != nil {
				return nil, err
			}
			out, err := f(in)
			return &out, err
		},
	}}}, nil)
	go func() { _ = s.Serve(l) }()
	return s, l, nil
}

// connect returns a connection of grpc-go as all ways use it.
func connect(at string) (*grpc.ClientConn, error) {
	return grpc.NewClient(at, append(oipgrpc.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
}

// errRecorded ends a call whose bytes have been noted.
var errRecorded = errors.New("noted")

// messages returns the bytes of a request and of its answer over gRPC.
func messages(ctx context.Context, at string, q *oip.Request) (question, answer []byte, err error) {
	s, l, err := answering(func(in []byte) ([]byte, error) {
		question = in
		return nil, errRecorded
	})
	if err != nil {
		return nil, nil, err
	}
	defer s.Stop()
	note, err := connect(l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	defer note.Close()
	_, _ = oipgrpc.NewClient(note).Infer(ctx, q) // ends with errRecorded
	conn, err := connect(at)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	err = conn.Invoke(ctx, inferMethod, &question, &answer, grpc.ForceCodecV2(rawCodec{}))
	return question, answer, err
}
