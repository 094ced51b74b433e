package rest

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/serve"
	"github.com/carve-dev/carve/graph/tensor"
)

// lengthHeader tells how many bytes of a body are JSON; tensors in binary follow.
const lengthHeader = "Inference-Header-Content-Length"

// tensorJSON is an input of a request or an output of an answer, as JSON has it.
type tensorJSON struct {
	name, datatype string
	shape          []int64
	size           any    // the parameter binary_data_size; nil where it has none
	shared         bool   // it has a parameter that asks for shared memory
	data           string // JSON; "" where it has none
}

// form is how an output is wanted.
type form int8

const (
	unsaid form = iota
	inJSON
	inBinary
)

func formOf(binary bool) form {
	if binary {
		return inBinary
	}
	return inJSON
}

// wish is how a request wants its outputs.
type wish struct {
	binary []form // by output of the request
	all    bool   // in binary, where that is unsaid
}

// of returns how output i of the answer is wanted.
func (w *wish) of(i int) (binary bool) {
	if i < len(w.binary) && w.binary[i] != unsaid {
		return w.binary[i] == inBinary
	}
	return w.all
}

// infer answers an inference request.
func (h *handler) infer(w http.ResponseWriter, r *http.Request) error {
	a, err := h.s.Admit()
	if err != nil {
		return err
	}
	defer a.Release()
	in := &oip.Request{Model: r.PathValue("model"), Version: r.PathValue("version")}
	defer in.Recycle()
	want, err := h.read(in, w, r, a)
	if err != nil {
		return err
	}
	answer, err := h.s.Infer(r.Context(), in)
	if err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.o.BodyTimeout + time.Minute))
	return respond(w, r, a, answer, want)
}

// read reads an inference request.
func (h *handler) read(in *oip.Request, w http.ResponseWriter, r *http.Request, a *serve.Admission) (want wish, err error) {
	b, err := h.open(w, r, a)
	if err != nil {
		return want, err
	}
	defer b.close()
	switch header := r.Header.Get(lengthHeader); header {
	case "":
		var all []byte
		if all, err = b.rest(); err == nil {
			want, err = h.readHead(in, all, b)
		}
	case "0":
		want.all = true
		err = h.bare(in, b)
	default:
		want, err = h.mixed(in, b, header)
	}
	return want, err
}

// mixed reads JSON and tensors in binary.
func (h *handler) mixed(in *oip.Request, b *body, header string) (wish, error) {
	n, err := strconv.ParseInt(header, 10, 64)
	if err != nil || n < 0 {
		return wish{}, oip.Errorf(oip.InvalidArgument, "%s is %.40q, which is no number of bytes", lengthHeader, header)
	}
	b.mixed = true
	head, err := b.take(n)
	if err != nil {
		return wish{}, err
	}
	want, err := h.readHead(in, head, b)
	if err != nil {
		return wish{}, err
	}
	return want, b.end()
}

// bare reads a body that is the one input of a model: of one open dim at most, which follows from the size, in a batch of one.
func (h *handler) bare(in *oip.Request, b *body) error {
	v, err := h.s.Models().Describe(in.Model, in.Version)
	if err != nil {
		return err
	}
	if len(v.Inputs) != 1 || v.Inputs[0].Shape == nil {
		return oip.Errorf(oip.InvalidArgument, "a raw body needs a model of one input, '%s' has %d", v.Name, len(v.Inputs))
	}
	p := v.Inputs[0]
	raw, err := b.rest()
	if err != nil {
		return err
	}
	dims, open, known := append([]int64(nil), p.Shape...), -1, max(int64(p.DType.Size()), 1) // bytes of what the open dim counts
	for i, d := range dims {
		switch {
		case i == 0 && v.Config.MaxBatch() > 0:
			dims[i] = 1
		case d > 0 && known > h.s.MaxRequestBytes()/d:
			return oip.Errorf(oip.TooLarge, "an input %v of %s has more than %d bytes", p.Shape, p.Datatype, h.s.MaxRequestBytes())
		case d >= 0:
			known *= d
		case open >= 0:
			return oip.Errorf(oip.InvalidArgument, "a raw body needs a model whose input has at most one open dim, '%s' has %v", v.Name, p.Shape)
		default:
			open = i
		}
	}
	size := int64(p.DType.Size())
	if p.DType == tensor.String {
		if open >= 0 {
			dims[open] = 1
		}
		t := tensor.FromStrings([]string{string(raw)}, ints(dims)...)
		if err := t.Check(); err != nil { // the body is one string
			return oip.Errorf(oip.InvalidArgument, "a raw body is no input %v of %s: %w", p.Shape, p.Datatype, err)
		}
		in.Inputs = []oip.Named{{Name: p.Name, Tensor: t}}
		return nil
	}
	if open >= 0 && known > 0 {
		dims[open] = int64(len(raw)) / known
	}
	shape, n, err := oip.Shape(p.Name, dims, int64(len(raw)))
	if err != nil || int64(n)*size != int64(len(raw)) {
		return oip.Errorf(oip.InvalidArgument, "a body of %d bytes is no input %v of %s", len(raw), p.Shape, p.Datatype)
	}
	t, err := oip.NewTensor(p.DType, shape, n)
	if err != nil {
		return err
	}
	copy(t.Data, raw)
	in.Inputs = []oip.Named{{Name: p.Name, Tensor: t}}
	return nil
}

func ints(dims []int64) []int {
	out := make([]int, len(dims))
	for i, d := range dims {
		out[i] = int(d)
	}
	return out
}

// readHead reads the JSON of a request, and from the rest of its body the tensors that it says are in binary.
func (h *handler) readHead(in *oip.Request, text []byte, b *body) (wish, error) {
	x, err := h.headings.of(text)
	if err != nil {
		return wish{}, err
	}
	in.ID, in.Parameters, in.Outputs = x.request.ID, x.request.Parameters, x.request.Outputs
	in.Inputs = make([]oip.Named, 0, len(x.inputs))
	for i := range x.inputs {
		t, err := h.input(&x.inputs[i], b)
		if err != nil {
			return wish{}, err
		}
		in.Inputs = append(in.Inputs, oip.Named{Name: x.inputs[i].name, Tensor: t})
	}
	return x.want, nil
}

// requestParameter reads a parameter of a request.
func requestParameter(in *oip.Request, want *wish, name string, value gjson.Result) error {
	v, err := parameter(value)
	switch {
	case err != nil:
		return err
	case name != "binary_data_output":
		return in.Set(name, v)
	}
	all, ok := v.(bool)
	if want.all = all; !ok {
		return oip.Errorf(oip.InvalidArgument, "parameter %q has to be true or false", name)
	}
	return nil
}

// output reads what a request says of an output.
func output(in *oip.Request, want *wish, v gjson.Result) error {
	if len(in.Outputs) == oip.MaxTensors {
		return oip.TooMany("outputs")
	}
	var out oip.Output
	binary := unsaid
	err := members(v, "an output", func(name string, v gjson.Result) (err error) {
		switch name {
		case "name":
			out.Name, err = str(v, name)
		case "parameters":
			err = members(v, name, func(name string, v gjson.Result) error {
				value, err := parameter(v)
				if err == nil {
					err = outputParameter(&out, &binary, name, value)
				}
				return err
			})
		}
		return err
	})
	in.Outputs, want.binary = append(in.Outputs, out), append(want.binary, binary)
	return err
}

func outputParameter(out *oip.Output, binary *form, name string, v any) error {
	switch {
	case name == "binary_data":
		said, ok := v.(bool)
		if !ok {
			return oip.Errorf(oip.InvalidArgument, "output %.200q: parameter binary_data has to be true or false", out.Name)
		}
		*binary = formOf(said)
	case name == "classification":
		n, ok := v.(int64)
		if !ok || n <= 0 || n > 1<<30 {
			return oip.Errorf(oip.InvalidArgument, "output %.200q: parameter classification has to be a number from 1 on", out.Name)
		}
		out.Classes = int(n)
	case strings.HasPrefix(name, "shared_memory"):
		return oip.Errorf(oip.Unsupported, "output %.200q: shared memory is not supported", out.Name)
	}
	return nil
}

// read reads it.
func (j *tensorJSON) read(v gjson.Result) error {
	return members(v, "a tensor", func(name string, v gjson.Result) (err error) {
		switch name {
		case "name":
			j.name, err = str(v, name)
		case "datatype":
			j.datatype, err = str(v, name)
		case "shape":
			j.shape, err = dims(v, name)
		case "data":
			j.data = v.Raw
		case "parameters":
			err = members(v, name, func(name string, v gjson.Result) error {
				value, err := parameter(v)
				if name == "binary_data_size" {
					j.size = value
				}
				j.shared = j.shared || strings.HasPrefix(name, "shared_memory")
				return err
			})
		}
		return err
	})
}

// input returns the tensor of an input, from its JSON or, where that says so, from the bytes that follow.
func (h *handler) input(j *tensorJSON, b *body) (*tensor.Tensor, error) {
	dt, err := oip.DType(j.datatype)
	if err != nil {
		return nil, err
	}
	if j.shape == nil {
		return nil, oip.Errorf(oip.InvalidArgument, "input %.200q has no shape", j.name)
	}
	shape, n, err := oip.Shape(j.name, j.shape, h.s.MaxRequestBytes())
	if err != nil {
		return nil, err
	}
	if j.shared {
		return nil, oip.Errorf(oip.Unsupported, "input %.200q: shared memory is not supported", j.name)
	}
	if j.size != nil {
		size, ok := j.size.(int64)
		switch {
		case !ok || size < 0:
			return nil, oip.Errorf(oip.InvalidArgument, "input %.200q: binary_data_size has to be a number of bytes", j.name)
		case !b.mixed:
			return nil, oip.Errorf(oip.InvalidArgument, "input %.200q: binary_data_size without the header %s", j.name, lengthHeader)
		case j.data != "":
			return nil, oip.Errorf(oip.InvalidArgument, "input %.200q has both data and binary_data_size", j.name)
		}
		return binaryInput(b, j.name, dt, shape, n, size)
	}
	if j.data == "" {
		return nil, oip.Errorf(oip.InvalidArgument, "input %.200q has no data", j.name)
	}
	if n > len(j.data) {
		return nil, oip.Errorf(oip.InvalidArgument, "input %.200q has fewer data than its shape %v", j.name, j.shape)
	}
	if err := b.a.Hold(oip.Memory(dt, n)); err != nil {
		return nil, err
	}
	return parseData(j.name, dt, shape, n, j.data)
}

// binaryInput reads a tensor in binary.
func binaryInput(b *body, name string, dt tensor.DType, shape []int, n int, size int64) (*tensor.Tensor, error) {
	if dt == tensor.String {
		raw, err := b.take(size)
		if err != nil {
			return nil, err
		}
		if n <= len(raw)/4 {
			if err := b.a.Hold(oip.Memory(dt, n)); err != nil {
				return nil, err
			}
		}
		list, err := oip.ParseStrings(name, raw, n)
		if err != nil {
			return nil, err
		}
		return tensor.FromStrings(list, shape...), nil
	}
	if want := int64(dt.Bytes(n)); size != want {
		return nil, oip.Errorf(oip.InvalidArgument, "unexpected total byte size %d for input '%s', expecting %d", size, name, want)
	}
	if b.length >= 0 && size > b.length {
		return nil, oip.Errorf(oip.InvalidArgument, "input '%s' announces %d bytes, the body has %d left", name, size, b.length)
	}
	if b.length < 0 { // chunked or compressed: what is announced is not believed before it is there
		raw, err := b.take(size)
		if err != nil {
			return nil, err
		}
		t, err := oip.NewTensor(dt, shape, n)
		if err == nil {
			copy(t.Data, raw)
		}
		return t, err
	}
	if err := b.a.Reserve(size); err != nil {
		return nil, err
	}
	t, err := oip.NewTensor(dt, shape, n)
	if err != nil {
		return nil, err
	}
	return t, b.full(t.Data)
}
