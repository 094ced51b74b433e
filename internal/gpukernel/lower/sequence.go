package lower

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// part returns n elements of an axis of x, from start on in steps.
func (l *lowering) part(x gpukernel.Value, axis, start, n, step int) gpukernel.Value {
	shape := slices.Clone(l.p.Shape(x))
	starts, steps := make([]int, len(shape)), slices.Repeat([]int{1}, len(shape))
	shape[axis], starts[axis], steps[axis] = n, start, step
	return l.p.Slice(x, shape, starts, steps)
}

// rotary turns pairs of elements by angles that depend on the position.
func (l *lowering) rotary(n *graph.Node) error {
	x, err := l.floats(n, 3)
	if err != nil {
		return err
	}
	d, t := slices.Clone(l.p.Shape(x)), l.p.Type(x)
	if len(d) == 4 {
		x = l.p.Transpose(x, 0, 2, 1, 3)
	} else {
		heads := int(max(min(n.Int("num_heads", 0), 1<<20), 0))
		if len(d) != 3 || heads < 1 || d[2]%heads != 0 {
			return refuse("%d heads of %v", heads, d)
		}
		x = l.p.Reshape(x, d[0], d[1], heads, d[2]/heads)
	}
	s := l.p.Shape(x) // batch, position, head, element
	turned := int(max(min(n.Int("rotary_embedding_dim", 0), 1<<20), -1))
	if turned == 0 {
		turned = s[3]
	}
	if turned < 2 || turned > s[3] || turned%2 != 0 {
		return refuse("%d of %d elements", turned, s[3])
	}
	cos, err := l.angles(n, 1, s, turned/2)
	if err != nil {
		return err
	}
	sin, err := l.angles(n, 2, s, turned/2)
	if err != nil {
		return err
	}
	half := turned / 2
	between, second := 1, half
	interleaved := n.Int("interleaved", 0) != 0
	if interleaved {
		between, second = 2, 1
	}
	a, b := l.part(x, 3, 0, half, between), l.part(x, 3, second, half, between)
	re, im := l.p.Scalar(t, "$2 * $0 - $3 * $1", a, b, cos, sin), l.p.Scalar(t, "$3 * $0 + $2 * $1", a, b, cos, sin)
	var y gpukernel.Value
	if interleaved {
		pair := append(slices.Clone(s[:3]), half, 1)
		y = l.p.Reshape(l.p.Concat(4, l.p.Reshape(re, pair...), l.p.Reshape(im, pair...)), s[0], s[1], s[2], turned)
	} else {
		y = l.p.Concat(3, re, im)
	}
	if turned < s[3] {
		y = l.p.Concat(3, y, l.part(x, 3, turned, s[3]-turned, 1))
	}
	if len(d) == 4 {
		y = l.p.Transpose(y, 0, 2, 1, 3)
	}
	return l.result(n, 0, y)
}

// angles returns a cache of sines or cosines by batch and position, so that it broadcasts over heads.
func (l *lowering) angles(n *graph.Node, i int, s []int, half int) (gpukernel.Value, error) {
	v, err := l.operand(n, i)
	if err != nil {
		return 0, err
	}
	if n.Input(3) != nil {
		ids, err := l.operand(n, 3)
		if err != nil {
			return 0, err
		}
		c := l.p.Shape(v)
		if its := l.p.Shape(ids); len(c) != 2 || c[1] != half || len(its) > 2 || isFloat(l.p.Type(ids)) {
			return 0, refuse("angles %v at positions %v", c, its)
		}
		v = l.p.Gather(v, l.p.Expand(ids, s[0], s[1]), 0)
	}
	if elements(l.p.Shape(v)) != s[0]*s[1]*half {
		return 0, refuse("angles %v for %v", l.p.Shape(v), s)
	}
	return l.p.Reshape(v, s[0], s[1], 1, half), nil
}

// causalConv convolves each channel with what lies before it, and hands on the end of that.
func (l *lowering) causalConv(n *graph.Node) error {
	x, err := l.singles(n, 3)
	if err != nil {
		return err
	}
	w, err := l.operand(n, 1)
	if err != nil {
		return err
	}
	t, d, k := l.p.Type(x), l.p.Shape(x), l.p.Shape(w)
	if len(d) != 3 || len(k) != 3 || k[0] != d[1] || k[1] != 1 || k[2] > windowMost {
		return refuse("windows %v for %v", k, d)
	}
	row := x
	if k[2] > 1 {
		past := l.p.Expand(l.p.Float(t, 0), d[0], d[1], k[2]-1)
		if n.Input(3) != nil {
			if past, err = l.operand(n, 3); err != nil {
				return err
			}
			if !slices.Equal(l.p.Shape(past), []int{d[0], d[1], k[2] - 1}) || l.p.Type(past) != t {
				return refuse("a state %v of type %s", l.p.Shape(past), l.p.Type(past))
			}
		}
		row = l.p.Concat(2, past, x)
	}
	sum := l.p.Float(gpukernel.F32, 0)
	if n.Input(2) != nil {
		if sum, err = l.perChannel(n, 2, d[1], 3); err != nil {
			return err
		}
	}
	for i := range k[2] {
		by := l.p.Reshape(l.part(w, 2, i, 1, 1), d[1], 1)
		sum = l.p.Scalar(gpukernel.F32, "fma_f32($1, $2, $0)", sum, l.part(row, 2, i, d[2], 1), by)
	}
	switch activation := n.Str("activation", "none"); activation {
	case "none":
	case "silu", "swish":
		sum = l.p.Scalar(gpukernel.F32, "silu_f32($0)", sum)
	default:
		return refuse("activation %q", activation)
	}
	if len(n.Outputs) > 1 && n.Outputs[1] != nil {
		if k[2] == 1 {
			return refuse("a state that is empty")
		}
		if err := l.result(n, 1, l.part(row, 2, d[2], k[2]-1, 1)); err != nil {
			return err
		}
	}
	return l.result(n, 0, l.p.Cast(sum, t))
}
