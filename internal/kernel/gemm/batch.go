package gemm

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// Batch says where the matrices of products of one plan begin in the slices of Args, in elements: those of product i at A[i], B[i], C[i]
// and, where there is a residual, Res[i].
type Batch struct{ A, B, C, Res []int }

// RunBatch computes chunks lo to hi-1 of a batch of products, each of which has Chunks(): Run of each, in less time where products are small.
func (p *Plan) RunBatch(lo, hi int, x Args, batch Batch) {
	behind := p.behind != nil && len(batch.C)*p.behind.bytes > p.target.SecondCache()
	if p.few != nil && !behind {
		p.runFew(lo, hi, x, &batch)
		return
	}
	chunks := p.Chunks()
	for lo < hi {
		i := lo / chunks
		if whole := hi / chunks; behind && lo == i*chunks && i < whole {
			p.runBehind(i, whole, x, &batch)
			lo = whole * chunks
			continue
		}
		end := min(hi, (i+1)*chunks)
		one := Args{A: x.A[batch.A[i]:], B: x.B[batch.B[i]:], Bias: x.Bias, C: x.C[batch.C[i]:]}
		if p.spec.Residual {
			one.Res = x.Res[batch.Res[i]:]
		}
		p.Run(lo-i*chunks, end-i*chunks, one)
		lo = end
	}
}

// fewTiles is the most tiles of a product that are listed: of more, deciding which comes next takes a small part of the time.
const fewTiles = 16

// placed is tiles below each other of a small product: their rows, panels and number, the bytes to their operands and to their result, and their parameters.
type placed struct {
	rows, panels, tiles int
	a, b, bias, c, res  int
	params              *tileParams
}

// planFew lists the tiles of a small product, of which RunBatch computes many: nothing else is decided when it runs.
func (p *Plan) planFew() {
	s := &p.spec
	if s.Double || s.Half || s.Pairs != pairs.Float32 || s.B == Columns || s.Post != nil || s.K == 0 || p.fetches || p.far() && p.below != nil || len(p.phases) != 1 || p.Chunks() != 1 {
		return
	}
	ph := &p.phases[0]
	var few []placed
	for i := range p.groups {
		g := &p.groups[i]
		tiles := (s.M + g.maxRows - 1) / g.maxRows
		for at, row := 0, 0; at < tiles; {
			rows := (s.M - row) / (tiles - at)
			together := 1
			if p.has.repeat {
				together = tiles - at - (s.M-row)%(tiles-at)
			}
			for q := 0; q < g.panels; q += g.width {
				col := g.col + Panel*q
				one := placed{rows: rows, panels: g.width, tiles: together, a: 4 * row * s.LDA, b: col / Panel * ph.full.bpanel, bias: 4 * col, c: 4 * (row*s.LDC + col), res: 4 * (row*s.LDR + col), params: &ph.full}
				if col+Panel*g.width > s.N {
					one.params = &ph.tail
				}
				few = append(few, one)
			}
			at, row = at+together, row+rows*together
		}
	}
	if len(few) <= fewTiles {
		p.few = few
	}
}

// runFew computes products lo to hi-1 of a batch.
func (p *Plan) runFew(lo, hi int, x Args, batch *Batch) {
	s := &p.spec
	sizeA, sizeB, sizeC, sizeRes := extent(s.M, s.K, s.LDA), extent(s.K, s.N, s.LDB), extent(s.M, s.N, s.LDC), extent(s.M, s.N, s.LDR)
	if s.B == Packed {
		sizeB = PackedLen(s.K, s.N)
	}
	var bias, res unsafe.Pointer
	if s.Bias {
		bias = at(x.Bias, s.N)
	}
	for i := lo; i < hi; i++ {
		a, b, c := at(x.A[batch.A[i]:], sizeA), at(x.B[batch.B[i]:], sizeB), at(x.C[batch.C[i]:], sizeC)
		if s.Residual {
			res = at(x.Res[batch.Res[i]:], sizeRes)
		}
		for j := range p.few {
			t := &p.few[j]
			callTile(p.target.Set, t.rows, t.panels, t.tiles, t.params, (*float32)(unsafe.Add(a, t.a)), (*float32)(unsafe.Add(b, t.b)), (*float32)(forward(bias, t.bias)),
				(*float32)(forward(res, t.res)), (*float32)(unsafe.Add(c, t.c)), 0)
		}
	}
}
