package schedule_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/memplan/schedule"
)

var _ = Describe("Covers", func() {
	It("lets a plan serve what is smaller", func() {
		for seed := range uint64(200) {
			p := random(rand.New(rand.NewPCG(seed, 5)), 1+int(seed%40))
			q := &schedule.Problem{Values: slices.Clone(p.Values), Steps: slices.Clone(p.Steps)}
			for i := range q.Steps {
				q.Steps[i].Buffers = slices.Clone(q.Steps[i].Buffers)
				for j := range q.Steps[i].Buffers {
					q.Steps[i].Buffers[j].Bytes -= q.Steps[i].Buffers[j].Bytes / 3
				}
			}
			for i := range q.Values {
				q.Values[i].Bytes /= 2
			}
			Expect(p.Covers(q)).To(BeTrue())
			simulate(q, make1(p))
		}
	})

	DescribeTable("asks for the same schedule", func(change func(q *schedule.Problem)) {
		p, q := chain(4, 1000), chain(4, 1000)
		Expect(p.Covers(q)).To(BeTrue())
		change(q)
		Expect(p.Covers(q)).To(BeFalse())
	},
		Entry("sizes", func(q *schedule.Problem) { q.Values[2].Bytes++ }),
		Entry("values", func(q *schedule.Problem) { q.Values = append(q.Values, schedule.Value{}) }),
		Entry("steps", func(q *schedule.Problem) { q.Steps = q.Steps[:3] }),
		Entry("reads", func(q *schedule.Problem) { q.Steps[2].Inputs[0].Value = 0 }),
		Entry("outputs that are kept", func(q *schedule.Problem) { q.Values[1].Keep = true }),
		Entry("devices", func(q *schedule.Problem) { q.Values[1].Device = gpu }),
		Entry("sub-steps", func(q *schedule.Problem) { q.Steps[1].Substeps = 2 }),
		Entry("buffers", func(q *schedule.Problem) { q.Steps[1].Buffers = []schedule.Buffer{{}} }),
		Entry("in-place pairs", func(q *schedule.Problem) { q.Steps[1].InPlace = []schedule.Pair{{}} }),
	)
})

var _ = Describe("Problem.Like", func() {
	It("is followed from size to size without getting further from the bound", func() {
		for seed := range uint64(100) {
			p := random(rand.New(rand.NewPCG(seed, 6)), 1+int(seed%40))
			first := make1(p)
			last := first
			for times := range int64(6) {
				q := &schedule.Problem{Values: slices.Clone(p.Values), Steps: slices.Clone(p.Steps), Like: last}
				for i := range q.Steps {
					q.Steps[i].Buffers = slices.Clone(q.Steps[i].Buffers)
					for j := range q.Steps[i].Buffers {
						q.Steps[i].Buffers[j].Bytes *= 2 + times
					}
				}
				for i := range q.Values {
					q.Values[i].Bytes *= 2 + times
				}
				last = make1(q)
				simulate(q, last)
				q.Like = nil
				fresh := make1(q)
				for k, a := range last.Arenas {
					from := first.Arenas[k]
					near := (float64(from.Height)/float64(max(from.LowerBound, 1)) + 1.0/32) * float64(a.LowerBound)
					Expect(float64(a.Height)).To(BeNumerically("<=", max(near, 1.05*float64(fresh.Arenas[k].Height))))
				}
			}
		}
	})
})

var _ = Describe("Arena", func() {
	It("lists what lies where, and what is shared once", func() {
		p := chain(3, 1000)
		p.Steps[1].InPlace = []schedule.Pair{{}}
		p.Steps[2].Buffers = []schedule.Buffer{{Bytes: 10}, {}}
		a := make1(p).Arenas[0]
		Expect(a.Placed).To(HaveLen(3))
		Expect(a.Placed[0]).To(Equal(schedule.Placed{Step: -1, Index: 0, Bytes: 1000, Offset: a.Placed[0].Offset, Lower: 0, Upper: 3}))
		Expect(a.Placed[1]).To(Equal(schedule.Placed{Step: -1, Index: 2, Bytes: 1000, Offset: a.Placed[1].Offset, Lower: 2, Upper: 4}))
		Expect(a.Placed[2]).To(Equal(schedule.Placed{Step: 2, Index: 0, Bytes: 10, Offset: a.Placed[2].Offset, Lower: 2, Upper: 3}))
	})

	It("has no values of negative size", func() {
		_, err := schedule.Make(context.Background(), &schedule.Problem{Values: []schedule.Value{{Bytes: -1}}}, true)
		Expect(err).To(MatchError(schedule.ErrProblem))
	})
})

func BenchmarkMake(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		r := rand.New(rand.NewPCG(13, 14))
		p := chain(n, 0)
		for i := range n {
			p.Values[i].Bytes = int64(1 + r.IntN(1<<20))
			if i > 1 {
				p.Steps[i].Inputs = append(p.Steps[i].Inputs, schedule.Port{Value: i - 1 - r.IntN(min(i, 6))})
			}
		}
		b.Run(fmt.Sprintf("buffers=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schedule.Make(context.Background(), p, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
