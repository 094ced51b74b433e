package schedule

import (
	"fmt"
	"slices"
)

// life is the lifetime of a value or of a class of values that share their storage.
type life struct {
	lo, hi int64 // half open; lo < 0: never defined
	bytes  int64
	parent int // of the class
	last   int // step of the last read, -1 for none
	made   int // step that makes it
	end    int // last step that reads or makes it
}

// liveness returns the lifetimes of values and the first time of each step.
func liveness(p *Problem) ([]life, []int64, error) {
	lives := make([]life, len(p.Values))
	for i := range lives {
		if p.Values[i].Bytes < 0 {
			return nil, nil, fmt.Errorf("%w: value %d has %d bytes", ErrProblem, i, p.Values[i].Bytes)
		}
		lives[i] = life{lo: -1, parent: i, bytes: p.Values[i].Bytes, last: -1, made: -1}
	}
	base := make([]int64, len(p.Steps)+1)
	for i := range p.Steps {
		s := &p.Steps[i]
		base[i+1] = base[i] + int64(max(s.Substeps, 1))
		for _, in := range s.Inputs {
			if in.Value < 0 {
				continue
			}
			if in.Value >= len(lives) || in.First < 0 || in.Last < in.First || in.Last >= max(s.Substeps, 1) {
				return nil, nil, fmt.Errorf("%w: step %d reads value %d until sub-step %d", ErrProblem, i, in.Value, in.Last)
			}
			l := &lives[in.Value]
			l.hi = max(l.hi, base[i]+int64(in.Last)+1)
			l.last, l.end = i, i
		}
		for _, out := range s.Outputs {
			if out.Value < 0 {
				continue
			}
			if out.Value >= len(lives) || out.First < 0 || max(out.First, out.Last) >= max(s.Substeps, 1) {
				return nil, nil, fmt.Errorf("%w: step %d writes value %d from sub-step %d", ErrProblem, i, out.Value, out.First)
			}
			l := &lives[out.Value]
			if l.made >= 0 {
				return nil, nil, fmt.Errorf("%w: value %d is made by steps %d and %d", ErrProblem, out.Value, l.made, i)
			}
			if l.last >= 0 {
				return nil, nil, fmt.Errorf("%w: value %d is read by step %d before step %d makes it", ErrProblem, out.Value, l.last, i)
			}
			l.made, l.end, l.lo = i, i, base[i]+int64(out.First)
			l.hi = max(l.hi, base[i]+int64(max(out.Last, out.First))+1)
		}
	}
	end := base[len(p.Steps)]
	for i := range lives {
		l := &lives[i]
		if !p.Values[i].Planned {
			continue
		}
		if l.made < 0 {
			l.lo = 0 // it is there from the start
		}
		if p.Values[i].Keep {
			l.hi = end + 1
		}
		if l.hi > 0 && l.lo >= l.hi {
			return nil, nil, fmt.Errorf("%w: value %d is read before it is made", ErrProblem, i)
		}
	}
	return lives, base, nil
}

// shareInPlace merges the storage of outputs with the inputs that they may overwrite: planned inputs whose last reader is
// this step, all others having ended, of at least the output's size, on the same device. It returns how many pairs it
// granted. t then has the touches of a class at its root.
func shareInPlace(p *Problem, lives []life, ord *order, t *touches) int {
	granted := 0
	for i := range p.Steps {
		s := &p.Steps[i]
		var taken []int
		for _, pair := range s.InPlace {
			if pair.Output >= len(s.Outputs) || pair.Input >= len(s.Inputs) || pair.Output < 0 || pair.Input < 0 {
				continue
			}
			o, in := s.Outputs[pair.Output].Value, s.Inputs[pair.Input].Value
			if o < 0 || in < 0 || slices.Contains(taken, o) || slices.Contains(taken, in) {
				continue
			}
			vo, vi := &p.Values[o], &p.Values[in]
			if !vo.Planned || !vi.Planned || vi.Keep || vo.Device != vi.Device || lives[in].last != i || lives[o].made != i {
				continue
			}
			read := 0 // the same value at another port of the step would be read after it is overwritten
			for _, other := range s.Inputs {
				if other.Value == in {
					read++
				}
			}
			root := find(lives, in)
			if read != 1 || lives[root].bytes < vo.Bytes || ord != nil && !ord.over(t.of(root), i) {
				continue
			}
			lives[o].parent = root
			lives[root].hi = max(lives[root].hi, lives[o].hi)
			lives[root].end = max(lives[root].end, lives[o].end)
			if t != nil {
				for l, x := range t.of(o) {
					t.of(root)[l] = max(t.of(root)[l], x)
				}
			}
			taken = append(taken, o, in)
			granted++
		}
	}
	return granted
}

func find(lives []life, i int) int {
	for lives[i].parent != i {
		lives[i].parent = lives[lives[i].parent].parent
		i = lives[i].parent
	}
	return i
}
