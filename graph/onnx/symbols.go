package onnx

import (
	"hash/maphash"
	"strings"

	"github.com/carve-dev/carve/internal/wire"
)

// symbols numbers the names of one graph or function body: 0 is the empty name, others follow in the order in which they
// appear. A name costs one entry here, and everything that is known by name is a slice then.
type symbols struct {
	names []string
	text  *text
	table []symbolSlot // open addressing, a power of two; at most 3/4 are in use
}

// symbolSlot is a name's number and the upper bits of its hash, which spare most comparisons; number 0 is a free slot.
type symbolSlot struct {
	hash   uint32
	number int32
}

var symbolSeed = maphash.MakeSeed()

// newSymbols returns an empty table with room for n names.
func newSymbols(n int, t *text) *symbols {
	s := &symbols{names: make([]string, 1, n+1), text: t}
	size := 16
	for size/4*3 < n {
		size *= 2
	}
	s.table = make([]symbolSlot, size)
	return s
}

// number returns the number of a name, which is new where it was not seen before.
func (s *symbols) number(name []byte) int32 {
	if len(name) == 0 {
		return 0
	}
	h := maphash.Bytes(symbolSeed, name)
	mask := uint64(len(s.table) - 1)
	upper := uint32(h >> 32)
	i := h & mask
	for ; s.table[i].number != 0; i = (i + 1) & mask {
		if e := s.table[i]; e.hash == upper && s.names[e.number] == string(name) {
			return e.number
		}
	}
	n := int32(len(s.names))
	s.names = append(s.names, s.text.keep(name))
	s.table[i] = symbolSlot{upper, n}
	if len(s.names) > len(s.table)/4*3 {
		s.grow()
	}
	return n
}

// grow doubles the table. The lower bits of the hashes are not kept; they are computed again.
func (s *symbols) grow() {
	old := s.table
	s.table = make([]symbolSlot, 2*len(old))
	mask := uint64(len(s.table) - 1)
	for _, e := range old {
		if e.number == 0 {
			continue
		}
		i := maphash.String(symbolSeed, s.names[e.number]) & mask
		for s.table[i].number != 0 {
			i = (i + 1) & mask
		}
		s.table[i] = e
	}
}

// text keeps strings, many of them in one allocation.
type text struct{ b strings.Builder }

// textChunk is the size in bytes of an allocation of text.
const textChunk = 8 << 10

// keep returns b as a string of its own.
func (t *text) keep(b []byte) string {
	if len(b) > textChunk/8 {
		return string(b)
	}
	if t.b.Cap()-t.b.Len() < len(b) {
		t.b = strings.Builder{}
		t.b.Grow(textChunk)
	}
	from := t.b.Len()
	t.b.Write(b)
	return t.b.String()[from:]
}

// words are short strings that come often, each kept once.
type words map[string]string

// of sets dst to the content of a field, the same string for the same bytes.
func (w words) of(f wire.Field, dst *string) error {
	var b []byte
	if err := f.Bytes(&b); err != nil {
		return err
	}
	s, ok := w[string(b)]
	if !ok {
		s = string(b)
		w[s] = s
	}
	*dst = s
	return nil
}
