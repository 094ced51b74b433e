package partition

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// CheckConverters looks for the conversions that nobody can make, before they are put in. A backend that works in a format
// from or to which there is no converter cannot be reached: the nodes of that group are banned from it.
func (s *State) CheckConverters(ctx context.Context) error {
	s.enter(stageCheck)
	c := reach{s: s, known: map[route]error{}}
	visit := func(v *graph.Value) {
		if !v.IsDims() {
			c.value(v)
		}
	}
	for _, v := range s.g.Inputs {
		visit(v)
	}
	for _, v := range s.g.Captures {
		visit(v)
	}
	for v := range s.g.Constants() {
		visit(v)
	}
	for i, n := range s.order {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		for _, v := range n.Outputs {
			if v != nil {
				visit(v)
			}
		}
	}
	return nil
}

// reach knows which formats can be converted to which.
type reach struct {
	s       *State
	known   map[route]error
	members [][]*graph.Node // of the groups, made when the first is needed
}

// route is a conversion of a kind of tensor.
type route struct {
	from, to graph.Format
	dtype    tensor.DType
	rank     int
}

// missing returns the error of a conversion that nobody makes.
func (c *reach) missing(v *graph.Value, from, to graph.Format) error {
	if from == to {
		return nil
	}
	r := route{from: from, to: to, dtype: v.Type.DType, rank: -1}
	if v.Type.Shape.Known() {
		r.rank = len(v.Type.Shape)
	}
	err, ok := c.known[r]
	if !ok {
		_, err = c.s.o.Registry.PathOf(from, to, r.dtype, r.rank)
		c.known[r] = err
	}
	return err
}

// value looks at the conversions of one value. Isolated groups convert from and to the host's format alone.
func (c *reach) value(v *graph.Value) {
	if c.s.o.Isolated || v.IsOutput() {
		if err := c.missing(v, v.Format, graph.HostFormat); err != nil {
			c.ban(v.Producer, v, err)
		}
	}
	for _, u := range v.Uses() {
		from, to := v.Format, wantedBy(u)
		if c.s.o.Isolated {
			from = graph.HostFormat
		}
		err := c.missing(v, from, to)
		if err == nil {
			continue
		}
		// Whoever cannot be reached from the host, or not be left to it, is at fault; the reader where both can.
		away := v.Producer != nil && c.missing(v, from, graph.HostFormat) != nil
		if away {
			c.ban(v.Producer, v, err)
		}
		if !away || c.missing(v, graph.HostFormat, to) != nil {
			c.ban(u.Node, v, err)
		}
	}
}

// ban bans the nodes of n's group from its backend.
func (c *reach) ban(n *graph.Node, v *graph.Value, err error) {
	k := c.s.groupAt(n)
	if k < 0 {
		return
	}
	if c.members == nil {
		c.members = c.s.members()
	}
	why := property.Because(property.NoConverter, "%v", fmt.Errorf("value %v: %w", v, err))
	for _, m := range c.members[k] {
		c.s.ban(m, c.s.groups[k].backend, stageCheck, why)
	}
}
