package oipgrpc

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/examples/server/serve"
)

func appendText(b []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), s)
}

func appendNumber(b []byte, number protowire.Number, u uint64) []byte {
	if u == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), u)
}

func appendMessage(b []byte, number protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), m)
}

// boolean returns a message whose field 1 is v.
func boolean(v bool) wire { return appendNumber(nil, 1, protowire.EncodeBool(v)) }

func appendShape[T int | int64](b []byte, number protowire.Number, shape []T) []byte {
	var room [16]byte
	dims := room[:0]
	for _, d := range shape {
		dims = protowire.AppendVarint(dims, uint64(d))
	}
	if len(dims) == 0 {
		return b
	}
	return appendMessage(b, number, dims)
}

// encode returns an answer as a ModelInferResponse: its head, and for each output its elements, where they are.
func encode(r *oip.Response) (mem.BufferSlice, error) {
	var several [4][]byte // most have no more outputs
	raws := several[:0]
	for _, o := range r.Outputs {
		raw, err := oip.Raw(o.Tensor)
		if err != nil {
			return nil, oip.Errorf(oip.Internal, "output '%s': %w", o.Name, err)
		}
		raws = append(raws, raw)
	}
	head := room(raws)
	head = appendText(head, 1, r.Model)
	head = appendText(head, 2, r.Version)
	head = appendText(head, 3, r.ID)
	for _, o := range r.Outputs {
		datatype, ok := oip.Datatype(o.Tensor.DType)
		if !ok {
			return nil, oip.Errorf(oip.Unsupported, "output '%s' is of type %v, which has no datatype", o.Name, o.Tensor.DType)
		}
		var room [64]byte // most outputs' metadata fit
		m := appendText(room[:0], 1, o.Name)
		m = appendText(m, 2, datatype)
		m = appendShape(m, 3, o.Tensor.Shape)
		head = appendMessage(head, 5, m)
	}
	return join(head, raws, 6), nil
}

// direct is the size from which elements are sent from where they are, rather than copied into the head.
const direct = 8 << 10

// room returns an empty head, in which most others fit with those raw contents that are copied into it.
func room(raws [][]byte) []byte {
	n := 128
	for _, raw := range raws {
		if len(raw) < direct {
			n += len(raw) + 4
		}
	}
	return make([]byte, 0, n)
}

// join returns a message of a head and raw contents, a field of that number.
func join(head []byte, raws [][]byte, number protowire.Number) mem.BufferSlice {
	var out mem.BufferSlice
	for _, raw := range raws {
		head = protowire.AppendVarint(protowire.AppendTag(head, number, protowire.BytesType), uint64(len(raw)))
		if len(raw) < direct {
			head = append(head, raw...)
			continue
		}
		out = append(out, mem.SliceBuffer(head), mem.SliceBuffer(raw))
		head = nil
	}
	if len(head) > 0 {
		out = append(out, mem.SliceBuffer(head))
	}
	return out
}

func encodeTensors(b []byte, number protowire.Number, list []serve.TensorMetadata) []byte {
	for _, t := range list {
		var m []byte
		m = appendText(m, 1, t.Name)
		m = appendText(m, 2, t.Datatype)
		m = appendShape(m, 3, t.Shape)
		b = appendMessage(b, number, m)
	}
	return b
}

func encodeMetadata(m *serve.ModelMetadata) wire {
	b := appendText(nil, 1, m.Name)
	for _, v := range m.Versions {
		b = appendText(b, 2, v)
	}
	b = appendText(b, 3, m.Platform)
	return encodeTensors(encodeTensors(b, 4, m.Inputs), 5, m.Outputs)
}

func encodeTiming(b []byte, number protowire.Number, t *repository.Timing) []byte {
	n, d := t.Load()
	return appendMessage(b, number, appendNumber(appendNumber(nil, 1, n), 2, uint64(d)))
}

// encodeStatistics returns a ModelStatisticsResponse.
func encodeStatistics(list []*repository.Version) wire {
	var b []byte
	for _, v := range list {
		st := v.Stats
		var times []byte
		for i, t := range []*repository.Timing{&st.Success, &st.Fail, &st.Queue, &st.Input, &st.Infer, &st.Output} {
			times = encodeTiming(times, protowire.Number(i+1), t)
		}
		times = appendMessage(appendMessage(times, 7, nil), 8, nil) // of a cache, which there is not
		m := appendText(appendText(nil, 1, v.Name), 2, v.String())
		m = appendNumber(m, 3, uint64(st.Last.Load()))
		m = appendNumber(m, 4, st.Rows.Load())
		m = appendNumber(m, 5, st.Runs.Load())
		b = appendMessage(b, 1, appendMessage(m, 6, times))
	}
	return b
}

// encodeIndex returns a RepositoryIndexResponse.
func encodeIndex(list []repository.Status) wire {
	var b []byte
	for _, x := range list {
		m := appendText(appendText(nil, 1, x.Name), 2, x.Version)
		b = appendMessage(b, 1, appendText(appendText(m, 3, x.State), 4, x.Reason))
	}
	return b
}
