package cuda

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
	"github.com/carve-dev/carve/internal/gpukernel/ptx"
	"github.com/carve-dev/carve/internal/kernelstore"
)

// findCompiler opens NVRTC, at a path that is given, or where the loader finds it. It is nil where that is no use for a device, or the
// path is off; why says so then. The error tells why one that is named does not serve.
func findCompiler(path string, devices []*gpu) (c *nvrtc.Library, why, err error) {
	if path == off {
		return nil, errOff, nil
	}
	if c, err = nvrtc.Open(path); err != nil {
		if path == "" {
			return nil, err, nil
		}
		return nil, nil, fmt.Errorf("no NVRTC, which compiles the kernels: %w", err)
	}
	for _, d := range devices {
		if _, err := architecture(d.facts.capability, c.Architectures()); err != nil {
			if path == "" {
				return nil, err, nil
			}
			return nil, nil, fmt.Errorf("%s: NVRTC %d.%d: %w", d.facts.name, c.Major, c.Minor, err)
		}
	}
	return c, nil, nil
}

// servesPrebuilt returns why kernels that were compiled beforehand do not serve the devices.
func (b *cuda) servesPrebuilt() error {
	if b.l.version < ptx.Driver {
		return fmt.Errorf("no NVRTC, which compiles the kernels, and those that were compiled beforehand want a driver of CUDA %d.%d or later, found one of %d.%d",
			ptx.Driver/1000, ptx.Driver%1000/10, b.l.version/1000, b.l.version%1000/10)
	}
	for _, d := range b.devices {
		if least := ptx.Architectures()[0]; d.facts.capability < least {
			return fmt.Errorf("%s: no NVRTC for it, which compiles the kernels, and those that were compiled beforehand want compute capability %d.%d or later",
				d.facts.name, least/10, least%10)
		}
	}
	return nil
}

// kernels is what the choice of kernels depends on. Those that were compiled beforehand are exact.
func (b *cuda) kernels() gpukernel.Device {
	k := b.on().facts.kernels()
	if k.Prebuilt = b.compiler == nil; !k.Prebuilt {
		k.Precision = b.precision
	}
	return k
}

// compiledBy says where kernels come from, for reports.
func (b *cuda) compiledBy() string {
	if b.compiler == nil {
		return "no NVRTC: kernels compiled beforehand, exact float32, element-wise operators interpreted"
	}
	return fmt.Sprintf("NVRTC %d.%d", b.compiler.Major, b.compiler.Minor)
}

// acquirePrebuilt is acquire for kernels that were compiled beforehand. The driver compiles each once for the device, and keeps what it
// made in a cache of its own.
func (b *cuda) acquirePrebuilt(ctx context.Context, kernels []*gpukernel.Kernel) (*kernelstore.Entry[*program], error) {
	d := b.on()
	var names []string
	for _, k := range kernels {
		if !slices.Contains(names, k.Name) {
			names = append(names, k.Name)
		}
	}
	slices.Sort(names)
	return d.programs.Acquire(ctx, "compiled beforehand: "+strings.Join(names, " "), func() (*program, error) {
		p := &program{kernels: map[string]uintptr{}}
		for _, k := range gpukernel.Prebuilt() { // as they are, without what a launch makes of them
			if !slices.Contains(names, k.Name) {
				continue
			}
			part, err := d.prebuilt.Acquire(ctx, k.Name, func() (*program, error) { return d.loadPrebuilt(ctx, k) })
			if err != nil {
				d.unload(p)
				return nil, err
			}
			p.parts = append(p.parts, part)
			p.kernels[k.Name] = part.Program.kernels[k.Name]
		}
		return p, nil
	})
}

// loadPrebuilt has the driver compile a kernel.
func (d *gpu) loadPrebuilt(ctx context.Context, k *gpukernel.Kernel) (*program, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	text, ok := ptx.Text(d.facts.capability, k.Name)
	if !ok {
		return nil, fmt.Errorf("%w: there is no text of %s", ErrBuild, k.Name)
	}
	return d.load(text, []*gpukernel.Kernel{k})
}
