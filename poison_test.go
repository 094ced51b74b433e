package carve_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

// checkPoisoned runs a model twice with every dead buffer full of NaN, and expects the outputs of a common run.
func checkPoisoned(ctx context.Context, name string, o carve.Options) {
	GinkgoHelper()
	z := openZoo(ctx, name)
	o.Verify = true
	plain := compile(ctx, z.Model, &o)
	want, err := plain.Run(ctx, z.feeds)
	Expect(err).NotTo(HaveOccurred(), name)
	Expect(plain.Close()).To(Succeed())
	o.Poison = true
	poisoned := compile(ctx, z.Model, &o)
	for range 2 {
		got, err := poisoned.Run(ctx, z.feeds)
		Expect(err).NotTo(HaveOccurred(), name)
		_, err = z.ref.Compare(got)
		Expect(err).NotTo(HaveOccurred(), name)
		for k, w := range want {
			Expect(slices.Equal(got[k].(*tensor.Tensor).Bytes(), w.(*tensor.Tensor).Bytes())).To(BeTrue(), "%s: output %s", name, k)
		}
	}
	Expect(poisoned.Close()).To(Succeed())
}

var _ = Describe("Poison", func() {
	for _, name := range smallZoo {
		It("changes no output: "+name, func(ctx SpecContext) { checkPoisoned(ctx, name, carve.Options{}) })
	}

	It("changes no output: the other models", Label("zoo"), func(ctx SpecContext) {
		for _, name := range largeZoo() {
			checkPoisoned(ctx, name, carve.Options{})
		}
	})
})
