package partition

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/carve-dev/carve/graph"
)

// WriteText writes what the stages so far have made beside the graph, whose own text tells assignment, signatures and formats:
// bans, the candidates from Assign on, the groups from Group on, packed constants from InsertConversions on, and reasons. It is
// the same for the same graph and options.
func (s *State) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "partition %d %q after ", s.scope, s.g.Name)
	if s.reached == 0 {
		fmt.Fprintln(b, "nothing")
	} else {
		fmt.Fprintln(b, Stages()[s.reached-1].Name)
	}
	for _, p := range s.barred.bans.pins {
		to := "to"
		if p.Exclude {
			to = "away from"
		}
		fmt.Fprintf(b, "  pin node %q, operator %q %s %s\n", p.Node, p.Op, to, p.Backend)
	}
	for _, x := range s.barred.bans.list {
		fmt.Fprintf(b, "  ban %q on %s, by %s: %v\n", x.Node, x.Backend, x.Pass, x.Reason)
	}
	for _, gr := range s.Groups() {
		fmt.Fprintf(b, "  group %s\n", gr)
	}
	if s.reached == stageAssign+1 {
		for c := range s.table.All() {
			s.writeCandidate(b, c)
		}
	}
	for _, p := range s.result.Packs {
		fmt.Fprintf(b, "  pack %q to %v\n", p.Name, p.Format)
	}
	if s.reached == stageAssign+1 {
		for _, r := range s.reject {
			fmt.Fprintf(b, "  not %q on %s: %v\n", r.Node, r.Backend, r.Reason)
		}
	}
	return b.Flush()
}

// Groups describes the groups in their order, from Group on, as "backend: node node"; fused nodes are lists in parentheses.
// Conversions are left out: the graph's text has them.
func (s *State) Groups() []string {
	var out []string
	add := func(backend string, dynamic bool, names []string) {
		if dynamic {
			backend += ", shapes depend on data"
		}
		out = append(out, backend+": "+strings.Join(names, " "))
	}
	switch {
	case s.reached > stageExtract:
		for _, gr := range s.result.Groups {
			add(gr.Backend, gr.Dynamic, namesIn(gr.Body))
		}
	case s.reached > stageGroup:
		for k, nodes := range s.members() {
			var names []string
			for _, n := range nodes {
				names = append(names, nameIn(n))
			}
			add(s.names[s.groups[k].backend], s.groups[k].dynamic, names)
		}
	}
	return out
}

// writeCandidate writes who would run what, in which formats, and whether it does.
func (s *State) writeCandidate(w io.Writer, c *Candidate) {
	var names []string
	for _, n := range c.Nodes() {
		names = append(names, nameIn(n))
	}
	claim := ""
	if c.Claim != nil {
		claim = " as " + c.Claim.Property.Name()
	}
	var sigs []string
	for _, x := range c.Signatures {
		sigs = append(sigs, x.Name)
	}
	taken := "left"
	if c.Taken {
		taken = "taken"
	}
	fmt.Fprintf(w, "  candidate %s on %s%s, %s, in %s", strings.Join(names, " "), s.names[c.Backend], claim, taken, strings.Join(sigs, " or "))
	if c.Cost.Nanoseconds != 0 {
		fmt.Fprintf(w, ", %.4g ns", c.Cost.Nanoseconds)
	}
	fmt.Fprintln(w)
}

// namesIn names the nodes of a body, conversions left out: the graph's text has these.
func namesIn(body *graph.Graph) []string {
	var names []string
	for n := range body.Nodes() {
		if !n.IsCarve(graph.OpConvert) {
			names = append(names, nameIn(n))
		}
	}
	return names
}

// nameIn returns the name of a node, of a fused one in parentheses those of what it stands for, and of one without a name the
// operator.
func nameIn(n *graph.Node) string {
	switch {
	case n.IsCarve(graph.OpFused):
		return "(" + strings.Join(namesIn(n.Regions[0].Graph), " ") + ")"
	case n.Name == "":
		return n.Op.String()
	}
	return n.Name
}
