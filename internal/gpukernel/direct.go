package gpukernel

import (
	"cmp"
	"slices"
)

// directVector returns the floats of a vector of a product whose items work alone, for a processor; 0 where a vector of the result is
// no vector in memory, of operands of half precision or that are rounded to it, and of rows that are shorter than a vector.
func (s *ProductShape) directVector(d Device) int {
	if d.Vector < 4 || s.A.Type != F32 || s.TransposedB || s.narrow {
		return 0
	}
	vector := d.Vector
	for vector > s.N {
		vector /= 2
	}
	if vector < 4 {
		return 0
	}
	return vector
}

// directTiles returns the tiles of such a product: rows of one vector or two. The first have the most multiplications for what they read.
func (s *ProductShape) directTiles(d Device, vector int) []Tile {
	var list []Tile
	for _, vectors := range []int{2, 1} {
		for _, rows := range []int{8, 6, 4} {
			t := Tile{bm: min(rows, s.M), bn: vectors * vector, tm: min(rows, s.M), tn: vector, threads: 1, splits: 1, direct: true}
			again := func(o Tile) bool { return o.bm == t.bm && o.bn == t.bn }
			if t.bn > s.N || slices.ContainsFunc(list, again) {
				continue
			}
			t.efficiency = float64(t.bm*vectors) / float64(t.bm+vectors) / 2
			t.share = float64(s.M) * float64(s.N) * float64(s.K*s.Batch0*s.Batch1) / t.efficiency / float64(d.Processors)
			list = append(list, t)
		}
	}
	slices.SortStableFunc(list, func(a, b Tile) int { return cmp.Compare(a.share, b.share) })
	return list
}

// direct returns the plan of a product for a processor, whose items work alone.
func (s *ProductShape) direct(name string, d Device, t Tile) *Plan {
	tm, vector := t.tm, t.tn
	tv := t.bn / vector
	columns, batch := ceilDiv(s.N, tv*vector), s.Batch0*s.Batch1
	// Items are as few as leave each processor some, so that they find the right operand in the cache.
	steps := max(1, min(16, ceilDiv(s.M, tm)*columns*batch/(8*d.Processors)))
	defines, operands, args := s.result(s.Finish, s.C)
	k := &Kernel{
		Name: name,
		Params: append([]Param{{Name: "a", Type: F32}, {Name: "b", Type: F32}, {Name: "c", Type: s.C.Type, Written: true},
			{Name: "rows", Type: I32, Scalar: true}}, operands...),
		Defines: append(defines, def("LDA", s.A.Stride), def("LDB", s.B.Stride), def("A_BATCH0", s.A.Batch0), def("A_BATCH1", s.A.Batch1),
			def("B_BATCH0", s.B.Batch0), def("B_BATCH1", s.B.Batch1), def("TM", tm), def("TV", tv), def("VECTOR", vector), def("STEPS", steps)),
		Files:   []string{"direct.h"},
		Body:    source("direct_body.h"),
		Threads: 1,
	}
	if s.left != nil {
		k.Defines = append(append(k.Defines, s.left.defines()...), def("WINDOWED", 1), def("PIECE", s.left.channels), def("PLACES", s.K/s.left.channels))
	} else {
		k.Defines = append(k.Defines, def("WINDOWED", 0), def("PIECE", s.K), def("PLACES", 1))
	}
	grid := [3]int{ceilDiv(s.M, tm*steps) * columns, 1, batch}
	return &Plan{Launches: []Launch{{k, grid, append([]Arg{buffer("a"), buffer("b"), buffer("c"), value(s.M)}, args...)}}}
}
