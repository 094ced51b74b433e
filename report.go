package carve

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/exec"
	"github.com/carve-dev/carve/internal/footprint"
	"github.com/carve-dev/carve/memplan"
	"github.com/carve-dev/carve/partition"
)

// Report tells how a Program is carved: for people, and as JSON for tools.
type Report struct {
	Groups      []GroupReport      `json:"groups"`
	Folded      []FoldedReport     `json:"folded"`
	Conversions []ConversionReport `json:"conversions"`
	// Run adds up the conversions of a run.
	Run ConversionSum `json:"conversions_run"`
	// Alone adds up those that a run would make if every operator converted on its own, as with Options.Isolated; nil where
	// they were not counted (Options.CountIsolated), or the model cannot be partitioned so.
	Alone *ConversionSum `json:"conversions_alone"`
	// Eliminated is how many conversions between formats that are equal, that undo others, or that others have done were
	// removed once all were in place.
	Eliminated int              `json:"conversions_eliminated"`
	Devices    []DeviceReport   `json:"devices"`
	Rejected   []RejectedReport `json:"rejected"`
	// Overruled are types that the model declares for results and that are not what is computed.
	Overruled []OverruledReport `json:"overruled,omitempty"`
	Dims      map[string]int64  `json:"dims"`
	Peak      PeakReport        `json:"peak"`
	// Processes are those that backends have for plugins that run out of process.
	Processes []ProcessReport `json:"processes,omitempty"`
	// Placement is there where cost decided who runs what (Options.Placement).
	Placement *PlacementReport `json:"placement,omitempty"`
	// Tuned tells of a choice by measured times; nil where Options.Placement is another one.
	Tuned *TunedReport `json:"tuned,omitempty"`
}

// ProcessReport tells how the process has fared in which a backend's plugin runs, or what else a library brings: how often another
// one took its place since the plugin was opened, and why the last one ended ("" where none has).
type ProcessReport struct {
	Backend  string `json:"backend,omitempty"`
	Library  string `json:"library,omitempty"` // path, of operators, properties and passes
	Restarts int    `json:"restarts"`
	Last     string `json:"last,omitempty"`
}

// ConversionSum is a number of conversions and the bytes of what they convert.
type ConversionSum struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

func (s *ConversionSum) add(bytes int64) {
	s.Count++
	s.Bytes += bytes
}

// PeakReport is the largest sum of bytes that are alive at one time, over all devices, as the compiler's model of memory has
// it: workspaces of kernels are left out. Before is that of the model's order of execution, After that of the compiler's.
type PeakReport struct {
	Before int64 `json:"before_bytes"`
	After  int64 `json:"after_bytes"`
}

// GroupReport is a subgraph. Nodes are the model's.
type GroupReport struct {
	ID      int    `json:"id"`
	Backend string `json:"backend"`
	// Device is where the group runs; "" for the host.
	Device string   `json:"device,omitempty"`
	Nodes  []string `json:"nodes"`
	// Precision is what the backend rounds operands of products to (backend.Info); "" where it does not.
	Precision string `json:"precision,omitempty"`
	// Libraries are those that do some of the group's steps in the place of the backend's own kernels.
	Libraries []string `json:"libraries,omitempty"`
	// Operator is the one that a property gave the group's node; "" where none did.
	Operator string `json:"operator,omitempty"`
	// Ops are the operators and patterns that the backend runs, in order, Convert nodes included.
	Ops []string `json:"ops,omitempty"`
}

// FoldedReport is a node of the model that nobody runs. Kind is constant, forwarded, dead or shape.
type FoldedReport struct {
	Node string `json:"node"`
	Kind string `json:"kind"`
}

// ConversionReport is one change of format. Group is the group inside of which it happens, nil between groups; Constant
// says that it happened when the model was compiled. Via are who makes it: the converters of the path, or the backend inside
// of whose group it is. Bytes are those of From, for constants of To. Loop names the loop that makes it in each iteration, Before
// the one that it stands before; "" for none.
type ConversionReport struct {
	Value    string `json:"value"`
	From     string `json:"from"`
	To       string `json:"to"`
	Bytes    int64  `json:"bytes"`
	Constant bool   `json:"constant"`
	Group    *int   `json:"group"`
	Via      string `json:"via"`
	Loop     string `json:"loop,omitempty"`
	Before   string `json:"before,omitempty"`
	// Detour says why the conversion goes another way than the one that makes it is there for, slower than it was counted: the kernel
	// of a device that reorders what it copies did not compile, for example, and the host reorders. "" where it does not.
	Detour string `json:"detour,omitempty"`
}

// DeviceReport is one device's memory plan, in bytes.
type DeviceReport struct {
	Name       string `json:"name"`
	Arena      int64  `json:"arena_bytes"`
	LowerBound int64  `json:"lower_bound_bytes"`
	Naive      int64  `json:"naive_bytes"`
	// Method names what found the plan: a heuristic of memplan, or its search.
	Method string `json:"method,omitempty"`
}

// RejectedReport says why a node is not on a backend: why the backend turned it down, or was not asked, or why its group was
// run otherwise.
type RejectedReport struct {
	Node    string `json:"node"`
	Backend string `json:"backend"`
	Reason  string `json:"reason"`
}

// OverruledReport is a type that the model declares for a result, and the computed one, which counts.
type OverruledReport struct {
	Value    string `json:"value"`
	Declared string `json:"declared"`
	Computed string `json:"computed"`
}

// Report describes the plan. Sizes are those of the most recent concrete shapes; where the Program has not run yet and
// symbols are open, shapes gives the inputs' shapes by name, and a symbol that no shape binds counts as 1.
func (p *Program) Report(ctx context.Context, shapes map[string][]int) (*Report, error) {
	release, err := p.runs().Hold()
	if err != nil {
		return nil, public(err)
	}
	defer release()
	s, err := p.runs().Specialized(background(ctx), shapes)
	if err != nil {
		return nil, public(err)
	}
	r := &Report{Groups: []GroupReport{}, Folded: []FoldedReport{}, Conversions: []ConversionReport{}, Devices: []DeviceReport{},
		Rejected: []RejectedReport{}, Dims: s.Bindings(), Eliminated: p.removed, Tuned: p.tuned}
	r.Peak = p.peak(ctx, s.Bindings()) // first: it takes much memory for a moment
	w := reportWriter{p: p, r: r, seen: map[string]bool{}}
	w.block(s)
	for _, c := range r.Conversions {
		if !c.Constant {
			r.Run.add(c.Bytes)
		}
	}
	if p.alone != nil {
		r.Alone = &ConversionSum{}
		for i := range p.alone {
			x := &p.alone[i]
			r.Alone.add(w.bytes(&x.Type, x.From, s.Bindings()))
		}
	}
	for _, f := range p.folded {
		if !w.seen[f.Name] {
			w.seen[f.Name] = true
			r.Folded = append(r.Folded, FoldedReport{f.Name, f.Kind.String()})
		}
	}
	if err := p.model.bundle.tell(r); err != nil {
		return nil, err
	}
	for _, c := range slices.Concat(p.wrong, p.machine.Overruled()) {
		r.Overruled = append(r.Overruled, OverruledReport{c.Value, c.Declared.String(), c.Computed.String()})
	}
	for _, a := range s.Plan().Arenas {
		r.Devices = append(r.Devices, DeviceReport{a.Device.String(), a.Height, a.LowerBound, a.Naive, a.Method})
	}
	if len(r.Devices) == 0 {
		r.Devices = append(r.Devices, DeviceReport{Name: "host"})
	}
	for _, b := range p.backends {
		if x, ok := b.(backend.Isolated); ok {
			if s, apart := x.Process(); apart {
				r.Processes = append(r.Processes, ProcessReport{Backend: b.Info().Name, Restarts: s.Restarts, Last: s.Last})
			}
		}
	}
	for _, x := range p.opened.processes {
		s := x.Process()
		r.Processes = append(r.Processes, ProcessReport{Library: x.Library.Path, Restarts: s.Restarts, Last: s.Last})
	}
	return r, nil
}

// peak models the peak with these values of the symbols, in the order of execution and in the model's.
func (p *Program) peak(ctx context.Context, b graph.Bindings) PeakReport {
	m := footprint.Model{Registry: p.env.Transfer.Registry, Backends: p.backends, Compiled: p.o.compileOptions, Logger: p.o.Logger, Bindings: b, Bounds: p.o.bounded()}
	r := PeakReport{After: m.Peak(ctx, p.g)}
	r.Before = r.After
	if m.Orders = p.before; len(m.Orders) > 0 {
		r.Before = m.Peak(ctx, p.g)
	}
	return r
}

type reportWriter struct {
	p    *Program
	r    *Report
	seen map[string]bool // nodes of the model that are accounted for
	loop string          // in whose body the block is
}

// block reports the steps of a block, and of the regions in it.
func (w *reportWriter) block(s *exec.Spec) {
	b := s.Block()
	w.packs(b.Graph)
	for i := range b.Steps {
		st := &b.Steps[i]
		switch st.Kind {
		case exec.StepGroup:
			id := st.ID
			g := GroupReport{ID: id, Backend: st.Node.Backend, Nodes: w.fresh(st.Node.Provenance()), Precision: st.Info().Precision,
				Libraries: s.Requirements(i).Libraries}
			if d := st.Device(); !d.IsHost() {
				g.Device = d.String()
			}
			if op := st.Node.Op; op.Domain != graph.CarveDomain {
				g.Operator = op.String()
			}
			body := st.Node.Regions[0].Graph
			g.Ops = make([]string, 0, body.NumNodes())
			for n := range body.Nodes() {
				op := n.Op.String()
				if n.IsCarve(graph.OpFused) && n.Op.Domain == graph.CarveDomain {
					op = n.Str("pattern", op)
				}
				g.Ops = append(g.Ops, op)
				g.Nodes = append(g.Nodes, w.ofRegions(n)...)
			}
			w.r.Groups = append(w.r.Groups, g)
			w.inside(s, st.Node, id)
			w.forms(st.Node.Regions[0].Graph, s.Requirements(i).Constants)
		case exec.StepConvert:
			w.convert(st.Node.Inputs[0], st.Node.Outputs[0].Format, s.Bindings(), st.Hop.Name, nil)
			if why := w.p.runs().Detour(st.Node); why != nil {
				w.r.Conversions[len(w.r.Conversions)-1].Detour = why.Error()
			}
			w.r.Conversions[len(w.r.Conversions)-1].Before = st.Before()
		case exec.StepHost:
			w.r.Groups = append(w.r.Groups, GroupReport{ID: st.ID, Backend: partition.HostBackend,
				Nodes: w.fresh(st.Node.Provenance()), Ops: []string{st.Node.Op.String()}})
			outer := w.loop
			w.loop = st.LoopName(outer)
			for _, inner := range s.Inner(i) {
				w.block(inner)
			}
			w.loop = outer
		}
	}
	w.fallen(b)
	if res := w.p.results[b.Graph]; res != nil {
		w.r.Placement = w.r.Placement.with(res.Placement(), b == w.p.machine.Main())
		for _, x := range res.Explain() {
			w.r.Rejected = append(w.r.Rejected, RejectedReport{x.Node, x.Backend, x.Reason.String()})
		}
	}
}

// ofRegions returns the nodes in the regions of a node whose backend runs them with it.
func (w *reportWriter) ofRegions(n *graph.Node) []string {
	var out []string
	for _, r := range n.Regions {
		for inner := range r.Graph.Nodes() {
			out = append(out, w.fresh(inner.Provenance())...)
			out = append(out, w.ofRegions(inner)...)
		}
	}
	return out
}

// fallen reports the groups that fell back to the reference kernels for some shapes, or in a run.
func (w *reportWriter) fallen(b *exec.Block) {
	for i := range b.Steps {
		n := b.Steps[i].Node
		why := w.p.machine.Fallen(n)
		if why == nil {
			continue
		}
		for _, name := range n.Provenance() {
			w.r.Rejected = append(w.r.Rejected, RejectedReport{name, n.Backend, why.String()})
		}
	}
}

// fresh returns the names that no group has yet: a node that was duplicated stands with the first.
func (w *reportWriter) fresh(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		if !w.seen[n] {
			w.seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

// inside reports the conversions in a group.
func (w *reportWriter) inside(s *exec.Spec, group *graph.Node, id int) {
	for n := range group.Regions[0].Graph.Nodes() {
		if n.IsCarve(graph.OpConvert) {
			w.convert(n.Inputs[0], n.Outputs[0].Format, s.Bindings(), group.Backend, &id)
		}
	}
}

// bytes returns the size of a value of some type in a format, 0 where it is not known.
func (w *reportWriter) bytes(t *graph.Type, f graph.Format, b graph.Bindings) int64 {
	dims, err := t.Shape.Eval(b, nil)
	if err != nil {
		return 0
	}
	n, err := w.p.env.Transfer.Registry.Size(f, t.DType, dims)
	if err != nil {
		return 0
	}
	return n
}

// constant reports a constant that was converted.
func (w *reportWriter) constant(name string, t *tensor.Tensor, from, to graph.Format) {
	n, _ := w.p.env.Transfer.Registry.Size(to, t.DType, t.Shape)
	path, _ := w.p.env.Transfer.Registry.PathOf(from, to, t.DType, len(t.Shape))
	via := make([]string, len(path))
	for i, c := range path {
		via[i] = c.Name
	}
	rank := len(t.Shape)
	w.r.Conversions = append(w.r.Conversions, ConversionReport{Value: name, From: from.Name(rank), To: to.Name(rank), Bytes: n,
		Constant: true, Via: strings.Join(via, ", ")})
}

// packs reports the conversions of constants.
func (w *reportWriter) packs(g *graph.Graph) {
	res := w.p.results[g]
	if res == nil {
		return
	}
	for _, x := range res.Packs {
		w.constant(x.Name, x.Constant, graph.HostFormat, x.Format)
	}
}

// forms reports the constants that an instance wanted in formats of its own.
func (w *reportWriter) forms(body *graph.Graph, forms []backend.ConstantForm) {
	var constants []*graph.Value
	for v := range body.Constants() {
		constants = append(constants, v)
	}
	for _, f := range forms {
		v := constants[f.Index]
		w.constant(v.Name, v.Const, v.Format, f.Format)
	}
}

func (w *reportWriter) convert(v *graph.Value, to graph.Format, b graph.Bindings, via string, group *int) {
	rank := len(v.Type.Shape)
	w.r.Conversions = append(w.r.Conversions, ConversionReport{Value: exec.ValueName(v), From: v.Format.Name(rank), To: to.Name(rank),
		Bytes: w.bytes(&v.Type, v.Format, b), Group: group, Via: via, Loop: w.loop})
}

// Why returns where a node of the model is, the name of its group's backend or "folded: " and the kind of FoldedReport, and for
// every other backend of the list, those before that one and those behind it, the reason why the node is not there. Where is "" for
// a node that the host scheduler runs; found is false then, as for an unknown node.
func (r *Report) Why(node string) (where string, reasons []RejectedReport, found bool) {
	for _, g := range r.Groups {
		if slices.Contains(g.Nodes, node) {
			where, found = g.Backend, true
		}
	}
	for _, f := range r.Folded {
		if f.Node == node {
			where, found = "folded: "+f.Kind, true
		}
	}
	for _, x := range r.Rejected {
		if x.Node == node {
			reasons = append(reasons, x)
		}
	}
	return where, reasons, found
}

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
	release, err := p.runs().Hold()
	if err != nil {
		return nil, public(err)
	}
	defer release()
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
