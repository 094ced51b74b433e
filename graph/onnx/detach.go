package onnx

import (
	"bytes"
	"context"
	"fmt"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
)

// WeightsLocation is the location of external data that is a tensor of a list beside the model: offset is its index there, and
// length its size in bytes.
const WeightsLocation = "carve:weights"

// Detach writes a model as bytes, and the constants of at least 1024 bytes in it as references to a list: TensorProtos with
// external data at WeightsLocation. The tensors of the list are the model's own where they are compact, and each is there once.
// Parse reads the bytes with the list in Options.Weights. Faults are an *Error, as for Save. Cost: the size of the graph.
func Detach(ctx context.Context, m *Model) (data []byte, weights []*tensor.Tensor, err error) {
	defer func() { err = saved(err, "") }()
	e, err := newExporter(ctx, m, nil)
	if err != nil {
		return nil, nil, err
	}
	e.weights = &weightList{index: map[*tensor.Tensor]int{}}
	r, err := e.model(m)
	if err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	b.Grow(r.n)
	if _, err := r.WriteTo(&b); err != nil {
		return nil, nil, err
	}
	return b.Bytes(), e.weights.list, nil
}

// weightList are the tensors that a model refers to.
type weightList struct {
	list  []*tensor.Tensor
	index map[*tensor.Tensor]int
}

// add returns the reference to a tensor.
func (w *weightList) add(t *tensor.Tensor, name string) (tensor.External, error) {
	i, ok := w.index[t]
	if !ok {
		kept := t
		if !t.IsCompact() {
			var err error
			if kept, err = t.Clone(); err != nil {
				return tensor.External{}, err
			}
		}
		if err := kept.Check(); err != nil {
			return tensor.External{}, err
		}
		if !kept.Device.IsHost() {
			return tensor.External{}, tensor.ErrNotHost
		}
		i = len(w.list)
		w.list, w.index[t] = append(w.list, kept), i
	}
	return tensor.External{Name: name, DType: t.DType, Shape: t.Shape, Location: WeightsLocation, Offset: int64(i), Length: int64(w.list[i].NumBytes())}, nil
}

// external returns the bytes of a tensor outside the model: in Options.Weights, or in a file.
func (l *loader) external(x tensor.External) ([]byte, error) {
	if x.Location != WeightsLocation || l.o.Weights == nil {
		return l.data.read(x)
	}
	if x.Offset >= int64(len(l.o.Weights)) {
		return nil, fmt.Errorf("%w: weight %d of %d", ErrExternalData, x.Offset, len(l.o.Weights))
	}
	t := l.o.Weights[x.Offset]
	if t == nil || !t.Device.IsHost() || !t.IsCompact() || t.NumBytes() != x.Bytes {
		return nil, fmt.Errorf("%w: weight %d is %v, wanted are %d bytes", ErrExternalData, x.Offset, t, x.Bytes)
	}
	return t.Bytes(), nil
}

// shared returns the tensor of Options.Weights that t is read from, t where it is none of these.
func (l *loader) shared(t *tensor.Tensor) *tensor.Tensor {
	if len(l.o.Weights) == 0 || len(t.Data) == 0 {
		return t
	}
	if l.weights == nil {
		l.weights = make(map[*byte]*tensor.Tensor, len(l.o.Weights))
		for _, w := range l.o.Weights {
			if w != nil && w.IsCompact() && w.Device.IsHost() && w.NumBytes() > 0 {
				l.weights[unsafe.SliceData(w.Bytes())] = w
			}
		}
	}
	w := l.weights[unsafe.SliceData(t.Bytes())]
	if w == nil || w.DType != t.DType || len(w.Shape) != len(t.Shape) {
		return t
	}
	for i, n := range w.Shape {
		if n != t.Shape[i] {
			return t
		}
	}
	return w
}
