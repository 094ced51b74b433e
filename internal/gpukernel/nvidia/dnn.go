package nvidia

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// Functions of cuDNN. Those of convolutions are the ones by descriptors, not by graphs of operations: they do what a convolution with
// its bias, residual and ReLU needs.
const (
	dnnGetVersion = iota
	dnnGetErrorString
	dnnCreate
	dnnDestroy
	dnnSetStream
	dnnTensorCreate
	dnnTensorDestroy
	dnnTensorSet
	dnnFilterCreate
	dnnFilterDestroy
	dnnFilterSet
	dnnConvCreate
	dnnConvDestroy
	dnnConvSet
	dnnConvMath
	dnnConvGroups
	dnnActivationCreate
	dnnActivationDestroy
	dnnActivationSet
	dnnAlgorithm
	dnnWorkspace
	dnnForward
	dnnForwardRelu
)

var dnnNames = []string{
	dnnGetVersion: "cudnnGetVersion", dnnGetErrorString: "cudnnGetErrorString", dnnCreate: "cudnnCreate", dnnDestroy: "cudnnDestroy", dnnSetStream: "cudnnSetStream",
	dnnTensorCreate: "cudnnCreateTensorDescriptor", dnnTensorDestroy: "cudnnDestroyTensorDescriptor", dnnTensorSet: "cudnnSetTensorNdDescriptor",
	dnnFilterCreate: "cudnnCreateFilterDescriptor", dnnFilterDestroy: "cudnnDestroyFilterDescriptor", dnnFilterSet: "cudnnSetFilterNdDescriptor",
	dnnConvCreate: "cudnnCreateConvolutionDescriptor", dnnConvDestroy: "cudnnDestroyConvolutionDescriptor", dnnConvSet: "cudnnSetConvolutionNdDescriptor",
	dnnConvMath: "cudnnSetConvolutionMathType", dnnConvGroups: "cudnnSetConvolutionGroupCount",
	dnnActivationCreate: "cudnnCreateActivationDescriptor", dnnActivationDestroy: "cudnnDestroyActivationDescriptor", dnnActivationSet: "cudnnSetActivationDescriptor",
	dnnAlgorithm: "cudnnGetConvolutionForwardAlgorithm_v7", dnnWorkspace: "cudnnGetConvolutionForwardWorkspaceSize",
	dnnForward: "cudnnConvolutionForward", dnnForwardRelu: "cudnnConvolutionBiasActivationForward",
}

// Numbers of the library's.
const (
	dnnFloat, dnnChannelsLast, dnnCrossCorrelation = 0, 1, 1

	dnnDefaultMath, dnnFMA = 0, 3 // the first rounds float32 to TF32 where the device has it

	dnnRelu, dnnPropagateNaN, dnnDeterministic = 1, 1, 1

	dnnLastDirect, dnnAlgorithms = 3, 8 // up to the first, algorithms multiply what they are given; beyond it they transform it

	dnnBadParam, dnnUnsupported, dnnInternal = 2000, 3000, 4000 // categories of a thousand codes each
)

// DNN is cuDNN.
type DNN struct {
	l             *library
	setActivation func(desc uintptr, mode, nan int32, ceiling float64) int32
	Version       int // 90100 for 9.1.0
}

// oldestDNN is the first version that serves, nextDNN the first that may have other functions.
const oldestDNN, nextDNN = 90000, 100000

// OpenDNN opens cuDNN 9 at a path, or where the system's loader finds it. The error wraps package dl's, or says that the library is of
// another version.
func OpenDNN(path string) (*DNN, error) {
	l, err := open(named(path, []string{"libcudnn.so.9"}, []string{"cudnn64_9.dll"}), dnnNames, dnnGetErrorString)
	if err != nil {
		return nil, err
	}
	d := &DNN{l: l, Version: int(l.word(dnnGetVersion))}
	if d.Version < oldestDNN || d.Version >= nextDNN {
		return nil, fmt.Errorf("%s is cuDNN %v, and one of version 9 is needed", l.path, d)
	}
	dl.Bind(&d.setActivation, l.fn[dnnActivationSet])
	return d, nil
}

// String returns the version.
func (d *DNN) String() string {
	if d.Version < oldestDNN { // before, a part had a digit less
		return fmt.Sprintf("%d.%d.%d", d.Version/1000, d.Version/100%10, d.Version%100)
	}
	return fmt.Sprintf("%d.%d.%d", d.Version/10000, d.Version/100%100, d.Version%100)
}

// Path returns the path or name that the library was opened by.
func (d *DNN) Path() string { return d.l.path }

// Convolutions is the library's handle for one context. It is safe for concurrent use.
type Convolutions struct {
	d      *DNN
	handle uintptr
	mu     sync.Mutex // its stream is the handle's
}

// Convolutions makes a handle for the context that is current. Close it.
func (d *DNN) Convolutions() (*Convolutions, error) {
	h, err := d.l.create(dnnCreate)
	if err != nil {
		return nil, err
	}
	return &Convolutions{d: d, handle: h}, nil
}

// Close gives the handle back. Nothing that was made with it may be used any more.
func (h *Convolutions) Close() { _ = h.d.l.do(dnnDestroy, h.handle) }

// Convolution is a convolution of known shape. It is safe for concurrent use. Close it.
type Convolution struct {
	Workspace int64 // bytes of device memory, aligned to 256, that Run needs
	Done      int   // steps of Finish that Run does: all that it has, or none

	h                                         *Convolutions
	objects                                   objects
	image, weights, result, conv, bias, relus uintptr
	algorithm                                 int32
	one, none, beta                           float32
	column, residual                          int // steps of Finish, -1 for none
}

// Convolution describes a convolution of images with channels last and weights [Filters, KernelD, KernelH, KernelW, C/Groups]. Operands
// are exact in float32, or rounded to TF32. workspace is the most bytes that it may take. The error wraps gpukernel.ErrUnsupported where the library
// does not do it.
func (h *Convolutions) Convolution(s gpukernel.ConvShape, workspace int64) (*Convolution, error) {
	c := &Convolution{h: h, objects: objects{l: h.d.l}, one: 1, column: -1, residual: -1}
	c.takes(s.Finish)
	err := c.describe(s)
	if err == nil {
		err = c.choose(s.Precision == gpukernel.Exact, workspace)
	}
	if err != nil {
		c.Close()
		return nil, refused(err)
	}
	return c, nil
}

// Close gives what describes the convolution back.
func (c *Convolution) Close() { c.objects.close() }

// refused makes an error of what the library does not do gpukernel.ErrUnsupported.
func refused(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Code >= dnnUnsupported && e.Code < dnnInternal {
		return fmt.Errorf("%w: %w", gpukernel.ErrUnsupported, err)
	}
	return err
}

// takes finds out whether the library does the steps behind a convolution: a bias, a matrix that may be added, and ReLU.
func (c *Convolution) takes(steps []gpukernel.Step) {
	column, residual, relu := -1, -1, -1
	for i, s := range steps {
		switch {
		case s.Op == gpukernel.AddColumn && s.Operand == gpukernel.F32 && column < 0 && relu < 0:
			column = i
		case s.Op == gpukernel.AddMatrix && s.Operand == gpukernel.F32 && residual < 0 && relu < 0:
			residual = i
		case s.Op == gpukernel.Relu && relu < 0:
			relu = i
		default:
			return
		}
	}
	if column < 0 || relu < 0 {
		return
	}
	c.column, c.residual, c.Done = column, residual, len(steps)
	if residual >= 0 {
		c.beta = 1
	}
}

// describe makes the descriptors.
func (c *Convolution) describe(s gpukernel.ConvShape) (err error) {
	unsupported := func(why string) error { return fmt.Errorf("%w: cuDNN's convolution %s", gpukernel.ErrUnsupported, why) }
	switch p := windowOf(&s); {
	case s.Type != gpukernel.F32 || s.Result != gpukernel.F32:
		return unsupported("of other types than float32")
	case s.Precision != gpukernel.Exact && s.Precision != gpukernel.TF32:
		return unsupported("of operands that are rounded to " + s.Precision.String())
	case p.uneven:
		return unsupported("with another padding behind than in front")
	case s.PixelStride > s.C || s.ResultStride > s.Filters:
		return unsupported("of pixels with gaps")
	default:
		return c.fill(&s, p)
	}
}

// fill makes the descriptors of a convolution that the library may do.
func (c *Convolution) fill(s *gpukernel.ConvShape, w window) (err error) {
	l := c.h.d.l
	kind := func(create, destroy int) (h uintptr) {
		if err == nil {
			h, err = c.objects.create(create, destroy)
		}
		return h
	}
	c.image, c.result = kind(dnnTensorCreate, dnnTensorDestroy), kind(dnnTensorCreate, dnnTensorDestroy)
	c.weights, c.conv = kind(dnnFilterCreate, dnnFilterDestroy), kind(dnnConvCreate, dnnConvDestroy)
	if c.Done > 0 {
		c.bias, c.relus = kind(dnnTensorCreate, dnnTensorDestroy), kind(dnnActivationCreate, dnnActivationDestroy)
	}
	if err != nil {
		return err
	}
	err = errors.Join(l.tensor(c.image, s.N, s.C, w.in), l.tensor(c.result, s.N, s.Filters, w.out))
	filter := append([]int32{int32(s.Filters), int32(s.C / max(s.Groups, 1))}, w.kernel...)
	err = errors.Join(err, l.do(dnnFilterSet, c.weights, dnnFloat, dnnChannelsLast, uintptr(len(filter)), at(&filter[0])),
		l.do(dnnConvSet, c.conv, uintptr(len(w.pad)), at(&w.pad[0]), at(&w.stride[0]), at(&w.dilation[0]), dnnCrossCorrelation, dnnFloat),
		l.do(dnnConvGroups, c.conv, uintptr(max(s.Groups, 1))))
	runtime.KeepAlive(filter)
	runtime.KeepAlive(w)
	math := uintptr(dnnFMA)
	if s.Precision == gpukernel.TF32 {
		math = dnnDefaultMath
	}
	if err = errors.Join(err, l.do(dnnConvMath, c.conv, math)); err != nil || c.Done == 0 {
		return err
	}
	ones := make([]int32, len(w.in))
	for i := range ones {
		ones[i] = 1
	}
	if err := l.tensor(c.bias, 1, s.Filters, ones); err != nil {
		return err
	}
	if code := c.h.d.setActivation(c.relus, dnnRelu, dnnPropagateNaN, 0); code != 0 {
		return &Error{Function: dnnNames[dnnActivationSet], Code: code}
	}
	return nil
}

// tensor describes images with their channels last, of these spatial dims.
func (l *library) tensor(desc uintptr, n, channels int, spatial []int32) error {
	dims := append([]int32{int32(n), int32(channels)}, spatial...)
	strides := make([]int32, len(dims))
	strides[1] = 1
	step := int32(channels)
	for i := len(dims) - 1; i > 1; i-- {
		strides[i] = step
		step *= dims[i]
	}
	strides[0] = step
	err := l.do(dnnTensorSet, desc, dnnFloat, uintptr(len(dims)), at(&dims[0]), at(&strides[0]))
	runtime.KeepAlive(dims)
	runtime.KeepAlive(strides)
	return err
}

// performance is what the library says of an algorithm.
type performance struct {
	algorithm, status int32
	_                 float32 // milliseconds
	_                 uint64  // bytes
	determinism       int32
	_                 [4]int32 // the kind of arithmetic, and what is reserved
}

// choose takes the first of the library's algorithms, which it orders by its expectation, that gives the same bits each time and has room.
func (c *Convolution) choose(exact bool, workspace int64) error {
	l := c.h.d.l
	list, found := new([dnnAlgorithms]performance), new(int32)
	if err := l.do(dnnAlgorithm, c.h.handle, c.image, c.weights, c.conv, c.result, dnnAlgorithms, at(found), at(list)); err != nil {
		return err
	}
	bytes := new(uint64)
	for _, x := range list[:min(max(*found, 0), dnnAlgorithms)] {
		if x.status != 0 || x.determinism != dnnDeterministic || exact && x.algorithm > dnnLastDirect {
			continue
		}
		*bytes = 0
		if err := l.do(dnnWorkspace, c.h.handle, c.image, c.weights, c.conv, c.result, uintptr(x.algorithm), at(bytes)); err != nil {
			if !errors.Is(refused(err), gpukernel.ErrUnsupported) {
				return err
			}
			continue
		}
		if *bytes <= uint64(workspace) {
			c.algorithm, c.Workspace = x.algorithm, int64(*bytes)
			return nil
		}
	}
	return fmt.Errorf("%w: cuDNN has no algorithm for it", gpukernel.ErrUnsupported)
}

// Run queues the convolution on a stream. Addresses are those of the image, the weights and the result, and of the operands of Finish,
// by step.
func (c *Convolution) Run(stream, a, b, result uintptr, operands []uint64, workspace uintptr) error {
	l := c.h.d.l
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if err := l.do(dnnSetStream, c.h.handle, stream); err != nil {
		return err
	}
	if c.Done == 0 {
		return l.do(dnnForward, c.h.handle, at(&c.one), c.image, a, c.weights, b, c.conv, uintptr(c.algorithm), workspace, uintptr(c.Workspace),
			at(&c.none), c.result, result)
	}
	addend := result
	if c.residual >= 0 {
		addend = uintptr(operands[c.residual])
	}
	return l.do(dnnForwardRelu, c.h.handle, at(&c.one), c.image, a, c.weights, b, c.conv, uintptr(c.algorithm), workspace, uintptr(c.Workspace),
		at(&c.beta), c.result, addend, c.bias, uintptr(operands[c.column]), c.relus, c.result, result)
}

// window is what a convolution reads, by spatial dim.
type window struct {
	in, out, kernel, pad, stride, dilation []int32
	uneven                                 bool // padding differs in front and behind
}

func windowOf(s *gpukernel.ConvShape) (w window) {
	h, width := s.Out()
	add := func(in, out, kernel, before, behind, stride, dilation int) {
		w.in, w.out, w.kernel = append(w.in, int32(in)), append(w.out, int32(out)), append(w.kernel, int32(kernel))
		w.pad, w.stride, w.dilation = append(w.pad, int32(before)), append(w.stride, int32(max(stride, 1))), append(w.dilation, int32(max(dilation, 1)))
		w.uneven = w.uneven || before != behind
	}
	if d := s.Depth; d != (gpukernel.Depth{}) {
		add(max(d.In, 1), d.Out(), max(d.Kernel, 1), d.Front, d.Back, d.Stride, d.Dilation)
	}
	add(s.H, h, s.KernelH, s.PadTop, s.PadBottom, s.StrideH, s.DilationH)
	add(s.W, width, s.KernelW, s.PadLeft, s.PadRight, s.StrideW, s.DilationW)
	return w
}
