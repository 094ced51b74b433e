package cpu

import "sync"

// lists lends slices of slices of a fixed length to concurrent chunks, so that a run allocates nothing once it is warm.
type lists struct {
	mu   sync.Mutex
	free []*[][]float32
	n    int
}

func newLists(n int) *lists { return &lists{n: n} }

func (l *lists) get() *[][]float32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := len(l.free); k > 0 {
		s := l.free[k-1]
		l.free = l.free[:k-1]
		return s
	}
	s := make([][]float32, l.n)
	return &s
}

func (l *lists) put(s *[][]float32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(*s)
	l.free = append(l.free, s)
}
