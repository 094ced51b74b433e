package oipgrpc

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/serve"
)

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
	m, ok := v.(readable)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	data.Ref()
	from := arrived(data)
	defer from.free()
	return m.read(from)
}

// wire is a small message in the wire format.
type wire []byte

// small is a small message to be read as a whole.
type small struct{ b []byte }

// maxSmall bounds messages that carry no tensors nor files.
const maxSmall = 64 << 10

func (m *small) read(from *message) error {
	if from.rest() > maxSmall {
		return oip.Errorf(oip.TooLarge, "the message has %d bytes, at most %d are taken", from.rest(), maxSmall)
	}
	var err error
	m.b, err = from.all()
	return err
}

// large is a message that may carry files.
type large struct{ b []byte }

func (m *large) read(from *message) error {
	var err error
	m.b, err = from.all()
	return err
}

func (m *large) admit(*serve.Admission) {}

func (m *large) size() int64 { return int64(len(m.b)) }

// parts is a message whose tensors are where they are.
type parts struct{ list mem.BufferSlice }
