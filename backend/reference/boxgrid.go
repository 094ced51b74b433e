package reference

import "math"

// boxGrid finds the kept boxes that may overlap a box: a uniform grid over the plane, each cell with a list of the kept
// boxes that touch it. With it, suppression of n boxes looks at neighbours only, not at every kept box; what it decides is
// the same, since boxes with a positive intersection share a cell.
type boxGrid struct {
	x0, y0, cell float64
	nx, ny       int
	head         []int32 // per cell: last entry, or -1
	next         []int32 // per entry: the one before it in its cell
	owner        []int32 // per entry: box
}

// gridBoxes is the fewest boxes for which a grid is made.
const gridBoxes = 256

// newBoxGrid returns an empty grid for these boxes, or nil where they are few or not finite.
func newBoxGrid(all []box) *boxGrid {
	if len(all) < gridBoxes {
		return nil
	}
	g := &boxGrid{x0: math.Inf(1), y0: math.Inf(1)}
	x1, y1, side := math.Inf(-1), math.Inf(-1), 0.0
	for i := range all {
		b := &all[i]
		g.x0, g.y0 = math.Min(g.x0, b.x0), math.Min(g.y0, b.y0)
		x1, y1 = math.Max(x1, b.x1), math.Max(y1, b.y1)
		side += (b.x1 - b.x0) + (b.y1 - b.y0)
	}
	span := math.Max(x1-g.x0, y1-g.y0)
	if math.IsNaN(span+side) || math.IsInf(span+side, 0) || span <= 0 {
		return nil
	}
	// About one cell per average side; no more than about 32 cells per box.
	g.cell = math.Max(side/float64(2*len(all)), math.Sqrt((x1-g.x0)*(y1-g.y0)/float64(32*len(all))))
	g.cell = math.Max(g.cell, span/65536)
	if g.cell <= 0 {
		return nil
	}
	g.nx, g.ny = int((x1-g.x0)/g.cell)+1, int((y1-g.y0)/g.cell)+1
	g.head = make([]int32, g.nx*g.ny)
	g.reset()
	return g
}

// reset forgets the kept boxes.
func (g *boxGrid) reset() {
	for i := range g.head {
		g.head[i] = -1
	}
	g.next, g.owner = g.next[:0], g.owner[:0]
}

// cells returns the range of cells that a box touches.
func (g *boxGrid) cells(b *box) (xa, xb, ya, yb int) {
	return int((b.x0 - g.x0) / g.cell), int((b.x1 - g.x0) / g.cell), int((b.y0 - g.y0) / g.cell), int((b.y1 - g.y0) / g.cell)
}

// keep adds box i.
func (g *boxGrid) keep(all []box, i int) {
	xa, xb, ya, yb := g.cells(&all[i])
	for y := ya; y <= yb; y++ {
		for x := xa; x <= xb; x++ {
			at := y*g.nx + x
			g.next, g.owner = append(g.next, g.head[at]), append(g.owner, int32(i))
			g.head[at] = int32(len(g.next) - 1)
		}
	}
}

// covered reports whether a kept box overlaps box i by more than iou, which is not negative, and how many it looked at.
func (g *boxGrid) covered(all []box, i int, iou float64) (bool, int) {
	b := &all[i]
	seen := 0
	xa, xb, ya, yb := g.cells(b)
	for y := ya; y <= yb; y++ {
		for x := xa; x <= xb; x++ {
			for e := g.head[y*g.nx+x]; e >= 0; e = g.next[e] {
				seen++
				if b.overlap(&all[g.owner[e]]) > iou {
					return true, seen
				}
			}
		}
	}
	return false, seen
}
