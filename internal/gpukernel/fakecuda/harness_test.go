package fakecuda_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
)

// Codes of errors.
const (
	invalidValue, outOfMemory, notInitialized, noDevice = 1, 2, 3, 100
	invalidImage, invalidContext, noBinary              = 200, 201, 209
	invalidHandle, notFound, notReady, illegalAddress   = 400, 500, 600, 700
	outOfResources, launchFailed, unknown               = 701, 719, 999
	captureUnsupported, captureInvalidated              = 900, 901
	captureUnjoined, captureIsolation, capturedEvent    = 904, 905, 907
	captureWrongThread                                  = 908
)

var shared = sync.OnceValues(func() (*fakecuda.Driver, error) {
	dir, err := os.MkdirTemp("", "fakecuda")
	if err != nil {
		return nil, err
	}
	folder = dir
	return fakecuda.Build(GinkgoT().Context(), dir, fakecuda.Options{})
})

var folder string

var _ = AfterSuite(func() {
	if folder != "" {
		Expect(os.RemoveAll(folder)).To(Succeed())
	}
})

// gpu is a client of the driver on one thread, with the first device's context current. Handles and addresses are plain numbers.
type gpu struct {
	*fakecuda.Driver
	lib     *dl.Library
	nvrtc   *nvrtc.Library
	context uintptr
	current uintptr // the context that is made current before each call
	pin     runtime.Pinner
}

// driver returns the shared driver as it was at first, or skips the spec.
func driver() *fakecuda.Driver {
	GinkgoHelper()
	d, err := shared()
	if errors.Is(err, fakecuda.ErrNoCompiler) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	d.Reset()
	return d
}

func newGPU(d *fakecuda.Driver) *gpu {
	GinkgoHelper()
	g := &gpu{Driver: d}
	g.lib = open(d.CUDA)
	var err error
	g.nvrtc, err = nvrtc.Open(d.NVRTC)
	Expect(err).NotTo(HaveOccurred())
	g.ok("cuInit", 0)
	g.context = g.get("cuDevicePrimaryCtxRetain", 0)
	g.current = g.context
	DeferCleanup(func() {
		g.current = 0
		g.ok("cuDevicePrimaryCtxRelease_v2", 0)
		g.pin.Unpin()
		Expect(d.Live()).To(BeEmpty())
	})
	return g
}

func open(path string) *dl.Library {
	GinkgoHelper()
	lib, err := dl.Open(path)
	Expect(err).NotTo(HaveOccurred())
	return lib
}

// text returns the C string at an address.
func text(at uintptr) string {
	var b []byte
	for c := view(at, 64); c[len(b)] != 0; {
		b = append(b, c[len(b)])
	}
	return string(b)
}

// view returns the C library's memory as a slice.
func view(at uintptr, n int) []byte {
	p := *(*unsafe.Pointer)(unsafe.Pointer(&at)) // vet takes a conversion for an address of Go's
	return unsafe.Slice((*byte)(p), n)
}

// at returns the address of Go's memory, which stays until the spec ends.
func (g *gpu) at(p any) uintptr {
	switch p := p.(type) {
	case *uintptr:
		g.pin.Pin(p)
		return uintptr(unsafe.Pointer(p))
	case *int32:
		g.pin.Pin(p)
		return uintptr(unsafe.Pointer(p))
	case []uintptr:
		g.pin.Pin(&p[0])
		return uintptr(unsafe.Pointer(&p[0]))
	case []byte:
		g.pin.Pin(&p[0])
		return uintptr(unsafe.Pointer(&p[0]))
	case string:
		return g.at(append([]byte(p), 0))
	}
	panic(fmt.Sprintf("%T", p))
}

// do calls a function and returns its code.
func (g *gpu) do(name string, args ...uintptr) int {
	GinkgoHelper()
	fn, err := g.lib.Symbol(name)
	Expect(err).NotTo(HaveOccurred())
	if g.current != 0 { // cleanups run on goroutines of their own
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		set, err := g.lib.Symbol("cuCtxSetCurrent")
		Expect(err).NotTo(HaveOccurred())
		dl.Call(set, g.current)
	}
	return int(int32(dl.Call(fn, args...)))
}

func (g *gpu) ok(name string, args ...uintptr) {
	GinkgoHelper()
	code := g.do(name, args...)
	Expect(code).To(BeZero(), "%s\n%s", name, g.Report())
}

// get calls a function that writes a word where its first argument points.
func (g *gpu) get(name string, args ...uintptr) uintptr {
	GinkgoHelper()
	word := new(uintptr)
	g.ok(name, append([]uintptr{g.at(word)}, args...)...)
	return *word
}

func (g *gpu) stream() uintptr {
	GinkgoHelper()
	s := g.get("cuStreamCreate", 1)
	DeferCleanup(func() { g.ok("cuStreamDestroy_v2", s) })
	return s
}

func (g *gpu) event() uintptr {
	GinkgoHelper()
	e := g.get("cuEventCreate", 2)
	DeferCleanup(func() { g.ok("cuEventDestroy_v2", e) })
	return e
}

func (g *gpu) alloc(n int) uintptr {
	GinkgoHelper()
	p := g.get("cuMemAlloc_v2", uintptr(n))
	DeferCleanup(func() { g.ok("cuMemFree_v2", p) })
	return p
}

// pinned returns pinned memory as a slice, and its address.
func (g *gpu) pinned(n int) ([]byte, uintptr) {
	GinkgoHelper()
	p := g.get("cuMemHostAlloc", uintptr(n), 0)
	DeferCleanup(func() { g.ok("cuMemFreeHost", p) })
	return view(p, n), p
}

// function compiles CUDA's text for a capability, and returns a function of it.
func (g *gpu) function(source, name, arch string) uintptr {
	GinkgoHelper()
	image, _, err := g.nvrtc.Compile(source, arch)
	Expect(err).NotTo(HaveOccurred())
	m := g.get("cuModuleLoadDataEx", g.at(image), 0, 0, 0)
	DeferCleanup(func() { g.ok("cuModuleUnload", m) })
	return g.get("cuModuleGetFunction", m, g.at(name))
}

// params returns an array of pointers to words.
func (g *gpu) params(words ...uintptr) uintptr {
	list := make([]uintptr, len(words)+1)
	values := append([]uintptr{}, append(words, 0)...)
	first := g.at(values)
	for i := range words {
		list[i] = first + uintptr(8*i)
	}
	return g.at(list)
}

func (g *gpu) launch(f uintptr, groups, threads, shared int, s, params uintptr) int {
	GinkgoHelper()
	return g.do("cuLaunchKernel", f, uintptr(groups), 1, 1, uintptr(threads), 1, 1, uintptr(shared), s, params, 0)
}

// run runs a plan on buffers by name on a stream, and copies them back.
func (g *gpu) run(plan *gpukernel.Plan, arch string, buffers map[string][]byte) {
	GinkgoHelper()
	s := g.stream()
	at := map[string]uintptr{}
	for name, b := range buffers {
		at[name] = g.alloc(len(b))
		g.ok("cuMemcpyHtoDAsync_v2", at[name], g.at(b), uintptr(len(b)), s)
	}
	for _, x := range plan.Scratch {
		at[x.Buffer] = g.alloc(int(x.Bytes))
	}
	for _, l := range plan.Launches {
		k := l.Kernel
		f := g.function(gpukernel.Source(gpukernel.CUDA, k), k.Name, arch)
		var words []uintptr
		for _, a := range l.Args {
			if a.Buffer != "" {
				words = append(words, at[a.Buffer])
			} else {
				words = append(words, uintptr(a.Value))
			}
		}
		if k.Arena > 48<<10 {
			g.ok("cuFuncSetAttribute", f, 8, uintptr(k.Arena))
		}
		config := make([]byte, 56)
		for i, v := range []int{l.Grid[0], l.Grid[1], l.Grid[2], k.Threads, 1, 1, k.Arena} {
			binary.NativeEndian.PutUint32(config[4*i:], uint32(v))
		}
		binary.NativeEndian.PutUint64(config[32:], uint64(s))
		g.ok("cuLaunchKernelEx", g.at(config), f, g.params(words...), 0)
	}
	for name, b := range buffers {
		g.ok("cuMemcpyDtoHAsync_v2", g.at(b), at[name], uintptr(len(b)), s)
	}
	Expect(g.Report()).To(BeEmpty())
}

// floats returns n random ones.
func floats(r *rand.Rand, n int) []byte {
	var b []byte
	for range n {
		b = binary.NativeEndian.AppendUint32(b, math.Float32bits(r.Float32()*2-1))
	}
	return b
}

// filled returns n equal bytes.
func filled(n int, v byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = v
	}
	return b
}
