package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/rest"
	"github.com/carve-dev/carve/graph/tensor"
)

// load is what is sent to the server, and what comes back.
type load struct {
	asks  []func(ctx context.Context, q *oip.Request) (*oip.Response, error)
	alone *echo
	next  atomic.Uint64

	mu    sync.Mutex
	whole period // up to the last line
	now   period // since then
	last  error  // of what was lost

	unsent int // because maxOpen were under way
	memory []sample
	turned report // the server's own numbers together
}

// period is what has happened for a while. Times are from when a request is sent to when its answer has been read, by this side's clock. Each
// request has a goroutine of its own, so that none is sent later for want of another's answer.
type period struct {
	sent     int
	right    int
	wrong    int       // answers to another request's input
	lost     int       // neither answers nor refusals
	answered histogram // latencies of answers
	refused  histogram // and of refusals
	beside   histogram // of bare round trips to the same process
	late     histogram // how much later than it was due each request was sent, by the fault of this side
}

// join adds another period.
func (p *period) join(other *period) {
	p.sent, p.right, p.wrong, p.lost = p.sent+other.sent, p.right+other.right, p.wrong+other.wrong, p.lost+other.lost
	p.answered.join(&other.answered)
	p.refused.join(&other.refused)
	p.beside.join(&other.beside)
	p.late.join(&other.late)
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
	l.now.sent++
	switch {
	case err == nil && a.ID == q.ID && isSum(a, sum):
		l.now.right++
		l.now.answered.add(took)
	case err == nil:
		l.now.wrong++
	case isRefusal(err):
		l.now.refused.add(took)
	default:
		l.now.lost++
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

// askAlone asks the server's process for a bare round trip. It counts from the first refusal on, as those that it is compared with: before
// that Go has no threads for the network beside those of runs.
func (l *load) askAlone() {
	begin := time.Now()
	if l.alone.ask() != nil {
		return // requests are counted
	}
	took := time.Since(begin)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whole.refused.n+l.now.refused.n > 0 {
		l.now.beside.add(took)
	}
}

// behind notes how late a request is sent.
func (l *load) behind(late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.late.add(late)
}

// right returns how many have been answered so far.
func (l *load) right() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole.right + l.now.right
}

// tell prints a line of what has happened since the last one.
func (l *load) tell(out io.Writer, gone time.Duration, r report, bytes, most int64, files int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.now
	fmt.Fprintf(out, "%7v %9d %9d %9d  %6.2f %% %8v %10v %6.2f %%  %6.2f %% %6v %6v  %5.1f MB %6.1f MB %4.0f MB %4.0f MB %6d\n", gone.Round(time.Second), p.sent, p.right, p.refused.n,
		p.refused.quick(), brief(p.refused.at(99)), brief(p.refused.most), 100*float64(r.Soon)/float64(max(1, r.Count)), p.beside.quick(), brief(p.beside.at(99)), brief(p.late.at(99)),
		float64(bytes)/1e6, float64(most)/1e6, float64(r.Heap)/1e6, float64(r.Stacks)/1e6, files)
	l.whole.join(p)
	l.now = period{}
	l.turned.Count, l.turned.Soon, l.turned.Longest = l.turned.Count+r.Count, l.turned.Soon+r.Soon, max(l.turned.Longest, r.Longest)
}

// brief returns a time in milliseconds, to two places.
func brief(d time.Duration) string { return strconv.FormatFloat(d.Seconds()*1e3, 'f', 2, 64) }

// conclude prints what has no limit.
func (l *load) conclude(out io.Writer) {
	p, r := &l.whole, &l.turned
	fmt.Fprintf(out, "\nof %d requests, %d were answered, p50 %v, p99 %v; %d refused, p50 %v, p99 %v, the longest %v; %d were not sent, since %d were under way\n", p.sent, p.right,
		p.answered.at(50), p.answered.at(99), p.refused.n, p.refused.at(50), p.refused.at(99), p.refused.most, l.unsent, maxOpen)
	fmt.Fprintf(out, "of %d that the server has turned down, by its own clock %.2f %% were within %v of being read, the longest took %v\n", r.Count, 100*float64(r.Soon)/float64(max(1, r.Count)), soon, r.Longest)
	fmt.Fprintf(out, "a bare round trip to the same process, sent with every %dth request: p50 %v, p99 %v; requests were sent later than due by p50 %v, p99 %v, which their times leave out\n\n",
		besides, p.beside.at(50), p.beside.at(99), p.late.at(50), p.late.at(99))
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
	p := &l.whole
	list := []verdict{
		{what: "answers to another request's input", number: once(float64(p.wrong))},
		{what: "requests neither answered nor refused", number: once(float64(p.lost))},
	}
	if p.refused.n > 0 {
		list = append(list, verdict{what: "refused within 5 ms, as clients see it, of those refused", number: once(p.refused.quick()), unit: "%", most: -99, echo: p.beside.quick()})
	}
	if first > 0 {
		list = append(list, verdict{what: "most memory after the first minute, of the most before", number: once(100 * float64(later) / float64(first)), unit: "%", most: 105})
	}
	return list
}
