package lower

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// pad puts elements around some axes, or takes some away: a constant, or the operand's own.
func (l *lowering) pad(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	before, after, err := padding(n, len(l.p.Shape(x)))
	if err != nil {
		return err
	}
	mode := n.Str("mode", "constant")
	if mode != "constant" {
		for axis := range before {
			if before[axis] != 0 || after[axis] != 0 {
				if x, err = l.padWithOwn(x, mode, axis, before[axis], after[axis]); err != nil {
					return err
				}
			}
		}
		return l.result(n, 0, x)
	}
	shape := slices.Clone(l.p.Shape(x))
	starts, steps, cut := make([]int, len(shape)), slices.Repeat([]int{1}, len(shape)), false
	for i := range shape {
		cut = cut || before[i] < 0 || after[i] < 0
		starts[i] = max(-before[i], 0)
		if shape[i] -= starts[i] + max(-after[i], 0); shape[i] < 1 {
			return refuse("padding that leaves nothing")
		}
		before[i], after[i] = max(before[i], 0), max(after[i], 0)
	}
	if cut {
		x = l.p.Slice(x, shape, starts, steps)
	}
	t := l.p.Type(x)
	with := l.p.Constant(t, "0")
	if n.Input(2) != nil {
		if with, err = l.operand(n, 2); err != nil {
			return err
		}
		with = l.p.Reshape(with)
	} else if n.Attrs.Lookup("value") != nil {
		with = l.p.Float(t, n.Float("value", 0))
	}
	return l.result(n, 0, l.p.Pad(x, with, before, after))
}

// padding returns by how much each axis is padded.
func padding(n *graph.Node, rank int) (before, after []int, err error) {
	pads, ok := n.Ints("pads")
	if !ok {
		pads, ok = n.Ints("paddings")
	}
	if !ok {
		if pads, ok, err = integers(n, 1); err != nil || !ok {
			return nil, nil, refuse("pads are not constant")
		}
	}
	which := from(0, rank)
	if list, given, err := integers(n, 3); err != nil {
		return nil, nil, err
	} else if given {
		if which, err = graph.NormAxes(list, rank); err != nil {
			return nil, nil, refuse("%v", err)
		}
	}
	if len(pads) != 2*len(which) {
		return nil, nil, refuse("%d pads of %d axes", len(pads), len(which))
	}
	before, after = make([]int, rank), make([]int, rank)
	for i, a := range which {
		if max(pads[i], -pads[i], pads[len(which)+i], -pads[len(which)+i]) > 1<<28 {
			return nil, nil, refuse("pads %v", pads)
		}
		before[a], after[a] = int(pads[i]), int(pads[len(which)+i])
	}
	return before, after, nil
}

// padWithOwn pads an axis with elements of x.
func (l *lowering) padWithOwn(x gpukernel.Value, mode string, axis, before, after int) (gpukernel.Value, error) {
	shape := slices.Clone(l.p.Shape(x))
	size := shape[axis]
	if shape[axis] += before + after; shape[axis] < 1 || shape[axis] > 1<<28 {
		return 0, refuse("padding of %d elements by %d and %d", size, before, after)
	}
	period := max(2*(size-1), 1)
	text := ""
	switch mode {
	case "edge":
		text = fmt.Sprintf("($0 < %[1]d ? 0 : $0 - %[1]d > %[2]d ? %[2]d : $0 - %[1]d)", before, size-1)
	case "wrap":
		text = fmt.Sprintf("(($0 + %d) %% %d)", modulo(-before, size), size)
	case "reflect": // there and back again
		text = fmt.Sprintf("(($0 + %[1]d) %% %[2]d < %[3]d ? ($0 + %[1]d) %% %[2]d : %[2]d - ($0 + %[1]d) %% %[2]d)", modulo(-before, period), period, size)
	default:
		return 0, refuse("padding by %q", mode)
	}
	along := same(len(shape))
	along[axis] = gpukernel.Along{Index: l.p.Scalar(gpukernel.I32, text, l.along(shape, axis)), Within: true}
	return l.p.Pick(x, shape, along...), nil
}

func modulo(a, n int) int { return (a%n + n) % n }
