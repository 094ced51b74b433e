package gemm

import (
	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// Plan is a product whose division into chunks, tiles and kernel calls is decided. It is immutable and may be used by any
// number of goroutines at once, with different matrices.
type Plan struct {
	spec   Spec
	target isa.Target
	has    kernels
	groups []group // of columns, left to right
	phases []phase // of k, first to last
	// Rows are divided into supers of superRows (A's part of them stays in the second-level cache), each into subs of subRows;
	// the last of each is shorter.
	superRows, subRows int
	units              int         // super x group x sub, the last varying fastest
	perChunk           int         // units per chunk
	few                []placed    // the tiles of a small product, see planFew
	behind             *behind     // how a batch of products is computed; nil: one by one
	below              *tileParams // of the first panel where its tiles have the rows of A below them fetched; nil: they have not
	across             *tileParams // of calls for tiles beside each other; nil: those below each other are in a call
	reach, pieces      int         // see ahead
	streams            int         // see fetchInRounds
	avx2               bool        // the target's widest vectors have 256 bits
	joins              bool        // units of a group that are computed one after the other are one, see planUnits
	tiles              bool        // those of package amx multiply
	fetches            bool        // tiles have fetched what is read later: B is packed and more than the first-level cache holds
}

// group is a range of columns whose part of B stays in the second-level cache: panels, the last of them possibly
// ragged, of which one tile covers width.
type group struct {
	col, cols, panels int
	width             int
	maxRows           int // of a tile
}

// phase is a range of k that is computed before the next is begun, with the parameters of its kernel calls: without and
// with a ragged last panel.
type phase struct {
	k0, k      int
	first      bool
	last       bool
	full, tail tileParams
}

// Constants of the division into chunks. Speeds are those of one core of a current server in round figures: a division that
// depended on a measurement would not be repeatable.
const (
	flopsPerNs    = 100       // multiply-adds count twice
	bytesPerNs    = 20        // of B, read from beyond the second-level cache
	unitNs        = 30_000    // aim for a sub of rows
	chunkNs       = 8_000     // least for a chunk
	leastStream   = 8 << 10   // bytes of a panel in each stream
	streamed      = 4         // B is fetched in streams where it is larger than that part of the last cache: a model of such weights is rarely in it as a whole
	fewAhead      = 2 << 10   // bytes that few rows have fetched ahead in each panel
	wholePanels   = 1 << 20   // of a second-level cache, up to which tiles have whole panels fetched, and few rows fetch ahead
	mostPieces    = 4         // of a panel, with vectors of 16 lanes: a line every 48 cycles
	leastFirst    = 32 << 10  // of a first-level cache
	superBytes    = 512 << 10 // of A, or half of the second-level cache where that is more; with AVX2 that half
	phaseRows     = 64        // least for a sub of a product of several phases, which reads its part of B for them anew
	phaseUnits    = 32        // of such a product, where that leaves as many rows
	phaseK        = 1024      // aim for the length of a phase; three quarters of it with vectors below 16 lanes: second-level caches may be small
	phaseMaxK     = 1536      // longest phase before k is divided; likewise
	partK         = 256       // longest phase of a product that packs
	partRows      = 16        // least of that
	phaseMaxKOnce = 4096      // the same when B is read only once
	joinedK       = 512       // aim of a plan that joins units, where k is divided: a panel's part has 32 KiB
	joinedBytes   = 1 << 20   // of A, at most, for such a plan where k is not divided: tall products have units whose A stays in the second-level cache
	acrossSum     = 96        // multiply-adds of a result, at least, of products of rows of B that are computed by rows of tiles
	mostAcross    = 16        // panels of a group of products of panels that are, at most
	fewSum        = 24        // multiply-adds of a result, at most, of products that are computed by rows of tiles where rows of results are long:
	leastAcross   = 1024      // of so many columns, at least,
	longAcross    = 3072      // and so far apart
	fewBelow      = 2         // tiles below each other, at most, that have no rows of A fetched
	leastOwn      = 32        // rows of a thread's own
	callNs        = 40_000    // of tiles in a call, at most, but for one
	shortSum      = 128       // multiply-adds of a result, up to which tiles have fewer where vectors are computed in halves: a store of one
	shortResults  = 12        // takes two cycles, and while some 20 wait for their turn no multiply-add of the next tile begins
)

// kernels describes the kernels of an instruction set. The generator writes it with them.
type kernels struct {
	lanes    int    // of a vector, by which dot kernels go through k
	tileRows [5]int // by panels: the highest number of rows of a tile, 0 where there is no such tile
	fewRows  int    // of a tile that has lines of all of its panels fetched ahead, at most
	dotRows  int    // the highest number of rows of a dot kernel
	repeat   bool   // kernels compute tiles below each other in one call
	across   bool   // those of a single panel compute tiles beside each other, too
}

// portableKernels describes those in Go.
func portableKernels() kernels { return kernels{lanes: 4, tileRows: [5]int{0, 4}, dotRows: 1} }

// groupPanels is how many panels make a group, where a tile has fewer: the elements of A that a row of tiles reads come from the
// first-level cache for all tiles but the first.
const groupPanels = 4

// mostPanels is how many panels make a group, at most: with AVX2 no more than an eighth of the second-level cache holds, since those of the next group,
// which are fetched meanwhile, take as much, and A is read from there, too. On an AMD Zen 3 with 512 KiB of it, 49x768x768 takes 0.92 of its time by
// single panels, 128x768x768 0.96; 3136x96x96 would take 1.1. Rows of tiles (acrossPanels) may have a quarter of it.
func (p *Plan) mostPanels() int {
	s := &p.spec
	bytes := p.panel() * p.sizeB() * max(1, s.K)
	if p.shortRows() {
		return min(mostAcross, p.firstCache()/2/bytes)
	}
	if !p.avx2 || s.B != Packed {
		return groupPanels
	}
	if p.acrossPanels() {
		return max(1, min(mostAcross, p.target.SecondCache()/4/bytes))
	}
	return min(groupPanels, max(1, p.target.SecondCache()/8/bytes))
}

// rowsFor returns the tiles that are wanted for m rows: those that hold them all, or at least half as many as the narrowest
// does. Wide tiles of few rows are for products of few rows, which they give enough independent sums; others would read B
// too often.
func (k kernels) rowsFor(m int) [5]int {
	rows := k.tileRows
	for p, r := range rows {
		if r < min(m, rows[1]/2) {
			rows[p] = 0
		}
	}
	return rows
}

// TileColumns returns how many columns the widest tile for m rows of a product has.
func TileColumns(t isa.Target, m int) int {
	rows := kernelsOf(t.Set).rowsFor(m)
	return 16 * panelsAt(rows, len(rows)-1)
}

// NewPlan plans a product for a target. The error is a *SpecError. Cost: O(N/64 + K/1024).
func NewPlan(t isa.Target, s Spec) (*Plan, error) {
	s, err := s.complete()
	if err != nil {
		return nil, err
	}
	p := &Plan{spec: s, target: t, has: kernelsOf(t.Set), avx2: t.Set == isa.AVX2, joins: t.Set == isa.AVX2}
	switch {
	case s.Double:
		p.has = doublesOf(t.Set)
	case !s.Pairs.On(t):
		p.target.Set, p.has = isa.Portable, portableKernels()
	case p.halves() && s.N <= p.panel() && s.B != Columns && s.Pairs == pairs.Float32 && !s.Half: // loads would take longer than multiply-adds
		p.target.Set, p.has = isa.AVX2, kernelsOf(isa.AVX2)
	}
	if s.M == 0 || s.N == 0 {
		return p, nil
	}
	if p.tiles = p.tiled(); p.tiles {
		p.planTiled()
		return p, nil
	}
	if s.B == Columns {
		p.planDot()
	} else {
		p.planTiles()
		p.fetches = s.B == Packed && !s.Double && p.sizeB()*s.K*s.N > p.firstCache()
		// Panels that are read side by side come from memory in less time where nothing has them fetched but the processor: rows of B took 14 to
		// 41 % more time so on AMD Zen 2, up to 17 % on Zen 4, and a quarter to a third on Intel's processors with 2 MiB of second-level cache; Intel's
		// others with AVX-512 take up to 20 % less. A single panel of AVX2's is one stream, for which it helps.
		if p.avx2 || t.Set == isa.AVX512 && t.Caches[1].Bytes <= wholePanels && !t.Features.Has(cpuid.Split512) {
			p.reach = fewAhead
		}
	}
	p.planUnits()
	p.planPieces()
	p.planStreams()
	p.planAcross()
	p.planFew()
	p.planBehind()
	return p, nil
}

// halves reports whether vectors of 512 bits are used and computed in two halves, as a load of one is: then a tile of a single panel has a load
// for every multiply-add, and one of vectors of 256 bits for every two.
func (p *Plan) halves() bool {
	return p.target.Set == isa.AVX512 && p.target.Features.Has(cpuid.Split512)
}

// size returns the bytes of an element.
func (p *Plan) size() int {
	if p.spec.Double {
		return 8
	}
	return 4
}

// sizeB returns the bytes of an element of B.
func (p *Plan) sizeB() int {
	if p.spec.Half {
		return 2
	}
	return p.size()
}

// packs reports whether units copy their part of a panel of B: portable Go reads it again for every few rows, and rows of B, which may lie far apart, would
// come from beyond the caches each time.
func (p *Plan) packs() bool {
	s := &p.spec
	return p.target.Set == isa.Portable && s.B == Rows && s.Pairs == pairs.Float32 && !s.Double && !s.Half && s.M >= partRows
}

// firstCache returns the bytes of the first-level cache, of which there are some.
func (p *Plan) firstCache() int { return max(leastFirst, p.target.Caches[0].Bytes) }

// panel returns the columns of a panel.
func (p *Plan) panel() int { return 64 / p.size() }

// planTiles divides columns and k for the tile kernels.
func (p *Plan) planTiles() {
	s, size, panel := &p.spec, p.size(), p.panel()
	rows := p.has.rowsFor(s.M)
	if p.halves() && s.K <= shortSum && s.M > rows[1] {
		for n := 1; n < len(rows); n++ {
			rows[n] = min(rows[n], shortResults/n)
		}
	}
	total, most := (s.N+panel-1)/panel, p.mostPanels()
	p.groups = make([]group, 0, (total+most-1)/most+1)
	for at := 0; at < total; {
		width := panelsAt(rows, total-at)
		n := width
		if width < groupPanels && rows[width+1] == 0 {
			n = max(width, min(total-at, most)/width*width)
		}
		p.groups = append(p.groups, group{col: panel * at, cols: min(panel*n, s.N-panel*at), panels: n, width: width, maxRows: rows[width]})
		at += n
	}
	aim, longest := phaseK, phaseMaxK
	switch {
	case p.packs():
		aim, longest = partK, partK
	case s.M <= p.groups[0].maxRows:
		aim, longest = phaseMaxKOnce, phaseMaxKOnce
	case p.joins:
		aim, longest = joinedK, phaseMaxK*3/4
	case p.has.lanes < panel:
		aim, longest = phaseK*3/4, phaseMaxK*3/4
	}
	count := 1
	if s.K > longest {
		count = (s.K + aim - 1) / aim
	}
	p.phases = make([]phase, 0, count)
	for i := range count {
		k0, k1 := s.K*i/count, s.K*(i+1)/count
		if s.Pairs == pairs.Float16 { // whose sums are the same for every division, and so for every M
			k0 = k0 / chainWords * chainWords
			if i < count-1 {
				k1 = k1 / chainWords * chainWords
			}
		}
		ph := phase{k0: k0, k: k1 - k0, first: i == 0, last: i == count-1}
		ph.full = tileParams{lda: size * s.LDA, bstep: panel * p.sizeB(), bpanel: panel * p.sizeB() * s.K, ldc: size * s.LDC, ldr: size * s.LDR, k: ph.k, lo: s.Lo, hi: s.Hi}
		if s.B == Rows {
			ph.full.bstep, ph.full.bpanel = size*s.LDB, 64
		}
		ph.full.ahead = ph.full.bstep
		if !ph.first {
			ph.full.flags |= flagAccumulate
		}
		if ph.last && s.Clip {
			ph.full.flags |= flagClip
		}
		ph.full.setMask(16)
		ph.tail = ph.full
		if r := s.N % panel; r != 0 {
			ph.tail.setMask(r * size / 4)
			ph.tail.flags |= flagTailC
			if s.B == Rows {
				ph.tail.flags |= flagTailB
				ph.tail.masked = min(ph.k, max(0, (panel-r+s.LDB-1)/max(1, s.LDB)-(s.K-k1)))
			}
		}
		p.phases = append(p.phases, ph)
	}
	if first := &p.groups[0]; s.B == Rows && !s.Double && p.has.repeat && first.width == 1 && s.LDA == s.K && s.K > 0 && count == 1 && s.N >= panel && s.M > fewBelow*first.maxRows {
		below := p.phases[0].full
		below.flags, below.ahead = below.flags|flagBelow, size*first.maxRows
		below.fetchInRounds(1)
		p.below = &below
	}
}

// panelsAt returns how many of the remaining panels the next group takes: the widest tiles, but nine or five remaining are
// divided so that no group is a single panel, whose tiles are short of independent sums.
func panelsAt(rows [5]int, left int) int {
	widest := len(rows) - 1
	for rows[widest] == 0 {
		widest--
	}
	n := min(widest, left)
	if left > widest && left-widest < 2 && rows[widest-1] > 0 && widest > 2 {
		n = widest - 1
	}
	for rows[n] == 0 {
		n--
	}
	return n
}

// planDot divides columns for the dot kernels: groups of up to 64, a multiple of 4 but for the last, and of up to 1 MiB of B.
func (p *Plan) planDot() {
	s := &p.spec
	wide := max(4, min(64, 1<<18/max(1, s.K))&^3)
	for at := 0; at < s.N; at += wide {
		n := min(wide, s.N-at)
		p.groups = append(p.groups, group{col: at, cols: n, maxRows: p.has.dotRows})
	}
	t := tileParams{lda: 4 * s.LDA, bpanel: 4 * s.LDB, ldc: 4 * s.LDC, ldr: 4 * s.LDR, k: s.K, lo: s.Lo, hi: s.Hi}
	t.setMask(s.K % p.has.lanes)
	if s.Clip {
		t.flags |= flagClip
	}
	p.phases = []phase{{k: s.K, first: true, last: true, full: t, tail: t}}
}

// planUnits divides rows, and joins units into chunks.
//
// With AVX2 a super's part of A takes half of the second-level cache, however small that is: the rest is for B. On an AMD Zen 3 with 512 KiB of it,
// 3136x96x96 takes 0.87 of its time so, 784x192x768 0.93 and 1024x1024x1024 1.03.
//
// With AVX2, where A is small or k divided, a chunk's units of one group are one unit when they are run: what is left of 128 or 197 rows after units or
// supers of a fixed size is too little for the part of B that is read again for it, and tiles take so long that rows of A come in time from behind the
// second-level cache. On a loaded AMD Zen 3, MxKxN, 197x768x3072 took 0.92 of its time so, 197x3072x768 0.91; 3136x96x96, whose A is larger, would take 1.1.
func (p *Plan) planUnits() {
	s := &p.spec
	g := p.groups[0]
	flops := p.size() / 2 * g.cols * max(1, s.K) // of one row; those of float64 count twice
	p.subRows = roundUp(max(1, unitNs*flopsPerNs/flops), g.maxRows)
	super := max(superBytes, p.target.Caches[1].Bytes/2)
	if p.avx2 {
		super = p.target.SecondCache() / 2
	}
	p.superRows = roundUp(max(1, super/(p.size()*max(1, min(s.K, phaseMaxK)))), p.subRows)
	if p.joins = p.joins && (len(p.phases) > 1 || p.size()*s.M*s.K <= joinedBytes); p.joins {
		p.superRows = s.M
		p.subRows = evenly(s.M, s.M/max(1, s.M/p.subRows), g.maxRows)
	}
	if len(p.phases) > 1 { // each sub reads B anew
		p.superRows = evenly(s.M, super/(p.size()*p.phases[0].k), g.maxRows)
		p.subRows = evenly(p.superRows, max(phaseRows, s.M*len(p.groups)/phaseUnits), g.maxRows)
	}
	p.shareRows()
	p.subRows, p.superRows = min(p.subRows, s.M), min(p.superRows, s.M)
	for row := 0; row < s.M; row += p.superRows {
		p.units += len(p.groups) * p.subs(row)
	}
	rows := min(p.subRows, s.M)
	ns := max(flops*rows/flopsPerNs, p.sizeB()*g.cols*s.K/bytesPerNs)
	p.perChunk = max(1, (chunkNs+ns/2)/max(1, ns))
}

// OwnRows reports whether threads that share a product of so many bytes each had better have rows of their own: where the second-level cache of each holds B, and
// to read all of it takes no longer than to fetch A, and what is made, from the others' caches, half as fast. Operators before and behind divide rows, too, so that
// a thread reads what it has written itself.
func OwnRows(t isa.Target, a, b, c int) bool { return b <= t.SecondCache()/2 && b <= 2*(a+c) }

// shareRows gives each thread rows of its own, one behind the other, where that is better. On two cores of an Intel Granite Rapids 1024x64x256 takes 0.8 of its
// time so, what Gelu makes of that 0.6, and networks of such products (MLP-Mixer, XCiT, Swin, DeiT) 0.85 to 0.96.
func (p *Plan) shareRows() {
	s := &p.spec
	if s.Threads < 2 || len(p.phases) > 1 || !OwnRows(p.target, p.size()*s.M*s.K, p.sizeB()*s.K*s.N, p.size()*s.M*s.N) {
		return
	}
	step := p.groups[0].maxRows
	own := evenly(s.M, (s.M+s.Threads-1)/s.Threads, step)
	if own < leastOwn || own > p.superRows {
		return
	}
	p.superRows, p.subRows = own, evenly(own, p.subRows, step)
}

// evenly returns how many rows each of equal parts of n has, a multiple of to, where a part may have most, or a little more.
func evenly(n, most, to int) int {
	most = max(most, 1)
	parts := (n + most - 1) / most
	return roundUp((n+parts-1)/parts, to)
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// subs returns how many subs the super that starts at row has.
func (p *Plan) subs(row int) int {
	return (min(p.superRows, p.spec.M-row) + p.subRows - 1) / p.subRows
}

// Chunks returns the number of independent chunks, 0 for an empty C.
func (p *Plan) Chunks() int {
	if p.units == 0 {
		return 0
	}
	return (p.units + p.perChunk - 1) / p.perChunk
}

// Spec returns what the plan computes, with every stride filled in.
func (p *Plan) Spec() Spec { return p.spec }

// Target returns what the plan was made for.
func (p *Plan) Target() isa.Target { return p.target }

// Cost is the work of all chunks, in multiply-adds, or those of words where Spec.Pairs is set, which take as long, and by tiles a part of that.
func (p *Plan) Cost() int {
	n := p.spec.M * p.spec.N * p.spec.K
	if p.tiles {
		return (n + tiledSpeed - 1) / tiledSpeed
	}
	return n
}
