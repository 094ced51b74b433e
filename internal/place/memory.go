// Package place says where the values of a subgraph lie while it runs, for backends that turn nodes into steps one after
// the other: in the group's inputs, outputs and constants, in memory of the planner's own, or in buffers of the arena. What
// it finds becomes the backend.Requirements from which the memory of the whole program is planned.
//
// A Plan is made for concrete shapes. The backend goes through it with Each, asks In and Out for the places of operands and
// results, and notes with Step what each of its steps touches. Views lie where their operand lies, results overwrite
// operands that nobody reads any more, and operands of a concatenation are made inside of its result. At run time a Storage
// points places at a session's memory.
//
// The package imports backend and what is below it, internal/flops and internal/kernel/reorder.
package place

import (
	"errors"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

// Memory is a place: bytes [Off, Off+Size) of a slot.
type Memory struct {
	Slot int // -1: nowhere
	Off  int
	Size int
	// Row and Pitch describe strided rows, as a value has that is part of a concatenation's result: rows of Row contiguous
	// bytes, each of which begins Pitch bytes behind the one before; Size reaches from the start of the first to the end of
	// the last. Both are 0 for a contiguous value. Only kernels that have said that they take strided rows get them.
	Row, Pitch int
}

// Nowhere is the place of what is absent.
var Nowhere = Memory{Slot: -1}

// Part returns size bytes of a contiguous place, from off on.
func (m Memory) Part(off, size int) Memory { return Memory{Slot: m.Slot, Off: m.Off + off, Size: size} }

// Kind tells where the bytes of a slot come from at run time.
type Kind uint8

// The kinds of slots.
const (
	Input Kind = iota
	Output
	Const
	Buffer
	Data // the planner's own: dims, tables
)

// Slot is a piece of memory that places lie in.
type Slot struct {
	Data  []byte // of kind Data
	Index int    // of the input, output, constant or buffer
	Kind  Kind

	used        bool  // by a step
	away        bool  // steps have other memory for it
	left        int32 // operands that still read something in it
	first, last int32 // steps that touch it first and last
	least       int   // bytes that steps touch
}

// ErrShort is returned where a session's memory is smaller than planned.
var ErrShort = errors.New("storage is smaller than planned")

// Storage is where slots lie in a run. It belongs to one session.
type Storage struct {
	slots []Slot
	mem   [][]byte // by slot
}

// NewStorage returns the storage of these slots, without memory yet.
func NewStorage(slots []Slot) Storage { return Storage{slots: slots, mem: make([][]byte, len(slots))} }

// BindTo points the slots at a run's memory. It returns ErrShort where that does not hold what the steps touch.
func (s *Storage) BindTo(a *backend.RunArgs) error {
	for i := range s.slots {
		slot := &s.slots[i]
		var t *tensor.Tensor
		switch slot.Kind {
		case Input:
			t = a.Inputs[slot.Index]
		case Output:
			t = a.Outputs[slot.Index]
		case Const:
			t = a.Constants[slot.Index]
		case Buffer:
			t = a.Buffers[slot.Index]
		case Data:
			s.mem[i] = slot.Data
			continue
		}
		if t == nil || t.Offset > len(t.Data) || len(t.Data)-t.Offset < slot.least {
			if slot.least == 0 || slot.away {
				s.mem[i] = nil
				continue
			}
			return ErrShort
		}
		s.mem[i] = t.Data[t.Offset:]
	}
	return nil
}

// Unbind lets go of a run's memory, which would live as long as the session.
func (s *Storage) Unbind() { clear(s.mem) }

// Bytes returns the memory of a place, nil where there is none.
func (s *Storage) Bytes(m Memory) []byte {
	if m.Slot < 0 || m.Size == 0 {
		return nil
	}
	return s.mem[m.Slot][m.Off : m.Off+m.Size]
}

// Copy copies bytes [from, to) of a value from one place to another.
func (s *Storage) Copy(dst, src Memory, from, to int) {
	d, b := s.Bytes(dst), s.Bytes(src)
	for from < to {
		at, n := dst.Piece(from, to-from)
		of, n := src.Piece(from, n)
		copy(d[at:at+n], b[of:of+n])
		from += n
	}
}

// At returns the address of a place that is not empty.
func (s *Storage) At(m Memory) unsafe.Pointer { return unsafe.Pointer(&s.mem[m.Slot][m.Off]) }

// F32 returns the memory of a place as float32, nil where there is none.
func (s *Storage) F32(m Memory) []float32 { return Elements[float32](s.Bytes(m)) }

// Elements returns bytes as elements of T. They share memory.
func Elements[T tensor.Element](b []byte) []T {
	var z T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(z)))
}
