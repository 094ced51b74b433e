package batching

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// batch is a run of several calls, or one with padding.
type batch struct {
	id       uint64
	lane     *lane
	bucket   int
	rows     int
	reason   Reason
	calls    []*Call // the leader first
	over     []*Call // of these, to be woken
	m        *memory
	keep     bool // somebody keeps the outputs
	refs     int  // calls that have not left
	assemble time.Duration
	took     time.Duration
	err      error
}

// lead runs a call that has a slot since now, with others. It is called with mu held, and unlocks it.
func (q *Queue) lead(ctx context.Context, c *Call, now time.Time) error {
	c.state, c.reason = leading, Idle
	var err error
	switch {
	case c.lane == q.alone:
		c.reason = Alone
	case q.o.Delay > 0:
		err, now = q.gather(ctx, c), time.Now()
	case c.lane.expects(c):
		now = q.yield(c, now)
	}
	if err == nil && q.o.Turns != nil {
		var taken bool
		if taken, err = q.try(); err == nil && !taken {
			err, now = q.turn(ctx, c), time.Now()
		}
	}
	if err != nil {
		q.counts.Gone++
		q.pass()
		q.mu.Unlock()
		return err
	}
	b := q.claim(c, now)
	q.mu.Unlock()
	if b != nil {
		q.run(b)
	}
	return c.err
}

// try takes one of Options.Turns where there is one. It is called with mu held: a panic becomes an error.
func (q *Queue) try() (taken bool, err error) {
	defer asError(&err)
	return q.o.Turns.Try(), nil
}

// asError is deferred around what others bring, and makes a panic an error.
func asError(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}

// turn waits for one of Options.Turns, with mu given up. Calls of the lane wait behind c meanwhile.
func (q *Queue) turn(ctx context.Context, c *Call) (err error) {
	if c.lane != q.alone {
		c.lane.gathering = c
		defer func() { c.lane.gathering = nil }()
	}
	q.mu.Unlock()
	defer q.mu.Lock()
	defer asError(&err)
	return q.o.Turns.Wait(ctx)
}

// ran gives back the turn of a run. A panic is the value, for the caller to raise when calls and slots are in order.
func (q *Queue) ran() (panicked any) {
	if q.o.Turns != nil {
		defer func() { panicked = recover() }()
		q.o.Turns.Done()
	}
	return nil
}

// gather waits for more rows, until it is time to begin. It is called with mu held, which it gives up in between.
func (q *Queue) gather(ctx context.Context, c *Call) error {
	l := c.lane
	l.gathering = c
	defer func() { l.gathering = nil }()
	for {
		var until time.Time
		if c.reason, until = q.due(c); c.reason == Full || c.reason == Ending {
			return nil
		}
		d := time.Until(until)
		if d <= 0 {
			return nil
		}
		if c.timer == nil {
			c.timer = time.NewTimer(d)
		} else {
			c.timer.Reset(d)
		}
		q.mu.Unlock()
		var err error
		select {
		case <-c.wake:
		case <-c.timer.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
		c.timer.Stop()
		q.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// Yielding: see lane.expects.
const (
	shortRun  = 100 * time.Microsecond // a run that takes longer is not held up
	leastWait = 2 * time.Microsecond   // in less than that no other goroutine has run on the same processor
	mostWait  = time.Millisecond       // other goroutines have run for so long that it was not worth it
	maxLonely = 63                     // runs without yielding between tries
)

// expects reports whether c's run is to let other goroutines go first. Where runs are shorter than it takes to read a request, calls
// never meet: goroutines that are ready to call wait for a processor, rather than for a slot, and each finds one free then. It is called
// with mu held.
func (l *lane) expects(c *Call) bool {
	if usual := l.usual(c.Rows); usual == 0 || usual > shortRun || c.Rows >= l.q.most() {
		return false
	}
	if l.rest > 0 {
		l.rest--
		return false
	}
	return true
}

// yield has goroutines that are ready go first, so that their calls join the run that c leads since now. Where none does, or they take
// long, or come from other processors, which would have run them, it is done less often. It is called with mu held, which it gives up in
// between, and returns the time.
func (q *Queue) yield(c *Call, now time.Time) time.Time {
	l := c.lane
	l.gathering = c
	q.mu.Unlock()
	runtime.Gosched()
	q.mu.Lock()
	l.gathering = nil
	after := time.Now()
	if d := after.Sub(now); l.head != nil && d >= leastWait && d < mostWait {
		l.lonely = 0
	} else {
		l.lonely = min(2*l.lonely+1, maxLonely)
	}
	l.rest = l.lonely
	return after
}

// due returns when a run that c gathers begins at the latest, and why then. It is called with mu held.
func (q *Queue) due(c *Call) (Reason, time.Time) {
	l := c.lane
	rows := c.Rows + l.rows
	switch {
	case rows >= q.most():
		return Full, time.Time{}
	case q.ending != nil:
		return Ending, time.Time{}
	}
	reason, at := Delay, c.Entered.Add(q.o.Delay)
	usual := l.usual(rows)
	usual += usual/2 + time.Millisecond // runs vary, and timers are late
	for x := c; x != nil; x = l.after(x, c) {
		if first := x.deadline.Add(-usual); !x.deadline.IsZero() && first.Before(at) {
			reason, at = Deadline, first
		}
	}
	return reason, at
}

// after returns the call behind x, where leader stands in front of those that wait.
func (l *lane) after(x, leader *Call) *Call {
	if x == leader {
		return l.head
	}
	return x.next
}

// claim makes the run that c leads of c and of those behind it that have room. nil is a run of c's own. It is called with mu held.
func (q *Queue) claim(c *Call, now time.Time) *batch {
	q.runs++
	n, l := &q.counts, c.lane
	n.Runs++
	c.ID, c.Of, c.began, c.bucket = q.runs, c.Rows, now, q.bucketOf(c.Rows)
	c.Queued = c.began.Sub(c.Entered)
	if c.lane == q.alone {
		n.turn(c)
		n.Reasons[Alone]++
		c.Direct = true
		return nil
	}
	rows := c.Rows
	if l.head != nil && rows+l.head.Rows <= q.most() || rows < q.o.Buckets[c.bucket] || c.length < l.length {
		b := q.batch(c)
		q.counts.Reasons[b.reason]++
		for _, x := range b.calls {
			n.turn(x)
		}
		n.Padding += uint64(q.o.Buckets[b.bucket] - b.rows)
		q.spread(l)
		return b
	}
	if l.head != nil {
		c.reason = Full
	}
	n.turn(c)
	n.Reasons[c.reason]++
	c.Direct = true
	q.spread(l)
	return nil
}

// turn counts a call that has its turn.
func (n *Counts) turn(c *Call) {
	n.Calls++
	n.Rows += uint64(c.Rows)
}

// batch returns the run of several that c leads. It is called with mu held.
func (q *Queue) batch(c *Call) *batch {
	l := c.lane
	var b *batch
	if n := len(q.spare); n > 0 {
		b, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		b = &batch{}
	}
	*b = batch{id: c.ID, lane: l, calls: append(b.calls[:0], c), over: b.over[:0], rows: c.Rows, keep: c.Keep}
	for x := l.head; x != nil && b.rows+x.Rows <= q.most(); x = l.head {
		q.remove(x)
		x.state, x.First, x.Queued, x.ID = claimed, b.rows, c.began.Sub(x.Entered), c.ID
		b.rows += x.Rows
		b.keep = b.keep || x.Keep
		b.calls = append(b.calls, x)
	}
	b.reason = c.reason
	if b.rows == q.most() || l.head != nil {
		b.reason = Full
	}
	b.bucket, b.refs = q.bucketOf(b.rows), len(b.calls)
	for _, x := range b.calls {
		x.batch, x.Of, x.bucket = b, b.rows, b.bucket
	}
	if b.m = l.take(b.bucket); b.m == nil {
		b.m = &memory{}
	}
	if b.keep { // its outputs are not the Queue's any more
		b.m.out = nil
	}
	return b
}

// spread gives free slots to calls of a lane that were behind one that gathered. It is called with mu held.
func (q *Queue) spread(l *lane) {
	for l.gathering = nil; l.head != nil && q.counts.Running < q.o.Slots; {
		q.counts.Running++
		q.pass()
	}
}

// run runs a batch to its end.
func (q *Queue) run(b *batch) {
	ended := false // from then on others may have b's calls
	defer func() {
		if r := recover(); r != nil { // the leader's caller gets it; the others get an error
			if !ended {
				b.err = fmt.Errorf("panic: %v", r)
				for _, c := range b.calls {
					c.err = b.err
				}
				q.complete(b)
			}
			panic(r)
		}
	}()
	start := time.Now()
	padded := q.o.Buckets[b.bucket]
	b.err = b.lane.fill(b.m, padded)
	if b.err == nil {
		b.copyIn(padded)
	}
	b.assemble = time.Since(start)
	q.release(b)
	if b.err == nil {
		start = time.Now()
		b.err = q.o.Run(context.Background(), b.m.in, b.m.out)
		b.took = time.Since(start)
	}
	if b.err != nil && len(b.calls) > 1 && !q.o.Fatal(b.err) {
		q.again(b)
	} else {
		for _, c := range b.calls {
			c.err = b.err
		}
	}
	ended = true
	q.complete(b)
	if q.o.Ran != nil {
		q.o.Ran(Run{ID: b.id, Calls: len(b.calls), Rows: b.rows, Padded: padded, Reason: b.reason, Assemble: b.assemble, Took: b.took, Err: b.err})
	}
}

// copyIn copies inputs together. Rows behind the last are the first once more: data that a model takes.
func (b *batch) copyIn(padded int) {
	for i, dst := range b.m.in {
		if dst == nil {
			continue
		}
		for _, c := range b.calls {
			copyRows(dst, c.First, c.Inputs[i], 0, c.Rows)
		}
		for at := b.rows; at < padded; at++ {
			copyRows(dst, at, dst, 0, 1)
		}
	}
}

// release says that the inputs of calls are not needed any more: those may go whose context has ended.
func (q *Queue) release(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range b.calls[1:] {
		c.state = running
		if c.leaves {
			c.state = abandoned
			c.wake <- struct{}{}
		}
	}
}

// again runs the calls of a run that has failed one by one, so that a fault in one's rows is only its own.
func (q *Queue) again(b *batch) {
	for _, c := range b.calls {
		q.mu.Lock()
		gone, bucket := c.state == abandoned, q.bucketOf(c.Rows)
		if gone {
			q.mu.Unlock()
			continue
		}
		q.counts.Again++
		m := b.lane.take(bucket)
		q.mu.Unlock()
		if m == nil {
			m = &memory{}
		}
		if c.err = b.lane.fill(m, q.o.Buckets[bucket]); c.err != nil {
			continue
		}
		for i, dst := range m.in {
			if dst == nil {
				continue
			}
			for at := range q.o.Buckets[bucket] {
				copyRows(dst, at, b.m.in[i], c.First+min(at, c.Rows-1), 1)
			}
		}
		if c.err = q.o.Run(context.Background(), m.in, m.out); c.err == nil {
			for i, dst := range b.m.out {
				copyRows(dst, c.First, m.out[i], 0, c.Rows)
			}
		}
		q.mu.Lock()
		b.lane.give(bucket, m)
		q.mu.Unlock()
	}
}

// complete gives the results to the calls, and the slot to the next.
func (q *Queue) complete(b *batch) {
	panicked := q.ran()
	q.mu.Lock()
	if b.err == nil {
		b.lane.took(b.bucket, b.took)
	}
	for i, c := range b.calls {
		if c.state != abandoned { // whose caller may be reading it
			c.Results, c.Assemble, c.Took = b.m.out, b.assemble, b.took
		}
		switch {
		case i == 0: // the leader, which is awake
		case c.state == abandoned:
			c.batch, c.state = nil, idle
			q.unref(b)
			if c.left {
				q.recycle(c)
			}
		default:
			c.state = done
			b.over = append(b.over, c)
		}
	}
	next := q.next()
	q.mu.Unlock()
	for _, c := range b.over {
		c.awake()
	}
	next.awake()
	if panicked != nil {
		panic(panicked)
	}
}

// unref counts a call less that reads a run's results. Behind the last its memory is used again. It is called with mu held.
func (q *Queue) unref(b *batch) {
	if b.refs--; b.refs > 0 {
		return
	}
	if b.keep {
		b.m.out = nil
	}
	b.lane.give(b.bucket, b.m)
	clear(b.calls)
	clear(b.over)
	q.spare = append(q.spare, b)
}
