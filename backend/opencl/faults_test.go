package opencl_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/backend/opencl"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/dl"
)

// failing is a loader that fails on demand, with devices of its own.
type failing struct {
	path string
	set  uintptr
}

// newFailing builds one. The spec is skipped where that cannot be.
func newFailing(ctx SpecContext) *failing {
	GinkgoHelper()
	open() // else there is nothing that could fail
	gcc, err := exec.LookPath("gcc")
	if err != nil || runtime.GOOS != "linux" {
		Skip("no gcc")
	}
	dir, err := os.MkdirTemp("", "opencl") // the library stays open, and so the file stays there as long as the spec runs
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	f := &failing{path: filepath.Join(dir, "libOpenCL.so.1")}
	out, err := exec.CommandContext(ctx, gcc, "-shared", "-fPIC", "-O1", "-o", f.path, filepath.Join("testdata", "failing.c"), "-ldl").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	lib, err := dl.Open(f.path)
	Expect(err).NotTo(HaveOccurred())
	f.set, err = lib.Symbol("failing_set")
	Expect(err).NotTo(HaveOccurred())
	return f
}

// fail has the functions whose names contain a text return a status, from a call on; none for "".
func (f *failing) fail(name string, status, first int) {
	b := append([]byte(name), 0)
	dl.Call(f.set, uintptr(unsafe.Pointer(&b[0])), uintptr(status), uintptr(first))
}

func (f *failing) config() backend.Config {
	return backend.Config{Name: "opencl", Options: map[string]string{"library": f.path, "cache": "off"}}
}

// smallNet is a convolution, a product and what follows.
func smallNet() *graph.Graph {
	GinkgoHelper()
	g, err := graph.Parse(`graph {
  opset 24
  input %x: f32[2,3,6,5]
  const %w = f32[3,3,1,1]{1, 2, 3, -1, -2, -3, 0.5, 0.25, 2}
  %c = Conv(%x, %w) "c"
  %r = Relu(%c)
  %y = Softmax(%r)
  output %y
}`)
	Expect(err).NotTo(HaveOccurred())
	return g
}

// runs compiles smallNet for a list of backends, does something, and runs it. The error is the first.
func runs(ctx SpecContext, o *carve.Options, then func()) (*carve.Report, error) {
	m := carve.FromGraph(smallNet())
	defer m.Close()
	o.Placement = carve.Priority
	p, err := carve.Compile(ctx, m, o)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	then()
	x := make([]float32, 2*3*6*5)
	for i := range x {
		x[i] = float32(i%11) - 5
	}
	in := map[string]tensor.Value{"x": tensor.From(x, 2, 3, 6, 5)}
	got, err := p.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	ref, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "reference"}}})
	if err != nil {
		return nil, err
	}
	defer ref.Close()
	want, err := ref.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	g, w := tensor.Of[float32](got["y"].(*tensor.Tensor)), tensor.Of[float32](want["y"].(*tensor.Tensor))
	for i := range w {
		if d := g[i] - w[i]; !(d < 1e-5 && d > -1e-5) {
			return nil, errors.New("the result is wrong")
		}
	}
	return p.Report(ctx, nil)
}

var _ = Describe("what is not there or does not work", func() {
	nothing := func() {}
	list := func(c backend.Config) []backend.Config { return []backend.Config{c, {Name: "cpu"}} }

	DescribeTable("leaves all nodes to others with the reason, and is an error under Strict", func(ctx SpecContext, function string, status int, library string, reason string) {
		f := newFailing(ctx)
		c := f.config()
		if library != "" {
			c.Options["library"] = library
		}
		f.fail(function, status, 1)
		r, err := runs(ctx, &carve.Options{Backends: list(c)}, nothing)
		Expect(err).NotTo(HaveOccurred())
		for _, g := range r.Groups {
			Expect(g.Backend).To(Equal("cpu"))
		}
		where, reasons, found := r.Why("c")
		Expect(found).To(BeTrue())
		Expect(where).To(Equal("cpu"))
		Expect(reasons).To(ContainElement(SatisfyAll(HaveField("Backend", "opencl"), HaveField("Reason", ContainSubstring(reason)))))
		_, err = runs(ctx, &carve.Options{Backends: list(c), Strict: true}, nothing)
		Expect(err).To(MatchError(ContainSubstring(reason)))
	},
		Entry("no library", "", 0, "libdoes-not-exist.so.7", "libdoes-not-exist.so.7"),
		Entry("another library", "", 0, "libc.so.6", "this is no loader of OpenCL 1.2"),
		Entry("no platform", "clGetPlatformIDs", -1001, "", "no device that serves"),
		Entry("no device", "clGetDeviceIDs", -1, "", "no device that serves"),
		Entry("a driver that says nothing of its version", "clGetDeviceInfo", -30, "", "and 1.2 is needed"),
		Entry("a context that cannot be made", "clCreateContext", -6, "", "out of host memory"),
		Entry("kernels that do not compile", "clBuildProgram", -11, "", "program build failed"),
	)

	It("a driver that calls back late, or never, is asked", func(ctx SpecContext) {
		f := newFailing(ctx)
		f.fail("clSetEventCallback", 0, 1) // which it takes, and forgets
		_, err := runs(ctx, &carve.Options{Backends: list(f.config()), Strict: true}, nothing)
		Expect(err).NotTo(HaveOccurred())
		b, err := opencl.Open(f.config())
		Expect(err).NotTo(HaveOccurred())
		defer b.Close()
		s, err := b.Devices()[0].NewStream()
		Expect(err).NotTo(HaveOccurred())
		defer s.Close()
		e, err := s.Record()
		Expect(err).NotTo(HaveOccurred())
		told := make(chan error, 1)
		e.Notify(func(err error) { told <- err })
		e.Close()
		Eventually(told).WithContext(ctx).Should(Receive(BeNil()))
	})

	It("memory is that, in either mode", func(ctx SpecContext) {
		f := newFailing(ctx)
		for _, strict := range []bool{false, true} {
			_, err := runs(ctx, &carve.Options{Backends: list(f.config()), Strict: strict}, func() { f.fail("clCreateBuffer", -4, 1) })
			Expect(err).To(MatchError(device.ErrOutOfMemory))
			Expect(err).NotTo(MatchError(device.ErrGone))
			f.fail("", 0, 0)
		}
		_, err := runs(ctx, &carve.Options{Backends: list(f.config()), Strict: true}, nothing)
		Expect(err).NotTo(HaveOccurred())
	})
})

var _ = Describe("a device that is lost", func() {
	DescribeTable("ends the run, serves no more, and leaves what is compiled anew to others", func(ctx SpecContext, function string, status int) {
		f := newFailing(ctx)
		b, err := opencl.Open(f.config())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(b.Close)
		list := []backend.Config{f.config(), {Name: "cpu"}}
		_, err = runs(ctx, &carve.Options{Backends: list}, func() { f.fail(function, status, 1) })
		Expect(err).To(MatchError(device.ErrGone))
		Expect(err).To(MatchError(opencl.ErrLost))
		var e *opencl.Error
		Expect(errors.As(err, &e)).To(BeTrue())
		Expect(e.Status).To(Equal(int32(status)))

		_, err = b.Devices()[0].Alloc(1)
		Expect(err).To(MatchError(device.ErrGone))
		_, err = b.Devices()[0].NewStream()
		Expect(err).To(MatchError(device.ErrGone))
		for _, o := range []carve.Options{{Backends: list}, {Backends: list, Open: map[string]backend.Backend{"opencl": b}}} {
			r, err := runs(ctx, &o, func() {})
			Expect(err).NotTo(HaveOccurred())
			where, reasons, _ := r.Why("c")
			Expect(where).To(Equal("cpu"))
			Expect(reasons).To(ContainElement(SatisfyAll(HaveField("Backend", "opencl"), HaveField("Reason", ContainSubstring("the device is lost")))))
		}
		_, err = runs(ctx, &carve.Options{Backends: list[:1], Strict: true}, func() {})
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(device.ErrGone))
	},
		Entry("as it says itself", "clEnqueue", -2),
		Entry("with its context", "clEnqueue", -34),
		Entry("of work that it has no resources for, after which nothing works", "cl", -5),
	)

	It("is not one that had too little for one piece of work", func(ctx SpecContext) {
		f := newFailing(ctx)
		list := []backend.Config{f.config(), {Name: "cpu"}}
		_, err := runs(ctx, &carve.Options{Backends: list}, func() { f.fail("clEnqueueNDRangeKernel", -5, 1) })
		Expect(err).NotTo(MatchError(device.ErrGone))
		f.fail("", 0, 0)
		r, err := runs(ctx, &carve.Options{Backends: list, Strict: true}, func() {})
		Expect(err).NotTo(HaveOccurred())
		where, _, _ := r.Why("c")
		Expect(where).To(Equal("opencl"))
	})
})
