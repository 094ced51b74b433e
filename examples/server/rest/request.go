package rest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/serve"
	"github.com/carve-dev/carve/graph/tensor"
)

// lengthHeader tells how many bytes of a body are JSON; tensors in binary follow.
const lengthHeader = "Inference-Header-Content-Length"

// inferJSON is the JSON of an inference request.
type inferJSON struct {
	ID         string           `json:"id"`
	Parameters map[string]param `json:"parameters"`
	Inputs     []inputJSON      `json:"inputs"`
	Outputs    []outputJSON     `json:"outputs"`
}

type inputJSON struct {
	Name       string           `json:"name"`
	Shape      []int64          `json:"shape"`
	Datatype   string           `json:"datatype"`
	Parameters map[string]param `json:"parameters"`
	Data       json.RawMessage  `json:"data"`
}

type outputJSON struct {
	Name       string           `json:"name"`
	Parameters map[string]param `json:"parameters"`
}

// param is a parameter's value: bool, string, int64, uint64 or float64.
type param struct{ v any }

// UnmarshalJSON implements json.Unmarshaler.
func (p *param) UnmarshalJSON(b []byte) error {
	text := string(b)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		p.v = n
		return nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		p.v = n
		return nil
	}
	if err := json.Unmarshal(b, &p.v); err != nil {
		return err
	}
	switch p.v.(type) {
	case bool, string, float64:
		return nil
	}
	return oip.Errorf(oip.InvalidArgument, "a parameter is neither string, number nor bool")
}

// wish is how a request wants its outputs.
type wish struct {
	binary []bool // by output of the request
	all    bool   // where it names none
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
	return respond(w, r, answer, want)
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
			want, err = h.parse(in, all, nil)
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
	head, err := b.take(n)
	if err != nil {
		return wish{}, err
	}
	want, err := h.parse(in, head, b)
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
	dims, open, known := append([]int64(nil), p.Shape...), -1, int64(1)
	for i, d := range dims {
		switch {
		case i == 0 && v.Config.MaxBatch() > 0:
			dims[i] = 1
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
		in.Inputs = []oip.Named{{Name: p.Name, Tensor: t}}
		return t.Check()
	}
	if open >= 0 && known > 0 {
		dims[open] = int64(len(raw)) / (size * known)
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

// parse reads the JSON of a request, and from b the tensors that it says are in binary.
func (h *handler) parse(in *oip.Request, head []byte, b *body) (wish, error) {
	var j inferJSON
	if err := json.Unmarshal(head, &j); err != nil {
		return wish{}, oip.Errorf(oip.InvalidArgument, "failed to parse the request JSON: %w", err)
	}
	in.ID = j.ID
	want := wish{binary: make([]bool, len(j.Outputs))}
	for name, p := range j.Parameters {
		if name == "binary_data_output" {
			if all, ok := p.v.(bool); ok {
				want.all = all
				continue
			}
			return wish{}, oip.Errorf(oip.InvalidArgument, "parameter %q has to be true or false", name)
		}
		if err := in.Set(name, p.v); err != nil {
			return wish{}, err
		}
	}
	for i, o := range j.Outputs {
		out, binary, err := outputOf(o, want.all)
		if err != nil {
			return wish{}, err
		}
		in.Outputs = append(in.Outputs, out)
		want.binary[i] = binary
	}
	for i := range j.Inputs {
		t, err := h.input(&j.Inputs[i], b)
		if err != nil {
			return wish{}, err
		}
		in.Inputs = append(in.Inputs, oip.Named{Name: j.Inputs[i].Name, Tensor: t})
	}
	return want, nil
}

func outputOf(o outputJSON, all bool) (out oip.Output, binary bool, err error) {
	out, binary = oip.Output{Name: o.Name}, all
	for name, p := range o.Parameters {
		switch {
		case name == "binary_data":
			var ok bool
			if binary, ok = p.v.(bool); !ok {
				return out, false, oip.Errorf(oip.InvalidArgument, "output %.200q: parameter binary_data has to be true or false", o.Name)
			}
		case name == "classification":
			n, ok := p.v.(int64)
			if !ok || n <= 0 || n > 1<<30 {
				return out, false, oip.Errorf(oip.InvalidArgument, "output %.200q: parameter classification has to be a number from 1 on", o.Name)
			}
			out.Classes = int(n)
		case strings.HasPrefix(name, "shared_memory"):
			return out, false, oip.Errorf(oip.Unsupported, "output %.200q: shared memory is not supported", o.Name)
		}
	}
	return out, binary, nil
}

// input returns the tensor of an input, from its JSON or, where that says so, from the bytes that follow.
func (h *handler) input(j *inputJSON, b *body) (*tensor.Tensor, error) {
	dt, err := oip.DType(j.Datatype)
	if err != nil {
		return nil, err
	}
	if j.Shape == nil {
		return nil, oip.Errorf(oip.InvalidArgument, "input %.200q has no shape", j.Name)
	}
	shape, n, err := oip.Shape(j.Name, j.Shape, h.s.MaxRequestBytes())
	if err != nil {
		return nil, err
	}
	for name := range j.Parameters {
		if strings.HasPrefix(name, "shared_memory") {
			return nil, oip.Errorf(oip.Unsupported, "input %.200q: shared memory is not supported", j.Name)
		}
	}
	if p, ok := j.Parameters["binary_data_size"]; ok {
		size, ok := p.v.(int64)
		switch {
		case !ok || size < 0:
			return nil, oip.Errorf(oip.InvalidArgument, "input %.200q: binary_data_size has to be a number of bytes", j.Name)
		case b == nil:
			return nil, oip.Errorf(oip.InvalidArgument, "input %.200q: binary_data_size without the header %s", j.Name, lengthHeader)
		case j.Data != nil:
			return nil, oip.Errorf(oip.InvalidArgument, "input %.200q has both data and binary_data_size", j.Name)
		}
		return binaryInput(b, j.Name, dt, shape, n, size)
	}
	if j.Data == nil {
		return nil, oip.Errorf(oip.InvalidArgument, "input %.200q has no data", j.Name)
	}
	if n > len(j.Data) {
		return nil, oip.Errorf(oip.InvalidArgument, "input %.200q has fewer data than its shape %v", j.Name, j.Shape)
	}
	return parseData(j.Name, dt, shape, n, j.Data)
}

// binaryInput reads a tensor in binary.
func binaryInput(b *body, name string, dt tensor.DType, shape []int, n int, size int64) (*tensor.Tensor, error) {
	if dt == tensor.String {
		raw, err := b.take(size)
		if err != nil {
			return nil, err
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
