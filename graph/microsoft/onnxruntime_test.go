package microsoft_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/onnxruntimetest"
	"github.com/carve-dev/carve/internal/zootest"
)

var (
	seed  = flag.Int("onnxruntime-seed", 1, "seed of the models that are made for comparison with ONNX Runtime")
	count = flag.Int("onnxruntime-count", 12, "models of each kind of operator")
)

// made runs a script of testdata, which writes a folder for each case, and skips the spec where a tool is absent.
func made(ctx context.Context, script string, args ...string) []string {
	GinkgoHelper()
	models, left, err := onnxruntimetest.Make(ctx, "numpy, onnx, onnxruntime", filepath.Join("testdata", script), GinkgoT().TempDir(), args...)
	if errors.Is(err, onnxruntimetest.ErrAbsent) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	for _, line := range left {
		AddReportEntry(line, ReportEntryVisibilityAlways)
	}
	return models
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
	It("searches for tokens around random decoders find its sequences", func(ctx SpecContext) {
		var bad []string
		models := made(ctx, "search.py", strconv.Itoa(*seed), strconv.Itoa(2**count))
		Expect(len(models)).To(BeNumerically(">", 3**count))
		for _, path := range models {
			if err := same(ctx, path, []string{"cpu"}); err != nil {
				bad = append(bad, fmt.Sprintf("%s: %v", filepath.Base(filepath.Dir(path)), err))
			}
		}
		Expect(strings.Join(bad, "\n")).To(BeEmpty())
	})
	DescribeTable("models that it optimised and quantised in every way have its results, or are nearer to those in float32", func(ctx SpecContext, models ...string) {
		if !strings.Contains(GinkgoLabelFilter(), "onnxruntime") {
			Skip("takes a minute: -ginkgo.label-filter=onnxruntime")
		}
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
	want, err := onnxruntimetest.Wanted(path)
	if err != nil {
		return err
	}
	got, err := onnxruntimetest.Results(ctx, path, backends...)
	if err != nil {
		return err
	}
	for _, w := range want {
		if err := onnxruntimetest.Apart(got[w.Name], w.Tensor, 1); err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
	}
	return nil
}

// near compares the results of a model with what ONNX Runtime has, and, where integers were rounded otherwise somewhere, how far both are
// from the model that was not quantised.
func near(ctx context.Context, path string) error {
	dir := filepath.Dir(path)
	want, err := onnxruntimetest.Wanted(path)
	if err != nil {
		return err
	}
	float, err := onnxruntimetest.Tensors(dir, "float")
	if err != nil {
		return err
	}
	got, err := onnxruntimetest.Results(ctx, path)
	if err != nil {
		return err
	}
	for i, w := range want {
		if onnxruntimetest.Apart(got[w.Name], w.Tensor, 0) == nil {
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
