package lower

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// sampledTap is an element along an axis that a point is made of: which one, and by what weight; 0 for none.
type sampledTap struct{ at, weight gpukernel.Value }

// gridSampling is the attributes of a GridSample.
type gridSampling struct {
	mode, padding string
	align         bool
}

// gridSample makes each point of a weighted sum of the image's elements around where the grid says.
func (l *lowering) gridSample(n *graph.Node) error {
	x, err := l.singles(n, 3)
	if err != nil {
		return err
	}
	grid, err := l.operand(n, 1)
	if err != nil {
		return err
	}
	in, points := l.p.Shape(x), l.p.Shape(grid)
	rank := len(in) - 2
	if len(points) != rank+2 || points[rank+1] != rank || points[0] != in[0] || !isFloat(l.p.Type(grid)) {
		return refuse("a grid %v of type %s for %v", points, l.p.Type(grid), in)
	}
	s := gridSampling{n.Str("mode", "linear"), n.Str("padding_mode", "zeros"), n.Int("align_corners", 0) != 0}
	shape := slices.Concat(in[:2], points[1:rank+1])
	list, most := make([][]sampledTap, rank), 1
	for a := range rank {
		starts, steps := make([]int, rank+2), slices.Repeat([]int{1}, rank+2)
		starts[rank+1] = rank - 1 - a
		own := slices.Clone(points)
		own[rank+1] = 1
		coordinate := l.p.Reshape(l.p.Slice(grid, own, starts, steps), slices.Concat(points[:1], []int{1}, points[1:rank+1])...)
		if list[a], err = l.sampled(s, coordinate, in[2+a]); err != nil {
			return err
		}
		if most *= len(list[a]); most > windowMost {
			return refuse("sums of %d elements", most)
		}
	}
	t := l.p.Type(x)
	var sum gpukernel.Value
	for k := range most {
		along := []gpukernel.Along{{Axis: 0, Index: gpukernel.NoValue}, {Axis: 1, Index: gpukernel.NoValue}}
		weight := l.p.Float(gpukernel.F32, 1)
		for a, left := 0, k; a < rank; a++ {
			tap := list[a][left%len(list[a])]
			left /= len(list[a])
			along = append(along, gpukernel.Along{Index: tap.at, Within: true})
			weight = l.p.Scalar(gpukernel.F32, "$0 * $1", weight, tap.weight)
		}
		y := l.p.Scalar(gpukernel.F32, "($1 == 0.0f ? 0.0f : $0 * $1)", l.p.Pick(x, shape, along...), weight)
		if k == 0 {
			sum = y
		} else {
			sum = l.p.Scalar(gpukernel.F32, "$0 + $1", sum, y)
		}
	}
	return l.result(n, 0, l.p.Cast(sum, t))
}

// sampled returns what a coordinate from -1 to 1 along an axis of so many elements means.
func (l *lowering) sampled(s gridSampling, coordinate gpukernel.Value, size int) ([]sampledTap, error) {
	f := func(text string, in ...gpukernel.Value) gpukernel.Value {
		return l.p.Scalar(gpukernel.F32, text, in...)
	}
	x := f(fmt.Sprintf("(($0 + 1.0f) * %d.0f - 1.0f) * 0.5f", size), coordinate)
	if s.align {
		x = f(fmt.Sprintf("($0 + 1.0f) * 0.5f * %d.0f", size-1), coordinate)
	}
	first := "floor_f32($0)"
	var weights []string
	switch s.mode {
	case "nearest":
		first, weights = "rint_f32($0)", []string{"1.0f"}
	case "linear", "bilinear":
		weights = []string{"1.0f - $0", "$0"}
	case "cubic", "bicubic":
		first = "floor_f32($0) - 1.0f"
		near := "((1.25f * (%[1]s) - 2.25f) * (%[1]s) * (%[1]s) + 1.0f)"
		far := "(((-0.75f * (%[1]s) + 3.75f) * (%[1]s) - 6.0f) * (%[1]s) + 3.0f)"
		weights = []string{fmt.Sprintf(far, "1.0f + $0"), fmt.Sprintf(near, "$0"), fmt.Sprintf(near, "1.0f - $0"), fmt.Sprintf(far, "2.0f - $0")}
	default:
		return nil, refuse("mode %q", s.mode)
	}
	begin, fraction := f(first, x), f("$0 - floor_f32($0)", x)
	beyond := l.p.Scalar(gpukernel.Bool, "!(fabs_f32($0) <= 1099511627776.0f)", x)
	list := make([]sampledTap, len(weights))
	for k, text := range weights {
		at, weight := f(fmt.Sprintf("$0 + %d.0f", k), begin), f(text, fraction)
		inside, instead := fmt.Sprintf("($0 >= 0.0f && $0 <= %d.0f)", size-1), map[bool]string{true: "1.0f", false: "0.0f"}[k == 0]
		switch s.padding {
		case "zeros":
			weight, instead = f("("+inside+" ? $1 : 0.0f)", at, weight), "0.0f"
		case "border":
		case "reflection":
			lo, span := -0.5, float64(size)
			if s.align {
				lo, span = 0, float64(size-1)
			}
			folded := "0.0f"
			if span > 0 {
				folded = fmt.Sprintf("(%.1ff - fabs_f32(fmod_f32(fabs_f32($0 - %.1ff), %.1ff) - %.1ff) + %.1ff)", span, lo, 2*span, span, lo)
			}
			at = f("("+inside+" ? $0 : "+folded+")", at)
		default:
			return nil, refuse("padding by %q", s.padding)
		}
		list[k].weight = f("($1 ? "+instead+" : $0)", weight, beyond)
		list[k].at = l.p.Scalar(gpukernel.I32, fmt.Sprintf("(i32)($1 ? 0.0f : clip_f32($0, 0.0f, %d.0f))", size-1), at, beyond)
	}
	return list, nil
}
