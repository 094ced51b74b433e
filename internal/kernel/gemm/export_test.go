package gemm

// Fetched returns what tiles have fetched while the first group of columns is computed, in their order: the first byte of each piece, counted from
// where B begins, and its length. Units run one by one, or, where together is set, in one Run.
func (p *Plan) Fetched(together bool) (list [][2]int) {
	subs := 1
	if together && p.joins {
		subs = p.subs(0)
	}
	u := unit{group: &p.groups[0], superRows: min(p.superRows, p.spec.M), next: &p.groups[1]}
	for u.row < u.superRows {
		u.rows = min(subs*p.subRows, u.superRows-u.row)
		x := p.ahead(&matrices{}, &u, 0)
		tiles := (u.rows + u.maxRows - 1) / u.maxRows
		high, more := u.rows/tiles, u.rows%tiles
		columns := u.panels / u.width
		if p.across != nil {
			for t := range tiles {
				n := high
				if t < more {
					n++
				}
				if next, _ := x.fetch(n, 1, nil); next != 0 {
					list = append(list, [2]int{int(next), u.panels * p.across.k * p.across.ahead})
				}
			}
			columns = 0
		}
		for range columns {
			for t := 0; t < tiles; {
				n, together := high, tiles-t
				if t < more {
					n, together = high+1, more-t
				}
				next, together := x.fetch(n, together, nil)
				if next != 0 {
					list = append(list, [2]int{int(next), p.phases[0].k * p.phases[0].full.ahead})
				}
				t += together
			}
		}
		u.row += u.rows
	}
	return list
}

// FetchedLines returns where the lines lie, counted from the first, that a tile has fetched whose four k have so many fetched a round.
func (p *Plan) FetchedLines(lines int) (at []int) {
	params := &p.phases[0].full
	for round := range params.k / 4 {
		for i := range lines {
			at = append(at, round*params.round+i*4/lines*params.apart)
		}
	}
	return at
}
