package grouptest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// onDevice is a model of an image, whose convolution wants channels last.
const onDevice = `graph "on device" {
  opset 17
  input %x: f32[2,3,5,7]
  const %w = f32[4,3,1,1]{1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12}
  %c = Conv(%x, %w)
  %y = Relu(%c)
  output %y
}`

// CompareOnDevice runs a model on an image that a caller has on the device of a backend, in row-major order and at such an offset, and compares the result with that of the same image on the host, bit by bit. written returns how
// often the host's memory was copied to the device so far: a run on the caller's tensor copies none where the offset fits kernels.
func CompareOnDevice(ctx context.Context, b backend.Backend, offset int, written func() int) (copies int, err error) {
	g, err := graph.Parse(onDevice)
	if err != nil {
		return 0, err
	}
	m := carve.FromGraph(g)
	defer m.Close()
	name := b.Info().Name
	p, err := carve.Compile(ctx, m, &carve.Options{Open: map[string]backend.Backend{name: b}, Backends: []backend.Config{{Name: name}}, Placement: carve.Priority, Verify: true})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	const n = 2 * 3 * 5 * 7
	values, rng := make([]float32, n), rand.New(rand.NewPCG(7, 8))
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	x := tensor.From(values, 2, 3, 5, 7)
	want, err := p.Run(ctx, map[string]tensor.Value{"x": x})
	if err != nil {
		return 0, err
	}
	d := b.Devices()[0]
	at, err := d.Alloc(int64(offset + 4*n))
	if err != nil {
		return 0, err
	}
	defer d.Free(at)
	if err := d.CopyTo(ctx, nil, at, int64(offset), x.Bytes()); err != nil {
		return 0, err
	}
	there := &tensor.Tensor{DType: x.DType, Shape: x.Shape, Device: d.ID(), Handle: at.Handle, Offset: offset}
	for range 3 { // until nothing is prepared any more
		before := written()
		got, err := p.Run(ctx, map[string]tensor.Value{"x": there})
		if err != nil {
			return 0, err
		}
		copies = written() - before
		for k, v := range want {
			if !bytes.Equal(v.(*tensor.Tensor).Bytes(), got[k].(*tensor.Tensor).Bytes()) {
				return copies, fmt.Errorf("%s is not what it is of the host's image", k)
			}
		}
	}
	return copies, nil
}
