// Package partitiontest partitions small graphs for tests of properties, backends and stages: text and properties in, groups and
// reasons out, in one call. It needs no test framework.
//
//	out, err := partitiontest.Run(ctx, &partitiontest.Case{
//		Graph:      partitiontest.Lines("c", "a = Neg(x)", "b = Abs(a)", "c = Neg(b)"),
//		Properties: []property.SubgraphProperty{myProperty},
//	})
//	// out.Groups is ["own: (a b) c"]
package partitiontest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// Case is a graph, and who may take its nodes.
type Case struct {
	// Graph is the text form of package graph; see Lines for short ones. Nodes without a name go by their first result.
	Graph string
	// Properties are those of the first backend.
	Properties []property.SubgraphProperty
	// Takes limits the backend "own" to these operators; without any it takes all.
	Takes []string
	// Options are further settings. Where they name no backends there are "own", which takes fused nodes as well, and "rest",
	// which takes every single node. Where they have no registry it is made of the backends' converters.
	Options partition.Options
	// After is the name of the stage that is the last to run; "" means that all run.
	After string
}

// Outcome is what came of a Case.
type Outcome struct {
	// Groups, in order, as "backend: node node", fused nodes in parentheses. They are known from "group" on.
	Groups []string
	// Reasons, in order, as "node not on backend: code (property): detail". Those of backends that were not asked are there
	// once all stages have run.
	Reasons []string
	// Bans, in order, as "node not on backend, by stage: reason".
	Bans []string
	// Graph is the graph as the last stage left it.
	Graph *graph.Graph
	// State is the text of what the stages have made beside the graph (partition.State.WriteText).
	State  string
	Result *partition.Result
}

// Lines returns the text of a graph of float32 values [1, 16, 4, 4]: its inputs are x and y, its nodes the lines, of the form
// "name = Op(operand, operand)", and its outputs the heads, separated by commas.
func Lines(heads string, lines ...string) string {
	var b strings.Builder
	b.WriteString("graph \"lines\" {\n  opset 17\n  input %x: f32[1,16,4,4]\n  input %y: f32[1,16,4,4]\n")
	for _, l := range lines {
		name, rest, _ := strings.Cut(l, " = ")
		op, args, _ := strings.Cut(strings.TrimSuffix(rest, ")"), "(")
		b.WriteString("  %" + name + " = " + op + "(%" + strings.ReplaceAll(args, ", ", ", %") + ")\n")
	}
	b.WriteString("  output %" + strings.ReplaceAll(heads, ", ", ", %") + "\n}\n")
	return b.String()
}

// Run partitions the graph of a case, and verifies the graph and what is known of it after every stage. Types are inferred.
func Run(ctx context.Context, c *Case) (*Outcome, error) {
	first, err := graph.Parse(c.Graph)
	if err != nil {
		return nil, err
	}
	if err := graph.InferGraph(first); err != nil {
		return nil, err
	}
	for n := range first.Nodes() {
		if n.Name == "" && len(n.Outputs) > 0 && n.Outputs[0] != nil {
			n.Name = n.Outputs[0].Name
		}
	}
	o, err := c.options()
	if err != nil {
		return nil, err
	}
	for range partition.MaxRounds {
		g, err := first.Clone()
		if err != nil {
			return nil, err
		}
		s := partition.NewState(g, o, 0)
		done, err := c.stages(ctx, s, o.Bans)
		if err != nil {
			return nil, err
		}
		if done {
			return c.outcome(s, o.Bans)
		}
	}
	return nil, partition.ErrRounds
}

// options fills in what the case leaves out.
func (c *Case) options() (*partition.Options, error) {
	o := c.Options
	if o.Backends == nil {
		own := &reference.Backend{Name: "own"}
		if len(c.Takes) > 0 {
			own.Accept = func(n *graph.Node) bool { return slices.Contains(c.Takes, n.Op.String()) }
		}
		o.Backends = []backend.Backend{fusing{own}, &reference.Backend{Name: "rest"}}
	}
	if len(c.Properties) > 0 {
		name := o.Backends[0].Info().Name
		o.Properties = map[string][]property.SubgraphProperty{name: append(slices.Clone(c.Properties), o.Properties[name]...)}
		for other, ps := range c.Options.Properties {
			if other != name {
				o.Properties[other] = ps
			}
		}
	}
	if o.Bans == nil {
		o.Bans = partition.NewBans(o.Pins)
	}
	if o.Registry == nil {
		var list []convert.Converter
		for _, b := range o.Backends {
			list = append(list, b.Converters()...)
		}
		var err error
		if o.Registry, err = convert.NewRegistry(list, graph.On(graph.NHWC), graph.On(graph.NCHW16c)); err != nil {
			return nil, err
		}
	}
	return &o, nil
}

// stages runs the stages up to one that bans nodes, or the last of the case. It reports whether that was reached.
func (c *Case) stages(ctx context.Context, s *partition.State, bans *partition.Bans) (bool, error) {
	for _, stage := range partition.Stages() {
		before := bans.Len()
		if err := stage.Run(s, ctx); err != nil {
			return false, err
		}
		if err := s.Verify(); err != nil {
			return false, fmt.Errorf("after %s: %w", stage.Name, err)
		}
		if bans.Len() > before {
			return false, nil
		}
		if stage.Name == c.After {
			return true, nil
		}
	}
	if c.After != "" {
		return false, fmt.Errorf("there is no stage %q", c.After)
	}
	return true, graph.Verify(s.Graph())
}

func (c *Case) outcome(s *partition.State, bans *partition.Bans) (*Outcome, error) {
	r := s.Result()
	out := &Outcome{Groups: s.Groups(), Graph: s.Graph(), Result: r}
	reasons := r.Rejected
	if c.After == "" {
		reasons = r.Explain()
	}
	for _, x := range reasons {
		out.Reasons = append(out.Reasons, fmt.Sprintf("%s not on %s: %v", x.Node, x.Backend, x.Reason))
	}
	for _, x := range bans.All() {
		out.Bans = append(out.Bans, fmt.Sprintf("%s not on %s, by %s: %v", x.Node, x.Backend, x.Pass, x.Reason))
	}
	var text strings.Builder
	err := s.WriteText(&text)
	out.State = text.String()
	return out, err
}

// fusing is a backend that takes every fused node, in the host's format.
type fusing struct{ *reference.Backend }

// Supports implements backend.Backend.
func (f fusing) Supports(n *graph.Node) backend.Support {
	if n.IsCarve(graph.OpFused) {
		return backend.Support{Signatures: []graph.Signature{graph.UniformSignature("fused", n, graph.HostFormat)}}
	}
	return f.Backend.Supports(n)
}
