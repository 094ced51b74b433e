package gpukernel

// ConvShape is a convolution of images [N, H, W, C] to [N, OutH, OutW, Filters]. Its buffers are "a" for the image, "b" for the
// weights, [Groups, KernelH, KernelW, C/Groups, Filters/Groups], "c" for the result, and those of Finish.
type ConvShape struct {
	N, H, W, C, Filters  int
	KernelH, KernelW     int
	StrideH, StrideW     int // 0 for 1
	DilationH, DilationW int // 0 for 1
	PadTop, PadLeft      int
	PadBottom, PadRight  int
	Groups               int // 0 for 1
	Type, Result         Type
	PixelStride          int // elements from one pixel of the image to the next, 0 for C
	ResultStride         int // the same of the result, 0 for Filters: less than a row where the result is a part of a Concat
	Precision            Precision
	Finish               []Step // AddMatrix reads a matrix without stride, [N, OutH, OutW, Filters]
	Tile                 string // by its name among ConvTiles; any other stands for the first of these
}

// Out returns the extents of the result.
func (s ConvShape) Out() (h, w int) {
	s.defaults()
	h = (s.H+s.PadTop+s.PadBottom-s.DilationH*(s.KernelH-1)-1)/s.StrideH + 1
	w = (s.W+s.PadLeft+s.PadRight-s.DilationW*(s.KernelW-1)-1)/s.StrideW + 1
	return h, w
}

func (s *ConvShape) defaults() {
	for _, p := range []*int{&s.StrideH, &s.StrideW, &s.DilationH, &s.DilationW, &s.Groups} {
		*p = max(*p, 1)
	}
	if s.PixelStride == 0 {
		s.PixelStride = s.C
	}
	if s.ResultStride == 0 {
		s.ResultStride = s.Filters
	}
}

func (s *ConvShape) check() error {
	s.defaults()
	for _, v := range []int{s.N, s.H, s.W, s.C, s.Filters, s.KernelH, s.KernelW} {
		if v < 1 || v > 1<<24 {
			return unsupported("convolution with an extent of %d", v)
		}
	}
	for _, v := range []int{s.StrideH, s.StrideW, s.DilationH, s.DilationW, s.PadTop + 1, s.PadLeft + 1, s.PadBottom + 1, s.PadRight + 1} {
		if v < 1 || v > 1<<16 {
			return unsupported("convolution with a stride, dilation or padding of %d", v)
		}
	}
	if s.C%s.Groups != 0 || s.Filters%s.Groups != 0 || s.PixelStride < s.C || s.ResultStride < s.Filters {
		return unsupported("convolution of %d channels to %d in %d groups", s.C, s.Filters, s.Groups)
	}
	if h, w := s.Out(); h < 1 || w < 1 || h*w > 1<<30/s.N || s.KernelH*s.KernelW > 1<<24 || s.H+s.PadTop >= 1<<27 {
		return unsupported("convolution to %d images of %d×%d", s.N, h, w)
	}
	return nil
}

// Convolution returns the plan of a convolution: of a direct one where every group has one channel and one filter, else of the
// product that it is, of windows that are gathered as they are needed. The error wraps ErrUnsupported.
func Convolution(name string, d Device, s ConvShape) (*Plan, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Groups == s.C && s.Filters == s.C && s.C > 1 {
		return s.depthwise(name, d)
	}
	return Product(name, d, s.product())
}

// ConvTiles is Tiles for a convolution; none where no product is behind it.
func ConvTiles(d Device, s ConvShape) ([]Tile, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Groups == s.C && s.Filters == s.C && s.C > 1 {
		return nil, nil
	}
	return Tiles(d, s.product())
}

func (s *ConvShape) product() ProductShape {
	h, w := s.Out()
	channels, filters := s.C/s.Groups, s.Filters/s.Groups
	depth := s.KernelH * s.KernelW * channels
	p := ProductShape{
		M: s.N * h * w, N: filters, K: depth, Batch1: s.Groups,
		A:                Matrix{Type: s.Type, Stride: s.PixelStride, Batch1: channels},
		B:                Matrix{Type: s.Type, Stride: filters, Batch1: depth * filters},
		C:                Matrix{Type: s.Result, Stride: s.ResultStride, Batch1: filters},
		Precision:        s.Precision,
		Finish:           s.Finish,
		Tile:             s.Tile,
		Residual:         Matrix{Type: s.Result, Stride: s.Filters, Batch1: filters},
		columnsPerGroup1: filters,
	}
	if s.KernelH == 1 && s.KernelW == 1 && s.StrideH == 1 && s.StrideW == 1 && s.PadTop+s.PadLeft+s.PadBottom+s.PadRight == 0 {
		return p // every window is a pixel
	}
	p.left = &window{
		inH: s.H, inW: s.W, stride: s.PixelStride, channels: channels, outH: h, outW: w, kernelW: s.KernelW, strideH: s.StrideH,
		strideW: s.StrideW, dilH: s.DilationH, dilW: s.DilationW, padH: s.PadTop, padW: s.PadLeft,
	}
	return p
}

// window is how a convolution reads its image: the left operand of the product that it is.
type window struct {
	inH, inW, stride, channels int // of a pixel: elements apart, and those of a group
	outH, outW, kernelW        int
	strideH, strideW           int
	dilH, dilW, padH, padW     int
}

func (w *window) defines() []Define {
	return []Define{
		def("IN_H", w.inH), def("IN_W", w.inW), def("IN_STRIDE", w.stride), def("CHANNELS", w.channels), def("OUT_H", w.outH),
		def("OUT_W", w.outW), def("KERNEL_W", w.kernelW), def("STRIDE_H", w.strideH), def("STRIDE_W", w.strideW),
		def("DILATION_H", w.dilH), def("DILATION_W", w.dilW), def("PAD_H", w.padH), def("PAD_W", w.padW),
	}
}
