package gpukernel

import (
	"cmp"
	"fmt"
	"slices"
)

// Tile is a way to cut a product: tiles of bm × bn, slices of bk of the depth, stages of them in local memory. An item computes
// tm × tn elements, or a warp where the tile is for matrix instructions. An item of a direct one computes a tile by itself, in vectors of tn.
type Tile struct {
	bm, bn, bk, tm, tn int
	threads, stages    int
	blocks             int // groups on a processor
	splits             int
	matrix, direct     bool
	efficiency         float64 // share of the peak when processors are full
	share              float64 // see Share
}

// Name names the tile among those of a shape on a device.
func (t Tile) Name() string {
	name := fmt.Sprintf("%dx%dx%d/%dx%d", t.bm, t.bn, t.bk, t.tm, t.tn)
	if t.splits > 1 {
		name += fmt.Sprintf("/%d", t.splits)
	}
	return name
}

// Share is how many multiplications a processor has time for while it does its share of the product, by the model of waves.
func (t Tile) Share() float64 { return t.share }

// String names the tile in tables.
func (t Tile) String() string {
	return fmt.Sprintf("%dx%dx%d/%dx%d s%d b%d k%d", t.bm, t.bn, t.bk, t.tm, t.tn, t.stages, t.blocks, t.splits)
}

// plainTiles and matrixTiles are the tiles to choose from. Efficiencies are estimates, by the reads of local memory a multiplication.
func plainTiles() []Tile {
	return []Tile{
		{bm: 128, bn: 256, bk: 16, tm: 8, tn: 16, threads: 256, stages: 3, blocks: 1, efficiency: 0.81},
		{bm: 256, bn: 128, bk: 16, tm: 8, tn: 16, threads: 256, stages: 3, blocks: 1, efficiency: 0.81},
		{bm: 128, bn: 128, bk: 16, tm: 8, tn: 16, threads: 128, stages: 3, blocks: 2, efficiency: 0.81},
		{bm: 128, bn: 128, bk: 16, tm: 8, tn: 8, threads: 256, stages: 3, blocks: 1, efficiency: 0.80},
		{bm: 128, bn: 128, bk: 8, tm: 8, tn: 8, threads: 256, stages: 4, blocks: 1, efficiency: 0.80},
		{bm: 64, bn: 128, bk: 16, tm: 8, tn: 8, threads: 128, stages: 3, blocks: 3, efficiency: 0.75},
		{bm: 128, bn: 64, bk: 16, tm: 8, tn: 8, threads: 128, stages: 3, blocks: 3, efficiency: 0.75},
		{bm: 128, bn: 64, bk: 16, tm: 8, tn: 4, threads: 256, stages: 3, blocks: 2, efficiency: 0.65},
		{bm: 64, bn: 64, bk: 16, tm: 4, tn: 8, threads: 128, stages: 3, blocks: 4, efficiency: 0.60},
		{bm: 64, bn: 32, bk: 16, tm: 4, tn: 4, threads: 128, stages: 3, blocks: 4, efficiency: 0.40},
		{bm: 32, bn: 32, bk: 16, tm: 4, tn: 4, threads: 64, stages: 3, blocks: 8, efficiency: 0.30},
	}
}

func matrixTiles() []Tile {
	return []Tile{
		{bm: 128, bn: 256, bk: 32, tm: 64, tn: 64, threads: 256, stages: 4, blocks: 1, efficiency: 0.60},
		{bm: 256, bn: 128, bk: 32, tm: 64, tn: 64, threads: 256, stages: 4, blocks: 1, efficiency: 0.60},
		{bm: 128, bn: 128, bk: 64, tm: 64, tn: 32, threads: 256, stages: 3, blocks: 2, efficiency: 0.55},
		{bm: 128, bn: 128, bk: 32, tm: 64, tn: 32, threads: 256, stages: 4, blocks: 2, efficiency: 0.55},
		{bm: 128, bn: 128, bk: 32, tm: 64, tn: 64, threads: 128, stages: 4, blocks: 2, efficiency: 0.55},
		{bm: 64, bn: 128, bk: 32, tm: 32, tn: 32, threads: 256, stages: 4, blocks: 2, efficiency: 0.42},
		{bm: 64, bn: 64, bk: 64, tm: 32, tn: 32, threads: 128, stages: 4, blocks: 4, efficiency: 0.35},
		{bm: 64, bn: 64, bk: 32, tm: 32, tn: 32, threads: 128, stages: 4, blocks: 4, efficiency: 0.35},
		{bm: 32, bn: 64, bk: 32, tm: 16, tn: 32, threads: 128, stages: 4, blocks: 4, efficiency: 0.22},
	}
}

// Tiles returns the tiles that fit a device, with the best first by a model of waves: that is Product's, where the shape names none.
// Kernels that were compiled beforehand have none to choose from.
func Tiles(d Device, s ProductShape) ([]Tile, error) {
	if err := s.check(d); err != nil || d.Prebuilt {
		return nil, err
	}
	return s.tiles(d), nil
}

// tile returns the tile that the shape names, or else the first.
func (s *ProductShape) tile(list []Tile) Tile {
	return list[max(0, slices.IndexFunc(list, func(t Tile) bool { return t.Name() == s.Tile }))]
}

func (s *ProductShape) tiles(d Device) []Tile {
	if vector := s.directVector(d); vector > 0 {
		return s.directTiles(d, vector)
	}
	tiles := plainTiles()
	matrix := s.matrixKind(d)
	if matrix {
		tiles = matrixTiles()
	}
	var list []Tile
	for _, t := range tiles {
		t.matrix = matrix
		if !s.roomFor(&t) {
			continue
		}
		t, ok := s.fit(d, t)
		if !ok {
			continue
		}
		for t.splits = 1; t.splits <= 16 && (t.splits == 1 || ceilDiv(s.K, t.bk) >= 4*t.splits); t.splits *= 2 {
			t.share = s.cost(d, t)
			list = append(list, t)
		}
	}
	slices.SortStableFunc(list, func(a, b Tile) int { return cmp.Compare(a.share, b.share) })
	return list
}

// roomFor reports whether the registers suffice for a tile. Copies of single elements need more of them than those of 16 bytes,
// for addresses; so large tiles are left out, and of others fewer share a processor.
func (s *ProductShape) roomFor(t *Tile) bool {
	if t.matrix && s.A.Type == F32 {
		if t.bk > 32 || t.bm > 128 || t.threads == 128 && t.bm*t.bn > 64*64 {
			return false
		}
		t.blocks = max(1, t.blocks-1) // operands are rounded in registers
	}
	a, b, _ := s.vectors(s.C)
	if a > 1 && b > 1 && (t.matrix || (s.A.Type == F32 || s.narrow) && !s.TransposedB) {
		return true
	}
	if t.matrix && s.A.Type == F32 && (t.bm+t.bn)*t.bk > 24*t.threads {
		return false // so many addresses an item
	}
	// A processor has four parts: a group of two warps less would leave an item no more registers.
	t.blocks = max(1, t.blocks-max(1, 128/t.threads))
	most := 64
	if s.A.Type == F64 {
		most = 32 // each takes two registers
	}
	return t.bm*t.bn/t.threads <= most
}

// fit adapts the stages of a tile to the local memory that the device has.
func (s *ProductShape) fit(d Device, t Tile) (Tile, bool) {
	if !d.AsyncCopies {
		t.stages = 2 // nothing is copied ahead, the stages only save a barrier
	}
	t.splits = 1
	for ; t.stages >= 2; t.stages-- {
		if a := s.kernel("k", t).Arena; a <= d.Local && (a*t.blocks <= d.LocalTotal || t.stages == 2) {
			t.blocks = max(1, min(t.blocks, d.LocalTotal/(a+1024)))
			return t, true
		}
	}
	return t, false
}

// cost is proportional to the time that the model expects: waves of groups on all processors, each as long as its
// multiplications take. Groups that are alone on a processor hide less of their latency, and so compute more slowly.
func (s *ProductShape) cost(d Device, t Tile) float64 {
	const (
		slack = 96 // what beginning and ending a tile costs, in columns of depth
		alone = 0.7
	)
	groups := ceilDiv(s.M, t.bm) * ceilDiv(s.N, t.bn) * s.Batch0 * s.Batch1 * t.splits
	one := float64(t.bm*t.bn) * float64(ceilDiv(ceilDiv(s.K, t.bk), t.splits)*t.bk+slack) / t.efficiency
	full := groups / (d.Processors * t.blocks)
	time := float64(full*t.blocks) * one
	if rest := ceilDiv(groups-full*d.Processors*t.blocks, d.Processors); rest > 0 {
		share := float64(rest) / float64(t.blocks)
		time += float64(rest) * one / (alone + (1-alone)*share)
	}
	if t.splits > 1 {
		// The sums are written and read once more, and another launch waits for all of them.
		time += float64(s.M*s.N*s.Batch0*s.Batch1)*float64(t.splits)*16/float64(d.Processors) + 128*128*128
	}
	return time
}
