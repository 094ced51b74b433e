package conv

import (
	"math"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// ResizeAxis says where the output positions of one axis lie in the source: between First and Second, with weight Weight of
// the second. A nearest-neighbour axis has Second nil.
type ResizeAxis struct {
	First, Second []int32
	Weight        []float32
}

// Coordinates is how an output position becomes a source position (ONNX Resize, coordinate_transformation_mode).
type Coordinates uint8

const (
	HalfPixel        Coordinates = iota // (x+0.5)/scale - 0.5
	PytorchHalfPixel                    // the same, 0 where there is one output
	AlignCorners                        // x*(in-1)/(scale*in-1)
	Asymmetric                          // x/scale
	NearestHalfPixel                    // (x+0.5)/scale, x where nothing is resized (tf_half_pixel_for_nn)
)

// Rounding is how a nearest neighbour is chosen (ONNX Resize, nearest_mode).
type Rounding uint8

const (
	RoundPreferFloor Rounding = iota // halves down
	RoundPreferCeil                  // halves up
	Floor
	Ceil
	CeilIfSmaller // up along an axis that shrinks, else down (Upsample, and Resize of operator set 10)
)

// at returns the source position of output x, computed in F. A scale that the model gives need not make a whole length of the source's;
// aligned corners are those of that length, as in ONNX's tests.
func at[F float32 | float64](c Coordinates, x, in, out int, scale F) F {
	length := F(out)
	if scale > 0 {
		length = scale * F(in) // rounded, before 1 is taken from it
	} else {
		scale = length / F(in)
	}
	switch {
	case c == AlignCorners && length == 1, c == PytorchHalfPixel && out == 1:
		return 0
	case c == AlignCorners:
		return F(x) * F(in-1) / (length - 1)
	case c == Asymmetric:
		return F(x) / scale
	case c == NearestHalfPixel && (in != out || scale != 1):
		return (F(x) + 0.5) / scale
	}
	return (F(x)+0.5)/scale - 0.5
}

// Inside returns the source position of output x, moved to the source's edge where it lies outside; the other arguments are those of
// NearestAxis.
func (c Coordinates) Inside(x, in, out int, scale float64) float64 {
	return min(max(at(c, x, in, out, scale), 0), float64(in-1))
}

// Round returns the place of a nearest neighbour of position p, which may lie outside of the source, along an axis that does not shrink.
func (r Rounding) Round(p float64) float64 {
	switch r {
	case RoundPreferCeil:
		return math.Floor(p + 0.5)
	case Floor, CeilIfSmaller:
		return math.Floor(p)
	case Ceil:
		return math.Ceil(p)
	case RoundPreferFloor:
	}
	return math.Ceil(p - 0.5)
}

// NearestAxis returns the table of an axis of in source and out output positions, both at least 1; scale is out/in unless
// the model says otherwise (zero: out/in). Positions are computed in float32, of which scales are: where the quotient that a scale was
// rounded from puts one between two neighbours, or on a pixel, it lies there, as it does for ONNX Runtime and TensorFlow.
func NearestAxis(in, out int, scale float64, c Coordinates, r Rounding) ResizeAxis {
	a := ResizeAxis{First: make([]int32, max(0, out))}
	if r == CeilIfSmaller && (scale > 0 && scale < 1 || scale == 0 && out < in) {
		r = Ceil
	}
	for x := range a.First {
		p := r.Round(float64(at(c, x, in, out, float32(scale))))
		a.First[x] = int32(min(max(p, 0), float64(in-1)))
	}
	return a
}

// LinearAxis returns the table of an axis for linear interpolation; its arguments are those of NearestAxis. Positions
// outside the source are moved to its edge.
func LinearAxis(in, out int, scale float64, c Coordinates) ResizeAxis {
	n := max(0, out)
	a := ResizeAxis{First: make([]int32, n), Second: make([]int32, n), Weight: make([]float32, n)}
	for x := range n {
		p := c.Inside(x, in, out, scale)
		first := math.Floor(p)
		a.First[x] = int32(first)
		a.Second[x] = int32(min(first+1, float64(in-1)))
		a.Weight[x] = float32(p - first)
	}
	return a
}

// Resize is a nearest-neighbour or bilinear resize made ready for given shapes. It is immutable and safe for concurrent use.
type Resize struct {
	n, blocks, h, w    int
	y, x               ResizeAxis
	at                 []int32 // byte offsets of the two source pixels of each column
	srcImage, dstImage int
	linear             bool
	set                isa.Set
	rows               int // of a chunk
}

// NewResize plans the resize of n images of c channels, h by w, in layout NCHW16c, to len(y.First) by len(x.First). Both
// axes are nearest or both linear. srcImage and dstImage are distances between images in floats, zero: compact. Errors are
// as for NewConv; a table that points outside the source is ErrShape.
func NewResize(t isa.Target, n, c, h, w int, y, x ResizeAxis, srcImage, dstImage int) (*Resize, error) {
	if err := checkAxes(n, c, h, w, y, x); err != nil {
		return nil, err
	}
	oh, ow := len(y.First), len(x.First)
	r := &Resize{n: n, blocks: blocksOf(c), h: h, w: w, y: y, x: x, linear: y.Second != nil, set: t.Set}
	var err error
	if r.srcImage, err = imageStride(n, 16*r.blocks, h, w, srcImage, "source"); err != nil {
		return nil, err
	}
	if r.dstImage, err = imageStride(n, 16*r.blocks, oh, ow, dstImage, "destination"); err != nil {
		return nil, err
	}
	if r.linear {
		for i := range x.First {
			r.at = append(r.at, 64*x.First[i], 64*x.Second[i])
		}
	}
	r.rows = max(1, min(oh, (64<<10)/(64*ow)))
	return r, nil
}

// checkAxes checks sizes, and that the tables fit each other and the source.
func checkAxes(n, c, h, w int, y, x ResizeAxis) error {
	oh, ow := len(y.First), len(x.First)
	if n < 1 || c < 1 || h < 1 || w < 1 || oh < 1 || ow < 1 || n > maxDim || c > maxDim || h > maxDim || w > maxDim || oh > maxDim || ow > maxDim {
		return failf("plan", ErrShape, "%d images, %d channels, %dx%d to %dx%d", n, c, h, w, oh, ow)
	}
	linear := y.Second != nil
	for _, a := range []struct {
		ResizeAxis
		size int
	}{{y, h}, {x, w}} {
		if (a.Second != nil) != linear || linear && (len(a.Second) != len(a.First) || len(a.Weight) != len(a.First)) {
			return failf("plan", ErrShape, "tables of %d, %d and %d positions", len(a.First), len(a.Second), len(a.Weight))
		}
		for _, list := range [][]int32{a.First, a.Second} {
			for _, i := range list {
				if i < 0 || int(i) >= a.size {
					return failf("plan", ErrShape, "position %d of %d", i, a.size)
				}
			}
		}
	}
	return nil
}

func (r *Resize) pieces() int { return (len(r.y.First) + r.rows - 1) / r.rows }

// Chunks returns the number of chunks that Run accepts, at least 1.
func (r *Resize) Chunks() int { return r.n * r.blocks * r.pieces() }

// Run computes chunks [lo, hi) out of Chunks(). Errors are as for Plan.Run.
func (r *Resize) Run(lo, hi int, dst, src []float32) error {
	if lo < 0 || hi > r.Chunks() || lo > hi {
		return failf("run", ErrShape, "chunks [%d, %d) of %d", lo, hi, r.Chunks())
	}
	oh, ow := len(r.y.First), len(r.x.First)
	if need := (r.n-1)*r.srcImage + r.blocks*16*r.h*r.w; len(src) < need {
		return failf("run", ErrBuffer, "source has %d floats, needs %d", len(src), need)
	}
	if need := (r.n-1)*r.dstImage + r.blocks*16*oh*ow; len(dst) < need {
		return failf("run", ErrBuffer, "destination has %d floats, needs %d", len(dst), need)
	}
	pieces := r.pieces()
	for i := lo; i < hi; i++ {
		from := i % pieces * r.rows
		b := i / pieces % r.blocks
		n := i / pieces / r.blocks
		in := src[n*r.srcImage+b*16*r.h*r.w:][:16*r.h*r.w]
		out := dst[n*r.dstImage+b*16*oh*ow:][:16*oh*ow]
		for y := from; y < min(from+r.rows, oh); y++ {
			row := out[16*ow*y : 16*ow*(y+1)]
			switch {
			case r.linear:
				a, b := in[16*r.w*int(r.y.First[y]):], in[16*r.w*int(r.y.Second[y]):]
				linearRow(r.set, &row[0], &a[0], &b[0], &r.at[0], &r.x.Weight[0], r.y.Weight[y], ow)
			case y > from && r.y.First[y] == r.y.First[y-1]:
				copy(row, out[16*ow*(y-1):16*ow*y])
			default:
				nearestRow(row, in[16*r.w*int(r.y.First[y]):], r.x.First)
			}
		}
	}
	return nil
}

// nearestRow copies the pixels of src that x names.
func nearestRow(row, src []float32, x []int32) {
	for i, from := range x {
		*(*pixelRow)(row[16*i:]) = *(*pixelRow)(src[16*from:])
	}
}

// portableLinear does in Go what linearRow512 does.
func portableLinear(dst, a, b *float32, at *int32, wx *float32, wy float32, n int) {
	for i := range n {
		first, second := offsets(at, i)
		p, q, r, s := rowAt(a, first), rowAt(a, second), rowAt(b, first), rowAt(b, second)
		out, w := rowAt(dst, 64*i), *floatAt(wx, i)
		for l := range out {
			top := p[l] + (q[l]-p[l])*w
			bottom := r[l] + (s[l]-r[l])*w
			out[l] = top + (bottom-top)*wy
		}
	}
}
