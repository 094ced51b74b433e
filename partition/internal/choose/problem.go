package choose

import (
	"context"
	"errors"
	"fmt"
)

// None is no state, no color, no claim and no variable.
const None = int32(-1)

// Hard is the cost of what must not be. Costs from it on count as Hard; what is allowed costs less than 1<<58 in sum.
const Hard = int64(1) << 60

// Problem is what to choose, and what it costs. Slices may be shared between variables and values; they are not changed.
type Problem struct {
	Vars   []Var
	Values []Value
	Launch []int64 // what a launch costs, by color
	// Hops appends the hops on the way of a value from one state to another that differs to a list; false means that there is no
	// way. A hop has one cost for one value, whichever way it is part of. It is called from one goroutine.
	Hops func(list []Hop, value int, from, to int32) ([]Hop, bool)
}

// Var is a variable.
type Var struct {
	Alts []Alt // at least one
	// Joins is the value whose maker the variable may share a launch with; None where there is none.
	Joins int32
}

// Alt is one alternative.
type Alt struct {
	Cost  int64 // at least 0
	Color int32 // whose launch it needs; None for no launch
	// Claim is what the alternative is part of: every variable with an alternative of that claim takes it, or none does. A
	// variable has at most one alternative of a claim. None for those by themselves.
	Claim int32
}

// Value is what one variable makes and others read.
type Value struct {
	Maker int32   // the variable; None where the value is there already, in state Made[0]
	Made  []int32 // the state that it is made in, by alternative of Maker
	Uses  []Use   // in the order of their variables
	Fixed []int32 // states that are wanted whatever is chosen
}

// Use is a reader of a value.
type Use struct {
	Var   int32
	Wants []int32 // the state, by alternative of Var; None where it does not read the value from outside
}

// Hop is one step of a conversion. Equal ids of one value are paid once.
type Hop struct {
	ID   int32
	Cost int64
}

// ErrProblem is wrapped by errors about problems that make no sense.
var ErrProblem = errors.New("bad problem of choice")

// check returns an error where slices do not fit together.
func (p *Problem) check() error {
	for i := range p.Vars {
		v := &p.Vars[i]
		if len(v.Alts) == 0 || len(v.Alts) > 1<<15 || int(v.Joins) >= len(p.Values) {
			return fmt.Errorf("%w: variable %d has %d alternatives and joins value %d", ErrProblem, i, len(v.Alts), v.Joins)
		}
		for _, a := range v.Alts {
			if a.Cost < 0 || int(a.Color) >= len(p.Launch) {
				return fmt.Errorf("%w: variable %d has an alternative of cost %d and color %d", ErrProblem, i, a.Cost, a.Color)
			}
		}
	}
	for i := range p.Values {
		v := &p.Values[i]
		made := 1
		if v.Maker >= 0 {
			if int(v.Maker) >= len(p.Vars) {
				return fmt.Errorf("%w: value %d is variable %d's", ErrProblem, i, v.Maker)
			}
			made = len(p.Vars[v.Maker].Alts)
		}
		if len(v.Made) != made {
			return fmt.Errorf("%w: value %d is made in %d states by %d alternatives", ErrProblem, i, len(v.Made), made)
		}
		for k, u := range v.Uses {
			if k > 0 && u.Var < v.Uses[k-1].Var || u.Var < 0 || int(u.Var) >= len(p.Vars) || u.Var == v.Maker || len(u.Wants) != len(p.Vars[u.Var].Alts) {
				return fmt.Errorf("%w: a use of value %d by variable %d", ErrProblem, i, u.Var)
			}
		}
	}
	return nil
}

// often is how many steps of a loop come between two looks at the context.
const often = 1024

// sum adds costs.
func sum(a, b int64) int64 { return min(a+b, Hard) }

// pricer knows what conversions cost. It holds buffers that it uses again.
type pricer struct {
	p     *Problem
	hops  []Hop
	wants []int32
}

// cost returns what it costs to have a value, which is there in one state, in others as well.
func (c *pricer) cost(value int, from int32, wants ...int32) int64 {
	c.hops = c.hops[:0]
	for i, to := range wants {
		if to == from || to == None || contains(wants[:i], to) {
			continue
		}
		first := len(c.hops)
		list, ok := c.p.Hops(c.hops, value, from, to)
		c.hops = list
		if !ok {
			return Hard
		}
		n := first
		for _, h := range c.hops[first:] {
			if !hasHop(c.hops[:n], h.ID) {
				c.hops[n] = h
				n++
			}
		}
		c.hops = c.hops[:n]
	}
	total := int64(0)
	for _, h := range c.hops {
		total = sum(total, h.Cost)
	}
	return total
}

func hasHop(hops []Hop, id int32) bool {
	for i := range hops {
		if hops[i].ID == id {
			return true
		}
	}
	return false
}

func contains(list []int32, x int32) bool {
	for _, y := range list {
		if y == x {
			return true
		}
	}
	return false
}

// made returns the state that a value is made in.
func (v *Value) made(x []int32) int32 {
	if v.Maker < 0 {
		return v.Made[0]
	}
	return v.Made[x[v.Maker]]
}

// value returns what the conversions of a value cost.
func (c *pricer) value(value int, x []int32) int64 {
	v := &c.p.Values[value]
	c.wants = append(c.wants[:0], v.Fixed...)
	for i := range v.Uses {
		if w := v.Uses[i].Wants[x[v.Uses[i].Var]]; w != None && !contains(c.wants, w) {
			c.wants = append(c.wants, w)
		}
	}
	return c.cost(value, v.made(x), c.wants...)
}

// launch returns what the launch of a variable costs.
func (p *Problem) launch(v int32, x []int32) int64 {
	color := p.Vars[v].Alts[x[v]].Color
	if color < 0 {
		return 0
	}
	if j := p.Vars[v].Joins; j >= 0 {
		if m := p.Values[j].Maker; m >= 0 && p.Vars[m].Alts[x[m]].Color == color {
			return 0
		}
	}
	return p.Launch[color]
}

// Cost returns what a choice, of an alternative for each variable, costs; Hard where it must not be. It costs O(problem).
func (p *Problem) Cost(x []int32) int64 {
	total, _ := p.cost(context.Background(), x)
	return total
}

// cost is Cost with a context, whose error it returns.
func (p *Problem) cost(ctx context.Context, x []int32) (int64, error) {
	c := pricer{p: p}
	total := int64(0)
	claims := map[int32]int{}
	for v := range p.Vars {
		if v%often == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		a := &p.Vars[v].Alts[x[v]]
		total = sum(total, sum(a.Cost, p.launch(int32(v), x)))
		if a.Claim >= 0 {
			claims[a.Claim]++
		}
	}
	for i := range p.Values {
		if i%often == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		total = sum(total, c.value(i, x))
	}
	if len(claims) > 0 {
		for v := range p.Vars {
			for _, a := range p.Vars[v].Alts {
				if n, ok := claims[a.Claim]; ok && a.Claim >= 0 {
					claims[a.Claim] = n - 1
				}
			}
		}
		for _, n := range claims {
			if n != 0 { // of those that have it, not all took it
				return Hard, nil
			}
		}
	}
	return total, nil
}
