package convert

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
)

// Want is a reader's demand: operand Slot of Node in a format.
type Want struct {
	Node   *graph.Node
	Slot   int
	Format graph.Format
}

// Insert gives every reader of v the format that it wants: one Convert node per distinct format other than v's own, none
// for v's own format. It returns the Convert nodes in order of first demand. Readers that are not named keep v.
//
// The caller names graph outputs through outputs: the format that the graph's outputs have to have, or nil.
func Insert(v *graph.Value, wants []Want, output *graph.Format) []*graph.Node {
	g := v.Graph()
	var made []*graph.Node
	converted := func(f graph.Format) *graph.Value {
		for _, n := range made {
			if n.Outputs[0].Format == f {
				return n.Outputs[0]
			}
		}
		n := NewConvert(g, v, f)
		made = append(made, n)
		return n.Outputs[0]
	}
	for _, w := range wants {
		if w.Format != v.Format {
			w.Node.SetOperand(w.Slot, converted(w.Format))
		}
	}
	if output != nil && v.IsOutput() && *output != v.Format {
		g.MoveOutputs(v, converted(*output))
	}
	return made
}

// NewConvert appends a Convert node from v to format f.
func NewConvert(g *graph.Graph, v *graph.Value, f graph.Format) *graph.Node {
	rank := len(v.Type.Shape)
	n := g.AddNode(graph.NodeSpec{
		Op:      graph.Op{Domain: graph.CarveDomain, Name: graph.OpConvert},
		Inputs:  []*graph.Value{v},
		Outputs: []string{""},
		Name:    fmt.Sprintf("%s:%s→%s", v, v.Format.Name(rank), f.Name(rank)),
		Origins: []string{},
	})
	n.Outputs[0].Type = v.Type
	n.Outputs[0].Format = f
	return n
}

// Eliminate removes superfluous Convert nodes of g: those between equal formats, those that undo the one before them
// (a chain of conversions starts at its first source), and twins (one per value and format). It returns how many it
// removed. Convert nodes never carry data of the model, so nothing else changes.
func Eliminate(g *graph.Graph) (int, error) {
	order, err := g.Topo()
	if err != nil {
		return 0, err
	}
	type key struct {
		v *graph.Value
		f graph.Format
	}
	have := map[key]*graph.Value{}
	removed := 0
	for _, n := range order {
		if !n.IsCarve(graph.OpConvert) {
			continue
		}
		src, out := n.Inputs[0], n.Outputs[0]
		for src.Producer != nil && src.Producer.IsCarve(graph.OpConvert) {
			src = src.Producer.Inputs[0]
		}
		k := key{src, out.Format}
		switch {
		case src.Format == out.Format:
			g.ReplaceUses(out, src)
		case have[k] != nil:
			g.ReplaceUses(out, have[k])
		default:
			have[k] = out
			n.SetOperand(0, src)
			continue
		}
		g.Remove(n)
		removed++
	}
	for i := len(order) - 1; i >= 0; i-- {
		n := order[i]
		if n.Graph() == g && n.IsCarve(graph.OpConvert) && n.Outputs[0].NumUses() == 0 && !n.Outputs[0].IsOutput() {
			g.Remove(n)
			removed++
		}
	}
	return removed, nil
}

// Lower expands every Convert node of g into single hops along the cheapest path and shares equal hops of one value, so
// that each hop's buffer is planned and paid once. It returns the converter of each Convert node that is left.
func Lower(g *graph.Graph, r *Registry) (map[*graph.Node]*Converter, error) {
	order, err := g.Topo()
	if err != nil {
		return nil, err
	}
	type key struct {
		v *graph.Value
		f graph.Format
	}
	hop := map[key]*graph.Value{}
	by := map[*graph.Node]*Converter{}
	for _, n := range order {
		if !n.IsCarve(graph.OpConvert) {
			continue
		}
		src, out := n.Inputs[0], n.Outputs[0]
		rank := -1
		if src.Type.Shape.Known() {
			rank = len(src.Type.Shape)
		}
		path, err := r.PathOf(src.Format, out.Format, src.Type.DType, rank)
		if err != nil {
			return nil, fmt.Errorf("value %v: %w", src, err)
		}
		for i, c := range path {
			k := key{src, c.To}
			last := i == len(path)-1
			if v := hop[k]; v != nil {
				if last {
					g.ReplaceUses(out, v)
					g.Remove(n)
				}
				src = v
				continue
			}
			if last {
				n.SetOperand(0, src)
				by[n] = c
				hop[k] = out
			} else {
				m := NewConvert(g, src, c.To)
				m.Backend = n.Backend
				by[m] = c
				hop[k] = m.Outputs[0]
				src = m.Outputs[0]
			}
		}
	}
	return by, nil
}
