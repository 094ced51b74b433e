package repository

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"path"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/graph/tensor"
)

// warm runs what model_warmup says, whose failure is an error; without it one run with zeros, open dims being 1, which models may
// turn down. What it says may take no more memory than limit, so that a configuration of a few bytes does not take all that there is.
func (v *Version) warm(ctx context.Context, fsys fs.FS, dir string, limit int64) error {
	samples := list(v.Config.message, "model_warmup")
	for _, s := range samples {
		err := v.warmBy(ctx, s, fsys, dir, limit)
		if own := (*oip.Error)(nil); errors.As(err, &own) {
			return oip.Errorf(own.Code, "model_warmup %q: %w", text(s, "name"), err)
		} else if err != nil {
			return fmt.Errorf("model_warmup %q: %w", text(s, "name"), err)
		}
	}
	if len(samples) > 0 {
		return nil
	}
	inputs, total := map[string]tensor.Value{}, int64(0)
	for _, p := range v.program.Inputs() {
		dims := slices.Clone(openShape(p.Type.Shape))
		for i, d := range dims {
			dims[i] = max(1, d)
		}
		shape, n, err := oip.Shape(p.Name, dims, maxWarm)
		if total += oip.Memory(p.Type.DType, n); err != nil || total > limit || p.Type.Shape == nil {
			return ctx.Err()
		}
		t, err := tensor.New(p.Type.DType, shape...)
		if err != nil {
			return ctx.Err()
		}
		inputs[p.Name] = t
	}
	_, _ = v.run(ctx, inputs)
	return ctx.Err()
}

// warmBy does what one entry of model_warmup says.
func (v *Version) warmBy(ctx context.Context, s protoreflect.Message, fsys fs.FS, dir string, limit int64) error {
	shapes, err := v.sampleShapes(s, limit)
	if err != nil {
		return err
	}
	r, err := v.program.Report(ctx, shapes)
	if errors.Is(err, carve.ErrMemoryLimit) {
		return oip.Errorf(oip.Unavailable, "its run does not fit: the limit of memory is %d: %w", limit, err)
	} else if err != nil {
		return err
	}
	need := r.Peak.After // with inputs and outputs, which lie in no arena
	for _, d := range r.Devices {
		need = max(need, d.Arena)
	}
	if need > limit {
		return oip.Errorf(oip.Unavailable, "its run needs %d bytes, the limit of memory is %d", need, limit)
	}
	inputs := map[string]tensor.Value{}
	for name, in := range warmInputs(s) {
		if inputs[name], err = sampleInput(in, name, shapes[name], fsys, dir); err != nil {
			return fmt.Errorf("input %q: %w", name, err)
		}
	}
	for range max(1, min(number(s, "count"), 1000)) {
		if _, err := v.run(ctx, inputs); err != nil {
			return err
		}
	}
	return nil
}

// warmInputs yields the inputs of an entry, by name.
func warmInputs(s protoreflect.Message) iter.Seq2[string, protoreflect.Message] {
	return func(yield func(string, protoreflect.Message) bool) {
		s.Get(field(s, "inputs")).Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			return yield(key.String(), value.Message())
		})
	}
}

// sampleShapes returns the shapes of an entry's inputs, which may have so many bytes together.
func (v *Version) sampleShapes(s protoreflect.Message, limit int64) (map[string][]int, error) {
	shapes, total := map[string][]int{}, int64(0)
	for name, in := range warmInputs(s) {
		var dims []int64
		if v.Config.MaxBatch() > 0 {
			dims = append(dims, max(1, number(s, "batch_size")))
		}
		l := in.Get(field(in, "dims")).List()
		for i := range l.Len() {
			dims = append(dims, l.Get(i).Int())
		}
		dt, err := configDType(enum(in, "data_type"))
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", name, err)
		}
		shape, n, err := oip.Shape(name, dims, maxWarm)
		if err != nil {
			return nil, err
		}
		shapes[name], total = shape, total+oip.Memory(dt, n)
		if total > limit {
			return nil, oip.Errorf(oip.Unavailable, "its inputs have %d bytes, the limit of memory is %d", total, limit)
		}
	}
	return shapes, nil
}

// sampleInput returns one input of an entry.
func sampleInput(in protoreflect.Message, name string, shape []int, fsys fs.FS, dir string) (*tensor.Tensor, error) {
	dt, err := configDType(enum(in, "data_type"))
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
		return t, scatter(t)
	}
	return t, nil
}

// scatter fills a tensor with random numbers.
func scatter(t *tensor.Tensor) error {
	r := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < t.Len(); {
		var values [1 << 10]float64
		n := min(len(values), t.Len()-at)
		for i := range n {
			if values[i] = r.Float64(); t.DType.IsInt() {
				values[i] = float64(r.IntN(100))
			}
		}
		part := &tensor.Tensor{DType: t.DType, Shape: []int{n}, Data: t.Data[t.DType.Bytes(at):t.DType.Bytes(at+n)]}
		if err := tensor.Encode(part, values[:n]); err != nil {
			return err
		}
		at += n
	}
	return nil
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
