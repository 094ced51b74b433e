package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Difference is one thing in which two plans differ. Was or Is is "" where a plan has nothing of it.
type Difference struct {
	Kind    Aspect
	Where   string
	Was, Is string
}

// Aspect is what of a plan a Difference is about.
type Aspect uint8

const (
	Identity  Aspect = iota // what a plan holds for
	Placement               // who runs a node, and as what
	Forms                   // signatures of nodes, conversions
	Groups                  // which nodes belong together
	Order                   // of execution
	Costs                   // as they were modelled
	Memory                  // arenas and offsets
)

var aspects = []string{"identity", "placement", "formats", "groups", "order", "cost", "memory"}

// String returns the name.
func (a Aspect) String() string { return aspects[a] }

// String returns "placement: node "x": cpu Conv → mkl Conv".
func (d Difference) String() string {
	is, was := d.Is, d.Was
	if was == "" {
		was = "(nothing)"
	}
	if is == "" {
		is = "(nothing)"
	}
	return fmt.Sprintf("%v: %s: %s → %s", d.Kind, d.Where, was, is)
}

// Diff returns in what b differs from a: facts, graphs, arenas, each in the order of a, and behind them what only b has. It is
// linear in both.
func Diff(a, b *Plan) []Difference {
	var d differ
	d.maps(Identity, "", facts(a), facts(b))
	d.maps(Placement, "", bans(a), bans(b))
	for i := range max(len(a.Graphs), len(b.Graphs)) {
		var x, y Graph
		if i < len(a.Graphs) {
			x = a.Graphs[i]
		}
		if i < len(b.Graphs) {
			y = b.Graphs[i]
		}
		d.graph(&x, &y)
	}
	d.maps(Memory, "", arenas(a), arenas(b))
	return d.list
}

// Fits returns the differences in what was decided that say that a plan was not followed: placement, formats and groups.
func Fits(a, b *Plan) []Difference {
	return slices.DeleteFunc(Diff(a, b), func(d Difference) bool {
		return d.Kind != Placement && d.Kind != Forms && d.Kind != Groups
	})
}

type differ struct{ list []Difference }

// pairs is a map with an order.
type pairs struct {
	keys []string
	of   map[string]string
}

// add adds a value under a key, with a number where the key is taken.
func (p *pairs) add(key, value string) {
	if p.of == nil {
		p.of = map[string]string{}
	}
	if _, taken := p.of[key]; taken {
		n := 2
		if s := p.of["\x00"+key]; s != "" { // the number that was taken last
			n, _ = strconv.Atoi(s)
			n++
		}
		p.of["\x00"+key] = strconv.Itoa(n)
		key += " #" + strconv.Itoa(n)
	}
	p.keys = append(p.keys, key)
	p.of[key] = value
}

func (d *differ) maps(kind Aspect, where string, a, b pairs) {
	for _, k := range a.keys {
		if a.of[k] != b.of[k] {
			d.list = append(d.list, Difference{kind, where + k, a.of[k], b.of[k]})
		}
	}
	for _, k := range b.keys {
		if _, known := a.of[k]; !known {
			d.list = append(d.list, Difference{kind, where + k, "", b.of[k]})
		}
	}
}

func facts(p *Plan) (out pairs) {
	for _, f := range p.Facts {
		out.add(f.Key, f.Value)
	}
	return out
}

func bans(p *Plan) (out pairs) {
	for _, b := range p.Bans {
		out.add(fmt.Sprintf("ban of node %q from %s", b.Node, b.Backend), fmt.Sprintf("%s by %s: %s", b.Code, b.Pass, b.Detail))
	}
	return out
}

func arenas(p *Plan) (out pairs) {
	for i := range p.Arenas {
		a := &p.Arenas[i]
		where := fmt.Sprintf("arena %q", a.Device)
		out.add(where, fmt.Sprintf("%d bytes of %d by %s", a.Bytes, a.Bound, a.Method))
		for _, b := range a.Buffers {
			out.add(fmt.Sprintf("%s, buffer %q", where, b.Name), fmt.Sprintf("%d bytes at %d from %d to %d", b.Bytes, b.Offset, b.First, b.End))
		}
	}
	return out
}

// view is a graph taken apart by aspects.
type view struct {
	nodes, forms, costs, converts, sum, groups pairs
	order                                      []string
}

// group is one that a view reads: it goes by the first of its nodes in the order of names, since others may be run first.
type group struct {
	backend, name string
	nodes         int
}

func (v *view) close(g *group) {
	if g.nodes > 0 {
		v.groups.add(fmt.Sprintf("group of %q", g.name), fmt.Sprintf("%d on %s", g.nodes, g.backend))
	}
	*g = group{}
}

func viewOf(g *Graph) (v view) {
	var in group
	if g.Nanoseconds != 0 || g.Bound != 0 {
		v.sum.add("sum", fmt.Sprintf("%.0f ns of at least %.0f ns", g.Nanoseconds, g.Bound))
	}
	for i := range g.Steps {
		s := &g.Steps[i]
		where := fmt.Sprintf("node %q", s.Name)
		switch s.Kind {
		case Group:
			v.close(&in)
			in.backend = s.Backend
			continue
		case Convert:
			place := "between groups"
			if s.Within {
				place = "within a group of " + in.backend
			}
			v.converts.add(fmt.Sprintf("value %q to %s", s.Name, s.Out[0]), "from "+s.In[0]+" "+place)
			continue
		case Host:
			v.nodes.add(where, "the host scheduler, "+s.Op)
			v.order = append(v.order, s.Name)
			continue
		case Fused:
			where = fmt.Sprintf("node %q of %s", s.Name, strings.Join(s.Of, ", "))
		case Node:
		}
		v.nodes.add(where, in.backend+" "+s.Op)
		v.forms.add(where, s.form())
		if s.Cost != 0 {
			v.costs.add(where, fmt.Sprintf("%.0f ns", s.Cost))
		}
		v.order = append(v.order, s.Name)
		if in.nodes++; in.nodes == 1 || s.Name < in.name {
			in.name = s.Name
		}
	}
	v.close(&in)
	return v
}

func (d *differ) graph(a, b *Graph) {
	where := ""
	if name := max(a.Name, b.Name); name != "" {
		where = fmt.Sprintf("graph %q, ", name)
	}
	x, y := viewOf(a), viewOf(b)
	d.maps(Placement, where, x.nodes, y.nodes)
	d.maps(Forms, where, x.forms, y.forms)
	d.maps(Forms, where, x.converts, y.converts)
	d.maps(Groups, where, x.groups, y.groups)
	d.sequence(Order, where+"step", x.order, y.order)
	d.maps(Costs, where, x.sum, y.sum)
	d.maps(Costs, where, x.costs, y.costs)
}

// sequence tells the first place in which two lists differ, and their lengths where these do.
func (d *differ) sequence(kind Aspect, where string, a, b []string) {
	if len(a) != len(b) {
		d.list = append(d.list, Difference{kind, "number of " + where + "s", strconv.Itoa(len(a)), strconv.Itoa(len(b))})
	}
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			d.list = append(d.list, Difference{kind, fmt.Sprintf("%s %d", where, i), a[i], b[i]})
			return
		}
	}
}
