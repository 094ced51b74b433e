package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/zootest"
)

// program builds a command of testdata, once, and skips where that cannot be done.
func program(t testing.TB, name string, env string, flags ...string) string {
	t.Helper()
	gotool, err := exec.LookPath("go")
	if _, nocc := exec.LookPath("gcc"); err != nil || nocc != nil || !dl.Supported {
		t.Skip("a program, or a library with cgo, cannot be built here")
	}
	programs.Lock()
	defer programs.Unlock()
	if path := programs.built[name]; path != "" {
		return path
	}
	dir, err := os.MkdirTemp("", "carve-plugin-")
	if err != nil {
		t.Fatal(err)
	}
	folders = append(folders, dir)
	out := filepath.Join(dir, name+".so")
	cmd := exec.Command(gotool, append(append([]string{"build"}, flags...), "-o", out, "./testdata/"+name)...)
	cmd.Env = append(os.Environ(), env, "GOGC=400") // of the compiler
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	if programs.built == nil {
		programs.built = map[string]string{}
	}
	programs.built[name] = out
	return out
}

var programs struct {
	sync.Mutex
	built map[string]string
}

// accelerator builds the test accelerator: carve's own kernels behind the interface. All of carve is compiled for that once more, since a shared
// library has code of its own kind: not optimised, in little more than half of the time, as most of what it runs is assembly.
func accelerator(t testing.TB) string {
	t.Helper()
	return program(t, "accelerator", "CGO_ENABLED=1", "-buildmode=c-shared", "-gcflags=github.com/carve-dev/carve/...=-N -l")
}

// lists are what models are carved for.
var lists = []string{"accelerator", "accelerator,cpu", "mkl,accelerator,cpu"}

// checkZoo runs a model of the zoo with the accelerator among its backends: the results are the reference's, of every group
// too, and in the lists that the accelerator leads no other backend has a node. The accelerator has the options.
func checkZoo(ctx SpecContext, name, list string, options map[string]string) {
	GinkgoHelper()
	path := accelerator(GinkgoTB())
	ref, err := zootest.ReadReference(name)
	if errors.Is(err, zootest.ErrAbsent) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	file, err := zootest.Materialize(name)
	Expect(err).NotTo(HaveOccurred())
	m, err := carve.Open(ctx, file)
	Expect(err).NotTo(HaveOccurred())
	defer m.Close()
	o := &carve.Options{Plugins: []string{path}, PluginOptions: options, Verify: true}
	for _, b := range strings.Split(list, ",") {
		o.Backends = append(o.Backends, backend.Config{Name: b})
	}
	p, err := carve.Compile(ctx, m, o)
	if errors.Is(err, backend.ErrUnavailable) && strings.HasPrefix(list, "mkl") {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(p.Close()).To(Succeed()) }()
	feeds, err := ref.Feeds()
	Expect(err).NotTo(HaveOccurred())
	for range 2 { // the second run finds memory that was used
		out, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		_, err = ref.Compare(out)
		Expect(err).NotTo(HaveOccurred())
	}
	d, err := p.Check(ctx, feeds)
	Expect(err).NotTo(HaveOccurred())
	Expect(d).To(BeNil())
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	nodes := map[string]int{}
	for _, g := range r.Groups {
		nodes[g.Backend] += len(g.Nodes)
	}
	fmt.Fprintf(GinkgoWriter, "%s for %s: nodes %v\n", name, list, nodes)
	if strings.HasPrefix(list, "accelerator") {
		Expect(nodes["accelerator"]).To(BeNumerically(">", 0))
		Expect(nodes).NotTo(HaveKey("cpu"))
		Expect(nodes).NotTo(HaveKey("reference"))
	}
}

var _ = Describe("the zoo on the accelerator", func() {
	some := []string{"bert_tiny", "lstm_tagger"}
	others := []string{"bert_tiny_op17", "gpt2_tiny", "gpt2_tiny_op17", "mobilenet_v2", "shufflenet_v2_x1_0", "squeezenet1_1"}

	far := map[string]string{backend.OutOfProcess: "true"}
	for _, list := range lists {
		for _, name := range some {
			It("agrees with the reference outputs: "+name+" for "+list, func(ctx SpecContext) { checkZoo(ctx, name, list, nil) })
		}
		It("agrees with the reference outputs: the other small models for "+list, Label("zoo"), func(ctx SpecContext) {
			if !strings.Contains(GinkgoLabelFilter(), "zoo") {
				Skip("takes long: -ginkgo.label-filter=zoo")
			}
			for _, name := range others {
				checkZoo(ctx, name, list, nil)
			}
		})
		It("agrees with the reference outputs, out of process: all small models for "+list, Label("zoo"), func(ctx SpecContext) {
			if !strings.Contains(GinkgoLabelFilter(), "zoo") {
				Skip("takes long: -ginkgo.label-filter=zoo")
			}
			outOfProcess(GinkgoTB())
			for _, name := range append(slices.Clone(some), others...) {
				checkZoo(ctx, name, list, far)
			}
		})
	}
	It("agrees with the reference outputs, out of process: lstm_tagger for accelerator,cpu", func(ctx SpecContext) {
		outOfProcess(GinkgoTB())
		checkZoo(ctx, "lstm_tagger", lists[1], far)
	})
})

var _ = Describe("a group on opaque memory that computes something else", func() {
	DescribeTable("is found by Check, with the node that is at fault", func(ctx SpecContext, far bool) {
		open := plugin.Open
		if far {
			outOfProcess(GinkgoTB())
			open = outside
		}
		l, err := open(accelerator(GinkgoTB()))
		Expect(err).NotTo(HaveOccurred())
		b, err := l.Open("accelerator", map[string]string{"wrong": "Tanh"})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(b.Close()).To(Succeed()) }()
		g, err := graph.Parse("graph {\n  opset 17\n  input %x: f32[2,9]\n  %e = Exp(%x) \"first\"\n  %t = Tanh(%e) \"second\"\n  %y = Neg(%t) \"third\"\n  output %y\n}\n")
		Expect(err).NotTo(HaveOccurred())
		m := carve.FromGraph(g)
		defer m.Close()
		p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "accelerator"}}, Open: map[string]backend.Backend{"accelerator": b}})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		d, err := p.Check(ctx, map[string]tensor.Value{"x": tensor.From(make([]float32, 18), 2, 9)})
		Expect(err).NotTo(HaveOccurred())
		Expect(d).NotTo(BeNil())
		Expect(d.Nodes).To(Equal([]string{"second"}))
	},
		Entry("in the process", false),
		Entry("out of process", true),
	)
})

// TestKernels runs the suite on carve's own kernels through the interface, in queues and without, and out of process.
func TestKernels(t *testing.T) {
	for _, synchronous := range []string{"false", "true"} {
		t.Run("synchronous="+synchronous, func(t *testing.T) {
			comply(t, plugin.Open, accelerator(t), "accelerator", map[string]string{"synchronous": synchronous})
		})
	}
	t.Run("out of process", func(t *testing.T) {
		outOfProcess(t)
		comply(t, outside, accelerator(t), "accelerator", nil)
	})
}

var _ = Describe("a plugin with a Go runtime of its own", func() {
	It("leaves the program its signals and its collector, where that has no cgo", func(ctx SpecContext) {
		host := program(GinkgoTB(), "tworuntimes", "CGO_ENABLED=0")
		library := accelerator(GinkgoTB())
		limited, cancel := context.WithTimeout(ctx, 2*time.Minute) // it takes less than a second; building it may take minutes
		defer cancel()
		text, err := exec.CommandContext(limited, host, library).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(text))
		Expect(string(text)).To(Equal("ok\n"))
	})
})

var _ = Describe("a processor that is open several times", func() {
	It("has a memory for each, and formats are of its own", func(ctx SpecContext) {
		path := accelerator(GinkgoTB())
		for range 3 {
			m := relu()
			DeferCleanup(m.Close)
			p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "accelerator"}}, Plugins: []string{path}, Strict: true})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(p.Close)
			_, err = p.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, -2, 3}, 1, 3)})
			Expect(err).NotTo(HaveOccurred())
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Groups).To(HaveLen(1))
			Expect(r.Groups[0].Backend).To(Equal("accelerator"))
		}
	})
})
