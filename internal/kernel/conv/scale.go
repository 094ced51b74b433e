package conv

import "github.com/carve-dev/carve/internal/kernel/isa"

// ScaleSpec describes y = x*scale + shift with one scale and one shift per channel: a batch normalisation, or a
// multiplication or addition with a tensor of one pixel per channel, as in squeeze-and-excitation.
type ScaleSpec struct {
	N, C, HW                     int
	SrcImage, DstImage, ResImage int // distances between images in floats; zero: compact
	// ScaleImage and ShiftImage are the distances between the scales and shifts of two images in floats; zero: all images
	// have the same.
	ScaleImage, ShiftImage int
	Epilogue
}

// NewScale plans it. Tensors.Weights are the scales and Tensors.Bias the shifts (nil: none), each 16*ceil(C/16) floats per
// image, zero behind C, which is the layout of a NCHW16c tensor of one pixel. The destination may be the source. Errors are
// as for NewConv.
func NewScale(t isa.Target, s ScaleSpec) (*Plan, error) {
	if s.N < 1 || s.C < 1 || s.HW < 1 || s.N > maxDim || s.C > maxDim || s.HW > maxPlane ||
		s.ScaleImage < 0 || s.ShiftImage < 0 || !fits(float64(s.N)*float64(max(s.ScaleImage, s.ShiftImage))) {
		return nil, failf("plan", ErrShape, "%d images, %d channels, %d pixels", s.N, s.C, s.HW)
	}
	p := &Plan{
		spec: Spec{N: s.N, C: s.C, OC: s.C, Groups: s.C, SrcImage: s.SrcImage, DstImage: s.DstImage, ResImage: s.ResImage,
			Map:      Map{H: 1, W: s.HW, OH: 1, OW: s.HW, Kernel: [2]int{1, 1}, Stride: [2]int{1, 1}, Dilate: [2]int{1, 1}},
			Epilogue: s.Epilogue},
		kind: kindDepth, order: orderDepth, target: t, needsWeight: true,
		weightImage: s.ScaleImage, biasImage: s.ShiftImage,
	}
	if err := p.build(nil); err != nil {
		return nil, err
	}
	p.weightNeed += (s.N - 1) * s.ScaleImage
	p.biasNeed += (s.N - 1) * s.ShiftImage
	return p, nil
}
