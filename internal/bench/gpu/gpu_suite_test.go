package main

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/opencl"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/paired"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
)

func TestGPU(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/bench/gpu")
}

// folder is where the command and drivers are built.
var folder string

var _ = AfterSuite(func() {
	if folder != "" {
		Expect(os.RemoveAll(folder)).To(Succeed())
	}
})

// command builds the command, once, as it is carried to other machines.
var command = sync.OnceValues(func() (string, error) {
	var err error
	if folder, err = os.MkdirTemp("", "gpu"); err != nil {
		return "", err
	}
	path := filepath.Join(folder, "gpu")
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
})

// ran runs the command on the quickstart's model at small sizes, and returns its report.
func ran(ctx context.Context, args ...string) *report {
	GinkgoHelper()
	path, err := command()
	Expect(err).NotTo(HaveOccurred())
	model, err := filepath.Abs("../../../examples/quickstart/digits.onnx")
	Expect(err).NotTo(HaveOccurred())
	out := filepath.Join(GinkgoT().TempDir(), "report.json")
	cmd := exec.CommandContext(ctx, path, append([]string{
		"-sizes", "small", "-seconds", "0", "-models", model, "-batches", "3,1", "-turns", "3", "-turn", "0", "-time", "3m", "-json", out,
	}, args...)...)
	text, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", text)
	GinkgoWriter.Printf("%s\n", text)
	b, err := os.ReadFile(out)
	Expect(err).NotTo(HaveOccurred())
	r := &report{}
	Expect(json.Unmarshal(b, r)).To(Succeed())
	return r
}

// fake builds a driver of CUDA, and returns what names it to the command.
func fake(ctx context.Context) []string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	d, err := fakecuda.Build(ctx, dir, fakecuda.Options{})
	if errors.Is(err, fakecuda.ErrNoCompiler) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	return []string{"-driver", d.CUDA, "-nvrtc", d.NVRTC, "-cublas", d.CUBLAS, "-cudnn", d.CUDNN}
}

// faults are those of rows, but for what nothing is there for.
func faults(r *report) (list []string) {
	for _, x := range r.Rows {
		if x.Fault != nil && x.Fault.Kind != unsupported {
			list = append(list, x.String())
		}
	}
	return list
}

// of returns rows of a part and a side that were measured.
func of(r *report, part, side string) (list []*row) {
	for _, x := range r.Rows {
		if x.Part == part && x.Side == side && x.Fault == nil {
			list = append(list, x)
		}
	}
	return list
}

var _ = Describe("the command", func() {
	It("is one file, which needs the C library and its loader and nothing else", func() {
		if runtime.GOOS != "linux" {
			Skip("programs of other systems are no ELF files")
		}
		path, err := command()
		Expect(err).NotTo(HaveOccurred())
		f, err := elf.Open(path)
		Expect(err).NotTo(HaveOccurred())
		defer f.Close()
		needs, err := f.ImportedLibraries()
		Expect(err).NotTo(HaveOccurred())
		for _, name := range needs {
			Expect([]string{"libc.so.6", "libdl.so.2", "libpthread.so.0"}).To(ContainElement(name))
		}
		symbols, err := f.ImportedSymbols()
		Expect(err).NotTo(HaveOccurred())
		for _, s := range symbols {
			Expect(s.Version).To(BeElementOf("", "GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.3.2"), s.Name)
		}
	})

	It("measures everything over the fake driver", func(ctx SpecContext) {
		r := ran(ctx, append(fake(ctx), "-backends", "cuda", "-precisions", "f32,bf16", "-tiles", "2")...)
		Expect(faults(r)).To(BeEmpty())
		Expect(r.Facts.Libraries).To(HaveKeyWithValue(blasName, "12.9.1"))
		Expect(sortedKeys(r.Ceilings)).To(Equal([]string{"bf16", copying, "f32"}))
		for _, part := range []string{productPart, rowPart, convolutionPart, attentionPart} {
			list := of(r, part, "carve")
			Expect(list).NotTo(BeEmpty(), part)
			for _, x := range list {
				Expect(x.Times.Seconds).To(HaveLen(replays))
				Expect(x.Share.Median).To(BeNumerically(">", 0), "%v", x)
				Expect(x.Times.Off).To(BeNumerically(">", 0), "%v", x)
			}
		}
		Expect(of(r, productPart, blasName)).NotTo(BeEmpty())
		Expect(of(r, productPart, "carve, tile 1")).NotTo(BeEmpty())
		Expect(of(r, convolutionPart, dnnName)).NotTo(BeEmpty())
		for _, side := range []string{"cuda", ownKernels} {
			list := of(r, modelPart, side)
			Expect(list).To(HaveLen(4), side)
			for _, x := range list {
				Expect(x.RunMS).To(HaveLen(3))
				Expect(made(x.Ready.Calls, "graphs")).To(Equal(1), "%v", x)
				Expect(summed(x.Ready.Calls)).To(Equal("1 graphs"))
				// The image's layout is changed by a kernel behind its copy.
				Expect(summed(x.Ready.HostCall)).To(Equal("1 graphs, 1 launches, 1 copies to, 1 copies from"))
				Expect(x.Agreement.Relative).To(And(BeNumerically(">", 0), BeNumerically("<", allowed[x.Precision])))
			}
		}
		verdicts := map[string]string{}
		for _, j := range r.Limits {
			verdicts[j.What] = j.Verdict
		}
		Expect(verdicts).To(HaveKeyWithValue("networks: one graph launch a run, and no kernel beside", met))
		Expect(verdicts).To(HaveKeyWithValue("networks: agreement with float64", met))
		Expect(verdicts).To(HaveKeyWithValue("networks: 1.0 of torch.compile", unmeasured))
	}, SpecTimeout(4*time.Minute))

	DescribeTable("refuses lists with names that it does not know, before it takes a device's time", func(ctx SpecContext, flag, list, want string) {
		path, err := command()
		Expect(err).NotTo(HaveOccurred())
		text, err := exec.CommandContext(ctx, path, flag, list).CombinedOutput()
		Expect(err).To(HaveOccurred())
		Expect(string(text)).To(ContainSubstring(want))
	},
		Entry("precisions", "-precisions", "f16,f99", `-precisions: "f99" is none of`),
		Entry("parts", "-parts", "model", `-parts: "model" is none of`),
		Entry("backends", "-backends", "rocm", `-backends: "rocm" is none of`),
		Entry("batches", "-batches", "1,0", `-batches: "0" is no number`),
	)

	It("runs networks on OpenCL", func(ctx SpecContext) {
		b, err := opencl.Open(backend.Config{Name: "opencl"})
		if errors.Is(err, backend.ErrUnavailable) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Close()).To(Succeed())
		r := ran(ctx, "-backends", "opencl", "-precisions", "f32")
		Expect(faults(r)).To(BeEmpty())
		list := of(r, modelPart, "opencl")
		Expect(list).To(HaveLen(2))
		for _, x := range list {
			Expect(made(x.Ready.Calls, "launches") + made(x.Ready.Calls, "graphs")).To(BeNumerically(">", 0))
			Expect(x.Agreement.Relative).To(BeNumerically("<", allowed["f32"]))
		}
	}, SpecTimeout(4*time.Minute))

	It("says what is not there, and goes on", func(ctx SpecContext) {
		r := ran(ctx, "-backends", "cuda", "-driver", "/does/not/exist.so", "-precisions", "f32", "-batches", "1")
		Expect(faults(r)).NotTo(BeEmpty())
		for _, x := range r.Rows {
			Expect(x.Fault.Kind).To(Equal(absent), "%v", x)
		}
		Expect(slices.ContainsFunc(r.Rows, func(x *row) bool { return x.Part == modelPart })).To(BeTrue())
		for _, j := range r.Limits {
			Expect(j.Verdict).To(Equal(unmeasured))
		}
	})

	It("leaves what there is no time for", func(ctx SpecContext) {
		r := ran(ctx, "-backends", "cuda", "-driver", "/does/not/exist.so", "-time", "1ns")
		Expect(r.Left).NotTo(BeEmpty())
	})
})

var _ = Describe("a process", func() {
	shell := func(script string) *child {
		p := &child{name: "shell", command: func() *exec.Cmd { return exec.Command("sh", "-c", script) }}
		DeferCleanup(p.stop)
		return p
	}
	ask := func(ctx context.Context, p *child, within time.Duration) error {
		_, err := p.ask(ctx, within, &request{Op: "facts"})
		return err
	}
	DescribeTable("has a kind of fault for each way to fail, and is started again",
		func(ctx SpecContext, script, kind, text string) {
			p := shell(script)
			for range 2 {
				f := faultOf(ask(ctx, p, time.Second))
				Expect(f).To(HaveOccurred())
				Expect(f.Kind).To(Equal(kind))
				Expect(f.Text).To(ContainSubstring(text))
			}
		},
		Entry("one that ends", "echo why >&2; exit 3", died, "why"),
		Entry("one that says what is no answer", "read x; echo no JSON; read x", died, "invalid character"),
		Entry("one that hangs", "read x; sleep 60 & wait", timeout, "within 1s"),
		Entry("one that says why", `while read x; do echo '{"error":{"kind":"memory","text":"all of it"}}'; done`, memory, "all of it"),
		Entry("one whose device is lost", `read x; echo '{"error":{"kind":"lost","text":"gone"}}'; read x; exit`, lost, "gone"),
	)

	It("is not started when time is up", func(ctx SpecContext) {
		over, cancel := context.WithCancel(ctx)
		cancel()
		p := shell("exit 1")
		Expect(faultOf(ask(over, p, time.Second)).Kind).To(Equal(left))
		Expect(p.now).To(BeNil())
	})

	It("that is not there is told", func(ctx SpecContext) {
		p := &child{name: "none", command: func() *exec.Cmd { return exec.Command("/does/not/exist") }}
		Expect(faultOf(ask(ctx, p, time.Second)).Kind).To(Equal(absent))
	})
})

var _ = Describe("limits", func() {
	kernel := func(part, precision string, operations, bytes float64, seconds ...float64) *row {
		return &row{Part: part, Name: precision, Side: "carve", Precision: precision, Rows: 4096, Times: &times{Seconds: seconds, Operations: operations, Bytes: bytes}}
	}
	It("are held to the nearer ceiling", func() {
		copied, chains := kernel(ceilingPart, "f32", 0, 100, 1), kernel(ceilingPart, "f32", 50, 0, 1)
		copied.Name, chains.Name = copying, multiplyAdds
		library := kernel(productPart, "f16", 1000, 1, 1)
		library.Side = blasName
		rows := []*row{copied, chains, library, kernel(productPart, "f16", 1000, 1, 2), kernel(productPart, "f16", 10, 1, 0.001)}
		c := ceilingsOf(rows)
		Expect(c).To(Equal(ceilings{copying: 100, "f32": 50, "f16": 1000}))
		x := kernel(convolutionPart, "f32", 50, 10, 2, 2, 2)
		c.share(x)
		Expect([]any{x.Share.Median, x.Of}).To(Equal([]any{0.5, "f32"}))
		x = kernel(convolutionPart, "f32", 5, 50, 1, 1, 1)
		c.share(x)
		Expect([]any{x.Share.Median, x.Of}).To(Equal([]any{0.5, copying}))
		x = kernel(rowPart, "bf16", 0, 50, 1)
		ceilings{}.share(x)
		Expect(x.Share).To(BeNil())
	})

	DescribeTable("are broken with the whole interval", func(verdict string, low, median, high float64) {
		x := &row{Share: &paired.Ratio{Low: low, Median: median, High: high}}
		got, _, _ := atLeast(0.8)(x)
		Expect(got).To(Equal(verdict))
		y := &row{Ratio: map[string]paired.Ratio{beside: {Low: 1.8 - high, Median: 1.8 - median, High: 1.8 - low}}}
		got, _, _ = besideRival(y)
		Expect(got).To(Equal(verdict))
	},
		Entry("above", met, 0.79, 0.81, 0.83),
		Entry("with the limit within", undecided, 0.75, 0.79, 0.81),
		Entry("below", broken, 0.75, 0.77, 0.79),
	)

	It("count what failed as broken, what is absent or left as not measured, and the last of what was measured again", func() {
		ratio := func(batch int, x float64) *row {
			return &row{Part: modelPart, Name: "net", Side: "cuda", Batch: batch, Ratio: map[string]paired.Ratio{beside: {Low: x, Median: x, High: x}}}
		}
		last := func(rows ...*row) judged {
			list := judge(rows)
			return list[len(list)-1]
		}
		gone := ratio(2, 3)
		gone.Fault = &fault{absent, "no driver"}
		Expect(last(gone).Verdict).To(Equal(unmeasured))
		gone.Fault = &fault{left, "time is up"}
		Expect(last(gone, ratio(1, 0.9)).Verdict).To(Equal(met))
		gone.Fault = &fault{memory, "none left"}
		Expect(last(gone, ratio(1, 0.9)).Verdict).To(Equal(broken))
		Expect(last(ratio(1, 1.5), ratio(1, 0.9))).To(Equal(judged{What: "networks: 1.0 of torch.compile", Verdict: met, Rows: 1, Met: 1, Worst: ratio(1, 0.9).head() + " 0.900 (0.900–0.900)"}))
		Expect(last(ratio(1, 0.9), ratio(2, 1.5)).Verdict).To(Equal(broken))
	})
})

var _ = Describe("agreement", func() {
	folder := func(items int, value func(item, i int) float32) string {
		dir := GinkgoT().TempDir()
		data := make([]float32, 0, items*3)
		for item := range items {
			for i := range 3 {
				data = append(data, value(item, i))
			}
		}
		Expect(write(dir, map[string]tensor.Value{"a/b": tensor.From(data, items, 3)})).To(Succeed())
		return dir
	}
	It("is of the first and the last item", func() {
		want := folder(2, func(item, i int) float32 { return float32(10*item + i) })
		got := folder(4, func(item, i int) float32 { return []float32{float32(i), 100, 100, 10 + float32(i)}[item] })
		a, err := agree(got, want)
		Expect(err).NotTo(HaveOccurred())
		Expect(a).To(Equal(agreement{}))
		a, err = agree(folder(1, func(_, i int) float32 { return float32(i) + 0.5 }), want)
		Expect(err).NotTo(HaveOccurred())
		Expect(a.Relative).To(BeNumerically("~", 0.387, 1e-3))
	})

	It("wants the same outputs", func() {
		want := folder(2, func(item, i int) float32 { return 1 })
		_, err := agree(GinkgoT().TempDir(), want)
		Expect(faultOf(err).Kind).To(Equal(wrong))
		_, err = agree(folder(2, func(item, i int) float32 { return float32(0) / float32(i) }), want)
		Expect(faultOf(err).Kind).To(Equal(wrong))
	})
})

var _ = It("Batches of two or more have the same first and last item", func() {
	n, err := openNetwork(context.Background(), "../../../examples/quickstart/digits.onnx", "")
	Expect(err).NotTo(HaveOccurred())
	row := func(items, which int) []float32 {
		feeds, err := n.batched(items)
		Expect(err).NotTo(HaveOccurred())
		x := feeds["image"].(*tensor.Tensor)
		Expect(x.Shape).To(Equal([]int{items, 1, 8, 8}))
		return tensor.Elements[float32](x)[64*which : 64*which+64]
	}
	Expect(row(5, 0)).To(Equal(row(2, 0)))
	Expect(row(1, 0)).To(Equal(row(2, 0)))
	Expect(row(5, 4)).To(Equal(row(2, 1)))
	Expect(row(5, 1)).NotTo(Equal(row(5, 2)))
})
