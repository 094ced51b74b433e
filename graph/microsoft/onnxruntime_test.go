package microsoft_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
)

var (
	seed  = flag.Int("onnxruntime-seed", 1, "seed of the models that are made for comparison with ONNX Runtime")
	count = flag.Int("onnxruntime-count", 12, "models of each kind of operator")
)

// made runs a script of testdata, which writes a folder for each case, and skips the spec where a tool is absent.
func made(ctx context.Context, script string, args ...string) []string {
	GinkgoHelper()
	if err := exec.CommandContext(ctx, "python3", "-c", "import numpy, onnx, onnxruntime").Run(); err != nil {
		Skip("python3 with onnxruntime is not on this machine")
	}
	dir := GinkgoT().TempDir()
	cmd := exec.CommandContext(ctx, "python3", append([]string{filepath.Join("testdata", script), dir}, args...)...)
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "left out:") { // for want of a package of Python
			AddReportEntry(strings.TrimSpace(line), ReportEntryVisibilityAlways)
		}
	}
	models, err := filepath.Glob(filepath.Join(dir, "*", "model.onnx"))
	Expect(err).NotTo(HaveOccurred())
	return models
}

// tensors reads the files NAME_0.pb, NAME_1.pb … of a folder.
func tensors(dir, name string) ([]tensor.Named, error) {
	var out []tensor.Named
	for i := 0; ; i++ {
		b, err := os.ReadFile(filepath.Join(dir, name+"_"+strconv.Itoa(i)+".pb"))
		if errors.Is(err, os.ErrNotExist) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		n, t, err := tensor.ParseProto(b, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, tensor.Named{Name: n, Tensor: t})
	}
}

// results runs a model on the inputs beside it.
func results(ctx context.Context, path string, backends ...string) (map[string]tensor.Value, error) {
	in, err := tensors(filepath.Join(filepath.Dir(path), "test_data_set_0"), "input")
	if err != nil {
		return nil, err
	}
	m, err := carve.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.Close() }()
	list := make([]backend.Config, len(backends))
	for i, name := range backends {
		list[i].Name = name
	}
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: list, Verify: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Close() }()
	feeds := map[string]tensor.Value{}
	for _, x := range in {
		feeds[x.Name] = x.Tensor
	}
	return p.Run(ctx, feeds)
}

// apart returns how two tensors differ: elements of floating-point types by more than a thousandth of themselves and what float32 loses,
// integers by more than step.
func apart(got tensor.Value, want *tensor.Tensor, step float64) error {
	t, ok := got.(*tensor.Tensor)
	if !ok || t.DType != want.DType || fmt.Sprint(t.Shape) != fmt.Sprint(want.Shape) {
		return fmt.Errorf("%v, expected %v", got, want)
	}
	if t.DType == tensor.String {
		if fmt.Sprint(t.Strings) != fmt.Sprint(want.Strings) {
			return fmt.Errorf("%q, expected %q", t.Strings, want.Strings)
		}
		return nil
	}
	a, b := make([]float64, t.Len()), make([]float64, t.Len())
	if err := errors.Join(tensor.Decode(a, t), tensor.Decode(b, want)); err != nil {
		return err
	}
	for i := range a {
		most := step
		if t.DType.IsFloat() {
			most = 1e-3*math.Abs(b[i]) + 1e-5
		}
		if !(math.Abs(a[i]-b[i]) <= most) && !(a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i])) {
			return fmt.Errorf("element %d is %v, expected %v", i, a[i], b[i])
		}
	}
	return nil
}

var _ = Describe("beside ONNX Runtime", Label("onnxruntime"), func() {
	DescribeTable("operators with random attributes and operands have its results", func(ctx SpecContext, backends ...string) {
		var bad []string
		models := made(ctx, "single.py", strconv.Itoa(*seed), strconv.Itoa(*count))
		Expect(len(models)).To(BeNumerically(">", 30**count))
		for _, path := range models {
			if err := same(ctx, path, backends); err != nil {
				bad = append(bad, fmt.Sprintf("%s: %v", filepath.Base(filepath.Dir(path)), err))
			}
		}
		Expect(strings.Join(bad, "\n")).To(BeEmpty())
	},
		Entry("on reference", "reference"),
		Entry("on cpu", "cpu"),
		Entry("on mkl, then cpu", "mkl", "cpu"),
	)
	DescribeTable("models that it optimised and quantised in every way have its results, or are nearer to those in float32", func(ctx SpecContext, models ...string) {
		args := []string{strconv.Itoa(*seed)}
		for _, name := range models {
			path, err := zootest.Materialize(name)
			if errors.Is(err, zootest.ErrAbsent) {
				Skip(err.Error())
			}
			Expect(err).NotTo(HaveOccurred())
			args = append(args, path)
		}
		var bad []string
		list := made(ctx, "whole.py", args...)
		Expect(len(list)).To(BeNumerically(">", 10*len(models)))
		for _, path := range list {
			if err := near(ctx, path); err != nil {
				bad = append(bad, fmt.Sprintf("%s: %v", filepath.Base(filepath.Dir(path)), err))
			}
		}
		Expect(strings.Join(bad, "\n")).To(BeEmpty())
	},
		Entry("transformers and recurrent networks", "bert_tiny", "gpt2_tiny", "lstm_tagger"),
		Entry("convolutional networks", "squeezenet1_1", "mobilenet_v2", "shufflenet_v2_x1_0"),
	)
})

// same compares the results of a single operator.
func same(ctx context.Context, path string, backends []string) error {
	want, err := tensors(filepath.Join(filepath.Dir(path), "test_data_set_0"), "output")
	if err != nil {
		return err
	}
	got, err := results(ctx, path, backends...)
	if err != nil {
		return err
	}
	for _, w := range want {
		if err := apart(got[w.Name], w.Tensor, 1); err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
	}
	return nil
}

// near compares the results of a model with what ONNX Runtime has, and, where integers were rounded otherwise somewhere, how far both are
// from the model that was not quantised.
func near(ctx context.Context, path string) error {
	dir := filepath.Dir(path)
	want, err := tensors(filepath.Join(dir, "test_data_set_0"), "output")
	if err != nil {
		return err
	}
	float, err := tensors(dir, "float")
	if err != nil {
		return err
	}
	got, err := results(ctx, path)
	if err != nil {
		return err
	}
	for i, w := range want {
		if apart(got[w.Name], w.Tensor, 0) == nil {
			continue
		}
		t, ok := got[w.Name].(*tensor.Tensor)
		if !ok || fmt.Sprint(t.Shape) != fmt.Sprint(w.Tensor.Shape) || t.Len() == 0 {
			return fmt.Errorf("%s: %v, expected %v", w.Name, got[w.Name], w.Tensor)
		}
		ours, theirs := distance(t, float[i].Tensor), distance(w.Tensor, float[i].Tensor)
		if between := distance(t, w.Tensor); between > 1e-3 && ours > 1.1*theirs {
			return fmt.Errorf("%s is %.2g from ONNX Runtime's, %.2g from that in float32, and ONNX Runtime's %.2g", w.Name, between, ours, theirs)
		}
	}
	return nil
}

// distance is the root of the mean square of the differences, as a part of the root of b's variance.
func distance(a, b *tensor.Tensor) float64 {
	x, y := make([]float64, a.Len()), make([]float64, a.Len())
	if errors.Join(tensor.Decode(x, a), tensor.Decode(y, b)) != nil || b.Len() != a.Len() {
		return math.Inf(1)
	}
	var sum, sq, diff float64
	for i := range x {
		sum += y[i]
		sq += y[i] * y[i]
		diff += (x[i] - y[i]) * (x[i] - y[i])
	}
	n := float64(len(x))
	return math.Sqrt(diff / n / (sq/n - sum/n*sum/n + 1e-12))
}
