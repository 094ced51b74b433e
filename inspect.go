package carve

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/exec"
	"github.com/carve-dev/carve/internal/picture"
)

// Profile is what one run spent where.
type Profile struct {
	Total time.Duration
	Spans []Span // in the order of time
}

// Span is one sub-step of a run.
type Span struct {
	Name    string   // of the node, or what is converted
	Op      string   // operator, pattern, or "Convert"
	Backend string   // "host" for the host scheduler
	Nodes   []string // of the model
	Group   int      // id in the Report of the group, or of the host scheduler's node; -1 for a conversion between groups
	Device  string   // whose queue it was on, by its name in reports; "" for the host
	Stream  int      // of the device, from 0
	Start   time.Duration
	Time    time.Duration
	FLOPs   float64 // 0 where not known
}

// RunProfiled is Run with a profile of every node.
func (p *Program) RunProfiled(ctx context.Context, inputs map[string]tensor.Value) (map[string]tensor.Value, *Profile, error) {
	s, err := p.runs().Acquire(background(ctx))
	if err != nil {
		return nil, nil, err
	}
	defer p.machine.GiveBack(s)
	stop, start := s.Profile(), time.Now()
	out, err := run(ctx, s, inputs)
	prof := &Profile{Total: time.Since(start)}
	for _, x := range stop() {
		prof.Spans = append(prof.Spans, Span(x))
	}
	if err != nil {
		return nil, nil, err
	}
	return out, prof, nil
}

// Slowest returns the spans of the n nodes that took longest, the slowest first.
func (p *Profile) Slowest(n int) []Span {
	out := slices.Clone(p.Spans)
	slices.SortStableFunc(out, func(a, b Span) int { return int(b.Time - a.Time) })
	return out[:max(0, min(n, len(out)))]
}

// WriteChromeTrace writes the profile in the trace event format that Chrome's about:tracing and Perfetto read. Every device is a
// process in it, the host the first, and each of its streams a thread, with their names.
func (p *Profile) WriteChromeTrace(w io.Writer) error {
	return picture.WriteTrace(w, p.spans())
}

func (p *Profile) spans() []picture.Span {
	out := make([]picture.Span, len(p.Spans))
	for i, s := range p.Spans {
		out[i] = picture.Span(s)
	}
	return out
}

// Difference is what Check found: the first node whose result on its backend differs from the reference kernels'.
type Difference struct {
	Group   int      // id of the group in the Report
	Backend string   // that ran the group
	Nodes   []string // of the model: the node, or the unit that the backend fused
	Op      string
	Value   string  // the result
	Index   int     // first element that differs
	Got     float64 // the backend's
	Want    float64 // the reference kernels'
}

// String describes the difference in one line.
func (d *Difference) String() string { return (*exec.Difference)(d).String() }

// Check runs the program once and compares every group with the reference kernels, on the inputs that the group had. Where
// a group differs, its nodes are compiled and run one by one on their backend to find the first that does. It returns nil
// where everything agrees. Results of eight-bit quantisation may be one step off, and what follows from that in a group is no
// difference where none of its nodes differs by itself.
func (p *Program) Check(ctx context.Context, inputs map[string]tensor.Value) (*Difference, error) {
	s, err := p.runs().Acquire(background(ctx))
	if err != nil {
		return nil, err
	}
	defer p.machine.GiveBack(s)
	stop := s.Check()
	out, err := run(ctx, s, inputs)
	for _, v := range out {
		if f, ok := v.(*Formatted); ok {
			f.Release()
		}
	}
	d, failed := stop()
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, public(err)
	}
	return (*Difference)(d), nil
}
