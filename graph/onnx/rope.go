package onnx

import (
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// rope is a message under construction: pieces of bytes, large ones by reference.
type rope struct {
	pieces [][]byte
	own    []byte // the last piece, which may grow
	n      int
}

// add appends bytes, which are copied.
func (r *rope) add(b []byte) {
	r.own = append(r.own, b...)
	r.n += len(b)
}

// refer appends bytes by reference.
func (r *rope) refer(b []byte) {
	const worth = 1 << 10
	if len(b) < worth {
		r.add(b)
		return
	}
	r.close()
	r.pieces = append(r.pieces, b)
	r.n += len(b)
}

func (r *rope) close() {
	if len(r.own) > 0 {
		r.pieces = append(r.pieces, r.own)
		r.own = nil
	}
}

// message appends a field that holds the message m.
func (r *rope) message(num protowire.Number, m *rope) {
	r.head(num, m.n)
	m.close()
	for _, p := range m.pieces {
		r.refer(p)
	}
}

// head appends tag and length of a field of n bytes.
func (r *rope) head(num protowire.Number, n int) {
	before := len(r.own)
	r.own = protowire.AppendTag(r.own, num, protowire.BytesType)
	r.own = protowire.AppendVarint(r.own, uint64(n))
	r.n += len(r.own) - before
}

func (r *rope) bytes(num protowire.Number, b []byte) {
	r.head(num, len(b))
	r.add(b)
}

// str appends a string field; an empty one is left out.
func (r *rope) str(num protowire.Number, s string) {
	if s != "" {
		r.always(num, s)
	}
}

// always appends a string field, empty or not: elements of repeated fields.
func (r *rope) always(num protowire.Number, s string) {
	r.head(num, len(s))
	r.own = append(r.own, s...)
	r.n += len(s)
}

func (r *rope) int(num protowire.Number, v int64) {
	before := len(r.own)
	r.own = protowire.AppendTag(r.own, num, protowire.VarintType)
	r.own = protowire.AppendVarint(r.own, uint64(v))
	r.n += len(r.own) - before
}

func (r *rope) fixed32(num protowire.Number, v uint32) {
	r.own = protowire.AppendTag(r.own, num, protowire.Fixed32Type)
	r.own = protowire.AppendFixed32(r.own, v)
	r.n += protowire.SizeTag(num) + 4
}

// WriteTo writes the pieces.
func (r *rope) WriteTo(w io.Writer) (n int64, err error) {
	r.close()
	for _, p := range r.pieces {
		k, err := w.Write(p)
		n += int64(k)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
