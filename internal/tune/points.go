package tune

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
)

// Surveys is a partition.Times of several points: one Survey for each. What does not depend on the point is one task.
type Surveys []*Survey

// NewSurveys returns one Survey for each of some values of symbols.
func NewSurveys(h Host, points []graph.Bindings) Surveys {
	tasks, list := map[string]*Task{}, make(Surveys, len(points))
	for i, at := range points {
		list[i] = NewSurvey(h, at)
		list[i].tasks = tasks
	}
	return list
}

// Node implements partition.Times.
func (l Surveys) Node(n *graph.Node, backend string, sig *graph.Signature, modelled float64) float64 {
	for _, s := range l {
		s.Node(n, backend, sig, modelled)
	}
	return 0
}

// Conversion implements partition.Times.
func (l Surveys) Conversion(v *graph.Value, hop *convert.Converter) float64 {
	for _, s := range l {
		s.Conversion(v, hop)
	}
	return 0
}

// Tasks returns what could win at any point, rivals one behind the other, and what matters most first.
func (l Surveys) Tasks() []*Task {
	var all []*Task
	for _, s := range l {
		s.want()
		all = append(all, s.order...)
	}
	return sorted(all)
}

// Choice returns what is known of all candidates (Survey.Times), without wholes. Each point has a weight by which a run of the model
// takes as long at one as at any other, so that none is neglected for another.
func (l Surveys) Choice() *Choice {
	c := &Choice{Times: map[string]float64{}}
	for _, s := range l {
		s.times(c.Times)
	}
	mean, takes := 0.0, make([]float64, len(l))
	for i, s := range l {
		takes[i] = s.takes(c.Times)
		mean += math.Log(takes[i]) / float64(len(l))
	}
	for i, s := range l {
		c.Points = append(c.Points, Point{At: s.at, Weight: math.Exp(mean) / takes[i] / float64(len(l))})
	}
	return c
}

// takes returns how long the nodes take in sum, each on the fastest backend by itself; at least a nanosecond.
func (s *Survey) takes(times map[string]float64) float64 {
	least := map[string]float64{}
	for _, o := range s.seen {
		ns := times[short(o.task.Key.Digest())]
		if len(o.nodes) != 1 || ns <= 0 {
			continue
		}
		if old, ok := least[o.nodes[0]]; !ok || ns < old {
			least[o.nodes[0]] = ns
		}
	}
	total := 1.0
	for _, name := range slices.Sorted(maps.Keys(least)) {
		total += least[name]
	}
	return total
}

// Overall returns how long each whole takes that ran at all points, in geometric mean over these, the fastest first: of one point, its
// list.
func (c *Choice) Overall() []Run {
	if len(c.Points) == 0 {
		return nil
	}
	var out []Run
	for _, r := range c.Points[0].Runs {
		logs, noise, everywhere := 0.0, 0.0, true
		for i := range c.Points {
			runs := c.Points[i].Runs
			k := slices.IndexFunc(runs, func(x Run) bool { return x.Whole == r.Whole })
			if everywhere = everywhere && k >= 0 && runs[k].Nanos > 0; everywhere {
				logs += math.Log(runs[k].Nanos)
				noise += runs[k].Noise / runs[k].Nanos
			}
		}
		if len(c.Points) == 1 {
			out = append(out, r)
		} else if n := float64(len(c.Points)); everywhere {
			takes := math.Exp(logs / n)
			out = append(out, Run{Whole: r.Whole, Nanos: takes, Noise: noise / n * takes})
		}
	}
	if len(c.Points) > 1 {
		slices.SortStableFunc(out, func(a, b Run) int { return cmp.Compare(a.Nanos, b.Nanos) })
	}
	return out
}

// SamePoints reports whether a choice was measured at these values.
func (c *Choice) SamePoints(points []graph.Bindings) bool {
	return slices.EqualFunc(c.Points, points, func(p Point, at graph.Bindings) bool { return maps.Equal(p.At, at) })
}

// Values returns the values of a symbol that were measured, in ascending order.
func (c *Choice) Values(symbol string) []int64 {
	var list []int64
	for i := range c.Points {
		if n, ok := c.Points[i].At[symbol]; ok {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Between returns the largest value that counts to the smaller of two neighbours that were measured: the one that is nearer in ratio.
func Between(low, high int64) int64 {
	n := int64(math.Sqrt(float64(low) * float64(high)))
	return min(max(n, low), high-1)
}
