package plugin

import (
	"context"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// copyCost is what a plain copy to or from a processor is taken to cost where the plugin says nothing.
var copyCost = convert.Cost{Fixed: 10000, PerByte: 0.2}

// readConverters asks for the converters. Where a processor has memory of its own and brings none for row-major tensors, they
// are copies.
func (b *Backend) readConverters(w *writer) error {
	l := b.p.l
	var list []cConverter
	if l.table.converters != 0 {
		out, n := one[uintptr](w), one[uint64](w)
		if w.err != nil {
			return w.err
		}
		if err := b.p.plain(w.side, "converters", l.table.converters, b.p.handle(), address(out), address(n)); err != nil {
			return err
		}
		var err error
		if list, err = views[cConverter](w.side, *out, *n, "converter"); err != nil {
			return fmt.Errorf("%s: %w", l.path, err)
		}
	}
	up, down := b.p.ownMemory(), b.p.ownMemory()
	rows := graph.Format{Device: b.p.id}
	for _, c := range list {
		x, err := b.converter(w.side, &c)
		if err != nil {
			return fmt.Errorf("%s: converter %d: %w", l.path, c.index, err)
		}
		b.converters = append(b.converters, x)
		up = up && !(x.From == graph.HostFormat && x.To == rows)
		down = down && !(x.From == rows && x.To == graph.HostFormat)
		for _, f := range []graph.Format{x.From, x.To} {
			if f.Device.IsHost() && !f.Layout.IsRowMajor() && !f.Layout.IsOpaque() && !slices.Contains(b.layouts, f.Layout) {
				b.layouts = append(b.layouts, f.Layout)
			}
		}
	}
	if b.p.ownMemory() {
		for _, c := range convert.Copies(graph.RowMajor, copyCost, b.space) {
			if up && c.To == rows || down && c.From == rows {
				b.converters = append(b.converters, c)
			}
		}
	}
	return nil
}

// converter makes a Converter of the plugin's description.
func (b *Backend) converter(from side, c *cConverter) (convert.Converter, error) {
	var x convert.Converter
	var err error
	if b.p.l.table.convert == 0 {
		return x, fmt.Errorf("%w: the function convert is not there", ErrPlugin)
	}
	if x.From, err = b.p.readFormat(from, c.from); err != nil {
		return x, err
	}
	if x.To, err = b.p.readFormat(from, c.to); err != nil {
		return x, err
	}
	opaque := x.From.Layout.IsOpaque() || x.To.Layout.IsOpaque()
	if opaque && b.p.l.table.convertedSize == 0 {
		return x, fmt.Errorf("%w: a layout of its own needs the function converted_size", ErrPlugin)
	}
	if x.Name = from.text(c.name); x.Name == "" {
		x.Name = b.p.info.Name + "-convert"
	}
	x.Cost = convert.Cost{Fixed: amount(c.fixedNS), PerByte: amount(c.nsPerByte)}
	types, low, high := c.types, int(c.minRank), int(c.maxRank)
	x.Supports = func(dt tensor.DType, rank int) bool {
		return dt.Bytes(1) > 0 && (types == 0 || types>>uint(dt)&1 == 1) && rank >= low && (high <= 0 || rank <= high)
	}
	if opaque {
		x.Size = b.size
	}
	index := c.index
	x.Plan = func(dt tensor.DType, dims []int) (convert.Move, error) { return b.plan(index, x.From, x.To, dt, dims) }
	return x, nil
}

// size returns the bytes of a tensor in a format.
func (b *Backend) size(f graph.Format, dt tensor.DType, dims []int) (int64, error) {
	if !f.Layout.IsOpaque() {
		return graph.PhysicalSize(f, dt, dims)
	}
	l := b.p.l
	if l.table.convertedSize == 0 {
		return 0, fmt.Errorf("%w: %v needs the function converted_size", ErrPlugin, f)
	}
	if _, err := tensor.NumElements(dims); err != nil {
		return 0, err
	}
	w, done := b.p.writer()
	defer done()
	t, n := one[cTensor](w), one[int64](w)
	_ = l.head(w, t, dt, dims)
	t.format = l.format(w, f)
	if err := b.p.do(w, "converted_size", l.table.convertedSize, b.p.handle(), t.format, address(t), address(n)); err != nil {
		return 0, err
	}
	if *n < 0 {
		return 0, fmt.Errorf("%w: converted_size gives %d bytes", ErrPlugin, *n)
	}
	return *n, nil
}

// plan prepares a conversion.
func (b *Backend) plan(index uint32, from, to graph.Format, dt tensor.DType, dims []int) (convert.Move, error) {
	src, err := b.size(from, dt, dims)
	if err != nil {
		return nil, err
	}
	dst, err := b.size(to, dt, dims)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, d, s *tensor.Tensor, x convert.Exec) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if q, ok := x.Stream.(*device.Queue); ok {
			to, from := ends{*d, to, dst}, ends{*s, from, src} // the tensors may be others when the queue comes to it
			q.Do(func() error { return b.convert(index, nil, &to, &from) })
			return nil
		}
		own, ok := x.Stream.(*stream)
		if ok && own.p != b.p {
			own, ok = nil, false
		}
		if !ok && x.Stream != nil && b.p.ownMemory() {
			return device.ErrStream
		}
		return b.convert(index, own, &ends{*d, to, dst}, &ends{*s, from, src})
	}, nil
}

// ends is one end of a conversion: a tensor, its format, and its physical size.
type ends struct {
	t      tensor.Tensor
	format graph.Format
	bytes  int64
}

// convert calls the plugin's converter, on a stream where that is not nil.
func (b *Backend) convert(index uint32, on *stream, dst, src *ends) error {
	l := b.p.l
	w, done := b.p.writer()
	defer done()
	lent := loan{on: on}
	write := func(e *ends, written bool) uintptr {
		c := operand{cTensor: one[cTensor](w)}
		c.dims = l.head(w, c.cTensor, e.t.DType, e.t.Shape)
		c.format, c.bytes = l.format(w, e.format), e.bytes
		if w.err == nil {
			w.err = l.point(w, &c, &e.t)
		}
		if e.t.Device.IsHost() {
			c.data = lent.lend(w, e.t.Data, written)
		} else if !written {
			w.placeOf(l.opened(e.t.Device), e.t.Handle, int64(e.t.Offset), e.bytes)
		}
		return address(c.cTensor)
	}
	to, from := write(dst, true), write(src, false)
	stream := w.stream(on)
	if w.err != nil {
		return w.err
	}
	if err := b.p.do(w, "convert", l.table.convert, b.p.handle(), uintptr(index), to, from, stream); err != nil {
		return err
	}
	if !dst.t.Device.IsHost() {
		w.wrote(l.opened(dst.t.Device), dst.t.Handle, int64(dst.t.Offset), dst.bytes)
	}
	return lent.settle()
}
