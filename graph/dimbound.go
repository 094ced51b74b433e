package graph

import "strings"

// NonNegative reports whether d is surely ≥ 0, given that every symbol is but those of elements that are not known.
func (d Dim) NonNegative() bool {
	n, ok := d.least()
	return ok && n >= 0
}

// least returns a number that d is never below, given that no symbol is below 0 but those of elements that are not known; ok is false where
// none is found.
func (d Dim) least() (n int64, ok bool) {
	n = d.c
	for _, t := range d.terms() {
		if t.coef < 0 {
			return 0, false
		}
		p := t.coef
		for i := range t.atoms {
			m, ok := t.atoms[i].least()
			if !ok || m < 0 && len(t.atoms) > 1 {
				return 0, false
			}
			if p, ok = mulChecked(p, m); !ok {
				return 0, false
			}
		}
		sum, ok := addChecked(n, p)
		if !ok {
			return 0, false
		}
		n = sum
	}
	return n, true
}

func (a *atom) least() (n int64, ok bool) {
	switch a.kind {
	case atomSymbol:
		return 0, !strings.HasPrefix(a.name, unknownPrefix)
	case atomPosition:
		return 0, true
	case atomFloorDiv, atomMod, atomMin, atomMax, atomBroadcast:
	}
	x, okX := a.a.least()
	y, okY := a.b.least()
	k, isConst := a.b.Const()
	switch {
	case a.kind == atomMod && isConst && k > 0:
		return 0, true
	case a.kind == atomMax && (okX || okY):
		if !okX || okY && y > x {
			x = y
		}
		return x, true
	case !okX || !okY:
		return 0, false
	case a.kind == atomFloorDiv && isConst && k > 0:
		return floorDiv(x, k), true
	case a.kind == atomFloorDiv || a.kind == atomMod:
		return 0, x >= 0 && y >= 0
	}
	return min(x, y), true
}
