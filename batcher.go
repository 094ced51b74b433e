package carve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/batching"
	"github.com/carve-dev/carve/internal/exec"
)

// Runner is what runs a model on inputs: a Program, a Session or a Batcher.
type Runner interface {
	Run(ctx context.Context, inputs map[string]tensor.Value) (map[string]tensor.Value, error)
	RunInto(ctx context.Context, inputs, outputs []*tensor.Tensor) error
}

// Errors of a Batcher, for errors.Is, beside those of the Program.
var (
	// ErrOverloaded says that too many calls wait. Where a call has waited for BatchOptions.Timeout, context.DeadlineExceeded is
	// wrapped beside it.
	ErrOverloaded = batching.ErrOverloaded
	// ErrDraining says that no more calls are taken: Drain or Close was called.
	ErrDraining = batching.ErrDraining
)

// errBatcherClosed is the error of calls after Close. ErrClosed's text speaks of a program.
var errBatcherClosed = batcherClosed{}

type batcherClosed struct{}

func (batcherClosed) Error() string { return "batcher is closed" }

// Unwrap returns what the error may be asked for.
func (batcherClosed) Unwrap() error { return ErrClosed }

// BatchOptions are the settings of a Batcher. The zero value and nil mean the defaults.
type BatchOptions struct {
	// MaxBatch is the most rows that a run has; 0 means 16, or the bound of the batch's symbol (Options.Bounds) where that is less. A
	// call with more rows runs as it is, alone.
	MaxBatch int
	// Buckets are the numbers of rows that runs have: rows are added up to the next one. Each has a plan of its own in the Program
	// (Options.MaxSpecializations). nil means 1, 2, 4, 8 and so on, and MaxBatch, which otherwise follows from them.
	Buckets []int
	// Dim is the symbol that counts rows; "" means the one that is the first dim of all inputs and outputs.
	Dim string
	// Mask names an input in which zeros say what is padding, such as an attention mask of [batch, length]. Inputs with the symbol
	// of its axis 1 there are padded with zeros to the next of Lengths, so that calls of unlike length share a run, and outputs are cut
	// again. "" pads no lengths: calls of unlike shapes are in unlike runs.
	Mask string
	// Lengths are what Mask pads to; nil means 8, 16, 32 and so on. What is longer than the last is not padded.
	Lengths []int
	// Delay is how long the first call of a run waits for others. By default a run begins when a session is free, with
	// the calls that wait by then, or, where runs take no more than 100 µs, those of goroutines that are ready. A run that is full, or
	// has a call whose deadline is near, does not wait.
	Delay time.Duration
	// MaxWaiting bounds the calls that wait for their turn, MaxWaitingBytes their inputs; 0 means 1024, and 256 MiB. Calls beyond
	// fail with ErrOverloaded at once.
	MaxWaiting      int
	MaxWaitingBytes int64
	// Timeout is how long a call waits for its turn before it fails with ErrOverloaded; 0 means for as long as its context lasts.
	Timeout time.Duration
	// Sessions is how many runs there are at one time; 0 means the Program's Options.MaxSessions.
	Sessions int
	// Turns has this Batcher's runs take turns with others'; nil means that they need none.
	Turns Turns
	// Do returns what does a run that has its turn: it calls run once, on any goroutine, before it returns, and a panic of run has to be its
	// own. Where that is nil, or Do itself, the goroutine of the call which leads the run does it.
	Do func() func(run func())
	// Sample are inputs of one row or more that the model takes, to find out whether rows depend on each other, and to make plans
	// for their shapes. By default inputs are made up: floats, and for other types zeros and ones.
	Sample map[string]tensor.Value
	// Independent is the caller's word that no row's results depend on other rows. By default that is tried.
	Independent bool
	// Cold leaves plans to the first calls that need them. By default they are made by NewBatcher, for all buckets of up to 1024 rows and 64 MiB
	// of inputs, where no shape is open but for the rows, or Sample has them.
	Cold bool
	// Observer is told of calls and runs.
	Observer BatchObserver
}

// Turns are what several Batchers, and other runs, share processors by: as many runs have a turn as there may be at one time. Its methods
// are called by many goroutines, and must not call a Batcher.
type Turns interface {
	// Try takes a turn where there is one, without waiting.
	Try() bool
	// Wait waits for a turn, with the context of the call that leads the run; more calls join that meanwhile. Its error, such as that of
	// the context, is the error of the call.
	Wait(ctx context.Context) error
	// Done gives a turn back when the run has ended.
	Done()
}

// BatchObserver is told what a Batcher does, for metrics and tracing. Functions that are nil are not called; the others are called by
// many goroutines at one time, hold up the call that they are told of, and must not call the Batcher.
type BatchObserver struct {
	// Queued is told of a call before it asks for its turn, with the caller's context.
	Queued func(ctx context.Context, q BatchQueued)
	// Ran is told of a run that has ended.
	Ran func(r BatchRun)
	// Answered is told of each call that Queued was told of, when it is over, with the caller's context.
	Answered func(ctx context.Context, a BatchAnswer)
}

// BatchQueued is a call that asks for its turn.
type BatchQueued struct {
	Rows     int   // 0 for a call that is not batched
	Bytes    int64 // of its inputs, 0 for a call that is not batched
	Priority int
}

// BatchRun is a run that has ended, with one call or several.
type BatchRun struct {
	ID       uint64 // from 1 on, by Batcher
	Calls    int
	Rows     int // of all calls; 0 for a call that is not batched
	Padded   int // rows with those that were added
	Reason   BatchReason
	Assemble time.Duration // for copying inputs together
	Took     time.Duration // for the run
	Err      error         // of the run; calls of a run of several have been run again, each alone
}

// BatchAnswer is a call that is over.
type BatchAnswer struct {
	Run      uint64 // BatchRun.ID; 0 where the call had no turn
	Rows     int    // of the call; 0 for one that is not batched
	Of       int    // rows of the run, without those that were added
	Priority int
	Queued   time.Duration // from the call to its turn, or to its end where it had none
	Assemble time.Duration // for copying inputs together
	Took     time.Duration // for the run
	Total    time.Duration // from the call to its end
	Err      error
}

// BatchReason says why a run began with the rows that it had.
type BatchReason int

// Why runs begin.
const (
	BatchFull     = BatchReason(batching.Full)     // there was no room for more rows, or for those of the next call
	BatchIdle     = BatchReason(batching.Idle)     // a session was free, and nobody else waited with the same shapes
	BatchDelay    = BatchReason(batching.Delay)    // the first call had waited for BatchOptions.Delay
	BatchDeadline = BatchReason(batching.Deadline) // a call's deadline was near
	BatchAlone    = BatchReason(batching.Alone)    // the call is one that is not batched
	BatchEnding   = BatchReason(batching.Ending)   // Drain or Close was called
)

// String returns "full", "idle", "delay", "deadline", "alone" or "ending".
func (r BatchReason) String() string { return batching.Reason(r).String() }

// BatchStats are what a Batcher does now, and what it has done.
type BatchStats struct {
	Waiting      int   // calls
	WaitingBytes int64 // of their inputs
	Running      int   // runs under way

	Calls   uint64 // that had their turn
	Rows    uint64 // of these
	Runs    uint64
	Padding uint64 // rows that were added to others
	Again   uint64 // calls that were run again alone, since the run that they were in had failed
	Refused uint64 // calls that found too many waiting
	Expired uint64 // calls that waited for longer than BatchOptions.Timeout
	Gone    uint64 // calls whose context ended before their turn
	Reasons map[BatchReason]uint64
}

// Batcher runs the calls of many callers together, where their inputs have the same shapes but for the first dim, which counts rows.
// Its Run and RunInto take the place of the Program's. It has no goroutines of its own, and is safe for concurrent use.
//
// A call that finds a session free runs at once, on its own tensors. Others wait, and when a session is free, those that wait run
// together: their inputs are copied together, rows are added up to the next bucket, and each call gets its own rows of the results.
// The rows of a call may differ in the last bits by how many others are in the run, as those of a Program do by the batch.
//
// A call's inputs are checked before it waits. Where a run of several calls fails, each is run alone, once, so that only those
// fail that are at fault. A call whose context ends while it waits leaves; while it is in a run of several, it returns and its rows are
// dropped, except that the caller which leads the run returns when that ends. A run of one call is under its context.
//
// Not batched are calls with tensors on devices, with strides, in other layouts or as Formatted, calls with no rows or more than
// MaxBatch, and all calls where Off says why. They wait for their turn like others, and run alone.
type Batcher struct {
	p        *Program
	q        *batching.Queue
	o        BatchOptions
	rows     batching.Rows
	off      string
	runAlone bool             // Run leaves outputs on devices
	none     []*tensor.Tensor // as many as there are outputs, all nil
	rooms    sync.Pool        // of *operands
}

// operands are a call's inputs in the model's order: all, and as tensors, nil for one that is left out.
type operands struct {
	values []tensor.Value
	list   []*tensor.Tensor
}

// free keeps the memory of operands for another call.
func (b *Batcher) free(o *operands) {
	clear(o.values)
	clear(o.list)
	b.rooms.Put(o)
}

// NewBatcher returns a Batcher for a Program, which stays the caller's to close, after the Batcher.
//
// It runs the program, to try whether a row's results depend on other rows (BatchOptions.Independent), and to make plans for all
// buckets that are not large (BatchOptions.Cold). Where rows cannot be told apart, or depend on each other, Off says so. Errors wrap ErrInput, for
// options; ErrClosed.
func NewBatcher(p *Program, o *BatchOptions) (*Batcher, error) {
	if p.runs() == nil {
		return nil, ErrClosed
	}
	b := &Batcher{p: p, o: *cmp.Or(o, &BatchOptions{}), runAlone: p.env.Leave != nil, none: make([]*tensor.Tensor, len(p.g.Outputs))}
	b.rows, b.off = batching.FindRows(p.g.Inputs, p.defaults, p.g.Outputs, p.env.OutputNames, b.o.Dim, b.o.Mask)
	if err := b.settle(); err != nil {
		return nil, err
	}
	q := batching.Options{Closed: errBatcherClosed, Run: b.runInto, Outputs: b.outputs, Fatal: func(err error) bool { return errors.Is(err, ErrClosed) },
		Buckets: b.o.Buckets, Long: b.rows.Long, Lengths: b.o.Lengths, Slots: b.o.Sessions, Lanes: max(p.o.MaxSpecializations, 16),
		Delay: b.o.Delay, Timeout: b.o.Timeout, Turns: b.o.Turns, Calls: b.o.MaxWaiting, Bytes: b.o.MaxWaitingBytes}
	if ran := b.o.Observer.Ran; ran != nil {
		q.Ran = func(r batching.Run) {
			ran(BatchRun{ID: r.ID, Calls: r.Calls, Rows: r.Rows, Padded: r.Padded, Reason: BatchReason(r.Reason), Assemble: r.Assemble, Took: r.Took, Err: r.Err})
		}
	}
	b.q = batching.New(q)
	if b.off != "" {
		return b, nil
	}
	sample, err := b.sample()
	if err != nil {
		return nil, err
	}
	t := &batching.Trial{Rows: &b.rows, Run: p.RunInto, Outputs: q.Outputs, Fatal: q.Fatal, Buckets: q.Buckets, Lengths: q.Lengths, Sample: sample, Bounds: p.o.bounded(),
		Known: b.o.Independent, Cold: b.o.Cold}
	b.off, err = t.Reason()
	return b, err
}

// settle gives options their defaults.
func (b *Batcher) settle() error {
	o := &b.o
	if o.Delay < 0 || o.MaxWaiting < 0 || o.MaxWaitingBytes < 0 || o.Timeout < 0 || o.Sessions < 0 {
		return fmt.Errorf("%w: a negative number in BatchOptions", ErrInput)
	}
	o.MaxWaiting, o.MaxWaitingBytes = cmp.Or(o.MaxWaiting, 1024), cmp.Or(o.MaxWaitingBytes, 256<<20)
	o.Sessions = cmp.Or(o.Sessions, b.p.o.MaxSessions)
	sizes := batching.Sizes{Most: o.MaxBatch, Buckets: o.Buckets, Lengths: o.Lengths, Bound: b.p.o.Bounds[b.rows.Dim], LengthBound: b.p.o.Bounds[b.rows.Length],
		Plans: b.p.o.MaxSpecializations}
	if err := sizes.Settle(); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	o.MaxBatch, o.Buckets, o.Lengths = sizes.Most, sizes.Buckets, sizes.Lengths
	if b.off == "" && o.MaxBatch < 2 {
		b.off = "runs have one row at most"
	}
	return nil
}

// outputs returns the types of outputs for shapes of inputs, or why the model cannot run with them.
func (b *Batcher) outputs(shapes [][]int) ([]batching.Output, error) {
	all := slices.Clone(shapes)
	for i, d := range b.p.defaults {
		if d != nil && all[i] == nil {
			all[i] = d.Shape
		}
	}
	bind, err := b.p.machine.Bind(all)
	if err != nil {
		return nil, public(err)
	}
	return b.rows.Types(bind)
}

// sample returns BatchOptions.Sample in the model's order.
func (b *Batcher) sample() ([]*tensor.Tensor, error) {
	if b.o.Sample == nil {
		return nil, nil
	}
	list, err := b.named(&operands{}, b.o.Sample)
	if err != nil {
		return nil, err
	}
	if list == nil || b.rows.Of(list, exec.Plain) == 0 {
		return nil, fmt.Errorf("%w: BatchOptions.Sample has no rows that could be batched", ErrInput)
	}
	return list, nil
}

// named sets o to inputs by name, and returns them as tensors, checked: nil where not all are tensors.
func (b *Batcher) named(o *operands, inputs map[string]tensor.Value) (list []*tensor.Tensor, err error) {
	if o.values, err = b.p.machine.Named(o.values, inputs); err != nil {
		return nil, public(err)
	}
	o.list = slices.Grow(o.list[:0], len(o.values))[:len(o.values)]
	for i, v := range o.values {
		t, ok := v.(*tensor.Tensor)
		if !ok {
			return nil, nil
		}
		if t != b.p.defaults[i] {
			o.list[i] = t
		}
	}
	return o.list, public(b.p.machine.Admit(o.list, b.none))
}

// Off returns why calls are not batched, "" where they are.
func (b *Batcher) Off() string {
	if b == nil || b.q == nil {
		return errBatcherClosed.Error()
	}
	return b.off
}

// Buckets returns the numbers of rows that runs of several calls have, nil where calls are not batched.
func (b *Batcher) Buckets() []int {
	if b.Off() != "" {
		return nil
	}
	return slices.Clone(b.o.Buckets)
}

type priorityKey struct{}

// WithPriority returns a context for calls of a Batcher that wait before others, where p is larger. Calls without one have 0.
func WithPriority(ctx context.Context, p int) context.Context {
	return context.WithValue(ctx, priorityKey{}, p)
}

// Run computes the outputs for inputs given by name, like Program.Run. Results of a call that ran with others are views of what
// the run has made, which stays in memory as long as one of them.
//
// Errors beside those of Program.Run: ErrOverloaded, ErrDraining, and ErrClosed after Close.
func (b *Batcher) Run(ctx context.Context, inputs map[string]tensor.Value) (out map[string]tensor.Value, err error) {
	ctx = background(ctx)
	if b == nil || b.q == nil {
		return nil, errBatcherClosed
	}
	o, ok := b.rooms.Get().(*operands)
	if !ok {
		o = &operands{}
	}
	defer b.free(o)
	list, err := b.named(o, inputs)
	if err != nil {
		return nil, err
	}
	if b.runAlone {
		list = nil
	}
	t, err := b.enter(ctx, list, nil)
	if err != nil {
		return nil, err
	}
	defer func() { t.leave(ctx, err) }()
	switch {
	case t.err != nil:
		return nil, t.err
	case t.call.Direct && list == nil:
		return b.direct(ctx, inputs, nil)
	case t.call.Direct:
		return b.direct(ctx, nil, o.values)
	}
	out = map[string]tensor.Value{}
	for i, r := range b.rows.Outputs {
		if out[r.Name], err = t.call.Result(i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// do returns what does the next run, nil for the caller's own goroutine.
func (b *Batcher) do() func(run func()) {
	if b.o.Do == nil {
		return nil
	}
	return b.o.Do()
}

// direct does a call's own run: of inputs by name where values is nil.
func (b *Batcher) direct(ctx context.Context, inputs map[string]tensor.Value, values []tensor.Value) (map[string]tensor.Value, error) {
	if do := b.do(); do != nil {
		return b.directBy(ctx, do, inputs, values)
	}
	if values == nil {
		return b.p.Run(ctx, inputs)
	}
	return b.p.runNamed(ctx, values)
}

// directBy is direct by somebody else: by itself, since it allocates.
func (b *Batcher) directBy(ctx context.Context, do func(run func()), inputs map[string]tensor.Value, values []tensor.Value) (out map[string]tensor.Value, err error) {
	err = errNotDone
	do(func() {
		if values == nil {
			out, err = b.p.Run(ctx, inputs)
		} else {
			out, err = b.p.runNamed(ctx, values)
		}
	})
	return out, err
}

// runInto does a run of several calls, or a call's own.
func (b *Batcher) runInto(ctx context.Context, inputs, outputs []*tensor.Tensor) error {
	if do := b.do(); do != nil {
		return b.runIntoBy(ctx, do, inputs, outputs)
	}
	return b.p.RunInto(ctx, inputs, outputs)
}

// runIntoBy is runInto by somebody else.
func (b *Batcher) runIntoBy(ctx context.Context, do func(run func()), inputs, outputs []*tensor.Tensor) (err error) {
	err = errNotDone
	do(func() { err = b.p.RunInto(ctx, inputs, outputs) })
	return err
}

// errNotDone is the error of a run that a function of the caller's has left out.
var errNotDone = fmt.Errorf("%w: what BatchOptions.Do returned did not do the run", ErrInput)

// RunInto computes into outputs that the caller provides, like Program.RunInto. Errors are those of Run.
func (b *Batcher) RunInto(ctx context.Context, inputs, outputs []*tensor.Tensor) (err error) {
	ctx = background(ctx)
	if b == nil || b.q == nil {
		return errBatcherClosed
	}
	if err := b.p.machine.Admit(inputs, outputs); err != nil {
		return public(err)
	}
	list := inputs
	for _, t := range outputs {
		if t != nil && !exec.Plain(t) {
			list = nil
		}
	}
	t, err := b.enter(ctx, list, outputs)
	if err != nil {
		return err
	}
	defer func() { t.leave(ctx, err) }()
	switch {
	case t.err != nil:
		return t.err
	case t.call.Direct:
		return b.runInto(ctx, inputs, outputs)
	}
	t.call.CopyTo(outputs)
	return nil
}

// turn is a call that has had its turn, or the error in its place.
type turn struct {
	b       *Batcher
	call    *batching.Call
	err     error
	entered time.Time
}

// enter waits for the turn of a call on inputs in the model's order; nil stands for those of a call that is not batched. The error is
// that of a call that did not wait.
func (b *Batcher) enter(ctx context.Context, inputs, outputs []*tensor.Tensor) (t turn, err error) {
	t = turn{b: b, entered: time.Now()}
	rows := 0
	if b.off == "" && inputs != nil {
		rows = b.rows.Of(inputs, exec.Plain)
	}
	if rows > 0 {
		if t.call, err = b.q.Prepare(inputs, rows); err != nil {
			return t, public(err)
		}
		if i := t.call.Misfit(outputs); i >= 0 {
			err = &InputError{Name: b.rows.Outputs[i].Name, Problem: "wrong shape", Expected: fmt.Sprint(t.call.Shape(i)), Found: fmt.Sprint(outputs[i].Shape), kind: ErrOutput}
			b.q.Leave(t.call, nil)
			return t, err
		}
	} else {
		t.call = b.q.Alone()
	}
	t.call.Keep, t.call.Entered = outputs == nil, t.entered
	t.call.Priority, _ = ctx.Value(priorityKey{}).(int)
	entered := false
	defer func() {
		if !entered { // a panic of what the caller brings
			b.q.Leave(t.call, nil)
		}
	}()
	if b.o.Observer.Queued != nil {
		b.o.Observer.Queued(ctx, BatchQueued{Rows: t.call.Rows, Bytes: t.call.Bytes, Priority: t.call.Priority})
	}
	t.err = b.q.Enter(ctx, t.call)
	entered = true
	return t, nil
}

// leave ends a call.
func (t *turn) leave(ctx context.Context, err error) {
	c, told := t.call, t.b.o.Observer.Answered
	if told == nil {
		t.b.q.Leave(c, err)
		return
	}
	a := BatchAnswer{Run: c.ID, Rows: c.Rows, Of: c.Of, Priority: c.Priority, Queued: c.Queued, Assemble: c.Assemble, Err: err}
	direct := c.Direct
	a.Took = t.b.q.Leave(c, err)
	if direct {
		a.Total = a.Queued + a.Took
	} else {
		a.Total = time.Since(t.entered)
	}
	if a.Run == 0 {
		a.Queued = a.Total
	}
	told(ctx, a)
}

// Stats returns what the Batcher does now, and what it has done.
func (b *Batcher) Stats() BatchStats {
	if b == nil || b.q == nil {
		return BatchStats{}
	}
	c := b.q.Counts()
	s := BatchStats{Waiting: c.Waiting, WaitingBytes: c.WaitingBytes, Running: c.Running, Calls: c.Calls, Rows: c.Rows, Runs: c.Runs,
		Padding: c.Padding, Again: c.Again, Refused: c.Refused, Expired: c.Expired, Gone: c.Gone, Reasons: map[BatchReason]uint64{}}
	for r, n := range c.Reasons {
		s.Reasons[BatchReason(r)] = n
	}
	return s
}

// Drain takes no more calls, which fail with ErrDraining, and waits until those that were taken are over. Where ctx ends first, it
// returns its error, and they go on. It may be called again.
func (b *Batcher) Drain(ctx context.Context) error {
	if b == nil || b.q == nil {
		return nil
	}
	return b.q.Drain(background(ctx))
}

// Close takes no more calls, has those that wait fail with ErrDraining, and waits for runs under way. Later calls fail with ErrClosed.
// The Program stays open.
func (b *Batcher) Close() error {
	if b != nil && b.q != nil {
		b.q.Close()
	}
	return nil
}
