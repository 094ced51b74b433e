//go:build !nonative

package cli_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/cli"
	"github.com/carve-dev/carve/internal/dl"
)

// library compiles a plugin, and skips where that cannot be done.
func library(source string, flags ...string) string {
	GinkgoHelper()
	gcc, err := exec.LookPath("gcc")
	if err != nil || !dl.Supported {
		Skip("a plugin cannot be built here")
	}
	out := filepath.Join(GinkgoT().TempDir(), "plugin.so")
	args := append([]string{"-O2", "-shared", "-fPIC", "-I", "../../backend/plugin", "-o", out, source}, flags...)
	text, err := exec.Command(gcc, append(args, "-lm", "-lpthread")...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(text))
	return out
}

var _ = Describe("carve plugin header", func() {
	It("prints the header for C, or the one beside it for C++", func(ctx SpecContext) {
		Expect(succeeds(ctx, "plugin", "header").stdout).To(ContainSubstring("const carve_plugin *carve_plugin_query(const carve_query *query);"))
		Expect(succeeds(ctx, "plugin", "header", "--cpp").stdout).To(ContainSubstring("#define CARVE_GUARD(f)"))
	})
})

var _ = Describe("carve plugin check", func() {
	It("tells of a plugin that keeps the contract, how far it is from the reference kernels", func(ctx SpecContext) {
		path := library("../../examples/plugin/accelerator.c")
		r := succeeds(ctx, "plugin", "check", path, "--cases", "3")
		Expect(r.stdout).To(HavePrefix("processor tiny-npu: imaginary unit, version 1\n"))
		Expect(r.stdout).To(MatchRegexp(`(?m)^operators +[0-9]+ cases, ok$`))
		Expect(r.stdout).To(MatchRegexp(`(?m)^Tanh +[1-3] +[1-3] +[0-9.]+e-0[6-9]$`))
		Expect(r.stdout).To(HaveSuffix("\n0 failures\n"))
	})

	It("runs it in a process of its own, and survives", func(ctx SpecContext) {
		if runtime.GOOS != "linux" {
			Skip("processes of their own need Linux")
		}
		r := succeeds(ctx, "plugin", "check", library("../../examples/plugin/accelerator.c"), "--cases", "1", "--out-of-process")
		Expect(r.stdout).To(MatchRegexp(`(?m)^operators +[0-9]+ cases, ok$`))
		Expect(r.stdout).To(ContainSubstring("\nprocess: started again 0 times\n"))
		Expect(r.stdout).To(HaveSuffix("\n0 failures\n"))

		path := library("../../backend/plugin/testdata/odd.c", "-DODD=ABORTS")
		r = carve(ctx, "plugin", "check", path, "--cases", "1", "--out-of-process", "--timeout", "2s", "--json")
		Expect(r.code).To(Equal(cli.ExitError), r.stderr)
		var reports []struct {
			Failures, Restarts int
			Sections           []struct{ Failures []string }
		}
		Expect(json.Unmarshal([]byte(r.stdout), &reports)).To(Succeed())
		Expect(reports).To(HaveLen(1))
		Expect(reports[0].Restarts).To(BeNumerically(">", 0))
		Expect(reports[0].Failures).To(BeNumerically(">", reports[0].Restarts))
		Expect(reports[0].Sections[1].Failures).To(ContainElement(ContainSubstring("crashed: its process was ended by signal 6")))
	})

	It("exits with 1 where a plugin does not", func(ctx SpecContext) {
		path := library("../../backend/plugin/testdata/odd.c", "-DODD=FAILS")
		r := carve(ctx, "plugin", "check", path, "--json", "--cases", "1")
		Expect(r.code).To(Equal(cli.ExitError), r.stderr)
		var reports []struct {
			Processor string
			Failures  int
			Sections  []struct{ Failures []string }
			Untried   []string
		}
		Expect(json.Unmarshal([]byte(r.stdout), &reports)).To(Succeed())
		Expect(reports).To(HaveLen(1))
		Expect(reports[0].Processor).To(Equal("odd"))
		Expect(reports[0].Failures).To(BeNumerically(">", 0))
		Expect(reports[0].Sections[1].Failures).To(ContainElement(ContainSubstring("the run fails: plugin odd: enqueue")))
	})

	DescribeTable("refuses what it cannot check", func(ctx SpecContext, text string, args ...string) {
		if !dl.Supported {
			Skip("no library can be opened here")
		}
		r := carve(ctx, append([]string{"plugin", "check"}, args...)...)
		Expect(r.code).To(Equal(cli.ExitError))
		Expect(r.stderr).To(ContainSubstring(text))
	},
		Entry("no library", "absent.so", "./absent.so"),
		Entry("a file that is no library, by its name alone", "it is no library", "plugincheck_test.go"),
		Entry("an option without a value", "expected KEY=VALUE", "./absent.so", "--option", "fast"),
		Entry("a time for a process that there is not", "--out-of-process, which is missing", "./absent.so", "--timeout", "1s"),
		Entry("a time that is none", "must not be negative", "./absent.so", "--out-of-process", "--timeout", "-1s"),
	)
})
