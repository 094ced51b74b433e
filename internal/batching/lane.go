package batching

import (
	"slices"
	"time"

	"github.com/carve-dev/carve/graph/tensor"
)

// lane has the calls of one list of shapes, apart from rows: they fit into one run.
type lane struct {
	q          *Queue
	inputs     []Output // the types of inputs, dim 0 aside; an invalid dtype for one that is left out
	outputs    []Output
	length     int   // axis 1 of inputs that are padded there
	head, tail *Call // that wait, in the order of their turns
	rows       int   // of these
	gathering  *Call // which has a slot, and waits for more rows
	uses       int   // calls between Prepare and Leave
	memories   [][]*memory
	times      []time.Duration // of runs by bucket, smoothed
	lonely     int             // runs that do not yield after one to which that brought nothing
	rest       int             // of these
}

// memory is what a run of a bucket works in.
type memory struct{ in, out []*tensor.Tensor }

// push puts a call behind those whose turn is before its own.
func (l *lane) push(c *Call) {
	at := l.tail
	for at != nil && c.before(at) {
		at = at.prev
	}
	c.prev = at
	if at == nil {
		c.next, l.head = l.head, c
	} else {
		c.next, at.next = at.next, c
	}
	if c.next == nil {
		l.tail = c
	} else {
		c.next.prev = c
	}
	l.rows += c.Rows
}

func (l *lane) remove(c *Call) {
	if c.prev == nil {
		l.head = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.tail = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	l.rows -= c.Rows
}

// took notes how long a run took.
func (l *lane) took(bucket int, d time.Duration) {
	if bucket >= len(l.times) {
		return
	}
	if l.times[bucket] == 0 {
		l.times[bucket] = d
	}
	l.times[bucket] += (d - l.times[bucket]) / 8
}

// usual returns how long a run of so many rows takes as a rule; 0 where that is not known.
func (l *lane) usual(rows int) time.Duration {
	b := l.q.bucketOf(rows)
	if b < 0 {
		b = len(l.times) - 1
	}
	return l.times[b]
}

// length returns to which length a call's inputs are padded, 0 for none: their own where there is no larger one.
func (q *Queue) length(inputs []*tensor.Tensor) int {
	n := 0
	for i, t := range inputs {
		if t != nil && q.o.Long != nil && q.o.Long[i] {
			n = max(n, t.Shape[1])
		}
	}
	if i := slices.IndexFunc(q.o.Lengths, func(l int) bool { return n <= l }); n > 0 && i >= 0 {
		return q.o.Lengths[i]
	}
	return n
}

// find returns the lane of inputs, nil where there is none. It is called with mu held.
func (q *Queue) find(inputs []*tensor.Tensor, length int) *lane {
	for i, l := range q.lanes {
		if l.fits(inputs, length) {
			copy(q.lanes[1:i+1], q.lanes[:i])
			q.lanes[0] = l
			return l
		}
	}
	return nil
}

func (l *lane) fits(inputs []*tensor.Tensor, length int) bool {
	if l.length != length {
		return false
	}
	for i, t := range inputs {
		in := &l.inputs[i]
		switch {
		case t == nil:
			if in.DType.Valid() {
				return false
			}
		case t.DType != in.DType || len(t.Shape) != len(in.Shape):
			return false
		default:
			for k := 1; k < len(t.Shape); k++ {
				if t.Shape[k] != in.Shape[k] && !(k == 1 && in.Long) {
					return false
				}
			}
		}
	}
	return true
}

// newLane makes the lane of inputs.
func (q *Queue) newLane(inputs []*tensor.Tensor, length int) (*lane, error) {
	l := &lane{q: q, length: length, inputs: make([]Output, len(inputs)), memories: make([][]*memory, len(q.o.Buckets)),
		times: make([]time.Duration, len(q.o.Buckets))}
	shapes := make([][]int, len(inputs))
	for i, t := range inputs {
		if t == nil {
			continue
		}
		in := Output{DType: t.DType, Shape: slices.Clone(t.Shape), Long: q.o.Long != nil && q.o.Long[i]}
		if in.Long {
			in.Shape[1] = length
		}
		l.inputs[i], shapes[i] = in, in.Shape
	}
	var err error
	l.outputs, err = q.o.Outputs(shapes)
	return l, err
}

// add keeps a lane. Of more than Options.Lanes those go that were used longest ago and that no call is in. It is called with mu held.
func (q *Queue) add(l *lane) {
	for i := len(q.lanes) - 1; i >= 0 && len(q.lanes) >= q.o.Lanes; i-- {
		if q.lanes[i].uses == 0 {
			q.lanes = slices.Delete(q.lanes, i, i+1)
		}
	}
	q.lanes = slices.Insert(q.lanes, 0, l)
}

// take returns kept memory for a run, nil where there is none. It is called with mu held.
func (l *lane) take(bucket int) *memory {
	list := l.memories[bucket]
	if len(list) == 0 {
		return nil
	}
	m := list[len(list)-1]
	l.memories[bucket] = list[:len(list)-1]
	return m
}

// give keeps memory. It is called with mu held.
func (l *lane) give(bucket int, m *memory) {
	if m != nil && !l.q.closed {
		l.memories[bucket] = append(l.memories[bucket], m)
	}
}

// tensors makes tensors of types, with so many rows.
func tensors(types []Output, rows int) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(types))
	for i, t := range types {
		if !t.DType.Valid() {
			continue
		}
		x, err := tensor.New(t.DType, append([]int{rows}, t.Shape[1:]...)...)
		if err != nil {
			return nil, err
		}
		out[i] = x
	}
	return out, nil
}

// fill makes what a memory lacks.
func (l *lane) fill(m *memory, rows int) (err error) {
	if m.in == nil {
		m.in, err = tensors(l.inputs, rows)
	}
	if err == nil && m.out == nil {
		m.out, err = tensors(l.outputs, rows)
	}
	return err
}

// copyRows copies n rows of src, from row first on, to those of dst from row at on; both are compact and on the host, with the same
// dims but for the first and, where it is padded or cut, axis 1. What is padded is zeros.
func copyRows(dst *tensor.Tensor, at int, src *tensor.Tensor, first, n int) {
	d, s := rowLen(dst), rowLen(src)
	if dst.DType == tensor.String {
		copyRuns(dst.Strings, at, d, src.Strings, first, s, n)
		return
	}
	size := dst.DType.Bits()
	copyRuns(dst.Data[dst.Offset:], at, d*size/8, src.Data[src.Offset:], first, s*size/8, n)
}

func copyRuns[T any](dst []T, at, d int, src []T, first, s, n int) {
	if d == s {
		copy(dst[at*d:(at+n)*d], src[first*s:(first+n)*s])
		return
	}
	for i := range n {
		to := dst[(at+i)*d : (at+i+1)*d]
		clear(to[copy(to, src[(first+i)*s:(first+i+1)*s]):])
	}
}

// rowLen returns the number of elements of a row.
func rowLen(t *tensor.Tensor) int {
	n := 1
	for _, d := range t.Shape[1:] {
		n *= d
	}
	return n
}
