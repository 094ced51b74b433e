package convert

// genericReorder walks the target's storage in order and fetches every element; it handles every pair of layouts and any
// alignment, for up to maxRank dims. It is the definition that the fast reorders are compared with.
func genericReorder(src, dst strided, size int) *reorderer {
	dims := dst.dims
	rows := 1 // all but the innermost axis
	inner := axis{count: 1}
	if len(dst.axes) > 0 {
		inner = dst.axes[len(dst.axes)-1]
		rows = dst.elements / max(inner.count, 1)
	}
	if dst.elements == 0 {
		return newReorderer(0, 0, nil)
	}
	return newReorderer(rows, inner.count*size, func(d, s []byte, lo, hi int) {
		for r := lo; r < hi; r++ {
			var index [maxRank]int
			idx := index[:len(dims)]
			rest := r * inner.count
			for _, a := range dst.axes {
				idx[a.dim] += rest / a.stride * a.step
				rest %= a.stride
			}
			at := r * inner.count * size
			inside := true
			for i, x := range idx {
				inside = inside && x < dims[i]
			}
			for range inner.count {
				if inside && (len(dims) == 0 || idx[inner.dim] < dims[inner.dim]) {
					o := 0
					for i, x := range idx {
						o += src.along(i, x)
					}
					copy(d[at:at+size], s[o*size:(o+1)*size])
				} else {
					clear(d[at : at+size])
				}
				at += size
				if len(dims) > 0 {
					idx[inner.dim] += inner.step
				}
			}
		}
	})
}
