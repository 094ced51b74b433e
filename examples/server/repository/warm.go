package repository

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/graph/tensor"
)

// warm runs what model_warmup says, whose failure is an error; without it one run with zeros, open dims being 1, which models may
// turn down.
func (v *Version) warm(ctx context.Context, fsys fs.FS, dir string) error {
	samples := list(v.Config.message, "model_warmup")
	for _, s := range samples {
		inputs, err := v.sample(s, fsys, dir)
		if err != nil {
			return fmt.Errorf("model_warmup %q: %w", text(s, "name"), err)
		}
		for range max(1, min(number(s, "count"), 1000)) {
			if _, err := v.run(ctx, inputs); err != nil {
				return fmt.Errorf("model_warmup %q: %w", text(s, "name"), err)
			}
		}
	}
	if len(samples) > 0 {
		return nil
	}
	inputs := map[string]tensor.Value{}
	for _, p := range v.program.Inputs() {
		shape := openShape(p.Type.Shape)
		dims := make([]int, len(shape))
		for i, d := range shape {
			dims[i] = max(1, int(d))
		}
		t, err := tensor.New(p.Type.DType, dims...)
		if err != nil || p.Type.Shape == nil {
			return ctx.Err()
		}
		inputs[p.Name] = t
	}
	_, _ = v.run(ctx, inputs)
	return ctx.Err()
}

// sample returns the inputs of one entry of model_warmup.
func (v *Version) sample(s protoreflect.Message, fsys fs.FS, dir string) (map[string]tensor.Value, error) {
	out := map[string]tensor.Value{}
	var failed error
	s.Get(field(s, "inputs")).Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		t, err := v.sampleInput(value.Message(), key.String(), number(s, "batch_size"), fsys, dir)
		if err != nil {
			failed = fmt.Errorf("input %q: %w", key.String(), err)
			return false
		}
		out[key.String()] = t
		return true
	})
	return out, failed
}

func (v *Version) sampleInput(in protoreflect.Message, name string, batch int64, fsys fs.FS, dir string) (*tensor.Tensor, error) {
	var dims []int64
	if v.Config.MaxBatch() > 0 {
		dims = append(dims, max(1, batch))
	}
	l := in.Get(field(in, "dims")).List()
	for i := range l.Len() {
		dims = append(dims, l.Get(i).Int())
	}
	dt, err := configDType(enum(in, "data_type"))
	if err != nil {
		return nil, err
	}
	shape, n, err := oip.Shape(name, dims, maxWarm)
	if err != nil {
		return nil, err
	}
	t, err := tensor.New(dt, shape...)
	if err != nil {
		return nil, err
	}
	switch {
	case text(in, "input_data_file") != "":
		raw, err := readSmall(fsys, path.Join(dir, "warmup"), text(in, "input_data_file"))
		if err != nil {
			return nil, err
		}
		return t, fill(t, name, raw)
	case boolean(in, "random_data") && dt != tensor.String:
		values := make([]float64, n)
		r := rand.New(rand.NewPCG(1, 2))
		for i := range values {
			if values[i] = r.Float64(); dt.IsInt() {
				values[i] = float64(r.IntN(100))
			}
		}
		return t, tensor.Encode(t, values)
	}
	return t, nil
}

// fill reads raw elements into a tensor.
func fill(t *tensor.Tensor, name string, raw []byte) error {
	if t.DType == tensor.String {
		list, err := oip.ParseStrings(name, raw, t.Len())
		t.Strings = list
		return err
	}
	if len(raw) != len(t.Data) {
		return fmt.Errorf("%d bytes for %v of %v, which has %d", len(raw), t.DType, t.Shape, len(t.Data))
	}
	copy(t.Data, raw)
	return nil
}

// configDType returns the element type that a configuration calls TYPE_x.
func configDType(name string) (tensor.DType, error) {
	if name == "TYPE_STRING" {
		return tensor.String, nil
	}
	if len(name) < len("TYPE_") {
		return 0, fmt.Errorf("%w: data type %q", ErrConfig, name)
	}
	return oip.DType(name[len("TYPE_"):])
}
