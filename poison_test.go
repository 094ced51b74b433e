package carve_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
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

// peek is negAbs with a kernel that notes what it finds in its workspace, and where its result will be.
type peek struct {
	negAbs
	first, result byte
}

func (p *peek) Name() string { return "peek" }

func (p *peek) Kernel(n *graph.Node, b graph.Bindings) (backend.Kernel, error) {
	p.format = graph.HostFormat
	k, err := p.negAbs.Kernel(n, b)
	run := k.Run
	k.Run = func(ctx context.Context, a *backend.KernelArgs) error {
		p.first, p.result = a.Workspace[0], a.Outputs[0].Data[a.Outputs[0].Offset]
		return run(ctx, a)
	}
	return k, err
}

var _ = Describe("Poison", func() {
	for _, name := range smallZoo {
		It("changes no output: "+name, func(ctx SpecContext) { checkPoisoned(ctx, name, carve.Options{}) })
	}

	It("shows a kernel that counts on what its workspace or its result's memory holds", func(ctx SpecContext) {
		m := negAbsModel()
		in := negAbsInput(2)
		for _, poison := range []bool{false, true} {
			seen := &peek{}
			o := with(seen)
			o.Poison = poison
			_, err := compile(ctx, m, o).Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			poisoned, spoilt := seen.first == 0xff, seen.result == 0xff
			Expect(poisoned).To(Equal(poison))
			Expect(spoilt).To(Equal(poison))
		}
	})

	It("changes no output: the other models", Label("zoo"), func(ctx SpecContext) {
		for _, name := range largeZoo() {
			checkPoisoned(ctx, name, carve.Options{})
		}
	})
})
