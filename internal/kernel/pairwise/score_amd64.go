package pairwise

import "unsafe"

// scoreRows is score by vectors of four numbers, which have no masks to store under: a row of n is stored as four or eight, and the last ones,
// behind which there is no room for that, are left to the portable loop.
func scoreRows(dst *float64, best *int64, x, bias *float64, n, rows int) {
	stored := 4
	if n > stored {
		stored = Lanes
	}
	whole := 0
	if rows*n >= stored {
		whole = (rows*n-stored)/n + 1
		if stored == Lanes {
			score8_256(dst, best, x, bias, n, whole)
		} else {
			score4_256(dst, best, x, bias, n, whole)
		}
	}
	if whole == rows {
		return
	}
	if best != nil {
		best = (*int64)(unsafe.Add(unsafe.Pointer(best), 8*whole))
	}
	genericScore((*float64)(unsafe.Add(unsafe.Pointer(dst), 8*whole*n)), best, (*float64)(unsafe.Add(unsafe.Pointer(x), 8*whole*Lanes)), bias, n, rows-whole)
}
