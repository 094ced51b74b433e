package fakecuda_test

import (
	"encoding/binary"
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Captures and graphs", func() {
	var g *gpu
	var s, f, p uintptr
	BeforeEach(func() {
		g = newGPU(driver())
		s, p = g.stream(), g.alloc(400)
		f = g.function(bump, "bump", "sm_80")
	})
	const anyThread, thisThread, relaxed = 0, 1, 2
	begin := func(mode uintptr) {
		GinkgoHelper()
		runtime.LockOSThread() // until the spec's goroutine ends
		g.ok("cuStreamBeginCapture_v2", s, mode)
	}
	end := func() (int, uintptr) {
		GinkgoHelper()
		graph := new(uintptr)
		code := g.do("cuStreamEndCapture", s, g.at(graph))
		if code == 0 {
			DeferCleanup(func() { g.ok("cuGraphDestroy", *graph) })
		}
		return code, *graph
	}
	instantiate := func(graph uintptr) uintptr {
		GinkgoHelper()
		x := g.get("cuGraphInstantiateWithFlags", graph, 0)
		DeferCleanup(func() { g.ok("cuGraphExecDestroy", x) })
		return x
	}
	launch := func(on uintptr, n int) {
		GinkgoHelper()
		Expect(g.launch(f, 2, 64, 0, on, g.params(p, uintptr(n)))).To(BeZero())
	}

	It("records instead of running, and replays", func() {
		in, inAt := g.pinned(400)
		out, outAt := g.pinned(400)
		copy(in, make([]byte, 400))
		begin(thisThread)
		g.ok("cuMemcpyHtoDAsync_v2", p, inAt, 400, s)
		launch(s, 100)
		launch(s, 100)
		g.ok("cuMemcpyDtoHAsync_v2", outAt, p, 400, s)
		code, graph := end()
		Expect(code).To(BeZero())
		Expect(g.Count("executed")).To(BeZero())
		x := instantiate(graph)
		g.Set("early", 0)
		for i := range 3 {
			binary.NativeEndian.PutUint32(in, 0x40000000) // 2
			g.ok("cuGraphLaunch", x, s)
			Expect(out).To(Equal(filled(400, 0xff)))
			g.ok("cuStreamSynchronize", s)
			Expect([]float32{float(out), float(out[4:])}).To(Equal([]float32{4, 2}))
			Expect(g.Count("kernels")).To(Equal(2 * (i + 1)))
		}
		Expect(g.Report()).To(BeEmpty())
	})

	It("follows events to other streams, and keeps the order that they make, and no more", func() {
		other, fork, join := g.stream(), g.event(), g.event()
		a, b := g.alloc(4), g.alloc(4)
		x := map[bool]uintptr{}
		for _, wait := range []bool{false, true} {
			begin(thisThread)
			g.set(a, 1, 1, s)
			g.ok("cuEventRecord", fork, s)
			g.ok("cuStreamWaitEvent", other, fork, 0)
			g.set(a, 2, 1, other)
			if wait {
				g.ok("cuEventRecord", join, other)
				g.ok("cuStreamWaitEvent", s, join, 0)
			}
			g.ok("cuMemcpyDtoDAsync_v2", b, a, 4, s)
			g.ok("cuEventRecord", join, other)
			g.ok("cuStreamWaitEvent", s, join, 0)
			code, graph := end()
			Expect(code).To(BeZero())
			x[wait] = instantiate(graph)
		}
		seen := map[bool]map[float32]bool{false: {}, true: {}}
		for range 30 {
			for wait := range seen {
				g.ok("cuGraphLaunch", x[wait], s)
				seen[wait][g.read(b, s)] = true
			}
		}
		Expect(seen).To(Equal(map[bool]map[float32]bool{false: {1: true, 2: true}, true: {2: true}}))
	})

	DescribeTable("end where something is called that may not be", func(code int, call func() int) {
		begin(thisThread)
		g.set(p, 1, 1, s)
		Expect(call()).To(Equal(code))
		Expect(g.Report()).NotTo(BeEmpty())
		status := new(int32)
		g.ok("cuStreamIsCapturing", s, g.at(status))
		Expect(*status).To(Equal(int32(2)))
		Expect(g.do("cuMemsetD8Async", p, 1, 1, s)).To(Equal(captureInvalidated))
		got, _ := end()
		Expect(got).To(Equal(captureInvalidated))
		g.set(p, 1, 1, s)
	},
		Entry("waiting for the stream", captureUnsupported, func() int { return g.do("cuStreamSynchronize", s) }),
		Entry("asking the stream", captureUnsupported, func() int { return g.do("cuStreamQuery", s) }),
		Entry("memory", captureUnsupported, func() int { return g.do("cuMemAlloc_v2", g.at(new(uintptr)), 16) }),
		Entry("a module", captureUnsupported, func() int { return g.do("cuModuleLoadData", g.at(new(uintptr)), g.at("x")) }),
		Entry("asking an event", captureUnsupported, func() int { return g.do("cuEventQuery", g.event()) }),
		Entry("a copy of nothing", invalidValue, func() int { return g.do("cuMemcpyDtoDAsync_v2", p, p, 0, s) }),
		Entry("a set of nothing", invalidValue, func() int { return g.do("cuMemsetD8Async", p, 0, 0, s) }),
		Entry("a copy of memory that is not pinned", invalidValue, func() int { return g.do("cuMemcpyHtoDAsync_v2", p, g.at(make([]byte, 4)), 4, s) }),
	)

	It("end where they would wait for what is outside", func() {
		other, e := g.stream(), g.event()
		g.ok("cuEventRecord", e, other)
		begin(thisThread)
		Expect(g.do("cuStreamWaitEvent", s, e, 0)).To(Equal(captureIsolation))
		code, _ := end()
		Expect(code).To(Equal(captureInvalidated))
	})

	It("want streams joined, and events that they record asked of nobody", func() {
		other, e := g.stream(), g.event()
		begin(thisThread)
		g.set(p, 1, 1, s)
		g.ok("cuEventRecord", e, s)
		g.ok("cuStreamWaitEvent", other, e, 0)
		g.set(p, 2, 1, other)
		code, _ := end()
		Expect(code).To(Equal(captureUnjoined))
		Expect(g.do("cuEventQuery", e)).To(Equal(capturedEvent))
		Expect(g.do("cuEventSynchronize", e)).To(Equal(capturedEvent))
		g.ok("cuEventRecord", e, s)
		g.ok("cuEventSynchronize", e)
	})

	DescribeTable("mind other threads by their mode", func(mode uintptr, memory, ending int) {
		begin(mode)
		g.set(p, 1, 1, s)
		codes := make(chan int)
		go func() {
			defer GinkgoRecover()
			runtime.LockOSThread() // and no unlocking: the thread ends with the goroutine
			block := new(uintptr)
			code := g.do("cuMemAlloc_v2", g.at(block), 16)
			if code == 0 {
				g.ok("cuMemFree_v2", *block)
			}
			codes <- code
			codes <- g.do("cuStreamEndCapture", s, g.at(new(uintptr)))
		}()
		Expect(<-codes).To(Equal(memory))
		got := <-codes
		Expect(got).To(Equal(ending))
		if got == captureWrongThread {
			_, _ = end()
		}
	},
		Entry("any thread", uintptr(anyThread), captureUnsupported, captureWrongThread),
		Entry("this thread", uintptr(thisThread), 0, captureWrongThread),
	)

	It("may end on another thread where they are relaxed", func() {
		begin(relaxed)
		g.set(p, 1, 1, s)
		q := g.get("cuMemAlloc_v2", 16)
		g.ok("cuMemFree_v2", q)
		graphs := make(chan uintptr)
		go func() {
			defer GinkgoRecover()
			runtime.LockOSThread()
			graph := new(uintptr)
			g.ok("cuStreamEndCapture", s, g.at(graph))
			graphs <- *graph
		}()
		g.ok("cuGraphDestroy", <-graphs)
	})

	It("are changed to another graph of the same form, or node by node", func() {
		capture := func(kernels, n int) uintptr {
			GinkgoHelper()
			begin(thisThread)
			g.set(p, 0, 100, s)
			for range kernels {
				launch(s, n)
			}
			code, graph := end()
			Expect(code).To(BeZero())
			return graph
		}
		first := capture(1, 1)
		x := instantiate(first)
		result := make([]byte, 24)
		g.ok("cuGraphExecUpdate_v2", x, capture(1, 2), g.at(result))
		run := func() []float32 {
			GinkgoHelper()
			g.ok("cuGraphLaunch", x, s)
			return []float32{g.read(p, s), g.read(p+4, s), g.read(p+8, s)}
		}
		Expect(run()).To(Equal([]float32{1, 1, 0}))
		Expect(g.do("cuGraphExecUpdate_v2", x, capture(2, 2), g.at(result))).To(Equal(910))
		Expect(result[0]).To(Equal(byte(2)))
		Expect(run()).To(Equal([]float32{1, 1, 0}))

		nodes, count := make([]uintptr, 2), new(uintptr)
		*count = 2
		g.ok("cuGraphGetNodes", first, g.at(nodes), g.at(count))
		Expect(*count).To(Equal(uintptr(2)))
		kind := new(int32)
		g.ok("cuGraphNodeGetType", nodes[1], g.at(kind))
		Expect(*kind).To(BeZero())
		config := make([]byte, 72)
		binary.NativeEndian.PutUint64(config, uint64(f))
		for i, v := range []uint32{2, 1, 1, 64, 1, 1, 0} {
			binary.NativeEndian.PutUint32(config[8+4*i:], v)
		}
		binary.NativeEndian.PutUint64(config[40:], uint64(g.params(p, 3)))
		g.Set("early", 0)
		g.ok("cuGraphLaunch", x, s) // which keeps what it was launched with
		g.ok("cuGraphExecKernelNodeSetParams_v2", x, nodes[1], g.at(config))
		Expect([]float32{g.read(p+4, s), g.read(p+8, s)}).To(Equal([]float32{1, 0}))
		Expect(run()).To(Equal([]float32{1, 1, 1}))
		Expect(g.do("cuGraphExecKernelNodeSetParams_v2", x, nodes[0], g.at(config))).To(Equal(invalidValue))
	})
})
