package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/internal/flops"
	"github.com/carve-dev/carve/internal/units"
	"github.com/carve-dev/carve/partition"
)

type partitionFlags struct {
	modelFlags
	json bool
	why  string
	svg  string
}

func (a *app) partitionCommand() *cobra.Command {
	f := &partitionFlags{}
	cmd := &cobra.Command{
		Use:   "partition MODEL",
		Short: "Shows how a model is carved: groups, conversions, memory",
		Long: "partition compiles a model and shows its subgraphs, the share of nodes and of modelled time per backend, conversions\n" +
			"with their bytes, and per device the arena, its lower bound and the total without any sharing.\n\n" +
			"Conversions are compared with those of the same model partitioned a second time, with every operator (what is fused\n" +
			"being one) a subgraph of its own that takes and gives row-major tensors of the host.\n\n" +
			"The modelled time of a node is the larger of its FLOPs at 100 GFLOP/s and its operands and results at 20 GB/s.\n\n" +
			"Nodes go by their names in the model; one without a unique name by its first output; those in branches as\n" +
			"owner/attribute/name, and in called functions as caller/name.",
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error { return a.partition(cmd.Context(), args[0], f) },
	}
	f.add(cmd, shaping|overriding|compiling)
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().StringVar(&f.why, "why", "", "say where `NODE` is, what it is fused with, and what every backend of the list is for it: chosen, or why not")
	cmd.Flags().StringVar(&f.svg, "svg", "", "draw the arena over time to `FILE.svg`; with several devices, FILE-DEVICE.svg for all but the first")
	return cmd
}

// drawPlans writes a picture of every device's memory plan.
func (a *app) drawPlans(ctx context.Context, j *job, path string) error {
	shapes, err := j.shapes()
	if err != nil {
		return err
	}
	plans, err := j.program.Plan(ctx, shapes)
	if err != nil {
		return err
	}
	if len(plans) == 0 { // nothing is planned: an empty arena
		plans = []carve.MemoryPlan{{Device: "host"}}
	}
	names := outputNames{}
	for i := range plans {
		file := path
		if i > 0 {
			ext := filepath.Ext(path)
			file = strings.TrimSuffix(path, ext) + "-" + names.next(plans[i].Device) + ext
		}
		if err := replaceFile(file, plans[i].WriteSVG); err != nil {
			return err
		}
	}
	return nil
}

// whyReport is the answer of --why with --json. Group is nil for a node that nobody runs.
type whyReport struct {
	Node     string                 `json:"node"`
	Where    string                 `json:"where"`
	Group    *int                   `json:"group"`
	Operator string                 `json:"operator,omitempty"`
	Property string                 `json:"property,omitempty"`
	Nodes    []string               `json:"nodes,omitempty"`
	Backends []carve.BackendReport  `json:"backends"`
	Rejected []carve.RejectedReport `json:"rejected"`
}

func (a *app) partition(ctx context.Context, path string, f *partitionFlags) error {
	if err := apart("--svg", f.svg, f.reads(path)...); err != nil {
		return err
	}
	f.edit = func(o *carve.Options) { o.CountIsolated = f.why == "" }
	j, err := a.compile(ctx, path, &f.modelFlags)
	if err != nil {
		return err
	}
	defer j.close()
	r, err := j.report(ctx)
	if err != nil {
		return err
	}
	if f.svg != "" {
		if err := a.drawPlans(ctx, j, f.svg); err != nil {
			return err
		}
	}
	if f.why != "" {
		return a.why(ctx, j, f)
	}
	j.binding.say(a)
	if f.json {
		return writeJSON(a.stdout, r)
	}
	g, err := concrete(j.model.Graph(), j.binding)
	if err != nil {
		return err
	}
	count, err := flops.Of(g, j.binding.values)
	if err != nil {
		return err
	}
	a.printPartition(r, count)
	return nil
}

// why tells where a node is, what runs as one with it, and what every backend of the list is for it.
func (a *app) why(ctx context.Context, j *job, f *partitionFlags) error {
	p, err := j.picture(ctx, f.why, nil)
	if err != nil {
		return err
	}
	n, found := p.Why(f.why)
	if !found {
		return fmt.Errorf("--why %s: the model has no such node; carve dump MODEL --after name-nodes prints them", f.why)
	}
	if f.json {
		out := whyReport{Node: f.why, Where: n.Where, Operator: n.Operator, Property: n.Property, Nodes: n.Nodes, Backends: n.Backends, Rejected: []carve.RejectedReport{}}
		if n.Group >= 0 {
			out.Group = &n.Group
		}
		for _, b := range n.Backends {
			for _, why := range b.Reasons {
				out.Rejected = append(out.Rejected, carve.RejectedReport{Node: f.why, Backend: b.Backend, Reason: why})
			}
		}
		return writeJSON(a.stdout, out)
	}
	where := n.Where
	switch {
	case n.Where == partition.HostBackend:
		where = "host: the host scheduler runs control flow, sequences, optionals and maps"
	case n.Group >= 0:
		where += fmt.Sprintf(", group %d", n.Group)
	}
	fmt.Fprintln(a.stdout, cell(f.why+": "+where))
	if n.Property != "" {
		fmt.Fprintln(a.stdout, "  "+cell(fmt.Sprintf("fused by %s: %s (%s)", n.Property, n.Operator, strings.Join(n.Nodes, ", "))))
	}
	for _, b := range n.Backends {
		cost := ""
		if b.Nanoseconds > 0 {
			cost = fmt.Sprintf(" (modelled %v by itself)", time.Duration(b.Nanoseconds).Round(100*time.Nanosecond))
			if b.Measured > 0 {
				cost = fmt.Sprintf("%s, measured %v)", strings.TrimSuffix(cost, ")"), time.Duration(b.Measured).Round(100*time.Nanosecond))
			}
		}
		if b.Chosen {
			fmt.Fprintln(a.stdout, "  "+cell("on "+b.Backend+": chosen"+cost))
		}
		for _, why := range b.Reasons {
			fmt.Fprintln(a.stdout, "  "+cell(fmt.Sprintf("not on %s: %s%s", b.Backend, why, cost)))
		}
	}
	return nil
}

// modelled returns the modelled time of a node's work, in seconds.
func modelled(w *flops.Work) float64 {
	const flopsPerSecond, bytesPerSecond = 100e9, 20e9
	return w.Runs * max(w.FLOPs/flopsPerSecond, w.Bytes/bytesPerSecond)
}

// part is what a backend has of a model.
type part struct {
	backend       string
	groups, nodes int
	seconds       float64
}

// parts adds the groups up by backend, in the order of their first groups.
func parts(r *carve.Report, count *flops.Count) []*part {
	cost := map[string]float64{}
	for i := range count.Nodes {
		cost[count.Nodes[i].Node] += modelled(&count.Nodes[i])
	}
	index := map[string]*part{}
	var out []*part
	for _, g := range r.Groups {
		p := index[g.Backend]
		if p == nil {
			p = &part{backend: g.Backend}
			index[g.Backend] = p
			out = append(out, p)
		}
		p.groups++
		p.nodes += len(g.Nodes)
		for _, n := range g.Nodes {
			p.seconds += cost[n]
		}
	}
	return out
}

func (a *app) printPartition(r *carve.Report, count *flops.Count) {
	list := parts(r, count)
	var nodes int
	var seconds float64
	for _, p := range list {
		nodes += p.nodes
		seconds += p.seconds
	}
	t := newTable(a.stdout)
	row(t, "backend", "groups", "nodes", "modelled time")
	for _, p := range list {
		row(t, p.backend, p.groups, fmt.Sprintf("%d (%s)", p.nodes, share(float64(p.nodes), float64(nodes))), share(p.seconds, seconds))
	}
	t.Flush()
	folded := map[string]int{}
	for _, f := range r.Folded {
		folded[f.Kind]++
	}
	var kinds []string
	for _, k := range []string{"constant", "forwarded", "dead", "shape"} {
		if folded[k] > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", folded[k], k))
		}
	}
	if len(kinds) > 0 {
		fmt.Fprintf(a.stdout, "folded: %s\n", strings.Join(kinds, ", "))
	}
	if p := r.Placement; p != nil {
		fmt.Fprintf(a.stdout, "chosen by cost: %.3f ms, of at least %.3f ms\n", p.Nanoseconds/1e6, p.Bound/1e6)
	}
	a.printTuned(r.Tuned)
	a.printGroups(r)
	a.printConversions(r)
	fmt.Fprintln(a.stdout)
	t = newTable(a.stdout)
	row(t, "device", "arena", "lower bound", "naive")
	for _, d := range r.Devices {
		row(t, d.Name, units.Bytes(d.Arena), units.Bytes(d.LowerBound), units.Bytes(d.Naive))
	}
	t.Flush()
	fmt.Fprintf(a.stdout, "peak of live bytes without workspace: %s in the model's order, %s in the chosen one\n", units.Bytes(r.Peak.Before),
		units.Bytes(r.Peak.After))
}

// most is how many groups the table lists.
const most = 40

func (a *app) printGroups(r *carve.Report) {
	fmt.Fprintln(a.stdout)
	t := newTable(a.stdout)
	row(t, "group", "backend", "nodes", "from", "to")
	for i, g := range r.Groups {
		if i == most {
			row(t, "…", "", fmt.Sprintf("%d more", len(r.Groups)-most))
			break
		}
		from, to := "", ""
		if n := len(g.Nodes); n > 0 {
			from, to = g.Nodes[0], g.Nodes[n-1]
		}
		where := g.Backend
		if g.Device != "" {
			where += " on " + g.Device
		}
		if g.Precision != "" {
			where += ", products in " + g.Precision
		}
		if len(g.Libraries) > 0 {
			where += ", with " + strings.Join(g.Libraries, " and ")
		}
		row(t, g.ID, where, len(g.Nodes), from, to)
	}
	t.Flush()
}

// printConversions lists the conversions, those of a run first, and compares them with what operators would need that know
// nothing of each other.
func (a *app) printConversions(r *carve.Report) {
	var constants, inside int
	var packed int64
	for _, c := range r.Conversions {
		switch {
		case c.Constant:
			constants++
			packed += c.Bytes
		case c.Group != nil:
			inside++
		}
	}
	fmt.Fprintf(a.stdout, "\nconversions: %d between groups, %d inside groups, %s a run; %d of constants, %s once\n", r.Run.Count-inside, inside,
		units.Bytes(r.Run.Bytes), constants, units.Bytes(packed))
	if r.Alone != nil {
		fmt.Fprintf(a.stdout, "saved: %d, %s a run, of the %d, %s, of operators that convert on their own; removed as superfluous: %d\n",
			r.Alone.Count-r.Run.Count, units.Bytes(r.Alone.Bytes-r.Run.Bytes), r.Alone.Count, units.Bytes(r.Alone.Bytes), r.Eliminated)
	}
	t := newTable(a.stdout)
	listed := 0
	for _, once := range []bool{false, true} {
		for _, c := range r.Conversions {
			if c.Constant != once {
				continue
			}
			if once {
				if listed++; listed > listedConstants {
					continue
				}
			}
			where := "between groups"
			switch {
			case once:
				where = "once"
			case c.Group != nil:
				where = fmt.Sprintf("in group %d", *c.Group)
			}
			if c.Before != "" {
				where = "before " + c.Before
			}
			if c.Loop != "" {
				where += ", in each iteration of " + c.Loop
			}
			if c.Detour != "" {
				where += ", another way than counted: " + c.Detour
			}
			row(t, "  "+c.Value, c.From+" → "+c.To, units.Bytes(c.Bytes), where, c.Via)
		}
	}
	t.Flush()
	if more := constants - listedConstants; more > 0 {
		fmt.Fprintf(a.stdout, "  … and %d more of constants (--json lists them)\n", more)
	}
}

// listedConstants is how many conversions of constants are listed: there is one for most weights of a model.
const listedConstants = 20
