package schedule_test

import (
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/memplan/schedule"
)

// interleave runs a plan whose steps are on several lanes, one sub-step at a time of a lane drawn at random: the host queues a
// step of another lane when it comes to it, and a step begins when those that it waits for are over.
func interleave(r *rand.Rand, p *schedule.Problem, plan *schedule.Plan) {
	GinkgoHelper()
	sub, end := simulation(p, plan)
	lanes := 0
	for i := range p.Steps {
		lanes = max(lanes, p.Steps[i].Lane)
	}
	queues, at := make([][]int, lanes+1), make([]int, lanes+1)
	over := make([]bool, len(p.Steps))
	ready := func(i int) bool {
		for _, w := range plan.Waits[i] {
			if !over[w] {
				return false
			}
		}
		return true
	}
	for next, left := 0, len(p.Steps); left > 0; {
		for len(queues[0]) == 0 && next < len(p.Steps) {
			queues[p.Steps[next].Lane] = append(queues[p.Steps[next].Lane], next)
			next++
		}
		var may []int
		for l, q := range queues {
			if len(q) > 0 && (at[l] > 0 || ready(q[0])) {
				may = append(may, l)
			}
		}
		Expect(may).NotTo(BeEmpty(), "the lanes wait for each other")
		l := may[r.IntN(len(may))]
		i := queues[l][0]
		sub(i, at[l])
		if at[l]++; at[l] == max(p.Steps[i].Substeps, 1) {
			queues[l], at[l], over[i] = queues[l][1:], 0, true
			left--
		}
	}
	end()
}

// onLanes puts the steps of a random problem on lanes.
func onLanes(r *rand.Rand, p *schedule.Problem, lanes int) *schedule.Problem {
	for i := range p.Steps {
		p.Steps[i].Lane = r.IntN(lanes)
		p.Steps[i].Barrier = p.Steps[i].Lane == 0 && r.IntN(6) == 0
	}
	return p
}

var _ = Describe("lanes", func() {
	It("share no memory between steps that may overlap, whatever their speed", func() {
		several := 0
		for seed := range uint64(3000) {
			r := rand.New(rand.NewPCG(seed, 7))
			p := onLanes(r, random(r, 1+r.IntN(30)), 2+r.IntN(3))
			plan := make1(p)
			if plan.Waits == nil {
				continue
			}
			several++
			for range 4 {
				interleave(r, p, plan)
			}
		}
		Expect(several).To(BeNumerically(">", 2000))
	})

	// Two branches from one value, the second on lane b, joined by the host.
	branches := func(b int) *schedule.Problem {
		value := schedule.Value{Bytes: 1024, Planned: true, Device: gpu}
		return &schedule.Problem{Values: []schedule.Value{value, value, value, value, value}, Steps: []schedule.Step{
			{Lane: 1, Outputs: []schedule.Port{{Value: 0}}},
			{Lane: 1, Inputs: []schedule.Port{{Value: 0}}, Outputs: []schedule.Port{{Value: 1}}},
			{Lane: 1, Inputs: []schedule.Port{{Value: 1}}, Outputs: []schedule.Port{{Value: 2}}},
			{Lane: b, Inputs: []schedule.Port{{Value: 0}}, Outputs: []schedule.Port{{Value: 3}}},
			{Inputs: []schedule.Port{{Value: 2}, {Value: 3}}, Outputs: []schedule.Port{{Value: 4}}},
		}}
	}

	It("wait for what makes their operands, once per lane", func() {
		Expect(make1(branches(1)).Waits).To(Equal([][]int{nil, nil, nil, nil, {3}}))
		Expect(make1(branches(2)).Waits).To(Equal([][]int{nil, nil, nil, {0}, {2, 3}}))
		Expect(make1(branches(0)).Waits).To(Equal([][]int{nil, nil, nil, {0}, {2}}))
	})

	It("reuse memory in the order of one queue, and not across queues", func() {
		p := branches(1)
		Expect(make1(p).Arenas[0].Height).To(BeEquivalentTo(3 * 1024))
		p = branches(2)
		p.Values[0].Keep = false
		Expect(make1(p).Arenas[0].Height).To(BeEquivalentTo(4 * 1024))
	})

	It("overwrite an operand only when its other readers have ended", func() {
		p := branches(2)
		p.Steps[3].InPlace = []schedule.Pair{{}}
		Expect(make1(p).Shared).To(BeZero())
		p = branches(1)
		p.Steps[3].InPlace = []schedule.Pair{{}}
		Expect(make1(p).Shared).To(Equal(1))
	})

	It("are what a barrier waits for", func() {
		p := branches(2)
		p.Steps = append(p.Steps, schedule.Step{Barrier: true, Buffers: []schedule.Buffer{{Bytes: 1}}}, schedule.Step{Lane: 1, Outputs: []schedule.Port{{Value: 5}}})
		p.Values = append(p.Values, schedule.Value{Bytes: 4096, Planned: true, Device: gpu})
		Expect(make1(p).Waits[5:]).To(Equal([][]int{nil, nil}))
		p.Steps[4].Inputs = nil
		Expect(make1(p).Waits[5:]).To(Equal([][]int{{2, 3}, nil}))
	})

	It("prove a plan wrong that lets two of them meet", func() {
		p := branches(2)
		plan := make1(p)
		Expect(schedule.Verify(p, plan)).To(Succeed())
		for i := range plan.Arenas[0].Placed {
			plan.Arenas[0].Placed[i].Offset = 0
		}
		Expect(schedule.Verify(p, plan)).To(MatchError(schedule.ErrProblem))
	})

	It("refuse numbers that are none", func() {
		_, err := schedule.Make(GinkgoT().Context(), &schedule.Problem{Steps: []schedule.Step{{Lane: -1}}}, true)
		Expect(err).To(MatchError(schedule.ErrProblem))
		_, err = schedule.Make(GinkgoT().Context(), &schedule.Problem{Steps: []schedule.Step{{Lane: 1 << 40}}}, true)
		Expect(err).To(MatchError(schedule.ErrProblem))
	})
})
