//go:build !nonative

package cli_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/zootest"
)

var _ = Describe("carve onnxtest through a plugin", Label("slow"), Ordered, func() {
	type report struct {
		Passed int
		Cases  []struct {
			Name, Status string
			Nodes        map[string]int
		}
	}
	test := func(ctx SpecContext, args ...string) (r report, failing []string, nodes map[string]int) {
		GinkgoHelper()
		cases, err := zootest.Shared("onnx-backend-tests/node")
		if errors.Is(err, zootest.ErrAbsent) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		out := carve(ctx, append([]string{"onnxtest", cases, "--json", "-"}, args...)...)
		Expect(json.Unmarshal([]byte(out.stdout), &r)).To(Succeed(), out.stderr)
		nodes = map[string]int{}
		for _, c := range r.Cases {
			if c.Status == "failed" {
				failing = append(failing, c.Name)
			}
			for b, n := range c.Nodes {
				nodes[b] += n
			}
		}
		return r, failing, nodes
	}
	var accelerator string
	BeforeAll(func() {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes minutes: -ginkgo.label-filter=slow")
		}
		gotool, err := exec.LookPath("go")
		if _, nocc := exec.LookPath("gcc"); err != nil || nocc != nil || !dl.Supported {
			Skip("a library with cgo cannot be built here")
		}
		dir, err := os.MkdirTemp("", "carve-cli-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, dir)
		accelerator = filepath.Join(dir, "accelerator.so")
		cmd := exec.Command(gotool, "build", "-buildmode=c-shared", "-gcflags=github.com/carve-dev/carve/...=-N -l", "-o", accelerator, "../../backend/plugin/testdata/accelerator")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		text, err := cmd.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(text))
	})

	DescribeTable("passes what cpu passes", func(ctx SpecContext, outOfProcess string) {
		if outOfProcess == "true" && runtime.GOOS != "linux" {
			Skip("processes of their own need Linux")
		}
		want, failing, onCPU := test(ctx, "--backend", "cpu")
		got, also, nodes := test(ctx, "--backend", "accelerator", "--plugin", accelerator, "--plugin-option", "out-of-process="+outOfProcess)
		Expect(also).To(ConsistOf(failing))
		Expect(got.Passed).To(Equal(want.Passed))
		Expect(nodes["accelerator"]).To(BeNumerically(">", onCPU["cpu"]))
		Expect(nodes["cpu"]).To(BeZero())
	},
		Entry("in the process", "false"),
		Entry("out of process", "true"),
	)
})
