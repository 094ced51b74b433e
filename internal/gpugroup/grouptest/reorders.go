package grouptest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// Reorders are conversions to compare with the host's.
type Reorders struct {
	Backend backend.Backend
	Stream  device.Stream // nil: conversions are over when they return
	Offset  int           // of tensors in blocks of the device
	DType   tensor.DType
	Dims    []int
	Kept    gpukernel.Type // elements as which the device keeps the tensors; "" for the converters that every compilation knows

	r *rand.Rand
}

// Compare runs every converter of the backend's, to its first device and back, that copies and reorders such tensors, or casts them on the
// way, and returns how many there are. The error says which of them makes something else than the host's reorder does.
func (x Reorders) Compare(ctx context.Context) (int, error) {
	x.r = rand.New(rand.NewPCG(21, 22))
	seen := 0
	for _, up := range x.converters() {
		if up.Name != "upload-reorder" && up.Name != "upload-cast" || up.To.Device != x.device().ID() || !up.Supports(x.DType, len(x.Dims)) {
			continue
		}
		n, err := x.compare(ctx, &up)
		if err != nil {
			return seen, fmt.Errorf("%v, %v, %v%v: %w", up.From, up.To, x.DType, x.Dims, err)
		}
		seen += n
	}
	return seen, nil
}

// converters are those that Compare is about, and others.
func (x *Reorders) converters() []convert.Converter {
	if x.Kept == "" {
		return x.Backend.Converters()
	}
	var list []convert.Converter
	seen := map[graph.Layout]bool{}
	for _, rank := range []int{0, len(x.Dims)} {
		for _, pair := range gpugroup.Casts(rank, x.Kept) {
			if !seen[pair.Device] {
				list = append(list, x.Backend.(convert.Source).ConvertersOf(pair.Device)...)
			}
			seen[pair.Device] = true
		}
	}
	return list
}

func (x *Reorders) device() device.Device { return x.Backend.Devices()[0] }

// compare runs one converter, and those that undo it.
func (x *Reorders) compare(ctx context.Context, up *convert.Converter) (int, error) {
	move, err := up.Plan(x.DType, x.Dims)
	if err != nil {
		return 0, err
	}
	rows, host, want := x.onHost(graph.RowMajor), x.onHost(up.From.Layout), x.onHost(up.To.Layout)
	for i := range rows.Data {
		rows.Data[i] = byte(x.r.Uint32() & 0x3f)
	}
	if err := x.reorder(ctx, host, rows, up.From.Layout, graph.RowMajor); err != nil {
		return 0, err
	}
	if err := x.reorder(ctx, want, host, up.To.Layout, up.From.Layout); err != nil {
		return 0, err
	}
	d := x.device()
	m, err := d.Alloc(int64(len(want.Data) + x.Offset))
	if err != nil {
		return 0, err
	}
	defer d.Free(m)
	here := &tensor.Tensor{DType: x.DType, Shape: x.Dims, Device: d.ID(), Handle: m.Handle, Offset: x.Offset}
	if err := x.over(ctx, move(ctx, here, host, convert.Exec{Stream: x.Stream})); err != nil {
		return 0, err
	}
	got := make([]byte, len(want.Data))
	if err := d.CopyFrom(ctx, nil, got, m, int64(x.Offset)); err != nil {
		return 0, err
	}
	if !bytes.Equal(got, want.Data) {
		return 0, fmt.Errorf("the device has %v, the host %v", got, want.Data)
	}
	again := x.onHost(up.From.Layout)
	if err := x.reorder(ctx, again, want, up.From.Layout, up.To.Layout); err != nil {
		return 0, err
	}
	return x.undo(ctx, up, here, again)
}

// undo runs the converters back, which make want, and returns how many conversions have run with the one there.
func (x *Reorders) undo(ctx context.Context, up *convert.Converter, here, want *tensor.Tensor) (int, error) {
	seen := 1
	for _, down := range x.converters() {
		if down.Name != strings.Replace(up.Name, "upload", "download", 1) || down.From != up.To || down.To != up.From {
			continue
		}
		seen++
		move, err := down.Plan(x.DType, x.Dims)
		if err != nil {
			return 0, err
		}
		back := x.onHost(up.From.Layout)
		for i := range back.Data {
			back.Data[i] = 0xee
		}
		if err := x.over(ctx, move(ctx, back, here, convert.Exec{Stream: x.Stream})); err != nil {
			return 0, err
		}
		if !bytes.Equal(back.Data, want.Data) {
			return 0, fmt.Errorf("back come %v instead of %v", back.Data, want.Data)
		}
	}
	return seen, nil
}

// over waits for what was queued without an error.
func (x *Reorders) over(ctx context.Context, err error) error {
	if err != nil || x.Stream == nil {
		return err
	}
	return x.Stream.Sync(ctx)
}

// onHost returns a tensor that lies on the host as it does in a layout.
func (x *Reorders) onHost(l graph.Layout) *tensor.Tensor {
	dt, l := gpugroup.Lies(l, x.DType)
	n, err := graph.PhysicalSize(graph.On(l), dt, x.Dims)
	if err != nil {
		panic(err) // dims of a spec's
	}
	return &tensor.Tensor{DType: dt, Shape: x.Dims, Data: make([]byte, n)}
}

// reorder changes the layout of a tensor of the host's, and its type.
func (x *Reorders) reorder(ctx context.Context, dst, src *tensor.Tensor, to, from graph.Layout) error {
	if from == to {
		copy(dst.Data, src.Data)
		return nil
	}
	_, from = gpugroup.Lies(from, x.DType)
	_, to = gpugroup.Lies(to, x.DType)
	move, err := convert.PlanHostCast(from, to, src.DType, dst.DType, x.Dims)
	if err != nil {
		return err
	}
	return move(ctx, dst, src, convert.Exec{})
}

// TooSmall runs a conversion from memory of the host's that is too small, and one to a block of the device's that is, and returns
// what they say.
func TooSmall(ctx context.Context, b backend.Backend) (host, here error) {
	x := Reorders{Backend: b, DType: tensor.Float32, Dims: []int{1, 16, 2, 2}}
	for _, c := range b.Converters() {
		if c.Name != "upload-reorder" || !c.Supports(x.DType, len(x.Dims)) {
			continue
		}
		move, err := c.Plan(x.DType, x.Dims)
		if err != nil {
			return err, err
		}
		m, err := x.device().Alloc(16)
		if err != nil {
			return err, err
		}
		defer x.device().Free(m)
		dst := &tensor.Tensor{DType: x.DType, Shape: x.Dims, Device: m.Device, Handle: m.Handle}
		whole := x.onHost(c.From.Layout)
		short := &tensor.Tensor{DType: x.DType, Shape: x.Dims, Data: whole.Data[:8]}
		return move(ctx, dst, short, convert.Exec{}), move(ctx, dst, whole, convert.Exec{})
	}
	return nil, nil
}
