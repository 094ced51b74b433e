package exec

import (
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
)

// What a run holds beside its arenas is counted as well, where MaxArenaBytes or a limit on the host bounds it: results whose shape depends on data,
// sequences and maps, the state of loops and what they collect, and what reference kernels work in. It lies in Go's memory,
// which is freed some time after nobody refers to it; what is counted is what is referred to. Items that several sequences
// share are counted in each.

// claim counts n more bytes, or -n fewer. An error says that they are more than the session may have, or than there are. It is
// safe for concurrent use.
func (s *Session) claim(n int64) error {
	if n > 0 && !offheap.Fits(n) {
		if err := s.m.isThere(n); err != nil {
			return err
		}
	}
	if !s.m.bounded() {
		return nil
	}
	s.beside.Add(n)
	var err error
	for tried := false; n > 0; tried = true {
		if err = s.fitsSum(n, s.held.Load()+s.beside.Load()-n); err == nil || tried || !s.dropOthers() {
			break
		}
	}
	if err == nil {
		err = s.m.spaces[tensor.DeviceID{}].Reserve(n)
	}
	if err != nil {
		s.beside.Add(-n)
	}
	return err
}

// counted returns what a value takes. Where nothing bounds it that is looked at only for tensors, which need no walk.
func (s *Session) counted(v tensor.Value) int64 {
	if !s.m.bounded() {
		if t, ok := v.(*tensor.Tensor); ok && t != nil {
			return int64(t.NumBytes()) // which may be more than there is
		}
		return 0
	}
	return valueBytes(v)
}

// valueBytes is what a value takes.
func valueBytes(v tensor.Value) int64 {
	const header = 64 // what describes a value, about
	n := int64(header)
	switch v := v.(type) {
	case *tensor.Tensor:
		if v == nil {
			return 0
		}
		n += int64(v.NumBytes())
		for _, s := range v.Strings {
			n += 16 + int64(len(s))
		}
	case *tensor.Sequence:
		for _, item := range v.Items {
			n += valueBytes(item)
		}
	case *tensor.Optional:
		n += valueBytes(v.Item)
	case *tensor.Map:
		n += 8 * int64(len(v.IntKeys))
		for _, s := range v.StringKeys {
			n += 16 + int64(len(s))
		}
		n += valueBytes(v.Values)
	default:
		return 0
	}
	return n
}

// tally is a part of what a session has claimed, which ends as a whole.
type tally struct {
	s *Session
	n int64
}

// add claims n more bytes.
func (t *tally) add(n int64) error {
	if err := t.s.claim(n); err != nil {
		return err
	}
	t.n += n
	return nil
}

// replace claims what values take instead of what the tally had.
func (t *tally) replace(values []tensor.Value) error {
	var n int64
	for _, v := range values {
		n += t.s.counted(v)
	}
	return t.add(n - t.n)
}

// end gives back all of it.
func (t *tally) end() { _ = t.s.claim(-t.n) }

// hold claims n bytes for what a slot gets, instead of what it had.
func (f *frame) hold(slot int, n int64) error {
	if f.beside == nil {
		f.beside = make([]int64, len(f.s.block.Slots))
	}
	if err := f.session.claim(n - f.beside[slot]); err != nil {
		return err
	}
	f.beside[slot] = n
	return nil
}

// drop lets go of what slots hold beside the arenas: a run is over, and its results were copied.
func (f *frame) drop() {
	f.empty()
	f.session.store.end()
}

func (f *frame) empty() {
	clear(f.filled)
	f.zipped = nil
	for slot, n := range f.beside {
		if n == 0 {
			continue
		}
		f.beside[slot] = 0
		_ = f.session.claim(-n)
		f.values[slot] = nil
		if t := &f.tensors[slot]; t.Device.IsHost() {
			t.Data, t.Strings = nil, nil
		}
	}
	for slot := range f.mine {
		f.letGo(&f.mine[slot])
	}
	for _, list := range f.inner {
		for _, g := range list {
			g.empty()
		}
	}
}
