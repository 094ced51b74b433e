package picture

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/exec"
	"github.com/carve-dev/carve/memplan/schedule"
)

// arenas adds those of a scope, whose steps are these nodes.
func (b *builder) arenas(s *exec.Spec, scope int, who []int) {
	plan := s.Plan()
	starts, run := b.steps(s, who)
	for i := range plan.Arenas {
		a := &plan.Arenas[i]
		if a.Height == 0 && scope > 0 {
			continue // a region that needs none
		}
		out := Arena{Device: a.Device.String(), Scope: scope, Bytes: a.Height, LowerBound: a.LowerBound, Naive: a.Naive, Method: a.Method,
			Steps: plan.Start[len(plan.Start)-1], Starts: starts, Who: run, Buffers: []Buffer{}}
		count := map[string]int{}
		for _, p := range a.Placed {
			x := Buffer{Name: s.PlacedName(p), Node: b.maker(s, p, who), Bytes: p.Bytes, Offset: p.Offset, First: p.Lower, End: p.Upper}
			if p.Step >= 0 {
				count[x.Name]++
				x.Name = fmt.Sprintf("%s #%d", x.Name, count[x.Name])
			}
			x.Name = short(x.Name)
			out.Buffers = append(out.Buffers, x)
		}
		b.d.Arenas = append(b.d.Arenas, out)
	}
}

// steps returns where steps of the schedule begin, and the nodes that they are: of groups those that their sub-steps are labelled with.
func (b *builder) steps(s *exec.Spec, who []int) (starts []int64, run []int) {
	plan, blk := s.Plan(), s.Block()
	starts, run = []int64{}, []int{}
	add := func(at int64, node int) {
		if n := len(run); n == 0 || run[n-1] != node {
			starts, run = append(starts, at), append(run, node)
		}
	}
	for i := range who {
		add(plan.Start[i], who[i])
		st := &blk.Steps[i]
		if st.Kind != exec.StepGroup {
			continue
		}
		for sub, l := range s.Requirements(i).Labels {
			if at, ok := b.parts[part{st.ID, l.Name}]; ok && plan.Start[i]+int64(sub) < plan.Start[i+1] {
				if sub == 0 { // the group's own begins with it
					starts, run = starts[:len(starts)-1], run[:len(run)-1]
				}
				add(plan.Start[i]+int64(sub), at)
			}
		}
	}
	return starts, run
}

// maker returns the node that makes a buffer: the one in a group that it comes from, where that is known.
func (b *builder) maker(s *exec.Spec, p schedule.Placed, who []int) int {
	if p.Step >= 0 {
		st, r := &s.Block().Steps[p.Step], s.Requirements(p.Step)
		if p.Index < len(r.Buffers) {
			if first := r.Buffers[p.Index].First; first < len(r.Labels) {
				if at, ok := b.parts[part{st.ID, r.Labels[first].Name}]; ok {
					return at
				}
			}
		}
		return who[p.Step]
	}
	v := s.Block().Slots[p.Index].Value
	n := v.Producer
	if n == nil {
		return -1
	}
	if n.IsCarve(graph.OpSubgraph) {
		if inner := n.Regions[0].Graph.Outputs[v.Index].Producer; inner != nil {
			n = inner
		}
	}
	if at, ok := b.nodes[n]; ok {
		return at
	}
	return -1
}

// run adds the spans of a measured run.
func (b *builder) run() {
	if b.src.Spans == nil {
		return
	}
	r := &Run{Nanoseconds: b.src.Total.Nanoseconds(), Spans: make([]Timed, 0, len(b.src.Spans))}
	var of []int
	r.Tracks, of = tracksOf(b.src.Spans)
	for i := range b.src.Spans {
		s := &b.src.Spans[i]
		r.Spans = append(r.Spans, Timed{Name: short(s.Name), Op: short(s.Op), Backend: s.Backend, Node: b.timed(s), Track: of[i], Start: s.Start.Nanoseconds(),
			Time: s.Time.Nanoseconds(), FLOPs: s.FLOPs})
	}
	b.d.Run = r
}

// timed returns the node of a span, -1 where it is not known.
func (b *builder) timed(s *Span) int {
	if s.Group < 0 {
		list := b.moves[s.Name]
		if len(list) == 0 {
			return -1
		}
		if len(list) > 1 { // spans come in the order of execution; in loops the last stays
			b.moves[s.Name] = list[1:]
		}
		return list[0]
	}
	if at, ok := b.parts[part{s.Group, s.Name}]; ok {
		return at
	}
	if at, ok := b.groups[s.Group]; ok {
		return at
	}
	return -1
}
