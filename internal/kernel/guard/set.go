package guard

import "errors"

// Set are the buffers of one spec, which are checked and freed together: ginkgo goes through all cleanups of a spec for each of them, so
// that thousands of buffers with one each would take most of its time. The zero value is empty. It is for one goroutine.
type Set struct{ buffers []*Buffer }

// New returns a buffer as the function New does. The first of a spec has cleanup, ginkgo's DeferCleanup, call the Set's Free.
func (s *Set) New(n int, side Side, cleanup func(args ...any)) (*Buffer, error) {
	b, err := New(n, side)
	if err != nil {
		return nil, err
	}
	if len(s.buffers) == 0 {
		cleanup(s.Free)
	}
	s.buffers = append(s.buffers, b)
	return b, nil
}

// Free frees all buffers, and returns an error where one was written to outside of its range.
func (s *Set) Free() error {
	var faults []error
	for _, b := range s.buffers {
		if err := b.Check(); err != nil && len(faults) < 8 {
			faults = append(faults, err)
		}
		if err := b.Free(); err != nil {
			faults = append(faults, err)
		}
	}
	s.buffers = nil
	return errors.Join(faults...)
}
