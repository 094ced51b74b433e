package partition

import (
	"context"
	"slices"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/constants"
)

// InsertConversions puts one Convert node for each value and format, and names the constants that have to be packed: each
// once per format.
func (s *State) InsertConversions(context.Context) error {
	s.enter(stageInsert)
	b := &builder{s: s, packs: map[constants.Key]*graph.Value{}}
	b.constants()
	for _, v := range s.g.Inputs {
		b.convertValue(v)
	}
	for _, v := range s.g.Captures {
		b.convertValue(v)
	}
	for _, n := range s.order {
		for _, v := range n.Outputs {
			if v != nil {
				b.convertValue(v)
			}
		}
	}
	return nil
}

// builder puts conversions in.
type builder struct {
	s     *State
	packs map[constants.Key]*graph.Value
	wants []convert.Want // of one value after another
}

// groupAt returns the group of n, -1 outside of groups and for nil.
func (s *State) groupAt(n *graph.Node) int32 {
	if n == nil || n.ID >= len(s.groupOf) {
		return -1
	}
	return s.groupOf[n.ID]
}

func (s *State) setGroup(n *graph.Node, g int32) {
	for len(s.groupOf) <= n.ID {
		s.groupOf = append(s.groupOf, -1)
	}
	s.groupOf[n.ID] = g
}

// wantedBy returns the format in which an operand is read.
func wantedBy(u graph.Use) graph.Format {
	if u.Node.Ports == nil {
		if v := u.Node.RegionOperand(u.Slot); v != nil {
			return v.Format
		}
		return graph.HostFormat
	}
	if u.Slot >= len(u.Node.Ports.Inputs) {
		return graph.HostFormat
	}
	return u.Node.Ports.Inputs[u.Slot].Format
}

// constants points readers at converted constants: one per (constant, format), packed later.
func (b *builder) constants() {
	all := slices.Collect(b.s.g.Constants()) // those that are made here are none of them
	var uses []graph.Use
	for _, v := range all {
		if !v.IsConst() {
			continue
		}
		uses = append(uses[:0], v.Uses()...)
		for _, u := range uses {
			f := wantedBy(u)
			if f == v.Format {
				continue
			}
			k := constants.Key{Constant: v.Const, Format: f}
			p := b.packs[k]
			if p == nil {
				t := &tensor.Tensor{DType: v.Const.DType, Shape: v.Const.Shape, Device: f.Device}
				p = b.s.g.AddConst(v.Name, v.Const) // t has no data yet that its content could be read from
				p.Const, p.Format = t, f
				b.packs[k] = p
				b.s.result.Packs = append(b.s.result.Packs, Pack{Name: v.Name, Constant: v.Const, Format: f, Packed: t})
			}
			u.Node.SetOperand(u.Slot, p)
		}
		if v.NumUses() == 0 && !v.IsOutput() {
			b.s.g.RemoveConst(v)
		}
	}
}

// convertValue inserts the conversions of one value. A Convert belongs to the producer's group where a reader in that
// group wants it; otherwise it stands between the groups.
func (b *builder) convertValue(v *graph.Value) {
	if b.s.o.Isolated {
		b.isolateValue(v)
		return
	}
	wants := b.wants[:0]
	for _, u := range v.Uses() {
		if f := wantedBy(u); f != v.Format {
			wants = append(wants, convert.Want{Node: u.Node, Slot: u.Slot, Format: f})
		}
	}
	var out *graph.Format
	if v.IsOutput() && v.Format != graph.HostFormat {
		out = &graph.Format{}
	}
	if len(wants) == 0 && out == nil {
		return
	}
	b.wants = wants
	sortWants(wants)
	home := b.s.groupAt(v.Producer)
	for _, c := range convert.Insert(v, wants, out) {
		where := int32(-1)
		for _, u := range c.Outputs[0].Uses() {
			if home >= 0 && b.s.groupAt(u.Node) == home {
				where = home
			}
		}
		if where >= 0 {
			c.Backend = v.Producer.Backend
		}
		b.s.setGroup(c, where)
	}
}
