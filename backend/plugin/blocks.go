package plugin

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// memory is a block of a processor's own memory. Where the plugin has a process of its own, the block is made again in each
// life in which it is used: constants with their content, of which a copy is kept; from others nothing may be read then that
// has not been written in that life.
type memory struct {
	at   handle
	size int64

	saved   []byte // the content, of a constant
	again   bool   // it was made again
	written []span // since then, ascending, no two touching
}

// span is a range of bytes, half-open.
type span struct{ from, to int64 }

// add adds a span to an ascending list.
func add(list []span, s span) []span {
	i, _ := slices.BinarySearchFunc(list, s, func(a, b span) int { return int(min(max(a.to-b.from, -1), 1)) })
	j := i
	for ; j < len(list) && list[j].from <= s.to; j++ {
		s = span{min(s.from, list[j].from), max(s.to, list[j].to)}
	}
	return slices.Replace(list, i, j, s)
}

// covers reports whether a list has all of a span.
func covers(list []span, s span) bool {
	for _, x := range list {
		if x.from <= s.from && s.to <= x.to {
			return true
		}
	}
	return s.from >= s.to
}

// place returns the plugin's handle of a block, for the life that is written for; 0 for none, which tensors without elements have.
func (w *writer) place(p *processor, h uintptr) uint64 {
	if w.proc == nil || w.err != nil || h == 0 {
		return uint64(h)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.blocks[h]
	if b == nil {
		w.err = fmt.Errorf("%w: no block %#x of %s", device.ErrBounds, h, p.info.Name)
		return 0
	}
	if b.at.life != w.life {
		w.err = w.again(p, b)
	}
	return b.at.word
}

// again makes a block again, with the processor's lock held.
func (w *writer) again(p *processor, b *memory) error {
	fresh, err := p.alloc(w, b.size)
	if err != nil {
		return err
	}
	if b.saved != nil {
		if err := p.restore(w, fresh.at, b.saved, copyTo); err != nil {
			return err
		}
	}
	b.at, b.again, b.written = fresh.at, true, nil
	return nil
}

// restore copies the content of a whole block to or from the host, at once.
func (p *processor) restore(w *writer, at handle, content []byte, kind uint32) error {
	c := one[cCopy](w)
	*c = cCopy{size: uint32(structSize(*c)), kind: kind, bytes: uint64(len(content))}
	lent := loan{}
	if kind == copyTo {
		c.dst, c.src = at.word, uint64(lent.lend(w, content, false))
	} else {
		c.src, c.dst = at.word, uint64(lent.lend(w, content, true))
	}
	copies := list(w, []uintptr{address(c)})
	if err := p.do(w, "copy", p.l.table.copy, p.handle(), copies, 1, 0); err != nil {
		return err
	}
	return lent.settle()
}

// placeOf is place for a block of which bytes are read: they have to be there.
func (w *writer) placeOf(p *processor, h uintptr, off, n int64) uint64 {
	real := w.place(p, h)
	if w.proc == nil || w.err != nil {
		return real
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.blocks[h]; b != nil && b.again && b.saved == nil && !covers(b.written, span{off, off + n}) {
		w.err = &ProcessError{Plugin: p.l.name, Function: reading, Reason: fmt.Sprintf("had written bytes %d to %d of block %d, and is another one now",
			off, off+n, h), cause: ErrLost}
	}
	return real
}

// wrote notes that bytes of a block are written.
func (w *writer) wrote(p *processor, h uintptr, off, n int64) {
	if w.proc == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.blocks[h]; b != nil && b.again && b.at.life == w.life {
		b.written = add(b.written, span{off, off + n})
	}
}

// save keeps the content of a constant that lies in a processor's memory, for the next life.
func (w *writer) save(t *tensor.Tensor) {
	p := w.l.opened(t.Device)
	if p == nil || w.err != nil {
		return
	}
	w.placeOf(p, t.Handle, int64(t.Offset), 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.blocks[t.Handle]
	if b == nil || b.saved != nil || w.err != nil {
		return
	}
	content := make([]byte, b.size)
	if w.err = p.restore(w, b.at, content, copyFrom); w.err == nil {
		b.saved = content
	}
}
