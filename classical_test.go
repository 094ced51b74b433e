package carve_test

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/onnxruntimetest"
)

var classicalSeed = flag.Int("classical-seed", 1, "seed of the classical models that are made for comparison with ONNX Runtime")

var _ = Describe("classical models beside ONNX Runtime", Label("onnxruntime"), func() {
	It("have its results: pipelines of scikit-learn, LightGBM and XGBoost", func(ctx SpecContext) {
		models, left, err := onnxruntimetest.Make(ctx, "onnxruntime, skl2onnx, onnxmltools, lightgbm, xgboost", filepath.Join("testdata", "classical.py"),
			GinkgoT().TempDir(), strconv.Itoa(*classicalSeed))
		if errors.Is(err, onnxruntimetest.ErrAbsent) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		AddReportEntry("without a converter, or without a kernel of ONNX Runtime", strings.Join(left, "\n"), ReportEntryVisibilityFailureOrVerbose)
		Expect(len(models)).To(BeNumerically(">=", 150))
		var bad []string
		for _, path := range models {
			want, err := onnxruntimetest.Wanted(path)
			Expect(err).NotTo(HaveOccurred())
			got, err := onnxruntimetest.Results(ctx, path)
			for _, w := range want {
				if err != nil {
					break
				}
				v, flat := onnxruntimetest.Flat(got[w.Name])
				if err = flat; err == nil {
					err = onnxruntimetest.Apart(v, w.Tensor, 0)
				}
			}
			if err != nil {
				bad = append(bad, fmt.Sprintf("%s: %v", filepath.Base(filepath.Dir(path)), err))
			}
		}
		Expect(strings.Join(bad, "\n")).To(BeEmpty())
	})
})
