package plugin_test

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// sanitized compiles C with the sanitizers of addresses and undefined behaviour, and skips where there are none.
func sanitized(out, source string, flags ...string) string {
	GinkgoHelper()
	gcc, err := exec.LookPath("gcc")
	if err != nil || runtime.GOOS != "linux" {
		Skip("no gcc here")
	}
	sanitizers := []string{"-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}
	probe := exec.Command(gcc, append(sanitizers, "-x", "c", "-", "-o", filepath.Join(GinkgoT().TempDir(), "probe"))...)
	probe.Stdin = strings.NewReader("int main(void) { return 0; }")
	if probe.Run() != nil {
		Skip("this gcc has no sanitizers")
	}
	out = filepath.Join(GinkgoT().TempDir(), out)
	args := append(append(sanitizers, flags...), "-I", ".", "-o", out, source, "-lm", "-lpthread", "-ldl")
	text, err := exec.Command(gcc, args...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(text))
	return out
}

var _ = Describe("a host in C", func() {
	DescribeTable("drives the accelerator in C under sanitizers", func(ctx SpecContext, source string) {
		host := sanitized("host", "testdata/host.c")
		text, err := exec.CommandContext(ctx, host, sanitized("plugin.so", source, "-shared", "-fPIC")).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(text))
		Expect(string(text)).To(Equal("ok\n"))
	},
		Entry("the example", "../../examples/plugin/accelerator.c"),
		Entry("the one with streams, notices and counts", "testdata/full.c"),
	)

	It("sees what is not given back", func(ctx SpecContext) {
		host := sanitized("host", "testdata/host.c", "-DFORGETS")
		text, err := exec.CommandContext(ctx, host, sanitized("plugin.so", "../../examples/plugin/accelerator.c", "-shared", "-fPIC")).CombinedOutput()
		if strings.Contains(string(text), "LeakSanitizer has encountered a fatal error") {
			Skip("no leaks can be looked for here")
		}
		Expect(err).To(HaveOccurred())
		Expect(string(text)).To(ContainSubstring("detected memory leaks"))
	})
})
