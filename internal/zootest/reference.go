package zootest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/carve-dev/carve/graph/tensor"
)

// Reference is a model's inputs, described, and the outputs that another runtime computed for them.
type Reference struct {
	Model   string   `json:"model"`
	Inputs  []Input  `json:"inputs"`
	Outputs []Output `json:"outputs"`
}

// Input describes how an input is generated.
type Input struct {
	Name  string   `json:"name"`
	DType string   `json:"dtype"`
	Shape []any    `json:"shape"` // dims of the model: numbers and names
	Seed  string   `json:"seed"`  // hexadecimal
	Dims  []int    `json:"dims"`
	Kind  string   `json:"kind"` // uniform, image, randint, step, half; anything else is zeros
	Lo    float64  `json:"lo"`
	Hi    *float64 `json:"hi"` // default 1
	N     int      `json:"n"`
}

// Output is what is stored of an output: every Step-th element, and statistics of all.
type Output struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Dims  []int  `json:"dims"`
	Stats struct {
		Std float64 `json:"std"`
	} `json:"stats"`
	Diff   float64   `json:"ort_all_diff"` // of that runtime's optimised run, in standard deviations
	Step   int       `json:"step"`
	Values []float64 `json:"values"`
}

// ReadReference reads NAME.ref.json of the zoo.
func ReadReference(name string) (*Reference, error) {
	path, err := Shared("models/" + name + ".ref.json")
	if err != nil {
		return nil, err
	}
	return ReadReferenceFrom(filepath.Dir(path), name)
}

// ReadReferenceFrom is ReadReference for a zoo that lies in a folder.
func ReadReferenceFrom(dir, name string) (*Reference, error) {
	path := filepath.Join(dir, name+".ref.json")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Reference{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, o := range r.Outputs {
		if o.Step < 1 {
			return nil, fmt.Errorf("%s: output %s has step %d", path, o.Name, o.Step)
		}
	}
	return r, nil
}

// Bind returns the values of the model's named dims.
func (r *Reference) Bind() map[string]int {
	out := map[string]int{}
	for _, in := range r.Inputs {
		for i, d := range in.Shape {
			if name, ok := d.(string); ok && i < len(in.Dims) {
				out[name] = in.Dims[i]
			}
		}
	}
	return out
}

// Feeds generates all inputs.
func (r *Reference) Feeds() (map[string]tensor.Value, error) {
	out := map[string]tensor.Value{}
	for i := range r.Inputs {
		t, err := r.Inputs[i].Tensor()
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", r.Inputs[i].Name, err)
		}
		out[r.Inputs[i].Name] = t
	}
	return out, nil
}

// Tensor generates the input.
func (in *Input) Tensor() (*tensor.Tensor, error) {
	dt, ok := tensor.ParseDType(in.DType)
	if !ok {
		return nil, fmt.Errorf("%w: %q", tensor.ErrDType, in.DType)
	}
	seed, err := strconv.ParseUint(in.Seed, 16, 64)
	if err != nil {
		return nil, err
	}
	t, err := tensor.New(dt, in.Dims...)
	if err != nil {
		return nil, err
	}
	hi := 1.0
	if in.Hi != nil {
		hi = *in.Hi
	}
	v := make([]float64, t.Len())
	switch in.Kind {
	case "uniform":
		for i := range v {
			v[i] = in.Lo + (hi-in.Lo)*unit(seed, uint64(i))
		}
	case "image":
		if len(in.Dims) < 3 {
			return nil, fmt.Errorf("%w: an image has rank 3 at least, not %v", tensor.ErrShape, in.Dims)
		}
		c, h, w := in.Dims[len(in.Dims)-3], in.Dims[len(in.Dims)-2], in.Dims[len(in.Dims)-1]
		for i := range v {
			k := uint64((i/(h*w)%c*1024+(i/w%h)>>4)*1024 + (i%w)>>4)
			v[i] = in.Lo + (hi-in.Lo)*(0.75*unit(seed^0xB10C, k)+0.25*unit(seed, uint64(i)))
		}
	case "randint":
		for i := range v {
			v[i] = math.Floor(unit(seed, uint64(i)) * hi)
		}
	case "step":
		for i := range min(in.N, len(v)) {
			v[i] = 1
		}
	case "half":
		for i := range v {
			if 2*i >= len(v) {
				v[i] = 1
			}
		}
	}
	return t, tensor.Encode(t, v)
}
