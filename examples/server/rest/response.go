package rest

import (
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/serve"
	"github.com/carve-dev/carve/graph/tensor"
)

// heads keeps memory for the JSON of answers.
var heads = sync.Pool{New: func() any { return new([]byte) }}

// respond writes an answer: outputs that are wanted in binary behind the JSON, the others in it. Its bytes count among those of all requests
// until the client has taken them.
func respond(w http.ResponseWriter, r *http.Request, a *serve.Admission, answer *oip.Response, want wish) error {
	head := heads.Get().(*[]byte)
	defer heads.Put(head)
	b, raws := (*head)[:0], make([][]byte, 0, len(answer.Outputs))
	b = append(b, `{"model_name":`...)
	b = appendString(b, answer.Model)
	b = append(b, `,"model_version":`...)
	b = appendString(b, answer.Version)
	if answer.ID != "" {
		b = append(b, `,"id":`...)
		b = appendString(b, answer.ID)
	}
	b = append(b, `,"outputs":[`...)
	size := 0
	for i, o := range answer.Outputs {
		if i > 0 {
			b = append(b, ',')
		}
		binary := want.of(i)
		var raw []byte
		var err error
		if b, raw, err = appendOutput(b, o, binary); err != nil {
			*head = b
			return err
		}
		if binary {
			raws = append(raws, raw)
			size += len(raw)
		}
	}
	b = append(b, `]}`...)
	*head = b
	if err := a.Hold(int64(len(b) + size)); err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	if len(raws) > 0 {
		header.Set("Content-Type", "application/octet-stream")
		header.Set(lengthHeader, strconv.Itoa(len(b)))
	}
	if len(b)+size >= minCompressed {
		if name, z := compressor(w, r.Header.Get("Accept-Encoding")); z != nil {
			header.Set("Content-Encoding", name)
			defer z.Close()
			return send(z, b, raws)
		}
	}
	header.Set("Content-Length", strconv.Itoa(len(b)+size))
	return send(w, b, raws)
}

// send writes the parts of an answer. A client that is gone is nobody to tell of an error.
func send(w io.Writer, head []byte, raws [][]byte) error {
	if _, err := w.Write(head); err != nil {
		return nil
	}
	for _, raw := range raws {
		if _, err := w.Write(raw); err != nil {
			return nil
		}
	}
	return nil
}

// minCompressed is the size from which an answer is worth compressing.
const minCompressed = 1 << 10

// compressor returns what the client asks for, nil for nothing.
func compressor(w io.Writer, accepted string) (name string, z io.WriteCloser) {
	for part := range strings.SplitSeq(accepted, ",") {
		name, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
		if q, found := strings.CutPrefix(strings.TrimSpace(parameters), "q="); found {
			if f, err := strconv.ParseFloat(q, 64); err != nil || f == 0 {
				continue
			}
		}
		switch strings.ToLower(name) {
		case "gzip":
			z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
			return "gzip", z
		case "deflate":
			z, _ := zlib.NewWriterLevel(w, zlib.BestSpeed)
			return "deflate", z
		}
	}
	return "", nil
}

// appendOutput appends the JSON of an output, and returns the bytes that follow where it is in binary.
func appendOutput(b []byte, o oip.Named, binary bool) (out, raw []byte, err error) {
	datatype, ok := oip.Datatype(o.Tensor.DType)
	if !ok {
		return b, nil, oip.Errorf(oip.Unsupported, "output '%s' is of type %v, which has no datatype", o.Name, o.Tensor.DType)
	}
	b = append(b, `{"name":`...)
	b = appendString(b, o.Name)
	b = append(b, `,"datatype":"`...)
	b = append(b, datatype...)
	b = append(b, `","shape":[`...)
	for i, d := range o.Tensor.Shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(d), 10)
	}
	b = append(b, ']')
	if binary {
		if raw, err = oip.Raw(o.Tensor); err != nil {
			return b, nil, oip.Errorf(oip.Internal, "output '%s': %w", o.Name, err)
		}
		b = append(b, `,"parameters":{"binary_data_size":`...)
		b = strconv.AppendInt(b, int64(len(raw)), 10)
		return append(b, `}}`...), raw, nil
	}
	b = append(b, `,"data":[`...)
	if b, err = appendData(b, o); err != nil {
		return b, nil, err
	}
	return append(b, `]}`...), nil, nil
}

// appendData appends a tensor's elements, flat.
func appendData(b []byte, o oip.Named) ([]byte, error) {
	switch t := o.Tensor; {
	case t.DType == tensor.Float16 || t.DType == tensor.BFloat16:
		return b, oip.Errorf(oip.InvalidArgument, "output '%s' has floats of 16 bits, which have no form in JSON: ask for binary data", o.Name)
	case t.DType == tensor.String:
		for i, s := range t.Strings[:t.Len()] {
			if !utf8.ValidString(s) {
				return b, oip.Errorf(oip.InvalidArgument, "output '%s' has bytes that are no UTF-8 as element %d, which JSON cannot say: ask for binary data", o.Name, i)
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, s)
		}
	case t.DType == tensor.Bool:
		return join(b, tensor.Elements[bool](t), func(b []byte, v bool) []byte { return strconv.AppendBool(b, v) }), nil
	case t.DType == tensor.Float32:
		return appendFloats(b, o.Name, tensor.Elements[float32](t), 32)
	case t.DType == tensor.Float64:
		return appendFloats(b, o.Name, tensor.Elements[float64](t), 64)
	case t.DType == tensor.Uint64:
		return join(b, tensor.Elements[uint64](t), func(b []byte, v uint64) []byte { return strconv.AppendUint(b, v, 10) }), nil
	default:
		for i := range t.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, t.Int64At(i), 10)
		}
	}
	return b, nil
}

func join[T any](b []byte, list []T, write func([]byte, T) []byte) []byte {
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = write(b, v)
	}
	return b
}

// appendFloats appends the shortest numbers that are read back as the same ones.
func appendFloats[T float32 | float64](b []byte, name string, list []T, bits int) ([]byte, error) {
	for i, v := range list {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return b, oip.Errorf(oip.InvalidArgument, "output '%s' has %v as element %d, which JSON cannot say: ask for binary data", name, f, i)
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(v), 'g', -1, bits)
	}
	return b, nil
}

// appendString appends a string in JSON.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) // a string is always written
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
