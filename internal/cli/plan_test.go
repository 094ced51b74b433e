package cli_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("plan", func() {
	It("saves, shows, applies and compares", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		model, file := save(ctx, stem()), filepath.Join(dir, "a.plan")
		Expect(succeeds(ctx, "plan", "save", model, "-o", file, "--threads", "2").stdout).To(BeEmpty())
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(Equal(succeeds(ctx, "plan", "save", model, "--threads", "2").stdout))
		Expect(succeeds(ctx, "plan", "show", file).stdout).To(And(ContainSubstring("threads: 2\n"), MatchRegexp(`cpu +1 +4 `)))
		Expect(succeeds(ctx, "plan", "apply", model, "--plan", file, "--threads", "2").stdout).To(Equal("the program is as the plan says\n"))
		Expect(succeeds(ctx, "run", model, "--plan", file, "--threads", "2").stdout).To(ContainSubstring("vd"))

		Expect(fails(ctx, "plan", "apply", model, "--plan", file, "--threads", "1")).To(ContainSubstring("threads: the plan has 2, here is 1"))
		r := succeeds(ctx, "plan", "apply", model, "--plan", file, "--threads", "1", "--recompute")
		Expect(r.stdout).To(Equal("identity: threads: 2 → 1\n"))
		Expect(r.stderr).To(ContainSubstring("the plan is made anew"))

		other := filepath.Join(dir, "b.plan")
		Expect(os.WriteFile(other, []byte(strings.Replace(string(text), `fact "threads" "2"`, `fact "threads" "4"`, 1)), 0o644)).To(Succeed())
		Expect(succeeds(ctx, "plan", "diff", file, file).stdout).To(BeEmpty())
		d := carve(ctx, "plan", "diff", file, other)
		Expect(d.code).To(Equal(1))
		Expect(d.stdout).To(Equal("identity: threads: 2 → 4\n"))
	})

	It("writes to a device, and replaces none", func(ctx SpecContext) {
		model, device := save(ctx, stem()), filepath.Join(GinkgoT().TempDir(), "device")
		if err := os.Symlink(os.DevNull, device); err != nil {
			Skip("links cannot be made here: " + err.Error())
		}
		Expect(succeeds(ctx, "plan", "save", model, "-o", device).stdout).To(BeEmpty())
		Expect(fails(ctx, "bundle", model, "-o", device)).To(ContainSubstring("not a regular file"))
		Expect(fails(ctx, "convert", model, device)).To(ContainSubstring("not a regular file"))
		Expect(os.Readlink(device)).To(Equal(os.DevNull))
	})

	It("says what is wrong with a plan and with flags", func(ctx SpecContext) {
		model, file := save(ctx, stem()), filepath.Join(GinkgoT().TempDir(), "bad.plan")
		Expect(os.WriteFile(file, []byte("carve plan 1\nnonsense\n"), 0o644)).To(Succeed())
		Expect(fails(ctx, "plan", "show", file)).To(ContainSubstring("line 2, column 1"))
		Expect(fails(ctx, "run", model, "--plan", file)).To(ContainSubstring("line 2, column 1"))
		Expect(fails(ctx, "plan", "show", filepath.Dir(file))).To(ContainSubstring("no plan"))
		Expect(fails(ctx, "plan", "apply", model)).To(ContainSubstring("--plan FILE is missing"))
		Expect(fails(ctx, "run", model, "--recompute")).To(ContainSubstring("--recompute is for --plan"))
	})
})
