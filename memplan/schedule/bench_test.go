package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/memplan"
	"github.com/carve-dev/carve/memplan/schedule"
)

// residual is a network of blocks, each of which adds its input to what three steps made of it; every step has workspace,
// the additions work in place.
func residual(buffers int) *schedule.Problem {
	p := &schedule.Problem{}
	r := rand.New(rand.NewPCG(1, 4))
	last := -1
	value := func(bytes int64) int {
		p.Values = append(p.Values, schedule.Value{Bytes: bytes, Planned: true})
		return len(p.Values) - 1
	}
	for count := 0; count+8 <= buffers; count += 8 {
		from, bytes := last, int64(4*(1+r.IntN(1<<20)))
		for k := range 4 {
			s := schedule.Step{Outputs: []schedule.Port{{Value: value(bytes)}}, Buffers: []schedule.Buffer{{Bytes: int64(r.IntN(1 << 16))}}}
			if last >= 0 {
				s.Inputs = append(s.Inputs, schedule.Port{Value: last})
			}
			if k == 3 && from >= 0 {
				s.Inputs = append(s.Inputs, schedule.Port{Value: from})
				s.InPlace = []schedule.Pair{{}}
			}
			last = s.Outputs[0].Value
			p.Steps = append(p.Steps, s)
		}
	}
	return p
}

// group is one cooperative group with that many buffers, most of which live for a few of its sub-steps.
func group(buffers int) *schedule.Problem {
	r := rand.New(rand.NewPCG(2, 4))
	s := schedule.Step{Substeps: buffers}
	for i := range buffers {
		life := 1 + r.IntN(4)
		if r.IntN(20) == 0 {
			life = r.IntN(buffers / 4)
		}
		s.Buffers = append(s.Buffers, schedule.Buffer{Bytes: int64(64 * (1 + r.IntN(1<<r.IntN(15)))), First: i, Last: min(i+life, buffers-1)})
	}
	return &schedule.Problem{Steps: []schedule.Step{s}}
}

// BenchmarkKinds measures the way from a schedule to offsets: search is part of it where heuristics do not meet the bound.
// With what=heuristics it is they alone, over the same buffers.
func BenchmarkKinds(b *testing.B) {
	for _, kind := range []struct {
		name string
		make func(int) *schedule.Problem
	}{
		{"chain", func(n int) *schedule.Problem { return chain(n, 1<<20) }}, {"residual", residual}, {"group", group},
		{"random", func(n int) *schedule.Problem { return random(rand.New(rand.NewPCG(5, 3)), n/3) }},
	} {
		for _, n := range []int{100, 1000} {
			p := kind.make(n)
			name := fmt.Sprintf("kind=%s/buffers=%d", kind.name, n)
			b.Run(name+"/what=all", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					plan, err := schedule.Make(b.Context(), p, false)
					if err != nil {
						b.Fatal(err)
					}
					a := plan.Arenas[0]
					b.ReportMetric(float64(a.Height)/float64(max(a.LowerBound, 1)), "height/bound")
				}
			})
			b.Run(name+"/what=heuristics", func(b *testing.B) {
				plan, err := schedule.Make(b.Context(), p, false)
				if err != nil {
					b.Fatal(err)
				}
				var bufs []memplan.Buffer
				for _, a := range plan.Arenas[0].Placed {
					size := (a.Bytes + tensor.Alignment - 1) / tensor.Alignment * tensor.Alignment
					bufs = append(bufs, memplan.Buffer{Size: size, Align: tensor.Alignment, Lower: a.Lower, Upper: a.Upper})
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := memplan.Greedy(bufs); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
