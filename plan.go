package carve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/measurements"
	"github.com/carve-dev/carve/internal/plan"
	"github.com/carve-dev/carve/internal/tune"
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
	if p.runs() == nil {
		return ErrClosed
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
	if err := p.p.Misfit(facts, placementFact, turnsFact); err != nil {
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

// choose returns who decides among backends.
func (c *compilation) choose() (_ partition.Chooser, err error) {
	if c.chooser != nil {
		return c.chooser, nil
	}
	switch {
	case c.told != nil:
		c.chooser, err = c.told(c)
	case c.o.Placement == Measured:
		c.chooser, err = c.measured()
	case c.o.Placement == Modelled || c.o.Placement == Automatic && c.rivals():
		c.chooser = &partition.Modelled{Launches: partition.Launches(c.backends), Budget: c.o.Budget}
	default:
		c.chooser = partition.Priority{}
	}
	return c.chooser, err
}

// rivals reports whether two or more backends take part beside that of last resort, all of which say what they achieve.
func (c *compilation) rivals() bool {
	n := 0
	for _, b := range c.backends {
		info := b.Info()
		switch {
		case info.Oracle:
		case info.Efficiency == nil:
			return false
		default:
			n++
		}
	}
	return n > 1
}

// measured reads who chooses from the cache.
func (c *compilation) measured() (partition.Chooser, error) {
	cache, err := c.o.openCache()
	if err != nil {
		return nil, err
	}
	if choice := readChoice(cache, c.identity(), c.o.Logger); choice != nil {
		chooser, err := c.whole(choice.Whole, choice)
		if err == nil {
			c.tuned = tunedReport(choice)
			return chooser, nil
		}
		c.o.Logger.WarnContext(c.ctx, "a choice in the cache is ignored", "error", err)
	}
	c.tuned = &TunedReport{}
	c.o.Logger.WarnContext(c.ctx, "the model is not tuned with these options: times that were not measured are modelled")
	return &partition.Modelled{Launches: partition.Launches(c.backends), Budget: c.o.Budget, Times: tune.NewLookup(c.host(), nil, cache)}, nil
}

// wholes names what is compared as a whole: of equal ones the first counts.
func wholes(list []backend.Backend) []string {
	names := []string{"priority"}
	for _, b := range list {
		if info := b.Info(); !info.Oracle {
			names = append(names, "alone "+info.Name)
		}
	}
	names = append(names, "measured", "modelled")
	for i, b := range list {
		if info := b.Info(); i > 0 && !info.Oracle {
			names = append(names, "first "+info.Name)
		}
	}
	return names
}

// whole returns who chooses in a whole of that name.
func (c *compilation) whole(name string, choice *tune.Choice) (partition.Chooser, error) {
	m := &partition.Modelled{Launches: partition.Launches(c.backends), Budget: c.o.Budget}
	kind, of, _ := strings.Cut(name, " ")
	first := slices.IndexFunc(c.backends, func(b backend.Backend) bool { return b.Info().Name == of })
	switch {
	case kind == "priority":
		return partition.Priority{}, nil
	case kind == "modelled":
		return m, nil
	case kind == "measured":
		m.Times = tune.NewLookup(c.host(), choice, nil)
		return m, nil
	case first >= 0 && (kind == "first" || kind == "alone"):
		order := []int{first}
		for i, b := range c.backends {
			if i != first && (kind == "first" || b.Info().Oracle) {
				order = append(order, i)
			}
		}
		return partition.Priority{Order: order}, nil
	}
	return nil, fmt.Errorf("%w: choice %q", measurements.ErrEntry, name)
}

// readChoice returns what was found best; nil where nothing was, or what cannot be read.
func readChoice(cache *measurements.Cache, about string, log *slog.Logger) *tune.Choice {
	text, ok := cache.Note(about)
	if !ok {
		return nil
	}
	choice, err := tune.ParseChoice(text)
	if err != nil {
		log.Warn("a choice in the cache is ignored", "error", err)
		return nil
	}
	return choice
}

// openCache opens the folder of measurements.
func (o *Options) openCache() (*measurements.Cache, error) {
	dir := o.Cache
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("cache of measurements: %w", err)
		}
		dir = filepath.Join(user, "carve")
	}
	return measurements.Open(dir, func(path string, err error) {
		o.Logger.Warn("a file in the cache is ignored", "path", path, "error", err)
	})
}
