//go:build !nonative

package cli_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/zootest"
)

var _ = Describe("carve onnxtest on an OpenCL device", func() {
	type result struct {
		Name, Status string
		Nodes        map[string]int
	}
	test := func(ctx SpecContext, backends string, cases ...string) (results []result, failing []string) {
		GinkgoHelper()
		root, err := zootest.Shared("onnx-backend-tests/node")
		if errors.Is(err, zootest.ErrAbsent) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		args := []string{"onnxtest", "--json", "-", "--backend", backends, "--placement", "priority"}
		if len(cases) == 0 {
			args = append(args, root)
		}
		for _, c := range cases {
			args = append(args, filepath.Join(root, c))
		}
		var r struct{ Cases []result }
		out := carve(ctx, args...)
		Expect(json.Unmarshal([]byte(out.stdout), &r)).To(Succeed(), out.stderr)
		for _, c := range r.Cases {
			if c.Status == "failed" {
				failing = append(failing, c.Name)
			}
		}
		return r.Cases, failing
	}
	BeforeEach(func() {
		b, err := backend.Open(backend.Config{Name: "opencl"})
		if errors.Is(err, backend.ErrUnavailable) {
			Skip("no OpenCL here: " + err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(b.Close)
	})

	It("runs a case of each kind of kernel there", func(ctx SpecContext) {
		results, failing := test(ctx, "opencl", "test_relu", "test_basic_conv_with_padding", "test_convtranspose_pads", "test_gemm_all_attributes",
			"test_matmul_3d", "test_softmax_axis_1", "test_instancenorm_epsilon", "test_gather_elements_1", "test_argmax_keepdims_random",
			"test_lstm_defaults", "test_gridsample_bicubic", "test_attention_4d_with_past_and_present", "test_scatternd", "test_cast_FLOAT_to_INT4")
		Expect(failing).To(BeEmpty())
		Expect(results).To(HaveLen(14))
		for _, r := range results {
			Expect(r.Nodes).To(HaveLen(1), r.Name)
			Expect(r.Nodes).To(HaveKey("opencl"), r.Name)
		}
	})

	It("passes what cpu passes, with two thirds of the cases there", Label("slow"), func(ctx SpecContext) {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes minutes: -ginkgo.label-filter=slow")
		}
		_, onCPU := test(ctx, "cpu")
		results, failing := test(ctx, "opencl,cpu")
		// What is expected of this one has been rounded to halves after each operator; a kernel rounds its results alone.
		failing = slices.DeleteFunc(failing, func(name string) bool {
			return name == "test_attention_4d_gqa_with_past_and_present_fp16_expanded"
		})
		Expect(failing).To(ConsistOf(onCPU))
		here := 0
		for _, r := range results {
			if r.Status == "passed" && r.Nodes["opencl"] > 0 {
				here++
			}
		}
		AddReportEntry("cases with nodes on the device", here)
		Expect(here).To(BeNumerically(">=", 1000))
	})
})
