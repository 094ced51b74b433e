package carve

import (
	"fmt"
	"io"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
)

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
