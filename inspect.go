package carve

import (
	"context"
	"fmt"
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

// Picture is a Program as people look at it: the graph of what runs, with groups that hold nodes, what every backend of the list
// says of each, conversions, memory, and a measured run. It is immutable and outlives the Program. One that Picture did not make counts
// as closed.
type Picture struct{ d *picture.Document }

// PictureOptions are the settings of Program.Picture. The zero value and nil mean the defaults.
type PictureOptions struct {
	Model   string           // its name, for the title
	Shapes  map[string][]int // of inputs; what Report takes
	Profile *Profile         // a run of this Program with these shapes; nil shows none
}

// Picture describes the plan in full, for shapes as Report does. Backends are asked about nodes again: O(nodes times backends).
func (p *Program) Picture(ctx context.Context, o *PictureOptions) (*Picture, error) {
	if o == nil {
		o = &PictureOptions{}
	}
	r, err := p.Report(ctx, o.Shapes)
	if err != nil {
		return nil, err
	}
	s, err := p.runs().Specialized(background(ctx), o.Shapes)
	if err != nil {
		return nil, public(err)
	}
	src := &picture.Source{Model: o.Model, Spec: s, Backends: p.backends, Registry: p.env.Transfer.Registry, Threads: p.o.Threads, Facts: p.facts(r),
		Folded: []picture.Folded{}}
	for _, f := range r.Folded {
		src.Folded = append(src.Folded, picture.Folded(f))
	}
	for _, x := range r.Rejected {
		src.Rejected = append(src.Rejected, picture.Rejection(x))
	}
	if o.Profile != nil {
		src.Spans, src.Total = o.Profile.spans(), o.Profile.Total
	}
	return &Picture{picture.Build(src)}, nil
}

// facts are what stands at the head of a picture.
func (p *Program) facts(r *Report) []picture.Fact {
	var list []picture.Fact
	add := func(name, format string, args ...any) {
		list = append(list, picture.Fact{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	add("threads", "%d", p.o.Threads)
	add("placement", "%v", p.o.Placement)
	if r.Placement != nil {
		add("modelled time of a run", "%s; no choice takes less than %s", picture.Time(r.Placement.Nanoseconds), picture.Time(r.Placement.Bound))
	}
	if r.Tuned != nil && len(r.Tuned.Runs) > 0 {
		add("tuned", "%s is fastest, %s a run", r.Tuned.Choice, picture.Time(r.Tuned.Runs[0].Nanoseconds))
	}
	alone := ""
	if r.Alone != nil {
		alone = fmt.Sprintf("; %d (%s) if every operator converted by itself", r.Alone.Count, picture.Bytes(r.Alone.Bytes))
	}
	add("conversions in a run", "%d (%s)%s", r.Run.Count, picture.Bytes(r.Run.Bytes), alone)
	for _, d := range r.Devices {
		add("memory on "+d.Name, "%s; no plan needs less than %s; %s without sharing", picture.Bytes(d.Arena), picture.Bytes(d.LowerBound), picture.Bytes(d.Naive))
	}
	return list
}

// WriteHTML writes one file that shows the picture in a browser and loads nothing from anywhere. Text of the model is data in it,
// never markup.
func (p *Picture) WriteHTML(w io.Writer) error {
	return p.write(w, (*picture.Document).WriteHTML)
}

// WriteJSON writes what the picture shows, for tools. Its first member is the version of the form, 1: that of Document in
// internal/picture/document.go. Members may be added to it.
func (p *Picture) WriteJSON(w io.Writer) error {
	return p.write(w, (*picture.Document).WriteJSON)
}

// WriteDOT writes the graph in Graphviz' language, with groups as clusters.
func (p *Picture) WriteDOT(w io.Writer) error {
	return p.write(w, (*picture.Document).WriteDOT)
}

func (p *Picture) write(w io.Writer, as func(*picture.Document, io.Writer) error) error {
	if p == nil || p.d == nil {
		return ErrClosed
	}
	return as(p.d, w)
}

// NodeReport is what became of a node of the model.
type NodeReport struct {
	Where    string   // the backend that has it, "host" for the host scheduler, or "folded: " and why nobody runs it
	Group    int      // id in the Report; -1 where it is folded
	Operator string   // that runs it: its own, or that of the node that it is fused into; "" where it is folded
	Property string   // that fused it with others; "" where it is by itself
	Nodes    []string // of the model that run as one with it, itself included
	Backends []BackendReport
}

// BackendReport is what a backend of the list is for a node: chosen, or not for these reasons. Nanoseconds are the modelled time of
// what runs as one with the node, by itself: no conversions, no launches; 0 where the backend cannot run it, or names no time.
type BackendReport struct {
	Backend     string   `json:"backend"`
	Chosen      bool     `json:"chosen"`
	Nanoseconds float64  `json:"nanoseconds"`
	Reasons     []string `json:"reasons"`
}

// Why tells what became of a node of the model, and what each backend of the list, in its order, is for it. found is false for an
// unknown node.
func (p *Picture) Why(node string) (r NodeReport, found bool) {
	if p == nil || p.d == nil {
		return r, false
	}
	a, found := p.d.Ask(node)
	r = NodeReport{Where: "folded: " + a.Folded, Group: -1}
	if n := a.Node; n != nil {
		r = NodeReport{Where: n.Backend, Group: n.Group, Operator: n.Label, Property: n.Property, Nodes: n.Nodes}
	}
	for _, c := range a.Candidates {
		r.Backends = append(r.Backends, BackendReport(c))
	}
	return r, found
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
