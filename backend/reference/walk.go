package reference

import "github.com/carve-dev/carve/graph/tensor"

// broadcast returns the shape that shapes broadcast to by the multidirectional rule.
func (c *Call) broadcast(shapes ...[]int) []int {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make([]int, rank)
	for i := range out {
		out[i] = 1
	}
	for k, s := range shapes {
		for i, d := range s {
			o := &out[rank-len(s)+i]
			switch {
			case *o == 1:
				*o = d
			case d != 1 && d != *o:
				c.fail(c.portName(k), tensor.ErrShape, "%v does not broadcast with %v", s, out)
			}
		}
	}
	return out
}

// broadcastStrides returns the strides, in elements, with which a compact tensor of shape from is read as shape to.
func (c *Call) broadcastStrides(port string, from, to []int) []int {
	c.require(len(from) <= len(to), port, "%v does not broadcast to %v", from, to)
	s := make([]int, len(to))
	n := 1
	for i := len(from) - 1; i >= 0; i-- {
		k := len(to) - len(from) + i
		c.require(from[i] == 1 || from[i] == to[k], port, "%v does not broadcast to %v", from, to)
		if from[i] != 1 {
			s[k] = n
		}
		n *= from[i]
	}
	return s
}

// walk visits all indices of shape in row-major order, in rows: row is called with the offset of each stream, the step of
// each stream along the row and the row's length. off may be advanced by the callee. Dims that all streams traverse as
// one are merged first.
func (c *Call) walk(shape []int, bases []int, strides [][]int, row func(off, step []int, n int)) {
	k := len(strides)
	var dims []int
	steps := make([][]int, 0, len(shape)) // per dim, per stream
	for a, d := range shape {
		if d == 0 {
			return
		}
		if d == 1 {
			continue
		}
		cur := make([]int, k)
		mergeable := len(dims) > 0
		for s := range strides {
			cur[s] = strides[s][a]
			if mergeable && steps[len(dims)-1][s] != cur[s]*d {
				mergeable = false
			}
		}
		if mergeable {
			dims[len(dims)-1] *= d
			steps[len(dims)-1] = cur
			continue
		}
		dims, steps = append(dims, d), append(steps, cur)
	}
	off, cur := make([]int, k), append(make([]int, 0, k), bases...)
	if len(dims) == 0 {
		row(cur, make([]int, k), 1)
		return
	}
	last := len(dims) - 1
	idx := make([]int, last)
	for {
		copy(off, cur)
		// Long rows are cut, so that the context is looked at between the pieces.
		for n := dims[last]; n > 0; n -= blockLen {
			m := min(n, blockLen)
			row(off, steps[last], m)
			c.spend(m + 4)
			for s := range cur {
				off[s] = cur[s] + (dims[last]-n+m)*steps[last][s]
			}
		}
		a := last - 1
		for ; a >= 0; a-- {
			idx[a]++
			for s := range cur {
				cur[s] += steps[a][s]
			}
			if idx[a] < dims[a] {
				break
			}
			for s := range cur {
				cur[s] -= dims[a] * steps[a][s]
			}
			idx[a] = 0
		}
		if a < 0 {
			return
		}
	}
}

// zip applies f to the elements of two operands, each broadcast to the shape out.
func zip[A, B, R any](c *Call, out []int, a []A, as []int, b []B, bs []int, f func(A, B) R) []R {
	r := make([]R, c.reserve("", out, 8))
	strides := [][]int{c.broadcastStrides("", as, out), c.broadcastStrides("", bs, out)}
	o := 0
	c.walk(out, []int{0, 0}, strides, func(off, step []int, n int) {
		i, j, di, dj := off[0], off[1], step[0], step[1]
		for k := range r[o : o+n] {
			r[o+k] = f(a[i], b[j])
			i += di
			j += dj
		}
		o += n
	})
	return r
}

// each applies f to every element.
func each[A, R any](c *Call, a []A, f func(A) R) []R {
	r := make([]R, c.reserve("", []int{len(a)}, 8))
	for lo := 0; lo < len(a); lo += blockLen {
		hi := min(lo+blockLen, len(a))
		for i, x := range a[lo:hi] {
			r[lo+i] = f(x)
		}
		c.spend(hi - lo)
	}
	return r
}

// spread returns the elements of v, a compact tensor of shape from, broadcast to the shape to.
func spread[T any](c *Call, port string, v []T, from, to []int) []T {
	if sameShape(from, to) {
		return v
	}
	r := make([]T, c.reserve(port, to, 8))
	o := 0
	c.walk(to, []int{0}, [][]int{c.broadcastStrides(port, from, to)}, func(off, step []int, n int) {
		i := off[0]
		for k := range r[o : o+n] {
			r[o+k] = v[i]
			i += step[0]
		}
		o += n
	})
	return r
}
