package opencl

import (
	"slices"

	"github.com/carve-dev/carve/internal/gpugroup"
)

// On a queue out of order the kernels of a group run in waves: those of one do not depend on each other, and each wave waits for the one
// before. The stream's own queue stays in order; a group forks from it, and joins it behind its last kernel.

// outOfOrder is a property of queues.
const outOfOrder = 1

// waves are those of a group where its operands lay last.
type waves struct {
	places   []gpugroup.Base
	waits    []bool // by step: whether all before it end first
	together bool
}

// find reports whether kernels may run together, and fills waits, for operands that lie at these places.
func (w *waves) find(g *gpugroup.Group, bases []gpugroup.Base) bool {
	if w.waits == nil || !slices.Equal(w.places, bases) {
		if w.waits == nil {
			w.waits = make([]bool, len(g.Steps))
		}
		w.places = append(w.places[:0], bases...)
		w.together = g.Waves(bases, w.waits)
	}
	return w.together
}

// fork has the stream's queue out of order wait for all that is queued on the stream. The queue is made when it is first needed.
func (s *stream) fork(c *call) error {
	if s.loose == 0 {
		var err error
		if s.loose, err = s.d.queue(c, outOfOrder); err != nil {
			return err
		}
	}
	return s.follow(c, s.loose, s.queue)
}

// join has the stream wait for what is queued out of order, and leaves an event behind that in c.word.
func (s *stream) join(c *call) error {
	if err := s.follow(c, s.queue, s.loose); err != nil {
		return err
	}
	c.word = 0
	return c.do(s.d.l, "clEnqueueMarkerWithWaitList", s.queue, 0, 0, at(&c.word))
}

// follow has what is queued from now on wait for all of another queue.
func (s *stream) follow(c *call, queue, before uintptr) error {
	l := s.d.l
	c.word = 0
	if err := c.do(l, "clEnqueueMarkerWithWaitList", before, 0, 0, at(&c.word)); err != nil {
		return err
	}
	marker := c.word
	defer l.release("clReleaseEvent", marker) // the barrier keeps it
	if err := c.do(l, "clFlush", before); err != nil {
		return err
	}
	return c.do(l, "clEnqueueBarrierWithWaitList", queue, 1, at(&c.word), 0)
}
