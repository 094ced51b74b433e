package cpu

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// NonMaxSuppression goes through the boxes of each class by falling score and keeps those that no box kept before overlaps by more
// than a part of their union. Boxes that were kept are found by the cells of a grid that they touch, so that the time does not
// grow with their number where they lie apart. Arithmetic is in float64, as in package reference.

// rect is a box with ordered corners.
type rect element.Box

// clearly is the part of a limit that is below it for certain.
const clearly = 1 - 1e-8

// overlaps reports whether the intersection of two boxes is more than the part iou of their union.
func (a *rect) overlaps(b *rect, iou float64) bool {
	h, w := min(a.Y1, b.Y1)+min(a.Up, b.Up), min(a.X1, b.X1)+min(a.Left, b.Left)
	if !(h > 0 && w > 0) {
		return 0 > iou
	}
	both := h * w
	union := a.Area + b.Area - both
	return union > 0 && both/union > iou || union <= 0 && 0 > iou
}

// grid finds kept boxes by place: a uniform grid over the plane. Boxes with a positive intersection share a cell. What touches more
// than mostCells is in no cell, but in a list that all look through, and looks through all kept boxes itself.
type grid struct {
	x0, y0, cell float64
	nx, ny       int     // 0 without a grid
	head         []int32 // by cell: the last entry, -1 for none
	entries      []entry
	kept         []rect
	all, large   boxList // what was kept, and what of it touches many cells
	set          isa.Set
	tests        int // of boxes of the image with each other that there were without the grid
	shaped, used bool
}

// boxList is a list of boxes, four of them side by side.
type boxList struct {
	groups []element.Boxes
	count  int
}

func (l *boxList) forget() { l.groups, l.count = l.groups[:0], 0 }

func (l *boxList) add(b *rect) {
	if l.count%4 == 0 {
		l.groups = append(l.groups, element.Boxes{})
	}
	l.groups[l.count/4].Set(l.count%4, (*element.Box)(b))
	l.count++
}

// covers reports whether a box of the list overlaps another by more than iou.
func (l *boxList) covers(set isa.Set, b *rect, iou float64) bool {
	for i := 0; i < len(l.groups); i++ {
		if iou >= 0 {
			if i += element.Near(set, (*element.Box)(b), l.groups[i:], iou*clearly); i == len(l.groups) {
				break
			}
		}
		for k := range min(4, l.count-4*i) {
			if other := rect(l.groups[i].Box(k)); b.overlaps(&other, iou) {
				return true
			}
		}
	}
	return false
}

// entry is a kept box in one of the cells that it touches.
type entry struct{ box, before int32 } // before is the entry before it in the cell, -1 for none

const (
	mostCells = 32
	fewBoxes  = 64 // are sorted in one go
	gridBoxes = 16 // kept ones at least are put into a grid, where tests are done one by one
	// gridTests are the tests, for each box of an image, that take as long as it takes to make its grid, where they are done one by one.
	gridTests = 8
	// gridBytes is the memory of a grid for each box.
	gridBytes = 32*4 + mostCells*8 + 3*40
)

// shape sets the grid up for n boxes: about one cell for their average side, and at most some 32 for each box.
func (g *grid) shape(n int, box func(int) rect) {
	g.nx, g.ny, g.shaped = 0, 0, true
	x0, y0, x1, y1, side := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1), 0.0
	for i := range n {
		b := box(i)
		x0, y0, x1, y1 = min(x0, -b.Left), min(y0, -b.Up), max(x1, b.X1), max(y1, b.Y1)
		side += b.X1 + b.Left + b.Y1 + b.Up
	}
	span := max(x1-x0, y1-y0)
	if all := span + side; all != all || math.IsInf(all, 0) || span <= 0 {
		return
	}
	count := float64(n)
	g.x0, g.y0 = x0, y0
	g.cell = max(side/(2*count), math.Sqrt((x1-x0)*(y1-y0)/(32*count)), span/(32*count), span/65536)
	g.nx, g.ny = int((x1-g.x0)/g.cell)+1, int((y1-g.y0)/g.cell)+1
	g.head = slices.Grow(g.head[:0], g.nx*g.ny)[:g.nx*g.ny]
}

// forget forgets the kept boxes. The grid waits until they are many.
func (g *grid) forget() {
	g.entries, g.kept, g.used = g.entries[:0], g.kept[:0], false
	g.all.forget()
	g.large.forget()
}

// pays reports whether the grid for n boxes is there, or is worth making, and so many kept ones are worth putting into it.
func (g *grid) pays(kept, n int) bool {
	together := element.Together(g.set)
	return kept >= gridBoxes*together && g.tests > gridTests*together*n && (g.nx > 0 || !g.shaped)
}

// use puts the boxes that were kept so far into the grid, if these boxes have one.
func (g *grid) use() {
	if g.used = g.nx > 0; !g.used {
		return
	}
	for i := range g.head {
		g.head[i] = -1
	}
	for i := range g.kept {
		g.enter(i, g.cells(&g.kept[i]))
	}
}

// touched are the cells that a box touches, from xa and ya to xb and yb; few says whether there are few enough for it to be in all.
type touched struct {
	xa, xb, ya, yb int
	few            bool
}

func (g *grid) cells(b *rect) touched {
	c := touched{xa: int((-b.Left - g.x0) / g.cell), xb: int((b.X1 - g.x0) / g.cell), ya: int((-b.Up - g.y0) / g.cell), yb: int((b.Y1 - g.y0) / g.cell)}
	c.few = (c.xb-c.xa+1)*(c.yb-c.ya+1) <= mostCells
	return c
}

// enter puts a kept box into the cells that it touches.
func (g *grid) enter(at int, c touched) {
	if !c.few {
		g.large.add(&g.kept[at])
		return
	}
	for y := c.ya; y <= c.yb; y++ {
		for x := c.xa; x <= c.xb; x++ {
			cell := &g.head[y*g.nx+x]
			g.entries = append(g.entries, entry{int32(at), *cell})
			*cell = int32(len(g.entries) - 1)
		}
	}
}

// keep keeps a box unless one that was kept overlaps it by more than iou. It reports whether it did.
func (g *grid) keep(b rect, iou float64) bool {
	var c touched
	if g.used {
		c = g.cells(&b)
	}
	if !c.few {
		g.tests += len(g.kept)
		if g.all.covers(g.set, &b, iou) {
			return false
		}
	} else if g.large.covers(g.set, &b, iou) || g.covered(&b, c, iou) {
		return false
	}
	g.all.add(&b)
	if g.kept = append(g.kept, b); g.used {
		g.enter(len(g.kept)-1, c)
	}
	return true
}

// covered reports whether a box in the cells that another touches overlaps it by more than iou, which is not negative.
func (g *grid) covered(b *rect, c touched, iou float64) bool {
	for y := c.ya; y <= c.yb; y++ {
		for _, last := range g.head[y*g.nx+c.xa : y*g.nx+c.xb+1] {
			for e := last; e >= 0; e = g.entries[e].before {
				if k := &g.kept[g.entries[e].box]; !(*element.Box)(b).Apart((*element.Box)(k), iou*clearly) && b.overlaps(k, iou) {
					return true
				}
			}
		}
	}
	return false
}

// classes is the work of NonMaxSuppression, spread over images and classes.
type classes struct {
	c           *choice
	corners     []float32 // of the boxes of all images
	center      bool      // they are centres and sizes
	n, count    int       // boxes of an image, and classes
	scores      []float32
	limit       int64
	iou, lowest float64
	workers     []suppressor
	kept        [][]int32 // by image and class
}

// suppressor is the scratch memory of a worker.
type suppressor struct {
	grid
	image int // whose boxes the grid is for: the first one's number, -1 for none
	keys  []uint64
}

func suppressSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	for _, v := range n.Inputs[:2] {
		if !operators.IsFloat32(v) {
			return nil, operators.NotFloat32(v)
		}
	}
	return choosingSignatures(n)
}

// scalar returns the float of one element in an optional operand.
func (c *choice) scalar(i int, absent float64) float64 {
	t := c.operand(i)
	if t == nil {
		return absent
	}
	return float64(place.Elements[float32](t.Bytes())[0])
}

func suppress(c *choice) error {
	bt, st := c.x[0], c.x[1]
	if len(bt.Shape) != 3 || bt.Shape[2] != 4 || len(st.Shape) != 3 || st.Shape[0] != bt.Shape[0] || st.Shape[2] != bt.Shape[1] || bt.Shape[1] > math.MaxInt32 {
		return property.Because(property.ShapeReason, "boxes %v and scores %v", bt.Shape, st.Shape)
	}
	for _, t := range c.x[2:] {
		if t != nil && t.Len() != 1 {
			return property.Because(property.ShapeReason, "one number is expected, found %v", t)
		}
	}
	w := &c.classes
	w.c, w.n, w.count, w.scores = c, bt.Shape[1], st.Shape[1], place.Elements[float32](st.Bytes())
	w.limit, w.iou, w.lowest = 0, c.scalar(3, 0), c.scalar(4, math.Inf(-1))
	if t := c.operand(2); t != nil {
		w.limit = oneInteger(t)
	}
	if err := c.reserve(c.in.threads * w.n * (8 + gridBytes)); err != nil {
		return err
	}
	w.corners, w.center = place.Elements[float32](bt.Bytes()), c.in.n.Int("center_point_box", 0) != 0
	if w.workers == nil {
		w.workers = make([]suppressor, c.in.threads)
	}
	for i := range w.workers {
		w.workers[i].image, w.workers[i].set = -1, c.in.e.target.Set
	}
	pairs := bt.Shape[0] * w.count
	w.kept = slices.Grow(w.kept[:0], pairs)[:pairs]
	if w.n > 0 {
		c.workers().For(pairs, 1, suppressClasses, w)
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	sum := 0
	for i := range w.kept {
		sum += len(w.kept[i])
	}
	y, err := c.result(0, tensor.Int64, []int{sum, 3})
	if err != nil {
		return err
	}
	out := place.Elements[int64](y)
	for i, kept := range w.kept {
		for _, k := range kept {
			out[0], out[1], out[2] = int64(i/w.count), int64(i%w.count), int64(k)
			out = out[3:]
		}
	}
	return nil
}

// box returns box i of all images.
func (w *classes) box(i int) rect {
	s := w.corners[4*i:][:4]
	a, b, c, d := float64(s[0]), float64(s[1]), float64(s[2]), float64(s[3])
	var r rect
	if w.center {
		r = rect{Up: -(b - d/2), Left: -(a - c/2), Y1: b + d/2, X1: a + c/2}
	} else {
		r = rect{Up: -min(a, c), Left: -min(b, d), Y1: max(a, c), X1: max(b, d)}
	}
	r.Area = (r.Y1 + r.Up) * (r.X1 + r.Left)
	return r
}

func suppressClasses(arg any, worker, lo, hi int) {
	w := arg.(*classes)
	for i := lo; i < hi && w.c.ctx.Err() == nil; i++ {
		w.class(&w.workers[worker], i)
	}
}

// class does one class of an image.
func (w *classes) class(s *suppressor, i int) {
	kept := w.kept[i][:0]
	defer func() { w.kept[i] = kept }()
	first := i / w.count * w.n
	s.forget()
	if s.image != first {
		s.image, s.tests, s.shaped = first, 0, false
	}
	s.keys = s.keys[:0]
	for k, v := range w.scores[i*w.n : (i+1)*w.n] {
		if float64(v) > w.lowest {
			s.keys = append(s.keys, (math.MaxUint32-rank32(v))<<32|uint64(k))
		}
	}
	sorted := 0
	for k := range s.keys {
		if int64(len(kept)) >= w.limit || k&1023 == 1023 && w.c.ctx.Err() != nil {
			return
		}
		if k == sorted { // few may be all that are looked at
			more := max(int(min(2*w.limit, int64(len(s.keys)))), 4*sorted, fewBoxes)
			if more >= (len(s.keys)-sorted)/2 {
				more = len(s.keys) - sorted
			}
			lowest(s.keys[sorted:], more)
			sorted += more
		}
		at := int32(s.keys[k] & math.MaxUint32)
		if !s.keep(w.box(first+int(at)), w.iou) {
			continue
		}
		if kept = append(kept, at); !s.used && s.pays(len(kept), w.n) && w.iou >= 0 { // below 0, boxes that do not touch suppress each other
			if !s.shaped {
				s.shape(w.n, func(i int) rect { return w.box(first + i) })
			}
			s.use()
		}
	}
}

func init() {
	table.Register("NonMaxSuppression", operator{Signatures: suppressSignatures})
}
