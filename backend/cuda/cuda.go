// Package cuda runs groups on NVIDIA's graphics processors by the CUDA driver. Importing the package registers the backend as
// "cuda", and makes a program on Linux a dynamic one. Nothing of CUDA is needed to build; where there is no driver (libcuda.so.1 on
// Linux), one older than CUDA 11.4, or no device, the backend is unavailable and says why.
//
// Options:
//
//	library    path of the driver
//	nvrtc      path of the run-time compiler, libnvrtc, or "off"; the system's loader searches for one of CUDA 13, 12 or 11 by default
//	device     number of the device, or a part of its name; all by default
//	cache      folder of compiled kernels, or "off"; the folder carve/cuda of the user's caches by default
//	reorder    "device": a conversion between a layout of the host's and one of the device's is one copy, of which a kernel of the
//	           device changes the layout; "host": the host changes it before or after. "device" by default
//	cublas     path of cuBLASLt 12 or 13, or "off"; the system's loader searches by default
//	cudnn      path of cuDNN 9, or "off"; the system's loader searches by default
//	libraries  "model": products and convolutions of shapes for which the model expects them to be faster are done by cuBLASLt and cuDNN,
//	           where they are found; "first": all that they do; "off": none. "model" by default
//	precision  of products and convolutions of float32: "f32", exact, by default; "tf32", "f16" and "bf16" round operands to these
//	           types, for matrix instructions, and add in float32; in 16 bits weights, and what the host hands to a product, lie so in
//	           the device's memory too. Beyond 65504 an operand is infinite in f16
//
// Of several devices the first is the backend's; the others are cuda:1 and so on.
//
// Kernels come from internal/gpukernel by way of internal/gpugroup, as for other graphics processors. They are written for concrete
// shapes, compiled to machine code for the device when a model is, or in the run that finds new shapes, and kept: by the process,
// and on disk. Images lie with their channels last inside of convolutional parts. All arithmetic is exact in float32, unless the option
// precision says otherwise, and in float64; results differ from other backends' by the order of sums. In half precision each operator
// rounds what it makes. A Cast beside a conversion is a part of it where that costs less than in the group. Devices before compute capability 8.0 lack the matrix instructions and stay exact, and so do depthwise
// convolutions and attention. backend.Info and the report name the precision, and backend.Info.Unmet says where it has no effect.
//
// What the backend achieves (backend.Efficiency), by which placement by cost goes, is derived from the clocks, the multiprocessors and the
// memory of a device. Tuning (carve tune) measures operators there, and tiles of products and convolutions, which are a part of
// signatures' names.
//
// Where cuBLASLt and cuDNN are found they are further candidates for products and convolutions, by the model's choice or as tuning has
// measured them: cuBLASLt with bias, residual, ReLU and GELU by tanh, in all precisions; cuDNN with bias, residual and ReLU, exact or in
// TF32, with the same padding behind as in front. What follows beyond that is a kernel over the result. Memory of their own is planned like
// other memory of the group, and their calls are part of its CUDA graph. backend.Info has why one is not used, the report which groups use them. Nothing
// needs them.
//
// Where no compiler is found, or the one that is does not know the processor, kernels serve that come with the backend (package ptx), from
// CUDA 11.8 and compute capability 7.5 on: products, convolutions and attention of float32 whose shapes are arguments, and an interpreter
// for everything else, which fuses as compiled kernels do and takes some tens of instructions for each of its own. What it has no kernel for
// goes to the next backend. The driver compiles a text when it is first used, and caches what it made.
//
// The first run of a group in a session launches its kernels one by one. The second one captures them as a CUDA graph, which later
// runs launch by one call, as long as operands lie where they lay; where they have moved the group is captured again. A run queues
// its work and returns. Copies between the device and the host pass through pinned memory of the backend's, and so do not wait;
// from one device to another the driver copies. A device that is lost, because a kernel reached beyond its memory, for example,
// serves no more in this process: what is asked of it returns ErrLost, which wraps device.ErrGone, and so does every later run of what
// was compiled for it. Compiled anew, a model has other backends, and the report says why. Control flow, operators whose result's shape depends on data,
// and small integers, which are mostly shapes, stay on the host.
//
// Its specs run it over the driver and the compiler of internal/gpukernel/fakecuda, which run the kernels' own text on the processor.
// On a device it has run on an NVIDIA H200 alone: PERFORMANCE.md has its speed.
package cuda

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
	"github.com/carve-dev/carve/internal/kernelstore"
	"github.com/carve-dev/carve/property"
)

func init() { backend.Register("cuda", Open) }

// cuda is an opened backend, as it works on one of its devices.
type cuda struct {
	l        *library
	compiler *nvrtc.Library // nil: kernels are those of package ptx
	noNVRTC  error          // why there is no compiler
	found    libraries
	prefers  bool    // libraries, wherever they do a node
	vendor   *vendor // of the device that it works on
	devices  []*gpu
	first    int
	cache    *kernelstore.Folder
	direct   bool // conversions between the host and a device reorder there
	close    *sync.Once
	achieves *efficiency

	precision gpukernel.Precision // that was asked for
}

var (
	_ backend.Placeable = (*cuda)(nil)
	_ convert.Source    = (*cuda)(nil)
)

// Open opens the backend. The error wraps backend.ErrUnavailable where there is no device that serves or no kernels for it, and
// backend.ErrOption.
func Open(c backend.Config) (backend.Backend, error) {
	options := []string{"library", "nvrtc", "device", "cache", "reorder", "precision", "cublas", "cudnn", "libraries"}
	for k := range c.Options {
		if !slices.Contains(options, k) {
			return nil, fmt.Errorf("%w: %q, expected one of %s", backend.ErrOption, k, strings.Join(options, ", "))
		}
	}
	reorder := c.Options["reorder"]
	if !slices.Contains([]string{"", "device", "host"}, reorder) {
		return nil, fmt.Errorf("%w: reorder: %q, expected device or host", backend.ErrOption, reorder)
	}
	prefer := c.Options["libraries"]
	if !slices.Contains([]string{"", "model", "first", off}, prefer) {
		return nil, fmt.Errorf("%w: libraries: %q, expected model, first or off", backend.ErrOption, prefer)
	}
	precision, err := gpukernel.ParsePrecision(c.Options["precision"])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrOption, err)
	}
	l, err := openLibrary(c.Options["library"])
	if err != nil {
		return nil, unavailable(err)
	}
	devices, err := l.list()
	if err != nil {
		return nil, unavailable(err)
	}
	if devices, err = choose(devices, c.Options["device"]); err != nil {
		return nil, err
	}
	b := &cuda{l: l, devices: devices, direct: reorder != "host", precision: precision, prefers: prefer == "first", close: &sync.Once{}, achieves: &efficiency{}}
	if b.compiler, b.noNVRTC, err = findCompiler(c.Options["nvrtc"], devices); err != nil {
		return nil, unavailable(err)
	}
	if b.compiler == nil {
		if err := b.servesPrebuilt(); err != nil {
			return nil, unavailable(err)
		}
	}
	blas, dnn := c.Options["cublas"], c.Options["cudnn"]
	if prefer == off {
		blas, dnn = off, off
	}
	b.found, err = findLibraries(blas, dnn, l.version)
	if err != nil {
		return nil, unavailable(err)
	}
	if b.cache, err = kernelstore.OpenFolder(c.Options["cache"], "cuda"); err != nil {
		return nil, fmt.Errorf("%w: cache: %w", backend.ErrOption, err)
	}
	if err := b.on().retain(); err != nil {
		return nil, unavailable(fmt.Errorf("%s: %w", b.on().facts.name, err))
	}
	b.vendor = b.on().vendor(b.found)
	if err := b.vendor.failed(blas, dnn); err != nil {
		b.on().release()
		return nil, unavailable(fmt.Errorf("%s: %w", b.on().facts.name, err))
	}
	return b, nil
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", backend.ErrUnavailable, err) }

// on is the device that the backend works on.
func (b *cuda) on() *gpu { return b.devices[b.first] }

// planner is what plans groups for that device.
func (b *cuda) planner() *gpugroup.Device {
	k := b.kernels()
	d := &gpugroup.Device{ID: b.on().id, Kernels: k, Ceilings: b.on().facts.ceilings(k)}
	if b.vendor.serves() {
		d.Vendor, d.VendorFirst = b.vendor, b.prefers
	}
	return d
}

// Info implements backend.Backend.
func (b *cuda) Info() backend.Info {
	name := "cuda"
	if b.first > 0 {
		name = fmt.Sprintf("cuda:%d", b.first)
	}
	f := &b.on().facts
	version := fmt.Sprintf("driver of CUDA %d.%d, %s", b.l.version/1000, b.l.version%1000/10, b.compiledBy())
	info := backend.Info{Name: name, Version: version, Processor: f.String(), Path: b.l.path, Memory: f.memory, Efficiency: b.efficiency(), Components: b.components()}
	for _, c := range info.Components[1:] {
		if c.Unused == "" {
			info.Version += ", " + c.Name + " " + c.Version
		}
	}
	k := b.kernels()
	if p := k.Rounds(); p != gpukernel.Exact {
		info.Precision = p.String()
		info.Processor += ", products in " + info.Precision
	}
	k.Precision = b.precision
	info.Unmet = k.Unmet()
	return info
}

// Calls returns how often each function of the driver was called so far, by its name, for whatever backend of the process: what lies between
// two of them are a run's graphs, launches and copies. Calls that libraries make are not among them.
func (b *cuda) Calls() map[string]int {
	list := map[string]int{}
	for f := range b.l.called {
		if n := b.l.called[f].Load(); n > 0 {
			list[names[f]] = int(n)
		}
	}
	return list
}

// components are the libraries that the backend may use, the compiler first.
func (b *cuda) components() []backend.Component {
	c := backend.Component{Name: nvrtcName}
	if b.compiler != nil {
		c.Version = fmt.Sprintf("%d.%d", b.compiler.Major, b.compiler.Minor)
	} else {
		c.Unused = b.noNVRTC.Error()
	}
	return append([]backend.Component{c}, b.vendor.components()...)
}

// efficiency is what a backend achieves on its device.
type efficiency struct {
	once sync.Once
	of   *backend.Efficiency
}

// efficiency is what the device achieves by its ceilings, the same each time.
func (b *cuda) efficiency() *backend.Efficiency {
	b.achieves.once.Do(func() { b.achieves.of = b.on().facts.ceilings(b.kernels()).Efficiency() })
	return b.achieves.of
}

// Properties implements backend.Backend: what belongs together is found when kernels are written.
func (*cuda) Properties() []property.SubgraphProperty { return nil }

// Devices implements backend.Backend.
func (b *cuda) Devices() []device.Device {
	list := []device.Device{b.on()}
	for i, d := range b.devices {
		if i != b.first {
			list = append(list, d)
		}
	}
	return list
}

// On implements backend.Placeable.
func (b *cuda) On(id tensor.DeviceID) (backend.Backend, error) {
	for i, d := range b.devices {
		if d.id != id {
			continue
		}
		if err := d.retain(); err != nil {
			return nil, unavailable(fmt.Errorf("%s: %w", d.facts.name, err))
		}
		v := *b
		v.first, v.close, v.achieves, v.vendor = i, &sync.Once{}, &efficiency{}, d.vendor(b.found)
		return &v, nil
	}
	return nil, fmt.Errorf("%w: cuda has no device %v", backend.ErrNoDevice, id)
}

// Supports implements backend.Backend. A device that is lost has no nodes any more.
func (b *cuda) Supports(n *graph.Node) backend.Support {
	if e := b.on().lost.Load(); e != nil {
		return backend.No(property.Unavailable, "%v: %v", ErrLost, e)
	}
	return b.planner().Supports(n)
}

// Converters implements backend.Backend: copies between the host and the devices, and among these, in each layout, and of
// activations copies that change the layout, and the type where operands of products are kept in 16 bits.
func (b *cuda) Converters() []convert.Converter {
	return gpugroup.Converters(b.Devices(), costs, b.direct, b.reorders)
}

// ConvertersOf implements convert.Source: those of what a device keeps as elements of another type.
func (b *cuda) ConvertersOf(l graph.Layout) []convert.Converter {
	if !b.direct {
		return nil
	}
	return gpugroup.CastConverters(l, b.Devices(), costs, b.reorders)
}

// reorders returns the i-th device as it plans and as it reorders.
func (b *cuda) reorders(i int) (*gpugroup.Device, gpugroup.Reorderer) {
	v := *b
	v.first = i
	return v.planner(), reorderer{b.devices[i], &v}
}

// Close implements backend.Backend. When the last backend on a device is closed, and no memory or stream of it is left, what was
// compiled and captured for it goes with its context.
func (b *cuda) Close() error {
	b.close.Do(b.on().release)
	return nil
}

// architecture returns the one of a compiler's that serves a compute capability, 86 for 8.6: machine code runs on later processors
// of the same major number. A compiler that does not say what it knows is taken to know the processor's own.
func architecture(capability int, known []int) (string, error) {
	best := 0
	for _, a := range known {
		if a/10 == capability/10 && a <= capability {
			best = max(best, a)
		}
	}
	if best = cmp.Or(best, capability); len(known) > 0 && !slices.Contains(known, best) {
		return "", fmt.Errorf("it compiles for compute capabilities %d.%d to %d.%d, and not for %d.%d", slices.Min(known)/10, slices.Min(known)%10,
			slices.Max(known)/10, slices.Max(known)%10, capability/10, capability%10)
	}
	return fmt.Sprintf("sm_%d", best), nil
}
