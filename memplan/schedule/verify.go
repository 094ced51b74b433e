package schedule

import (
	"fmt"
	"slices"
)

// Verify proves a plan by the order of the steps alone: whatever lies over each other in an arena is used by steps of which
// those of one have all ended before those of the other begin. Within a step on one lane sub-steps tell. It costs O(pairs that
// lie over each other × lanes²). The error wraps ErrProblem.
func Verify(p *Problem, plan *Plan) error {
	if p == nil || plan == nil {
		return fmt.Errorf("%w: it is nil", ErrProblem)
	}
	o, err := happens(p)
	if err != nil {
		return err
	}
	if o == nil {
		o = inOrder(p)
	}
	t, members := o.touched(p), plan.members()
	for k := range plan.Arenas {
		a := &plan.Arenas[k]
		uses := make([]use, len(a.Placed))
		for i, b := range a.Placed {
			uses[i] = o.useOf(p, t, members, b)
		}
		by := make([]int, len(a.Placed))
		for i := range by {
			by[i] = i
		}
		slices.SortFunc(by, func(x, y int) int { return int(a.Placed[x].Offset - a.Placed[y].Offset) })
		for x, i := range by {
			for _, j := range by[x+1:] {
				if a.Placed[j].Offset >= a.Placed[i].Offset+a.Placed[i].Bytes {
					break
				}
				if !o.apart(&uses[i], &uses[j]) && !o.apart(&uses[j], &uses[i]) {
					return fmt.Errorf("%w: %v and %v of %v overlap in memory and in time", ErrProblem, a.Placed[i], a.Placed[j], a.Device)
				}
			}
		}
	}
	return nil
}

// use is who touches a rectangle: the first and last step on each lane, and the sub-steps that it lives in.
type use struct {
	first, last  []int32
	lower, upper int64
	kept         bool // it is read after the last step
}

// inOrder is the order of steps on one lane.
func inOrder(p *Problem) *order {
	o := &order{lanes: 1, lane: make([]int, len(p.Steps)), ended: make([]int32, len(p.Steps))}
	for i := range o.ended {
		o.ended[i] = int32(i) - 1
	}
	return o
}

// members lists the values that share the storage of another one, by that.
func (plan *Plan) members() map[int][]int {
	m := map[int][]int{}
	for v, root := range plan.roots {
		if v != root {
			m[root] = append(m[root], v)
		}
	}
	return m
}

// useOf gathers the steps that touch a rectangle: those of the values whose storage it is, or the step of a buffer.
func (o *order) useOf(p *Problem, t *touches, members map[int][]int, b Placed) use {
	u := use{first: fill(make([]int32, o.lanes)), last: fill(make([]int32, o.lanes)), lower: b.Lower, upper: b.Upper}
	if b.Step >= 0 {
		l := o.lane[b.Step]
		u.first[l], u.last[l] = int32(b.Step), int32(b.Step)
		return u
	}
	for _, v := range append([]int{b.Index}, members[b.Index]...) {
		u.kept = u.kept || p.Values[v].Keep
		for l := range o.lanes {
			if first := t.first[v*o.lanes+l]; first >= 0 && (u.first[l] < 0 || first < u.first[l]) {
				u.first[l] = first
			}
			u.last[l] = max(u.last[l], t.last[v*o.lanes+l])
		}
	}
	return u
}

// apart reports whether all that touch x have ended when any that touch y begin.
func (o *order) apart(x, y *use) bool {
	if x.kept {
		return false
	}
	for l, a := range x.last {
		if a < 0 {
			continue
		}
		for m, b := range y.first {
			switch {
			case b < 0:
			case a == b && l == m:
				if x.upper > y.lower {
					return false
				}
			case !o.before(int(a), int(b)):
				return false
			}
		}
	}
	return true
}
