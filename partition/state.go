package partition

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// State is what the stages of a partition know of one graph, which they rewrite. Each stage is a method that is called
// once, in the order of Stages. A stage that finds out that a backend may not have a node adds that to the table of bans;
// the partition then has to begin anew, with a State of the graph as it was and the same table. NewState makes it; stages of
// the zero State, and stages out of order, are a programmer's error and panic.
type State struct {
	g     *graph.Graph
	o     *Options
	scope int
	names []string // of the backends
	// efficiency is what each backend achieves, nil where it does not say.
	efficiency []*backend.Efficiency
	props      [][]*property.Rule // of each backend: the user's, then its own
	// rank is the place of each backend among those whose nodes are grouped, ranked the backend at each place.
	rank, ranked []int32
	barred       *barred
	reached      int // stages that are done

	table   *Candidates
	backend []int32 // by node id: index into Options.Backends, hostScheduled or unassigned
	reject  []Rejection
	told    map[told]bool // reasons that properties gave
	borders []border
	loose   bool // groups may have unconnected parts: the Chooser's word

	order   []*graph.Node // topological
	groupOf []int32       // by node id; -1 outside of groups
	groups  []groupInfo
	result  *Result
}

// border is a bounding claim that a backend made by itself.
type border struct {
	backend int32
	nodes   []*graph.Node
}

const (
	unassigned    = int32(-1)
	hostScheduled = int32(-2)
)

// NewState begins the partition of a graph whose types have been inferred. scope tells the graphs that share a table of
// bans apart: the number of the graph among them, the same whenever the partition begins anew.
func NewState(g *graph.Graph, o *Options, scope int) *State {
	s := &State{g: g, o: o, scope: scope, told: map[told]bool{}, result: &Result{}}
	bans := o.Bans
	if bans == nil {
		bans = NewBans(o.Pins)
	}
	s.barred = newBarred(bans, scope, g)
	for _, b := range o.Backends {
		info := b.Info()
		s.names, s.efficiency = append(s.names, info.Name), append(s.efficiency, info.Efficiency)
		if isUnpriced(o.Chooser) { // which asks for no cost: formats are chosen by what signatures say themselves
			s.efficiency[len(s.efficiency)-1] = nil
		}
		s.props = append(s.props, o.rules(b))
	}
	s.rankBackends()
	s.result.graph, s.result.names = g, s.names
	s.table = &Candidates{s: s}
	s.grow()
	s.explainWhole()
	return s
}

// rankBackends ranks backends by their names where cost decides, and else as they are listed.
func (s *State) rankBackends() {
	for i := range s.names {
		s.ranked = append(s.ranked, int32(i))
	}
	if !isUnpriced(s.o.Chooser) {
		slices.SortStableFunc(s.ranked, func(a, b int32) int { return cmp.Compare(s.names[a], s.names[b]) })
	}
	s.rank = make([]int32, len(s.ranked))
	for place, i := range s.ranked {
		s.rank[i] = int32(place)
	}
}

// Graph returns the graph that the partition rewrites.
func (s *State) Graph() *graph.Graph { return s.g }

// Result returns what came of it; the groups are known from ExtractGroups on.
func (s *State) Result() *Result { return s.result }

// Stage is one step of a partition.
type Stage struct {
	Name string // stable, lower-case words with hyphens
	Run  func(*State, context.Context) error
}

// Stages returns the stages in their order.
func Stages() []Stage {
	return []Stage{
		{"prepare-properties", (*State).Prepare},
		{"assign", (*State).Assign},
		{"group", (*State).Group},
		{"review-groups", (*State).Review},
		{"choose-formats", (*State).ChooseFormats},
		{"negotiate-formats", (*State).Negotiate},
		{"check-converters", (*State).CheckConverters},
		{"insert-conversions", (*State).InsertConversions},
		{"extract-groups", (*State).ExtractGroups},
		{"finish-properties", (*State).Finish},
	}
}

// The places of the stages in their order.
const (
	stagePrepare = iota
	stageAssign
	stageGroup
	stageReview
	stageFormats
	stageNegotiate
	stageCheck
	stageInsert
	stageExtract
	stageFinish
)

// enter begins a stage. Stages out of order are a programmer's error.
func (s *State) enter(stage int) {
	if s.reached != stage {
		panic(fmt.Sprintf("partition: stage %s after %d stages", Stages()[stage].Name, s.reached))
	}
	s.reached++
}

// ban takes a node from a backend for good.
func (s *State) ban(n *graph.Node, backend int32, stage int, why *property.Reason) {
	s.barred.ban(n, s.names[backend], Stages()[stage].Name, why)
}

// Ban keeps the nodes of a finished group away from its backend, for what a later pass found out. It reports whether that
// is new.
func (s *State) Ban(gr *Group, pass string, why *property.Reason) bool {
	grown := false
	for n := range gr.Body.Nodes() {
		grown = s.barred.ban(n, gr.Backend, pass, why) || grown
	}
	return grown
}

// allowed returns why a node must not go to backend i, nil where it may.
func (s *State) allowed(n *graph.Node, i int32) *property.Reason { return s.barred.why(n, s.names[i]) }

// grow makes room for nodes that were added, and takes out those that are the host scheduler's.
func (s *State) grow() {
	first := len(s.backend)
	for len(s.backend) < s.g.NodeIDs() {
		s.backend = append(s.backend, unassigned)
	}
	if first > 0 {
		return // what is added later is made of nodes that were looked at
	}
	s.findHost(0)
}

// added takes note of nodes that a property added.
func (s *State) added() {
	first := len(s.backend)
	s.grow()
	s.findHost(first)
}

// findHost marks the host scheduler's nodes among those with ids from first on.
func (s *State) findHost(first int) {
	for n := range s.g.Nodes() {
		if n.ID >= first && HostScheduled(n) {
			s.backend[n.ID] = hostScheduled
		}
	}
}

// members returns the nodes of each group in topological order.
func (s *State) members() [][]*graph.Node {
	members := make([][]*graph.Node, len(s.groups))
	for _, n := range s.order {
		if k := s.groupOf[n.ID]; k >= 0 {
			members[k] = append(members[k], n)
		}
	}
	return members
}

// rejected records a reason for every node of the model that n stands for. A property may give the same reason for a node
// from several seeds; it is recorded once.
func (s *State) rejected(n *graph.Node, i int32, why *property.Reason) {
	for _, name := range n.Provenance() {
		if why.Property != "" {
			k := told{name, i, *why}
			if s.told[k] {
				continue
			}
			s.told[k] = true
		}
		s.reject = append(s.reject, Rejection{Node: name, Backend: s.names[i], Reason: why})
	}
}

// told is what a property gave as its reason.
type told struct {
	node    string
	backend int32
	why     property.Reason
}
