package conv

import (
	"errors"
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// Causes of errors, for errors.Is.
var (
	// ErrShape says that the numbers of a Spec contradict each other or are out of range.
	ErrShape = errors.New("bad shape")
	// ErrBuffer says that a slice given to Run or to a packer is too short or missing.
	ErrBuffer = errors.New("buffer too short")
	// ErrUnsupported says that there is no kernel for what a Spec asks.
	ErrUnsupported = errors.New("unsupported")
)

// Error is the error type of this package: what was being done, and why it failed.
type Error struct {
	Op    string // "plan", "run" or "pack"
	What  string // the number or buffer at fault
	Cause error  // one of the sentinels
}

func (e *Error) Error() string { return "conv: " + e.Op + ": " + e.What + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

func failf(op string, cause error, format string, args ...any) error {
	return &Error{Op: op, What: fmt.Sprintf(format, args...), Cause: cause}
}

// Layout of a source.
type Layout uint8

const (
	// Blocked is NCHW16c.
	Blocked Layout = iota
	// Planar is NCHW, of up to 16 channels. It is meant for the first convolution of a net.
	Planar
	// Pixels is NHWC, of whole blocks of 16 channels of bfloat16. It is for convolutions that TakesPixels says.
	Pixels
)

// Map gives the sizes of the maps of a convolution or pool and the window that slides over them. Rows come first in each
// pair. A one-dimensional operator is one with height, kernel height, stride and dilation of one.
type Map struct {
	H, W   int    // source
	OH, OW int    // destination; zero: computed from the rest, rounding down
	Kernel [2]int // at least 1
	Stride [2]int // zero: 1
	Dilate [2]int // distance between taps; zero: 1
	Pad    [4]int // top, left, bottom, right; may be negative (crop)
}

// Epilogue is what happens to each result before it is stored, in this order: bias, residual, limits, Post.
type Epilogue struct {
	Residual bool    // add Tensors.Residual, which has the shape and layout of the destination
	Lo, Hi   float32 // limits, Lo <= Hi; both zero: none. ReLU is 0, +Inf. NaN stays NaN.
	// Post, if not nil, is called on every run of results just written (a multiple of 16 floats: whole pixels of one channel
	// block, of which it has the number, while they are in the L1 or L2 cache). Lanes behind the last channel are set to zero
	// again after it. It must be safe for concurrent use.
	Post func(tile []float32, block int)
}

// Spec describes a convolution.
type Spec struct {
	N, C, OC int
	Map
	Groups     int  // zero: 1
	Transposed bool // gradient of a convolution: ConvTranspose; weights are IOHW then
	Source     Layout
	// Pairs says that source and weights are bfloat16 or float16, rounded as package pairs does: blocks of the source have 8 words of two channels, so
	// that SrcImage and Tensors.Src count words, and a word of weights is those of two channels. Products are added up in float32.
	Pairs pairs.Type
	// SrcImage, DstImage and ResImage are the distances between images in floats; zero: tensors are not slices of bigger
	// ones.
	SrcImage, DstImage, ResImage int
	// srcPlane and dstPlane are the distances between channel blocks in floats where images are bands of rows of higher ones; zero: they are not.
	srcPlane, dstPlane int
	Epilogue
}

// Pooling says what NewPool computes.
type Pooling uint8

const (
	// Max takes the maximum of the source pixels under the window; a window without any gives -Inf.
	Max Pooling = iota
	// Average divides by the number of source pixels under the window; a window without any gives 0.
	Average
	// AveragePadded counts the padding too (count_include_pad), but not what lies beyond it.
	AveragePadded
)

// PoolSpec describes a pooling operator. Source and destination are NCHW16c.
type PoolSpec struct {
	N, C int
	Map
	Pooling                      Pooling
	SrcImage, DstImage, ResImage int
	Epilogue
}

// maxDim bounds every size, so that sums and products of two fit an int where it has 32 bits, after the checks here.
const maxDim = 1 << 24

// maxPlane bounds the pixels of a map where they are given as one number.
const maxPlane = 1 << 28

// fits reports whether an image of that many floats, or a distance to the last one, can be addressed in bytes.
func fits(floats float64) bool { return floats <= min(math.MaxInt/8, 1<<42) }

// Limits of kernels: of the taps in a row or column and in all, where the Fourier transforms of sound are convolutions with some thousands; of pools' rows
// and columns; and of the distance between the first tap and the last.
const (
	longestRow  = 1 << 16
	mostTaps    = 1 << 20
	longestPool = 1 << 10
	widest      = 1 << 26
)

// Fits reports whether a kernel of that height and width has no more taps than a convolution may have: 65536 in a row or column, and 2^20.
func Fits(kernel [2]int) bool {
	return kernel[0] <= longestRow && kernel[1] <= longestRow && int64(kernel[0])*int64(kernel[1]) <= mostTaps
}

// Check returns ErrShape for numbers that contradict each other or are too large, as NewConv does of a convolution that is not transposed.
func (m Map) Check() error { return m.normal(false, longestRow) }

// normal fills in defaults and checks ranges, of rows and columns of up to longest taps.
func (m *Map) normal(transposed bool, longest int) error {
	for i := range 2 {
		if m.Stride[i] == 0 {
			m.Stride[i] = 1
		}
		if m.Dilate[i] == 0 {
			m.Dilate[i] = 1
		}
		if m.Kernel[i] < 1 || m.Stride[i] < 1 || m.Dilate[i] < 1 || m.Kernel[i] > longest || !Fits(m.Kernel) || m.Stride[i] > maxDim || m.Dilate[i] > widest/m.Kernel[i] {
			return failf("plan", ErrShape, "kernel %v, stride %v, dilation %v", m.Kernel, m.Stride, m.Dilate)
		}
	}
	for _, p := range m.Pad {
		if p < -maxDim || p > maxDim {
			return failf("plan", ErrShape, "pads %v", m.Pad)
		}
	}
	if m.H < 1 || m.W < 1 || m.H > maxDim || m.W > maxDim {
		return failf("plan", ErrShape, "source map %dx%d", m.H, m.W)
	}
	out := func(in, axis int) int {
		window := (m.Kernel[axis]-1)*m.Dilate[axis] + 1
		pads := m.Pad[axis] + m.Pad[axis+2]
		if transposed {
			return int(min(int64(in-1)*int64(m.Stride[axis])+int64(window-pads), maxDim+1))
		}
		if in+pads < window {
			return 0
		}
		return (in+pads-window)/m.Stride[axis] + 1
	}
	if m.OH == 0 {
		m.OH = out(m.H, 0)
	}
	if m.OW == 0 {
		m.OW = out(m.W, 1)
	}
	if m.OH < 1 || m.OW < 1 || m.OH > maxDim || m.OW > maxDim {
		return failf("plan", ErrShape, "destination map %dx%d", m.OH, m.OW)
	}
	if float64(m.OH)*float64(m.Stride[0]) > 1<<30 || float64(m.OW)*float64(m.Stride[1]) > 1<<30 {
		return failf("plan", ErrShape, "destination map %dx%d with stride %v", m.OH, m.OW, m.Stride)
	}
	return nil
}

// imageStride checks that n images of c channels of h by w fit the address arithmetic, and returns the distance between images,
// which is given or, if zero, compact.
func imageStride(n, channels, h, w, given int, what string) (int, error) {
	if !fits(float64(channels) * float64(h) * float64(w)) {
		return 0, failf("plan", ErrShape, "%s of %d channels, %dx%d", what, channels, h, w)
	}
	compact := channels * h * w
	if given == 0 {
		given = compact
	}
	if given < compact && n > 1 || given < 0 || !fits(float64(given)*float64(n)) {
		return 0, failf("plan", ErrShape, "%s images %d floats apart, %d long", what, given, compact)
	}
	return given, nil
}

// Limits reports which of the limits hold results back: neither where both are 0, none that is infinite.
func (e *Epilogue) Limits() (lower, upper bool) {
	if e.Lo == 0 && e.Hi == 0 {
		return false, false
	}
	return !math.IsInf(float64(e.Lo), -1), !math.IsInf(float64(e.Hi), 1)
}

func (e *Epilogue) limits() (flags int64) {
	lower, upper := e.Limits()
	if lower {
		flags |= flagMax
	}
	if upper {
		flags |= flagMin
	}
	return flags
}

func blocksOf(c int) int { return (c + 15) / 16 }
