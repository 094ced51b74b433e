package gpukernel_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fibre"
)

// openCL is the first device of an OpenCL that the loader finds: enough of it to compile plans and run them.
type openCL struct {
	lib                    *dl.Library
	device, context, queue uintptr
	pin                    runtime.Pinner
}

func newOpenCL() *openCL {
	lib, err := dl.Open("libOpenCL.so.1")
	if err != nil {
		Skip(err.Error())
	}
	c := &openCL{lib: lib}
	DeferCleanup(c.pin.Unpin)
	platform := new(uintptr)
	if c.call("clGetPlatformIDs", 1, c.at(platform), 0) != 0 || *platform == 0 {
		Skip("no OpenCL platform")
	}
	if c.call("clGetDeviceIDs", *platform, 0xffffffff, 1, c.at(&c.device), 0) != 0 {
		Skip("no OpenCL device")
	}
	code := new(int32)
	c.context = c.call("clCreateContext", 0, 1, c.at(&c.device), 0, 0, c.at(code))
	Expect(*code).To(BeZero())
	c.queue = c.call("clCreateCommandQueue", c.context, c.device, 0, c.at(code))
	Expect(*code).To(BeZero())
	return c
}

// at pins what p points to, and returns its address.
func (c *openCL) at(p any) uintptr {
	c.pin.Pin(p)
	switch p := p.(type) {
	case *uintptr:
		return uintptr(unsafe.Pointer(p))
	case *int32:
		return uintptr(unsafe.Pointer(p))
	case *int64:
		return uintptr(unsafe.Pointer(p))
	}
	return uintptr(unsafe.Pointer(p.(*byte)))
}

func (c *openCL) call(name string, args ...uintptr) uintptr {
	fn, err := c.lib.Symbol(name)
	Expect(err).NotTo(HaveOccurred())
	r := dl.Call(fn, args...)
	switch name {
	case "clCreateContext", "clCreateCommandQueue", "clCreateProgramWithSource", "clCreateKernel", "clCreateBuffer":
		return r
	}
	return uintptr(uint32(r))
}

func (c *openCL) text(s string) uintptr {
	b := append([]byte(s), 0)
	return c.at(&b[0])
}

// run compiles the kernels of a plan by a standard of OpenCL C, and runs them on buffers.
func (c *openCL) run(standard string, plan *gpukernel.Plan, buffers map[string][]byte) {
	GinkgoHelper()
	code, source := new(int32), new(uintptr)
	*source = c.text(gpukernel.Source(gpukernel.OpenCL, fibre.Kernels(plan)...))
	program := c.call("clCreateProgramWithSource", c.context, 1, c.at(source), 0, c.at(code))
	Expect(*code).To(BeZero())
	if r := c.call("clBuildProgram", program, 1, c.at(&c.device), c.text("-cl-std="+standard+" -Werror"), 0, 0); r != 0 {
		log := make([]byte, 1<<16)
		c.call("clGetProgramBuildInfo", program, c.device, 0x1183, uintptr(len(log)), c.at(&log[0]), 0)
		Fail(fmt.Sprintf("clBuildProgram: %d\n%.4000s", int32(r), log))
	}
	handles := map[string]*uintptr{}
	for _, s := range plan.Scratch {
		buffers[s.Buffer] = poison(gpukernel.U8, int(s.Bytes))
	}
	for name, b := range buffers {
		h := new(uintptr)
		*h = c.call("clCreateBuffer", c.context, 1|1<<5, uintptr(len(b)), c.at(&b[0]), c.at(code))
		Expect(*code).To(BeZero())
		handles[name] = h
	}
	for _, l := range plan.Launches {
		kernel := c.call("clCreateKernel", program, c.text(l.Kernel.Name), c.at(code))
		Expect(*code).To(BeZero())
		next := uintptr(0)
		set := func(size int, value uintptr) {
			Expect(c.call("clSetKernelArg", kernel, next, uintptr(size), value)).To(BeZero())
			next++
		}
		for i, a := range l.Args {
			v := a.Value
			if l.Kernel.Params[i].Scalar {
				set(l.Kernel.Params[i].Type.Size(), c.at(&v))
			} else { // and the offset, 0
				set(8, c.at(handles[a.Buffer]))
				set(8, c.at(&v))
			}
		}
		global := []uintptr{uintptr(l.Grid[0] * l.Kernel.Threads), uintptr(l.Grid[1]), uintptr(l.Grid[2])}
		local := []uintptr{uintptr(l.Kernel.Threads), 1, 1}
		Expect(c.call("clEnqueueNDRangeKernel", c.queue, kernel, 3, 0, c.at(&global[0]), c.at(&local[0]), 0, 0, 0)).To(BeZero())
	}
	for name, b := range buffers {
		Expect(c.call("clEnqueueReadBuffer", c.queue, *handles[name], 1, 0, uintptr(len(b)), c.at(&b[0]), 0, 0, 0)).To(BeZero())
		c.call("clReleaseMemObject", *handles[name])
	}
	c.call("clReleaseProgram", program)
}

var _ = Describe("OpenCL", Label("opencl"), func() {
	const f32, f16 = gpukernel.F32, gpukernel.F16
	for _, standard := range []string{"CL1.2", "CL3.0"} {
		It("compiles and runs every template as "+standard, func() {
			c := newOpenCL()
			d := gpukernel.Generic(4, 32<<10)
			narrow := d
			narrow.Narrow = true
			r := rand.New(rand.NewPCG(8, 9))
			relu := []gpukernel.Step{{Op: gpukernel.AddColumn, Operand: f32}, {Op: gpukernel.AddMatrix, Operand: f32}, {Op: gpukernel.Relu}}

			for i, p := range []productCase{
				{33, 36, 40, 1, 2, f32, f32, false, 0, relu, d}, {33, 36, 40, 1, 2, f32, f32, false, gpukernel.RoundedF16, relu, narrow},
				{33, 35, 41, 1, 1, f32, f32, true, gpukernel.RoundedBF16, relu, narrow}, {33, 35, 41, 1, 1, f16, f16, true, 0, relu, d}, {3, 4, 1024, 1, 1, f32, f32, false, 0, relu, d},
			} {
				plan, err := gpukernel.Product(fmt.Sprintf("product%d", i), p.device, p.shape())
				Expect(err).NotTo(HaveOccurred())
				a, b := random(r, p.a, p.batch0*p.batch1*p.m*p.k), random(r, p.a, p.batch1*p.k*p.n)
				bias, residual := random(r, f32, p.n), random(r, f32, p.batch0*p.batch1*p.m*p.n)
				out := poison(p.c, len(residual))
				c.run(standard, plan, map[string][]byte{"a": encode(p.a, a), "b": encode(p.a, b), "c": out,
					"operand0": encode(f32, bias), "operand1": encode(f32, residual)})
				if p.precision != 0 {
					a, b = rounded(p.precision, a), rounded(p.precision, b)
				}
				near(p.String(), decode(p.c, out), p.want(a, b, bias, residual), map[gpukernel.Type]float64{f32: 1e-5, f16: 4e-3}[p.c])
			}

			for _, s := range []gpukernel.ConvShape{
				{C: 5, Filters: 7, KernelH: 3, KernelW: 3, PadTop: 1, PadLeft: 1, Type: f32, Result: f32},
				{C: 8, Filters: 8, Groups: 8, KernelH: 3, KernelW: 3, PadTop: 1, PadLeft: 1, Type: f32, Result: f32},
			} {
				s.N, s.H, s.W = 2, 9, 8
				plan, err := gpukernel.Convolution("convolution", d, s)
				Expect(err).NotTo(HaveOccurred())
				image, weights := random(r, f32, 2*9*8*s.C), random(r, f32, 9*s.C*s.Filters/max(s.Groups, 1))
				h, w := s.Out()
				out := poison(f32, 2*h*w*s.Filters)
				c.run(standard, plan, map[string][]byte{"a": encode(f32, image), "b": encode(f32, weights), "c": out})
				near("convolution", decode(f32, out), convolve(s, image, weights, nil, nil), 1e-5)
			}

			a := attentionCase{1, 2, 1, 35, 33, 32, 20, f32, true, true, d}
			plan, err := gpukernel.Attention("attention", d, a.shape())
			Expect(err).NotTo(HaveOccurred())
			q, k := random(r, f32, 35*2*32), random(r, f32, 33*32)
			v, mask := random(r, f32, 33*20), random(r, f32, 33)
			out := poison(f32, 35*2*20)
			c.run(standard, plan, map[string][]byte{"q": encode(f32, q), "k": encode(f32, k), "v": encode(f32, v), "mask": encode(f32, mask), "c": out})
			near("attention", decode(f32, out), a.want(q, k, v, mask), 1e-5)

			for _, t := range []gpukernel.Type{f32, f16} {
				for _, columns := range []int{5, 100, 3000} {
					plan, err = gpukernel.Render("softmax", d, softmaxProgram(t, 7, columns))
					Expect(err).NotTo(HaveOccurred())
					x := random(r, t, 7*columns)
					out = poison(t, len(x))
					c.run(standard, plan, map[string][]byte{"x": encode(t, x), "y": out})
					near("softmax", decode(t, out), softmax(x, 7, columns), 1e-3)
				}
			}
		})
	}
})
