package exec

import (
	"math/bits"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// store keeps memory of the host in which results lie whose shape depends on data, from one iteration of a loop to the next and from run to
// run. What neither a run nor the one before it has used is Go's again, and what has been free the longest, where there is as much free as was in
// use at most: values that grow would leave twelve times as much behind. It belongs to a session.
type store struct {
	free          [][]block // by class, those that have been free the longest first
	gives         int       // how many blocks were given back
	began, before int       // gives when this run began, and the one before it

	used, kept int // bytes: taken in this run and not given back, and free
	most, last int // of used, in this run and the one before it
}

// block is memory that nobody uses.
type block struct {
	mem []byte
	at  int // gives when it was given back
}

// Blocks have sizes of classes: eight to each power of two. Larger ones than mostKept are not kept, and as large as they must be.
const (
	leastBlock = 64
	mostKept   = 1 << 30
	leastKept  = 1 << 20 // bytes that may be free, whatever was in use
)

// roomFor returns the size of the blocks of which n bytes are taken, and the number of their class.
func roomFor(n int) (size, class int) {
	const unit = leastBlock / 8
	if n <= leastBlock {
		return leastBlock, 0
	}
	last := (n - 1) / unit
	shift := bits.Len(uint(last)) - 4 // four bits tell the class
	at := last>>shift + 1
	return at << shift * unit, 8*shift + at - 8
}

// take returns n bytes of any content, aligned to tensor.Alignment. Their capacity is that of the block.
func (s *store) take(n int) ([]byte, error) {
	if n > mostKept {
		return storage(n)
	}
	size, class := roomFor(n)
	s.used += size
	s.most = max(s.most, s.used)
	if class < len(s.free) && len(s.free[class]) > 0 {
		last := len(s.free[class]) - 1
		mem := s.free[class][last].mem
		s.free[class][last] = block{}
		s.free[class] = s.free[class][:last]
		s.kept -= size
		return mem[:n], nil
	}
	mem, err := storage(size)
	if err != nil {
		return nil, err
	}
	return mem[:n:size], nil
}

// give takes memory back of which nobody uses anything.
func (s *store) give(mem []byte) {
	size, class := roomFor(cap(mem))
	if cap(mem) > mostKept || cap(mem) != size {
		return // it is no block
	}
	for class >= len(s.free) {
		s.free = append(s.free, nil)
	}
	s.free[class] = append(s.free[class], block{mem[:size], s.gives})
	s.gives++
	s.used, s.kept = s.used-size, s.kept+size
	for s.kept > max(s.most, s.last, leastKept) {
		s.drop()
	}
}

// drop gives what has been free the longest to Go.
func (s *store) drop() {
	oldest := -1
	for class, list := range s.free {
		if len(list) > 0 && (oldest < 0 || list[0].at < s.free[oldest][0].at) {
			oldest = class
		}
	}
	s.kept -= len(s.free[oldest][0].mem)
	s.free[oldest] = slices.Delete(s.free[oldest], 0, 1)
}

// end ends a run.
func (s *store) end() {
	for i, list := range s.free {
		s.free[i] = slices.DeleteFunc(list, func(b block) bool {
			if b.at < s.before {
				s.kept -= len(b.mem)
			}
			return b.at < s.before
		})
	}
	s.before, s.began = s.began, s.gives
	s.last, s.most, s.used = s.most, 0, 0
}

// holding is what a slot has of the store, and memory for the shape of what lies there.
type holding struct {
	mem   []byte
	shape []int
}

// own makes a tensor of this type the value of a slot of the host's, in memory of the session's store. What lay there before is over.
func (f *frame) own(slot int, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
	count, err := tensor.NumElements(shape)
	if err != nil {
		return nil, err
	}
	if f.mine == nil {
		f.mine = make([]holding, len(f.s.block.Slots))
	}
	h, n := &f.mine[slot], dt.Bytes(count)
	if err := f.makeRoom(slot, h, n); err != nil {
		return nil, err
	}
	h.shape = append(h.shape[:0], shape...)
	t := &f.tensors[slot]
	*t = tensor.Tensor{DType: dt, Shape: h.shape, Data: h.mem[:n:n]}
	f.values[slot] = t
	return t, nil
}

// makeRoom has a slot hold at least n bytes. Where something bounds what the session may have, it holds what it needs and little more.
func (f *frame) makeRoom(slot int, h *holding, n int) error {
	most, bounded := 2*n+leastBlock, f.session.m.bounded()
	if bounded {
		most = n + n/8
	}
	if h.mem != nil && cap(h.mem) >= n && cap(h.mem) <= most {
		return f.hold(slot, int64(cap(h.mem)))
	}
	f.letGo(h)
	err := f.hold(slot, int64(n))
	if err != nil {
		return err
	}
	_, h.mem, err = f.session.room(n, false)
	return err
}

// room returns n bytes of any content, and what of the store they are in: nil where the caller gets them, who has no use for more than n.
func (s *Session) room(n int, callers bool) (data, mem []byte, err error) {
	switch {
	case callers:
		data, err = storage(n)
		return data, nil, err
	case s.m.bounded():
		data, err = storage(n)
	default:
		data, err = s.store.take(n)
	}
	return data, data, err
}

// letGo gives what a slot holds back to the store.
func (f *frame) letGo(h *holding) {
	if h.mem != nil && !f.session.m.bounded() {
		f.session.store.give(h.mem)
	}
	h.mem = nil
}

// release takes from a slot what it holds.
func (f *frame) release(slot int) (h holding) {
	if f.mine != nil {
		h, f.mine[slot] = f.mine[slot], holding{}
	}
	return h
}

// take gives a slot what its value lies in.
func (f *frame) take(slot int, h holding) {
	if f.mine == nil {
		f.mine = make([]holding, len(f.s.block.Slots))
	}
	f.letGo(&f.mine[slot])
	f.mine[slot] = h
}
