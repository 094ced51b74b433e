package conv

import (
	"math"

	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
)

// Regions samples regions of an image as RoiAlign does (ONNX RoiAlign-16, mode avg): a region is divided into bins, and a bin is the
// mean of Ratio×Ratio bilinear samples. The samples of a region are a grid, so that its rows are those of a resize. It is immutable
// and safe for concurrent use.
type Regions struct {
	h, w, oh, ow, ratio int
	scale, shift        float64
	set                 isa.Set
	kernels             vec.Kernels
}

// RegionSpec is what Regions are planned for.
type RegionSpec struct {
	H, W, OH, OW int // of the image and of the bins of a region
	Ratio        int // samples of a bin in each direction
	Scale        float64
	HalfPixel    bool // corners are half a pixel off, and regions may have any size; else they have one pixel at least
}

// NewRegions plans regions of images in layout NCHW16c. Sizes below 1 are ErrShape.
func NewRegions(t isa.Target, s RegionSpec) (*Regions, error) {
	if min(s.H, s.W, s.OH, s.OW, s.Ratio) < 1 || max(s.H, s.W) > maxDim || max(s.OH, s.OW)*s.Ratio > maxDim {
		return nil, failf("plan", ErrShape, "regions %+v", s)
	}
	r := &Regions{h: s.H, w: s.W, oh: s.OH, ow: s.OW, ratio: s.Ratio, scale: s.Scale, set: t.Set, kernels: vec.For(t)}
	if s.HalfPixel {
		r.shift = 0.5
	}
	return r, nil
}

// Bins returns how many bins a region has.
func (r *Regions) Bins() int { return r.oh * r.ow }

// Scratch returns the floats that Sample works in.
func (r *Regions) Scratch() int { return 2 * 16 * r.ow * r.ratio }

// A RegionAxis is where the samples of a region lie along an axis: those in [From, To) within a pixel of the image, between positions
// At[2i] and At[2i+1], with Weight[i] of the second.
type RegionAxis struct {
	From, To int
	At       []int32
	Weight   []float32
}

// Positions returns how many samples an axis has: along the height, or along the width.
func (r *Regions) Positions() (height, width int) { return r.oh * r.ratio, r.ow * r.ratio }

// Locate finds the samples of the region [x0, y0, x1, y1], in pixels over Scale. y and x have room for the positions of an axis.
func (r *Regions) Locate(region []float32, y, x *RegionAxis) {
	r.locate(y, float64(region[1]), float64(region[3]), r.oh, r.h, 1)
	r.locate(x, float64(region[0]), float64(region[2]), r.ow, r.w, 64)
}

// locate finds the samples of an axis of so many bins; positions are given times unit.
func (r *Regions) locate(a *RegionAxis, from, to float64, bins, size int, unit int32) {
	begin := from*r.scale - r.shift
	length := to*r.scale - r.shift - begin
	if r.shift == 0 {
		length = math.Max(length, 1)
	}
	bin := length / float64(bins)
	a.From, a.To = 0, 0
	for i := range bins * r.ratio {
		p := begin + float64(i/r.ratio)*bin + (float64(i%r.ratio)+0.5)*bin/float64(r.ratio)
		if !(p >= -1 && p <= float64(size)) {
			continue
		}
		if a.To == 0 {
			a.From = i
		}
		a.To = i + 1
		p = math.Max(p, 0)
		first := min(int(p), size-1)
		second, weight := min(first+1, size-1), p-float64(first)
		if first == second {
			weight = 0
		}
		a.At[2*i], a.At[2*i+1], a.Weight[i] = unit*int32(first), unit*int32(second), float32(weight)
	}
}

// Sample computes the bins of a region, [bins][16], of a block of 16 channels [H][W][16]. scratch has Scratch() floats.
func (r *Regions) Sample(dst, block []float32, y, x *RegionAxis, scratch []float32) {
	wide := r.ow * r.ratio
	sums, row := scratch[:16*wide], scratch[16*wide:32*wide]
	clear(sums)
	scale := 1 / float32(r.ratio*r.ratio)
	inside := sums[16*x.From : 16*x.To]
	for bin := range r.oh {
		out := dst[16*r.ow*bin:][:16*r.ow]
		from, to := max(y.From, bin*r.ratio), min(y.To, (bin+1)*r.ratio)
		if from >= to || x.From >= x.To {
			clear(out)
			continue
		}
		for k := from; k < to; k++ {
			a, b := block[16*r.w*int(y.At[2*k]):], block[16*r.w*int(y.At[2*k+1]):]
			samples := inside
			if k > from {
				samples = row[:len(inside)]
			}
			linearRow(r.set, &samples[0], &a[0], &b[0], &x.At[2*x.From], &x.Weight[x.From], y.Weight[k], x.To-x.From)
			if k > from {
				r.kernels.Binary(vec.Add, inside, inside, samples)
			}
		}
		for i := range r.ow {
			reducePixels(r.set, false, &out[16*i], &sums[16*i*r.ratio], r.ratio, scale)
		}
	}
}
