package schedule_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/memplan/schedule"
)

var gpu = tensor.DeviceID{Type: tensor.CUDA, Index: 1}

// chain is n steps, each of which reads the value of the one before.
func chain(n int, bytes int64) *schedule.Problem {
	p := &schedule.Problem{}
	for i := range n {
		p.Values = append(p.Values, schedule.Value{Bytes: bytes, Planned: true})
		s := schedule.Step{Outputs: []schedule.Port{{Value: i}}}
		if i > 0 {
			s.Inputs = []schedule.Port{{Value: i - 1}}
		}
		p.Steps = append(p.Steps, s)
	}
	p.Values[n-1].Keep = true
	return p
}

func make1(p *schedule.Problem) *schedule.Plan {
	GinkgoHelper()
	plan, err := schedule.Make(context.Background(), p, true)
	Expect(err).NotTo(HaveOccurred())
	return plan
}

// memory is who wrote each 64 bytes of each arena last.
type memory map[tensor.DeviceID]map[int64]string

func (m memory) each(d tensor.DeviceID, off, n int64, fn func(cells map[int64]string, k int64)) {
	if d.IsHost() {
		d = tensor.DeviceID{}
	}
	if m[d] == nil {
		m[d] = map[int64]string{}
	}
	for k := off / 64; k*64 < off+n; k++ {
		fn(m[d], k)
	}
}

// simulate runs a plan step by step: everybody writes a token to its bytes, and finds it there as long as it is alive.
func simulate(p *schedule.Problem, plan *schedule.Plan) {
	GinkgoHelper()
	sub, end := simulation(p, plan)
	for i, s := range p.Steps {
		for t := range max(s.Substeps, 1) {
			sub(i, t)
		}
	}
	end()
}

// simulation returns what runs one sub-step of a step, and what looks at the values that are kept.
func simulation(p *schedule.Problem, plan *schedule.Plan) (sub func(i, t int), end func()) {
	m := memory{}
	write := func(d tensor.DeviceID, off, n int64, token string) {
		m.each(d, off, n, func(cells map[int64]string, k int64) { cells[k] = token })
	}
	read := func(d tensor.DeviceID, off, n int64, token string) {
		m.each(d, off, n, func(cells map[int64]string, k int64) {
			if cells[k] != token {
				Fail(fmt.Sprintf("byte %d holds %q instead of %q", k*64, cells[k], token))
			}
		})
	}
	value := func(op func(tensor.DeviceID, int64, int64, string), i int) {
		if i >= 0 && p.Values[i].Planned {
			op(p.Values[i].Device, plan.Values[i], p.Values[i].Bytes, fmt.Sprint("value ", i))
		}
	}
	sub = func(i, t int) {
		s := &p.Steps[i]
		overwritten := map[int]int{} // input value, and the sub-step from which an output may lie in its place
		for _, pair := range s.InPlace {
			if min(pair.Input, pair.Output) < 0 || pair.Input >= len(s.Inputs) || pair.Output >= len(s.Outputs) {
				continue
			}
			in, out := s.Inputs[pair.Input].Value, s.Outputs[pair.Output].Value
			if in >= 0 && out >= 0 && p.Values[in].Planned && p.Values[out].Planned && plan.Values[in] == plan.Values[out] && p.Values[in].Device == p.Values[out].Device {
				overwritten[in] = s.Outputs[pair.Output].First
			}
		}
		for _, o := range s.Outputs {
			if o.First == t {
				value(write, o.Value)
			}
		}
		for j, b := range s.Buffers {
			if b.First == t {
				write(b.Device, plan.Buffers[i][j], b.Bytes, fmt.Sprint("buffer ", i, j))
			}
		}
		for _, in := range s.Inputs {
			from, shared := overwritten[in.Value]
			if in.First <= t && t <= in.Last && (!shared || t < from) {
				value(read, in.Value)
			}
		}
		for _, o := range s.Outputs {
			if o.First <= t {
				value(read, o.Value)
			}
		}
		for j, b := range s.Buffers {
			if b.First <= t && t <= b.Last {
				read(b.Device, plan.Buffers[i][j], b.Bytes, fmt.Sprint("buffer ", i, j))
			}
		}
	}
	end = func() {
		for i, v := range p.Values {
			if v.Keep {
				value(read, i)
			}
		}
	}
	return sub, end
}

// random returns a problem of n steps. Every value is read at random later.
func random(r *rand.Rand, n int) *schedule.Problem {
	p := &schedule.Problem{}
	devices := []tensor.DeviceID{{}, {}, {Type: tensor.Host}, gpu}
	for range n {
		on := devices[r.IntN(4)]
		s := schedule.Step{Substeps: r.IntN(5), NoReuse: r.IntN(8) == 0}
		steps := max(s.Substeps, 1)
		for range r.IntN(4) {
			v := -1
			if k := len(p.Values); k > 0 && r.IntN(10) > 0 {
				v = max(0, k-1-r.IntN(6))
			}
			s.Inputs = append(s.Inputs, schedule.Port{Value: v, Last: r.IntN(steps)})
		}
		for range r.IntN(3) {
			first := r.IntN(steps)
			s.Outputs = append(s.Outputs, schedule.Port{Value: len(p.Values), First: first, Last: steps - 1})
			p.Values = append(p.Values, schedule.Value{Bytes: int64(r.IntN(5)) * 300, Device: on, Planned: r.IntN(6) > 0, Keep: r.IntN(10) == 0})
		}
		for range r.IntN(4) {
			first := r.IntN(steps)
			s.Buffers = append(s.Buffers, schedule.Buffer{Bytes: int64(r.IntN(2000)), Align: int64(64) << r.IntN(6), First: first, Last: first + r.IntN(steps-first), Device: on})
		}
		for range r.IntN(3) {
			if len(s.Inputs) > 0 && len(s.Outputs) > 0 {
				s.InPlace = append(s.InPlace, schedule.Pair{Output: r.IntN(len(s.Outputs)), Input: r.IntN(len(s.Inputs))})
			}
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

var _ = Describe("Make", func() {
	It("takes a known arena that fits and is sound, and searches otherwise", func() {
		p := chain(4, 64)
		found := make1(p).Arenas[0]
		known := schedule.Known{Device: found.Device.String(), Height: found.Height + tensor.Alignment, Method: "by hand"}
		for _, b := range found.Placed {
			b.Offset += tensor.Alignment
			known.Placed = append(known.Placed, b)
		}
		p.Known = []schedule.Known{{Device: gpu.String()}, known}
		plan := make1(p)
		Expect([]any{plan.Arenas[0].Height, plan.Arenas[0].LowerBound, plan.Arenas[0].Method}).To(Equal([]any{found.Height + tensor.Alignment, found.LowerBound, "by hand"}))
		Expect(plan.Arenas[0].Placed).To(Equal(known.Placed))
		simulate(p, plan)
		for _, spoil := range []func(k *schedule.Known){
			func(k *schedule.Known) { k.Device = gpu.String() },
			func(k *schedule.Known) { k.Height-- },
			func(k *schedule.Known) { k.Placed = k.Placed[1:] },
			func(k *schedule.Known) { k.Placed[0].Bytes++ },
			func(k *schedule.Known) { k.Placed[0].Upper++ },
			func(k *schedule.Known) { k.Placed[0].Offset++ },
			func(k *schedule.Known) { k.Placed[0].Offset = k.Placed[1].Offset },
			func(k *schedule.Known) { k.Placed[0].Offset = -64 },
			func(k *schedule.Known) { k.Placed[0].Offset = math.MaxInt64 - 63 },
		} {
			other := known
			other.Placed = slices.Clone(known.Placed)
			spoil(&other)
			p.Known = []schedule.Known{other}
			Expect(make1(p).Arenas[0]).To(Equal(found))
		}
	})

	It("gives a chain the room of two values", func() {
		p := chain(10, 1000)
		plan := make1(p)
		Expect(plan.Arenas).To(HaveLen(1))
		a := plan.Arenas[0]
		Expect([]int64{a.Height, a.LowerBound, a.Naive}).To(Equal([]int64{2048, 2048, 10240}))
		simulate(p, plan)
	})

	It("gives a chain that works in place the room of one", func() {
		p := chain(10, 1000)
		for i := range p.Steps[1:] {
			p.Steps[i+1].InPlace = []schedule.Pair{{}}
		}
		plan := make1(p)
		Expect(plan.Shared).To(Equal(9))
		Expect(plan.Arenas[0].Height).To(BeEquivalentTo(1024))
		Expect(plan.Arenas[0].LowerBound).To(BeEquivalentTo(1024))
		simulate(p, plan)
	})

	// A step 1 that may overwrite what step 0 made.
	inPlace := func() *schedule.Problem {
		p := chain(3, 1000)
		p.Steps[1].InPlace = []schedule.Pair{{}}
		return p
	}
	DescribeTable("refuses to work in place", func(change func(p *schedule.Problem)) {
		p := inPlace()
		Expect(make1(p).Shared).To(Equal(1))
		change(p)
		plan := make1(p)
		Expect(plan.Shared).To(BeZero())
		simulate(p, plan)
	},
		Entry("over what is read later", func(p *schedule.Problem) { p.Steps[2].Inputs = append(p.Steps[2].Inputs, schedule.Port{Value: 0}) }),
		Entry("over what is kept", func(p *schedule.Problem) { p.Values[0].Keep = true }),
		Entry("over a caller's input or a constant", func(p *schedule.Problem) { p.Values[0].Planned = false }),
		Entry("for an output of the caller's", func(p *schedule.Problem) { p.Values[1].Planned = false }),
		Entry("over what is smaller", func(p *schedule.Problem) { p.Values[0].Bytes = 999 }),
		Entry("over what lies on another device", func(p *schedule.Problem) { p.Values[0].Device = gpu }),
		Entry("over what the step reads at another port too", func(p *schedule.Problem) { p.Steps[1].Inputs = append(p.Steps[1].Inputs, schedule.Port{Value: 0}) }),
		Entry("at ports that do not exist", func(p *schedule.Problem) { p.Steps[1].InPlace = []schedule.Pair{{Output: 1}, {Input: 1}, {Output: -1}} }),
		Entry("at an omitted port", func(p *schedule.Problem) { p.Steps[1].Inputs[0].Value = -1 }),
	)

	It("lets only one output overwrite an input", func() {
		p := inPlace()
		p.Values = append(p.Values, schedule.Value{Bytes: 1000, Planned: true})
		p.Steps[1].Outputs = append(p.Steps[1].Outputs, schedule.Port{Value: 3})
		p.Steps[1].InPlace = append(p.Steps[1].InPlace, schedule.Pair{Output: 1, Input: 0})
		plan := make1(p)
		Expect(plan.Shared).To(Equal(1))
		simulate(p, plan)
	})

	It("ends an input where its last sub-step does", func() {
		p := chain(2, 1000)
		p.Steps[1] = schedule.Step{Substeps: 3, Inputs: []schedule.Port{{Value: 0, Last: 0}}, Outputs: []schedule.Port{{Value: 1, First: 2, Last: 2}},
			Buffers: []schedule.Buffer{{Bytes: 1000, First: 1, Last: 1}}}
		plan := make1(p)
		Expect(plan.Arenas[0].Height).To(BeEquivalentTo(1024))
		Expect(plan.Start).To(Equal([]int64{0, 1, 4}))
		simulate(p, plan)
	})

	It("keeps buffers apart where the step asks for it", func() {
		p := &schedule.Problem{Steps: []schedule.Step{{Substeps: 2, Buffers: []schedule.Buffer{{Bytes: 1000}, {Bytes: 1000, First: 1, Last: 1}}}}}
		Expect(make1(p).Arenas[0].Height).To(BeEquivalentTo(1024))
		p.Steps[0].NoReuse = true
		Expect(make1(p).Arenas[0].Height).To(BeEquivalentTo(2048))
		simulate(p, make1(p))
	})

	It("nests what must not share in one rectangle", func() {
		p := chain(3, 1000)
		p.Steps[1].Substeps, p.Steps[1].NoReuse = 2, true
		p.Steps[1].Buffers = []schedule.Buffer{{}, {Bytes: 1, First: 1, Last: 1}, {Bytes: 300, Align: 4096}, {Bytes: 100}}
		plan := make1(p)
		a := plan.Arenas[0]
		Expect(a.Placed).To(HaveLen(4))
		nest := a.Placed[3]
		Expect([]int{nest.Step, nest.Index}).To(Equal([]int{1, 1}))
		Expect(nest.Bytes).To(BeEquivalentTo(4096 + 512 + 256))
		Expect([]int64{nest.Lower, nest.Upper}).To(Equal([]int64{1, 3}))
		Expect(nest.Offset % 4096).To(BeZero())
		Expect(plan.Buffers[1][1:]).To(Equal([]int64{nest.Offset, nest.Offset + 4096, nest.Offset + 4096 + 512}))
		Expect(a.Naive).To(BeEquivalentTo(3*1024 + 256 + 512 + 256))
		simulate(p, plan)

		p.Steps[1].Buffers = []schedule.Buffer{{Bytes: math.MaxInt64 / 2}, {Bytes: math.MaxInt64 / 2}, {Bytes: 300}}
		_, err := schedule.Make(context.Background(), p, true)
		Expect(err).To(MatchError(schedule.ErrProblem))
		p.Steps[1].Buffers = []schedule.Buffer{{Bytes: 1, Align: 768}, {Bytes: 300, Align: 4096}}
		_, err = schedule.Make(context.Background(), p, true)
		Expect(err).To(MatchError(schedule.ErrProblem))
	})

	It("gives each device an arena, and all host devices one", func() {
		p := chain(4, 1000)
		p.Values[1].Device = gpu
		p.Values[2].Device = tensor.DeviceID{Type: tensor.Host}
		plan := make1(p)
		Expect(plan.Arenas).To(HaveLen(2))
		Expect(plan.Arenas[0].Device.IsHost()).To(BeTrue())
		Expect(plan.Arenas[1].Device).To(Equal(gpu))
		Expect(plan.Arenas[1].Height).To(BeEquivalentTo(1024))
		simulate(p, plan)
	})

	It("honours alignments", func() {
		p := &schedule.Problem{Steps: []schedule.Step{{Buffers: []schedule.Buffer{{Bytes: 1}, {Bytes: 1, Align: 4096}, {Bytes: 1, Align: 1}}}}}
		plan := make1(p)
		Expect(plan.Buffers[0][1] % 4096).To(BeZero())
		Expect(plan.Buffers[0][2] % tensor.Alignment).To(BeZero())
	})

	It("gives values of no bytes, and nobody's values, no room", func() {
		p := &schedule.Problem{Values: []schedule.Value{{Planned: true}, {Bytes: 100}}, Steps: []schedule.Step{{Outputs: []schedule.Port{{Value: 0}, {Value: 1}, {Value: -1}}}}}
		plan := make1(p)
		Expect(plan.Arenas[0].Height).To(BeZero())
		Expect(plan.Values).To(Equal([]int64{0, -1}))
		Expect(make1(&schedule.Problem{}).Arenas).To(BeEmpty())
	})

	DescribeTable("refuses what makes no sense", func(p *schedule.Problem) {
		_, err := schedule.Make(context.Background(), p, true)
		Expect(err).To(MatchError(schedule.ErrProblem))
	},
		Entry("a value that does not exist", &schedule.Problem{Steps: []schedule.Step{{Inputs: []schedule.Port{{Value: 0}}}}}),
		Entry("an output that does not exist", &schedule.Problem{Steps: []schedule.Step{{Outputs: []schedule.Port{{Value: 3}}}}}),
		Entry("two makers", &schedule.Problem{Values: make([]schedule.Value, 1), Steps: []schedule.Step{{Outputs: []schedule.Port{{}}}, {Outputs: []schedule.Port{{}}}}}),
		Entry("a reader before the maker", &schedule.Problem{Values: []schedule.Value{{Planned: true, Bytes: 1}},
			Steps: []schedule.Step{{Inputs: []schedule.Port{{}}}, {Outputs: []schedule.Port{{}}}}}),
		Entry("a sub-step that does not exist", &schedule.Problem{Values: []schedule.Value{{Planned: true, Bytes: 1}}, Steps: []schedule.Step{{Outputs: []schedule.Port{{First: 1}}}}}),
		Entry("a buffer that ends late", &schedule.Problem{Steps: []schedule.Step{{Buffers: []schedule.Buffer{{Bytes: 1, Last: 1}}}}}),
		Entry("a buffer that ends before it begins", &schedule.Problem{Steps: []schedule.Step{{Substeps: 3, Buffers: []schedule.Buffer{{Bytes: 1, First: 2, Last: 1}}}}}),
		Entry("a negative size", &schedule.Problem{Steps: []schedule.Step{{Buffers: []schedule.Buffer{{Bytes: -1}}}}}),
	)

	It("makes plans that work: random schedules", func() {
		for seed := range uint64(400) {
			p := random(rand.New(rand.NewPCG(seed, 3)), 1+int(seed%40))
			plan, err := schedule.Make(context.Background(), p, true)
			Expect(err).NotTo(HaveOccurred(), "seed %d", seed)
			simulate(p, plan)
			for _, a := range plan.Arenas {
				Expect(a.LowerBound).To(BeNumerically("<=", a.Height))
				Expect(a.Height).To(BeNumerically("<=", max(a.Naive*2, 1<<16)))
			}
			again := make1(p)
			Expect(again).To(Equal(plan), "the same every time")
		}
	})

	It("stops when the context ends", func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := schedule.Make(ctx, random(rand.New(rand.NewPCG(1, 1)), 2000), false)
		Expect(err).To(MatchError(context.Canceled))
	})
})
