package kernelstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
)

// Store is the programs that a device has compiled, by key. Those that nobody uses any more are kept, up to mostIdle of them:
// shapes come back. The zero value with Free set is empty. It is safe for concurrent use.
type Store[P any] struct {
	Free func(P) // gives a program back

	mu    sync.Mutex
	known map[digest]*Entry[P]
	idle  []*Entry[P] // the longest idle first
}

const mostIdle = 256

// digest stands for a key, which may be a long text.
type digest [sha256.Size]byte

// Entry is a program in use.
type Entry[P any] struct {
	Program P

	s     *Store[P]
	key   digest
	users int
	once  sync.Once
	err   error
	freed bool
}

// Acquire returns the program of a key, which build makes where it is not there; Release it. One goroutine builds, others wait for
// it. After an error nothing is kept; a build that ended with the context of another one who asked is tried again.
func (s *Store[P]) Acquire(ctx context.Context, key string, build func() (P, error)) (*Entry[P], error) {
	sum := digest(sha256.Sum256([]byte(key)))
	for {
		e := s.entry(sum)
		e.once.Do(func() { e.Program, e.err = build() })
		if e.err == nil {
			return e, nil
		}
		s.mu.Lock()
		if s.known[sum] == e {
			delete(s.known, sum)
		}
		s.mu.Unlock()
		ended := errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded)
		if !ended || ctx.Err() != nil {
			return nil, e.err
		}
	}
}

// entry returns the entry of a key with one user more.
func (s *Store[P]) entry(key digest) *Entry[P] {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.known[key]
	if e == nil {
		e = &Entry[P]{s: s, key: key}
		if s.known == nil {
			s.known = map[digest]*Entry[P]{}
		}
		s.known[key] = e
	}
	if e.users++; e.users == 1 {
		for i, x := range s.idle {
			if x == e {
				s.idle = append(s.idle[:i], s.idle[i+1:]...)
				break
			}
		}
	}
	return e
}

// Release ends a use of the program.
func (e *Entry[P]) Release() {
	s := e.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.users--; e.users > 0 || e.freed {
		return
	}
	s.idle = append(s.idle, e)
	if len(s.idle) > mostIdle {
		old := s.idle[0]
		s.idle = s.idle[1:]
		delete(s.known, old.key)
		old.freed = true
		s.Free(old.Program)
	}
}

// Clear gives all programs back, those in use too: nothing runs any more.
func (s *Store[P]) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.known {
		if !e.freed {
			e.freed = true
			s.Free(e.Program)
		}
	}
	s.known, s.idle = nil, nil
}
