package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/oipgrpc"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/examples/server/rest"
	"github.com/carve-dev/carve/internal/bench/paired"
)

// breath is how long nothing is asked behind each measurement, so that nothing of it is left for the next.
const breath = 250 * time.Millisecond

// apart measures latencies at 80 % of what is reached with the server, and an echo by grpc-go beside it, in a process of its own. This one
// collects no garbage meanwhile: what clients do is not the server's.
func apart(ctx context.Context, out io.Writer, set *settings) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), 4<<30)))
	x := subjects(set)[0]
	models, name, err := x.open(ctx, set)
	if err != nil {
		return err
	}
	defer models.Close(ctx)
	v, err := models.Acquire(ctx, name, "")
	if err != nil {
		return err
	}
	defer v.Release()
	q, _, _, err := request(v)
	if err != nil {
		return err
	}
	q.Model = apartModel
	server, err := startChild(ctx, set, "--apart", "--small", set.small)
	if err != nil {
		return err
	}
	defer server.end()
	ways, end, err := server.ways(ctx, q)
	defer end()
	if err != nil {
		return err
	}
	for _, w := range ways { // warms up
		if _, _, _, err := many(w.ask, set.length/4, set.callers); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	length := set.length / time.Duration(set.rounds)
	for round := range set.rounds {
		for i := range ways {
			w := ways[(round+i)%len(ways)]
			if err := w.beside(length, set.callers); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	t := &table{&x, &stage{ways: ways}, set.callers, false}
	fmt.Fprintf(out, "the server in a process of its own, %d callers, %d rounds of %v; times in µs\n\n%-24s %9s   %8s %9s %6s %9s\n", set.callers, set.rounds, length, "", "req/s", "80 %: p50", "p99", "kept", "late p99")
	for _, w := range ways {
		fmt.Fprintf(out, "%-24s %9.0f   %9.1f %9.1f %5.0f%% %9.1f\n", w.name, median(w.rate), micros(at(w.steady, 50)), micros(at(w.steady, 99)), 100*median(w.kept), micros(at(w.late, 99)))
	}
	fmt.Fprintf(out, "resident memory of the server: %.0f MB\n\n", float64(server.resident())/1e6)
	for _, w := range ways {
		fmt.Fprintln(out, verdict{what: w.name + ": p99 at 80 %, of p50, median of rounds", number: paired.Rounds(slices.Clone(w.tails)), unit: "×", most: 3, echo: t.echo(w.name, tails)})
	}
	return nil
}

// beside is a turn of a way to a server in another process.
func (w *way) beside(length time.Duration, callers int) error {
	_, rate, _, err := many(w.ask, length, callers)
	if err != nil {
		return err
	}
	time.Sleep(breath)
	times, late, kept, err := pace(w.ask, 0.8*rate, length, callers)
	w.rate, w.steady, w.late, w.kept = append(w.rate, rate), append(w.steady, times...), append(w.late, late...), append(w.kept, kept)
	w.tails = append(w.tails, float64(at(times, 99))/math.Max(1, float64(at(times, 50))))
	time.Sleep(breath)
	return err
}

// apartModel is the name of the model that the child serves for it.
const apartModel = "small"

// ways returns the ways to ask a child for q, whose connections end closes.
func (c *child) ways(ctx context.Context, q *oip.Request) (list []*way, end func(), err error) {
	var ends []func()
	end = func() {
		for _, f := range ends {
			f()
		}
	}
	question, _, err := messages(ctx, c.at.GRPC, q)
	if err != nil {
		return nil, end, err
	}
	for _, of := range []struct{ name, at string }{{bareGRPC, c.at.Bare}, {gRPC, c.at.GRPC}, {sharedGRPC, c.at.HTTP}} {
		conn, err := connect(of.at)
		if err != nil {
			return nil, end, err
		}
		ends = append(ends, func() { _ = conn.Close() })
		list = append(list, &way{name: of.name, ask: func() error {
			var a []byte
			return conn.Invoke(ctx, inferMethod, &question, &a, grpc.ForceCodecV2(rawCodec{}))
		}})
	}
	plain, err := newPlainHTTP(c.at.HTTP, func(base string) error {
		_, err := (&rest.Client{Base: base}).Infer(ctx, q)
		return err
	})
	if err != nil {
		return nil, end, err
	}
	ends = append(ends, func() { closeAll(plain.conns) })
	return append(list, &way{name: plainBinary, ask: plain.ask}), end, nil
}

// echoApart serves an echo over gRPC of what the server on at answers for the model of apart.
func echoApart(ctx context.Context, models *repository.Repository, at string) (bare *grpc.Server, where string, err error) {
	v, err := models.Acquire(ctx, apartModel, "")
	if err != nil {
		return nil, "", err
	}
	defer v.Release()
	q, _, _, err := request(v)
	if err != nil {
		return nil, "", err
	}
	_, answer, err := messages(ctx, at, q)
	if err != nil {
		return nil, "", err
	}
	bare, l, err := answering(func([]byte) ([]byte, error) { return answer, nil }, oipgrpc.TransportOptions()...)
	if err != nil {
		return nil, "", err
	}
	return bare, l.Addr().String(), nil
}
