package gpukernel

// direct returns the plan of a product for a processor, whose items work alone. ok is false where a vector of the result is no
// vector in memory, of operands of half precision, and of rows that are shorter than a vector.
func (s *ProductShape) direct(name string, d Device) (plan *Plan, ok bool) {
	if d.Vector < 4 || s.A.Type != F32 || s.TransposedB {
		return nil, false
	}
	vector := d.Vector
	for vector > s.N {
		vector /= 2
	}
	if vector < 4 {
		return nil, false
	}
	tv := 1
	if s.N >= 2*vector {
		tv = 2
	}
	tm := min(8, s.M)
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
	return &Plan{Launches: []Launch{{k, grid, append([]Arg{buffer("a"), buffer("b"), buffer("c"), value(s.M)}, args...)}}}, true
}
