package layered

// coordinates chooses x: sweeps put each layer where the squares of the distances to its neighbours are least, with the order and
// the widths as they are.
func (d *drawing) coordinates() {
	d.x = make([]float64, len(d.e))
	for _, l := range d.layers {
		at := 0.0
		for i, v := range l {
			if i > 0 {
				at += d.apart(l[i-1], v)
			}
			d.x[v] = at
		}
		for _, v := range l { // layers begin centred
			d.x[v] -= at / 2
		}
	}
	s := &solver{}
	last := len(d.layers) - 1
	for sweep := range 2 * d.effort {
		for k := range d.layers {
			i := k
			if sweep%2 == 1 {
				i = last - k
			}
			d.relax(s, d.layers[i], sweep%2 == 0)
		}
	}
	least := 0.0
	for v := range d.e {
		if left := d.x[v] - d.e[v].width/2; v == 0 || left < least {
			least = left
		}
	}
	for v := range d.x {
		d.x[v] -= least
	}
}

// apart is the distance between the centres of two neighbours.
func (d *drawing) apart(a, b int32) float64 {
	gap := d.g.Gap
	if d.e[a].passes && d.e[b].passes {
		gap /= 2
	}
	return (d.e[a].width+d.e[b].width)/2 + gap
}

// relax puts the elements of a layer as close to their neighbours above, or below, as order and widths admit.
func (d *drawing) relax(s *solver, layer []int32, up bool) {
	s.reset()
	offset := 0.0
	for i, v := range layer {
		if i > 0 {
			offset += d.apart(layer[i-1], v)
		}
		e := &d.e[v]
		sum, weight := 0.0, 0.0
		near := e.down
		if up {
			near = e.up
		}
		for _, w := range near {
			by := 1.0
			switch { // long edges are straight first
			case e.passes && d.e[w].passes:
				by = 64
			case e.passes || d.e[w].passes:
				by = 2
			}
			sum += by * d.x[w]
			weight += by
		}
		if weight == 0 {
			sum, weight = 1e-3*d.x[v], 1e-3
		}
		s.add(sum/weight-offset, weight)
	}
	offset = 0
	k, left := 0, s.blocks[0].size
	for i, v := range layer {
		if i > 0 {
			offset += d.apart(layer[i-1], v)
		}
		for left == 0 {
			k++
			left = s.blocks[k].size
		}
		left--
		d.x[v] = s.blocks[k].at + offset
	}
}

// solver finds the ascending numbers that are closest to given ones in least squares: pool adjacent violators, O(n).
type solver struct{ blocks []block }

// block is a run of numbers that are equal.
type block struct {
	at, weight float64
	size       int
}

func (s *solver) reset() { s.blocks = s.blocks[:0] }

func (s *solver) add(x, weight float64) {
	b := block{x, weight, 1}
	for n := len(s.blocks); n > 0 && s.blocks[n-1].at > b.at; n-- {
		p := s.blocks[n-1]
		w := p.weight + b.weight
		b = block{(p.at*p.weight + b.at*b.weight) / w, w, p.size + b.size}
		s.blocks = s.blocks[:n-1]
	}
	s.blocks = append(s.blocks, b)
}
