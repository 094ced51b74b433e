package element

import "github.com/carve-dev/carve/internal/kernel/isa"

// A Box is a rectangle with sides parallel to the axes. Up and Left are its lower corner's coordinates, negated, so that those of an intersection are minima
// like the others.
type Box struct{ Up, Left, Y1, X1, Area float64 }

// Boxes are four boxes, the same number of each side by side.
type Boxes struct{ Up, Left, Y1, X1, Area [4]float64 }

// Set makes box i of a group.
func (g *Boxes) Set(i int, b *Box) {
	g.Up[i], g.Left[i], g.Y1[i], g.X1[i], g.Area[i] = b.Up, b.Left, b.Y1, b.X1, b.Area
}

// Box returns box i of a group.
func (g *Boxes) Box(i int) Box { return Box{g.Up[i], g.Left[i], g.Y1[i], g.X1[i], g.Area[i]} }

// Apart reports whether the intersection of two boxes is less than the part limit of their union; NaN is not less. It has no branch that depends on the boxes.
func (b *Box) Apart(k *Box, limit float64) bool {
	h, w := min(b.Y1, k.Y1)+min(b.Up, k.Up), min(b.X1, k.X1)+min(b.Left, k.Left)
	both := min(-h, 0) * -w // not positive where the boxes do not touch
	return both < limit*(b.Area+k.Area-both)
}

// Together is how many boxes Near compares with one at a time.
func Together(set isa.Set) int {
	if hasKernels(set) {
		return 4
	}
	return 1
}

// Near returns the number of the first group that has a box that is not apart from one, as Apart says, len(groups) if there is none. Areas are NaN where coordinates are.
func Near(set isa.Set, one *Box, groups []Boxes, limit float64) int {
	if len(groups) == 0 {
		return 0
	}
	if hasKernels(set) {
		for from := 0; from < len(groups); from += most {
			some := min(len(groups)-from, most)
			if at := near(set, one, &groups[from], limit, some); at < some {
				return from + at
			}
		}
		return len(groups)
	}
	for i := range groups {
		for k := range 4 {
			if b := groups[i].Box(k); !one.Apart(&b, limit) {
				return i
			}
		}
	}
	return len(groups)
}
