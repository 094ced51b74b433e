//go:build !nonative

package cli_test

import (
	"os/exec"
	"path/filepath"
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/dl"
)

var _ = Describe("what a vendor's library brings", func() {
	const model = "../../examples/plugin/activations.onnx"

	// build compiles an example, and skips where that cannot be done.
	build := func(ctx SpecContext, name string) string {
		gcc, err := exec.LookPath("gcc")
		if err != nil || !dl.Supported {
			Skip("a plugin cannot be built here")
		}
		out := filepath.Join(GinkgoT().TempDir(), name+".so")
		text, err := exec.CommandContext(ctx, gcc, "-O2", "-shared", "-fPIC", "-I", "../../backend/plugin", "-o", out,
			"../../examples/plugin/"+name+".c", "-lm").CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(text))
		return out
	}

	It("is listed, known to inspect, and dumped", func(ctx SpecContext) {
		operator, pass := build(ctx, "operator"), build(ctx, "pass")
		r := succeeds(ctx, "backends", "--plugin", operator, "--plugin", pass)
		Expect(r.stdout).To(ContainSubstring(operator + " brings operator com.example.Snake since 1\n"))
		Expect(r.stdout).To(ContainSubstring(pass + " brings pass fast-gelu before simplify\n"))
		r = succeeds(ctx, "backends", "--plugin", operator, "--json")
		Expect(r.stdout).To(ContainSubstring(`"com.example.Snake since 1"`))

		if runtime.GOOS == "linux" {
			r = succeeds(ctx, "backends", "--plugin", operator, "--plugin-option", "out-of-process=true")
			Expect(r.stdout).To(ContainSubstring(operator + " brings operator com.example.Snake since 1\n"))
			r = succeeds(ctx, "run", model, "--plugin", operator, "--plugin", pass, "--plugin-option", "out-of-process=true", "--check")
			Expect(r.stdout).To(ContainSubstring("check: every group agrees"))
			Expect(succeeds(ctx, "inspect", model, "--plugin", operator, "--plugin-option", "out-of-process=true").stdout).NotTo(ContainSubstring("unsupported"))
		}
		Expect(fails(ctx, "backends", "--plugin", operator, "--plugin-option", "out-of-process")).To(ContainSubstring("expected KEY=VALUE"))

		Expect(succeeds(ctx, "inspect", model).stdout).To(ContainSubstring("unsupported: com.example.Snake"))
		r = succeeds(ctx, "inspect", model, "--plugin", operator)
		Expect(r.stdout).NotTo(ContainSubstring("unsupported"))
		Expect(r.stdout).To(MatchRegexp(`output +y +f32\[N,64\]`))

		r = succeeds(ctx, "dump", model, "--plugin", operator, "--plugin", pass, "--after", "fast-gelu")
		Expect(r.stdout).To(ContainSubstring(`Gelu(%a; approximate="tanh")`))
		Expect(fails(ctx, "dump", model, "--after", "fast-gelu")).To(ContainSubstring("there is no such pass"))
	})
})
