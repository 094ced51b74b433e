package batching

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/carve-dev/carve/graph/tensor"
)

// Queue gives calls their turns. It is safe for concurrent use.
type Queue struct {
	o Options

	mu     sync.Mutex
	lanes  []*lane  // the most recently used first
	alone  *lane    // of calls that are not batched
	free   []*Call  // to be used again
	spare  []*batch // to be used again
	seq    uint64
	runs   uint64        // the last Run.ID
	ending error         // what calls that come are told; nil while they are taken
	closed bool          // by Close
	active int           // calls between Enter and Leave
	over   chan struct{} // closed when ending and active is 0
	counts Counts
}

// New returns a Queue.
func New(o Options) *Queue {
	q := &Queue{o: o, over: make(chan struct{})}
	q.alone = &lane{q: q}
	return q
}

// Counts returns what has happened so far.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts
}

// Enter waits for a call's turn. Where c.Direct it has a slot, to run its own tensors, and Leave gives that back. Otherwise its
// rows have been computed in a run with others: they are in c.Results. In any case Leave follows, with an error too.
//
// Errors: ErrOverloaded, with context.DeadlineExceeded beside it where Options.Timeout was over; ErrDraining, Options.Closed; ctx's; and
// that of the run.
func (q *Queue) Enter(ctx context.Context, c *Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.deadline, _ = ctx.Deadline()
	q.mu.Lock()
	if err := q.ending; err != nil {
		q.mu.Unlock()
		return err
	}
	q.active++
	q.seq++
	c.active, c.seq = true, q.seq
	if c.Entered.IsZero() {
		c.Entered = time.Now()
	}
	if q.counts.Running < q.o.Slots && c.lane.gathering == nil {
		q.counts.Running++
		return q.lead(ctx, c, c.Entered) // which unlocks
	}
	if err := q.full(c); err != nil {
		q.counts.Refused++
		q.mu.Unlock()
		return err
	}
	c.lane.push(c)
	c.state = waiting
	q.counts.Waiting++
	q.counts.WaitingBytes += c.Bytes
	if g := c.lane.gathering; g != nil {
		g.notify() // whose run may be full, or in a hurry
	}
	q.mu.Unlock()
	return q.wait(ctx, c)
}

// full returns an error where a call may not wait. It is called with mu held.
func (q *Queue) full(c *Call) error {
	switch n := &q.counts; {
	case n.Waiting >= q.o.Calls:
		return fmt.Errorf("%w: %d", ErrOverloaded, n.Waiting)
	case n.Waiting > 0 && n.WaitingBytes+c.Bytes > q.o.Bytes:
		return fmt.Errorf("%w: %d, with %d bytes", ErrOverloaded, n.Waiting, n.WaitingBytes)
	}
	return nil
}

// wait waits until a call that is in its lane leads a run, or was in another's.
func (q *Queue) wait(ctx context.Context, c *Call) error {
	var late <-chan time.Time
	if q.o.Timeout > 0 {
		if c.timer == nil {
			c.timer = time.NewTimer(q.o.Timeout)
		} else {
			c.timer.Reset(q.o.Timeout)
		}
		defer c.timer.Stop()
		late = c.timer.C
	}
	select {
	case <-c.wake:
		q.mu.Lock()
	case <-ctx.Done():
		q.mu.Lock()
		if c.state == waiting {
			q.remove(c)
			q.counts.Gone++
			q.mu.Unlock()
			return ctx.Err()
		}
		return q.abandon(ctx, c)
	case <-late:
		q.mu.Lock()
		if c.state == waiting {
			q.remove(c)
			q.counts.Expired++
			q.mu.Unlock()
			return fmt.Errorf("%w: no turn within %v: %w", ErrOverloaded, q.o.Timeout, context.DeadlineExceeded)
		}
		q.mu.Unlock()
		return q.await(ctx, c)
	}
	return q.woken(ctx, c)
}

// await is wait of a call that is out of its lane already.
func (q *Queue) await(ctx context.Context, c *Call) error {
	select {
	case <-c.wake:
		q.mu.Lock()
		return q.woken(ctx, c)
	case <-ctx.Done():
		q.mu.Lock()
		return q.abandon(ctx, c)
	}
}

// woken goes on with a call that was woken. It is called with mu held, and unlocks it.
func (q *Queue) woken(ctx context.Context, c *Call) error {
	if c.state == leading {
		return q.lead(ctx, c, time.Now())
	}
	q.mu.Unlock()
	return c.err
}

// abandon ends a call whose context has ended, and that is out of its lane. It is called with mu held, and unlocks it.
func (q *Queue) abandon(ctx context.Context, c *Call) error {
	switch c.state {
	case claimed: // its tensors are being read
		c.leaves = true
		q.mu.Unlock()
		<-c.wake
	case running:
		c.state = abandoned
		q.mu.Unlock()
	case leading: // it has been woken to lead, and does not
		q.mu.Unlock()
		<-c.wake
		q.mu.Lock()
		q.counts.Gone++
		q.pass()
		q.mu.Unlock()
	case done: // in the same moment
		q.mu.Unlock()
		<-c.wake
		return c.err
	case idle, waiting, abandoned:
		q.mu.Unlock()
	}
	return ctx.Err()
}

// remove takes a waiting call out of its lane. It is called with mu held.
func (q *Queue) remove(c *Call) {
	c.lane.remove(c)
	c.state = idle
	q.counts.Waiting--
	q.counts.WaitingBytes -= c.Bytes
}

// pass gives a slot to the call whose turn it is, or back. It is called with mu held.
func (q *Queue) pass() { q.next().awake() }

// next is pass, and returns the call that has the slot, nil for none. The caller wakes it: whoever wakes another may have to leave the
// processor to it, and is not to hold mu then.
func (q *Queue) next() *Call {
	next := q.alone.head
	for _, l := range q.lanes {
		if h := l.head; h != nil && l.gathering == nil && (next == nil || h.before(next)) {
			next = h
		}
	}
	if next == nil {
		q.counts.Running--
		return nil
	}
	q.remove(next)
	next.state = leading
	return next
}

// Leave ends a call; err is that of a direct run, and else ignored. It returns how long the run took. The call must not be used any
// more.
func (q *Queue) Leave(c *Call, err error) time.Duration {
	var panicked any
	if c.Direct {
		panicked = q.ran()
	}
	q.mu.Lock()
	var ran Run
	var next *Call
	if c.Direct {
		ran = q.endDirect(c, err)
		next = q.next()
	}
	took := c.Took
	if b := c.batch; b != nil && c.state != abandoned {
		q.unref(b)
	}
	if c.active {
		c.active = false
		q.end()
	}
	c.lane.uses--
	if c.state == abandoned { // the leader of its run recycles it
		c.left = true
	} else {
		q.recycle(c)
	}
	q.mu.Unlock()
	next.awake()
	if panicked != nil {
		panic(panicked)
	}
	if ran.ID > 0 && q.o.Ran != nil {
		q.o.Ran(ran)
	}
	return took
}

// endDirect ends a call's own run. It is called with mu held.
func (q *Queue) endDirect(c *Call, err error) Run {
	c.Took = time.Since(c.began)
	c.lane.took(c.bucket, c.Took)
	return Run{ID: c.ID, Calls: 1, Rows: c.Rows, Padded: c.Rows, Reason: c.reason, Took: c.Took, Err: err}
}

// end counts a call that is over. It is called with mu held.
func (q *Queue) end() {
	q.active--
	if q.ending != nil && q.active == 0 {
		select {
		case <-q.over:
		default:
			close(q.over)
		}
	}
}

// Drain takes no more calls, and waits until those that it has taken are over. Where ctx ends first, its error is returned, and they
// go on.
func (q *Queue) Drain(ctx context.Context) error {
	q.mu.Lock()
	if !q.closed {
		q.finish(ErrDraining)
	}
	q.mu.Unlock()
	select {
	case <-q.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish takes no more calls. It is called with mu held.
func (q *Queue) finish(err error) {
	first := q.ending == nil
	q.ending = err
	for _, l := range q.lanes {
		if l.gathering != nil {
			l.gathering.notify()
		}
	}
	if first && q.active == 0 {
		close(q.over)
	}
}

// Close takes no more calls, has those that wait fail with ErrDraining, and waits for those under way. It reports whether it was the
// first to be called.
func (q *Queue) Close() bool {
	q.mu.Lock()
	first := !q.closed
	q.closed = true
	q.finish(q.o.Closed)
	for _, l := range append([]*lane{q.alone}, q.lanes...) {
		for c := l.head; c != nil; c = l.head {
			q.remove(c)
			c.state, c.err = done, ErrDraining
			c.wake <- struct{}{}
		}
	}
	q.mu.Unlock()
	<-q.over
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lanes {
		clear(l.memories)
	}
	return first
}

// rows returns the bucket for so many rows, by index; -1 where there is none.
func (q *Queue) bucketOf(rows int) int {
	for i, n := range q.o.Buckets {
		if rows <= n {
			return i
		}
	}
	return -1
}

// most is how many rows a run has at most.
func (q *Queue) most() int { return q.o.Buckets[len(q.o.Buckets)-1] }

// Prepare returns a Call for inputs, compact and on the host, that all have rows rows, and after which nil stands for one that is
// left out. It is alone where it has no rows, or more than a run may have. An error is that of Options.Outputs.
func (q *Queue) Prepare(inputs []*tensor.Tensor, rows int) (*Call, error) {
	if rows < 1 || rows > q.most() {
		return q.Alone(), nil
	}
	length := q.length(inputs)
	q.mu.Lock()
	l := q.find(inputs, length)
	if l == nil {
		q.mu.Unlock()
		made, err := q.newLane(inputs, length)
		if err != nil {
			return nil, err
		}
		q.mu.Lock()
		if l = q.find(inputs, length); l == nil {
			l = made
			q.add(l)
		}
	}
	c := q.call(l)
	q.mu.Unlock()
	c.Rows, c.Inputs = rows, inputs
	for i, t := range inputs {
		if t != nil {
			c.Bytes += int64(t.NumBytes())
			if q.o.Long != nil && q.o.Long[i] {
				c.length = t.Shape[1]
			}
		}
	}
	return c, nil
}

// Alone returns a Call for what is not batched: its caller runs it, when it has its turn.
func (q *Queue) Alone() *Call {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.call(q.alone)
}

// call returns a Call in a lane. It is called with mu held.
func (q *Queue) call(l *lane) *Call {
	var c *Call
	if n := len(q.free); n > 0 {
		c, q.free = q.free[n-1], q.free[:n-1]
	} else {
		c = &Call{wake: make(chan struct{}, 1)}
	}
	c.lane = l
	l.uses++
	return c
}

// recycle keeps a call for the next. It is called with mu held.
func (q *Queue) recycle(c *Call) {
	select {
	case <-c.wake:
	default:
	}
	*c = Call{wake: c.wake, timer: c.timer}
	if len(q.free) < 256 {
		q.free = append(q.free, c)
	}
}
