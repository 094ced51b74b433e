package main

import (
	"bytes"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
)

var _ = Describe("generate", func() {
	small := []string{"-layers", "2", "-width", "32", "-heads", "2", "-words", "100"}

	It("decodes the tokens that a run over all of them says", func(ctx SpecContext) {
		c := config{layers: 2, width: 32, heads: 2, words: 100, positions: 64, seed: 3}
		g, err := decoder(c)
		Expect(err).NotTo(HaveOccurred())
		m := carve.FromGraph(g)
		defer m.Close()
		tokens := []int64{1, 2, 3}
		var d *decoding
		for range 12 {
			whole, err := newDecoding(ctx, m, c, 64, 1)
			Expect(err).NotTo(HaveOccurred())
			want, err := whole.step(ctx, tokens)
			Expect(err).NotTo(HaveOccurred())
			Expect(whole.program.Close()).To(Succeed())
			next := tokens[len(tokens)-1:]
			if d == nil {
				d, err = newDecoding(ctx, m, c, 64, 1)
				Expect(err).NotTo(HaveOccurred())
				defer d.program.Close()
				next = tokens
			}
			Expect(d.step(ctx, next)).To(Equal(want))
			tokens = append(tokens, want)
		}
	})

	It("prints tokens, the same ones each time, and how fast", func(ctx SpecContext) {
		var a, b bytes.Buffer
		Expect(run(ctx, &a, append(small, "-tokens", "10"))).To(Succeed())
		Expect(run(ctx, &b, append(small, "-tokens", "10", "-threads", "1"))).To(Succeed())
		Expect(a.String()).To(MatchRegexp(`tokens: \[(\d+ ){9}\d+\]\n\d+ tokens a second behind a prompt of 8`))
		first := func(s string) string { line, _, _ := strings.Cut(s, "\n"); return line }
		Expect(first(b.String())).To(Equal(first(a.String())))
	})

	It("writes the model", func(ctx SpecContext) {
		path := filepath.Join(GinkgoT().TempDir(), "decoder.onnx")
		Expect(run(ctx, &bytes.Buffer{}, append(small, "-write", path))).To(Succeed())
		m, err := carve.Open(ctx, path)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Close()).To(Succeed())
	})

	It("turns down sizes that do not fit", func(ctx SpecContext) {
		Expect(run(ctx, &bytes.Buffer{}, []string{"-width", "10", "-heads", "3"})).NotTo(Succeed())
	})
})
