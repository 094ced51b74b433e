package carve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bundle"
	"github.com/carve-dev/carve/internal/exec"
	"github.com/carve-dev/carve/internal/picture"
	"github.com/carve-dev/carve/internal/units"
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
	o = cmp.Or(o, &PictureOptions{})
	release, err := p.runs().Hold()
	if err != nil {
		return nil, public(err)
	}
	defer release()
	r, err := p.Report(ctx, o.Shapes)
	if err != nil {
		return nil, err
	}
	s, err := p.runs().Specialized(background(ctx), o.Shapes)
	if err != nil {
		return nil, public(err)
	}
	src := &picture.Source{Model: o.Model, Spec: s, Backends: p.backends, Registry: p.env.Transfer.Registry, Threads: p.o.Threads, Facts: p.facts(r),
		Folded: []picture.Folded{}, Sizes: p.o.bounded()}
	if p.times != nil {
		src.Measured = nodeTimes(p.times())
	}
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
		add("modelled time of a run", "%s; no choice takes less than %s", units.Time(r.Placement.Nanoseconds), units.Time(r.Placement.Bound))
	}
	if r.Tuned != nil && len(r.Tuned.Runs) > 0 {
		add("tuned", "%s is fastest, %s a run", r.Tuned.Choice, units.Time(r.Tuned.Runs[0].Nanoseconds))
		for _, held := range r.Tuned.Held() {
			add("measured at", "%s", held)
		}
	}
	alone := ""
	if r.Alone != nil {
		alone = fmt.Sprintf("; %d (%s) if every operator converted by itself", r.Alone.Count, units.Bytes(r.Alone.Bytes))
	}
	add("conversions in a run", "%d (%s)%s", r.Run.Count, units.Bytes(r.Run.Bytes), alone)
	for _, d := range r.Devices {
		add("memory on "+d.Name, "%s; no plan needs less than %s; %s without sharing", units.Bytes(d.Arena), units.Bytes(d.LowerBound), units.Bytes(d.Naive))
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
// what runs as one with the node, by itself: no conversions, no launches; 0 where the backend cannot run it, or names no time. Measured
// is what tuning found for that, in the best formats.
type BackendReport struct {
	Backend     string   `json:"backend"`
	Chosen      bool     `json:"chosen"`
	Nanoseconds float64  `json:"nanoseconds"`
	Measured    float64  `json:"measured_nanoseconds,omitempty"`
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

	GotText, WantText string // the same where elements are strings
}

// String describes the difference in one line.
func (d *Difference) String() string { return (*exec.Difference)(d).String() }

// Check runs the program once and compares every group with the reference kernels, on the inputs that the group had. Where
// a group differs, its nodes are compiled and run one by one on their backend, each on what that made of the nodes in front, and
// compared with the reference kernels on the same operands: Check returns the first that differs, or the group where its results are
// not those of its nodes. It returns nil where everything agrees. Results of eight-bit quantisation may be one step off. What
// rounding decides though every node is right, such as the index of one of two values that are nearly equal, is no difference:
// Options.Logger is warned, with the node.
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

// BundleOptions are the settings of SaveBundle; nil means the defaults.
type BundleOptions struct {
	// Portable keeps the model as it was loaded beside what was compiled, so that it is compiled anew where the bundle does not
	// fit. The file is larger by the weights that were packed.
	Portable bool
	// Shapes are the inputs' for which the plan in the bundle has memory, and whose constants are kept, as Report means them.
	Shapes map[string][]int
}

// SaveBundle writes one file that holds the compiled model: the carved graph, the plan, the packed weights, laid out to be mapped,
// and what backends saved of their executables. Open opens it, and Compile of that makes a Program without simplifying,
// choosing or packing anything. The file is written under another name first, so that whoever reads path finds the old file
// or the new one. The Program must not be closed meanwhile. The error wraps tensor.ErrUnsupported where packed constants lie in
// the memory of a device, ErrInput for a Program that comes from a bundle and for a path that is empty, and ErrClosed where the Program
// or its Model is closed.
func (p *Program) SaveBundle(ctx context.Context, path string, o *BundleOptions) error {
	ctx = background(ctx)
	if o == nil {
		o = &BundleOptions{}
	}
	if path == "" {
		return fmt.Errorf("%w: the bundle has no path", ErrInput)
	}
	release, err := p.runs().Hold()
	if err != nil {
		return public(err)
	}
	defer release()
	if p.model.bundle != nil {
		return fmt.Errorf("%w: the program comes from a bundle", ErrInput)
	}
	s, err := p.runs().Specialized(ctx, o.Shapes)
	if err != nil {
		return public(err)
	}
	w := bundler{p: p, ctx: ctx, places: map[*graph.Node][2]int{}}
	if err := w.write(s, o); err != nil {
		return err
	}
	for i := range w.parts {
		write := w.parts[i].Write
		w.parts[i].Write = func(out io.Writer) error { return write(&cancelled{ctx, out}) }
	}
	return bundle.Create(path, w.parts)
}

// cancelled is a writer that fails when its context has ended.
type cancelled struct {
	ctx context.Context
	w   io.Writer
}

// Write implements io.Writer.
func (c *cancelled) Write(b []byte) (n int, err error) {
	const part = 1 << 20
	for n < len(b) && err == nil {
		var k int
		if err = c.ctx.Err(); err == nil {
			k, err = c.w.Write(b[n:min(n+part, len(b))])
		}
		n += k
	}
	return n, err
}

// bundler collects the sections of a bundle.
type bundler struct {
	p      *Program
	ctx    context.Context
	cons   bundle.Constants
	notes  bundle.Notes
	parts  []bundle.Part
	places map[*graph.Node][2]int // of groups: block, and place among its nodes
}

func (w *bundler) write(s *exec.Spec, o *BundleOptions) error {
	if err := w.p.model.retain(); err != nil {
		return err
	}
	defer w.p.model.release()
	saved, err := w.p.savedPlan(w.ctx, o.Shapes)
	if err != nil {
		return err
	}
	for _, f := range saved.Facts {
		w.notes.Facts = append(w.notes.Facts, [2]string{f.Key, f.Value})
	}
	w.notes.Options = bundledOptions(&w.p.o)
	for _, v := range w.p.model.outputs() {
		w.notes.Outputs = append(w.notes.Outputs, bundle.Port{Name: v.Name, Type: v.Type.String()})
	}
	if err := w.graphs(o.Portable); err != nil {
		return err
	}
	if err := w.defaults(); err != nil {
		return err
	}
	if err := w.forms(s); err != nil {
		return err
	}
	if err := w.executables(); err != nil {
		return err
	}
	r, err := w.p.Report(w.ctx, o.Shapes)
	if err != nil {
		return err
	}
	told, err := json.Marshal(&Report{Folded: r.Folded, Rejected: r.Rejected, Overruled: r.Overruled, Placement: r.Placement, Eliminated: r.Eliminated})
	if err != nil {
		return err
	}
	notes, err := w.notes.Part()
	if err != nil {
		return err
	}
	first := []bundle.Part{notes, bundle.Bytes(bundle.ID{Kind: bundle.KindReport}, told), {ID: bundle.ID{Kind: bundle.KindPlan}, Write: saved.Write}}
	w.parts = slices.Concat(first, w.parts, w.cons.Parts())
	return nil
}

// graphs takes the carved graph, what it asks of shapes, and the original where it is wanted.
func (w *bundler) graphs(portable bool) error {
	block := 0
	_ = eachBlock(w.p.g, func(g *graph.Graph) error {
		i := 0
		for n := range g.Nodes() {
			w.places[n] = [2]int{block, i}
			i++
		}
		block++
		return nil
	})
	list := map[uint32]*graph.Graph{bundle.Carved: w.p.g}
	if w.p.env.Shapes != nil {
		w.notes.Checks = true
		list[bundle.Checks] = w.p.env.Shapes.Graph()
	}
	if portable {
		list[bundle.Original] = w.p.model.graph
	}
	for _, k := range slices.Sorted(maps.Keys(list)) {
		parts, err := w.cons.Graph(k, list[k])
		if err != nil {
			return err
		}
		w.parts = append(w.parts, parts...)
	}
	return nil
}

func (w *bundler) defaults() error {
	of := w.p.model.defaults()
	for _, name := range slices.Sorted(maps.Keys(of)) {
		i, err := w.cons.Add(of[name])
		if err != nil {
			return fmt.Errorf("input %q: %w", name, err)
		}
		if w.notes.Defaults == nil {
			w.notes.Defaults, w.notes.Types = map[string]uint32{}, map[string]string{}
		}
		w.notes.Defaults[name], w.notes.Types[name] = i, graph.TypeOf(of[name]).String()
	}
	return nil
}

// forms takes the constants that instances want in formats of their own.
func (w *bundler) forms(s *exec.Spec) error {
	steps := s.Block().Steps
	for i := range steps {
		for _, inner := range s.Inner(i) {
			if err := w.forms(inner); err != nil {
				return err
			}
		}
		wanted := s.Requirements(i).Constants
		have := s.Constants(i)
		if len(wanted) == 0 || len(have) < len(wanted) {
			continue // or it fell back
		}
		place := w.places[steps[i].Node]
		for k, f := range wanted {
			c, err := w.cons.Add(have[len(have)-len(wanted)+k])
			if err != nil {
				return err
			}
			w.notes.Forms = append(w.notes.Forms, bundle.Form{Block: place[0], Group: place[1], Index: f.Index, Format: f.Format.String(), Constant: c})
		}
	}
	return nil
}

// executables takes what backends save.
func (w *bundler) executables() error {
	for _, n := range sortedNodes(w.p.groups) {
		x, ok := w.p.groups[n].(backend.Saver)
		i := slices.IndexFunc(w.p.backends, func(b backend.Backend) bool { return b.Info().Name == n.Backend })
		if !ok || i < 0 {
			continue
		}
		l, ok := w.p.backends[i].(backend.Loader)
		if !ok {
			continue
		}
		b, err := x.Save(w.ctx)
		if err != nil {
			return compileError(n.Provenance(), n.Backend, err)
		}
		if b == nil {
			continue
		}
		place, number := w.places[n], uint32(len(w.notes.Saved))
		w.notes.Saved = append(w.notes.Saved, bundle.Saved{Block: place[0], Group: place[1], Fingerprint: l.Fingerprint(), Number: number})
		w.parts = append(w.parts, bundle.Bytes(bundle.ID{Kind: bundle.KindSaved, Number: number}, b))
	}
	return nil
}
