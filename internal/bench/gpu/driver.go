package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// driver is the part of CUDA's driver that measuring needs, bound by the names that stay the same for ever. The calling
// goroutine is locked to its thread, whose context is current.
type driver struct {
	fn         map[string]uintptr
	device     int32
	stream     uintptr
	name       string
	version    int
	capability int
	processors int
}

var driverNames = []string{
	"cuInit", "cuDriverGetVersion", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
	"cuCtxSetCurrent", "cuGetErrorName", "cuModuleLoadData", "cuModuleGetFunction", "cuModuleUnload", "cuFuncSetAttribute",
	"cuMemAlloc_v2", "cuMemFree_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async",
	"cuStreamCreate", "cuStreamSynchronize", "cuEventCreate", "cuEventRecord", "cuEventElapsedTime", "cuEventSynchronize",
	"cuLaunchKernel", "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch",
	"cuGraphExecDestroy", "cuGraphDestroy",
}

func openDriver() (*driver, error) {
	lib, err := dl.Open("libcuda.so.1")
	if err != nil {
		return nil, err
	}
	d := &driver{fn: map[string]uintptr{}}
	for _, n := range driverNames {
		if d.fn[n], err = lib.Symbol(n); err != nil {
			return nil, err
		}
	}
	context, version, name := new(uintptr), new(int32), new([128]byte)
	err = errors.Join(
		d.call("cuInit", 0),
		d.call("cuDriverGetVersion", at(version)),
		d.call("cuDeviceGet", at(&d.device), 0),
		d.call("cuDeviceGetName", at(name), 128, uintptr(d.device)),
		d.call("cuDevicePrimaryCtxRetain", at(context), uintptr(d.device)),
	)
	if err == nil {
		err = errors.Join(d.call("cuCtxSetCurrent", *context), d.call("cuStreamCreate", at(&d.stream), 1))
	}
	if err != nil {
		return nil, err
	}
	d.version = int(*version)
	d.name = cText(name[:])
	d.processors = d.attribute(16)
	d.capability = 10*d.attribute(75) + d.attribute(76)
	return d, nil
}

// at is the address of what p points to, for a call of the driver.
func at[T any](p *T) uintptr { return dl.At(p) }

func cText(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

func (d *driver) call(name string, args ...uintptr) error {
	r := int32(dl.Call(d.fn[name], args...))
	if r == 0 {
		return nil
	}
	return fmt.Errorf("%s: error %d", name, r)
}

func (d *driver) attribute(n int) int {
	v := new(int32)
	if d.call("cuDeviceGetAttribute", at(v), uintptr(n), uintptr(d.device)) != nil {
		return 0
	}
	return int(*v)
}

func (d *driver) alloc(n int64) (uintptr, error) {
	p := new(uintptr)
	err := d.call("cuMemAlloc_v2", at(p), uintptr(max(n, 1)))
	return *p, err
}

func (d *driver) free(p uintptr) { _ = d.call("cuMemFree_v2", p) } // a fault shows at the next call

func (d *driver) upload(b []byte) (uintptr, error) {
	p, err := d.alloc(int64(len(b)))
	if err != nil {
		return 0, err
	}
	return p, d.call("cuMemcpyHtoD_v2", p, at(&b[0]), uintptr(len(b)))
}

func (d *driver) download(b []byte, p uintptr) error {
	if err := d.call("cuStreamSynchronize", d.stream); err != nil {
		return err
	}
	return d.call("cuMemcpyDtoH_v2", at(&b[0]), p, uintptr(len(b)))
}

// load loads machine code and returns the function of a kernel with its local memory allowed.
func (d *driver) load(binary []byte, k *gpukernel.Kernel) (uintptr, error) {
	module, function := new(uintptr), new(uintptr)
	name := append([]byte(k.Name), 0)
	if err := d.call("cuModuleLoadData", at(module), at(&binary[0])); err != nil {
		return 0, err
	}
	if err := d.call("cuModuleGetFunction", at(function), *module, at(&name[0])); err != nil {
		return 0, err
	}
	runtime.KeepAlive(name)
	if k.Arena > 48<<10 {
		if err := d.call("cuFuncSetAttribute", *function, 8, uintptr(k.Arena)); err != nil {
			return 0, err
		}
	}
	return *function, nil
}

// step is a launch with its values written down: params points into values.
type step struct {
	function uintptr
	grid     [3]int
	threads  int
	arena    int
	values   []uintptr
	params   []uintptr
}

func newStep(function uintptr, l gpukernel.Launch, buffers map[string]uintptr) *step {
	s := &step{function: function, grid: l.Grid, threads: l.Kernel.Threads, arena: l.Kernel.Arena}
	s.values, s.params = make([]uintptr, len(l.Args)), make([]uintptr, len(l.Args)+1)
	for i, a := range l.Args {
		s.values[i] = uintptr(a.Value)
		if !l.Kernel.Params[i].Scalar {
			s.values[i] = buffers[a.Buffer]
		}
		s.params[i] = at(&s.values[i])
	}
	return s
}

func (d *driver) launch(s *step) error {
	return d.call("cuLaunchKernel", s.function, uintptr(s.grid[0]), uintptr(s.grid[1]), uintptr(s.grid[2]), uintptr(s.threads), 1, 1,
		uintptr(s.arena), d.stream, at(&s.params[0]), 0)
}

// graph is recorded work that is launched at once.
type graph uintptr

func (d *driver) record(work func() error) (graph, error) {
	if err := d.call("cuStreamBeginCapture_v2", d.stream, 1); err != nil {
		return 0, err
	}
	werr := work()
	g, exec := new(uintptr), new(uintptr)
	if err := errors.Join(werr, d.call("cuStreamEndCapture", d.stream, at(g))); err != nil {
		return 0, err
	}
	err := d.call("cuGraphInstantiateWithFlags", at(exec), *g, 0)
	return graph(*exec), errors.Join(err, d.call("cuGraphDestroy", *g))
}

// timer is a pair of events.
type timer struct{ begin, end uintptr }

func (d *driver) newTimer() (*timer, error) {
	t := &timer{}
	return t, errors.Join(d.call("cuEventCreate", at(&t.begin), 0), d.call("cuEventCreate", at(&t.end), 0))
}

// time returns the seconds that the device spends on work.
func (d *driver) time(t *timer, work func() error) (float64, error) {
	ms := new(float32)
	err := errors.Join(d.call("cuEventRecord", t.begin, d.stream), work(), d.call("cuEventRecord", t.end, d.stream),
		d.call("cuEventSynchronize", t.end))
	if err != nil {
		return 0, err
	}
	err = d.call("cuEventElapsedTime", at(ms), t.begin, t.end)
	return float64(*ms) / 1e3, err
}
