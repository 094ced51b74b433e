// Package opencl runs groups on devices of OpenCL: graphics processors, accelerators, and processors by way of PoCL, for
// example. Importing the package registers the backend as "opencl", and makes a program on Linux a dynamic one. Nothing of
// OpenCL is needed to build; where there is no loader (libOpenCL.so.1 on Linux), no device of version 1.2, or none with a
// compiler, the backend is unavailable and says why.
//
// Options:
//
//	library    path of the loader
//	platform   number of the platform, or a part of its name; all by default
//	device     number of the device within its platform, or a part of its name; all by default
//	cache      folder of compiled kernels, or "off"; the folder carve/opencl of the user's caches by default
//	reorder    "device": a conversion between a layout of the host's and one of the device's is one copy, of which a kernel of the
//	           device changes the layout; "host": the host changes it before or after. "device" by default
//	precision  of products and convolutions of float32: "f32", exact, by default; "f16" and "bf16" round operands to these types, in which
//	           they lie in local memory, and add in float32; weights, and what the host hands to a product, lie so in the device's memory
//	           too. Beyond 65504 an operand is infinite in f16. "tf32" is exact here, which backend.Info.Unmet says: no device of
//	           OpenCL has instructions for it
//	record     "off": the kernels of a group are queued one by one in each run. "on" by default: from the second run of a session on they
//	           are queued as a command buffer, where the device has cl_khr_command_buffer and operands lie where they lay
//	queue      "out-of-order": kernels of a group that do not depend on each other may run at the same time, where the device has such
//	           queues; "in-order": one behind the other. "in-order" by default: what the other brings is not known of any graphics processor
//
// Of several devices the first is the backend's, GPUs coming before accelerators and these before processors; the others are
// opencl:1 and so on.
//
// Kernels come from internal/gpukernel. Products and convolutions, with the bias, residual and activation behind them, are a
// kernel each; the element-wise operators, reductions and movements of data that hang together are rendered as one. They are
// written for concrete shapes, compiled when a model is, or in the run that finds new shapes, and kept: by the process, and on
// disk by source, device and driver where the driver keeps none itself. Images lie with their channels last inside of
// convolutional parts. All arithmetic is exact in float32, unless the option precision
// says otherwise, which depthwise convolutions and attention do not follow; backend.Info and the report name the precision. float64 is
// computed where the device has it. Results differ from other backends' by the order of sums. In half precision each operator rounds what
// it makes. A Cast beside a conversion is a part of it where that costs less than in the group.
//
// What the backend achieves (backend.Efficiency), by which placement by cost goes, is derived from what drivers say of a device: its
// kind, vendor, compute units and clock, which tell its arithmetic roughly, and of its memory nothing. Tuning (carve tune) measures
// operators there, and tiles of products and convolutions, which are a part of signatures' names.
//
// A device that fails and does not run an empty queue afterwards is lost: what is asked of it returns ErrLost, which wraps
// device.ErrGone, and so does every later run of what was compiled for it. Compiled anew, a model has other backends, and the report
// says why.
//
// A run queues its kernels and returns; the driver tells of their end on a thread of its own. Control flow, operators whose
// result's shape depends on data, and small integers, which are mostly shapes, stay on the host.
package opencl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/kernelstore"
	"github.com/carve-dev/carve/property"
)

func init() { backend.Register("opencl", Open) }

// opencl is an opened backend, as it works on one of its devices.
type opencl struct {
	l       *library
	devices []*clDevice
	first   int
	cache   *kernelstore.Folder
	direct  bool // conversions between the host and a device reorder there

	record    bool                // groups as command buffers
	loose     bool                // groups on queues out of order, where there are any
	precision gpukernel.Precision // that was asked for
}

var (
	_ backend.Placeable = (*opencl)(nil)
	_ convert.Source    = (*opencl)(nil)
)

// Open opens the backend. The error wraps backend.ErrUnavailable where there is no device that serves, and backend.ErrOption.
func Open(c backend.Config) (backend.Backend, error) {
	options := []string{"library", "platform", "device", "cache", "reorder", "precision", "record", "queue"}
	for k := range c.Options {
		if !slices.Contains(options, k) {
			return nil, fmt.Errorf("%w: %q, expected one of %s", backend.ErrOption, k, strings.Join(options, ", "))
		}
	}
	reorder := c.Options["reorder"]
	if !slices.Contains([]string{"", "device", "host"}, reorder) {
		return nil, fmt.Errorf("%w: reorder: %q, expected device or host", backend.ErrOption, reorder)
	}
	precision, err := gpukernel.ParsePrecision(c.Options["precision"])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrOption, err)
	}
	record := c.Options["record"]
	if !slices.Contains([]string{"", "on", "off"}, record) {
		return nil, fmt.Errorf("%w: record: %q, expected on or off", backend.ErrOption, record)
	}
	queue := c.Options["queue"]
	if !slices.Contains([]string{"", "in-order", "out-of-order"}, queue) {
		return nil, fmt.Errorf("%w: queue: %q, expected in-order or out-of-order", backend.ErrOption, queue)
	}
	l, err := openLibrary(c.Options["library"])
	if err != nil {
		return nil, err
	}
	devices, err := l.list()
	if err != nil {
		return nil, unavailable(err)
	}
	if devices, err = choose(devices, c.Options["platform"], c.Options["device"]); err != nil {
		return nil, err
	}
	b := &opencl{l: l, devices: devices, direct: reorder != "host", precision: precision, record: record != "off", loose: queue == "out-of-order"}
	if b.cache, err = kernelstore.OpenFolder(c.Options["cache"], "opencl"); err != nil {
		return nil, fmt.Errorf("%w: cache: %w", backend.ErrOption, err)
	}
	for _, d := range devices {
		if err := d.open(); err != nil {
			return nil, unavailable(fmt.Errorf("%s: %w", d.facts.name, err))
		}
	}
	return b, nil
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", backend.ErrUnavailable, err) }

// on is the device that the backend works on.
func (b *opencl) on() *clDevice { return b.devices[b.first] }

// planner is what plans groups for that device.
func (b *opencl) planner() *gpugroup.Device {
	f := &b.on().facts
	k := f.kernels()
	k.Precision, k.Narrow = b.precision, true
	return &gpugroup.Device{ID: b.on().id, Kernels: k, Ceilings: f.ceilings()}
}

// Info implements backend.Backend.
func (b *opencl) Info() backend.Info {
	name := "opencl"
	if b.first > 0 {
		name = fmt.Sprintf("opencl:%d", b.first)
	}
	f := &b.on().facts
	info := backend.Info{Name: name, Version: fmt.Sprintf("%s, driver %s", f.version, f.driver), Processor: f.String(), Path: b.l.path, Memory: f.memory,
		Efficiency: b.efficiency()}
	k := b.planner().Kernels
	if p := k.Rounds(); p != gpukernel.Exact {
		info.Precision = p.String()
		info.Processor += ", products in " + info.Precision
	}
	if info.Unmet = k.Unmet(); info.Unmet == "" && b.loose && !f.loose {
		info.Unmet = "queue=out-of-order: the device has no such queues, kernels run in order"
	}
	return info
}

// efficiency is what the device achieves by its ceilings, the same each time.
func (b *opencl) efficiency() *backend.Efficiency {
	d := b.on()
	d.achieves.Do(func() { d.achieved = d.facts.ceilings().Efficiency() })
	return d.achieved
}

// Calls returns how often functions of OpenCL that runs consist of were called so far, by their names, for whatever backend of the process:
// what lies between two of them are a run's command buffers, launches and copies.
func (b *opencl) Calls() map[string]int {
	c := &b.l.called
	return map[string]int{
		"clEnqueueNDRangeKernel": int(c.kernels.Load()), "clEnqueueCommandBufferKHR": int(c.recorded.Load()), "clEnqueueWriteBuffer": int(c.writes.Load()),
		"clEnqueueReadBuffer": int(c.reads.Load()), "clEnqueueCopyBuffer": int(c.copies.Load()),
	}
}

// Properties implements backend.Backend: what belongs together is found when kernels are written.
func (*opencl) Properties() []property.SubgraphProperty { return nil }

// Devices implements backend.Backend.
func (b *opencl) Devices() []device.Device {
	list := []device.Device{b.on()}
	for i, d := range b.devices {
		if i != b.first {
			list = append(list, d)
		}
	}
	return list
}

// On implements backend.Placeable.
func (b *opencl) On(id tensor.DeviceID) (backend.Backend, error) {
	for i, d := range b.devices {
		if d.id == id {
			v := *b
			v.first = i
			return &v, nil
		}
	}
	return nil, fmt.Errorf("%w: opencl has no device %v", backend.ErrNoDevice, id)
}

// Supports implements backend.Backend. A device that is lost has no nodes any more.
func (b *opencl) Supports(n *graph.Node) backend.Support {
	if err := b.on().sound(); err != nil {
		return backend.No(property.Unavailable, "%v", err)
	}
	return b.planner().Supports(n)
}

// Converters implements backend.Backend: copies between the host and the devices, in each layout, and of activations copies that
// change the layout, and the type where operands of products are kept in 16 bits.
func (b *opencl) Converters() []convert.Converter {
	return gpugroup.Converters(b.Devices(), costs, b.direct, b.reorders)
}

// ConvertersOf implements convert.Source: those of what a device keeps as elements of another type.
func (b *opencl) ConvertersOf(l graph.Layout) []convert.Converter {
	if !b.direct {
		return nil
	}
	return gpugroup.CastConverters(l, b.Devices(), costs, b.reorders)
}

// reorders returns the i-th device as it plans and as it reorders.
func (b *opencl) reorders(i int) (*gpugroup.Device, gpugroup.Reorderer) {
	v := *b
	v.first = i
	return v.planner(), reorderer{b.devices[i], &v}
}

// Close implements backend.Backend. The devices stay open: others of the process may work on them.
func (*opencl) Close() error { return nil }
