package carve_test

import (
	"bytes"
	"log/slog"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Options.Profile", func() {
	It("has names", func() {
		for _, p := range []carve.SessionProfile{carve.ProfileDefault, carve.ProfileLatency, carve.ProfileThroughput, carve.ProfileTuned} {
			Expect(carve.ParseProfile(p.String())).To(Equal(p))
		}
		_, err := carve.ParseProfile("fast")
		Expect(err).To(MatchError(carve.ErrInput))
	})

	It("changes no result", func(ctx SpecContext) {
		x := map[string]tensor.Value{"x": tensor.From([]float32{1, 2, 3, 4, -1, -2, -3, -4}, 2, 4)}
		want := map[string]tensor.Value{}
		for _, p := range []carve.SessionProfile{carve.ProfileDefault, carve.ProfileLatency, carve.ProfileThroughput} {
			program := mustCompile(ctx, textModel(rowsText), &carve.Options{Profile: p})
			DeferCleanup(program.Close)
			got, err := program.Run(ctx, x)
			Expect(err).NotTo(HaveOccurred())
			if p == carve.ProfileDefault {
				want = got
			}
			expectSame(got, want)
		}
		_, err := carve.Compile(ctx, textModel(rowsText), &carve.Options{Profile: 9})
		Expect(err).To(MatchError(carve.ErrInput))
	})

	It("is measured by Tune, and found again by Compile", func(ctx SpecContext) {
		var log bytes.Buffer
		o := &carve.Options{Profile: carve.ProfileTuned, Cache: GinkgoT().TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))}
		compiled := func() {
			GinkgoHelper()
			log.Reset()
			p := mustCompile(ctx, textModel(rowsText), o)
			DeferCleanup(p.Close)
		}
		compiled()
		Expect(log.String()).To(ContainSubstring("not tuned"))
		t, err := carve.Tune(ctx, textModel(rowsText), &carve.TuneOptions{Options: o, Time: 2e9, Shapes: map[string][]int{"x": {1, 4}}})
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Profiles).NotTo(BeEmpty())
		for i, r := range t.Profiles {
			Expect(r.Sessions * r.Threads).To(BeNumerically(">", 0))
			Expect(r.PerSecond).To(BeNumerically(">", 0))
			if i > 0 {
				Expect(r.PerSecond).To(BeNumerically("<=", t.Profiles[i-1].PerSecond))
			}
		}
		compiled()
		Expect(log.String()).NotTo(ContainSubstring("not tuned"))
	})
})
