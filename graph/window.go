package graph

import (
	"fmt"
	"math"
)

// AutoPad is how a convolution or pooling chooses its pads.
type AutoPad uint8

// The values of ONNX's auto_pad.
const (
	PadExplicit  AutoPad = iota // NOTSET: Begin and End
	PadSameUpper                // as many outputs as ceil(in/stride), an odd pad at the end
	PadSameLower                // the same, an odd pad at the beginning
	PadValid                    // none
)

// Window is the geometry of a convolution or pooling, with one entry per spatial axis in every slice. It is a plain value;
// its slices may be shared with the node. Methods that take an axis panic where it is none, as an index of a slice does.
type Window struct {
	Kernel     []int
	Strides    []int // at least 1
	Dilations  []int // at least 1
	Begin, End []int // pads of PadExplicit; may be negative
	AutoPad    AutoPad
	Ceil       bool // ceil_mode
	Group      int  // at least 1
	// OutputPadding and OutputShape belong to ConvTranspose; OutputShape is nil where the node has none.
	OutputPadding []int
	OutputShape   []int
}

// maxExtent bounds what attributes may ask for per axis, so that no product of two of them overflows.
const maxExtent = math.MaxInt32

// ConvAttrs returns the geometry of a convolution (Conv, ConvInteger, QLinearConv, ConvTranspose, DeformConv) whose weights
// have the spatial dims kernel. A nil kernel is read from the attribute kernel_shape, and where there is none, the result
// has a nil Kernel. The error is an *InferError that wraps ErrAttr or, where kernel and kernel_shape differ,
// ErrShapeMismatch.
func ConvAttrs(n *Node, kernel []int) (Window, error) {
	return windowAttrs(n, kernel)
}

// PoolAttrs returns the geometry of a pooling (AveragePool, MaxPool, LpPool, MaxUnpool) from its attributes. The error is
// an *InferError that wraps ErrAttr.
func PoolAttrs(n *Node) (Window, error) {
	w, err := windowAttrs(n, nil)
	if err == nil && w.Kernel == nil {
		err = attrError(n, "kernel_shape", "a list of ints", "none")
	}
	return w, err
}

func windowAttrs(n *Node, kernel []int) (w Window, err error) {
	if n == nil {
		return w, errNilNode
	}
	if shape, ok := n.Ints("kernel_shape"); ok {
		if kernel != nil && len(kernel) != len(shape) {
			return w, attrError(n, "kernel_shape", fmt.Sprintf("%d entries", len(kernel)), fmt.Sprint(shape))
		}
		for i, k := range shape {
			if kernel != nil && int64(kernel[i]) != k {
				e := attrError(n, "kernel_shape", fmt.Sprint(kernel), fmt.Sprint(shape))
				e.Err = ErrShapeMismatch
				return w, e
			}
		}
		if kernel == nil {
			if kernel, err = windowList(n, "kernel_shape", make([]int, len(shape)), 0, 1); err != nil {
				return w, err
			}
		}
	}
	w.Kernel = kernel
	rank := len(kernel)
	if kernel == nil { // the rank has to come from another list
		rank = -1
		for _, name := range []string{"strides", "dilations"} {
			if v, ok := n.Ints(name); ok {
				rank = len(v)
			}
		}
		if v, ok := n.Ints("pads"); ok {
			rank = len(v) / 2
		}
		if rank < 0 {
			rank = 0
		}
	}
	room := make([]int, 5*rank) // of all lists
	part := func(from, to int) []int { return room[from*rank : to*rank : to*rank] }
	if w.Strides, err = windowList(n, "strides", part(0, 1), 1, 1); err != nil {
		return w, err
	}
	if w.Dilations, err = windowList(n, "dilations", part(1, 2), 1, 1); err != nil {
		return w, err
	}
	if _, err := windowList(n, "pads", part(2, 4), 0, -maxExtent); err != nil {
		return w, err
	}
	w.Begin, w.End = part(2, 3), part(3, 4)
	if w.OutputPadding, err = windowList(n, "output_padding", part(4, 5), 0, 0); err != nil {
		return w, err
	}
	if v, ok := n.Ints("output_shape"); ok && len(v) > 0 {
		if w.OutputShape, err = windowList(n, "output_shape", make([]int, len(v)), 0, 0); err != nil {
			return w, err
		}
		if kernel != nil && len(v) == rank+2 { // some exporters name all dims
			w.OutputShape = w.OutputShape[2:]
		} else if kernel != nil && len(v) != rank {
			return w, attrError(n, "output_shape", fmt.Sprintf("%d entries", rank), fmt.Sprint(v))
		}
	}
	switch s := n.Str("auto_pad", "NOTSET"); s {
	case "NOTSET", "":
	case "SAME_UPPER":
		w.AutoPad = PadSameUpper
	case "SAME_LOWER":
		w.AutoPad = PadSameLower
	case "VALID":
		w.AutoPad = PadValid
	default:
		return w, attrError(n, "auto_pad", "NOTSET, SAME_UPPER, SAME_LOWER or VALID", s)
	}
	w.Ceil = n.Int("ceil_mode", 0) != 0
	group := n.Int("group", 1)
	if group < 1 || group > maxExtent {
		return w, attrError(n, "group", "at least 1", fmt.Sprint(group))
	}
	w.Group = int(group)
	return w, nil
}

// windowList fills out with the list attribute of that name, with def where the node has none, each entry at least low, and
// returns it.
func windowList(n *Node, name string, out []int, def int, low int64) ([]int, error) {
	v, ok := n.Ints(name)
	if !ok || len(v) == 0 && len(out) > 0 && name != "kernel_shape" {
		for i := range out {
			out[i] = def
		}
		return out, nil
	}
	if len(v) != len(out) {
		return nil, attrError(n, name, fmt.Sprintf("%d entries", len(out)), fmt.Sprint(v))
	}
	for i, x := range v {
		if x < low || x > maxExtent {
			return nil, attrError(n, name, fmt.Sprintf("entries from %d to %d", low, maxExtent), fmt.Sprint(v))
		}
		out[i] = int(x)
	}
	return out, nil
}

// Extent returns how many elements of the padded input the kernel spans along a spatial axis: (k-1)·dilation + 1.
func (w *Window) Extent(axis int) int { return (w.Kernel[axis]-1)*w.Dilations[axis] + 1 }

// OutDim returns the number of window positions along a spatial axis of that input length, by ONNX's formulas; with
// ceil_mode, windows that would start behind the input and its leading pad are not counted. The result may be negative
// where the window is larger than the padded input.
func (w *Window) OutDim(axis int, in Dim) Dim {
	stride, extent := w.Strides[axis], w.Extent(axis)
	begin, end := w.Begin[axis], w.End[axis]
	switch w.AutoPad {
	case PadSameUpper, PadSameLower:
		return in.CeilDiv(D(stride))
	case PadValid:
		begin, end = 0, 0
	case PadExplicit:
	}
	if w.Ceil {
		// min(⌈(in+begin+end-extent)/stride⌉ + 1, ⌈(in+begin)/stride⌉) under one division
		return in.Add(D(begin + min(0, end-extent+stride))).CeilDiv(D(stride))
	}
	return in.Add(D(begin + end - extent)).FloorDiv(D(stride)).Add(D(1))
}

// Pads returns the pads before and behind a spatial axis of that length with out window positions.
func (w *Window) Pads(axis, in, out int) (begin, end int) {
	switch w.AutoPad {
	case PadExplicit:
		return w.Begin[axis], w.End[axis]
	case PadValid:
		return 0, 0
	case PadSameUpper, PadSameLower:
	}
	total := max(0, (out-1)*w.Strides[axis]+w.Extent(axis)-in)
	if w.AutoPad == PadSameUpper {
		return total / 2, total - total/2
	}
	return total - total/2, total / 2
}

// Resolve returns, for concrete spatial dims of the input of a convolution or pooling, those of the output and the pads
// that apply. The error wraps ErrShapeMismatch where the number of axes differs or the window is larger than the padded
// input.
func (w *Window) Resolve(in []int) (out, begin, end []int, err error) {
	if len(in) != len(w.Kernel) {
		return nil, nil, nil, fmt.Errorf("%w: window of %d spatial axes, input of %d", ErrShapeMismatch, len(w.Kernel), len(in))
	}
	out, begin, end = make([]int, len(in)), make([]int, len(in)), make([]int, len(in))
	for i, d := range in {
		n, _ := w.OutDim(i, D(d)).Const()
		if n < 0 || n == 0 && d > 0 {
			return nil, nil, nil, fmt.Errorf("%w: window of %d over %d elements at spatial axis %d", ErrShapeMismatch, w.Extent(i), d, i)
		}
		out[i] = int(n)
		begin[i], end[i] = w.Pads(i, d, out[i])
	}
	return out, begin, end, nil
}

// TransposeDim returns the length of the output of a transposed convolution along a spatial axis.
func (w *Window) TransposeDim(axis int, in Dim) Dim {
	stride := D(w.Strides[axis])
	begin, end := w.Begin[axis], w.End[axis]
	switch {
	case w.OutputShape != nil:
		return D(w.OutputShape[axis])
	case w.AutoPad == PadSameUpper, w.AutoPad == PadSameLower:
		return in.Mul(stride)
	case w.AutoPad == PadValid:
		begin, end = 0, 0
	}
	return in.Sub(D(1)).Mul(stride).Add(D(w.OutputPadding[axis] + w.Extent(axis) - begin - end))
}

// fitsTransposed reports whether TransposeDim of a number, or of the numbers in an expression, is what 64 bits hold.
func (w *Window) fitsTransposed(axis int, in Dim) bool {
	n, known := in.Const()
	if !known {
		return true
	}
	_, err := w.TransposeDim(axis, Sym("n")).Eval(Bindings{"n": n})
	return err == nil
}

// ResolveTranspose returns, for concrete spatial dims of the input of a transposed convolution, those of the output and
// what is cut off before and behind (negative where the output is filled up instead).
func (w *Window) ResolveTranspose(in []int) (out, begin, end []int, err error) {
	if len(in) != len(w.Kernel) || w.OutputShape != nil && len(w.OutputShape) != len(in) {
		return nil, nil, nil, fmt.Errorf("%w: window of %d spatial axes, input of %d", ErrShapeMismatch, len(w.Kernel), len(in))
	}
	out, begin, end = make([]int, len(in)), make([]int, len(in)), make([]int, len(in))
	for i, d := range in {
		n, _ := w.TransposeDim(i, D(d)).Const()
		if n < 0 || !w.fitsTransposed(i, D(d)) {
			return nil, nil, nil, fmt.Errorf("%w: %d outputs at spatial axis %d", ErrShapeMismatch, n, i)
		}
		out[i] = int(n)
		begin[i], end[i] = w.Begin[i], w.End[i]
		if w.OutputShape == nil && w.AutoPad == PadExplicit {
			continue
		}
		if w.OutputShape == nil && w.AutoPad == PadValid {
			begin[i], end[i] = 0, 0
			continue
		}
		total := max(0, (d-1)*w.Strides[i]+w.OutputPadding[i]+w.Extent(i)-out[i])
		begin[i], end[i] = total-total/2, total/2
		if w.AutoPad == PadSameUpper {
			begin[i], end[i] = total/2, total-total/2
		}
	}
	return out, begin, end, nil
}
