package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
	"github.com/carve-dev/carve/internal/kernelstore"
)

// program is machine code that the device has loaded.
type program struct {
	module  uintptr
	kernels map[string]uintptr
	parts   []*kernelstore.Entry[*program] // whose kernels they are, where it has no module of its own
}

// compiled is a program in use.
type compiled = kernelstore.Entry[*program]

// kernel returns an entry point.
func (p *program) kernel(name string) uintptr { return p.kernels[name] }

// Limits of every device.
const (
	mostThreads = 1024
	mostGridX   = 1<<31 - 1
	mostGridYZ  = 1<<16 - 1
)

// acquire returns the loaded kernels of a plan, for an instance; release them.
func (b *cuda) acquire(ctx context.Context, plan *gpukernel.Plan) (*compiled, error) {
	d := b.on()
	var kernels []*gpukernel.Kernel
	local := d.facts.kernels().Local
	for i := range plan.Launches {
		l := &plan.Launches[i]
		if l.Kernel.Threads > mostThreads || l.Kernel.Arena > local {
			return nil, fmt.Errorf("%w: %d threads and %d bytes of shared memory", gpukernel.ErrUnsupported, l.Kernel.Threads, l.Kernel.Arena)
		}
		if l.Grid[0] > mostGridX || l.Grid[1] > mostGridYZ || l.Grid[2] > mostGridYZ {
			return nil, fmt.Errorf("%w: a grid of %v blocks", gpukernel.ErrUnsupported, l.Grid)
		}
		kernels = append(kernels, l.Kernel)
	}
	if b.compiler == nil {
		return b.acquirePrebuilt(ctx, kernels)
	}
	arch, err := architecture(d.facts.capability, b.compiler.Architectures())
	if err != nil {
		return nil, err
	}
	source := gpukernel.Source(gpukernel.CUDA, kernels...)
	key := fmt.Sprintf("NVRTC %d.%d %s\n%s", b.compiler.Major, b.compiler.Minor, arch, source)
	return d.programs.Acquire(ctx, key, func() (*program, error) {
		if saved := b.cache.Get(key); saved != nil {
			if p, err := d.load(saved, kernels); err == nil {
				return p, nil
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		image, _, err := b.compiler.Compile(source, arch)
		var e *nvrtc.Error
		if errors.As(err, &e) {
			return nil, fmt.Errorf("%w: %w", ErrBuild, e)
		}
		if err != nil {
			return nil, err
		}
		p, err := d.load(image, kernels)
		if err == nil {
			b.cache.Put(key, image)
		}
		return p, err
	})
}

// Numbers of the options of loading, and of functions' attributes.
const (
	jitErrorLog, jitErrorLogSize = 5, 6

	functionThreads = 0 // that a block may have
	functionLocal   = 8 // bytes of dynamic shared memory that a block may have
)

// freeLocal is the shared memory that a block may have without its being asked for.
const freeLocal = 48 << 10

// load has the device load machine code.
func (d *gpu) load(image []byte, kernels []*gpukernel.Kernel) (*program, error) {
	if len(image) == 0 {
		return nil, fmt.Errorf("%w: there is no machine code", ErrBuild)
	}
	c := d.enter()
	defer c.leave()
	log := make([]byte, 2000)
	options, values := []uint32{jitErrorLog, jitErrorLogSize}, []uintptr{at(&log[0]), uintptr(len(log) - 1)}
	module, err := c.create(fnModuleLoadDataEx, at(&image[0]), uintptr(len(options)), at(&options[0]), at(&values[0]))
	runtime.KeepAlive(image)
	runtime.KeepAlive(options)
	runtime.KeepAlive(values)
	if err != nil {
		var e *Error
		if said := untilZero(log); said != "" && errors.As(err, &e) {
			e.Text += ": " + said
		}
		return nil, err
	}
	p := &program{module: module, kernels: map[string]uintptr{}}
	for _, k := range kernels {
		if p.kernels[k.Name] != 0 {
			continue
		}
		if p.kernels[k.Name], err = c.function(module, k); err != nil {
			_ = c.do(fnModuleUnload, module) // the first failure is told
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	return p, nil
}

// function returns a kernel of a module, which may have the threads and the memory that it asks for.
func (c *call) function(module uintptr, k *gpukernel.Kernel) (uintptr, error) {
	name := text(k.Name)
	f, err := c.create(fnModuleGetFunction, module, at(&name[0]))
	runtime.KeepAlive(name)
	if err != nil {
		return 0, err
	}
	if k.Arena > freeLocal {
		if err := c.do(fnFuncSetAttribute, f, functionLocal, uintptr(k.Arena)); err != nil {
			return 0, err
		}
	}
	c.number = 0
	if err := c.do(fnFuncGetAttribute, at(&c.number), functionThreads, f); err != nil {
		return 0, err
	}
	if int(c.number) < k.Threads {
		return 0, fmt.Errorf("%w: it has blocks of %d threads, and the device runs %d", gpukernel.ErrUnsupported, k.Threads, c.number)
	}
	return f, nil
}

// unload gives a program back.
func (d *gpu) unload(p *program) {
	for _, part := range p.parts {
		part.Release()
	}
	if p.module == 0 {
		return
	}
	c := d.enter()
	defer c.leave()
	_ = c.do(fnModuleUnload, p.module) // there is nobody to tell
}
