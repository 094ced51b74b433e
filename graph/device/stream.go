package device

import "context"

// Stream is a queue of work and of moves, which are done in order: each begins when those before it are over. It is used
// by one goroutine at a time. Work that fails does not stop what is queued behind it, which may run on undefined data, or
// fail too.
type Stream interface {
	// Record returns the Event that happens when everything that is queued now is over. Its error is that of the first
	// piece of work that failed among those that no Record or Sync before has reported. It may be nil: it is over already.
	Record() (Event, error)
	// WaitFor lets what is queued from now on begin after e has happened, whatever its error: the order alone is the
	// stream's matter. e may be of another stream or device, and may be closed when WaitFor returns. A device that knows e
	// waits by itself. Where nothing but the call can wait, an end of ctx ends it, with ctx's error and without the order.
	WaitFor(ctx context.Context, e Event) error
	// Sync waits until everything queued is over, or ctx ends. Its error is as that of Record's Event, or ctx's.
	Sync(ctx context.Context) error
	// Close waits for queued work and frees the stream. Its Events stay valid.
	Close() error
}

// Event is the end of queued work. A nil Event has happened already, without an error. Events are
// safe for concurrent use, but for Close.
type Event interface {
	// Done reports, without waiting, whether the work is over, and its error if so.
	Done() (bool, error)
	// Wait returns the work's error when it ends, or ctx's error when that ends first. What has happened has precedence.
	Wait(ctx context.Context) error
	// Notify has fn called once, with the work's error, when it ends: on any goroutine, in Notify itself where the work is
	// over. fn must not block, and calls nothing of the device: it posts that the work is over. Notify does not block.
	Notify(fn func(err error))
	// Close gives the Event back, whether it has happened or not: the work goes on, and an fn given to Notify before is
	// still called. It is the last call, and called once.
	Close()
}

// Wait is e.Wait for an Event that may be nil.
func Wait(ctx context.Context, e Event) error {
	if e == nil {
		return nil
	}
	return e.Wait(ctx)
}
