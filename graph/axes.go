package graph

import (
	"fmt"
	"slices"
)

// NormAxis returns axis, counted from the end where negative, as an index into rank dims. The error wraps ErrAttr.
func NormAxis(axis int64, rank int) (int, error) {
	if axis < -int64(rank) || axis >= int64(rank) {
		return 0, fmt.Errorf("%w: axis %d of rank %d", ErrAttr, axis, rank)
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), nil
}

// NormAxes is NormAxis for a list, which must not name an axis twice. The order is kept.
func NormAxes(axes []int64, rank int) ([]int, error) {
	if len(axes) > rank {
		return nil, fmt.Errorf("%w: %d axes of rank %d", ErrAttr, len(axes), rank)
	}
	out := make([]int, 0, len(axes))
	for _, a := range axes {
		i, err := NormAxis(a, rank)
		if err != nil {
			return nil, err
		}
		if slices.Contains(out, i) {
			return nil, fmt.Errorf("%w: axis %d twice", ErrAttr, i)
		}
		out = append(out, i)
	}
	return out, nil
}

// BroadcastShapes returns the shape that concrete shapes broadcast to, aligned at the last axis, as ONNX and NumPy define
// it. The error wraps ErrShapeMismatch and gives both shapes.
func BroadcastShapes(shapes ...[]int) ([]int, error) {
	var out []int
	for k, s := range shapes {
		if k == 0 {
			out = slices.Clone(s)
			continue
		}
		before := out
		out = slices.Clone(before)
		if len(s) > len(out) {
			out = append(slices.Repeat([]int{1}, len(s)-len(out)), out...)
		}
		off := len(out) - len(s)
		for i, d := range s {
			switch {
			case out[off+i] == d || d == 1:
			case out[off+i] == 1:
				out[off+i] = d
			default:
				return nil, fmt.Errorf("%w: %v and %v do not broadcast", ErrShapeMismatch, before, s)
			}
		}
	}
	if out == nil {
		out = []int{}
	}
	return out, nil
}

// Axes returns the axes that a node names, in the attribute "axes" or, for versions that take them as an operand, in
// operand (its elements, nil where the node omits it). ok is false where the node names none.
func Axes(n *Node, operand []int64) (axes []int64, ok bool) {
	if n != nil {
		if v, has := n.Ints("axes"); has {
			return v, true
		}
	}
	return operand, operand != nil
}

// ReduceAxes returns which axes of that rank a reduction reduces, in ascending order: those that the node names (see
// Axes); none where it names none and noop_with_empty_axes is set; otherwise all. The error wraps ErrAttr.
func ReduceAxes(n *Node, operand []int64, rank int) ([]int, error) {
	if n == nil {
		return nil, errNilNode
	}
	axes, _ := Axes(n, operand)
	if len(axes) == 0 {
		if n.Int("noop_with_empty_axes", 0) != 0 {
			return []int{}, nil
		}
		out := make([]int, rank)
		for i := range out {
			out[i] = i
		}
		return out, nil
	}
	out, err := NormAxes(axes, rank)
	if err != nil {
		return nil, err
	}
	slices.Sort(out)
	return out, nil
}
