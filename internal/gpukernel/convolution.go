package gpukernel

import "cmp"

// ConvShape is a convolution of images [N, H, W, C] to [N, OutH, OutW, Filters], or of volumes [N, D, H, W, C]. Its buffers are "a" for the
// image, "b" for the weights, [Groups, KernelD, KernelH, KernelW, C/Groups, Filters/Groups], "c" for the result, and those of Finish.
type ConvShape struct {
	N, H, W, C, Filters  int
	KernelH, KernelW     int
	StrideH, StrideW     int // 0 for 1
	DilationH, DilationW int // 0 for 1
	PadTop, PadLeft      int
	PadBottom, PadRight  int
	Depth                Depth
	Groups               int // 0 for 1
	Type, Result         Type
	Weights              Type // "" for Type, as it has to be of a direct convolution
	PixelStride          int  // elements from one pixel of the image to the next, 0 for C
	ResultStride         int  // the same of the result, 0 for Filters: less than a row where the result is a part of a Concat
	Precision            Precision
	Finish               []Step // AddMatrix reads a matrix without stride, [N, OutH, OutW, Filters]
	Tile                 string // by its name among ConvTiles; any other stands for the first of these
}

// Depth is the outermost spatial dim of volumes. The zero value is that of images.
type Depth struct {
	In, Kernel       int // 0 for 1
	Stride, Dilation int // 0 for 1
	Front, Back      int // padding
}

func (d *Depth) defaults() {
	for _, p := range []*int{&d.In, &d.Kernel, &d.Stride, &d.Dilation} {
		*p = max(*p, 1)
	}
}

// Out returns the extent of the result.
func (d Depth) Out() int {
	d.defaults()
	return (d.In+d.Front+d.Back-d.Dilation*(d.Kernel-1)-1)/d.Stride + 1
}

// volumes reports whether there is such a dim at all.
func (d Depth) volumes() bool {
	d.defaults()
	return d != Depth{1, 1, 1, 1, 0, 0}
}

// Out returns the height and width of the result.
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
	s.Depth.defaults()
	if s.PixelStride == 0 {
		s.PixelStride = s.C
	}
	if s.ResultStride == 0 {
		s.ResultStride = s.Filters
	}
}

func (s *ConvShape) check() error {
	s.defaults()
	for _, v := range []int{s.N, s.H, s.W, s.C, s.Filters, s.KernelH, s.KernelW, s.Depth.In, s.Depth.Kernel} {
		if v < 1 || v > 1<<24 {
			return unsupported("convolution with an extent of %d", v)
		}
	}
	for _, v := range []int{s.StrideH, s.StrideW, s.DilationH, s.DilationW, s.PadTop + 1, s.PadLeft + 1, s.PadBottom + 1, s.PadRight + 1,
		s.Depth.Stride, s.Depth.Dilation, s.Depth.Front + 1, s.Depth.Back + 1} {
		if v < 1 || v > 1<<16 {
			return unsupported("convolution with a stride, dilation or padding of %d", v)
		}
	}
	if s.C%s.Groups != 0 || s.Filters%s.Groups != 0 || s.PixelStride < s.C || s.ResultStride < s.Filters {
		return unsupported("convolution of %d channels to %d in %d groups", s.C, s.Filters, s.Groups)
	}
	h, w := s.Out()
	d := s.Depth.Out()
	if h < 1 || w < 1 || d < 1 || h*w > 1<<30/s.N/d || s.KernelH*s.KernelW > 1<<24/s.Depth.Kernel || s.H+s.PadTop >= 1<<27 {
		return unsupported("convolution to %d images of %d×%d×%d", s.N, d, h, w)
	}
	if s.Depth.In > 1<<30/(s.H*s.W) {
		return unsupported("convolution of volumes of %d×%d×%d", s.Depth.In, s.H, s.W)
	}
	return nil
}

// Convolution returns the plan of a convolution: of a direct one where every group has one channel and one filter, else of the
// product that it is, of windows that are gathered as they are needed. The error wraps ErrUnsupported.
func Convolution(name string, d Device, s ConvShape) (*Plan, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Direct() {
		return s.depthwise(name, d)
	}
	if d.Prebuilt && s.Depth.volumes() {
		return nil, unsupported("convolution of volumes")
	}
	return Product(name, d, s.product())
}

// Direct reports whether every group has one channel and one filter, of images: such a convolution is no product, and its weights lie as
// if there were one group. There is no direct one in double precision.
func (s ConvShape) Direct() bool {
	return s.Type != F64 && s.Groups == s.C && s.Filters == s.C && s.C > 1 && !s.Depth.volumes()
}

// ConvTiles is Tiles for a convolution; none where no product is behind it.
func ConvTiles(d Device, s ConvShape) ([]Tile, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Direct() {
		return nil, nil
	}
	return Tiles(d, s.product())
}

// Rest is ProductShape.Rest for a convolution.
func (s ConvShape) Rest(name string, d Device, done int) (*Plan, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	h, w := s.Out()
	return finishLater(&Plan{}, name, d, s.Finish, done, matrixOfResult{1, s.N * s.Depth.Out() * h * w, s.Filters, s.ResultStride == s.Filters})
}

// AsProduct returns the product that the convolution is.
func (s ConvShape) AsProduct() (ProductShape, error) {
	err := s.check()
	if err != nil {
		return ProductShape{}, err
	}
	return s.product(), nil
}

func (s *ConvShape) product() ProductShape {
	h, w := s.Out()
	channels, filters := s.C/s.Groups, s.Filters/s.Groups
	depth := s.Depth.Kernel * s.KernelH * s.KernelW * channels
	p := ProductShape{
		M: s.N * s.Depth.Out() * h * w, N: filters, K: depth, Batch1: s.Groups,
		A:                Matrix{Type: s.Type, Stride: s.PixelStride, Batch1: channels},
		B:                Matrix{Type: cmp.Or(s.Weights, s.Type), Stride: filters, Batch1: depth * filters},
		C:                Matrix{Type: s.Result, Stride: s.ResultStride, Batch1: filters},
		Precision:        s.Precision,
		Finish:           s.Finish,
		Tile:             s.Tile,
		Residual:         Matrix{Type: s.Result, Stride: s.Filters, Batch1: filters},
		columnsPerGroup1: filters,
	}
	flat := s.Depth.Kernel == 1 && s.Depth.Stride == 1 && s.Depth.Front+s.Depth.Back == 0
	if flat && s.KernelH == 1 && s.KernelW == 1 && s.StrideH == 1 && s.StrideW == 1 && s.PadTop+s.PadLeft+s.PadBottom+s.PadRight == 0 {
		return p // every window is a pixel
	}
	p.left = &window{
		inH: s.H, inW: s.W, stride: s.PixelStride, channels: channels, outH: h, outW: w, kernelW: s.KernelW, strideH: s.StrideH,
		strideW: s.StrideW, dilH: s.DilationH, dilW: s.DilationW, padH: s.PadTop, padW: s.PadLeft, kernelH: s.KernelH, depth: s.Depth,
	}
	return p
}

// window is how a convolution reads its image: the left operand of the product that it is.
type window struct {
	inH, inW, stride, channels int // of a pixel: elements apart, and those of a group
	outH, outW, kernelW        int
	strideH, strideW           int
	dilH, dilW, padH, padW     int
	kernelH                    int   // of volumes
	depth                      Depth // of volumes
}

func (w *window) defines() []Define {
	list := []Define{
		def("IN_H", w.inH), def("IN_W", w.inW), def("IN_STRIDE", w.stride), def("CHANNELS", w.channels), def("OUT_H", w.outH),
		def("OUT_W", w.outW), def("KERNEL_W", w.kernelW), def("STRIDE_H", w.strideH), def("STRIDE_W", w.strideW),
		def("DILATION_H", w.dilH), def("DILATION_W", w.dilW), def("PAD_H", w.padH), def("PAD_W", w.padW),
	}
	if d := w.depth; d.volumes() {
		list = append(list, def("IN_D", d.In), def("OUT_D", d.Out()), def("KERNEL_H", w.kernelH), def("STRIDE_D", d.Stride), def("DILATION_D", d.Dilation),
			def("PAD_D", d.Front))
	}
	return list
}
