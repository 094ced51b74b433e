package gpugroup

import (
	"github.com/carve-dev/carve/internal/gpukernel"
)

// cellWriter writes the cell of a direction of a recurrent layer: gates and states [batch, units] are values of p.
type cellWriter struct {
	*recurrent
	p *gpukernel.Program
	d int
}

func (c *cellWriter) f(text string, in ...gpukernel.Value) gpukernel.Value {
	return c.p.Scalar(c.typ, text, in...)
}

// state adds what a step has of each unit.
func (c *cellWriter) state(name string) gpukernel.Value {
	return c.p.Input(name, c.typ, c.batch, c.units)
}

// columns returns so many numbers of rows, from one on.
func (c *cellWriter) columns(v gpukernel.Value, from, n int) gpukernel.Value {
	return c.p.Slice(v, []int{c.p.Shape(v)[0], n}, []int{0, from}, []int{1, 1})
}

// given is the part of a gate that comes from the operand, its bias included.
func (c *cellWriter) given(gates gpukernel.Value, gate int) gpukernel.Value {
	return c.biased(c.columns(gates, gate*c.units, c.units), gate)
}

// recurring is the part of a gate that comes from the state, which is product at, with its bias.
func (c *cellWriter) recurring(recur gpukernel.Value, at, gate int) gpukernel.Value {
	return c.biased(c.columns(recur, at*c.units, c.units), c.gates+gate)
}

func (c *cellWriter) biased(v gpukernel.Value, part int) gpukernel.Value {
	if c.n.Input(3) == nil {
		return v
	}
	bias := c.p.Input("bias", c.typ, c.dirs, 2*c.gates*c.units)
	return c.f("$0 + $1", v, c.p.Slice(bias, []int{1, c.units}, []int{c.d, part * c.units}, []int{1, 1}))
}

// kept puts a new state in place, but for elements of the batch whose sequence has ended.
func (c *cellWriter) kept(v, before gpukernel.Value, name string) {
	if c.lens {
		mark := c.columns(c.p.Reshape(c.p.Input("mark", c.typ, c.marks()), 1, c.marks()), 0, c.batch)
		v = c.f("($1 != 0.0f ? $0 : $2)", v, c.p.Reshape(mark, c.batch, 1), before)
	}
	c.p.Output(v, name)
}

// cells returns the programs of a direction's cell: two where the state is reset between two products.
func (r *recurrent) cells(d int) []*gpukernel.Program {
	c := &cellWriter{r, &gpukernel.Program{}, d}
	gates := c.p.Input("gates", r.typ, r.batch, r.row())
	recur := c.p.Input("recur", r.typ, r.batch, r.row())
	acts := r.acts[d]
	before := c.state("before")
	sum := func(gate int) gpukernel.Value {
		return c.f("$0 + $1", c.given(gates, gate), c.recurring(recur, gate, gate))
	}
	switch r.gates {
	case 1:
		c.kept(c.f(r.activated(acts[0], "$0"), sum(0)), before, "after")
	case 3:
		update := c.f(r.activated(acts[0], "$0"), sum(0))
		reset := c.f(r.activated(acts[0], "$0"), sum(1))
		if !r.resets {
			hidden := c.f(r.activated(acts[1], "$0 + $1 * $2"), c.given(gates, 2), reset, c.recurring(recur, 2, 2))
			c.kept(c.f("(1.0f - $0) * $1 + $0 * $2", update, hidden, before), before, "after")
			break
		}
		c.p.Output(c.f("$0 * $1", reset, before), "reset")
		c.p.Output(update, "update")
		second := &cellWriter{r, &gpukernel.Program{}, d}
		second.reset(acts[1])
		return []*gpukernel.Program{c.p, second.p}
	case 4:
		c.lstm(sum, before)
	}
	return []*gpukernel.Program{c.p}
}

// reset writes the end of a GRU's cell, behind the product of the state that was reset.
func (c *cellWriter) reset(act string) {
	gates := c.p.Input("gates", c.typ, c.batch, c.row())
	recur := c.p.Input("recur", c.typ, c.batch, c.row())
	before, update := c.state("before"), c.state("update")
	hidden := c.f(c.activated(act, "$0 + $1"), c.given(gates, 2), c.recurring(recur, 0, 2))
	c.kept(c.f("(1.0f - $0) * $1 + $0 * $2", update, hidden, before), before, "after")
}

// lstm writes the cell of an LSTM, whose gates are input, output, forget and cell.
func (c *cellWriter) lstm(sum func(gate int) gpukernel.Value, before gpukernel.Value) {
	acts, cell := c.acts[c.d], c.state("cell")
	gate := func(g, part int, of gpukernel.Value) gpukernel.Value {
		v := sum(g)
		if c.n.Input(7) != nil {
			w := c.p.Input("peephole", c.typ, c.dirs, 3*c.units)
			v = c.f("$0 + $1 * $2", v, c.p.Slice(w, []int{1, c.units}, []int{c.d, part * c.units}, []int{1, 1}), of)
		}
		return c.f(c.activated(acts[0], "$0"), v)
	}
	in := gate(0, 0, cell)
	var forget gpukernel.Value
	if c.coupled {
		forget = c.f("1.0f - $0", in)
	} else {
		forget = gate(2, 2, cell)
	}
	next := c.f("$0 * $1 + $2 * $3", forget, cell, in, c.f(c.activated(acts[1], "$0"), sum(3)))
	out := gate(1, 1, next)
	// The last activation is of what is not clipped.
	bare := *c.recurrent
	bare.clip = "$x"
	hidden := c.f("$0 * $1", out, c.f(bare.activated(acts[2], "$0"), next))
	c.kept(hidden, before, "after")
	c.kept(next, cell, "next")
}
