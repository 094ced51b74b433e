package oipgrpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/graph/tensor"
)

// Client asks a server over gRPC. It is safe for concurrent use.
type Client struct{ conn grpc.ClientConnInterface }

// NewClient returns a client on a connection, which stays the caller's.
func NewClient(conn grpc.ClientConnInterface) *Client { return &Client{conn} }

// Sizes, in bytes. A message of hundreds of kilobytes goes out in an eighth of the writes that grpc-go's own size takes, and comes in by half
// of the reads: the memory is held while there is something to write or to read. grpc-go says that there is room again when a quarter of a
// window has been read; with windows of 1 MiB it does so twice within such a message, for which a thread of the sender's is woken at each of
// them, while it sends. A window of 2 MiB has that once. Messages of 602 kB take three quarters of the time so.
const (
	writeBuffer  = 256 << 10
	readBuffer   = 64 << 10
	streamWindow = 2 << 20
	connWindow   = 8 << 20
)

// DialOptions returns what a grpc.ClientConn wants for tensors: windows in which those of megabytes fit, few writes, and no limit on their
// size.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithWriteBufferSize(writeBuffer), grpc.WithReadBufferSize(readBuffer), grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		experimental.WithBufferPool(&buffers),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<31-1), grpc.MaxCallSendMsgSize(1<<31-1)),
	}
}

var callOptions = []grpc.CallOption{grpc.ForceCodecV2(ours), grpc.MaxCallRecvMsgSize(1<<31 - 1), grpc.MaxCallSendMsgSize(1<<31 - 1)}

// Infer asks for a model's outputs. Errors are gRPC's statuses.
func (c *Client) Infer(ctx context.Context, r *oip.Request) (*oip.Response, error) {
	in, err := encodeRequest(r)
	if err != nil {
		return nil, err
	}
	var out response
	err = c.conn.Invoke(ctx, "/inference.GRPCInferenceService/ModelInfer", &parts{in}, &out, callOptions...)
	return &out.Response, err
}

// encodeRequest returns a ModelInferRequest.
func encodeRequest(r *oip.Request) (mem.BufferSlice, error) {
	var several [4][]byte // most have no more inputs
	raws := several[:0]
	for _, in := range r.Inputs {
		raw, err := oip.Raw(in.Tensor)
		if err != nil {
			return nil, err
		}
		raws = append(raws, raw)
	}
	b := appendText(room(raws), 1, r.Model)
	b = appendText(b, 2, r.Version)
	b = appendText(b, 3, r.ID)
	add := func(to []byte, number protowire.Number, name string, field protowire.Number, v uint64) []byte {
		m := protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), v)
		return appendMessage(to, number, appendMessage(appendText(nil, 1, name), 2, m))
	}
	if r.Priority > 0 {
		b = add(b, 4, "priority", 5, r.Priority)
	}
	if r.Timeout > 0 {
		b = add(b, 4, "timeout", 2, uint64(r.Timeout/time.Microsecond))
	}
	if r.Sequence != (oip.SequenceID{}) {
		if r.Sequence.Text != "" {
			b = appendMessage(b, 4, appendMessage(appendText(nil, 1, "sequence_id"), 2, appendText(nil, 3, r.Sequence.Text)))
		} else {
			b = add(b, 4, "sequence_id", 2, r.Sequence.Number)
		}
		b = add(b, 4, "sequence_start", 1, protowire.EncodeBool(r.Start))
		b = add(b, 4, "sequence_end", 1, protowire.EncodeBool(r.End))
	}
	for _, in := range r.Inputs {
		datatype, _ := oip.Datatype(in.Tensor.DType)
		var room [64]byte // most inputs' metadata fit
		m := appendShape(appendText(appendText(room[:0], 1, in.Name), 2, datatype), 3, in.Tensor.Shape)
		b = appendMessage(b, 5, m)
	}
	for _, o := range r.Outputs {
		m := appendText(nil, 1, o.Name)
		if o.Classes > 0 {
			m = add(m, 2, "classification", 2, uint64(o.Classes))
		}
		b = appendMessage(b, 6, m)
	}
	return join(b, raws, 7), nil
}

// response is a ModelInferResponse.
type response struct{ oip.Response }

// read implements readable.
func (r *response) read(m *message) error {
	whole, err := m.all()
	if err != nil {
		return err
	}
	var few [4]input // most have no more outputs
	var fewRaws [4][]byte
	outputs, raws := few[:0], fewRaws[:0]
	err = fields(whole, func(number protowire.Number, v value) error {
		switch number {
		case 1:
			r.Model = string(v.b)
		case 2:
			r.Version = string(v.b)
		case 3:
			r.ID = string(v.b)
		case 5:
			o, err := (&call{}).input(input{}, v.b)
			outputs = append(outputs, o)
			return err
		case 6:
			raws = append(raws, v.b)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.Outputs = make([]oip.Named, 0, len(outputs))
	for i, o := range outputs {
		if i >= len(raws) {
			return oip.Errorf(oip.Unknown, "output %q has no raw contents", o.name)
		}
		dt, err := oip.DType(o.datatype)
		if err != nil {
			return err
		}
		shape, n, err := oip.Shape(o.name, o.shape, int64(len(raws[i])))
		if err != nil {
			return err
		}
		t := &tensor.Tensor{DType: dt, Shape: shape, Data: raws[i]}
		if dt == tensor.String {
			t.Data = nil
			if t.Strings, err = oip.ParseStrings(o.name, raws[i], n); err != nil {
				return err
			}
		}
		if err := t.Check(); err != nil {
			return err
		}
		r.Outputs = append(r.Outputs, oip.Named{Name: o.name, Tensor: t})
	}
	return nil
}
