package carve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/exec"
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

// WriteChromeTrace writes the profile in the trace event format that Chrome's about:tracing and Perfetto read.
func (p *Profile) WriteChromeTrace(w io.Writer) error {
	type event struct {
		Name string         `json:"name"`
		Cat  string         `json:"cat"`
		Ph   string         `json:"ph"`
		TS   float64        `json:"ts"`
		Dur  float64        `json:"dur"`
		PID  int            `json:"pid"`
		TID  int            `json:"tid"`
		Args map[string]any `json:"args"`
	}
	events := make([]event, 0, len(p.Spans))
	for _, s := range p.Spans {
		e := event{Name: s.Name, Cat: s.Backend, Ph: "X", TS: float64(s.Start.Nanoseconds()) / 1e3,
			Dur: float64(s.Time.Nanoseconds()) / 1e3, PID: 1, TID: 1, Args: map[string]any{"op": s.Op, "nodes": s.Nodes}}
		if s.FLOPs > 0 && s.Time > 0 {
			e.Args["gflops"] = s.FLOPs / float64(s.Time.Nanoseconds())
		}
		events = append(events, e)
	}
	enc := json.NewEncoder(w)
	if err := enc.Encode(map[string]any{"traceEvents": events, "displayTimeUnit": "ms"}); err != nil {
		return fmt.Errorf("chrome trace: %w", err)
	}
	return nil
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
