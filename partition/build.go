package partition

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// Partition rewrites g so that its nodes are Subgraph nodes, one per group, Convert nodes between them, and the host
// scheduler's nodes. Types must have been inferred. Regions of the host scheduler's nodes are left alone: they are
// partitioned by themselves. It stops soon after ctx ends.
//
// The error is an *UnplacedError for a node that nobody runs; it wraps ErrSignature or ErrReview where a backend or property
// misbehaves, graph.ErrCycle where g has a cycle, and is ctx's where that ended. The graph is of no use after an error.
func Partition(ctx context.Context, g *graph.Graph, o *Options) (*Result, error) {
	a, err := assign(ctx, g, o)
	if err != nil {
		return nil, err
	}
	order, groupOf, groups, err := agreed(ctx, a)
	if err != nil {
		return nil, err
	}
	b := &builder{a: a, g: g, groupOf: groupOf, packs: map[packKey]*graph.Value{}}
	b.constants()
	for _, v := range g.Inputs {
		b.convertValue(v)
	}
	for _, v := range g.Captures {
		b.convertValue(v)
	}
	for _, n := range order {
		for _, v := range n.Outputs {
			if v != nil {
				b.convertValue(v)
			}
		}
	}
	res := &Result{Rejected: a.reject, Packs: b.made}
	if err := b.extract(groups, res); err != nil {
		return nil, err
	}
	if err := g.Sort(); err != nil {
		return nil, err
	}
	g.Compact()
	res.sortGroups(g)
	if err := Verify(g); err != nil {
		return nil, err
	}
	if o.Logger != nil {
		o.Logger.LogAttrs(ctx, slog.LevelDebug, "partitioned", slog.Int("groups", len(res.Groups)), slog.Int("packs", len(res.Packs)))
	}
	for _, ps := range a.props {
		for _, p := range ps {
			if post, ok := property.As[property.PostPartitioner](p); ok {
				if err := post.PostPartition(g); err != nil {
					return nil, fmt.Errorf("property %s: %w", p.Name(), err)
				}
			}
		}
	}
	return res, nil
}

type packKey struct {
	t *tensor.Tensor
	f graph.Format
}

type builder struct {
	a       *assignment
	g       *graph.Graph
	groupOf []int32 // by node id; -1 outside of groups
	packs   map[packKey]*graph.Value
	made    []Pack
}

func (b *builder) group(n *graph.Node) int32 {
	if n == nil || n.ID >= len(b.groupOf) {
		return -1
	}
	return b.groupOf[n.ID]
}

func (b *builder) setGroup(n *graph.Node, g int32) {
	for len(b.groupOf) <= n.ID {
		b.groupOf = append(b.groupOf, -1)
	}
	b.groupOf[n.ID] = g
}

// wantedBy returns the format in which an operand is read.
func wantedBy(u graph.Use) graph.Format {
	if u.Node.Ports == nil || u.Slot >= len(u.Node.Ports.Inputs) {
		return graph.HostFormat
	}
	return u.Node.Ports.Inputs[u.Slot].Format
}

// constants points readers at converted constants: one per (constant, format), packed later.
func (b *builder) constants() {
	var all []*graph.Value
	for v := range b.g.Constants() {
		all = append(all, v)
	}
	for _, v := range all {
		if !v.IsConst() {
			continue
		}
		uses := append([]graph.Use(nil), v.Uses()...)
		for _, u := range uses {
			f := wantedBy(u)
			if f == v.Format {
				continue
			}
			k := packKey{v.Const, f}
			p := b.packs[k]
			if p == nil {
				t := &tensor.Tensor{DType: v.Const.DType, Shape: v.Const.Shape, Device: f.Device}
				p = b.g.AddConst(v.Name, v.Const) // t has no data yet that its content could be read from
				p.Const, p.Format = t, f
				b.packs[k] = p
				b.made = append(b.made, Pack{Name: v.Name, Constant: v.Const, Format: f, Packed: t})
			}
			u.Node.SetOperand(u.Slot, p)
		}
		if v.NumUses() == 0 && !v.IsOutput() {
			b.g.RemoveConst(v)
		}
	}
}

// convertValue inserts the conversions of one value. A Convert belongs to the producer's group where a reader in that
// group wants it; otherwise it stands between the groups.
func (b *builder) convertValue(v *graph.Value) {
	if b.a.o.Isolated {
		b.isolateValue(v)
		return
	}
	wants := make([]convert.Want, 0, v.NumUses())
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
	sortWants(wants)
	home := b.group(v.Producer)
	for _, c := range convert.Insert(v, wants, out) {
		where := int32(-1)
		for _, u := range c.Outputs[0].Uses() {
			if home >= 0 && b.group(u.Node) == home {
				where = home
			}
		}
		if where >= 0 {
			c.Backend = v.Producer.Backend
		}
		b.setGroup(c, where)
	}
}

// extract makes a Subgraph node of every group.
func (b *builder) extract(groups []groupInfo, res *Result) error {
	order, err := b.g.Topo()
	if err != nil {
		return err
	}
	members := make([][]*graph.Node, len(groups))
	for _, n := range order {
		if k := b.group(n); k >= 0 {
			members[k] = append(members[k], n)
		}
	}
	for k, nodes := range members {
		if len(nodes) == 0 {
			continue
		}
		info := groups[k]
		name := b.a.names[info.backend]
		n, err := b.g.Extract(nodes, graph.NodeSpec{
			Op:    graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph},
			Name:  fmt.Sprintf("%s_%d", name, k),
			Attrs: []graph.Attr{graph.StringAttr("backend", name)},
		})
		if err != nil {
			return fmt.Errorf("group %d of %s: %w", k, name, err)
		}
		n.Backend = name
		res.Groups = append(res.Groups, &Group{Backend: name, Node: n, Body: n.Regions[0].Graph, Dynamic: info.dynamic})
	}
	return nil
}

// sortGroups puts the groups into the order of the node list.
func (r *Result) sortGroups(g *graph.Graph) {
	by := map[*graph.Node]*Group{}
	for _, gr := range r.Groups {
		by[gr.Node] = gr
	}
	r.Groups = r.Groups[:0]
	for n := range g.Nodes() {
		if gr := by[n]; gr != nil {
			r.Groups = append(r.Groups, gr)
		}
	}
}
