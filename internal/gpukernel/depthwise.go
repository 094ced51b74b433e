package gpukernel

// depthwise returns the plan of a convolution whose groups have one channel and one filter each. An item computes a few
// neighbouring outputs of a row, for a few channels.
func (s *ConvShape) depthwise(name string, d Device) (*Plan, error) {
	const wide = 4
	if s.Type != F32 && !s.Type.isHalf() || s.Result != F32 && !s.Result.isHalf() || s.Weights != "" && s.Weights != s.Type {
		return nil, unsupported("convolution of %s to %s", s.Type, s.Result)
	}
	h, w := s.Out()
	across := 1
	if s.C%4 == 0 && s.PixelStride%4 == 0 && s.ResultStride%4 == 0 {
		across = 4
	}
	items := s.N * h * ceilDiv(w, wide) * (s.C / across)
	if s.N*h*w > 1<<30/s.C {
		return nil, unsupported("convolution to %d images of %d×%d×%d", s.N, h, w, s.C)
	}
	win := window{
		inH: s.H, inW: s.W, stride: s.PixelStride, channels: s.C, outH: h, outW: w, kernelW: s.KernelW, strideH: s.StrideH,
		strideW: s.StrideW, dilH: s.DilationH, dilW: s.DilationW, padH: s.PadTop, padW: s.PadLeft,
	}
	if d.Prebuilt {
		return s.prebuiltDepthwise(name, d, win, across, items)
	}
	f, operands, args := finish(s.Finish, "(i64)(m) * FILTERS + (n)", F32)
	k := &Kernel{
		Name: name,
		Params: append([]Param{{Name: "a", Type: s.Type}, {Name: "b", Type: s.Type}, {Name: "c", Type: s.Result, Written: true},
			{Name: "items", Type: I32, Scalar: true}}, operands...),
		Defines: append(win.defines(), def("A_T", s.Type), def("C_T", s.Result), def("KERNEL_H", s.KernelH), def("ACROSS", across),
			def("WIDE", wide), def("OUT_STRIDE", s.ResultStride), def("FILTERS", s.Filters), def("column_base", 0), f),
		Files:   []string{"across.h"},
		Body:    source("depthwise_body.h"),
		Threads: 128,
		Blocks:  s.depthwiseBlocks(),
	}
	grid := [3]int{ceilDiv(items, k.Threads), 1, 1}
	return &Plan{Launches: []Launch{{k, grid, append([]Arg{buffer("a"), buffer("b"), buffer("c"), value(items)}, args...)}}}, nil
}

// depthwiseBlocks returns how many groups of a depthwise kernel shall fit on a processor: as many as leave an item the registers
// for what it holds of a row, which is more where windows are wider or farther apart. NVRTC's log says how many that are.
func (s *ConvShape) depthwiseBlocks() int {
	switch {
	case s.KernelW == 1 || s.KernelW <= 3 && s.StrideW <= 1:
		return 8
	case s.KernelW <= 5 && s.StrideW > 1 && s.DilationW <= 1:
		return 6
	case s.KernelW <= 5:
		return 4
	}
	return 3
}
