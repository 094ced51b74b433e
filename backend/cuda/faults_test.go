package cuda_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
)

var _ = Describe("without what it needs", func() {
	It("the backend is unavailable, and says why", func() {
		_, err := cuda.Open(backend.Config{Options: map[string]string{"library": "libdoes-not-exist.so.7"}})
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(ContainSubstring("libdoes-not-exist.so.7")))
		_, err = cuda.Open(backend.Config{Options: map[string]string{"library": "libc.so.6"}})
		Expect(err).To(MatchError(backend.ErrUnavailable))
	})

	It("says that there is no compiler, and what that means", func() {
		fake := driver()
		_, err := cuda.Open(config(fake, "nvrtc", "libdoes-not-exist.so.7"))
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(ContainSubstring("no NVRTC, which compiles the kernels")))
		Expect(err).To(MatchError(ContainSubstring("libdoes-not-exist.so.7")))
	})

	It("says that the driver is too old, or lacks something, or is another library", func() {
		old := own("old", fakecuda.Options{})
		old.Set("driver", 11020)
		_, err := cuda.Open(config(old))
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(ContainSubstring("is of CUDA 11.2, and one of 11.4 or later is needed")))

		lacking := own("lacking", fakecuda.Options{Omit: []string{"cuGraphInstantiateWithFlags"}})
		_, err = cuda.Open(config(lacking))
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(ContainSubstring("cuGraphInstantiateWithFlags")))
		lacking.Set("driver", 11000)
		_, err = cuda.Open(config(lacking))
		Expect(err).To(MatchError(ContainSubstring("is of CUDA 11.0")))
	})

	It("says that there is no device, and finds it when there is", func() {
		none := own("none", fakecuda.Options{})
		none.Set("devices", 0)
		_, err := cuda.Open(config(none))
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(ContainSubstring("finds no device")))
		var e *cuda.Error
		Expect(errors.As(err, &e)).To(BeTrue())
		Expect(e.Name).To(Equal("CUDA_ERROR_NO_DEVICE"))
		none.Set("devices", 3)
		b, err := cuda.Open(config(none, "device", "2"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(b.Close)
		Expect(b.Devices()).To(HaveLen(1))
		Expect(b.Devices()[0].ID()).To(Equal(tensor.DeviceID{Type: tensor.CUDA, Index: 2}))
	})

	It("is chosen by options, and turns wrong ones down", func() {
		fake := driver()
		for options, want := range map[[2]string]error{
			{"device", "99"}: backend.ErrOption, {"device", "no such name"}: backend.ErrOption, {"depth", "1"}: backend.ErrOption,
			{"cache", filepath.Join(os.DevNull, "x")}: backend.ErrOption, {"device", "0"}: nil,
		} {
			b, err := cuda.Open(config(fake, options[:]...))
			if want == nil {
				Expect(err).NotTo(HaveOccurred(), "%v", options)
				Expect(b.Close()).To(Succeed())
				continue
			}
			Expect(err).To(MatchError(want), "%v", options)
		}
	})
})

var _ = DescribeTable("what is not there leaves all nodes to others with the reason, and is an error under Strict", func(ctx SpecContext, options []string, driverVersion int, reason string) {
	fake := driver()
	if driverVersion > 0 {
		fake = own(fmt.Sprint("version", driverVersion), fakecuda.Options{})
		fake.Set("driver", driverVersion)
	}
	p, err := compile(ctx, fake, net(), carve.Options{}, options...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"c", "m"} {
		where, reasons, _ := r.Why(name)
		Expect(where).To(Equal("cpu"))
		Expect(reasons).To(ContainElement(SatisfyAll(HaveField("Backend", "cuda"), HaveField("Reason", ContainSubstring(reason)))))
	}
	agrees(ctx, p, 1)
	_, err = compile(ctx, fake, net(), carve.Options{Strict: true}, options...)
	Expect(err).To(MatchError(backend.ErrUnavailable))
	Expect(err).To(MatchError(ContainSubstring(reason)))
},
	Entry("no driver", []string{"library", "libdoes-not-exist.so.7"}, 0, "no driver of CUDA"),
	Entry("another library", []string{"library", "libc.so.6"}, 0, "this is no driver of CUDA"),
	Entry("an old driver", nil, 11020, "is of CUDA 11.2, and one of 11.4 or later is needed"),
	Entry("no compiler", []string{"nvrtc", "libdoes-not-exist.so.7"}, 0, "no NVRTC"),
)

var _ = DescribeTable("the architecture that kernels are compiled for", func(capability int, known []int, want string) {
	got, err := cuda.Architecture(capability, known)
	if want == "" {
		Expect(err).To(HaveOccurred())
		return
	}
	Expect(err).NotTo(HaveOccurred())
	Expect(got).To(Equal(want))
},
	Entry("is the device's", 86, []int{75, 80, 86, 90}, "sm_86"),
	Entry("is an earlier one of the same family where the compiler is older", 89, []int{75, 80, 86}, "sm_86"),
	Entry("is never of another family", 120, []int{75, 80, 90}, ""),
	Entry("nor a later one", 70, []int{75, 80}, ""),
	Entry("is the device's where the compiler does not say", 90, nil, "sm_90"),
	Entry("has numbers of three digits", 103, []int{90, 100, 103, 120}, "sm_103"),
)

var _ = Describe("compiled kernels", func() {
	It("are found on disk by another process's name for them, unless they are broken", func(ctx SpecContext) {
		fake := driver()
		dir := GinkgoT().TempDir()
		run := func() {
			GinkgoHelper()
			b, err := cuda.Open(config(fake, "cache", dir))
			Expect(err).NotTo(HaveOccurred())
			m := carve.FromGraph(net())
			p, err := carve.Compile(ctx, m, &carve.Options{Open: map[string]backend.Backend{"cuda": b}, Backends: []backend.Config{{Name: "cuda"}}, Placement: carve.Priority, Strict: true})
			Expect(err).NotTo(HaveOccurred())
			_, err = p.Run(ctx, input(1))
			Expect(err).NotTo(HaveOccurred())
			Expect(errors.Join(p.Close(), m.Close(), b.Close())).To(Succeed())
		}
		compiled := func() int { return fake.CompilerCount("calls") }
		begin := compiled()
		run()
		first := compiled() - begin
		Expect(first).To(BeNumerically(">", 0))
		run()
		Expect(compiled() - begin).To(Equal(first))
		files, err := filepath.Glob(filepath.Join(dir, "*.bin"))
		Expect(err).NotTo(HaveOccurred())
		Expect(files).To(HaveLen(first))
		Expect(os.WriteFile(files[0], []byte("carve cuda 1\n"), 0o600)).To(Succeed())
		run()
		Expect(compiled() - begin).To(Equal(first + 1))
	})

	It("that do not compile leave nodes to others, and say why", func(ctx SpecContext) {
		fake := driver()
		fake.SetCompiler("fail_at", 1)
		p, err := compile(ctx, fake, net(), carve.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		where, reasons, _ := r.Why("c")
		Expect(where).To(Equal("cpu"))
		Expect(reasons).To(ContainElement(SatisfyAll(HaveField("Backend", "cuda"), HaveField("Reason", ContainSubstring("nvrtc")))))
		agrees(ctx, p, 1)
		fake.SetCompiler("fail_at", 1)
		_, err = compile(ctx, fake, net(), carve.Options{Strict: true})
		Expect(err).To(MatchError(cuda.ErrBuild))
	})

	It("of conversions that do not compile leave the reorder to the host, and the report and the log say so", func(ctx SpecContext) {
		fake := driver()
		begin := fake.CompilerCount("calls")
		Expect(program(ctx, fake, net(), carve.Options{}).Close()).To(Succeed())
		last := fake.CompilerCount("calls") - begin // the input's
		fake.SetCompiler("fail_at", last)
		var log strings.Builder
		p := program(ctx, fake, net(), carve.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		before := fake.Count("kernels")
		agrees(ctx, p, 1)
		one := fake.Count("kernels") - before
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		for _, c := range r.Conversions {
			if c.Via == "upload-reorder" {
				Expect(c.Detour).To(HavePrefix(cuda.ErrBuild.Error()))
			} else {
				Expect(c.Detour).To(BeEmpty())
			}
		}
		Expect(strings.Count(log.String(), cuda.ErrBuild.Error())).To(Equal(1), log.String())
		Expect(p.Close()).To(Succeed())
		fake.SetCompiler("fail_at", last)
		_, err = compile(ctx, fake, net(), carve.Options{Strict: true})
		Expect(err).To(MatchError(cuda.ErrBuild))
		fake.SetCompiler("fail_at", 0)
		p = program(ctx, fake, net(), carve.Options{Strict: true})
		before = fake.Count("kernels")
		agrees(ctx, p, 1)
		Expect(fake.Count("kernels")-before).To(Equal(one+1), "the one that reorders")
	})
})

// input returns inputs of net, by number.
func input(i int) map[string]tensor.Value {
	return map[string]tensor.Value{"x": whole(rand.New(rand.NewPCG(3, uint64(i))), 3, 2, 3, 6, 5)}
}

// all compiles net and runs it three times with two sessions, and closes everything, as long as nothing fails.
func all(ctx context.Context, fake *fakecuda.Driver, options ...string) error {
	b, err := cuda.Open(config(fake, options...))
	if err != nil {
		return err
	}
	defer b.Close()
	m := carve.FromGraph(net())
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{Open: map[string]backend.Backend{"cuda": b}, Backends: []backend.Config{{Name: "cuda"}}, Placement: carve.Priority, Verify: true})
	if err != nil {
		return err
	}
	defer p.Close()
	for i := range 3 {
		out, err := p.Run(ctx, input(i))
		if err != nil {
			return err
		}
		if want := expected(ctx, i); !near(out["y"], want) {
			return errWrong
		}
	}
	return nil
}

var errWrong = errors.New("the result is wrong")

var _ = Describe("a call that fails", func() {
	It("is told or made up for, whichever it is, and leaves nothing behind", func(ctx SpecContext) {
		fake := driver()
		fake.Set("fail_every", 0)
		Expect(all(ctx, fake)).To(Succeed())
		calls := fake.Count("")
		Expect(calls).To(BeNumerically(">", 50))
		told := 0
		for n := 1; n <= calls; n++ {
			fake.Reset()
			fake.Set("fail_at", n)
			err := all(ctx, fake)
			fake.Set("fail_at", 0)
			if err != nil {
				told++
				var e *cuda.Error
				Expect(errors.As(err, &e)).To(BeTrue(), "call %d: %v", n, err)
				Expect(e.Code).To(Equal(int32(999)))
			}
			Eventually(fake.Live).Should(BeEmpty(), "call %d: %v", n, err)
			Expect(fake.Report()).To(BeEmpty(), "call %d: %v", n, err)
		}
		fmt.Fprintf(GinkgoWriter, "%d calls, %d of whose failures reach the caller\n", calls, told)
	})

	It("for want of memory is that", func(ctx SpecContext) {
		fake := driver()
		fake.FailIn("cuMemAlloc_v2")
		fake.Set("fail_code", 2)
		fake.Set("fail_every", 1)
		b := open(fake)
		_, err := b.Devices()[0].Alloc(100)
		Expect(err).To(MatchError(device.ErrOutOfMemory))
		fake.Set("fail_every", 0)
	})

	It("for want of memory is an error of the run, in either mode, and of no other", func(ctx SpecContext) {
		fake := driver()
		for _, strict := range []bool{false, true} {
			fake.FailIn("")
			p := program(ctx, fake, net(), carve.Options{Strict: strict})
			fake.FailIn("cuMemAlloc_v2")
			fake.Set("fail_code", 2)
			fake.Set("fail_every", 1)
			_, err := p.Run(ctx, input(0))
			Expect(err).To(MatchError(device.ErrOutOfMemory))
			Expect(err).NotTo(MatchError(device.ErrGone))
			fake.Set("fail_every", 0)
			agrees(ctx, p, 0)
		}
	})

	It("within a kernel loses the device, for good, and says so", func(ctx SpecContext) {
		fake := own("lost", fakecuda.Options{})
		b, err := cuda.Open(config(fake))
		Expect(err).NotTo(HaveOccurred())
		m := carve.FromGraph(net())
		p, err := carve.Compile(ctx, m, &carve.Options{Open: map[string]backend.Backend{"cuda": b}, Backends: []backend.Config{{Name: "cuda"}}, Placement: carve.Priority})
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Run(ctx, input(0))
		Expect(err).NotTo(HaveOccurred())
		fake.Set("fault_at", 1)
		_, err = p.Run(ctx, input(1))
		Expect(err).To(MatchError(cuda.ErrLost))
		Expect(strings.Count(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS")).To(BeNumerically(">", 0), err.Error())
		_, err = b.Devices()[0].Alloc(1)
		Expect(err).To(MatchError(cuda.ErrLost))
		_, err = cuda.Open(config(fake))
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(cuda.ErrLost))
		Expect(err).To(MatchError(device.ErrGone))
		for _, o := range []carve.Options{{}, {Open: map[string]backend.Backend{"cuda": b}}} { // what is compiled anew gets others
			o.Backends, o.Placement = []backend.Config{config(fake)}, carve.Priority
			q, err := carve.Compile(ctx, m, &o)
			Expect(err).NotTo(HaveOccurred())
			r, err := q.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			where, reasons, _ := r.Why("c")
			Expect(where).To(Equal("cpu"))
			Expect(reasons).To(ContainElement(SatisfyAll(HaveField("Backend", "cuda"), HaveField("Reason", ContainSubstring("CUDA_ERROR_ILLEGAL_ADDRESS")))))
			agrees(ctx, q, 1)
			Expect(q.Close()).To(Succeed())
			o.Strict = true
			_, err = carve.Compile(ctx, m, &o)
			Expect(err).To(HaveOccurred())
			Expect(err).To(MatchError(ContainSubstring("CUDA_ERROR_ILLEGAL_ADDRESS")))
		}
		Expect(errors.Join(p.Close(), m.Close(), b.Close())).To(Succeed())
		Eventually(fake.Live).Should(BeEmpty())
	})
})
