package jpeg

// pass says which coefficients, in the order of the file, a scan has, and which of their bits.
type pass struct {
	from, to  int
	high, low int // high is the bit above the one that is refined; 0 for a first scan
}

// scan reads the coefficients of one scan.
func (d *decoder) scan(b []byte) error {
	if d.c == nil || len(b) < 1 || len(b) != 4+2*int(b[0]) || b[0] < 1 || b[0] > 4 {
		return ErrFormat
	}
	n := int(b[0])
	p := pass{from: int(b[1+2*n]), to: int(b[2+2*n]), high: int(b[3+2*n] >> 4), low: int(b[3+2*n] & 15)}
	switch {
	case !d.progressive:
		p = pass{to: 63}
	case p.to > 63 || p.from > p.to || p.from == 0 && p.to != 0 || p.from > 0 && n > 1 || p.low > 13 || p.high != 0 && p.high != p.low+1:
		return ErrFormat
	}
	var list []*component
	units := 0
	for i := range n {
		for k := range d.c {
			c := &d.c[k]
			if c.id != b[1+2*i] {
				continue
			}
			c.dc, c.ac = b[2+2*i]>>4, b[2+2*i]&15
			if c.dc > 3 || c.ac > 3 {
				return ErrFormat
			}
			if !c.quantised {
				c.quant, c.quantised = d.quant[c.table], true
			}
			units += c.h * c.v
			list = append(list, c)
			break
		}
	}
	if len(list) != n || n > 1 && units > 10 {
		return ErrFormat
	}
	return d.units(list, p)
}

// units reads a scan's blocks: those of one component by rows, those of several by units of them all.
func (d *decoder) units(list []*component, p pass) error {
	across, down := ceil(d.w, 8*d.hmax), ceil(d.h, 8*d.vmax)
	if len(list) == 1 {
		across, down = ceil(list[0].w, 8), ceil(list[0].rows, 8)
	}
	d.bits = bitReader{b: d.b}
	d.restart(list)
	for u := range across * down {
		if d.interval > 0 && u > 0 && u%d.interval == 0 {
			if !d.nextInterval() {
				return ErrFormat
			}
			d.restart(list)
		}
		x, y := u%across, u/across
		ok := true
		if len(list) == 1 {
			c := list[0]
			ok = d.block(c, c.coef[(y*c.bw+x)*64:][:64:64], p)
		} else {
			for _, c := range list {
				for k := range c.h * c.v {
					ok = ok && d.block(c, c.coef[((y*c.v+k/c.h)*c.bw+x*c.h+k%c.h)*64:][:64:64], p)
				}
			}
		}
		if !ok || d.bits.ended() {
			return ErrFormat
		}
		d.spend(16)
	}
	d.b = d.bits.b
	return nil
}

// restart begins an interval: predictions and runs end with the one before it.
func (d *decoder) restart(list []*component) {
	d.run = 0
	for _, c := range list {
		c.prediction = 0
	}
}

// nextInterval goes to the bits behind the next restart marker, and reports whether there is one in this scan.
func (d *decoder) nextInterval() bool {
	for b := d.bits.b; len(b) >= 2; b = b[1:] {
		if b[0] == 0xff && b[1] != 0 && b[1] != 0xff {
			d.bits = bitReader{b: b[2:]}
			return b[1] >= 0xd0 && b[1] < startOfImage
		}
	}
	return false
}

// block reads what a scan has of one block, and reports whether it is sound.
func (d *decoder) block(c *component, block []int16, p pass) bool {
	switch {
	case p.high == 0 && p.from == 0:
		s := d.bits.code(&d.tables[0][c.dc])
		if s < 0 || s > 15 {
			return false
		}
		c.prediction += d.bits.signed(s)
		block[0] = int16(c.prediction << p.low)
		return d.coefficients(c, block, pass{1, p.to, 0, p.low})
	case p.high == 0:
		return d.coefficients(c, block, p)
	case p.from == 0:
		block[0] |= int16(d.bits.take(1) << p.low)
		return true
	default:
		return d.refine(c, block, p)
	}
}

// coefficients reads the first bits of a block's coefficients but for the mean.
func (d *decoder) coefficients(c *component, block []int16, p pass) bool {
	if d.run > 0 {
		d.run--
		return true
	}
	for k := p.from; k <= p.to; k++ {
		rs := d.bits.code(&d.tables[1][c.ac])
		if rs < 0 {
			return false
		}
		zeros, size := rs>>4, rs&15
		if size == 0 && zeros < 15 {
			if d.run = 1<<zeros - 1 + int(d.bits.take(zeros)); d.run > 0 && !d.progressive {
				return false
			}
			break
		}
		if k += zeros; k > p.to {
			return false
		}
		if size > 0 {
			block[zigzag[k]] = int16(d.bits.signed(size) << p.low)
		}
	}
	return true
}

// refine reads one more bit of every coefficient of a block that is not 0 yet, and those that become so by it.
func (d *decoder) refine(c *component, block []int16, p pass) bool {
	unit := int16(1) << p.low
	k := p.from
	for ; k <= p.to && d.run == 0; k++ {
		rs := d.bits.code(&d.tables[1][c.ac])
		if rs < 0 || rs&15 > 1 {
			return false
		}
		zeros, v := rs>>4, int16(0)
		switch {
		case rs&15 == 1:
			if v = -unit; d.bits.take(1) == 1 {
				v = unit
			}
		case zeros < 15:
			d.run = 1<<zeros + int(d.bits.take(zeros))
		}
		if d.run > 0 {
			break
		}
		if k = d.refineTo(block, k, p.to, zeros, unit); v != 0 && k > p.to {
			return false
		} else if v != 0 {
			block[zigzag[k]] = v
		}
	}
	if d.run > 0 {
		d.refineTo(block, k, p.to, 64, unit)
		d.run--
	}
	return true
}

// refineTo reads a bit for each coefficient that is not 0, from one on and over as many zeros, and returns where it stops.
func (d *decoder) refineTo(block []int16, k, to, zeros int, unit int16) int {
	for ; k <= to; k++ {
		v := &block[zigzag[k]]
		if *v == 0 {
			if zeros == 0 {
				break
			}
			zeros--
			continue
		}
		if d.bits.take(1) == 1 && *v&unit == 0 {
			if *v > 0 {
				*v += unit
			} else {
				*v -= unit
			}
		}
	}
	return k
}
