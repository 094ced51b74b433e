package winograd

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/kernel/winograd/points"
)

// F2 and F4 are the algorithms that there are, by the side of their tiles of results.
const (
	F2 = points.F2
	F4 = points.F4
)

// Weights are the transformed weights of a convolution of ic channels to oc by F(m): for each of (m+2)² points a matrix
// [ic, oc] in panels of 16 columns, as package gemm packs it, with columns of zeros behind oc.
type Weights struct {
	target    isa.Target
	m, oc, ic int
}

// NewWeights returns the layout of weights, which is the same for every target, and that target's way to it. The error is a *conv.Error that wraps conv.ErrShape where there is no F(m), where a
// number is not positive, or where the size cannot be addressed.
func NewWeights(t isa.Target, m, oc, ic int) (Weights, error) {
	w := Weights{t, m, oc, ic}
	if m != F2 && m != F4 || oc < 1 || ic < 1 {
		return w, shapeError("F(%d) of %d to %d channels", m, ic, oc)
	}
	if size := float64(w.points()) * float64(gemm.Panels(oc)) * float64(ic) * gemm.Panel; size > math.MaxInt/8 || size > 1<<42 {
		return w, shapeError("%g transformed weights", size)
	}
	return w, nil
}

func shapeError(format string, args ...any) error {
	return &conv.Error{Op: "plan", What: fmt.Sprintf(format, args...), Cause: conv.ErrShape}
}

// points is the number of points, side by side.
func (w Weights) points() int { return (w.m + 2) * (w.m + 2) }

// point is the number of floats of a point.
func (w Weights) point() int { return gemm.PackedLen(w.ic, w.oc) }

// Floats returns the length of the transformed weights.
func (w Weights) Floats() int { return w.points() * w.point() }

// Chunks returns the number of chunks that Pack and Unpack accept: one for every 16 output channels.
func (w Weights) Chunks() int { return gemm.Panels(w.oc) }

// check returns an error for slices that are too short, or chunks that there are not.
func (w Weights) check(transformed []float32, weights []byte, lo, hi int) error {
	switch {
	case lo < 0 || hi > w.Chunks() || lo > hi:
		return &conv.Error{Op: "pack", What: fmt.Sprintf("chunks [%d, %d) of %d", lo, hi, w.Chunks()), Cause: conv.ErrShape}
	case len(weights) < 36*w.oc*w.ic:
		return &conv.Error{Op: "pack", What: fmt.Sprintf("weights have %d bytes, need %d", len(weights), 36*w.oc*w.ic), Cause: conv.ErrBuffer}
	case len(transformed) < w.Floats():
		return &conv.Error{Op: "pack", What: fmt.Sprintf("%d floats for %d", len(transformed), w.Floats()), Cause: conv.ErrBuffer}
	}
	return nil
}

// Pack transforms chunks [lo, hi) of weights, which are little-endian float32 [oc][ic][3][3] at any address. Chunks may be
// packed at once by several goroutines. Errors wrap conv.ErrBuffer or conv.ErrShape.
func (w Weights) Pack(dst []float32, src []byte, lo, hi int) error {
	if err := w.check(dst, src, lo, hi); err != nil {
		return err
	}
	var taps [9 * 256]float32 // of 16 input channels: [channel][tap][16 output channels]
	var temp [3 * 16 * points.MaxSide]float32
	for ob := lo; ob < hi; ob++ {
		rows := min(gemm.Panel, w.oc-gemm.Panel*ob)
		for ic := 0; ic < w.ic; ic += 16 {
			n := min(16, w.ic-ic)
			for at := 0; at < 9*n; at += 16 {
				reorder.TileBytes(w.target, (*[256]float32)(taps[16*at:]), src, 9*(gemm.Panel*ob*w.ic+ic)+at, 9*w.ic, rows, min(16, 9*n-at))
			}
			transformFilter(w.target.Set, w.m, &dst[(ob*w.ic+ic)*gemm.Panel], &taps[0], &temp[0], 4*w.point(), n)
		}
	}
	return nil
}

// Unpack computes chunks [lo, hi) of weights, in the order and form that Pack reads, from transformed ones: those whose
// transform is nearest, which differ from the ones packed by a few units in the last place of the largest of the nine.
func (w Weights) Unpack(dst []byte, src []float32, lo, hi int) error {
	if err := w.check(src, dst, lo, hi); err != nil {
		return err
	}
	inverse := pseudoInverse(points.FilterRows(w.m))
	n := w.m + 2
	var half [3][points.MaxSide]float64
	for ob := lo; ob < hi; ob++ {
		for ic := range w.ic {
			for o := range min(gemm.Panel, w.oc-gemm.Panel*ob) {
				half = [3][points.MaxSide]float64{}
				for i := range n {
					for j := range n {
						u := float64(src[(i*n+j)*w.point()+(ob*w.ic+ic)*gemm.Panel+o])
						for y := range 3 {
							half[y][j] += inverse[y][i] * u
						}
					}
				}
				for k := range 9 {
					sum := 0.0
					for j := range n {
						sum += half[k/3][j] * inverse[k%3][j]
					}
					binary.LittleEndian.PutUint32(dst[4*(9*((gemm.Panel*ob+o)*w.ic+ic)+k):], math.Float32bits(float32(sum)))
				}
			}
		}
	}
	return nil
}

// pseudoInverse returns (GᵀG)⁻¹Gᵀ.
func pseudoInverse(g [][3]float64) (out [3][points.MaxSide]float64) {
	var s [3][3]float64
	for _, row := range g {
		for i := range 3 {
			for j := range 3 {
				s[i][j] += row[i] * row[j]
			}
		}
	}
	minor := func(i, j int) float64 {
		a, b, c, d := (i+1)%3, (i+2)%3, (j+1)%3, (j+2)%3
		return s[a][c]*s[b][d] - s[a][d]*s[b][c]
	}
	det := s[0][0]*minor(0, 0) + s[0][1]*minor(0, 1) + s[0][2]*minor(0, 2)
	for i := range 3 {
		for k, row := range g {
			for j := range 3 {
				out[i][k] += minor(j, i) / det * row[j]
			}
		}
	}
	return out
}
