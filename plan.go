package carve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/footprint"
	"github.com/carve-dev/carve/internal/plan"
	"github.com/carve-dev/carve/memplan/schedule"
	"github.com/carve-dev/carve/partition"
)

// Errors about plans, for errors.Is.
var (
	// ErrPlanSyntax says that a text is no plan; the error names line and column.
	ErrPlanSyntax = plan.ErrSyntax
	// ErrPlanMisfit says that a plan does not hold for what is compiled; the error is a *PlanError.
	ErrPlanMisfit = plan.ErrMisfit
)

// PlanError is the first thing in which a plan differs from what is compiled: Where it is, what the Plan has and what was Found,
// "" for nothing. It wraps ErrPlanMisfit.
type PlanError = plan.MisfitError

// Plan is what a compilation decided, as Program.SavePlan writes it and Options.Plan takes it: who runs which node, in which
// formats and groups and in which order, with what it holds for. It is immutable.
type Plan struct{ p plan.Plan }

// ParsePlan reads the text of a plan, which may come from anywhere: work and memory are linear in its length. The error wraps
// ErrPlanSyntax.
func ParsePlan(text string) (*Plan, error) {
	p, err := plan.Parse(text)
	if err != nil {
		return nil, err
	}
	return &Plan{*p}, nil
}

// of returns what is in the plan; nil is an empty one.
func (p *Plan) of() *plan.Plan {
	if p == nil {
		return &plan.Plan{}
	}
	return &p.p
}

// String returns the text.
func (p *Plan) String() string {
	var b strings.Builder
	_ = p.of().Write(&b) // a Builder takes everything
	return b.String()
}

// Diff returns in what another plan differs, in words, a line each; none where both say the same.
func (p *Plan) Diff(other *Plan) []string {
	list := plan.Diff(p.of(), other.of())
	out := make([]string, len(list))
	for i, d := range list {
		out[i] = d.String()
	}
	return out
}

// Facts returns what the plan holds for, "key: value" each.
func (p *Plan) Facts() []string {
	out := make([]string, len(p.of().Facts))
	for i, f := range p.of().Facts {
		out[i] = f.Key + ": " + f.Value
	}
	return out
}

// PlanPart is what a backend has of a graph in a plan.
type PlanPart = plan.Part

// Summary returns what each backend has of each graph.
func (p *Plan) Summary() []PlanPart { return p.of().Parts() }

// savedPlan describes what was decided, with arenas for the shapes that Report means by shapes.
func (p *Program) savedPlan(ctx context.Context, shapes map[string][]int) (*plan.Plan, error) {
	arenas, err := p.Plan(ctx, shapes)
	if err != nil {
		return nil, err
	}
	facts, err := p.o.factsOf(p.model, p.backends)
	if err != nil {
		return nil, err
	}
	facts = append(facts, plan.Fact{Key: placementFact, Value: p.o.placementName()})
	if turns := p.turns(); turns != "" {
		facts = append(facts, plan.Fact{Key: turnsFact, Value: turns})
	}
	facts = append(facts, p.measuredFacts()...)
	out := &plan.Plan{Facts: facts, Bans: plan.BansOf(p.bans)}
	err = eachBlock(p.g, func(g *graph.Graph) error {
		out.Graphs = append(out.Graphs, plan.Of(g, p.results[g]))
		return nil
	})
	for i := range arenas {
		m := &arenas[i]
		a := plan.Arena{Device: m.Device, Bytes: m.Arena, Bound: m.LowerBound, Method: m.Method}
		for _, b := range m.Buffers {
			a.Buffers = append(a.Buffers, plan.Buffer{Name: b.Name, Offset: b.Offset, Bytes: b.Bytes, First: b.First, End: b.End})
		}
		out.Arenas = append(out.Arenas, a)
	}
	return out, err
}

// SavePlan writes what was decided when the Program was compiled as a text that people review: placement, formats, groups, order of
// execution and modelled costs, memory for the shapes that Report means by shapes, and what it holds for: the model's
// content, options, backends with versions and processors, threads. Programs that were compiled alike write the same bytes.
// Compile takes it as Options.Plan. The first call for a Model reads all of its weights.
func (p *Program) SavePlan(ctx context.Context, w io.Writer, shapes map[string][]int) error {
	release, err := p.runs().Hold()
	if err != nil {
		return public(err)
	}
	defer release()
	if w == nil {
		return fmt.Errorf("%w: no writer", ErrInput)
	}
	if b := p.model.bundle; b != nil {
		text, err := b.plan()
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	}
	saved, err := p.savedPlan(background(ctx), shapes)
	if err != nil {
		return err
	}
	return saved.Write(w)
}

// modelFact is the key of what identifies the model.
const modelFact = "model"

// Keys of how a plan came about, which it brings with it where it is applied.
const (
	placementFact = "placement"
	turnsFact     = "turns"
	measuredFact  = "measured"
)

// factsOf returns what a plan holds for: a model's content, and the options and backends.
func (o *Options) factsOf(m *Model, list []backend.Backend) ([]plan.Fact, error) {
	hash, err := m.contentHash()
	return slices.Insert(o.facts(list), 0, plan.Fact{Key: modelFact, Value: hash}), err
}

// facts returns all that a compilation's decisions depend on, the model aside.
func (o *Options) facts(list []backend.Backend) []plan.Fact {
	out := []plan.Fact{{Key: "machine", Value: runtime.GOOS + "/" + runtime.GOARCH}, {Key: "threads", Value: strconv.Itoa(o.Threads)}}
	for _, b := range list {
		i := b.Info()
		out = append(out, plan.Fact{Key: "backend", Value: fmt.Sprintf("%s, version %s, %s", i.Name, i.Version, i.Processor)})
	}
	add := func(key, value string) { out = append(out, plan.Fact{Key: key, Value: value}) }
	for _, c := range o.Backends {
		for _, k := range slices.Sorted(maps.Keys(c.Options)) {
			add("option of "+c.Name, k+" = "+c.Options[k])
		}
	}
	sizes := func(key string, of map[string]int) {
		for _, k := range slices.Sorted(maps.Keys(of)) {
			add(key, fmt.Sprintf("%s = %d", k, of[k]))
		}
	}
	sizes("dim", o.Dims)
	sizes("bound", o.Bounds)
	for _, k := range slices.Sorted(maps.Keys(o.Shapes)) {
		add("shape", fmt.Sprintf("%s = %v", k, o.Shapes[k]))
	}
	for _, p := range o.Pins {
		add("pin", fmt.Sprintf("%+v", p))
	}
	for _, b := range slices.Sorted(maps.Keys(o.Properties)) {
		for _, p := range o.Properties[b] {
			add("property of "+b, p.Name())
		}
	}
	for _, b := range slices.Sorted(maps.Keys(o.DisabledProperties)) {
		add("disabled properties of "+b, strings.Join(slices.Sorted(slices.Values(o.DisabledProperties[b])), ", "))
	}
	for i := range o.Passes {
		add("pass", o.Passes[i].Name+" "+o.Passes[i].where())
	}
	for _, s := range []struct {
		key string
		on  bool
	}{{"strict", o.Strict}, {"isolated", o.Isolated}, {"disconnected", o.Disconnected}, {"keep order", o.KeepOrder}} {
		if s.on {
			add(s.key, "yes")
		}
	}
	add("constants folded", fmt.Sprintf("up to %d bytes", o.MaxFold))
	add("smallest group", fmt.Sprintf("%d nodes", max(o.MinNodes, 1)))
	return out
}

// placementName returns how it was decided who runs what: as the plan that was applied says.
func (o *Options) placementName() string {
	if o.Plan != nil {
		if name := o.Plan.of().Fact(placementFact); name != "" {
			return name
		}
	}
	return o.Placement.String()
}

// turns names the backends in the order in which they took nodes by turns, "" where they were chosen together.
func (p *Program) turns() string {
	if p.o.Plan != nil {
		return p.o.Plan.of().Fact(turnsFact)
	}
	by, ok := p.chooser.(partition.Priority)
	if !ok {
		return ""
	}
	var names []string
	if len(by.Order) == 0 {
		for _, b := range p.backends {
			names = append(names, b.Info().Name)
		}
	}
	for _, i := range by.Order {
		names = append(names, p.backends[i].Info().Name)
	}
	return strings.Join(names, ", ")
}

// contentHash identifies the model's graph and weights: SHA-256 of the text form, which has checksums of large tensors.
func (m *Model) contentHash() (string, error) {
	m.hashed.Do(func() {
		h := sha256.New()
		if m.hashErr = graph.Print(h, m.graph, nil); m.hashErr == nil {
			m.hash = "sha256:" + hex.EncodeToString(h.Sum(nil))
		}
	})
	return m.hash, m.hashErr
}

// usePlan checks whether Options.Plan holds for what is compiled, and drops it where it does not and Options.Recompute allows that.
func (c *compilation) usePlan() error {
	p := c.o.Plan
	if p == nil {
		return nil
	}
	facts, err := c.o.factsOf(c.model, c.backends)
	if err != nil {
		return err
	}
	if err := p.p.Misfit(facts, placementFact, turnsFact, measuredFact); err != nil {
		return c.replan(err)
	}
	return nil
}

// plannedRounds is rounds with the plan's bans, and without the plan where it cannot be followed.
func (c *compilation) plannedRounds(simplified *graph.Graph, list []pass) error {
	if c.o.Plan == nil {
		return c.rounds(simplified, list)
	}
	c.o.Plan.p.Impose(c.bans)
	err := c.rounds(simplified, list)
	if err == nil {
		return nil
	}
	if err = c.replan(err); err != nil {
		return err
	}
	return c.rounds(simplified, list)
}

// replan goes on without a plan that does not fit, where Options.Recompute allows that; otherwise it returns the error.
func (c *compilation) replan(err error) error {
	if !errors.Is(err, ErrPlanMisfit) || !c.o.Recompute {
		return err
	}
	c.o.Logger.WarnContext(c.ctx, "the plan is made anew", "error", err)
	c.o.Plan, c.bans = nil, partition.NewBans(c.o.Pins)
	c.closeExecutables()
	return nil
}

// planned returns the Chooser for block i of a round: that of the plan, where there is one.
func (c *compilation) planned(i int, chooser partition.Chooser) partition.Chooser {
	p := c.o.Plan
	if p == nil {
		return chooser
	}
	g := &plan.Graph{}
	if i < len(p.p.Graphs) {
		g = &p.p.Graphs[i]
	}
	x := &plan.Chooser{Graph: g}
	if turns := p.of().Fact(turnsFact); turns != "" {
		x.Turns = strings.Split(turns, ", ")
	}
	return x
}

// followed verifies, when groups are made, that they are those of the plan.
func (c *compilation) followed() error {
	if c.o.Plan == nil {
		return nil
	}
	made := &plan.Plan{Bans: c.o.Plan.p.Bans}
	for _, s := range c.states {
		made.Graphs = append(made.Graphs, plan.Of(s.Graph(), s.Result()))
	}
	if list := plan.Fits(c.o.Plan.of(), made); len(list) > 0 {
		return &PlanError{Where: list[0].Where, Plan: list[0].Was, Found: list[0].Is}
	}
	return nil
}

// The order of execution. Each group's body is put into the order that needs the least memory, and so are the graphs of
// groups, conversions and the host's nodes. The groups are what they are by then: the order changes neither them nor the
// conversions. Symbols without a bound count as graph.AssumedSize.

// order is the pass: it reorders group bodies, then the graphs around them, and keeps the orders before.
func (c *compilation) order() error {
	c.before = map[*graph.Graph][]*graph.Node{}
	if err := c.followed(); err != nil {
		return err
	}
	if c.o.KeepOrder {
		return nil
	}
	planned, err := c.plannedOrder()
	if err != nil {
		return err
	}
	m := footprint.Model{Registry: c.registry, Backends: c.backends, Compiled: c.o.compileOptions, Logger: c.o.Logger, Bounds: c.o.bounded(), Estimate: true}
	return c.blocks(func(g *graph.Graph) error {
		for n := range g.Nodes() {
			if n.IsCarve(graph.OpSubgraph) && !planned[n.Regions[0].Graph] {
				if err := c.orderGraph(&m, n.Regions[0].Graph); err != nil {
					return err
				}
			}
		}
		if planned[g] {
			return nil
		}
		return c.orderGraph(&m, g)
	})
}

// plannedOrder takes the order of execution from the plan, for the graphs whose nodes it lists in a topological order.
func (c *compilation) plannedOrder() (map[*graph.Graph]bool, error) {
	if c.o.Plan == nil {
		return nil, nil
	}
	done := map[*graph.Graph]bool{}
	for i, s := range c.states {
		if i >= len(c.o.Plan.p.Graphs) {
			break // it has no nodes
		}
		for _, o := range c.o.Plan.p.Graphs[i].Orders(s.Graph()) {
			nodes, err := o.Graph.Topo()
			if err != nil {
				return nil, err
			}
			if slices.Equal(nodes, o.Nodes) {
				done[o.Graph] = true
			} else if o.Graph.Reorder(o.Nodes) == nil {
				c.before[o.Graph], done[o.Graph] = nodes, true
			}
		}
	}
	return done, nil
}

func (c *compilation) orderGraph(m *footprint.Model, g *graph.Graph) error {
	if g.NumNodes() < 4 {
		return nil // at most one of three nodes has another place, and none that frees anything
	}
	nodes, err := g.Topo()
	if err != nil || forced(nodes) {
		return err
	}
	o, err := schedule.Order(c.ctx, m.Graph(c.ctx, g, nodes), nil)
	if err != nil || !o.Reordered {
		return err
	}
	sorted := make([]*graph.Node, len(nodes))
	for i, k := range o.Order {
		sorted[i] = nodes[k]
	}
	c.before[g] = nodes
	return g.Reorder(sorted)
}

// forced reports whether nodes in topological order have no other one: each reads a result of that in front of it.
func forced(nodes []*graph.Node) bool {
	for i, n := range nodes[1:] {
		before := nodes[i]
		reads := false
		for k := range n.NumOperands() {
			v := n.Operand(k)
			reads = reads || v != nil && v.Producer == before
		}
		if !reads {
			return false
		}
	}
	return true
}
