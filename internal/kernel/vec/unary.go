package vec

// Apply writes op of each element of src to dst; the slices have the same length.
func (v Kernels) Apply(op Op, dst, src []float32, p Params) {
	v.ApplyRows(op, dst, len(src), src, len(src), 1, len(src), p)
}

// ApplyRows writes op of a [rows, cols] matrix src with row stride lds to dst with row stride ldd.
func (v Kernels) ApplyRows(op Op, dst []float32, ldd int, src []float32, lds, rows, cols int, p Params) {
	if rows <= 0 || cols <= 0 {
		return
	}
	if op >= numOps {
		panic("vec: no such function: " + op.String())
	}
	d, s := at(dst, extent(rows, cols, ldd)), at(src, extent(rows, cols, lds))
	if ldd == cols && lds == cols { // one row, of which no vector is cut short
		rows, cols = 1, rows*cols
	}
	if v.passes(d, s, ldd, rows, cols) {
		v.applyPast(op, d, s, lds, rows, cols, &p)
		return
	}
	if rows == 1 || rows*cols <= blockElements {
		for c := 0; c < cols; c += blockElements {
			v.apply(op, advance(d, c), advance(s, c), min(blockElements, cols-c), rows, ldd, lds, &p)
			if rows > 1 {
				return
			}
		}
		return
	}
	blocks(rows, cols, func(r, c, rows, cols int) {
		v.apply(op, advance(d, r*ldd+c), advance(s, r*lds+c), cols, rows, ldd, lds, &p)
	})
}

// applyPast is ApplyRows past the caches.
func (v Kernels) applyPast(op Op, dst, src *float32, lds, rows, cols int, p *Params) {
	var s stage
	s.begin(v.set, dst)
	for r, c := 0, 0; r < rows; {
		n, width := s.piece(rows, cols, r, c)
		v.apply(op, s.next(), advance(src, r*lds+c), width, n, width, lds, p)
		s.wrote(n * width)
		r, c = behind(r, c, n, width, cols)
		s.a = upcoming(src, r, c, lds, rows, cols)
		s.b = s.a
	}
	s.end()
}

// farthest is how far from 0 the kernels of sines reach: the quarter of a turn that is nearest is found from there in float32.
const farthest = 1e5

// apply writes op of some rows.
func (v Kernels) apply(op Op, dst, src *float32, n, rows, ldd, lds int, p *Params) {
	if (op == Sin || op == Cos || op == Tan) && !v.reached(src, n, rows, lds) {
		genericUnary(op, dst, src, n, rows, ldd, lds, p)
		return
	}
	unary(v.set, op, dst, src, n, rows, ldd, lds, p)
}

// reached reports whether the kernels of sines reach all elements of some rows.
func (v Kernels) reached(src *float32, n, rows, lds int) bool {
	for r := range rows {
		row := view(advance(src, r*lds), n)
		var most, least [1]float32
		v.ReduceRows(ReduceMax, most[:], row, n, 1, n)
		v.ReduceRows(ReduceMin, least[:], row, n, 1, n)
		if !(most[0] <= farthest && least[0] >= -farthest) { // or NaN
			return false
		}
	}
	return true
}
