package opencl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/kernelstore"
)

// Numbers of OpenCL's.
const (
	programBinarySizes, programBinaries = 0x1165, 0x1166
	programLog                          = 0x1183
)

// buildOptions hold for every kernel: the language alone, so that arithmetic is exact to the last bit where OpenCL asks for it.
const buildOptions = "-cl-std=CL1.2"

// mostLog bounds the text of a compiler's messages in an error.
const mostLog = 2000

// program is compiled text.
type program struct {
	d       *clDevice
	handle  uintptr
	kernels map[string]*kernel
}

// kernel is an entry point. Its arguments are set and taken by one run at a time.
type kernel struct {
	mu     sync.Mutex
	handle uintptr

	program uintptr
	name    []byte
}

// compiled is a program in use.
type compiled = kernelstore.Entry[*program]

// kernel returns an entry point.
func (p *program) kernel(name string) *kernel { return p.kernels[name] }

// acquire returns the compiled kernels of a plan, for an instance; release them.
func (b *opencl) acquire(ctx context.Context, plan *gpukernel.Plan) (*compiled, error) {
	d := b.on()
	var kernels []*gpukernel.Kernel
	for _, l := range plan.Launches {
		if l.Kernel.Threads > d.facts.group || l.Kernel.Arena > d.facts.local {
			return nil, fmt.Errorf("%w: %d work items and %d bytes of local memory", gpukernel.ErrUnsupported, l.Kernel.Threads, l.Kernel.Arena)
		}
		kernels = append(kernels, l.Kernel)
	}
	source := gpukernel.Source(gpukernel.OpenCL, kernels...)
	return d.programs.Acquire(ctx, source, func() (*program, error) {
		p := &program{d: d}
		return p, p.build(ctx, source, kernels, b.cache)
	})
}

func (p *program) free() {
	for _, k := range p.kernels {
		p.d.l.release("clReleaseKernel", k.handle)
	}
	p.d.l.release("clReleaseProgram", p.handle)
}

// build compiles the text, or takes what it was compiled to before.
func (p *program) build(ctx context.Context, source string, kernels []*gpukernel.Kernel, cache *kernelstore.Folder) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := newCall()
	defer c.done()
	if p.d.facts.ownCache() {
		cache = nil
	}
	key := p.d.facts.cacheKey(source)
	saved := cache.Get(key)
	if saved == nil || p.load(c, saved) != nil {
		if err := p.compile(c, source); err != nil {
			return err
		}
		if cache != nil {
			if binary, err := p.binary(c); err == nil { // else it is compiled again the next time
				cache.Put(key, binary)
			}
		}
	}
	p.kernels = map[string]*kernel{}
	for _, k := range kernels {
		if p.kernels[k.Name] != nil {
			continue
		}
		name := text(k.Name)
		h, err := c.create(p.d.l, "clCreateKernel", p.handle, at(&name[0]))
		if err != nil {
			p.free()
			return err
		}
		p.kernels[k.Name] = &kernel{handle: h, program: p.handle, name: name}
	}
	return nil
}

// compile compiles the text.
func (p *program) compile(c *call, source string) error {
	b := text(source)
	pointer := []uintptr{at(&b[0])}
	var err error
	p.handle, err = c.create(p.d.l, "clCreateProgramWithSource", p.d.context, 1, at(&pointer[0]), 0)
	runtime.KeepAlive(pointer)
	runtime.KeepAlive(b)
	if err != nil {
		return err
	}
	return p.finish(c)
}

// ownCache reports whether the driver keeps compiled kernels on disk itself, and makes more of them where it is asked for its binary.
func (f *facts) ownCache() bool { return strings.HasPrefix(f.platform, "Portable Computing Language") }

// cacheKey names everything that compiled text depends on.
func (f *facts) cacheKey(source string) string {
	return fmt.Sprintf("%q %q %q %q %q %q\n%s", buildOptions, f.platform, f.platformVersion, f.name, f.version, f.driver, source)
}

// mostBinary bounds what a driver may say that text was compiled to.
const mostBinary = 64 << 20

// load makes the program of what it was compiled to before.
func (p *program) load(c *call, binary []byte) error {
	words := []uintptr{at(&binary[0]), uintptr(len(binary)), p.d.handle}
	var err error
	p.handle, err = c.create(p.d.l, "clCreateProgramWithBinary", p.d.context, 1, at(&words[2]), at(&words[1]), at(&words[0]), 0)
	runtime.KeepAlive(words)
	runtime.KeepAlive(binary)
	if err != nil {
		return err
	}
	return p.finish(c)
}

// finish builds the program for the device. Where that fails nothing is left of it.
func (p *program) finish(c *call) error {
	options := text(buildOptions)
	c.word = p.d.handle
	err := c.do(p.d.l, "clBuildProgram", p.handle, 1, at(&c.word), at(&options[0]), 0, 0)
	runtime.KeepAlive(options)
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		if log, bad := c.bytesOf(p.d.l, "clGetProgramBuildInfo", p.handle, p.d.handle, programLog); bad == nil {
			e.Text = strings.TrimRight(string(log[:min(len(log), mostLog)]), "\x00 \n")
		}
	}
	p.d.l.release("clReleaseProgram", p.handle)
	p.handle = 0
	return err
}

// binary returns what the program was compiled to.
func (p *program) binary(c *call) ([]byte, error) {
	sizes, err := c.bytesOf(p.d.l, "clGetProgramInfo", p.handle, programBinarySizes)
	if err != nil || len(sizes) != 8 {
		return nil, err
	}
	var n uint64
	for i, b := range sizes {
		n |= uint64(b) << (8 * i)
	}
	if n == 0 || n > mostBinary {
		return nil, nil
	}
	b := make([]byte, n)
	words := []uintptr{at(&b[0])}
	err = c.do(p.d.l, "clGetProgramInfo", p.handle, programBinaries, 8, at(&words[0]), 0)
	runtime.KeepAlive(words)
	return b, err
}
