package single

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/carve-dev/carve/graph"
)

// ErrClosed is returned by a Cache that is closed.
var ErrClosed = errors.New("closed")

// Program is what is made of a call's graph.
type Program interface{ Close() error }

// Entry is a program that is in use, until Release.
type Entry[P Program] struct {
	Program P
	Call    *Call // its inputs tell types, and which of them are constants
	Graph   *graph.Graph

	made  chan struct{} // closed when Program is there, or err
	err   error
	users int // those that hold the entry, and the cache where it is in that
	at    *list.Element
}

// Cache keeps the programs of the calls that were made last. It is safe for concurrent use.
type Cache[P Program] struct {
	compile func(ctx context.Context, g *graph.Graph) (P, error)
	most    int

	mu      sync.Mutex
	entries map[uint64][]*Entry[P]
	recent  list.List       // entries, the one that was used last in front
	content map[string]bool // operators whose shapes depend on the content of small inputs
	closed  bool
}

// NewCache returns a cache of at most so many programs, which compile makes.
func NewCache[P Program](most int, compile func(ctx context.Context, g *graph.Graph) (P, error)) *Cache[P] {
	return &Cache[P]{compile: compile, most: max(most, 1), entries: map[uint64][]*Entry[P]{}, content: map[string]bool{}}
}

// Acquire returns the program of a call, which is made where there is none. One that is made by another goroutine is waited for.
// Errors are those of compile, ErrCall, ErrClosed, and ctx's. It does not allocate where the program is there. Release the entry.
func (c *Cache[P]) Acquire(ctx context.Context, call *Call) (*Entry[P], error) {
	for {
		e, mine, err := c.find(call)
		if err != nil {
			return nil, err
		}
		if mine {
			err := c.make(ctx, e)
			if errors.Is(err, errContent) {
				continue // under another key
			}
			if err != nil {
				return nil, err
			}
			return e, nil
		}
		select {
		case <-e.made:
		case <-ctx.Done():
			c.Release(e)
			return nil, ctx.Err()
		}
		if e.err == nil {
			return e, nil
		}
		err = e.err
		c.Release(e)
		if errors.Is(err, errContent) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			continue // its maker gave up
		}
		return nil, err
	}
}

// errContent says that an operator's shapes depend on the content of inputs.
var errContent = errors.New("shapes depend on content")

// find returns the entry of a call, or a new one that is the caller's to make.
func (c *Cache[P]) find(call *Call) (e *Entry[P], mine bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false, ErrClosed
	}
	call.content = c.content[call.Op]
	call.hash = call.sum()
	for _, e := range c.entries[call.hash] {
		if e.Call.equal(call) {
			e.users++
			c.recent.MoveToFront(e.at)
			return e, false, nil
		}
	}
	own, err := call.clone()
	if err != nil {
		return nil, false, err
	}
	e = &Entry[P]{Call: own, made: make(chan struct{}), users: 2}
	e.at = c.recent.PushFront(e)
	c.entries[own.hash] = append(c.entries[own.hash], e)
	for c.recent.Len() > c.most {
		c.drop(c.recent.Back().Value.(*Entry[P]))
	}
	return e, true, nil
}

// make makes the program of a new entry.
func (c *Cache[P]) make(ctx context.Context, e *Entry[P]) error {
	e.Graph, e.err = e.Call.graph()
	if e.err == nil && !e.Call.content && depends(e) {
		c.mu.Lock()
		c.content[e.Call.Op] = true
		c.mu.Unlock()
		e.err = errContent
	}
	if e.err == nil {
		e.Program, e.err = c.compile(ctx, e.Graph)
	}
	close(e.made)
	if e.err == nil {
		return nil
	}
	c.mu.Lock()
	if e.at != nil {
		c.drop(e)
	}
	c.mu.Unlock()
	c.Release(e)
	return e.err
}

// depends reports whether a result's shape is not known while a small input might tell.
func depends[P Program](e *Entry[P]) bool {
	some := false
	for i, t := range e.Call.Inputs {
		some = some || t != nil && decides(i, t, e.Call.Op)
	}
	for _, v := range e.Graph.Outputs {
		if _, static := v.Type.Shape.Static(); !static {
			return some
		}
	}
	return false
}

// drop takes an entry out of the cache. It is called with mu held.
func (c *Cache[P]) drop(e *Entry[P]) {
	c.recent.Remove(e.at)
	e.at = nil
	same := c.entries[e.Call.hash]
	for i := range same {
		if same[i] == e {
			same[i] = same[len(same)-1]
			same[len(same)-1] = nil
			same = same[:len(same)-1]
			break
		}
	}
	if len(same) == 0 {
		delete(c.entries, e.Call.hash)
	} else {
		c.entries[e.Call.hash] = same
	}
	c.unuse(e)
}

// unuse counts a user less. It is called with mu held; the program of an entry that nobody uses is closed.
func (c *Cache[P]) unuse(e *Entry[P]) {
	if e.users--; e.users == 0 && e.err == nil {
		_ = e.Program.Close() // its maker knows of no errors
	}
}

// Release ends the use of an entry.
func (c *Cache[P]) Release(e *Entry[P]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unuse(e)
}

// Len returns the number of programs.
func (c *Cache[P]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.Len()
}

// Close drops all programs; those in use are closed when they are released. It reports false where it was closed before.
func (c *Cache[P]) Close() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.closed = true
	for c.recent.Len() > 0 {
		c.drop(c.recent.Front().Value.(*Entry[P]))
	}
	return true
}
