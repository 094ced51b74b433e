package cpu

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/place"
)

// Lengths that change from run to run, as that of a cache of keys and values does, are often seen by few nodes of a group. An
// instance for another length is then made of one for a length that is at least as large, by planning those nodes again.

// growth is by how much a value is larger at most in a plan of which others are made, unless an eighth of it is more.
const growth = 64

// littleMore is how many bytes the buffers of such a plan may always take beyond what they would, beside a quarter.
const littleMore = 1 << 20

// maxTries is how often in a row a larger plan is made in vain.
const maxTries = 3

// maxBases is how many plans are kept to make others of.
const maxBases = 4

// bases are the plans of an executable of which others are made.
type bases struct {
	mu    sync.Mutex
	list  []*base
	rigid map[string]int // symbols whose other values could not be planned so, and how often in a row
}

// base is a plan, and its instance.
type base struct {
	p     *planner
	in    *instance
	reach map[string]*place.Reach // by symbols
}

func (x *bases) add(p *planner, in *instance) {
	if p.calls > 0 || p.mayFail || slices.ContainsFunc(p.Order, hasTexts) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.list) == maxBases {
		x.list = slices.Delete(x.list, 0, 1)
	}
	x.list = append(x.list, &base{p: p, in: in, reach: map[string]*place.Reach{}})
}

// changed returns the symbols that have another value, and whether none has a larger one than in the base.
func (x *base) changed(b graph.Bindings) (symbols []string, covers bool) {
	if len(b) != len(x.p.Bind) {
		return nil, false
	}
	covers = true
	for s, n := range b {
		if old, ok := x.p.Bind[s]; !ok {
			return nil, false
		} else if old != n {
			symbols = append(symbols, s)
			covers = covers && n < old
		}
	}
	slices.Sort(symbols)
	return symbols, covers
}

// reaches returns what the symbols have to do with the base; nil where more than three quarters of the nodes see them.
func (x *bases) reaches(of *base, symbols []string, key string) *place.Reach {
	r, ok := of.reach[key]
	if !ok {
		set := map[string]bool{}
		for _, s := range symbols {
			set[s] = true
		}
		if r = of.p.ReachOf(set); 4*len(r.Nodes) > 3*len(of.p.Order) {
			r = nil
		}
		of.reach[key] = r
	}
	return r
}

// similar returns an instance that is made of a base, nil where there is none that serves. Where it is only too small, a larger one
// is made, whose buffers need little more memory.
func (x *bases) similar(ctx context.Context, e *executable, b graph.Bindings) *instance {
	x.mu.Lock()
	defer x.mu.Unlock()
	var small *base
	var grown []string
	for _, of := range slices.Backward(x.list) {
		symbols, covers := of.changed(b)
		if symbols == nil && !covers {
			continue
		}
		key := strings.Join(symbols, " ")
		if x.rigid[key] == maxTries {
			continue
		}
		r := x.reaches(of, symbols, key)
		if r == nil {
			x.failed(key, maxTries)
			continue
		}
		if covers || len(r.Nodes) == 0 {
			if in := of.again(b, r); in != nil {
				return in
			}
		} else if small == nil {
			small, grown = of, symbols
		}
	}
	if small == nil {
		return nil
	}
	return x.grow(ctx, e, small, b, grown)
}

// grow makes a base for values of symbols that are larger than those of b, all by as much, as the model may say what lies between
// them, and an instance for b of it.
func (x *bases) grow(ctx context.Context, e *executable, small *base, b graph.Bindings, symbols []string) *instance {
	up, most := maps.Clone(b), int64(0)
	for _, s := range symbols {
		most = max(most, b[s])
	}
	step := max(growth, most/8)
	for _, s := range symbols {
		up[s] += step - most%step
	}
	key := strings.Join(symbols, " ")
	p, in, err := e.specialize(ctx, up)
	if err == nil && p.calls == 0 && in.bytes() <= small.in.bytes()+small.in.bytes()/4+littleMore {
		of := &base{p: p, in: in, reach: map[string]*place.Reach{}}
		if r := x.reaches(of, symbols, key); r != nil {
			if made := of.again(b, r); made != nil {
				if len(x.list) == maxBases {
					x.list = slices.Delete(x.list, 0, 1)
				}
				x.list = append(x.list, of)
				delete(x.rigid, key)
				return made
			}
		}
	}
	if ctx.Err() == nil {
		x.failed(key, x.rigid[key]+1)
	}
	return nil
}

// failed notes how often other values of these symbols could not be planned.
func (x *bases) failed(key string, times int) {
	if x.rigid == nil {
		x.rigid = map[string]int{}
	}
	x.rigid[key] = times
}

// bytes returns how much memory an instance's buffers take together.
func (in *instance) bytes() int64 {
	var n int64
	for _, b := range in.reqs.Buffers {
		n += b.Bytes
	}
	return n
}

// again returns the instance for other values of the symbols of r, nil where the base does not serve.
func (x *base) again(b graph.Bindings, r *place.Reach) *instance {
	if len(r.Nodes) == 0 && x.p.Same(r) {
		return x.in
	}
	p := *x.p
	p.steps = nil
	in := &instance{steps: slices.Clone(x.in.steps)}
	plan, err := x.p.Again(b, r, func(q *place.Plan, n *graph.Node) error {
		p.Plan, p.steps = q, p.steps[:0]
		first := q.NextStep()
		p.settle(n)
		if err := p.plan(n); err != nil {
			return err
		}
		if len(p.steps) <= len(in.steps)-first {
			copy(in.steps[first:], p.steps)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	in.slots, in.reqs = plan.Slots, plan.Reqs // also where no node was planned again
	a := aliasesOf(plan)
	for _, j := range x.in.joined {
		now, ok := j.again(a, in.steps)
		if !ok {
			return nil
		}
		if now.end > 0 {
			in.joined = append(in.joined, now)
		}
	}
	p.Plan = nil // of which no step may read anything, since the next instance is made where it was
	return in
}
