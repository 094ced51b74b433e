package schedule_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/memplan/schedule"
)

var _ = It("problems, plans and graphs that are nil are errors, and zero ones empty", func(ctx SpecContext) {
	second := func(_ any, err error) error { return err }
	for _, err := range []error{
		second(schedule.Make(ctx, nil, true)), second(schedule.Order(ctx, nil, nil)), second(schedule.Peak(nil, nil)),
		schedule.Verify(nil, &schedule.Plan{}), schedule.Verify(&schedule.Problem{}, nil),
	} {
		Expect(err).To(MatchError(schedule.ErrProblem))
	}
	Expect((&schedule.Problem{}).Covers(nil)).To(BeFalse())
	p, err := schedule.Make(nil, &schedule.Problem{}, true) //nolint:staticcheck // a context that is nil never ends
	Expect(err).NotTo(HaveOccurred())
	Expect(schedule.Verify(&schedule.Problem{}, p)).To(Succeed())
	o, err := schedule.Order(nil, &schedule.Graph{}, nil) //nolint:staticcheck // the same
	Expect(err).NotTo(HaveOccurred())
	Expect(o.Order).To(BeEmpty())
})
