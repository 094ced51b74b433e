package choose_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/partition/internal/choose"
	"github.com/carve-dev/carve/partition/internal/dagtest"
)

var _ = Describe("A search", func() {
	It("ends with its context at once, wherever that happens", func(ctx SpecContext) {
		const nodes = 3_000
		p := placed(dagtest.Random(nodes, 20, 1), 1)
		a := &dagtest.Asked{Context: ctx, Left: 1 << 30}
		_, err := choose.Solve(a, p, nil)
		Expect(err).NotTo(HaveOccurred())
		asked := 1<<30 - a.Left
		AddReportEntry("questions", asked)
		Expect(asked).To(BeNumerically(">=", nodes/10), "questions")
		for k := range 12 {
			a := &dagtest.Asked{Context: ctx, Left: asked * k / 12}
			_, err := choose.Solve(a, p, nil)
			Expect(err).To(MatchError(context.Canceled))
			Expect(a.Left).To(BeNumerically(">=", -2), "who asks and hears that it is over asks once more for the error")
		}
	})
})
