package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing/fstest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/listen"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/oipgrpc"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/examples/server/rest"
	"github.com/carve-dev/carve/examples/server/serve"
	"github.com/carve-dev/carve/graph/tensor"
)

// width is how many numbers a row of the checked model's input has; they are small whole ones.
const width = 64

// checked returns the text of a model with an output that is the sum of its input's elements, each times its index from 1 on, beside
// one that takes a while to compute.
func checked() string {
	const inner, layers = 512, 96
	var b strings.Builder
	list := func(n int, number func(i int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = number(i)
		}
		return strings.Join(parts, ", ")
	}
	small := func(i int) string { return strconv.FormatFloat(float64(i%7-3)/inner, 'g', -1, 32) }
	fmt.Fprintf(&b, "graph \"checked\" {\n  opset 17\n  input %%x: f32[N,%d]\n", width)
	fmt.Fprintf(&b, "  const %%k = i64[%d]{%s}\n  const %%axes = i64[1]{1}\n", width, list(width, func(i int) string { return strconv.Itoa(i + 1) }))
	fmt.Fprintf(&b, "  const %%in = f32[%d,%d]{%s}\n", width, inner, list(width*inner, small))
	fmt.Fprintf(&b, "  const %%w = f32[%d,%d]{%s}\n", inner, inner, list(inner*inner, small))
	fmt.Fprintf(&b, "  %%whole: i64[N,%d] = Cast(%%x; to=7)\n  %%times: i64[N,%d] = Mul(%%whole, %%k)\n  %%checksum: i64[N,1] = ReduceSum(%%times, %%axes; keepdims=1)\n", width, width)
	fmt.Fprintf(&b, "  %%h0: f32[N,%d] = MatMul(%%x, %%in)\n", inner)
	for i := range layers {
		fmt.Fprintf(&b, "  %%m%d: f32[N,%d] = MatMul(%%h%d, %%w)\n  %%h%d: f32[N,%d] = Tanh(%%m%d)\n", i, inner, i, i+1, inner, i)
	}
	fmt.Fprintf(&b, "  %%y: f32[N,1] = ReduceMean(%%h%d; axes=[1], keepdims=1)\n  output %%y, %%checksum\n}", layers)
	return b.String()
}

// ports are where the server of --overload listens.
type ports struct{ HTTP, GRPC, Echo string }

// models are those of that server: one whose requests run one by one, and one whose requests run together.
var models = []string{"alone", "joined"}

// serveChild serves until in ends, and says where on out.
func serveChild(ctx context.Context, out io.Writer, in io.Reader, set *settings) error {
	b, err := modeltest.Encode(checked())
	if err != nil {
		return err
	}
	now := time.Now()
	files := fstest.MapFS{"joined/config.pbtxt": {Data: []byte("max_batch_size: 16\ndynamic_batching {}\n"), ModTime: now}}
	for _, name := range models {
		files[name+"/1/model.onnx"] = &fstest.MapFile{Data: b, ModTime: now}
	}
	r, err := repository.Open(ctx, files, set.repository())
	if err != nil {
		return err
	}
	defer r.Close(ctx)
	var turned refusals
	l, err := listen.Start(serve.New(r, serve.Options{Observer: &turned}), listen.Options{HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer l.Shutdown(ctx, 0)
	e, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer e.Close()
	go serveEcho(e, 4*width, 16)
	say := json.NewEncoder(out)
	if err := say.Encode(ports{l.Addr("http").String(), l.Addr("grpc").String(), e.Addr().String()}); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	turned.mu.Lock()
	defer turned.mu.Unlock()
	return say.Encode(&turned)
}

// soon is how soon a request is to be turned down.
const soon = 5 * time.Millisecond

// refusals counts the requests that a server has turned down, by how long that took it once they were read.
type refusals struct {
	mu          sync.Mutex
	Count, Soon int
	Longest     time.Duration
}

// Begin implements serve.Observer.
func (x *refusals) Begin(ctx context.Context, _ *oip.Request) (context.Context, func(serve.Outcome)) {
	return ctx, func(o serve.Outcome) {
		if o.Err == nil || oip.AsError(o.Err).Code != oip.Overloaded {
			return
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.Count++
		if o.Total <= soon {
			x.Soon++
		}
		x.Longest = max(x.Longest, o.Total)
	}
}

// load is what is sent to the server, and what comes back.
type load struct {
	asks []func(ctx context.Context, q *oip.Request) (*oip.Response, error)
	next atomic.Uint64

	mu       sync.Mutex
	sent     int
	right    int
	wrong    int       // answers to another request's input
	lost     int       // neither answers nor refusals
	last     error     // of these
	answered histogram // latencies of answers
	refused  histogram // and of refusals
	beside   histogram // of bare round trips to the same process
	memory   []sample
}

// sample is the server's resident memory at a time.
type sample struct {
	at    time.Duration
	bytes int64
}

// ask sends one request, by each protocol and to each model in turn, and looks at what comes back.
func (l *load) ask() error {
	i := l.next.Add(1)
	t, err := tensor.New(tensor.Float32, 1, width)
	if err != nil {
		return err
	}
	sum := int64(0)
	for k, x := 0, tensor.Elements[float32](t); k < width; k++ {
		n := rand.IntN(1000)
		x[k] = float32(n)
		sum += int64(n * (k + 1))
	}
	q := &oip.Request{Model: models[i%2], ID: strconv.FormatUint(i, 10), Inputs: []oip.Named{{Name: "x", Tensor: t}}}
	begin := time.Now()
	a, err := l.asks[i/2%uint64(len(l.asks))](context.Background(), q)
	took := time.Since(begin)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	switch {
	case err == nil && a.ID == q.ID && isSum(a, sum):
		l.right++
		l.answered.add(took)
	case err == nil:
		l.wrong++
	case isRefusal(err):
		l.refused.add(took)
	default:
		l.lost++
		l.last = err
	}
	return nil
}

func isSum(a *oip.Response, sum int64) bool {
	for _, o := range a.Outputs {
		if o.Name == "checksum" {
			return o.Tensor.DType == tensor.Int64 && o.Tensor.Len() == 1 && o.Tensor.Int64At(0) == sum
		}
	}
	return false
}

// isRefusal reports whether a server has said that it has too much to do.
func isRefusal(err error) bool {
	var s *rest.StatusError
	if errors.As(err, &s) {
		return s.Status == http.StatusServiceUnavailable && strings.Contains(s.Message, "queue is full") || strings.Contains(s.Message, "too many calls wait")
	}
	return status.Code(err) == codes.Unavailable && (strings.Contains(err.Error(), "queue is full") || strings.Contains(err.Error(), "too many calls wait"))
}

// overload asks a server of its own for 150 % of what it can do.
func overload(ctx context.Context, out io.Writer, set *settings) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, self, "--serve", "--threads", strconv.Itoa(set.threads))
	child.Stderr = os.Stderr
	stop, err := child.StdinPipe()
	if err != nil {
		return err
	}
	said, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	defer func() { _, _ = stop.Close(), child.Wait() }()
	var p ports
	hear := json.NewDecoder(said)
	if err := hear.Decode(&p); err != nil {
		return fmt.Errorf("the server has not started: %w", err)
	}
	conn, err := connect(p.GRPC)
	if err != nil {
		return err
	}
	defer conn.Close()
	pool := &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true}
	defer pool.CloseIdleConnections()
	h := &rest.Client{Base: "http://" + p.HTTP, HTTP: &http.Client{Transport: pool}}
	l := &load{asks: []func(context.Context, *oip.Request) (*oip.Response, error){h.Infer, oipgrpc.NewClient(conn).Infer}}
	if _, _, _, err := many(l.ask, set.length, set.callers); err != nil { // warms up
		return err
	}
	_, limit, _, err := many(l.ask, 2*set.length, set.callers)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "limit: %.0f requests a second of %d callers, by HTTP and gRPC, half of them batched\n\n", limit, set.callers)
	l.run(ctx, out, child.Process.Pid, 1.5*limit, set.overload, newEcho(p.Echo, 4*width, 16))
	var turned refusals
	if err := errors.Join(stop.Close(), hear.Decode(&turned)); err != nil {
		return fmt.Errorf("the server has not ended: %w", err)
	}
	fmt.Fprintf(out, "of %d that the server has turned down, %.2f %% were within %v of being read, the longest took %v\n\n", turned.Count, 100*float64(turned.Soon)/float64(max(1, turned.Count)), soon, turned.Longest)
	for _, v := range l.verdicts(set.overload) {
		fmt.Fprintln(out, v)
	}
	if l.last != nil {
		fmt.Fprintln(out, "the last that was lost:", l.last)
	}
	return nil
}

// run asks for so long, first at a rate and then for half as much again as is answered, and says every now and then how it goes.
func (l *load) run(ctx context.Context, out io.Writer, pid int, rate float64, length time.Duration, alone *echo) {
	l.sent, l.right, l.answered, l.refused = 0, 0, histogram{}, histogram{}
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	begin := time.Now()
	group.Go(func() { // what a round trip to the same process costs that does nothing
		for ctx.Err() == nil {
			at := time.Now()
			if alone.ask() == nil {
				l.beside.add(time.Since(at))
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	group.Go(func() {
		fmt.Fprintf(out, "%8s %10s %10s %10s %12s %12s %10s\n", "", "sent", "answered", "refused", "refused p50", "refused p99", "resident")
		for every := length / 20; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(min(every, 10*time.Second)):
			}
			l.tell(out, time.Since(begin), pid)
		}
	})
	var open atomic.Int64
	unsent := 0
	before, every := 0, 2*time.Second
	offer := func() float64 { // the machine has other things to do, more or less: what can be done is what is
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.right > before {
			rate = max(1.5*float64(l.right-before)/every.Seconds(), 1)
		}
		before = l.right
		return rate
	}
	steps(offer, every, length, func() {
		if open.Load() >= maxOpen {
			unsent++
			return
		}
		open.Add(1)
		group.Go(func() {
			defer open.Add(-1)
			_ = l.ask() // counts its errors itself
		})
	})
	group.Wait()
	l.tell(out, time.Since(begin), pid)
	fmt.Fprintf(out, "\n%d were not sent, since %d were under way; of answers, p50 %v, p99 %v; of a bare round trip to the same process, p50 %v, p99 %v\n\n",
		unsent, maxOpen, l.answered.at(50), l.answered.at(99), l.beside.at(50), l.beside.at(99))
}

// steps calls f at a rate, in calls a second, that is asked for anew every so often. What is late, since timers are, is made up for at once.
func steps(rate func() float64, every, length time.Duration, f func()) {
	for until := time.Now().Add(length); time.Now().Before(until); {
		begin, now := time.Now(), rate()
		for done := 0; ; {
			gone := time.Since(begin)
			if gone >= every {
				break
			}
			for due := int(gone.Seconds() * now); done < due; done++ {
				f()
			}
			time.Sleep(min(time.Duration(float64(done+1)/now*1e9), every) - time.Since(begin))
		}
	}
}

// maxOpen bounds the requests under way: this side's memory and connections.
const maxOpen = 4096

// tell prints a line, and notes the server's memory.
func (l *load) tell(out io.Writer, gone time.Duration, pid int) {
	bytes := resident(pid)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory = append(l.memory, sample{gone, bytes})
	fmt.Fprintf(out, "%8v %10d %10d %10d %12v %12v %7.1f MB\n", gone.Round(time.Second), l.sent, l.right, l.refused.n, l.refused.at(50).Round(time.Microsecond),
		l.refused.at(99).Round(time.Microsecond), float64(bytes)/1e6)
}

// verdicts are the limits under overload. Memory is compared with the most of the first minute, or of the first third of a shorter run.
func (l *load) verdicts(length time.Duration) []verdict {
	first, later := int64(0), int64(0)
	for _, m := range l.memory {
		if m.at <= max(min(time.Minute, length/3), length/20) {
			first = max(first, m.bytes)
		} else {
			later = max(later, m.bytes)
		}
	}
	list := []verdict{
		{what: "answers to another request's input", number: once(float64(l.wrong))},
		{what: "requests neither answered nor refused", number: once(float64(l.lost))},
	}
	if l.refused.n > 0 {
		list = append(list, verdict{what: "refused within 5 ms, as clients see it, of those refused", number: once(l.refused.quick()), unit: "%", most: -99, echo: l.beside.quick()})
	}
	if first > 0 {
		list = append(list, verdict{what: "most memory after the first minute, of the most before", number: once(100 * float64(later) / float64(first)), unit: "%", most: 105})
	}
	return list
}

// resident returns the resident memory of a process in bytes, 0 where the system does not say so in /proc.
func resident(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
