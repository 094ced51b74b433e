package carve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// RunPass is the Pass of what Options.Observer is told of a run: how far a loop is that takes long.
const RunPass = "run"

// Progress is one report to Options.Observer. Calls come from one goroutine at a time.
type Progress struct {
	Pass    string        // name in the pass table, or RunPass
	Node    string        // of a run: the loop, by its name in the model
	Done    int           // units of the pass that are done: groups compiled, constants packed, iterations
	Total   int           // units of the pass; 0 where it has none
	Elapsed time.Duration // since the pass began
}

// PassError is a fault of a pass of the compiler.
type PassError struct {
	Pass string
	Err  error
}

// Error names the pass and the cause.
func (e *PassError) Error() string { return fmt.Sprintf("pass %s: %v", e.Pass, e.Err) }

// Unwrap returns the cause.
func (e *PassError) Unwrap() error { return e.Err }

// pass is one stage of the pipeline.
type pass struct {
	name  string
	run   func(*compilation) error
	round bool                                // it works on the graph of a round, which ends where nodes are banned from a backend
	sees  phase                               // the graph that users' passes in front of it would see
	check func(*compilation) error            // what is true afterwards, beside the invariants of graphs; nil for nothing
	dump  func(*compilation, io.Writer) error // writes what the pass knows beside the graph; nil for nothing
	open  graph.Invariant                     // the one that does not hold afterwards, 0 for none
	user  bool
	after string // the pass behind which a user put it, "" where it was put before one
}

// phase is what the graph is at a place of the table.
type phase uint8

const (
	closed phase = iota // nobody else may change it: it is not typed yet, or tables speak of its nodes
	model               // the model's graph, typed
	carved              // Subgraph, Convert and host nodes
)

// passes is the pipeline, in order. Each arrow of the architecture is one entry or several.
var passes = []pass{
	{name: "pin-dims", run: (*compilation).pinDims},
	{name: "name-nodes", run: (*compilation).nameNodes},
	{name: "infer", run: (*compilation).infer},
	{name: "simplify", run: (*compilation).simplify, sees: model},
	{name: "prepare-properties", run: stage((*partition.State).Prepare), round: true, sees: model},
	{name: "assign", run: stage((*partition.State).Assign), round: true, check: checkStates, dump: dumpStates},
	{name: "group", run: stage((*partition.State).Group), round: true, check: checkStates, dump: dumpStates},
	{name: "review-groups", run: stage((*partition.State).Review), round: true, check: checkStates, dump: dumpStates},
	{name: "choose-formats", run: stage((*partition.State).ChooseFormats), round: true, check: checkStates, dump: dumpStates, open: graph.InvFormats},
	{name: "negotiate-formats", run: stage((*partition.State).Negotiate), round: true, check: checkStates, dump: dumpStates, open: graph.InvFormats},
	{name: "check-converters", run: stage((*partition.State).CheckConverters), round: true, check: checkStates, dump: dumpStates, open: graph.InvFormats},
	{name: "insert-conversions", run: stage((*partition.State).InsertConversions), round: true, check: checkStates, dump: dumpStates},
	{name: "extract-groups", run: stage((*partition.State).ExtractGroups), round: true, check: checkStates, dump: dumpStates},
	{name: "finish-properties", run: stage((*partition.State).Finish), round: true, sees: carved, check: checkStates, dump: dumpStates},
	{name: "eliminate-conversions", run: (*compilation).eliminate, round: true, sees: carved, check: checkCarved},
	{name: "hoist-conversions", run: (*compilation).hoist, round: true, sees: carved, check: checkCarved},
	{name: "lower-conversions", run: (*compilation).lower, round: true, sees: carved, check: checkHops},
	{name: "order-nodes", run: (*compilation).order, round: true, check: checkHops},
	{name: "pack-constants", run: (*compilation).pack, round: true, check: checkHops},
	{name: "own-constants", run: (*compilation).ownConstants, round: true, check: checkHops},
	{name: "compile-groups", run: (*compilation).compileGroups, round: true, check: checkExecutables, dump: dumpStates},
}

// constraint says that a pass has to come before another, and why.
type constraint struct{ before, after, reason string }

// constraints are what holds of the order of the table. Who moves a pass reads here what it counts on.
var constraints = []constraint{
	{"pin-dims", "infer", "inferred shapes follow from the inputs', which are pinned before"},
	{"name-nodes", "simplify", "nodes that simplification makes have their origins by name"},
	{"name-nodes", "assign", "pins, reasons and bans speak of nodes by name"},
	{"infer", "simplify", "simplification asks for types and shapes"},
	{"infer", "assign", "backends take nodes by types and shapes"},
	{"simplify", "prepare-properties", "properties see what is left to be run, and each round begins with that"},
	{"prepare-properties", "assign", "what properties prepare is chosen from"},
	{"assign", "group", "groups are made of the nodes of one backend"},
	{"group", "review-groups", "reviews are of whole groups"},
	{"review-groups", "choose-formats", "formats of groups that are turned down are chosen for nothing"},
	{"choose-formats", "negotiate-formats", "wishes replace what was chosen at the edges"},
	{"negotiate-formats", "check-converters", "formats that are wished for have to be reached as well"},
	{"check-converters", "insert-conversions", "a conversion that nobody makes must not be put in"},
	{"insert-conversions", "extract-groups", "conversions with both ends in a group are in it"},
	{"extract-groups", "finish-properties", "properties finish the partitioned graph"},
	{"finish-properties", "eliminate-conversions", "properties may add conversions that are superfluous"},
	{"eliminate-conversions", "hoist-conversions", "what stands in a region is what is left of it"},
	{"hoist-conversions", "lower-conversions", "whole conversions are moved, and inverse pairs that meet are removed"},
	{"eliminate-conversions", "lower-conversions", "inverse pairs are found among whole conversions, not among hops"},
	{"lower-conversions", "order-nodes", "each hop's buffer counts for the peak"},
	{"order-nodes", "compile-groups", "backends run a body in the order that it has when they compile it"},
	{"pack-constants", "own-constants", "constants that were packed need no copy in the format of the model"},
	{"own-constants", "compile-groups", "backends may keep the constants that they see"},
}

func init() {
	if err := checkOrder(passes, constraints); err != nil {
		panic(err)
	}
}

// checkOrder returns an error for the first constraint that a table of passes does not keep, or that speaks of a pass that is
// not there.
func checkOrder(list []pass, rules []constraint) error {
	at := map[string]int{}
	for i, p := range list {
		if _, twice := at[p.name]; twice {
			return fmt.Errorf("pass %s is in the table twice", p.name)
		}
		at[p.name] = i
	}
	for _, r := range rules {
		i, ok := at[r.before]
		j, ok2 := at[r.after]
		switch {
		case !ok || !ok2:
			return fmt.Errorf("a constraint orders passes %s and %s, one of which is not there", r.before, r.after)
		case i >= j:
			return fmt.Errorf("pass %s has to come before %s: %s", r.before, r.after, r.reason)
		}
	}
	return nil
}

// PassInfo describes an entry of the pass table.
type PassInfo struct {
	Name string
	// Before and After say whether a user's pass may stand in front of it, and behind it.
	Before, After bool
}

// Passes returns the pass table in its order.
func Passes() []PassInfo {
	out := make([]PassInfo, len(passes))
	for i, p := range passes {
		out[i] = PassInfo{Name: p.name, Before: p.sees != closed, After: i+1 < len(passes) && passes[i+1].sees != closed}
	}
	return out
}

// Pass is a pass of the user's own. It has its place before or after a pass of the table that Passes lists: up to
// "prepare-properties" it sees the model's graph, with types inferred, from behind "extract-groups" to before
// "lower-conversions" the partitioned one, which consists of Subgraph, Convert and host nodes. Elsewhere there is no place, since
// tables speak of the graph's nodes there.
//
// What it leaves is verified. The model's graph is typed anew, and nodes without names get some; the partitioned one has to be
// a sound partition (partition.Verify), whose groups may be others than before. Inputs and outputs of the model stay what they
// are. A pass on the partitioned graph runs again whenever the graph is partitioned anew.
type Pass struct {
	Name   string // lower-case words with hyphens; not that of another pass
	Before string // name of the pass in front of which it runs, or
	After  string // of the one behind which it runs; of several, the first of Options.Passes runs first
	// Run edits the main graph; nested ones are regions of its nodes. It is not called by two goroutines at a time for one
	// Compile. An error, and a panic, end Compile with a *PassError.
	Run func(ctx context.Context, g *graph.Graph) error
}

// ErrPass is wrapped by the errors about Options.Passes that cannot be run where they are put, and about passes that
// change what they must not.
var ErrPass = errors.New("bad pass")

// run runs the passes over the model's graph, then rounds of the others until one adds no ban. Bans only grow, and each is of
// one node and one backend, so that it ends; MaxRounds bounds the time that a property may take.
func (c *compilation) run() error {
	if c.model.bundle != nil {
		_, err := c.runPasses(bundlePasses)
		return err
	}
	list, err := c.o.withPasses()
	if err != nil {
		return err
	}
	if err := c.usePlan(); err != nil {
		return err
	}
	first := slices.IndexFunc(list, func(p pass) bool { return p.round })
	if _, err := c.runPasses(list[:first]); err != nil {
		return err
	}
	simplified, list := c.g, list[first:]
	unknown := c.countIsolated(simplified) // first, so that its graph and tables are gone when the rounds' are made
	if err := c.plannedRounds(simplified, list); err != nil {
		return err
	}
	if unknown != nil {
		c.o.Logger.WarnContext(c.ctx, "conversions of operators on their own are not known", "error", unknown)
	}
	return nil
}

// withPasses returns the table with the user's passes in their places.
func (o *Options) withPasses() ([]pass, error) {
	list := slices.Clone(passes)
	for i := range o.Passes {
		p := &o.Passes[i]
		at, err := p.place(list)
		if err != nil {
			return nil, &PassError{Pass: p.Name, Err: err}
		}
		next := list[at]
		list = slices.Insert(list, at, pass{name: p.Name, run: p.run(next.sees), round: next.sees == carved, sees: next.sees, user: true, after: p.After})
	}
	return list, nil
}

// place returns the index in the list at which the pass belongs.
func (p *Pass) place(list []pass) (int, error) {
	find := func(name string) int { return slices.IndexFunc(list, func(x pass) bool { return x.name == name }) }
	switch {
	case p.Name == "" || p.Run == nil:
		return 0, fmt.Errorf("%w: it needs a name and a function", ErrPass)
	case find(p.Name) >= 0:
		return 0, fmt.Errorf("%w: there is another pass of that name", ErrPass)
	case (p.Before == "") == (p.After == ""):
		return 0, fmt.Errorf("%w: it needs either a pass before which it runs or one after which it runs", ErrPass)
	}
	at := find(p.Before + p.After)
	if at < 0 {
		return 0, fmt.Errorf("%w: there is no pass %q", ErrPass, p.Before+p.After)
	}
	if p.After != "" {
		// Behind those of the user's that were put there before, and what follows these.
		chain := []string{p.After}
		for at++; at < len(list) && list[at].user && slices.Contains(chain, list[at].after); at++ {
			chain = append(chain, list[at].name)
		}
	}
	if at == len(list) || list[at].sees == closed {
		return 0, fmt.Errorf("%w: there is no place %s", ErrPass, p.where())
	}
	return at, nil
}

func (p *Pass) where() string {
	if p.After != "" {
		return "after " + p.After
	}
	return "before " + p.Before
}

// run returns the pass as the table has it: with what has to follow for the graph to be what later passes count on.
func (p *Pass) run(sees phase) func(*compilation) error {
	return func(c *compilation) error {
		before := portsOf(c.g)
		if err := p.Run(c.ctx, c.g); err != nil {
			return err
		}
		if err := graph.Verify(c.g); err != nil {
			return err
		}
		if err := c.adopt(sees); err != nil {
			return err
		}
		if !slices.Equal(portsOf(c.g), before) {
			return fmt.Errorf("%w: it changed the inputs or the outputs of the model", ErrPass)
		}
		return nil
	}
}

// adopt brings what the compilation knows of the graph up to what a user's pass has made of it.
func (c *compilation) adopt(sees phase) error {
	if sees == carved {
		return c.edited()
	}
	if err := c.nameNodes(); err != nil {
		return err
	}
	return c.infer()
}

// bring adds what libraries bring beside processors to the user's own, which comes first.
func (o *Options) bring(libraries []*backend.Library, list []backend.Backend) {
	if len(libraries) == 0 {
		return
	}
	o.Passes = slices.Clone(o.Passes)
	properties := map[string][]property.SubgraphProperty{} // by the name that stands for all devices of a backend
	operators := place.OperatorRules(libraries)
	for _, b := range list {
		info := b.Info()
		name, _, _ := property.CutDevice(info.Name)
		if _, done := properties[name]; done {
			continue
		}
		properties[name] = []property.SubgraphProperty{}
		for _, l := range libraries {
			properties[name] = append(properties[name], l.PropertiesOf(info)...)
		}
		if info.Kernels {
			properties[name] = append(properties[name], operators...)
		}
	}
	for name, own := range o.Properties {
		properties[name] = slices.Concat(own, properties[name])
	}
	o.Properties = properties
	for _, l := range libraries {
		for _, p := range l.Passes {
			o.Passes = append(o.Passes, Pass(p))
		}
	}
}

// port is what callers of a Program count on.
type port struct {
	name  string // of inputs; outputs go by their place
	kind  graph.Kind
	dtype tensor.DType
	rank  int // -1 where it is not known
}

func portsOf(g *graph.Graph) []port {
	var out []port
	add := func(name string, t graph.Type) {
		p := port{name: name, kind: t.Kind, dtype: t.DType, rank: -1}
		if t.Shape.Known() {
			p.rank = len(t.Shape)
		}
		out = append(out, p)
	}
	for _, v := range g.Inputs {
		add("input "+v.Name, v.Type)
	}
	for _, v := range g.Outputs {
		add("output", v.Type)
	}
	return out
}

// edited has the states of partitions take note of an edited graph.
func (c *compilation) edited() error {
	byGraph := map[*graph.Graph]*partition.State{}
	for _, s := range c.states {
		byGraph[s.Graph()] = s
	}
	return c.blocks(func(g *graph.Graph) error {
		s := byGraph[g]
		if s == nil {
			return fmt.Errorf("%w: it added a region, which is not partitioned", ErrPass)
		}
		return s.Edited()
	})
}

// nodeTimes returns the times of nodes alone.
func nodeTimes(t partition.Times) func(n *graph.Node, backend string, sig *graph.Signature) float64 {
	return func(n *graph.Node, backend string, sig *graph.Signature) float64 { return t.Node(n, backend, sig, 0) }
}

// keeps reports whether a DequantizeLinear of constants stays: each backend that may have what reads its result, but for that of last
// resort, reads the integers.
func (c *compilation) keeps(n *graph.Node) bool {
	some := false
	for _, u := range n.Outputs[0].Uses() {
		for _, b := range c.backends {
			info := b.Info()
			if info.Oracle || property.Allowed(c.o.Pins, u.Node, info.Name) != nil {
				continue
			}
			r, ok := b.(backend.IntegerReader)
			if !ok || !c.mayHaveOperands(u.Node, info.Name) || !r.ReadsIntegers(u.Node, u.Slot) {
				return false
			}
			some = true
		}
	}
	return some
}

// mayHaveOperands reports whether a backend may have the nodes that dequantise the operands of n.
func (c *compilation) mayHaveOperands(n *graph.Node, name string) bool {
	return !slices.ContainsFunc(n.Inputs, func(v *graph.Value) bool {
		return v != nil && v.Producer != nil && v.Producer.Is("DequantizeLinear") && property.Allowed(c.o.Pins, v.Producer, name) != nil
	})
}

// rank returns the place, in the list, of the first backend that may have a node and takes it as it stands.
func (c *compilation) rank(n *graph.Node) int {
	for i, b := range c.backends {
		if property.Allowed(c.o.Pins, n, b.Info().Name) == nil && b.Supports(n).Reason == nil {
			return i
		}
	}
	return len(c.backends)
}

// absent stands in the list for a backend that is not available here: it turns every node down with the reason, so that
// other backends have its place, and reports say why.
type absent struct {
	name string
	err  error
}

// Info implements backend.Backend.
func (a *absent) Info() backend.Info { return backend.Info{Name: a.name} }

// Supports implements backend.Backend.
func (a *absent) Supports(*graph.Node) backend.Support {
	return backend.No(property.Unavailable, "%v", a.err)
}

// Properties implements backend.Backend.
func (*absent) Properties() []property.SubgraphProperty { return nil }

// Compile implements backend.Backend. It is asked where a user's property claims nodes by itself.
func (a *absent) Compile(context.Context, *graph.Graph, backend.CompileOptions) (backend.Executable, error) {
	return nil, a.err
}

// Devices implements backend.Backend.
func (*absent) Devices() []device.Device { return []device.Device{device.Host} }

// Converters implements backend.Backend.
func (*absent) Converters() []convert.Converter { return nil }

// Close implements backend.Backend.
func (*absent) Close() error { return nil }
