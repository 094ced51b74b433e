package conv

// PlaneResize is a resize like Resize of images in layout NCHW, plane by plane. It takes a few nanoseconds per element,
// which for an image of few channels is less than what the blocked layout's padding costs. It is immutable and safe for
// concurrent use.
type PlaneResize struct {
	planes, h, w int
	y, x         ResizeAxis
	rows         int // of a chunk
}

// NewPlaneResize plans the resize of n images of c channels, h by w, to len(y.First) by len(x.First). Errors are those of
// NewResize.
func NewPlaneResize(n, c, h, w int, y, x ResizeAxis) (*PlaneResize, error) {
	if err := checkAxes(n, c, h, w, y, x); err != nil {
		return nil, err
	}
	for _, size := range [][2]int{{h, w}, {len(y.First), len(x.First)}} {
		if _, err := imageStride(n, c, size[0], size[1], 0, "image"); err != nil {
			return nil, err
		}
	}
	return &PlaneResize{planes: n * c, h: h, w: w, y: y, x: x, rows: max(1, min(len(y.First), (16<<10)/len(x.First)))}, nil
}

func (r *PlaneResize) pieces() int { return (len(r.y.First) + r.rows - 1) / r.rows }

// Chunks returns the number of chunks that Run accepts, at least 1.
func (r *PlaneResize) Chunks() int { return r.planes * r.pieces() }

// Run computes chunks [lo, hi) out of Chunks(). Errors are as for Plan.Run.
func (r *PlaneResize) Run(lo, hi int, dst, src []float32) error {
	if lo < 0 || hi > r.Chunks() || lo > hi {
		return failf("run", ErrShape, "chunks [%d, %d) of %d", lo, hi, r.Chunks())
	}
	oh, ow := len(r.y.First), len(r.x.First)
	if need := r.planes * r.h * r.w; len(src) < need {
		return failf("run", ErrBuffer, "source has %d floats, needs %d", len(src), need)
	}
	if need := r.planes * oh * ow; len(dst) < need {
		return failf("run", ErrBuffer, "destination has %d floats, needs %d", len(dst), need)
	}
	pieces := r.pieces()
	for i := lo; i < hi; i++ {
		from, plane := i%pieces*r.rows, i/pieces
		in, out := src[plane*r.h*r.w:][:r.h*r.w], dst[plane*oh*ow:][:oh*ow]
		for y := from; y < min(from+r.rows, oh); y++ {
			row := out[ow*y : ow*(y+1)]
			top := in[r.w*int(r.y.First[y]):][:r.w]
			switch {
			case r.y.Second != nil:
				r.linearRow(row, top, in[r.w*int(r.y.Second[y]):][:r.w], r.y.Weight[y])
			case y > from && r.y.First[y] == r.y.First[y-1]:
				copy(row, out[ow*(y-1):ow*y])
			default:
				for k, at := range r.x.First {
					row[k] = top[at]
				}
			}
		}
	}
	return nil
}

// linearRow interpolates between two rows of the source.
func (r *PlaneResize) linearRow(row, top, bottom []float32, wy float32) {
	first, second, weight := r.x.First[:len(row)], r.x.Second[:len(row)], r.x.Weight[:len(row)]
	for k := range row {
		i, j, w := first[k], second[k], weight[k]
		t := top[i] + (top[j]-top[i])*w
		b := bottom[i] + (bottom[j]-bottom[i])*w
		row[k] = t + (b-t)*wy
	}
}
