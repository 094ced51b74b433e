package carve

import (
	"context"
	"fmt"
	"io"

	"github.com/carve-dev/carve/memplan"
)

// MemoryPlan is where everything of one device lies while the main graph runs, for concrete shapes. Time is counted in
// sub-steps of the schedule. Regions that the host scheduler runs have plans of their own, each within a buffer of the
// node's.
type MemoryPlan struct {
	Device     string
	Arena      int64  // bytes that the device's arena needs
	LowerBound int64  // largest sum of bytes that are alive at one time: no plan needs less
	Naive      int64  // bytes of a buffer of its own for everything
	Method     string // what found the plan
	Steps      int64  // sub-steps of the schedule
	Buffers    []PlannedBuffer
}

// PlannedBuffer is one buffer of an arena: bytes [Offset, Offset+Bytes) in the sub-steps [First, End).
type PlannedBuffer struct {
	// Name is that of the value, the first of those that share the buffer; a buffer inside a group goes by the node whose
	// sub-step makes it, and a number.
	Name          string
	Bytes, Offset int64
	First, End    int64
}

// Plan returns the memory plan of every device for inputs of these shapes, given by name; nil means what Report means by
// it.
func (p *Program) Plan(ctx context.Context, shapes map[string][]int) ([]MemoryPlan, error) {
	s, err := p.runs().Specialized(background(ctx), shapes)
	if err != nil {
		return nil, public(err)
	}
	var out []MemoryPlan
	plan := s.Plan()
	for i := range plan.Arenas {
		a := &plan.Arenas[i]
		m := MemoryPlan{Device: a.Device.String(), Arena: a.Height, LowerBound: a.LowerBound, Naive: a.Naive, Method: a.Method,
			Steps: plan.Start[len(plan.Start)-1]}
		count := map[string]int{}
		for _, b := range a.Placed {
			name := s.PlacedName(b)
			if b.Step >= 0 {
				count[name]++
				name = fmt.Sprintf("%s #%d", name, count[name])
			}
			m.Buffers = append(m.Buffers, PlannedBuffer{Name: name, Bytes: b.Bytes, Offset: b.Offset, First: b.Lower, End: b.Upper})
		}
		out = append(out, m)
	}
	return out, nil
}

// WriteSVG draws the arena over time, buffers as rectangles.
func (m *MemoryPlan) WriteSVG(w io.Writer) error {
	bufs := make([]memplan.Buffer, len(m.Buffers))
	plan := memplan.Plan{Offsets: make([]int64, len(m.Buffers)), Height: m.Arena, LowerBound: m.LowerBound, Optimal: m.Arena == m.LowerBound, Method: m.Method}
	for i, b := range m.Buffers {
		bufs[i] = memplan.Buffer{ID: b.Name, Size: b.Bytes, Lower: b.First, Upper: b.End}
		plan.Offsets[i] = b.Offset
	}
	return memplan.WriteSVG(w, bufs, plan, &memplan.SVGOptions{
		Title: "arena of " + m.Device, Times: "sub-step of the schedule", Offsets: "offset in bytes"})
}
