package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing/fstest"
	"time"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/listen"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/examples/server/serve"
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

// ports are where the server of --overload and --apart listens; Bare is that of an echo by grpc-go, "" with --overload.
type ports struct{ HTTP, GRPC, Echo, Bare string }

// models are those of that server: one whose requests run one by one, and one whose requests run together.
var models = []string{"alone", "joined"}

// serveChild serves until in ends. It says on out where, and for each line of in what it has done since the one before.
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
	if set.apart {
		if b, err = os.ReadFile(set.small); err != nil {
			return err
		}
		files[apartModel+"/1/model.onnx"] = &fstest.MapFile{Data: b, ModTime: now}
	}
	r, err := repository.Open(ctx, files, set.repository())
	if err != nil {
		return err
	}
	defer r.Close(ctx)
	var turned refusals
	server := serve.New(r, serve.Options{Observer: &turned})
	l, err := listen.Start(server, listen.Options{HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0"})
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
	at := ports{HTTP: l.Addr("http").String(), GRPC: l.Addr("grpc").String(), Echo: e.Addr().String()}
	if set.apart {
		bare, where, err := echoApart(ctx, r, at.GRPC)
		if err != nil {
			return err
		}
		defer bare.Stop()
		at.Bare = where
	}
	if err := say.Encode(at); err != nil {
		return err
	}
	asked := bufio.NewScanner(in)
	for asked.Scan() {
		if err := say.Encode(turned.report()); err != nil {
			return err
		}
	}
	return asked.Err()
}

// report is what a server says of itself.
type report struct {
	Count, Soon int           // requests turned down, and those of them that were soon enough once they were read
	Longest     time.Duration // of these
	Heap        int64         // bytes that Go has for objects, in use and unused
	Stacks      int64         // bytes of goroutines' stacks
	Goroutines  int
}

// soon is how soon a request is to be turned down.
const soon = 5 * time.Millisecond

// refusals counts the requests that a server has turned down, by how long that took it once they were read.
type refusals struct {
	mu  sync.Mutex
	now report
}

// report returns what there is to say, and begins anew.
func (x *refusals) report() report {
	m := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(m)
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.now
	r.Heap, r.Stacks, r.Goroutines = int64(m[0].Value.Uint64()+m[1].Value.Uint64()), int64(m[2].Value.Uint64()), runtime.NumGoroutine()
	x.now = report{}
	return r
}

// Begin implements serve.Observer.
func (x *refusals) Begin(ctx context.Context, _ *oip.Request) (context.Context, func(serve.Outcome)) {
	return ctx, func(o serve.Outcome) {
		if o.Err == nil || oip.AsError(o.Err).Code != oip.Overloaded {
			return
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.now.Count++
		if o.Total <= soon {
			x.now.Soon++
		}
		x.now.Longest = max(x.now.Longest, o.Total)
	}
}
