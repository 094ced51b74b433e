package schedule

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// order says what has ended when a step begins, where steps run on several lanes. Lane 0, the host, runs its steps one after
// another and queues those of other lanes when it comes to them; each of those lanes is a queue of its own. Between lanes a
// step waits for the steps that make its operands, and no longer.
type order struct {
	lanes int
	lane  []int // of each step
	// ended holds, per step and lane, the last step of the lane that has ended when the step begins, -1 for none.
	ended []int32
	waits [][]int
}

// mostLanes bounds the lanes of a problem: what is known of the order takes a number per step and lane.
const mostLanes = 256

// happens returns the order of a problem's steps; nil where all are on lane 0, whose order is that of the list.
func happens(p *Problem) (*order, error) {
	o := &order{lanes: 1, lane: make([]int, len(p.Steps))}
	for i := range p.Steps {
		l := p.Steps[i].Lane
		if l < 0 || l >= mostLanes {
			return nil, fmt.Errorf("%w: step %d is on lane %d", ErrProblem, i, l)
		}
		o.lane[i], o.lanes = l, max(o.lanes, l+1)
	}
	if o.lanes == 1 {
		return nil, nil
	}
	o.ended, o.waits = make([]int32, o.lanes*len(p.Steps)), make([][]int, len(p.Steps))
	host, tail := fill(make([]int32, o.lanes)), fill(make([]int32, o.lanes))
	made := fill(make([]int32, len(p.Values)))
	for i := range p.Steps {
		s, c := &p.Steps[i], o.at(i)
		copy(c, host)
		if s.Lane > 0 {
			o.after(c, int(tail[s.Lane]))
		}
		if s.Barrier {
			for l := 1; l < o.lanes; l++ {
				o.wait(i, int(tail[l]))
			}
		}
		for _, in := range s.Inputs {
			if in.Value >= 0 && in.Value < len(made) {
				o.wait(i, int(made[in.Value]))
			}
		}
		for _, out := range s.Outputs {
			if out.Value >= 0 && out.Value < len(made) {
				made[out.Value] = int32(i)
			}
		}
		tail[s.Lane] = int32(i)
		if s.Lane == 0 {
			copy(host, c)
			host[0] = int32(i) // the host goes on when it has done the step
		}
	}
	return o, nil
}

func fill(s []int32) []int32 {
	for i := range s {
		s[i] = -1
	}
	return s
}

// at returns what has ended when step i begins.
func (o *order) at(i int) []int32 { return o.ended[i*o.lanes : (i+1)*o.lanes] }

// after adds to c that step m has ended, and with it what had ended when that began.
func (o *order) after(c []int32, m int) {
	if m < 0 {
		return
	}
	for l, x := range o.at(m) {
		c[l] = max(c[l], x)
	}
	c[o.lane[m]] = max(c[o.lane[m]], int32(m))
}

// wait has step i wait for step m, unless it is known to have ended. Of several on one lane it waits for the last.
func (o *order) wait(i, m int) {
	c := o.at(i)
	if m < 0 || c[o.lane[m]] >= int32(m) {
		return
	}
	o.after(c, m)
	same := func(w int) bool { return o.lane[w] == o.lane[m] }
	o.waits[i] = append(slices.DeleteFunc(o.waits[i], same), m)
}

// before reports whether step a has ended when step b begins, or is b.
func (o *order) before(a, b int) bool { return a == b || o.at(b)[o.lane[a]] >= int32(a) }

// over reports whether all of last, a step per lane, have ended when step i begins, or are step i.
func (o *order) over(last []int32, i int) bool {
	for l, x := range last {
		if x >= 0 && int(x) != i && o.at(i)[l] < x {
			return false
		}
	}
	return true
}

// touches lists, per value, the first and the last step on each lane that reads or writes it, -1 for none.
type touches struct {
	lanes       int
	first, last []int32
}

func (o *order) touched(p *Problem) *touches {
	n := o.lanes * len(p.Values)
	t := &touches{lanes: o.lanes, first: fill(make([]int32, n)), last: fill(make([]int32, n))}
	for i := range p.Steps {
		for _, ports := range [][]Port{p.Steps[i].Inputs, p.Steps[i].Outputs} {
			for _, x := range ports {
				if x.Value < 0 {
					continue
				}
				k := x.Value*t.lanes + p.Steps[i].Lane
				if t.first[k] < 0 {
					t.first[k] = int32(i)
				}
				t.last[k] = int32(i)
			}
		}
	}
	return t
}

// of returns the last step on each lane that touches value v.
func (t *touches) of(v int) []int32 { return t.last[v*t.lanes : (v+1)*t.lanes] }

// horizon says, for the arena of one device and each point of the list, what has ended when any step from there on that uses
// the arena begins.
type horizon struct {
	o     *order
	ended []int32 // per step, and one behind the last, and lane
}

func (o *order) horizon(p *Problem, d tensor.DeviceID) *horizon {
	n := len(p.Steps)
	h := &horizon{o: o, ended: make([]int32, (n+1)*o.lanes)}
	for l := range o.lanes {
		h.ended[n*o.lanes+l] = int32(n)
	}
	for i := n - 1; i >= 0; i-- {
		now := h.at(i)
		copy(now, h.at(i+1))
		if p.uses(i, d) {
			for l, x := range o.at(i) {
				now[l] = min(now[l], x)
			}
		}
	}
	return h
}

func (h *horizon) at(i int) []int32 { return h.ended[i*h.o.lanes : (i+1)*h.o.lanes] }

// from returns the first point of the list behind step i from which on all of last, a step per lane, has ended.
func (h *horizon) from(i int, last []int32) int {
	n := len(h.ended)/h.o.lanes - 1
	lo, hi := i+1, n
	for lo < hi {
		mid := (lo + hi) / 2
		if covers(h.at(mid), last) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

func covers(ended, last []int32) bool {
	for l, x := range last {
		if ended[l] < x {
			return false
		}
	}
	return true
}

// uses reports whether step i touches the arena of a device.
func (p *Problem) uses(i int, d tensor.DeviceID) bool {
	same := func(x tensor.DeviceID) bool { return x.Canonical() == d.Canonical() }
	s := &p.Steps[i]
	for _, b := range s.Buffers {
		if same(b.Device) {
			return true
		}
	}
	for _, ports := range [][]Port{s.Inputs, s.Outputs} {
		for _, x := range ports {
			if x.Value >= 0 && p.Values[x.Value].Planned && same(p.Values[x.Value].Device) {
				return true
			}
		}
	}
	return false
}
