package plugin

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

// Storage of the host that a plugin's process does not see is copied to memory that it sees, and results are copied back. What
// lies in that memory from the start, as arenas do by default (Backend.Shared), is not copied.

// loan is host memory that a plugin has for a call, or for work that a call queues.
type loan struct {
	on     *stream // that the work is put on; nil where it is over with the call
	copies []lentCopy
}

type lentCopy struct {
	from, copy []byte
	back       bool
}

// lend returns the address for the plugin of host memory, which it writes where written is set.
func (x *loan) lend(w *writer, b []byte, written bool) uintptr {
	if w.sees(b) {
		return address(first(b))
	}
	if !written && x.on != nil {
		return x.on.stage(w, b)
	}
	c := many[byte](w, len(b))
	copy(c, b) // also where it is written: perhaps not all of it is
	x.copies = append(x.copies, lentCopy{b, c, written})
	return address(&c[0])
}

// settle waits for work on the stream where it writes to copies, and copies back what was written.
func (x *loan) settle() error {
	if x.on != nil && x.on.staged > mostStaged {
		return x.on.drain(context.Background())
	}
	if len(x.copies) == 0 {
		return nil
	}
	if x.on != nil {
		if err := x.on.drain(context.Background()); err != nil {
			return err
		}
	}
	for _, c := range x.copies {
		if c.back {
			copy(c.from, c.copy)
		}
	}
	return nil
}

// mostStaged bounds the bytes that lie in memory of a stream's until its work is done.
const mostStaged = 16 << 20

// stage returns the address for the plugin of a copy of host memory, which stays there until the work on the stream is done.
func (s *stream) stage(w *writer, b []byte) uintptr {
	if s.staging.region == nil {
		s.staging.region = w.region
	}
	at := &writer{page: &s.staging}
	c := many[byte](at, len(b))
	if w.err == nil {
		w.err = at.err
	}
	copy(c, b)
	s.staged += len(b)
	return address(&c[0])
}

// unstage gives back what was staged, when the work is done or lost.
func (s *stream) unstage() {
	s.staging.reset()
	s.staged = 0
}

// sees reports whether the plugin sees memory of the host.
func (w *writer) sees(b []byte) bool {
	return len(b) == 0 || w.proc == nil || w.page.region.Contains(b)
}

// constant returns the address for the plugin of a constant's content, which stays there as long as the page, or w.keep.
func (w *writer) constant(b []byte) uintptr {
	if w.sees(b) || w.err != nil {
		return address(first(b))
	}
	to := w
	if w.keep != nil {
		if c, ok := w.keep.copies[first(b)]; ok && len(c) >= len(b) {
			return address(&c[0])
		}
		to = &writer{page: w.keep}
	}
	c := many[byte](to, len(b))
	if w.err = to.err; w.err != nil {
		return 0
	}
	copy(c, b)
	if w.keep != nil {
		if w.keep.copies == nil {
			w.keep.copies = map[*byte][]byte{}
		}
		w.keep.copies[first(b)] = c
	}
	return address(&c[0])
}

// lend points an operand of a run at a copy of t's storage, where the plugin does not see that.
func (w *writer) lend(o *operand, t *tensor.Tensor, u use) error {
	o.to = nil
	if w.sees(t.Data) {
		return nil
	}
	n := extent(o, t)
	if n > int64(len(t.Data)-t.Offset) {
		return fmt.Errorf("%w: an operand of %d bytes has %d", ErrPlugin, n, len(t.Data)-t.Offset)
	}
	if int64(len(o.copy)) < n {
		o.copy = many[byte](w, int(n))
	}
	if u == reads {
		copy(o.copy, t.Data[t.Offset:][:n])
	}
	o.data, o.byteOffset = address(first(o.copy)), 0
	if u == writes {
		o.to = t
	}
	return w.err
}

// extent returns the bytes from element 0 of an operand to its end.
func extent(o *operand, t *tensor.Tensor) int64 {
	if t.Strides == nil {
		return max(o.size, int64(t.NumBytes()))
	}
	last := 0
	for i, d := range t.Shape {
		if d == 0 {
			return 0
		}
		last += (d - 1) * t.Strides[i]
	}
	return int64(t.DType.Bytes(last + 1))
}

// fill copies results of a run that is over to where they belong.
func (s *session) fill() { fill(s.outputs) }

func fill(outputs []operand) {
	for i := range outputs {
		o := &outputs[i]
		if o.to == nil {
			continue
		}
		to := o.to.Data[o.to.Offset:]
		if o.to.Strides == nil {
			copy(to, o.copy[:extent(o, o.to)])
		} else {
			fillRows(to, o.copy, o.to.Shape, o.to.Strides, o.to.DType.Bytes(1))
		}
		o.to = nil
	}
}

// fillRows copies elements between two tensors with the same strides, and nothing that lies between them.
func fillRows(dst, src []byte, shape, strides []int, element int) {
	if len(shape) == 0 {
		copy(dst[:element], src)
		return
	}
	n, step := shape[0], strides[0]*element
	if len(shape) == 1 && strides[0] == 1 {
		copy(dst[:n*element], src)
		return
	}
	for i := range n {
		fillRows(dst[i*step:], src[i*step:], shape[1:], strides[1:], element)
	}
}

// wrote notes what a run writes in memory of the processor's own.
func (s *session) wrote(a *backend.RunArgs) {
	for i, t := range a.Outputs {
		if t == nil || t.Device.IsHost() {
			continue
		}
		if p := s.in.e.b.p.l.opened(t.Device); p != nil {
			s.w.wrote(p, t.Handle, int64(t.Offset), s.outputs[i].size)
		}
	}
}
