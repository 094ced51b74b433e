package cuda

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/carve-dev/carve/internal/dl"
)

// library is an open driver, with its devices. It lives until the process ends, as libraries do.
type library struct {
	path    string
	version int // 12040 for CUDA 12.4
	fn      [len(names)]uintptr
	called  [len(names)]atomic.Int64

	mu      sync.Mutex
	devices []*gpu
}

// function is one of the driver's.
type function uint8

const (
	fnInit function = iota
	fnDriverGetVersion
	fnGetErrorName
	fnGetErrorString
	fnDeviceGetCount
	fnDeviceGet
	fnDeviceGetName
	fnDeviceGetAttribute
	fnDeviceTotalMem
	fnPrimaryCtxRetain
	fnPrimaryCtxRelease
	fnCtxPush
	fnCtxPop
	fnModuleLoadDataEx
	fnModuleGetFunction
	fnModuleUnload
	fnFuncSetAttribute
	fnFuncGetAttribute
	fnMemAlloc
	fnMemFree
	fnMemHostAlloc
	fnMemFreeHost
	fnMemcpyHtoDAsync
	fnMemcpyDtoHAsync
	fnMemcpyDtoDAsync
	fnMemcpyPeerAsync
	fnStreamCreate
	fnStreamDestroy
	fnStreamSynchronize
	fnStreamWaitEvent
	fnEventCreate
	fnEventRecord
	fnEventQuery
	fnEventSynchronize
	fnEventDestroy
	fnLaunchKernel
	fnStreamBeginCapture
	fnStreamEndCapture
	fnStreamIsCapturing
	fnGraphInstantiateWithFlags
	fnGraphLaunch
	fnGraphExecDestroy
	fnGraphDestroy
)

// names are those of the symbols, which keep their signature for ever: headers map a plain name to the newest of several.
var names = [...]string{
	fnInit: "cuInit", fnDriverGetVersion: "cuDriverGetVersion", fnGetErrorName: "cuGetErrorName", fnGetErrorString: "cuGetErrorString",
	fnDeviceGetCount: "cuDeviceGetCount", fnDeviceGet: "cuDeviceGet", fnDeviceGetName: "cuDeviceGetName",
	fnDeviceGetAttribute: "cuDeviceGetAttribute", fnDeviceTotalMem: "cuDeviceTotalMem_v2",
	fnPrimaryCtxRetain: "cuDevicePrimaryCtxRetain", fnPrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2",
	fnCtxPush: "cuCtxPushCurrent_v2", fnCtxPop: "cuCtxPopCurrent_v2",
	fnModuleLoadDataEx: "cuModuleLoadDataEx", fnModuleGetFunction: "cuModuleGetFunction", fnModuleUnload: "cuModuleUnload",
	fnFuncSetAttribute: "cuFuncSetAttribute", fnFuncGetAttribute: "cuFuncGetAttribute",
	fnMemAlloc: "cuMemAlloc_v2", fnMemFree: "cuMemFree_v2", fnMemHostAlloc: "cuMemHostAlloc", fnMemFreeHost: "cuMemFreeHost",
	fnMemcpyHtoDAsync: "cuMemcpyHtoDAsync_v2", fnMemcpyDtoHAsync: "cuMemcpyDtoHAsync_v2", fnMemcpyDtoDAsync: "cuMemcpyDtoDAsync_v2",
	fnMemcpyPeerAsync: "cuMemcpyPeerAsync",
	fnStreamCreate:    "cuStreamCreate", fnStreamDestroy: "cuStreamDestroy_v2", fnStreamSynchronize: "cuStreamSynchronize",
	fnStreamWaitEvent: "cuStreamWaitEvent", fnEventCreate: "cuEventCreate", fnEventRecord: "cuEventRecord", fnEventQuery: "cuEventQuery",
	fnEventSynchronize: "cuEventSynchronize", fnEventDestroy: "cuEventDestroy_v2", fnLaunchKernel: "cuLaunchKernel",
	fnStreamBeginCapture: "cuStreamBeginCapture_v2", fnStreamEndCapture: "cuStreamEndCapture", fnStreamIsCapturing: "cuStreamIsCapturing",
	fnGraphInstantiateWithFlags: "cuGraphInstantiateWithFlags", fnGraphLaunch: "cuGraphLaunch",
	fnGraphExecDestroy: "cuGraphExecDestroy", fnGraphDestroy: "cuGraphDestroy",
}

// oldest is the first version of CUDA whose driver serves: it has graphs that are captured by one thread among several.
const oldest = 11040

// sonames are tried where no path is given.
func sonames() []string {
	if runtime.GOOS == "windows" {
		return []string{"nvcuda.dll"}
	}
	return []string{"libcuda.so.1"}
}

// opened are the libraries of the process.
var opened dl.Opened[library]

// openLibrary opens a library by its path, or by the system's name for it where that is "".
func openLibrary(path string) (*library, error) {
	list := []string{path}
	if path == "" {
		list = sonames()
	}
	l, err := opened.First(list, load)
	if err != nil {
		return nil, fmt.Errorf("no driver of CUDA: %w", err)
	}
	return l, nil
}

func load(name string) (*library, error) {
	h, err := dl.Open(name)
	if err != nil {
		return nil, err
	}
	l := &library{path: name}
	for i, f := range names {
		if l.fn[i], err = h.Symbol(f); err != nil {
			if function(i) > fnGetErrorString && l.fn[fnDriverGetVersion] != 0 && l.learnVersion() == nil && l.version < oldest {
				return nil, l.tooOld()
			}
			return nil, fmt.Errorf("this is no driver of CUDA: %w", err)
		}
	}
	if err := l.learnVersion(); err != nil {
		return nil, err
	}
	if l.version < oldest {
		return nil, l.tooOld()
	}
	return l, nil
}

func (l *library) learnVersion() error {
	c := newCall(l)
	defer c.done()
	c.word = 0
	err := c.do(fnDriverGetVersion, at(&c.word))
	l.version = int(uint32(c.word))
	return err
}

func (l *library) tooOld() error {
	return fmt.Errorf("the driver %s is of CUDA %d.%d, and one of %d.%d or later is needed", l.path, l.version/1000, l.version%1000/10, oldest/1000, oldest%1000/10)
}

// call is what calls of C functions need, in memory that does not move. It is for one goroutine, which is locked to its thread
// where a context is current: contexts are current by thread.
type call struct {
	l      *library
	d      *gpu // whose context is current, nil for none
	frame  dl.Frame
	word   uintptr // an argument or a result that is passed by its address
	number int32
	popped uintptr
	err    error // why the context is not current
}

var calls = sync.Pool{New: func() any { return &call{} }}

func newCall(l *library) *call {
	c := calls.Get().(*call)
	c.l = l
	return c
}

func (c *call) done() {
	c.l, c.d, c.err = nil, nil, nil
	calls.Put(c)
}

// enter makes the device's context current, until leave. What was current before is so again afterwards.
func (d *gpu) enter() *call {
	c := newCall(d.l)
	runtime.LockOSThread()
	if d.context == 0 {
		c.err = &Error{Function: names[fnCtxPush], Text: "the device is closed"}
		return c
	}
	err := c.do(fnCtxPush, d.context)
	if err != nil { // what is to be given back needs it
		err = c.do(fnCtxPush, d.context)
	}
	c.d, c.err = d, err
	return c
}

func (c *call) leave() {
	if c.d != nil && c.err == nil {
		_ = c.do(fnCtxPop, at(&c.popped)) // there is nobody to tell
	}
	runtime.UnlockOSThread()
	c.done()
}

// status calls a function, and returns what it returns.
func (c *call) status(f function, args ...uintptr) int32 {
	c.l.called[f].Add(1)
	c.frame.Fn = c.l.fn[f]
	copy(c.frame.Args[:], args)
	dl.Invoke(&c.frame)
	return int32(c.frame.Ret)
}

// do calls a function. What arguments point at lies in the heap, and stays alive through the caller.
func (c *call) do(f function, args ...uintptr) error {
	if c.err != nil {
		return c.err
	}
	if s := c.status(f, args...); s != 0 {
		return c.failed(f, s)
	}
	return nil
}

// create is do for a function that stores an object, or an address, where its first argument points.
func (c *call) create(f function, args ...uintptr) (uintptr, error) {
	if c.err != nil {
		return 0, c.err
	}
	c.word = 0
	c.l.called[f].Add(1)
	c.frame.Fn = c.l.fn[f]
	c.frame.Args[0] = at(&c.word)
	copy(c.frame.Args[1:], args)
	dl.Invoke(&c.frame)
	if s := int32(c.frame.Ret); s != 0 {
		return 0, c.failed(f, s)
	}
	return c.word, nil
}

// failed returns the error of a function that has returned a code.
func (c *call) failed(f function, code int32) error {
	e := &Error{Function: names[f], Code: code}
	if c.status(fnGetErrorName, uintptr(code), at(&c.word)) == 0 {
		e.Name = goText(c.word)
	}
	if c.status(fnGetErrorString, uintptr(code), at(&c.word)) == 0 {
		e.Text = goText(c.word)
	}
	if c.d != nil && e.lost() {
		c.d.lost.CompareAndSwap(nil, e)
	}
	return e
}

// at returns the address of something, which lies in the heap because of it.
func at[T any](p *T) uintptr { return dl.At(p) }

// pointer turns an address that C gave into a pointer.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// text returns a string as C has it. The caller keeps it alive.
func text(s string) []byte { return append([]byte(s), 0) }

// goText returns a text of the driver's, which ends with a 0.
func goText(p uintptr) string {
	if p == 0 {
		return ""
	}
	const most = 400
	var b []byte
	for i := range most {
		x := *(*byte)(unsafe.Add(pointer(p), i))
		if x == 0 {
			break
		}
		b = append(b, x)
	}
	return string(b)
}

// untilZero returns the text in b up to the first 0, without surrounding blanks.
func untilZero(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return strings.TrimSpace(s)
}
