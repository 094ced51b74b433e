package dag_test

import (
	"math/rand/v2"
	"strings"

	"github.com/carve-dev/carve/partition/internal/dag"
	"github.com/carve-dev/carve/partition/internal/dagtest"
)

// problem is a graph with a colour per node.
func problem(g *dagtest.Graph, color []int32) *dag.Problem {
	graph, err := dag.New(g.Nodes, g.From, g.To)
	if err != nil {
		panic(err)
	}
	return &dag.Problem{Graph: graph, Color: color}
}

// parse reads nodes like "p1=P; q1=Q(p1)" and returns the graph and the names. Unknown operands are inputs of the model.
// Colours are given by operator: the position of its letter in colors, or the host.
func parse(text, colors string) (g *dagtest.Graph, names []string, p *dag.Problem) {
	g = &dagtest.Graph{}
	var color []int32
	number := map[string]int32{}
	for line := range strings.SplitSeq(text, ";") {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), "=")
		op, args, _ := strings.Cut(strings.TrimSuffix(rest, ")"), "(")
		v := int32(g.Nodes)
		number[name] = v
		names = append(names, name)
		g.Nodes++
		color = append(color, int32(strings.Index(colors, op)))
		for arg := range strings.SplitSeq(args, ",") {
			if u, ok := number[arg]; ok {
				g.From, g.To = append(g.From, u), append(g.To, v)
			}
		}
	}
	return g, names, problem(g, color)
}

// show writes the coloured groups in order: "{p1,p2} {q1}".
func show(names []string, r *dag.Grouping) string {
	var groups []string
	ptr, nodes := r.Members()
	for x := range r.Len() {
		if r.Color[x] < 0 {
			continue
		}
		var members []string
		for _, v := range nodes[ptr[x]:ptr[x+1]] {
			members = append(members, names[v])
		}
		groups = append(groups, "{"+strings.Join(members, ",")+"}")
	}
	return strings.Join(groups, " ")
}

// randomProblem draws a problem with up to nodes nodes and up to four colours; which features it uses is drawn, too.
func randomProblem(seed uint64, nodes int) (*dagtest.Graph, *dag.Problem) {
	r := rand.New(rand.NewPCG(seed, 9))
	n := 2 + r.IntN(nodes-1)
	g := dagtest.Random(n, 1+r.IntN(30), seed)
	if r.IntN(3) == 0 {
		g, _ = dagtest.Shuffle(g, seed)
	}
	colors := 1 + r.IntN(4)
	p := problem(g, dagtest.Colors(n, colors, 0.3+0.6*r.Float64(), seed))
	some := func() bool { return r.IntN(3) == 0 }
	if some() {
		p.Bound = make([]int32, n)
		scope := 1 + r.IntN(20)
		for v := range p.Bound {
			p.Bound[v] = int32(v/scope%n) - int32(r.IntN(2))
			p.Bound[v] = max(p.Bound[v], -1)
		}
	}
	if some() {
		p.Alone = make([]bool, n)
		for v := range p.Alone {
			p.Alone[v] = r.IntN(10) == 0
		}
	}
	if some() {
		p.Cut = make([]bool, len(g.From))
		for e := range p.Cut {
			p.Cut[e] = r.IntN(6) == 0
		}
	}
	for range colors {
		p.Policy = append(p.Policy, dag.Policy{Disconnected: some()})
	}
	return g, p
}
