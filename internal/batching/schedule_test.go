package batching

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
)

var (
	errFault  = errors.New("a faulty row")
	errClosed = errors.New("closed")
)

// fault is a value that makes a run fail.
const fault = -1

// answer is what the model of these specs computes of a row.
func answer(row []int64) int64 {
	h := int64(len(row))
	for _, v := range row {
		h = h*1000003 + v
	}
	return h
}

// model runs a model of one input and one output of one number a row, after a while.
func model(r *rand.Rand) func(context.Context, []*tensor.Tensor, []*tensor.Tensor) error {
	var mu sync.Mutex
	return func(_ context.Context, in, out []*tensor.Tensor) error {
		mu.Lock()
		n := r.IntN(8)
		mu.Unlock()
		for range n {
			runtime.Gosched()
		}
		if n == 7 {
			time.Sleep(50 * time.Microsecond)
		}
		x, y, width := tensor.Of[int64](in[0]), tensor.Of[int64](out[0]), in[0].Shape[1]
		for i := range y {
			row := x[i*width : (i+1)*width]
			if row[width-1] == fault {
				return errFault
			}
			y[i] = answer(row)
		}
		return nil
	}
}

// turns has a token for each that is taken.
type turns chan struct{}

// Try implements Turns.
func (t turns) Try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// Wait implements Turns.
func (t turns) Wait(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Done implements Turns.
func (t turns) Done() { <-t }

// schedule is a Queue under random calls.
type schedule struct {
	q     *Queue
	kinds sync.Map // how calls ended
	turns turns    // of runs, nil for none
}

func newSchedule(r *rand.Rand) *schedule {
	most := 1 + r.IntN(5)
	sizes := Sizes{Most: most, Plans: 16}
	ExpectWithOffset(1, sizes.Settle()).To(Succeed())
	o := Options{
		Run: model(r), Buckets: sizes.Buckets, Slots: 1 + r.IntN(3), Lanes: 1 + r.IntN(3), Calls: 1 + r.IntN(12), Bytes: int64(16 + r.IntN(300)),
		Outputs: func(shapes [][]int) ([]Output, error) {
			return []Output{{DType: tensor.Int64, Shape: []int{shapes[0][0], 1}}}, nil
		},
		Closed: errClosed, Fatal: func(error) bool { return false },
	}
	if r.IntN(2) == 0 {
		o.Delay = time.Duration(r.IntN(200)) * time.Microsecond
	}
	if r.IntN(4) == 0 {
		o.Timeout = time.Duration(1+r.IntN(300)) * time.Microsecond
	}
	var t turns
	if r.IntN(3) == 0 {
		t = make(turns, 1+r.IntN(2))
		o.Turns = t
	}
	return &schedule{q: New(o), turns: t}
}

// call makes one call with rows of its own, and returns what is wrong with the answer; later looks at it again.
func (s *schedule) call(r *rand.Rand, id int64) (later func() error, err error) {
	rows, width := 1+r.IntN(6), 2+r.IntN(2)
	x := make([]int64, rows*width)
	want := make([]int64, rows)
	faulty := false
	for i := range rows {
		row := x[i*width : (i+1)*width]
		row[0], row[width-1] = id, r.Int64N(1<<20)
		if r.IntN(12) == 0 {
			row[width-1], faulty = fault, true
		}
		want[i] = answer(row)
	}
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	switch r.IntN(4) {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(300))*time.Microsecond)
	case 1:
		ctx, cancel = context.WithCancel(ctx)
		go func(n int) {
			for range n {
				runtime.Gosched()
			}
			cancel()
		}(r.IntN(40))
	}
	defer cancel()
	got, err := s.compute(ctx, r, tensor.From(x, rows, width))
	for i := range x { // nobody reads them any more: the race detector knows
		x[i] = 0
	}
	kind := "answered"
	switch {
	case err == nil && faulty:
		return nil, errors.New("a faulty row has an answer")
	case err == nil:
		check := func() error {
			for i, w := range want {
				if g := tensor.Of[int64](got); len(g) != rows || g[i] != w {
					return fmt.Errorf("caller %d: %v in place of %v", id, g, want)
				}
			}
			return nil
		}
		s.kinds.Store(kind, true)
		return check, check()
	case errors.Is(err, errFault) && faulty:
		kind = "faulty"
	case errors.Is(err, ErrOverloaded), errors.Is(err, ErrDraining), errors.Is(err, errClosed):
		kind = "refused"
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		kind = "cancelled"
	default:
		return nil, fmt.Errorf("caller %d, faulty %v: %w", id, faulty, err)
	}
	s.kinds.Store(kind, true)
	return nil, nil
}

// compute is Run and RunInto of a Batcher.
func (s *schedule) compute(ctx context.Context, r *rand.Rand, x *tensor.Tensor) (*tensor.Tensor, error) {
	c, err := s.q.Prepare([]*tensor.Tensor{x}, x.Shape[0])
	if err != nil {
		return nil, err
	}
	out, _ := tensor.New(tensor.Int64, x.Shape[0], 1)
	c.Keep, c.Priority = r.IntN(2) == 0, r.IntN(3)
	err = s.q.Enter(ctx, c)
	defer func() { s.q.Leave(c, err) }()
	switch {
	case err != nil:
		return nil, err
	case c.Direct:
		err = s.q.o.Run(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{out})
		return out, err
	case c.Keep:
		return c.Result(0)
	}
	copyRows(out, 0, c.Results[0], c.First, c.Rows)
	return out, nil
}

// play runs one random schedule.
func play(seed uint64) (*schedule, error) {
	r := rand.New(rand.NewPCG(seed, 17))
	s := newSchedule(r)
	callers, each := 1+r.IntN(8), 1+r.IntN(6)
	end := r.IntN(4)
	errs := make(chan error, callers*each*2+8)
	var wg sync.WaitGroup
	for k := range callers {
		own := rand.New(rand.NewPCG(seed, uint64(100+k)))
		wg.Go(func() {
			var kept []func() error
			for i := range each {
				later, err := s.call(own, int64(k*100+i))
				errs <- err
				if later != nil {
					kept = append(kept, later)
				}
			}
			for _, again := range kept { // other runs have been since
				errs <- again()
			}
		})
	}
	switch end {
	case 0:
		runtime.Gosched()
		errs <- s.q.Drain(context.Background())
	case 1:
		runtime.Gosched()
		s.q.Close()
	}
	wg.Wait()
	errs <- s.q.Drain(context.Background())
	s.q.Close()
	close(errs)
	for err := range errs {
		if err != nil {
			return s, fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	if n := s.q.Counts(); n.Waiting != 0 || n.WaitingBytes != 0 || n.Running != 0 || s.q.active != 0 {
		return s, fmt.Errorf("seed %d: left over: %+v, %d active", seed, n, s.q.active)
	}
	if n := len(s.turns); n != 0 {
		return s, fmt.Errorf("seed %d: %d runs more have begun than ended", seed, n)
	}
	for _, l := range s.q.lanes {
		if l.uses != 0 || l.head != nil || l.tail != nil || l.rows != 0 || l.gathering != nil {
			return s, fmt.Errorf("seed %d: a lane is not empty: %d uses, %d rows", seed, l.uses, l.rows)
		}
	}
	return s, nil
}

var _ = Describe("any interleaving of callers, sizes, cancellations and faults", func() {
	many := func(n int) {
		GinkgoHelper()
		kinds, total := map[any]bool{}, Counts{}
		all := func() bool { // what can happen has happened: answers, faults, refusals and cancellations, and a run for each reason
			reasons := []Reason{Full, Idle, Delay, Deadline, Alone}
			return len(kinds) == 4 && total.Again > 0 && total.Padding > 0 && !slices.ContainsFunc(reasons, func(r Reason) bool { return total.Reasons[r] == 0 })
		}
		for seed := 0; seed < n || !all(); seed++ {
			Expect(seed).To(BeNumerically("<", 100*n), "seen: %v, %+v", kinds, total)
			type played struct {
				s   *schedule
				err error
			}
			done := make(chan played, 1)
			go func() {
				s, err := play(uint64(seed))
				done <- played{s, err}
			}()
			select {
			case p := <-done:
				Expect(p.err).NotTo(HaveOccurred())
				p.s.kinds.Range(func(k, _ any) bool { kinds[k] = true; return true })
				c := p.s.q.Counts()
				total.Again += c.Again
				total.Padding += c.Padding
				for i, k := range c.Reasons {
					total.Reasons[i] += k
				}
			case <-time.After(time.Minute):
				buf := make([]byte, 1<<16)
				Fail(fmt.Sprintf("seed %d hangs:\n%s", seed, buf[:runtime.Stack(buf, true)]))
			}
		}
	}
	It("gives each its own rows", func() { many(200) })
	It("gives each its own rows, 10,000 times", Label("schedules"), func() { many(10000) })
})
