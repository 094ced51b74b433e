package gemm

import "unsafe"

// ahead is the block of packed B that is read behind the one at hand: that of the next phase, or else the first one of the rows or
// columns that follow, or of the next product. While tiles compute, they have its panels fetched into the second-level cache, one, or a
// piece of one, a tile, spread over all tiles of the block at hand, so that the first tile of the next does not wait for memory: no
// processor fetches so far ahead by itself. A tile of few rows does little else than wait, and has all of its panels fetched a little
// before it reads them where the processor does not do that better.
type ahead struct {
	block        uintptr // 0 is none; addresses, since they are not looked behind, and may lie beyond B
	panels, step int     // of the block, and bytes from one to the next
	pieces, size int     // of a panel, and bytes from one to the next
	few, reach   int     // rows of tiles that fetch all panels, at most, and how far ahead in bytes; 0 is not at all
	done, work   int     // rows of tiles: how many there were, and all that read the block at hand
	fetched      int     // pieces of the block that tiles have had fetched
}

// ahead begins phase i of a unit, where there is something to be fetched.
func (p *Plan) ahead(m *matrices, u *unit, i int) ahead {
	tiles := u.panels / u.width // beside each other
	x := ahead{step: p.phases[0].full.bpanel, pieces: p.pieces, size: p.phases[i].k * p.phases[i].full.ahead, few: p.has.fewRows, reach: p.reach,
		done: (u.row - u.super) * tiles, work: u.superRows * tiles}
	if p.avx2 && u.width > 1 {
		x.reach = 0
	}
	if p.across != nil || u.width == 1 && (p.streams > 1 || p.pieces > 1) { // where few rows have one line a k fetched, as others have
		x.few = 0
	}
	next, k0 := u.next, 0
	if len(p.phases) > 1 {
		x.done, x.work = 0, u.rows*tiles
		switch {
		case i+1 < len(p.phases):
			next, k0 = u.group, p.phases[i+1].k0
		case u.row+u.rows < u.super+u.superRows:
			next = u.group
		}
	}
	if next == nil && m.next != 0 {
		x.block, x.panels = m.next, p.groups[0].panels
	}
	if next != nil {
		x.block, x.panels = uintptr(m.b)+uintptr(p.sizeB()*next.col*p.spec.K+p.phases[0].full.bstep*k0), next.panels
	}
	if p.across != nil { // a row of tiles has one piece of each panel's size fetched, all of them together
		x.done, x.work, x.panels, x.size = x.done/tiles, x.work/tiles, min(x.panels, 1), x.size*x.panels
	}
	if x.done > 0 { // by the unit above: up to the piece whose turn it was when its last tile began
		last := p.subRows / ((p.subRows + u.maxRows - 1) / u.maxRows)
		x.fetched = (x.done-last)*x.panels*x.pieces/x.work + 1
	}
	return x
}

// fetch returns what the next tile, of so many rows, has fetched, 0 for nothing, and how many of the tiles below it may be computed in the
// same call, which have nothing fetched. The tile itself reads B at own.
func (x *ahead) fetch(rows, tiles int, own unsafe.Pointer) (next uintptr, together int) {
	if rows <= x.few {
		if x.reach == 0 || x.pieces > 1 { // what a k has fetched is less than it reads
			return 0, tiles
		}
		return uintptr(own) + uintptr(x.reach), 1
	}
	if x.panels == 0 {
		return 0, tiles
	}
	n := x.panels * x.pieces
	from := x.done * n / x.work
	until := ((from+1)*x.work + n - 1) / n // rows done when the next piece's turn has come
	together = min(tiles, max(1, (until-x.done)/rows))
	if x.fetched <= from {
		next, x.fetched = x.block+uintptr(from/x.pieces*x.step+from%x.pieces*x.size), from+1
	}
	x.done += rows * together
	return next, together
}

// planStreams sets in how many streams tiles of AVX2 have the next panel fetched; see fetchInRounds. From the last cache, or of short panels, three rows take up
// to a third more time so.
func (p *Plan) planStreams() {
	s := &p.spec
	p.streams = 1
	if bytes := p.sizeB() * s.K; p.avx2 && p.fetches && s.M <= p.has.tileRows[1] && bytes*p.panel() >= leastStream*p.sizeB() && bytes*s.N > p.target.LastCache()/streamed {
		p.streams = p.sizeB() // as many lines as a round reads
	}
	for i := range p.phases {
		p.phases[i].full.fetchInRounds(p.streams)
		p.phases[i].tail.fetchInRounds(p.streams)
	}
}

// planPieces divides panels into the pieces that a tile has fetched, so that each has about one, where too few lines may be under way at once
// for one every few cycles: those that are read at the time then wait, too, and a tile that had a whole panel fetched took up to twice as long.
// Intel's processors with 2 MiB of second-level cache have 16; where that cache is smaller, panels stay whole with AVX-512. With AVX2, on an AMD Zen 3,
// pieces take 0.84 to 0.91 of the time of whole panels for 49 rows, 0.93 to 0.96 for 128. Few rows have pieces fetched where several
// tiles of them read a panel, of which the first would wait for each line, and the others find the panel in the cache.
func (p *Plan) planPieces() {
	p.pieces = 1
	g, rows := &p.groups[0], p.superRows
	if len(p.phases) > 1 {
		rows = p.subRows
	}
	below := (rows + g.maxRows - 1) / g.maxRows
	if !p.fetches || !p.has.repeat || !p.avx2 && p.target.Caches[1].Bytes <= wholePanels || rows/below <= p.has.fewRows && (below == 1 || g.width > 1) {
		return
	}
	for p.pieces < mostPieces*16/p.has.lanes && 2*p.pieces*g.width <= below {
		p.pieces *= 2
	}
	for i := range p.phases {
		ph := &p.phases[i]
		ph.full.ahead, ph.tail.ahead = ph.full.ahead/p.pieces, ph.tail.ahead/p.pieces
	}
}
