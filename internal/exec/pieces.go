package exec

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// What lies with strides is copied in rows: elements along the innermost dim, with a step on either side.

// row is n elements of a copy: offsets and steps in elements.
type row struct{ to, toStep, from, fromStep, n int }

// eachRow calls fn for the rows of a copy between two tensors of one shape.
func eachRow(dst, src *tensor.Tensor, fn func(r row) error) error {
	shape, to, from := mergeDims(dst, src)
	inner := len(shape) - 1
	index := make([]int, inner)
	r := row{toStep: to[inner], fromStep: from[inner], n: shape[inner]}
	for {
		if err := fn(r); err != nil {
			return err
		}
		k := inner - 1
		for ; k >= 0; k-- {
			r.to, r.from = r.to+to[k], r.from+from[k]
			if index[k]++; index[k] < shape[k] {
				break
			}
			r.to, r.from = r.to-to[k]*shape[k], r.from-from[k]*shape[k]
			index[k] = 0
		}
		if k < 0 {
			return nil
		}
	}
}

// mergeDims returns the dims of a copy with both sides' strides, at least one. Dims that lie behind each other on both sides
// are one. No dim is 0.
func mergeDims(dst, src *tensor.Tensor) (shape, to, from []int) {
	a, b := stridesOf(dst), stridesOf(src)
	shape, to, from = []int{1}, []int{1}, []int{1}
	for i, n := range dst.Shape {
		last := len(shape) - 1
		switch {
		case n == 1:
		case shape[last] == 1:
			shape[last], to[last], from[last] = n, a[i], b[i]
		case to[last] == n*a[i] && from[last] == n*b[i]:
			shape[last], to[last], from[last] = shape[last]*n, a[i], b[i]
		default:
			shape, to, from = append(shape, n), append(to, a[i]), append(from, b[i])
		}
	}
	return shape, to, from
}

func stridesOf(t *tensor.Tensor) []int {
	if t.Strides == nil {
		return tensor.CompactStrides(t.Shape)
	}
	return t.Strides
}

// copyHost copies between two row-major tensors of the host, strided or not, of one dtype and shape.
func copyHost(dst, src *tensor.Tensor) error {
	if dst.IsCompact() && src.IsCompact() {
		if len(dst.Bytes()) != len(src.Bytes()) {
			return fmt.Errorf("%w: %v into %v", tensor.ErrShape, src, dst)
		}
		copy(dst.Bytes(), src.Bytes())
		return nil
	}
	if dst.Len() == 0 {
		return nil
	}
	size, to, from := dst.DType.Size(), dst.Data[dst.Offset:], src.Data[src.Offset:]
	return eachRow(dst, src, func(r row) error {
		if r.toStep == 1 && r.fromStep == 1 {
			copy(to[r.to*size:(r.to+r.n)*size], from[r.from*size:])
			return nil
		}
		a, b := r.to*size, r.from*size
		if size == 4 {
			for range r.n {
				*(*[4]byte)(to[a:]) = *(*[4]byte)(from[b:])
				a, b = a+4*r.toStep, b+4*r.fromStep
			}
			return nil
		}
		for range r.n {
			copy(to[a:a+size], from[b:])
			a, b = a+size*r.toStep, b+size*r.fromStep
		}
		return nil
	})
}

// maxDeviceRows is how many copies a strided tensor is put together with on its device; one of more goes through the host.
const maxDeviceRows = 256

// rowsOnDevice returns how many copies of contiguous bytes a copy between two tensors takes.
func rowsOnDevice(dst, src *tensor.Tensor) int {
	shape, to, from := mergeDims(dst, src)
	last, n := len(shape)-1, 1
	for _, d := range shape[:last] {
		n *= d
	}
	if to[last] != 1 || from[last] != 1 {
		n *= shape[last]
	}
	return n
}

// copyRows copies between two row-major tensors of one dtype and shape, by the device's copies: transfer has offsets in bytes
// from each element 0.
func copyRows(dst, src *tensor.Tensor, transfer func(to, from, n int64) error) error {
	if dst.Len() == 0 {
		return nil
	}
	if dst.IsCompact() && src.IsCompact() {
		return transfer(0, 0, int64(dst.NumBytes()))
	}
	size := int64(dst.DType.Size())
	return eachRow(dst, src, func(r row) error {
		if r.toStep == 1 && r.fromStep == 1 {
			return transfer(int64(r.to)*size, int64(r.from)*size, int64(r.n)*size)
		}
		for k := range r.n {
			if err := transfer(int64(r.to+k*r.toStep)*size, int64(r.from+k*r.fromStep)*size, size); err != nil {
				return err
			}
		}
		return nil
	})
}

// onDevice reports whether carry copies between the operands by copies of their device alone, which go on its streams.
func onDevice(dst, src *Operand) bool {
	if dst.format() != src.format() || dst.Device.IsHost() {
		return false
	}
	return dst.IsCompact() && src.IsCompact() || rowsOnDevice(dst.Tensor, src.Tensor) <= maxDeviceRows
}

// carry converts src to dst, whatever the format of either and strides: on the device where both are there, along the cheapest
// path of converters otherwise, and through compact storage on the host where strides need that. It is over when it
// returns, unless the copies are put onto stream s of the device (see onDevice). It waits for no event.
func (m *Machine) carry(ctx context.Context, dst, src *Operand, s device.Stream, w *device.Workers) error {
	if dst.Len() == 0 {
		return nil
	}
	if onDevice(dst, src) {
		n := m.bytes(dst)
		dev, to, from := m.env.Transfer.Devices[dst.Device.Canonical()], device.MemoryOf(dst.Tensor), device.MemoryOf(src.Tensor)
		copied := func(a, b, n int64) error {
			return dev.CopyBetween(ctx, s, to, int64(dst.Offset)+a, from, int64(src.Offset)+b, n)
		}
		if dst.IsCompact() && src.IsCompact() {
			return copied(0, 0, n)
		}
		return copyRows(dst.Tensor, src.Tensor, copied)
	}
	if dst.format() == src.format() && dst.Device.IsHost() && (src.IsCompact() || !dst.IsCompact()) {
		if dst.Layout.IsRowMajor() {
			return copyHost(dst.Tensor, src.Tensor)
		}
		n := m.bytes(src)
		copy(dst.Data[dst.Offset:int64(dst.Offset)+n], src.Data[src.Offset:])
		return nil
	}
	if move, err := stridedMove(dst, src); err != nil {
		return err
	} else if move != nil {
		return move(ctx, dst.Tensor, src.Tensor, convert.Exec{Workers: w})
	}
	if src.IsCompact() && dst.IsCompact() && dst.format() != src.format() {
		return m.env.Transfer.Into(ctx, dst.Tensor, src.Tensor, src.format(), dst.format(), w)
	}
	compact, err := m.gather(ctx, src, w)
	if err != nil {
		return err
	}
	return m.scatter(ctx, dst, compact, w)
}

// stridedMove returns the reorder from a strided tensor of the host to compact storage in a described layout there; nil for
// others.
func stridedMove(dst, src *Operand) (convert.Move, error) {
	if !src.Device.IsHost() || !dst.Device.IsHost() || dst.Layout.IsOpaque() || dst.DType.Size() == 0 {
		return nil, nil
	}
	if src.IsCompact() || !dst.IsCompact() {
		return nil, nil
	}
	return convert.PlanStrided(src.Strides, dst.Layout, src.DType, src.Shape)
}

// gather returns src as a compact row-major tensor of the host, aligned for its dtype: src itself where it is one.
func (m *Machine) gather(ctx context.Context, src *Operand, w *device.Workers) (*tensor.Tensor, error) {
	if src.format() == graph.HostFormat && src.IsCompact() && !Misaligned(src.Tensor) {
		return src.Tensor, nil
	}
	out, err := tensor.New(src.DType, src.Shape...)
	if err != nil || src.Len() == 0 {
		return out, err
	}
	if src.format() == graph.HostFormat {
		return out, m.carry(ctx, &Operand{Tensor: out}, src, nil, w)
	}
	if src.IsCompact() {
		return out, m.env.Transfer.Into(ctx, out, src.Tensor, src.format(), graph.HostFormat, w)
	}
	n := m.bytes(src)
	span, err := tensor.New(tensor.Uint8, int(n))
	if err != nil {
		return nil, err
	}
	dev := m.env.Transfer.Devices[src.Device.Canonical()]
	if err := dev.CopyFrom(ctx, nil, span.Data, device.MemoryOf(src.Tensor), int64(src.Offset)); err != nil {
		return nil, err
	}
	here := &tensor.Tensor{DType: src.DType, Shape: src.Shape, Strides: src.Strides, Data: span.Data}
	return out, m.carry(ctx, &Operand{Tensor: out}, &Operand{Tensor: here}, nil, w)
}

// scatter stores a compact row-major tensor of the host into dst.
func (m *Machine) scatter(ctx context.Context, dst *Operand, src *tensor.Tensor, w *device.Workers) error {
	if dst.format() == graph.HostFormat {
		return copyHost(dst.Tensor, src)
	}
	if dst.IsCompact() {
		return m.env.Transfer.Into(ctx, dst.Tensor, src, graph.HostFormat, dst.format(), w)
	}
	dev, to := m.env.Transfer.Devices[dst.Device.Canonical()], device.MemoryOf(dst.Tensor)
	return copyRows(dst.Tensor, src, func(a, b, n int64) error {
		return dev.CopyTo(ctx, nil, to, int64(dst.Offset)+a, src.Data[int64(src.Offset)+b:int64(src.Offset)+b+n])
	})
}
