package fakecuda_test

import (
	"encoding/binary"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
)

// Kernels of groups of 64 items: bump adds 1 to n floats; what the others do wrong their names say.
const bump = `
extern "C" __global__ void __launch_bounds__(64) bump(float *x, int n) {
	int i = blockIdx.x * 64 + threadIdx.x;
	if (i < n) x[i] += 1.0f;
}
extern "C" __global__ void __launch_bounds__(64) behind(float *x, int n) { x[n + threadIdx.x % 8] = 1.0f; }
extern "C" __global__ void __launch_bounds__(64) local_behind(float *x, int n) {
	ARENA(all);
	all[n] = (u8)x[0];
}
extern "C" __global__ void __launch_bounds__(64) crooked(float *x, int n) { x[0] = READ_F32X4(x + n).x; }
extern "C" __global__ void __launch_bounds__(64) divergent(float *x, int n) {
	if ((int)threadIdx.x < n) __syncthreads();
	x[0] = 0.0f;
}
`

// set queues what sets n floats to a value.
func (g *gpu) set(p uintptr, v float32, n int, s uintptr) {
	GinkgoHelper()
	g.ok("cuMemsetD32Async", p, uintptr(math.Float32bits(v)), uintptr(n), s)
}

// read waits for a stream and returns a float.
func (g *gpu) read(p, s uintptr) float32 {
	GinkgoHelper()
	b := make([]byte, 4)
	g.ok("cuMemcpyDtoHAsync_v2", g.at(b), p, 4, s)
	return float(b)
}

func float(b []byte) float32 { return math.Float32frombits(binary.NativeEndian.Uint32(b)) }

var _ = Describe("The fake driver", func() {
	var g *gpu
	var s uintptr
	BeforeEach(func() {
		g = newGPU(driver())
		s = g.stream()
	})
	reports := func(text string) {
		GinkgoHelper()
		Expect(g.Report()).To(ContainSubstring(text))
	}

	It("wants a context that is current on the thread, and streams of that context", func() {
		g.Set("devices", 2)
		other := g.get("cuDevicePrimaryCtxRetain", 1)
		own := g.current
		g.current = 0
		g.ok("cuCtxSetCurrent", 0)
		Expect(g.do("cuMemAlloc_v2", g.at(new(uintptr)), 16)).To(Equal(invalidContext))
		reports("no context is current")
		g.current = other
		p := g.get("cuMemAlloc_v2", 16)
		Expect(g.do("cuMemsetD8Async", p, 0, 16, s)).To(Equal(invalidHandle))
		reports("another context")
		g.ok("cuMemFree_v2", p)
		g.current = own
		g.ok("cuDevicePrimaryCtxRelease_v2", 1)
		Expect(g.do("cuMemsetD8Async", g.alloc(16), 0, 16, 0)).To(Equal(invalidHandle))
		reports("default stream")
	})

	It("tells kinds of handles apart, and what is destroyed twice", func() {
		e := g.get("cuEventCreate", 2)
		Expect(g.do("cuEventRecord", s, s)).To(Equal(invalidHandle))
		reports("a stream is given for a event")
		g.ok("cuEventDestroy_v2", e)
		Expect(g.do("cuEventDestroy_v2", e)).To(Equal(invalidHandle))
		reports("the event has been destroyed")
		Expect(g.do("cuStreamSynchronize", g.at(new(uintptr)))).To(Equal(invalidHandle))
		reports("is no handle")
	})

	It("finds memory that is freed twice, in its middle, or by another's function", func() {
		p := g.get("cuMemAlloc_v2", 100)
		Expect(p % 256).To(BeZero())
		Expect(g.do("cuMemFree_v2", p+4)).To(Equal(invalidValue))
		Expect(g.do("cuMemFreeHost", p)).To(Equal(invalidValue))
		g.ok("cuMemFree_v2", p)
		Expect(g.do("cuMemFree_v2", p)).To(Equal(invalidValue))
		reports("not the beginning of device memory that is live")
		q := g.get("cuMemAllocAsync", 100, s)
		g.ok("cuMemFreeAsync", q, s)
		Expect(g.do("cuMemFreeAsync", q, s)).To(Equal(invalidValue))
		Expect(g.do("cuMemAlloc_v2", g.at(new(uintptr)), 0)).To(Equal(invalidValue))
	})

	It("bounds copies and sets by blocks", func() {
		p, q := g.alloc(100), g.alloc(100)
		b := make([]byte, 100)
		for _, code := range []int{
			g.do("cuMemcpyHtoDAsync_v2", p+1, g.at(b), 100, s), g.do("cuMemcpyDtoHAsync_v2", g.at(b), p, 101, s),
			g.do("cuMemcpyDtoDAsync_v2", p, q+50, 51, s), g.do("cuMemcpyHtoDAsync_v2", p, q, 4, s),
			g.do("cuMemcpyDtoDAsync_v2", p, g.at(b), 4, s), g.do("cuMemsetD8Async", p, 0, 101, s), g.do("cuMemsetD32Async", p+2, 0, 1, s),
		} {
			Expect(code).To(Equal(invalidValue))
		}
	})

	It("knows what a copy of rows is", func() {
		from, to := g.alloc(64), g.alloc(64)
		in, out := make([]byte, 64), make([]byte, 64)
		for i := range in {
			in[i] = byte(i)
		}
		g.ok("cuMemcpyHtoDAsync_v2", from, g.at(in), 64, s)
		g.ok("cuMemsetD8Async", to, 0, 64, s)
		words := make([]uintptr, 16) // x, y, kind, host, device, array, pitch; the same of the target; width, height
		words[0], words[2], words[4], words[6] = 2, 2, from, 16
		words[7], words[8], words[9], words[11], words[13], words[14], words[15] = 1, 1, 2, to, 8, 4, 3
		g.ok("cuMemcpy2DAsync_v2", g.at(words), s)
		g.ok("cuMemcpyDtoHAsync_v2", g.at(out), to, 64, s)
		for row := range 3 {
			Expect(out[8*row+9 : 8*row+13]).To(Equal(in[16*row+2 : 16*row+6]))
		}
		Expect(g.Report()).To(BeEmpty())
	})

	It("bounds launches", func() {
		x := g.alloc(400)
		f := g.function(bump, "bump", "sm_80")
		p := g.params(x, 100)
		Expect(g.launch(f, 0, 64, 0, s, p)).To(Equal(invalidValue))
		Expect(g.launch(f, 1, 65, 0, s, p)).To(Equal(outOfResources))
		Expect(g.launch(f, 1, 64, 48<<10+1, s, p)).To(Equal(invalidValue))
		Expect(g.do("cuFuncSetAttribute", f, 8, 163<<10+1)).To(Equal(invalidValue))
		g.ok("cuFuncSetAttribute", f, 8, 163<<10)
		Expect(g.launch(f, 1, 64, 163<<10, s, p)).To(BeZero())
		Expect(g.do("cuLaunchKernel", f, 1, 65536, 1, 64, 1, 1, 0, s, p, 0)).To(Equal(invalidValue))
		Expect(g.do("cuLaunchKernel", f, 1, 1, 1, 8, 8, 1, 0, s, p, 0)).To(Equal(invalidValue))
	})

	It("counts parameters, as far as they can be told", func() {
		x := g.alloc(400)
		f := g.function(bump, "bump", "sm_80")
		Expect(g.launch(f, 1, 64, 0, s, g.at([]uintptr{g.at([]uintptr{x}), 0}))).To(Equal(invalidValue))
		reports("has 2 parameters")
		for words, want := range map[int]int{1: invalidValue, 2: 0, 3: invalidValue} {
			values := []uintptr{x, 100, 0}
			size := []uintptr{uintptr(8*words - 4)} // the last one is an int
			code := g.do("cuLaunchKernel", f, 1, 1, 1, 64, 1, 1, 0, s, 0, g.at([]uintptr{1, g.at(values), 2, g.at(size), 0}))
			Expect(code).To(Equal(want), "%d", words)
		}
	})

	DescribeTable("loses the context where a kernel", func(name string, argument, shared, code int, report string) {
		x := g.alloc(400)
		f := g.function(bump, name, "sm_80")
		Expect(g.launch(f, 1, 64, shared, s, g.params(x, uintptr(argument)))).To(BeZero())
		Expect(g.do("cuStreamSynchronize", s)).To(Equal(code))
		reports(report)
		Expect(g.do("cuMemAlloc_v2", g.at(new(uintptr)), 16)).To(Equal(code), "for good")
		Expect(g.do("cuStreamQuery", s)).To(Equal(code))
		g.Reset()
	},
		Entry("writes behind a block", "behind", 100, 0, illegalAddress, "kernel behind writes outside of device memory of 400 bytes"),
		Entry("writes behind local memory", "local_behind", 128, 128, launchFailed, "behind what the launch gave it"),
		Entry("reads four elements at an odd place", "crooked", 1, 0, launchFailed, "not aligned"),
		Entry("has a barrier that some do not reach", "divergent", 32, 0, launchFailed, "items end while others wait"),
	)

	It("loses the context where a kernel gets memory that is freed", func() {
		f := g.function(bump, "bump", "sm_80")
		g.Set("early", 0)
		p := g.get("cuMemAllocAsync", 400, s)
		g.ok("cuMemFreeAsync", p, s)
		Expect(g.launch(f, 1, 64, 0, s, g.params(p, 100))).To(BeZero())
		Expect(g.do("cuStreamSynchronize", s)).To(Equal(illegalAddress))
		reports("parameter 0 of kernel bump")
		g.Reset()
	})

	It("poisons memory until it is written", func() {
		p := g.alloc(8)
		Expect(math.IsNaN(float64(g.read(p, s)))).To(BeTrue())
	})

	It("shows who does not wait for a copy, by poison in pinned memory", func() {
		g.Set("early", 0)
		p := g.alloc(16)
		b, at := g.pinned(16)
		copy(b, make([]byte, 16))
		g.ok("cuMemsetD8Async", p, 7, 16, s)
		g.ok("cuMemcpyDtoHAsync_v2", at, p, 16, s)
		Expect(b).To(Equal(filled(16, 0xff)))
		g.ok("cuStreamSynchronize", s)
		Expect(b).To(Equal(filled(16, 7)))
	})

	It("reads pinned memory late, and other memory at once", func() {
		g.Set("early", 0)
		p, q := g.alloc(16), g.alloc(16)
		pinned, at := g.pinned(16)
		loose := filled(16, 1)
		copy(pinned, loose)
		g.ok("cuMemcpyHtoDAsync_v2", p, at, 16, s)
		g.ok("cuMemcpyHtoDAsync_v2", q, g.at(loose), 16, s)
		copy(pinned, filled(16, 2))
		copy(loose, filled(16, 2))
		x, y := make([]byte, 16), make([]byte, 16)
		g.ok("cuMemcpyDtoHAsync_v2", g.at(x), p, 16, s)
		g.ok("cuMemcpyDtoHAsync_v2", g.at(y), q, 16, s)
		Expect([][]byte{x, y}).To(Equal([][]byte{filled(16, 2), filled(16, 1)}))
	})

	It("shows a stream that does not wait for another, in some orders, and none that waits", func() {
		other, e, p := g.stream(), g.event(), g.alloc(4)
		seen := map[bool]map[float32]bool{false: {}, true: {}}
		for seed := range 40 {
			for wait := range seen {
				g.Set("seed", seed)
				g.set(p, 1, 1, s)
				g.ok("cuStreamSynchronize", s)
				g.set(p, 2, 1, s)
				g.ok("cuEventRecord", e, s)
				if wait {
					g.ok("cuStreamWaitEvent", other, e, 0)
				}
				seen[wait][g.read(p, other)] = true
				g.ok("cuStreamSynchronize", s)
			}
		}
		Expect(seen).To(Equal(map[bool]map[float32]bool{false: {1: true, 2: true}, true: {2: true}}))
	})

	It("runs nothing before somebody waits or asks, where that is wanted, and then in the queue's order", func() {
		g.Set("early", 0)
		p, e := g.alloc(400), g.event()
		f := g.function(bump, "bump", "sm_80")
		g.set(p, 0, 100, s)
		for range 100 {
			Expect(g.launch(f, 2, 64, 0, s, g.params(p, 100))).To(BeZero())
		}
		g.ok("cuEventRecord", e, s)
		Expect(g.Count("executed")).To(BeZero())
		Expect(g.Count("early")).To(BeZero())
		asked := 0
		for g.do("cuEventQuery", e) == notReady {
			asked++
		}
		Expect(asked).To(And(BeNumerically(">", 20), BeNumerically("<", 103)))
		Expect(g.read(p, s)).To(Equal(float32(100)))
		Expect(g.Count("kernels")).To(Equal(100))
		Expect(g.Count("early")).To(Equal(102), "all when the copy was queued")
		Expect(g.do("cuStreamQuery", s)).To(BeZero())
	})

	It("runs what is queued on a thread of its own, where that is wanted", func() {
		g.Set("worker", 1)
		g.Set("slow_us", 100)
		p, e := g.alloc(400), g.event()
		f := g.function(bump, "bump", "sm_80")
		g.set(p, 0, 100, s)
		for range 10 {
			Expect(g.launch(f, 2, 64, 0, s, g.params(p, 100))).To(BeZero())
		}
		g.ok("cuEventRecord", e, s)
		g.ok("cuEventSynchronize", e)
		Expect(g.read(p, s)).To(Equal(float32(10)))
	})

	It("loads images of its compiler alone, of the device's capability", func() {
		image, _, err := g.nvrtc.Compile(bump, "sm_86")
		Expect(err).NotTo(HaveOccurred())
		word := g.at(new(uintptr))
		Expect(g.do("cuModuleLoadData", word, g.at(image))).To(Equal(noBinary))
		g.Set("capability", 89)
		m := g.get("cuModuleLoadData", g.at(image))
		Expect(g.do("cuModuleGetFunction", word, m, g.at("nothing"))).To(Equal(notFound))
		g.ok("cuModuleUnload", m)
		image[len(image)/2] ^= 1
		log := make([]byte, 100)
		Expect(g.do("cuModuleLoadDataEx", word, g.at(image), 2, g.at([]uintptr{5 | 6<<32}), g.at([]uintptr{g.at(log), 100}))).To(Equal(invalidImage))
		Expect(string(log)).To(ContainSubstring("not loaded"))
		Expect(g.do("cuModuleLoadData", word, g.at("nonsense"))).To(Equal(invalidImage))
	})

	Describe("fails where it is told to", func() {
		word := func() uintptr { return g.at(new(uintptr)) }

		It("at one call, or each so many, of all functions or one", func() {
			g.Set("fail_at", 2)
			g.Set("fail_code", 801)
			g.current = 0
			code := []int{g.do("cuDeviceGetCount", word()), g.do("cuDeviceGetCount", word()), g.do("cuDeviceGetCount", word())}
			Expect(code).To(Equal([]int{0, 801, 0}))
			Expect(g.Count("")).To(Equal(3))
			g.FailIn("cuDeviceGet")
			g.Set("fail_at", 0)
			g.Set("fail_every", 2)
			g.ok("cuDeviceGetCount", word())
			code = nil
			for range 4 {
				code = append(code, g.do("cuDeviceGet", word(), 0))
			}
			Expect(code).To(Equal([]int{0, 801, 0, 801}))
			g.current = g.context
		})

		It("in what gives back, which is given back all the same", func() {
			e := g.get("cuEventCreate", 2)
			g.FailIn("cuEventDestroy_v2")
			g.Set("fail_at", 1)
			Expect(g.do("cuEventDestroy_v2", e)).To(Equal(unknown))
			Expect(g.Live()).NotTo(ContainSubstring("event"))
		})

		It("for good", func() {
			g.FailIn("cuMemAlloc_v2")
			g.Set("fail_code", illegalAddress)
			g.Set("fail_sticky", 1)
			g.Set("fail_at", 1)
			Expect(g.do("cuMemAlloc_v2", word(), 16)).To(Equal(illegalAddress))
			Expect(g.do("cuStreamSynchronize", s)).To(Equal(illegalAddress))
			g.Reset()
			g.ok("cuStreamSynchronize", s)
		})

		It("in a kernel", func() {
			p := g.alloc(400)
			f := g.function(bump, "bump", "sm_80")
			g.Set("fault_at", 2)
			for range 2 {
				Expect(g.launch(f, 1, 64, 0, s, g.params(p, 1))).To(BeElementOf(0, illegalAddress))
			}
			Expect(g.do("cuStreamSynchronize", s)).To(Equal(illegalAddress))
			g.Reset()
		})

		It("for want of memory", func() {
			g.Set("memory", 1000)
			g.alloc(600)
			Expect(g.do("cuMemAlloc_v2", word(), 600)).To(Equal(outOfMemory))
			free, total := new(uintptr), new(uintptr)
			g.ok("cuMemGetInfo_v2", g.at(free), g.at(total))
			Expect([]uintptr{*free, *total}).To(Equal([]uintptr{400, 1000}))
		})
	})

	It("counts calls and what is live", func() {
		Expect(g.Live()).To(Equal("context: 1\nstream: 1\n"))
		p, at := g.get("cuMemAlloc_v2", 16), g.get("cuMemHostAlloc", 16, 0)
		Expect(g.Live()).To(HaveSuffix("blocks of device memory: 1\nblocks of pinned memory: 1\n"))
		g.ok("cuMemFree_v2", p)
		g.ok("cuMemFreeHost", at)
		Expect(g.Count("cuMemAlloc_v2")).To(Equal(1))
		Expect(g.Calls()).To(ContainSubstring("cuMemFreeHost: 1\n"))
		b := make([]byte, 16)
		g.ok("cuMemHostRegister_v2", g.at(b), 16, 0)
		Expect(g.do("cuMemHostRegister_v2", g.at(b[8:]), 4, 0)).To(Equal(712))
		g.ok("cuMemHostUnregister", g.at(b))
		Expect(g.do("cuMemHostUnregister", g.at(b))).To(Equal(713))
	})

	It("says what is left when a context ends", func() {
		g.Set("devices", 2)
		own := g.current
		g.current = g.get("cuDevicePrimaryCtxRetain", 1)
		p, e := g.get("cuMemAlloc_v2", 16), g.get("cuEventCreate", 2)
		g.ok("cuDevicePrimaryCtxRelease_v2", 1)
		reports("16 bytes of device memory are left")
		reports("a event is left")
		g.current = own
		g.ok("cuMemFree_v2", p)
		g.ok("cuEventDestroy_v2", e)
	})

	It("is what it is set to be", func() {
		g.Set("devices", 3)
		g.Set("driver", 11040)
		g.Set("capability", 89)
		get := func(name string, args ...uintptr) int { return int(int32(g.get(name, args...))) }
		Expect([]int{get("cuDeviceGetCount"), get("cuDriverGetVersion"), get("cuDeviceGetAttribute", 75, 2), get("cuDeviceGetAttribute", 76, 2)}).To(
			Equal([]int{3, 11040, 8, 9}))
		Expect(g.do("cuDeviceGet", g.at(new(uintptr)), 3)).To(Equal(101))
		name := make([]byte, 100)
		g.ok("cuDeviceGetName", g.at(name), 100, 2)
		Expect(string(name)).To(HavePrefix("Fake GPU 2\x00"))
		Expect(func() { g.Set("nothing", 1) }).To(PanicWith("fakecuda: no setting nothing"))
	})
})

var _ = Describe("Another fake driver", func() {
	It("is one of its own, and may lack symbols", func(ctx SpecContext) {
		driver()
		d, err := fakecuda.Build(ctx, GinkgoT().TempDir(), fakecuda.Options{Omit: []string{"cuGraphExecUpdate_v2"}})
		Expect(err).NotTo(HaveOccurred())
		g := &gpu{Driver: d, lib: open(d.CUDA)}
		defer g.pin.Unpin()
		_, err = g.lib.Symbol("cuGraphExecUpdate_v2")
		Expect(err).To(HaveOccurred())
		Expect(g.do("cuDeviceGetCount", g.at(new(uintptr)))).To(Equal(notInitialized))
		d.Set("devices", 0)
		Expect(g.do("cuInit", 0)).To(Equal(noDevice))
		name := new(uintptr)
		g.ok("cuGetErrorName", noDevice, g.at(name))
		Expect(text(*name)).To(Equal("CUDA_ERROR_NO_DEVICE"))
	})
})
