package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// GridSample of row-major images over one to three axes. Which pixels a point reads is the same for all channels, so that it is
// computed once, before they are read.

// gridTaps is how many pixels along an axis a mode reads.
var gridTaps = map[string]int{"nearest": 1, "bilinear": 2, "linear": 2, "bicubic": 4, "cubic": 4}

func gridSampleSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, g := n.Inputs[0], n.Inputs[1]
	if rank := len(x.Type.Shape); !isDouble(x, g) && !operators.IsFloat32(x, g) || rank < 3 || rank > 5 || len(g.Type.Shape) != rank {
		return nil, property.Because(property.ShapeReason, "float32 or float64 images of one to three axes only, %v is %v, %v is %v", x, x.Type, g, g.Type)
	}
	if mode := n.Str("mode", "linear"); gridTaps[mode] == 0 {
		return nil, property.Because(property.Attribute, "mode %q", mode)
	}
	return operators.RowMajor(n), nil
}

// gridSampler finds the pixels of an image of these dims that points read.
type gridSampler struct {
	dims        []int
	taps, each  int // taps along an axis, and of a point
	padding     string
	align       bool
	count, size int // points of an image, pixels of a plane
}

// A bilinearSum writes the points of a channel, each of which reads two by two pixels from first on, with four weights. Rows of the plane have so many pixels.
type bilinearSum[T float32 | float64] func(out, plane []T, first []int32, weights []T, width int)

func planGridFloats(p *planner, n *graph.Node) error {
	return planGridSample(p, n, func(out, plane []float32, first []int32, weights []float32, width int) {
		element.Bilinear(p.target.Set, out, plane, first, weights, width)
	})
}

func planGridDoubles(p *planner, n *graph.Node) error {
	return planGridSample(p, n, func(out, plane []float64, first []int32, weights []float64, width int) {
		element.BilinearDoubles(p.target.Set, out, plane, first, weights, width)
	})
}

func planGridSample[T float32 | float64](p *planner, n *graph.Node, bilinear bilinearSum[T]) error {
	dx, dg := p.Dims[n.Inputs[0].ID], p.Dims[n.Inputs[1].ID]
	images, channels, rank := dx[0], dx[1], len(dx)-2
	s := gridSampler{dims: dx[2:], taps: gridTaps[n.Str("mode", "linear")], each: 1, padding: n.Str("padding_mode", "zeros"),
		align: n.Int("align_corners", 0) != 0, count: product(dg[1 : rank+1]), size: product(dx[2:])}
	if s.size == 0 || s.size > math.MaxInt32 || dg[rank+1] != rank || dg[0] != images {
		return property.Because(property.ShapeReason, "points %v in images %v", dg, dx)
	}
	for range rank {
		s.each *= s.taps
	}
	src, grid, dst := p.In(n.Inputs[0]), p.In(n.Inputs[1]), p.Out(n.Outputs[0])
	if s.each == 4 && s.taps == 2 && min(s.dims[0], s.dims[1]) > 1 {
		planBilinear(p, &s, images, channels, src, grid, dst, bilinear)
		return nil
	}
	each := s.each
	offsets, weights := p.Temp(images*s.count*each*4), p.Temp(images*s.count*each*width[T]())
	p.emit(step{chunks: images * s.count, grain: grainFor(float64(each) * 10), body: func(st *state, _, lo, hi int) {
		g, off, weight := of[T](st, grid), of[int32](st, offsets), of[T](st, weights)
		for i := lo; i < hi; i++ {
			gridPoint(&s, g[rank*i:][:rank], off[i*each:(i+1)*each], weight[i*each:(i+1)*each])
		}
	}}, []place.Memory{grid}, []place.Memory{offsets, weights})
	p.emit(step{chunks: images * channels, grain: grainFor(float64(s.count*each) * 1.5), body: func(st *state, _, lo, hi int) {
		x, y, off, weight := of[T](st, src), of[T](st, dst), of[int32](st, offsets), of[T](st, weights)
		for i := lo; i < hi; i++ {
			at := i / channels * s.count * each
			gridSums(s.each, y[i*s.count:(i+1)*s.count], x[i*s.size:(i+1)*s.size], off[at:at+s.count*each], weight[at:at+s.count*each])
		}
	}}, []place.Memory{src, offsets, weights}, []place.Memory{dst})
	return nil
}

// pointBlock is how many points of an image are found at a time; a byte tells one.
const pointBlock = 64

// planBilinear emits a GridSample that reads two by two pixels for a point. Of a point within the image its first pixel is kept, of one at its edges all four, and
// its number in its block.
func planBilinear[T float32 | float64](p *planner, s *gridSampler, images, channels int, src, grid, dst place.Memory, bilinear bilinearSum[T]) {
	points, blocks := images*s.count, ceilDiv(s.count, pointBlock)
	first, weights, edge := p.Temp(4*points), p.Temp(4*width[T]()*points), p.Temp(16*points)
	numbers, counts := p.Temp(images*blocks*pointBlock), p.Temp(images*blocks)
	p.emit(step{chunks: images * blocks, grain: grainFor(pointBlock * 10), body: func(st *state, _, lo, hi int) {
		g, at, weight, off := of[T](st, grid), of[int32](st, first), of[T](st, weights), of[int32](st, edge)
		for i := lo; i < hi; i++ {
			begin := i % blocks * pointBlock
			j, n := i/blocks*s.count+begin, min(pointBlock, s.count-begin)
			st.Bytes(counts)[i] = byte(planePoints(s, g[2*j:][:2*n], at[j:][:n], weight[4*j:][:4*n], off[4*j:][:4*n], (*[pointBlock]byte)(st.Bytes(numbers)[i*pointBlock:])))
		}
	}}, []place.Memory{grid}, []place.Memory{first, weights, edge, numbers, counts})
	p.emit(step{chunks: images * channels, grain: grainFor(float64(s.count)), body: func(st *state, _, lo, hi int) {
		x, y := of[T](st, src), of[T](st, dst)
		for i := lo; i < hi; i++ {
			image := i / channels
			at := image * s.count
			out, plane, off, weight := y[i*s.count:][:s.count], x[i*s.size:][:s.size], of[int32](st, edge)[4*at:], of[T](st, weights)[4*at:]
			bilinear(out, plane, of[int32](st, first)[at:], weight, s.dims[1])
			for b, n := range st.Bytes(counts)[image*blocks:][:blocks] {
				for _, k := range st.Bytes(numbers)[(image*blocks+b)*pointBlock:][:n] {
					j := b*pointBlock + int(k)
					out[j] = sumInside(plane, off[4*j:][:4], weight[4*j:][:4])
				}
			}
		}
	}}, []place.Memory{src, first, weights, edge, numbers, counts}, []place.Memory{dst})
}

// planePoints finds the first pixels of points of a plane, 0 where their two by two do not lie in it, and their weights, as gridPoint does. It finds all four pixels of
// those others, writes their numbers, and returns how many they are.
func planePoints[T float32 | float64](s *gridSampler, g []T, first []int32, weights []T, off []int32, numbers *[pointBlock]byte) (outside int) {
	height, width := s.dims[0], s.dims[1]
	across, down, half := float64(width), float64(height), 1.0
	if s.align {
		across, down, half = across-1, down-1, 0
	}
	for k := range first {
		x, y := ((float64(g[2*k])+1)*across-half)/2, ((float64(g[2*k+1])+1)*down-half)/2
		left, up := math.Floor(x), math.Floor(y)
		u, v := x-left, y-up
		w := (*[4]T)(weights[4*k:])
		w[0], w[1], w[2], w[3] = T((1-u)*(1-v)), T(u*(1-v)), T((1-u)*v), T(u*v)
		i, j := int(left), int(up)
		if uint(i) < uint(width-1) && uint(j) < uint(height-1) {
			first[k] = int32(j*width + i) // a pixel's number
			continue
		}
		first[k], numbers[outside%pointBlock] = 0, byte(k)
		outside++
		o := (*[4]int32)(off[4*k:])
		if !reachable(x) || !reachable(y) {
			gridPoint(s, g[2*k:][:2], o[:], w[:])
			continue
		}
		columns, rows := [2]int{s.pixel(i, width), s.pixel(i+1, width)}, [2]int{s.pixel(j, height), s.pixel(j+1, height)}
		for t := range o {
			if o[t] = -1; rows[t/2] >= 0 && columns[t%2] >= 0 {
				o[t] = int32(rows[t/2]*width + columns[t%2])
			}
		}
	}
	return outside
}

// reachable reports whether a coordinate is a number and not beyond every padding.
func reachable(x float64) bool { return math.Abs(x) <= 1<<40 }

// coordinate returns where among n pixels a normalised coordinate lies.
func (s *gridSampler) coordinate(g float64, n int) float64 {
	if s.align {
		return (g + 1) / 2 * float64(n-1)
	}
	return ((g+1)*float64(n) - 1) / 2
}

// gridPoint finds the pixels of a point, whose coordinates begin with that along the last axis, and their weights; those that lie in zeros are -1.
func gridPoint[T float32 | float64](s *gridSampler, g []T, off []int32, weight []T) {
	var at [4]int
	var by [4]float64
	done, scale := 1, 1
	off[0], weight[0] = 0, 1
	var exact [64]float64
	exact[0] = 1
	for a := len(s.dims) - 1; a >= 0; a-- {
		s.axis(float64(g[len(s.dims)-1-a]), s.dims[a], &at, &by)
		for k := s.taps - 1; k >= 0; k-- { // the first tap's place is read by the others
			for j := range done {
				to := k*done + j
				before := off[j]
				exact[to] = exact[j] * by[k]
				if off[to] = -1; at[k] >= 0 && before >= 0 {
					off[to] = before + int32(at[k]*scale) // a pixel's number
				}
			}
		}
		done, scale = done*s.taps, scale*s.dims[a]
	}
	for k := range weight {
		weight[k] = T(exact[k])
	}
}

// axis finds the taps of a normalised coordinate along an axis of n pixels.
func (s *gridSampler) axis(g float64, n int, at *[4]int, weight *[4]float64) {
	x := s.coordinate(g, n)
	if !reachable(x) {
		for k := range at {
			at[k], weight[k] = -1, 0
		}
		if s.padding != "zeros" {
			at[0], weight[0] = 0, 1
		}
		return
	}
	first := math.Floor(x)
	switch s.taps {
	case 1:
		first, weight[0] = math.RoundToEven(x), 1
	case 2:
		weight[0], weight[1] = 1-(x-first), x-first
	default:
		for k := range weight {
			weight[k] = keys(math.Abs(x - first - float64(k-1)))
		}
		first--
	}
	for k := range s.taps {
		at[k] = s.pixel(int(first)+k, n)
	}
}

// pixel returns the pixel that is read at place i along an axis of n pixels, -1 for a zero.
func (s *gridSampler) pixel(i, n int) int {
	switch {
	case i >= 0 && i < n:
		return i
	case s.padding == "border":
		return min(max(i, 0), n-1)
	case s.padding == "reflection":
		return s.reflect(float64(i), n)
	}
	return -1
}

// reflect folds a coordinate at the image's edges: its corner points when corners are aligned, else half a pixel beyond.
func (s *gridSampler) reflect(x float64, n int) int {
	lo, hi := -0.5, float64(n)-0.5
	if s.align {
		lo, hi = 0, float64(n-1)
	}
	span := hi - lo
	if span <= 0 {
		return 0
	}
	if x = math.Mod(math.Abs(x-lo), 2*span); x > span {
		x = 2*span - x
	}
	return int(math.Min(math.Max(x+lo, 0), float64(n-1)))
}

// keys is the cubic convolution kernel at distance d, with a = -0.75. Source: R. Keys, doi:10.1109/TASSP.1981.1163711.
func keys(d float64) float64 {
	const a = -0.75
	switch {
	case d <= 1:
		return ((a+2)*d-(a+3))*d*d + 1
	case d < 2:
		return ((a*d-5*a)*d+8*a)*d - 4*a
	}
	return 0
}

// gridSums computes the points of one channel, each of so many pixels.
func gridSums[T float32 | float64](each int, out, plane []T, off []int32, weight []T) {
	if each == 1 {
		for i := range out {
			if out[i] = 0; off[i] >= 0 {
				out[i] = plane[off[i]]
			}
		}
		return
	}
	if each == 8 { // three axes
		for i := range out {
			o, w := (*[8]int32)(off[8*i:]), (*[8]T)(weight[8*i:])
			if o[0]|o[1]|o[2]|o[3]|o[4]|o[5]|o[6]|o[7] >= 0 {
				out[i] = plane[o[0]]*w[0] + plane[o[1]]*w[1] + plane[o[2]]*w[2] + plane[o[3]]*w[3] +
					(plane[o[4]]*w[4] + plane[o[5]]*w[5] + plane[o[6]]*w[6] + plane[o[7]]*w[7])
			} else {
				out[i] = sumInside(plane, o[:], w[:])
			}
		}
		return
	}
	for i := range out {
		out[i] = sumInside(plane, off[i*each:(i+1)*each], weight[i*each:(i+1)*each])
	}
}

// sumInside leaves out what is -1.
func sumInside[T float32 | float64](plane []T, off []int32, weight []T) T {
	total := T(0)
	for k, o := range off {
		if o >= 0 {
			total += plane[o] * weight[k]
		}
	}
	return total
}

func init() {
	table.Register("GridSample", operator{Signatures: gridSampleSignatures, Plan: planGridFloats})
	registerDoubles(operator{Signatures: gridSampleSignatures, Plan: planGridDoubles}, 0, "GridSample")
}
