// Command bench measures what a server adds to a bare loop over the Program: latency over HTTP in binary and over gRPC, beside a
// bare loopback round trip of as many bytes, and throughput of many callers, on the same cores and by turns.
//
//	go run -C examples/server ./bench
//	go run -C examples/server ./bench --input-bytes 602112
//	go run -C examples/server ./bench --models /path/to/repository --model mobilenet_v2
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing/fstest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/listen"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/oipgrpc"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/examples/server/rest"
	"github.com/carve-dev/carve/examples/server/serve"
	"github.com/carve-dev/carve/graph/tensor"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// way is one way to have a request answered.
type way struct {
	name  string
	ask   func() error
	times []time.Duration
	rate  float64 // requests a second of many callers
}

func run(ctx context.Context, out io.Writer, args []string) error {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	models := f.String("models", "../quickstart", "`folder` of models")
	model := f.String("model", "digits", "`name` of the model to ask")
	size := f.Int("input-bytes", 0, "ask a model that does nothing but take so many `bytes`, in place of -model")
	batch := f.Int("batch", 0, "join requests into runs of so many `rows` at most")
	callers := f.Int("callers", 16, "callers at a time, for throughput")
	length := f.Duration("time", 2*time.Second, "how long to measure each way")
	if err := f.Parse(args); err != nil {
		return err
	}
	o := repository.Options{Batch: *batch}
	var r *repository.Repository
	var err error
	if *size > 0 {
		*model = "first"
		r, err = taker(ctx, *size/4, o)
	} else {
		r, err = repository.OpenDir(ctx, *models, o)
	}
	if err != nil {
		return err
	}
	defer r.Close(ctx)
	v, err := r.Acquire(ctx, *model, "")
	if err != nil {
		return err
	}
	defer v.Release()
	l, err := listen.Start(serve.New(r, serve.Options{}), listen.Options{HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer l.Shutdown(ctx, 0)
	q, inputs, sent, err := request(v)
	if err != nil {
		return err
	}
	ways, done, err := all(ctx, l, v, q, inputs, sent)
	if err != nil {
		return err
	}
	defer done()
	if err := measure(ways, *length, *callers); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, %d bytes a request, %d callers for throughput\n\n", *model, sent, *callers)
	fmt.Fprintf(out, "%-20s %10s %10s %12s %12s %8s\n", "", "p50", "p99", "p50 - bare", "requests/s", "of bare")
	for _, w := range ways {
		fmt.Fprintf(out, "%-20s %10v %10v %12v %12.0f %7.0f%%\n", w.name, at(w.times, 50), at(w.times, 99), at(w.times, 50)-at(ways[0].times, 50), w.rate, 100*w.rate/ways[0].rate)
	}
	return nil
}

// taker returns a repository of the model first, whose output is the first of so many numbers.
func taker(ctx context.Context, n int, o repository.Options) (*repository.Repository, error) {
	b, err := modeltest.Encode(fmt.Sprintf("graph \"first\" {\n  opset 17\n  input %%x: f32[%d]\n  const %%k = i64[1]{0}\n  %%y: f32[1] = Gather(%%x, %%k)\n  output %%y\n}", n))
	if err != nil {
		return nil, err
	}
	return repository.Open(ctx, fstest.MapFS{"first.onnx": {Data: b, ModTime: time.Now()}}, o)
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

// all returns the ways that are compared, the bare loop first.
func all(ctx context.Context, l *listen.Listeners, v *repository.Version, q *oip.Request, inputs map[string]tensor.Value, size int) ([]*way, func(), error) {
	first, err := v.Program().Run(ctx, inputs)
	if err != nil {
		return nil, nil, err
	}
	back := 0
	for _, x := range first {
		if t, ok := x.(*tensor.Tensor); ok {
			back += t.NumBytes()
		}
	}
	echo, err := newEcho(size, back)
	if err != nil {
		return nil, nil, err
	}
	pool := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true, WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10}
	h := &rest.Client{Base: "http://" + l.Addr("http").String(), HTTP: &http.Client{Transport: pool}}
	ways := []*way{
		{name: "bare loop", ask: func() error { _, err := v.Program().Run(ctx, inputs); return err }},
		{name: "loopback alone", ask: echo.ask},
		{name: "HTTP, binary", ask: func() error { _, err := h.Infer(ctx, q); return err }},
	}
	var conns []*grpc.ClientConn
	for name, port := range map[string]string{"gRPC": "grpc", "gRPC on HTTP's port": "http"} {
		conn, err := grpc.NewClient(l.Addr(port).String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(1<<20), grpc.WithInitialConnWindowSize(4<<20))
		if err != nil {
			return nil, nil, err
		}
		conns = append(conns, conn)
		g := oipgrpc.NewClient(conn)
		ways = append(ways, &way{name: name, ask: func() error { _, err := g.Infer(ctx, q); return err }})
	}
	slices.SortStableFunc(ways[3:], func(a, b *way) int { return len(a.name) - len(b.name) })
	return ways, func() {
		for _, c := range conns {
			_ = c.Close()
		}
		pool.CloseIdleConnections()
		_ = echo.Close()
	}, nil
}

// measure asks by turns, so that whatever else the machine does falls on all ways alike.
func measure(ways []*way, length time.Duration, callers int) error {
	const rounds = 10
	for _, w := range ways {
		for range 20 {
			if err := w.ask(); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	rates := make([][]float64, len(ways))
	for range rounds {
		for i, w := range ways {
			for begin := time.Now(); time.Since(begin) < length/rounds; {
				at := time.Now()
				if err := w.ask(); err != nil {
					return err
				}
				w.times = append(w.times, time.Since(at))
			}
			rate, err := many(w, length/rounds, callers)
			if err != nil {
				return err
			}
			rates[i] = append(rates[i], rate)
		}
	}
	for i, w := range ways {
		slices.Sort(rates[i])
		w.rate = rates[i][rounds/2]
	}
	return nil
}

// many returns how many requests a second several callers have answered.
func many(w *way, length time.Duration, callers int) (float64, error) {
	var group sync.WaitGroup
	counts, failed := make([]int, callers), make(chan error, callers)
	begin := time.Now()
	for i := range callers {
		group.Go(func() {
			for time.Since(begin) < length {
				if err := w.ask(); err != nil {
					failed <- err
					return
				}
				counts[i]++
			}
		})
	}
	group.Wait()
	took, n := time.Since(begin).Seconds(), 0
	for _, c := range counts {
		n += c
	}
	select {
	case err := <-failed:
		return 0, err
	default:
		return float64(n) / took, nil
	}
}

// at returns a percentile, in microseconds.
func at(times []time.Duration, percent int) time.Duration {
	sorted := slices.Clone(times)
	slices.Sort(sorted)
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)].Round(100 * time.Nanosecond)
}

// echo answers messages of one size with messages of another, over TCP.
type echo struct {
	net.Listener
	in, out int
	conns   sync.Pool
}

func newEcho(in, out int) (*echo, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &echo{Listener: l, in: in, out: out}
	go func() {
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
	}()
	return e, nil
}

// ends is a connection of a caller's with its memory.
type ends struct {
	net.Conn
	question, answer []byte
}

func (e *echo) ask() error {
	c, ok := e.conns.Get().(*ends)
	if !ok {
		conn, err := net.Dial("tcp", e.Addr().String())
		if err != nil {
			return err
		}
		c = &ends{conn, make([]byte, e.in), make([]byte, e.out)}
	}
	if _, err := c.Write(c.question); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, c.answer); err != nil {
		return err
	}
	e.conns.Put(c)
	return nil
}
