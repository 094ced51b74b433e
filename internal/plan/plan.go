// Package plan keeps what a compilation decided: who runs which node, in which formats, in which groups, in which order, and
// where everything lies. A Plan is a text that people review: its lines are in a stable order, so that two of them differ in the
// lines that tell what changed ([Plan.Write], [Parse], [Diff]). It names what it holds for as facts ([Plan.Misfit]), and a
// [Chooser] has a partition decide again as it says.
//
// # Text
//
// A line is a word that says what it is and what belongs to it; names are quoted as in Go, and indentation means nothing.
//
//	carve plan 1
//	fact "threads" "2"                      what the plan holds for
//	ban "a" "mkl" "compile-groups" "compile-failed" "" "…"   a node that a backend may not have
//	graph "main" 123 of 120                 a graph, with the modelled nanoseconds of a choice by cost and their bound
//	group "cpu" "cpu_0"                     a group, and behind it its nodes in the order of execution
//	node "a" "Conv" as "direct" in "host:NCHW16c" "-" out "host:NCHW16c" cost 1234
//	fused "b" "conv-tail" of "c" "d" as "…"  a set of nodes that a property made one
//	convert "x" "host:NCHW16c" "host:row-major"   between groups, or in the group above it
//	host "l" "Loop"                         a node of the host scheduler
//	arena "host" 4096 of 2048 by "best-fit"  a device's memory for the shapes of the last run: bytes, and their lower bound
//	buffer "x" 0 2048 from 1 to 3           bytes [0, 2048) in the sub-steps [1, 3)
package plan

import (
	"slices"

	"github.com/carve-dev/carve/graph"
)

// Version is that of the text form. Plans of another one are not read.
const Version = 1

// Plan is what a compilation decided. It is a value: nobody changes one that others see.
type Plan struct {
	Facts  []Fact  // what it holds for
	Bans   []Ban   // what was found out while nodes were given to backends
	Graphs []Graph // the main graph comes last, those nested in it before
	Arenas []Arena // of the main graph
}

// Fact is one thing that a plan depends on.
type Fact struct{ Key, Value string }

// Ban is a node that a backend may not have, and why, as partition.Ban has it.
type Ban struct{ Node, Backend, Pass, Code, Property, Detail string }

// Graph is how one graph is carved.
type Graph struct {
	Name               string
	Nanoseconds, Bound float64 // of a choice by cost; both 0 where there was none
	Steps              []Step  // in the order of execution
}

// StepKind says what a Step is.
type StepKind uint8

const (
	Group   StepKind = iota // begins a group; what follows is in it, up to the next one that says otherwise
	Node                    // a node of the group
	Fused                   // a set of nodes of the group that are one
	Convert                 // a conversion: of the group where In is set
	Host                    // a node of the host scheduler
)

// Step is a line of a Graph.
type Step struct {
	Kind    StepKind
	Name    string   // of the node, the group's node, or the value that is converted
	Backend string   // of a Group
	Op      string   // of a Node and a Host: the operator; of a Fused: the property
	Of      []string // of a Fused: the names of its nodes, sorted
	Form    string   // signature that was chosen, "" where none is known
	In, Out []string // formats of the operands and results, as the signature has them; of a Convert, one each
	Within  bool     // of a Convert: it is the group's
	Cost    float64  // modelled nanoseconds, 0 where they are not known
}

// Arena is where everything of a device lies.
type Arena struct {
	Device       string
	Bytes, Bound int64
	Method       string
	Buffers      []Buffer
}

// Buffer is a piece of an Arena.
type Buffer struct {
	Name          string
	Offset, Bytes int64
	First, End    int64
}

// label names a node in plans.
func label(n *graph.Node) string {
	if n.Name != "" {
		return n.Name
	}
	return n.Label()
}

// Part is what a backend has of a graph.
type Part struct {
	Graph, Backend string
	Groups, Nodes  int     // a set that is one node counts with all that it is made of
	Nanoseconds    float64 // modelled, of the nodes that a time is known of
}

// Parts returns what each backend has of each graph, in the order in which they come.
func (p *Plan) Parts() []Part {
	var list []Part
	for i := range p.Graphs {
		at, first := -1, len(list)
		for k := range p.Graphs[i].Steps {
			s := &p.Graphs[i].Steps[k]
			switch s.Kind {
			case Group:
				if at = slices.IndexFunc(list[first:], func(x Part) bool { return x.Backend == s.Backend }); at < 0 {
					at = len(list) - first
					list = append(list, Part{Graph: p.Graphs[i].Name, Backend: s.Backend})
				}
				at += first
				list[at].Groups++
			case Node, Fused:
				list[at].Nodes += max(len(s.Of), 1)
				list[at].Nanoseconds += s.Cost
			case Convert, Host:
			}
		}
	}
	return list
}
