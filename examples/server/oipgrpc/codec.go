package oipgrpc

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// readable is a message that is read from the wire; data are freed afterwards.
type readable interface {
	read(data mem.BufferSlice) error
}

// codec reads and writes the messages of this package, and leaves all others to protobuf.
type codec struct{ encoding.CodecV2 }

var ours = codec{encoding.GetCodecV2(proto.Name)}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *parts:
		return m.list, nil
	case wire:
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *large:
		m.b = data.Materialize()
		return nil
	case readable:
		return m.read(data)
	}
	return c.CodecV2.Unmarshal(data, v)
}

// wire is a small message in the wire format.
type wire []byte

// small is a small message to be read as a whole.
type small struct{ b []byte }

// maxSmall bounds messages that carry no tensors nor files.
const maxSmall = 1 << 20

func (m *small) read(data mem.BufferSlice) error {
	if data.Len() > maxSmall {
		return fmt.Errorf("the message has %d bytes, at most %d are taken", data.Len(), maxSmall)
	}
	m.b = data.Materialize()
	return nil
}

// large is a message that may carry files.
type large struct{ small }

// parts is a message whose tensors are where they are.
type parts struct{ list mem.BufferSlice }
