package gemm

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// behind is how RunBatch computes whole products with AVX2 where a batch is more than the second-level cache holds: by rows of tiles, which go through A and C
// once, and have what the next product reads fetched meanwhile, an equal part each, so that it is not waited for. Every element is the sum that Run computes,
// in the same order. On an AMD Zen 3, with operands in the third-level cache, MxKxN, 128x64x128 takes 0.88 of its time so, 256x64x256 0.83,
// 197x64x197 0.95 to 1.0, 49x32x49 0.80 to 0.85, 49x49x32 0.77; with operands in the second, which is why such batches are left alone, 49x32x49 would take 1.07.
type behind struct {
	all         group      // every column
	panel       tileParams // of the first row of tiles of the first product, each of which has the panel beside it fetched
	below       tileParams // of the first tile of its other rows, which has the rows of A below fetched
	whole, last tileParams // of tiles of whole panels, and of a ragged one
	row         int        // bytes that a row of tiles has fetched
	bytes       int        // of a product's operands and result
}

// Limits of what is computed so.
const (
	leastBehindRows   = 4 // of tiles, above which a product has enough to spread over what the next one reads
	leastBehindPanels = 2 // whole ones: 300x64x30 would take 1.1 of its time
)

// planBehind decides whether whole products of a batch may be computed so: B must stay in the second-level cache.
func (p *Plan) planBehind() {
	s, g := &p.spec, &p.groups[0]
	if !p.has.across || s.B != Rows || s.Double || s.Half || s.Pairs != pairs.Float32 || s.Post != nil || s.K == 0 || len(p.phases) != 1 || g.width != 1 {
		return
	}
	panels := (s.N + Panel - 1) / Panel
	if s.M <= leastBehindRows*g.maxRows || s.N < leastBehindPanels*Panel || 4*Panel*s.K*panels > p.target.SecondCache()/4 {
		return
	}
	ph := &p.phases[0]
	x := &behind{all: group{cols: s.N, panels: panels, width: 1, maxRows: g.maxRows}, panel: ph.full, below: ph.full, whole: ph.full, last: ph.tail, bytes: 4 * (s.M*s.K + s.K*s.N + s.M*s.N)}
	rows := (s.M+g.maxRows-1)/g.maxRows - 2 // those in which A and B end have less of them fetched
	line := 4 * Panel
	x.whole.ahead = min(line, (4*s.K*(s.M+s.N)-1)/(rows*panels*s.K)+1)
	x.row = panels * s.K * x.whole.ahead
	x.last.ahead, x.below.ahead = x.whole.ahead, 4*g.maxRows
	for _, params := range []*tileParams{&x.panel, &x.below, &x.whole, &x.last} {
		params.fetchInRounds(1)
	}
	x.whole.flags |= flagAcross
	p.behind = x
}

// runBehind computes products lo to hi-1 of a batch.
func (p *Plan) runBehind(lo, hi int, x Args, batch *Batch) {
	s := &p.spec
	var bias, res unsafe.Pointer
	if s.Bias {
		bias = at(x.Bias, s.N)
	}
	for i := lo; i < hi; i++ {
		a, b, c := at(x.A[batch.A[i]:], extent(s.M, s.K, s.LDA)), at(x.B[batch.B[i]:], extent(s.K, s.N, s.LDB)), at(x.C[batch.C[i]:], extent(s.M, s.N, s.LDC))
		if s.Residual {
			res = at(x.Res[batch.Res[i]:], extent(s.M, s.N, s.LDR))
		}
		var next operands
		if i+1 < hi {
			next = p.operands(x, batch, i+1)
		}
		p.rowsBehind(i == lo, &next, a, b, bias, res, c)
	}
}

// operands are the bytes of a product's A and B that are still to be fetched: from where, and how many.
type operands [2]struct {
	from uintptr // an address, since it is not looked behind
	left int
}

// operands returns those of product i of a batch: of what lies without gaps, and is not what the product before it reads.
func (p *Plan) operands(x Args, batch *Batch, i int) (o operands) {
	s := &p.spec
	if a := batch.A[i]; a != batch.A[i-1] && s.LDA == s.K {
		o[0].from, o[0].left = uintptr(unsafe.Pointer(&x.A[a])), 4*s.M*s.K
	}
	if b := batch.B[i]; b != batch.B[i-1] && s.LDB == s.N {
		o[1].from, o[1].left = uintptr(unsafe.Pointer(&x.B[b])), 4*s.K*s.N
	}
	return o
}

// fetch returns the address of the next part, of so many bytes, 0 for none.
func (o *operands) fetch(bytes int) uintptr {
	for i := range o {
		if x := &o[i]; x.left > 0 {
			from := x.from
			x.from, x.left = from+uintptr(bytes), x.left-bytes
			return from
		}
	}
	return 0
}

// rowsBehind computes a product, the first of several or one behind another.
func (p *Plan) rowsBehind(first bool, next *operands, a, b, bias, res, c unsafe.Pointer) {
	s, x := &p.spec, p.behind
	tiles := (s.M + x.all.maxRows - 1) / x.all.maxRows
	high, more := s.M/tiles, s.M%tiles
	whole := s.N / Panel
	for t := range tiles {
		n := high
		if t < more {
			n++
		}
		from := 0
		var fetched uintptr
		switch {
		case first && t == 0:
			for ; from < whole; from++ { // rows of B may end anywhere in a line
				p.tile(n, 1, 1, &x.panel, a, forward(b, 64*from), forward(bias, 64*from), forward(res, 64*from), forward(c, 64*from), uintptr(b)+uintptr(64*from+127))
			}
		case first && s.LDA == s.K:
			from = 1
			p.tile(n, 1, 1, &x.below, a, b, bias, res, c, uintptr(a)+uintptr(4*n*s.LDA))
			fallthrough
		default:
			fetched = next.fetch(x.row)
		}
		if from < whole {
			p.tile(n, 1, whole-from, &x.whole, a, forward(b, 64*from), forward(bias, 64*from), forward(res, 64*from), forward(c, 64*from), x.piece(fetched, from))
		}
		if whole < x.all.panels {
			p.tile(n, 1, 1, &x.last, a, forward(b, 64*whole), forward(bias, 64*whole), forward(res, 64*whole), forward(c, 64*whole), x.piece(fetched, whole))
		}
		if t < tiles-1 {
			a, c, res = forward(a, 4*n*s.LDA), forward(c, 4*n*s.LDC), forward(res, 4*n*s.LDR)
		}
	}
}

// piece returns what tile i of a row has fetched of what the row has, 0 for nothing.
func (x *behind) piece(row uintptr, i int) uintptr {
	if row == 0 {
		return 0
	}
	return row + uintptr(i*x.whole.k*x.whole.ahead)
}
