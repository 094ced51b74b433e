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
	"cuCtxSetCurrent", "cuModuleLoadData", "cuModuleGetFunction", "cuModuleUnload", "cuFuncSetAttribute",
	"cuMemAlloc_v2", "cuMemFree_v2", "cuMemGetInfo_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async",
	"cuStreamCreate", "cuStreamSynchronize", "cuEventCreate", "cuEventRecord", "cuEventElapsedTime", "cuEventSynchronize",
	"cuLaunchKernel", "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch",
	"cuGraphExecDestroy", "cuGraphDestroy",
}

// driverError is a call of the driver that failed.
type driverError struct {
	function string
	code     int32
}

func (e *driverError) Error() string { return fmt.Sprintf("%s: error %d", e.function, e.code) }

// kind is the kind of fault. After codes of kernels that failed the context is lost.
func (e *driverError) kind() string {
	switch {
	case e.code == 2:
		return memory
	case e.code == 100, e.code == 3:
		return absent
	case e.code == 200, e.code == 209, e.code == 218, e.code == 222:
		return compiling
	case e.code >= 700 && e.code < 720 && e.code != 701 && e.code != 704 && e.code != 705 && e.code != 712 && e.code != 713:
		return lost
	}
	return failed
}

// openDriver opens the driver at a path, or that of the system, and makes the context of the first device current.
func openDriver(path string) (*driver, error) {
	if path == "" {
		path = "libcuda.so.1"
	}
	lib, err := dl.Open(path)
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
	for _, step := range []func() error{
		func() error { return d.call("cuInit", 0) },
		func() error { return d.call("cuDriverGetVersion", at(version)) },
		func() error { return d.call("cuDeviceGet", at(&d.device), 0) },
		func() error { return d.call("cuDeviceGetName", at(name), 128, uintptr(d.device)) },
		func() error { return d.call("cuDevicePrimaryCtxRetain", at(context), uintptr(d.device)) },
		func() error { return d.call("cuCtxSetCurrent", *context) },
		func() error { return d.call("cuStreamCreate", at(&d.stream), 1) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
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
	if code := int32(dl.Call(d.fn[name], args...)); code != 0 {
		return &driverError{name, code}
	}
	return nil
}

func (d *driver) attribute(n int) int {
	v := new(int32)
	if d.call("cuDeviceGetAttribute", at(v), uintptr(n), uintptr(d.device)) != nil {
		return 0
	}
	return int(*v)
}

// memory returns the bytes of the device that are free, and all.
func (d *driver) memory() (free, total int64, err error) {
	f, t := new(uint64), new(uint64)
	err = d.call("cuMemGetInfo_v2", at(f), at(t))
	return int64(*f), int64(*t), err
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

// poison fills device memory with NaNs.
func (d *driver) poison(p uintptr, n int64) error {
	return d.call("cuMemsetD8Async", p, 0xff, uintptr(n), d.stream)
}

// load loads machine code and returns the module, and the function of a kernel with its local memory allowed.
func (d *driver) load(binary []byte, k *gpukernel.Kernel) (loaded, entry uintptr, err error) {
	module, function := new(uintptr), new(uintptr)
	name := append([]byte(k.Name), 0)
	if err := d.call("cuModuleLoadData", at(module), at(&binary[0])); err != nil {
		return 0, 0, err
	}
	err = d.call("cuModuleGetFunction", at(function), *module, at(&name[0]))
	runtime.KeepAlive(name)
	if err == nil && k.Arena > 48<<10 {
		err = d.call("cuFuncSetAttribute", *function, 8, uintptr(k.Arena))
	}
	if err != nil {
		_ = d.call("cuModuleUnload", *module) // the first failure is told
		return 0, 0, err
	}
	return *module, *function, nil
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

// record captures work as a graph that is launched at once.
func (d *driver) record(work func() error) (exec uintptr, err error) {
	if err := d.call("cuStreamBeginCapture_v2", d.stream, 1); err != nil {
		return 0, err
	}
	werr := work()
	g, x := new(uintptr), new(uintptr)
	if err := errors.Join(werr, d.call("cuStreamEndCapture", d.stream, at(g))); err != nil {
		return 0, err
	}
	err = d.call("cuGraphInstantiateWithFlags", at(x), *g, 0)
	return *x, errors.Join(err, d.call("cuGraphDestroy", *g))
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
	for _, step := range []func() error{
		func() error { return d.call("cuEventRecord", t.begin, d.stream) },
		work,
		func() error { return d.call("cuEventRecord", t.end, d.stream) },
		func() error { return d.call("cuEventSynchronize", t.end) },
		func() error { return d.call("cuEventElapsedTime", at(ms), t.begin, t.end) },
	} {
		if err := step(); err != nil {
			return 0, err
		}
	}
	return float64(*ms) / 1e3, nil
}
