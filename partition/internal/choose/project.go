package choose

import (
	"context"
	"slices"
)

// projection is what project works with.
type projection struct {
	strides [][]int // by factor: of the result's variables
	of, at  []int   // by factor: of the variable that goes; where it is read
	lies    []int   // by factor: how entries that are made together lie in it
	tables  [][]int64
	labels  []int   // by variable of the result
	outer   int     // variables before those whose entries are made together
	digits  []int   // of these
	places  []int32 // by factor and entry: where that is read, from the first one
	base    []int64 // by label and entry: what is the same for all that are made together
	sums    []int64
	room    []int
}

// project returns the least sum of the factors that a variable is in over its labels, as a factor of their other variables.
func (e *elimination) project(ctx context.Context, x int32) (factor, error) {
	fs, p := e.used[x], &e.scratch
	first := len(e.ints)
	for _, k := range fs {
		e.ints = append(e.ints, e.factors[k].vars...)
	}
	slices.Sort(e.ints[first:])
	e.ints = e.ints[:first+len(slices.Compact(e.ints[first:]))]
	vars := slices.DeleteFunc(e.ints[first:], func(w int32) bool { return w == x })
	e.ints = e.ints[:first+len(vars)]
	out := factor{vars: vars[:len(vars):len(vars)]}
	p.begin(len(fs), len(out.vars))
	size := 1
	for d, w := range out.vars {
		p.labels[d] = e.labels(w)
		size *= p.labels[d]
	}
	out.t = e.table(size)
	for i, k := range fs {
		f := &e.factors[k]
		p.tables = append(p.tables, f.t)
		n := 1
		for _, w := range slices.Backward(f.vars) {
			if w == x {
				p.of[i] = n
			} else {
				p.strides[i][slices.Index(out.vars, w)] = n
			}
			n *= e.labels(w)
		}
	}
	width := p.together()
	p.fix(e.labels(x))
	for row := 0; row < size; row += width {
		if row%1024 < width && ctx.Err() != nil {
			return factor{}, ctx.Err()
		}
		p.row(out.t[row:row+width], e.labels(x))
		p.next()
	}
	return out, nil
}

// rowEntries is how many entries of a result lie together at most where each variable has few labels.
const rowEntries = 256

// together chooses the last variables of the result, whose entries are made together, and returns how many entries that are: those of the
// last one, and of further ones while they are few. It finds where each factor has them.
func (p *projection) together() int {
	width, first := 1, len(p.labels)
	for first > 0 && (width == 1 || width*p.labels[first-1] <= rowEntries) {
		first--
		width *= p.labels[first]
	}
	p.outer = first
	p.sums = slices.Grow(p.sums[:0], width)[:width]
	p.places = slices.Grow(p.places[:0], width*len(p.tables))[:width*len(p.tables)]
	for i := range p.tables {
		at, n := p.places[i*width:(i+1)*width], 1
		at[0] = 0
		for d := len(p.labels) - 1; d >= first; d-- {
			for k := n; k < n*p.labels[d]; k++ {
				at[k] = at[k-n] + int32(p.strides[i][d])
			}
			n *= p.labels[d]
		}
		p.lies[i] = p.lie(i, at)
	}
	return width
}

// How entries that are made together lie in a factor.
const (
	alike  = iota // they are one entry
	fixed         // the same ones for all that are made together
	dense         // side by side, in the same order
	spread        // elsewhere
)

// lie says how entries at these places lie in a factor.
func (p *projection) lie(factor int, at []int32) int {
	inner, inOrder, outer := false, true, false
	for k, offset := range at {
		inner, inOrder = inner || offset != 0, inOrder && int(offset) == k
	}
	for _, stride := range p.strides[factor][:p.outer] {
		outer = outer || stride != 0
	}
	switch {
	case !inner:
		return alike
	case !outer:
		return fixed
	case inOrder:
		return dense
	}
	return spread
}

// next goes on to the entries behind those that were made.
func (p *projection) next() {
	for d := p.outer - 1; d >= 0; d-- {
		p.digits[d]++
		wrap := p.digits[d] == p.labels[d]
		for i := range p.tables {
			p.at[i] += p.strides[i][d]
			if wrap {
				p.at[i] -= p.strides[i][d] * p.digits[d]
			}
		}
		if !wrap {
			break
		}
		p.digits[d] = 0
	}
}

// fix adds up what is the same for all entries that are made together, by label and entry.
func (p *projection) fix(labels int) {
	width := len(p.sums)
	p.base = slices.Grow(p.base[:0], labels*width)[:labels*width]
	clear(p.base)
	for i, t := range p.tables {
		for l := 0; p.lies[i] == fixed && l < labels; l++ {
			from, base := t[l*p.of[i]:], p.base[l*width:(l+1)*width]
			for k, at := range p.places[i*width : (i+1)*width] {
				base[k] = sum(base[k], from[at])
			}
		}
	}
}

// row finds the least sums over so many labels for entries that are made together.
func (p *projection) row(out []int64, labels int) {
	for k := range out {
		out[k] = Hard
	}
	width := len(p.sums)
	for l := range labels {
		same := int64(0) // what all of them cost
		for i, t := range p.tables {
			if p.lies[i] == alike {
				same = sum(same, t[p.at[i]+l*p.of[i]])
			}
		}
		if same >= Hard {
			continue
		}
		sums := p.base[l*width : (l+1)*width]
		for i, t := range p.tables {
			if p.lies[i] < dense {
				continue
			}
			from := t[p.at[i]+l*p.of[i]:]
			if p.lies[i] == dense {
				for k, c := range from[:width] {
					p.sums[k] = sum(sums[k], c)
				}
			} else {
				for k, at := range p.places[i*width : (i+1)*width] {
					p.sums[k] = sum(sums[k], from[at])
				}
			}
			sums = p.sums
		}
		for k, c := range sums[:len(out)] {
			out[k] = min(out[k], c+same)
		}
	}
}

// begin makes room for so many factors and variables of the result, all zero.
func (p *projection) begin(factors, vars int) {
	n := factors*(vars+3) + 2*vars
	p.room = append(p.room[:0], make([]int, n)...)
	room := p.room
	take := func(n int) []int {
		s := room[:n:n]
		room = room[n:]
		return s
	}
	p.strides, p.tables = p.strides[:0], p.tables[:0]
	for range factors {
		p.strides = append(p.strides, take(vars))
	}
	p.of, p.at, p.lies, p.digits, p.labels = take(factors), take(factors), take(factors), take(vars), take(vars)
}
