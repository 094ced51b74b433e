package oipgrpc

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/serve"
)

// readable is a message that is read as it comes.
type readable interface{ read(m *message) error }

// admitted is one that has a place among the server's requests while it is read and answered, since it may be large.
type admitted interface {
	readable
	admit(a *serve.Admission)
	size() int64 // of what was read
}

// receiver reads the messages of calls. grpc-go by itself reads each as a whole, up to the most that one may have, before anybody is asked: all
// that clients send at a time would be in memory. Here a call has its place among the server's requests before its message is read, and the
// message is counted as it comes.
type receiver struct {
	s      *serve.Server
	within *arrivals
}

// header is what stands before each message: whether it is compressed, and its length.
type header [5]byte

// receive reads a message of a call into in; decode is grpc-go's own way, for streams of another making. Release what is returned, nil for
// nothing, when the call has been answered. The error is io.EOF where a stream has no more messages.
func (r *receiver) receive(ctx context.Context, in any, stream bool, decode func(any) error) (*serve.Admission, error) {
	from, ok := grpc.ServerTransportStreamFromContext(ctx).(arriving)
	if !ok {
		return r.whole(ctx, in, decode)
	}
	var at *list.Element
	if !stream { // which may wait for the next message for as long as they like
		at = r.within.begin(ctx)
	}
	defer func() { r.within.end(at) }()
	var h header
	m := &message{from: from, ahead: aheadOf(ctx)}
	m.ahead.allow(len(h))
	if err := from.ReadMessageHeader(h[:]); err != nil {
		if errors.Is(err, io.EOF) && !stream {
			return nil, status.Error(codes.Internal, "the call has no message")
		}
		return nil, lost(err)
	}
	if stream {
		at = r.within.begin(ctx)
	}
	r.within.extend(at, binary.BigEndian.Uint32(h[1:]))
	a, err := r.take(m, h, in)
	if refused := (*oip.Error)(nil); stream && errors.As(err, &refused) { // the stream goes on behind the message
		m.count = nil
		if err := m.discard(m.rest()); err != nil {
			release(a)
			return nil, lost(err)
		}
	}
	m.free()
	if err == nil && !stream {
		switch err = from.ReadMessageHeader(h[:]); {
		case errors.Is(err, io.EOF):
			err = nil
		case err == nil:
			err = status.Error(codes.Internal, "the call has more than one message")
		}
	}
	if err != nil {
		release(a)
		return nil, lost(err)
	}
	return a, nil
}

func release(a *serve.Admission) {
	if a != nil {
		a.Release()
	}
}

// take reads the message behind a header.
func (r *receiver) take(m *message, h header, in any) (a *serve.Admission, err error) {
	length, limit := int64(binary.BigEndian.Uint32(h[1:])), int64(maxSmall)
	large, ok := in.(admitted)
	if ok {
		limit = r.s.MaxRequestBytes()
	}
	m.left = int(length)
	if length > limit {
		return nil, oip.Errorf(oip.TooLarge, "the message has %d bytes, at most %d are taken", length, limit)
	}
	if ok {
		if a, err = r.s.Admit(); err != nil {
			return nil, err
		}
		m.count = a
		large.admit(a)
	}
	switch {
	case h[0] == 0:
	case h[0] != 1:
		return a, status.Errorf(codes.Internal, "the message has flags %d", h[0])
	default:
		plain, err := m.inflated(limit)
		if err != nil {
			return a, err
		}
		defer plain.free()
		m = plain
	}
	if to, ok := in.(readable); ok {
		return a, to.read(m)
	}
	b, err := m.all()
	if err != nil {
		return a, err
	}
	return a, ours.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, in)
}

// inflatedPart is how much is decompressed at a time.
const inflatedPart = 32 << 10

// inflated returns a compressed message as it was before. It is all there, and counts twice, since tensors are copied out of it.
func (m *message) inflated(limit int64) (*message, error) {
	name := m.from.RecvCompress()
	c := encoding.GetCompressor(name)
	if c == nil {
		return nil, status.Errorf(codes.Unimplemented, "messages compressed by %.40q are not taken", name)
	}
	count := m.count
	m.count = nil // what has been decompressed is counted instead
	z, err := c.Decompress(m)
	if err != nil {
		return nil, err
	}
	if closer, ok := z.(io.Closer); ok {
		defer func() { _ = closer.Close() }()
	}
	out := &message{}
	for more := true; more && err == nil; {
		b := buffers.Get(inflatedPart)
		var n int
		for n < len(*b) && err == nil {
			var k int
			k, err = z.Read((*b)[n:])
			n += k
		}
		if errors.Is(err, io.EOF) {
			more, err = false, nil
		}
		*b = (*b)[:n]
		out.have, out.there = append(out.have, mem.NewBuffer(b, &buffers)), out.there+n
		if err == nil && count != nil {
			if err = count.Reserve(int64(n)); err == nil {
				err = count.Hold(int64(n))
			}
		}
		if err == nil && int64(out.there) > limit {
			err = oip.Errorf(oip.TooLarge, "the message has more than %d bytes", limit)
		}
	}
	if err != nil {
		out.free()
		return nil, err
	}
	return out, nil
}

// whole is receive of what grpc-go, or somebody else, reads.
func (r *receiver) whole(ctx context.Context, in any, decode func(any) error) (*serve.Admission, error) {
	aheadOf(ctx).unbounded()
	if err := decode(in); err != nil {
		return nil, err
	}
	large, ok := in.(admitted)
	if !ok {
		return nil, nil
	}
	a, err := r.s.Admit()
	if err == nil {
		large.admit(a)
		if err = a.Reserve(large.size()); err == nil {
			return a, nil
		}
		a.Release()
	}
	return nil, lost(err)
}

// lost returns an error of reading a message as a status, but for io.EOF.
func lost(err error) error {
	var why *failure
	if errors.As(err, &why) {
		err = why.error
	}
	var own *oip.Error
	switch _, ok := status.FromError(err); {
	case ok, errors.Is(err, io.EOF), errors.As(err, &own), errors.Is(err, errWire):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return status.Errorf(codes.Internal, "the message cannot be read: %v", err)
}
