package main

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/mxnettest"
)

var _ = Describe("a classifier of MXNet", func() {
	It("gives the most probable classes", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		symbol := filepath.Join(dir, "net-symbol.json")
		Expect(os.WriteFile(symbol, []byte(mxnettest.Perceptron), 0o600)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, "net-0000.params"), mxnettest.PerceptronParams(), 0o600)).To(Succeed())
		var b strings.Builder
		Expect(classify(ctx, &b, symbol, 1, 2)).To(Succeed())
		Expect(b.String()).To(Equal("class 2: 0.4519\nclass 0: 0.2741\nclass 1: 0.2741\n"))
	})
	It("says what is not there", func(ctx SpecContext) {
		Expect(classify(ctx, GinkgoWriter, filepath.Join(GinkgoT().TempDir(), "net-symbol.json"), 1, 2)).To(MatchError(os.ErrNotExist))
	})
})
