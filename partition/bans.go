package partition

import (
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// Ban keeps nodes away from a backend.
type Ban struct {
	Node    string // names of the model's nodes, the first of which identifies it to people
	Backend string
	Pass    string // who found out
	Reason  *property.Reason
	names   []string // of the node, where it has several
}

// Names returns the names that Node joins: of the model's nodes that the banned one comes from.
func (b *Ban) Names() []string {
	if b.names != nil {
		return b.names
	}
	return []string{b.Node}
}

// Bans is the one table of what backends may not have, with the reasons: the user's pins, which hold from the start, and
// what passes find out about groups that are turned down, refused, cannot be converted for or do not compile. Whoever asks
// for nodes asks it. It only grows, so that a pipeline which begins anew after each ban comes to an end. It serves one
// pipeline, one goroutine at a time. The zero Bans has no pins and no bans.
type Bans struct {
	pins  []Pin
	list  []Ban
	seen  map[banKey]bool
	nodes map[int]map[int][]int32 // places in list, by scope and id in the graph that the partition began with
	names map[string][]int32      // places in list, by name, for nodes that have no place in that graph
}

// banKey is what a ban speaks of: a node by scope and id, or, where id is -1, nodes by name.
type banKey struct {
	scope, id     int
	name, backend string
}

// NewBans returns a table that holds the pins and no bans yet.
func NewBans(pins []Pin) *Bans {
	return &Bans{pins: pins, seen: map[banKey]bool{}, nodes: map[int]map[int][]int32{}, names: map[string][]int32{}}
}

// Len returns the number of bans. It never falls.
func (b *Bans) Len() int { return len(b.list) }

// All returns the bans in the order in which they came. The list is the table's.
func (b *Bans) All() []Ban { return b.list }

// Add keeps the nodes that come from one of the model's away from a backend. It reports whether that is new.
func (b *Bans) Add(ban Ban) bool {
	return b.add(banKey{id: -1, name: ban.Node, backend: ban.Backend}, ban)
}

func (b *Bans) add(k banKey, ban Ban) bool {
	if b.seen[k] {
		return false
	}
	if b.seen == nil {
		b.seen, b.nodes, b.names = map[banKey]bool{}, map[int]map[int][]int32{}, map[string][]int32{}
	}
	b.seen[k] = true
	at := int32(len(b.list))
	b.list = append(b.list, ban)
	if k.id < 0 {
		b.names[k.name] = append(b.names[k.name], at)
		return true
	}
	if b.nodes[k.scope] == nil {
		b.nodes[k.scope] = map[int][]int32{}
	}
	b.nodes[k.scope][k.id] = append(b.nodes[k.scope][k.id], at)
	return true
}

// find returns the reason of the ban on a backend among those at places of the list.
func (b *Bans) find(at []int32, backend string) *property.Reason {
	for _, k := range at {
		if b.list[k].Backend == backend {
			return b.list[k].Reason
		}
	}
	return nil
}

// barred is what the table of bans says of one graph: nodes have other addresses, and properties give them other ids, each
// time that a partition begins anew.
type barred struct {
	bans  *Bans
	scope int
	first []*graph.Node         // by id, as the partition began; the nodes that properties add are not among them
	nodes map[*graph.Node]int32 // ids in first; made when the first ban comes
	of    map[*graph.Node][]int32
}

func newBarred(b *Bans, scope int, g *graph.Graph) *barred {
	x := &barred{bans: b, scope: scope, first: g.NodesByID(), of: map[*graph.Node][]int32{}}
	for id, at := range b.nodes[scope] {
		if id < len(x.first) && x.first[id] != nil {
			x.of[x.first[id]] = at
		}
	}
	return x
}

// why returns the reason for which n must not go to a backend, nil where it may.
func (x *barred) why(n *graph.Node, backend string) *property.Reason {
	if len(x.bans.list) > 0 {
		if r := x.bans.find(x.of[n], backend); r != nil {
			return r
		}
		if len(x.bans.names) > 0 {
			for _, name := range namesOf(n) {
				if r := x.bans.find(x.bans.names[name], backend); r != nil {
					return r
				}
			}
		}
	}
	return property.Allowed(x.bans.pins, n, backend)
}

// unnamed stands for nodes that properties add without a name: what bans one of them bans all.
var unnamed = []string{""}

func namesOf(n *graph.Node) []string {
	if names := n.Provenance(); len(names) > 0 {
		return names
	}
	return unnamed
}

// ban keeps n, or what it stands for where it is a fused node, away from a backend. It reports whether that is new.
func (x *barred) ban(n *graph.Node, backend, pass string, why *property.Reason) bool {
	if n.IsCarve(graph.OpConvert) {
		return false
	}
	if n.IsCarve(graph.OpFused) {
		grown := false
		for m := range n.Regions[0].Graph.Nodes() {
			grown = x.ban(m, backend, pass, why) || grown
		}
		return grown
	}
	if x.nodes == nil {
		x.nodes = make(map[*graph.Node]int32, len(x.first))
		for id, m := range x.first {
			if m != nil {
				x.nodes[m] = int32(id)
			}
		}
	}
	ban := Ban{Node: strings.Join(n.Provenance(), " "), Backend: backend, Pass: pass, Reason: why, names: n.Provenance()}
	if id, ok := x.nodes[n]; ok {
		k := banKey{scope: x.scope, id: int(id), backend: backend}
		if !x.bans.add(k, ban) {
			return false
		}
		x.of[n] = x.bans.nodes[x.scope][int(id)]
		return true
	}
	grown := false
	for _, name := range namesOf(n) {
		ban.Node, ban.names = name, nil
		grown = x.bans.Add(ban) || grown
	}
	return grown
}
