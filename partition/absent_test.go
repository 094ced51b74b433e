package partition_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("values that nobody made", func() {
	It("a graph that is nil is an error", func(ctx SpecContext) {
		_, err := partition.Partition(ctx, nil, nil)
		Expect(err).To(MatchError(graph.ErrNil))
		Expect(partition.Verify(nil)).To(MatchError(graph.ErrNil))
	})

	It("without options, no backend runs anything", func() {
		r, err := partition.Partition(nil, graph.New("empty"), nil) //nolint:staticcheck // a context that is nil never ends
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(BeEmpty())
		_, err = partition.Partition(nil, parse(text("a", "a = Neg(x)")), nil) //nolint:staticcheck // the same
		Expect(err).To(MatchError(partition.ErrUnplaced))
	})

	It("the zero Bans takes bans", func() {
		var b partition.Bans
		Expect(b.Len()).To(BeZero())
		ban := partition.Ban{Node: "n", Backend: "b", Reason: property.Because(property.Unsupported, "no")}
		Expect(b.Add(ban)).To(BeTrue())
		Expect(b.Add(ban)).To(BeFalse())
		Expect(b.All()).To(HaveLen(1))
	})

	It("the zero Result explains nothing", func() {
		Expect((&partition.Result{}).Explain()).To(BeEmpty())
		Expect(partition.HostScheduled(nil)).To(BeFalse())
	})
})
