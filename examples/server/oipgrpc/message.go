package oipgrpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// counter counts bytes of a request before they are allocated; see serve.Admission.
type counter interface {
	Reserve(n int64) error // of the message
	Hold(n int64) error    // beside it
}

// arriving is a stream of a grpc-go server, from which a message can be read by parts.
type arriving interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
	RecvCompress() string
}

// Bounds of what is read of a message at a time. A part is a quarter of what has been read before it, so that clients far away, who send no more
// than they are told that there is room for, are told of more with each part of a large message.
const (
	minPart = 64 << 10
	maxPart = 4 << 20
)

// unseen is how many bytes are allocated for what is announced, before any of it is there. Of more than that a quarter has to be there first:
// a header of a few bytes may say anything.
const unseen = 1 << 20

// message reads a message that is still on the way, by parts: what has arrived is taken before more is let in, and counted before it arrives. It
// frees the buffers of the network as it goes.
type message struct {
	from  arriving // nil where all is there
	count counter  // nil where nobody counts
	ahead *ahead   // of the transport; nil for one that does not read ahead

	left    int // bytes that have not arrived
	taken   int // bytes that have
	counted int // of those that have not

	have  mem.BufferSlice // what has arrived and has not been read
	at    int             // where in the first of them
	there int             // bytes of it
}

// arrived returns a message that is there. It takes over data.
func arrived(data mem.BufferSlice) *message { return &message{have: data, there: data.Len()} }

// rest returns how many bytes are to be read.
func (m *message) rest() int { return m.there + m.left }

// free gives back what has not been read.
func (m *message) free() {
	m.have.Free()
	m.have, m.there, m.left = nil, 0, 0
}

// believe counts n bytes that are about to be allocated for what comes next, once enough of that is there.
func (m *message) believe(n int) error {
	if n > m.rest() {
		return fmt.Errorf("%w: %d bytes are announced, %d are left", errWire, n, m.rest())
	}
	for n > unseen && m.there < n/4 {
		if err := m.part(); err != nil {
			return err
		}
	}
	return m.reserve(n - m.there)
}

// reserve counts so many bytes of those that have not arrived.
func (m *message) reserve(n int) error {
	if m.count == nil || n <= m.counted {
		return nil
	}
	if err := m.count.Reserve(int64(n - m.counted)); err != nil {
		return &failure{err}
	}
	m.counted = n
	return nil
}

// failure is an error that is none of the message's form: what comes is not counted any more, or does not come.
type failure struct{ error }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.error }

// part has some more arrive.
func (m *message) part() error {
	n := min(m.left, max(minPart, min(m.taken/4, maxPart)))
	if n == 0 {
		return fmt.Errorf("%w: %w", errWire, io.ErrUnexpectedEOF)
	}
	if err := m.reserve(n); err != nil {
		return err
	}
	m.ahead.allow(n)
	data, err := m.from.Read(n)
	if err != nil {
		return &failure{err}
	}
	m.left, m.taken, m.there = m.left-n, m.taken+n, m.there+n
	m.counted = max(m.counted-n, 0)
	if len(m.have) == 0 {
		m.have = data
	} else {
		m.have = append(m.have, data...)
	}
	return nil
}

// first returns what has arrived, up to the end of a buffer of the network; it is not empty.
func (m *message) first() ([]byte, error) {
	for {
		if len(m.have) == 0 {
			if err := m.part(); err != nil {
				return nil, err
			}
		}
		if b := m.have[0].ReadOnlyData()[m.at:]; len(b) > 0 {
			return b, nil
		}
		m.have[0].Free()
		m.have, m.at = m.have[1:], 0
	}
}

// skip passes n bytes of those that first has returned.
func (m *message) skip(n int) {
	m.at, m.there = m.at+n, m.there-n
	if m.at == m.have[0].Len() {
		m.have[0].Free()
		m.have, m.at = m.have[1:], 0
	}
}

// fill reads as many bytes as b has, which the message has to have.
func (m *message) fill(b []byte) error {
	for len(b) > 0 {
		from, err := m.first()
		if err != nil {
			return err
		}
		n := copy(b, from)
		m.skip(n)
		b = b[n:]
	}
	return nil
}

// discard passes n bytes, which the message has to have.
func (m *message) discard(n int) error {
	for n > 0 {
		b, err := m.first()
		if err != nil {
			return err
		}
		k := min(n, len(b))
		m.skip(k)
		n -= k
	}
	return nil
}

// Read implements io.Reader.
func (m *message) Read(b []byte) (int, error) {
	if m.rest() == 0 {
		return 0, io.EOF
	}
	from, err := m.first()
	if err != nil {
		return 0, err
	}
	n := copy(b, from)
	m.skip(n)
	return n, nil
}

// ReadByte implements io.ByteReader.
func (m *message) ReadByte() (byte, error) {
	if m.rest() == 0 {
		return 0, io.EOF
	}
	b, err := m.first()
	if err != nil {
		return 0, err
	}
	c := b[0]
	m.skip(1)
	return c, nil
}

// all reads what is left.
func (m *message) all() ([]byte, error) {
	n := m.rest()
	if err := m.believe(n); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	return b, m.fill(b)
}

// varint reads a number. Where the message ends within it, that is an error of the message's form.
func (m *message) varint() (uint64, error) {
	u, err := binary.ReadUvarint(m)
	if err != nil && !errors.As(err, new(*failure)) {
		err = fmt.Errorf("%w: %w", errWire, err)
	}
	return u, err
}

// tag reads the number and kind of a field.
func (m *message) tag() (protowire.Number, protowire.Type, error) {
	u, err := m.varint()
	if err != nil {
		return 0, 0, err
	}
	number, kind := protowire.DecodeTag(u)
	if number < protowire.MinValidNumber {
		return 0, 0, fmt.Errorf("%w: field %d", errWire, number)
	}
	return number, kind, nil
}

// length reads a length that the rest of the message has.
func (m *message) length() (int, error) {
	u, err := m.varint()
	if err != nil {
		return 0, err
	}
	if u > uint64(m.rest()) {
		return 0, fmt.Errorf("%w: %d bytes are announced, %d are left", errWire, u, m.rest())
	}
	return int(u), nil
}

// pass passes a field that is not known; groups, which the protocol does not have, are errors.
func (m *message) pass(number protowire.Number, kind protowire.Type) error {
	n := 0
	switch kind {
	case protowire.VarintType:
		_, err := m.varint()
		return err
	case protowire.Fixed32Type:
		n = 4
	case protowire.Fixed64Type:
		n = 8
	default:
		return fmt.Errorf("%w: field %d is of wire type %d", errWire, number, kind)
	}
	if n > m.rest() {
		return fmt.Errorf("%w: %w", errWire, io.ErrUnexpectedEOF)
	}
	return m.discard(n)
}
