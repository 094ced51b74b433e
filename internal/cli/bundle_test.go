package cli_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("bundle", func() {
	It("writes what every command takes", func(ctx SpecContext) {
		model, file := save(ctx, stem()), filepath.Join(GinkgoT().TempDir(), "m.carve")
		Expect(succeeds(ctx, "bundle", model, "-o", file).stdout).To(BeEmpty())
		Expect(succeeds(ctx, "run", file).stdout).To(Equal(succeeds(ctx, "run", model).stdout))
		Expect(succeeds(ctx, "plan", "show", file).stdout).To(MatchRegexp(`cpu +1 +4 `))
		Expect(succeeds(ctx, "plan", "save", file).stdout).To(Equal(succeeds(ctx, "plan", "save", model).stdout))
		Expect(succeeds(ctx, "partition", file).stdout).To(ContainSubstring("4 (100.0%)"))
		Expect(succeeds(ctx, "inspect", file).stdout).NotTo(ContainSubstring("unsupported"))
		Expect(succeeds(ctx, "dump", file).stdout).To(ContainSubstring("carve::Subgraph"))
	})

	It("says what does not fit, and compiles what is portable", func(ctx SpecContext) {
		model, dir := save(ctx, stem()), GinkgoT().TempDir()
		file, portable := filepath.Join(dir, "m.carve"), filepath.Join(dir, "p.carve")
		succeeds(ctx, "bundle", model, "-o", file, "--threads", "2")
		succeeds(ctx, "bundle", model, "-o", portable, "--threads", "2", "--portable")
		Expect(fails(ctx, "run", file, "--threads", "1")).To(ContainSubstring("threads: the plan has 2, here is 1"))
		Expect(fails(ctx, "run", file, "--backend", "reference")).To(ContainSubstring("backend: the plan has cpu"))
		r := succeeds(ctx, "run", portable, "--backend", "reference")
		Expect(r.stderr).To(ContainSubstring("its model is compiled"))
		Expect(fails(ctx, "run", file, "--override", "x")).To(ContainSubstring("is a bundle"))
		Expect(fails(ctx, "bundle", model)).To(ContainSubstring("-o FILE is missing"))
		Expect(fails(ctx, "bundle", model, "-o", filepath.Join(dir, "no", "folder"))).NotTo(BeEmpty())
		whole, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(file, whole[:len(whole)-1], 0o644)).To(Succeed())
		Expect(fails(ctx, "run", file)).To(MatchRegexp("no sound bundle: at byte 16: expected [0-9]+ bytes"))
	})
})
