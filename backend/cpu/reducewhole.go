package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/cast"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/place"
)

// ReduceL2, ReduceLogSum and ReduceLogSumExp of integers: in float64, and cast to the integers' type, as in package reference.

// wideScratch is how many integers are float64 at a time.
const wideScratch = 512

// wholeSums reduces integers T of a kind in float64, some of them at a time.
type wholeSums[T integer] struct {
	set     isa.Set
	kernels double.Kernels
	kind    cast.Type
	squares bool
	after   func(x float64) float64
}

func planReduceWholly[T integer](p *planner, n *graph.Node) error {
	r := &wholeSums[T]{set: p.target.Set, kernels: p.doubles(), kind: castKinds[n.Inputs[0].Type.DType], after: math.Log}
	switch n.Op.Name {
	case "ReduceL2":
		r.squares, r.after = true, math.Sqrt
	case logSumExpName:
		return r.planLogSumExp(p, n)
	}
	return reduceEach(p, n, r.sums)
}

// wide converts integers to float64.
func (r *wholeSums[T]) wide(dst []float64, src []T) {
	if len(src) < fewElements {
		for i, x := range src {
			dst[i] = float64(x)
		}
		return
	}
	cast.Elements(r.set, asBytes(dst), cast.Float64, asBytes(src), r.kind, len(src))
}

// put writes results, cast as a Cast does.
func (r *wholeSums[T]) put(dst []T, src []float64) {
	cast.Elements(r.set, asBytes(dst), r.kind, asBytes(src), cast.Float64, len(dst))
}

// sums is the fold of a reduction for reduceEach.
func (r *wholeSums[T]) sums(o, s []T, next, count, by int) {
	var made [128]float64
	for len(o) > 0 {
		part := made[:min(len(o), len(made))]
		switch {
		case next == 1 && len(part) >= fewColumns:
			r.columns(part, s, count, by)
		case by == 1 && count <= fewWide:
			for j := range part {
				part[j] = r.short(s[j*next:][:count])
			}
		case by == 1:
			r.rows(part, s, next, count)
		default:
			r.each(part, s, next, count, by)
		}
		for j, x := range part {
			part[j] = r.after(x)
		}
		r.put(o[:len(part)], part)
		o, s = o[len(part):], s[min(len(part)*next, len(s)):]
	}
}

// each adds up elements one by one.
func (r *wholeSums[T]) each(made []float64, s []T, next, count, by int) {
	for j := range made {
		at, sum := j*next, 0.0
		for range count {
			x := float64(s[at])
			if r.squares {
				x *= x
			}
			sum += x
			at += by
		}
		made[j] = sum
	}
}

// fewWide is how many integers of a row are added up faster one by one than by kernels.
const fewWide = 64

// short adds up a short row, four sums at a time, since a sum waits for the one before.
func (r *wholeSums[T]) short(s []T) float64 {
	var a, b, c, d float64
	for ; len(s) >= 4; s = s[4:] {
		w, x, y, z := float64(s[0]), float64(s[1]), float64(s[2]), float64(s[3])
		if r.squares {
			w, x, y, z = w*w, x*x, y*y, z*z
		}
		a, b, c, d = a+w, b+x, c+y, d+z
	}
	for _, v := range s {
		x := float64(v)
		if r.squares {
			x *= x
		}
		a += x
	}
	return (a + b) + (c + d)
}

// rows adds up rows, next elements from one to the other.
func (r *wholeSums[T]) rows(made []float64, s []T, next, count int) {
	var room [wideScratch]float64 // cleared once: that takes as long as a short row
	op := double.Sum
	if r.squares {
		op = double.SumSquares
	}
	for j := range made {
		made[j] = 0
		for row := s[j*next:][:count]; len(row) > 0; {
			x := room[:min(len(row), len(room))]
			r.wide(x, row[:len(x)])
			made[j] += r.kernels.Reduce(op, x)
			row = row[len(x):]
		}
	}
}

// columns adds up count rows of at most 128 elements, by apart.
func (r *wholeSums[T]) columns(made []float64, s []T, count, by int) {
	if s32, ok := any(s).([]int32); ok && element.WideColumns(r.set, r.squares, made, s32, by, count) {
		return
	}
	clear(made)
	if len(made) < 64 { // elements for which kernels are not worth the calls
		for k := range count {
			row := s[k*by:][:len(made)]
			if !r.squares {
				for j, x := range row {
					made[j] += float64(x)
				}
				continue
			}
			for j, v := range row {
				x := float64(v)
				made[j] += x * x
			}
		}
		return
	}
	var room [128]float64
	x := room[:len(made)]
	for k := range count {
		r.wide(x, s[k*by:][:len(x)])
		if r.squares {
			r.kernels.Binary(double.Mul, double.VV, x, x, x)
		}
		r.kernels.Binary(double.Add, double.VV, made, made, x)
	}
}

// planLogSumExp emits ln Σ e^x: the axes last, row by row.
func (r *wholeSums[T]) planLogSumExp(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	axes, err := p.reduceAxes(n)
	if err != nil {
		return err
	}
	size := x.Type.DType.Size()
	l := p.reduced(p.Dims[x.ID], axes, size, p.In(x))
	if l.inner != 1 {
		t := p.Temp(p.Bytes(x))
		p.permute([]int{l.outer, l.count, l.inner}, []int{0, 2, 1}, size, l.src, t)
		l = reducedPlace{src: t, outer: l.outer * l.inner, count: l.count, inner: 1}
	}
	dst := p.Out(n.Outputs[0])
	p.emit(step{chunks: l.outer, grain: grainFor(float64(l.count)*1.5 + 20), body: func(st *state, _, lo, hi int) {
		o, s := of[T](st, dst), of[T](st, l.src)
		var made [wideScratch]float64
		for lo < hi {
			part := made[:min(hi-lo, len(made))]
			for i := range part {
				part[i] = r.logSumExp(s[(lo+i)*l.count:][:l.count])
			}
			r.put(o[lo:lo+len(part)], part)
			lo += len(part)
		}
	}}, []place.Memory{l.src}, []place.Memory{dst})
	return nil
}

// logSumExp is ln Σ e^x of a row, the greatest element taken off first.
func (r *wholeSums[T]) logSumExp(row []T) float64 {
	most := float64(element.Fold(r.set, element.Max, row))
	var room [wideScratch]float64
	sum, off := 0.0, [1]float64{most}
	for len(row) > 0 {
		x := room[:min(len(row), len(room))]
		r.wide(x, row[:len(x)])
		r.kernels.Binary(double.Sub, double.VS, x, x, off[:])
		r.kernels.Apply(double.Exp, x, x)
		sum += r.kernels.Reduce(double.Sum, x)
		row = row[len(x):]
	}
	return most + math.Log(sum)
}
