package cpu

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// NonMaxSuppression goes through the boxes of each class by falling score and keeps those that no box kept before overlaps by more
// than a part of their union. Boxes that were kept are found by the cells of a grid that they touch, so that the time does not
// grow with their number where they lie apart. Arithmetic is in float64, as in package reference.

// rect is a box with ordered corners.
type rect struct{ y0, x0, y1, x1, area float64 }

// overlaps reports whether the intersection of two boxes is more than the part iou of their union.
func (a *rect) overlaps(b *rect, iou float64) bool {
	y0, y1, x0, x1 := a.y0, a.y1, a.x0, a.x1
	if b.y0 > y0 {
		y0 = b.y0
	}
	if b.y1 < y1 {
		y1 = b.y1
	}
	if b.x0 > x0 {
		x0 = b.x0
	}
	if b.x1 < x1 {
		x1 = b.x1
	}
	h, w := y1-y0, x1-x0
	if !(h > 0 && w > 0) {
		return 0 > iou
	}
	both := h * w
	union := a.area + b.area - both
	if union <= 0 {
		return 0 > iou
	}
	limit := iou * union
	if near := math.Abs(limit) * 1e-9; both > limit+near || both < limit-near {
		return both > limit
	}
	return both/union > iou
}

// grid finds kept boxes by place: a uniform grid over the plane. Boxes with a positive intersection share a cell. What touches more
// than mostCells is in no cell, but in a list that all look through, and looks through all kept boxes itself.
type grid struct {
	x0, y0, cell float64
	nx, ny       int     // 0 without a grid
	head         []int32 // by cell: the last entry, -1 for none
	entries      []entry
	large, kept  []int32
}

// entry is a kept box in one of the cells that it touches.
type entry struct{ box, before int32 } // before is the entry before it in the cell, -1 for none

const (
	mostCells = 32
	fewBoxes  = 64 // are looked through one by one
	// gridBytes is the memory of a grid for each box.
	gridBytes = 32*4 + mostCells*8 + 8
)

// shape sets the grid up for boxes: about one cell for their average side, and at most some 32 for each box.
func (g *grid) shape(boxes []rect, iou float64) {
	g.nx, g.ny = 0, 0
	if len(boxes) < fewBoxes || !(iou >= 0) { // below 0, boxes that do not touch suppress each other
		return
	}
	x0, y0, x1, y1, side := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1), 0.0
	for i := range boxes {
		b := &boxes[i]
		x0, y0, x1, y1 = math.Min(x0, b.x0), math.Min(y0, b.y0), math.Max(x1, b.x1), math.Max(y1, b.y1)
		side += b.x1 - b.x0 + b.y1 - b.y0
	}
	span := math.Max(x1-x0, y1-y0)
	if all := span + side; all != all || math.IsInf(all, 0) || span <= 0 {
		return
	}
	n := float64(len(boxes))
	g.x0, g.y0 = x0, y0
	g.cell = max(side/(2*n), math.Sqrt((x1-x0)*(y1-y0)/(32*n)), span/(32*n), span/65536)
	g.nx, g.ny = int((x1-x0)/g.cell)+1, int((y1-y0)/g.cell)+1
	g.head = slices.Grow(g.head[:0], g.nx*g.ny)[:g.nx*g.ny]
}

// clear forgets the boxes.
func (g *grid) clear() {
	if g.nx > 0 {
		for i := range g.head {
			g.head[i] = -1
		}
	}
	g.entries, g.large, g.kept = g.entries[:0], g.large[:0], g.kept[:0]
}

// keep keeps box at unless one that was kept overlaps it by more than iou. It reports whether it did.
func (g *grid) keep(boxes []rect, at int32, iou float64) bool {
	b := &boxes[at]
	small := g.nx > 0
	var xa, xb, ya, yb int
	if small {
		xa, xb, ya, yb = int((b.x0-g.x0)/g.cell), int((b.x1-g.x0)/g.cell), int((b.y0-g.y0)/g.cell), int((b.y1-g.y0)/g.cell)
		small = (xb-xa+1)*(yb-ya+1) <= mostCells
	}
	if !small {
		if b.overlapsAny(boxes, g.kept, iou) {
			return false
		}
		g.large, g.kept = append(g.large, at), append(g.kept, at)
		return true
	}
	if b.overlapsAny(boxes, g.large, iou) {
		return false
	}
	for y := ya; y <= yb; y++ {
		for _, last := range g.head[y*g.nx+xa : y*g.nx+xb+1] {
			for e := last; e >= 0; e = g.entries[e].before {
				if b.overlaps(&boxes[g.entries[e].box], iou) {
					return false
				}
			}
		}
	}
	for y := ya; y <= yb; y++ {
		for x := xa; x <= xb; x++ {
			cell := &g.head[y*g.nx+x]
			g.entries = append(g.entries, entry{at, *cell})
			*cell = int32(len(g.entries) - 1)
		}
	}
	g.kept = append(g.kept, at)
	return true
}

func (a *rect) overlapsAny(boxes []rect, list []int32, iou float64) bool {
	for _, k := range list {
		if a.overlaps(&boxes[k], iou) {
			return true
		}
	}
	return false
}

// classes is the work of NonMaxSuppression, spread over images and classes.
type classes struct {
	c           *choice
	boxes       []rect // of all images
	n, count    int    // boxes of an image, and classes
	scores      []float32
	limit       int64
	iou, lowest float64
	workers     []suppressor
	kept        [][]int32 // by image and class
}

// suppressor is the scratch memory of a worker.
type suppressor struct {
	grid
	image int // that the grid is for
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
	if t == nil || t.Len() == 0 {
		return absent
	}
	return float64(place.Elements[float32](t.Bytes())[0])
}

func suppress(c *choice) error {
	bt, st := c.x[0], c.x[1]
	if len(bt.Shape) != 3 || bt.Shape[2] != 4 || len(st.Shape) != 3 || st.Shape[0] != bt.Shape[0] || st.Shape[2] != bt.Shape[1] || bt.Shape[1] > math.MaxInt32 {
		return property.Because(property.ShapeReason, "boxes %v and scores %v", bt.Shape, st.Shape)
	}
	w := &c.classes
	w.c, w.n, w.count, w.scores = c, bt.Shape[1], st.Shape[1], place.Elements[float32](st.Bytes())
	w.limit, w.iou, w.lowest = 0, c.scalar(3, 0), c.scalar(4, math.Inf(-1))
	if t := c.operand(2); t != nil && t.Len() > 0 {
		w.limit = oneInteger(t)
	}
	total := bt.Shape[0] * w.n
	if err := c.reserve(total*40 + c.in.threads*w.n*(8+gridBytes)); err != nil {
		return err
	}
	w.read(place.Elements[float32](bt.Bytes()), total)
	if w.workers == nil {
		w.workers = make([]suppressor, c.in.threads)
	}
	for i := range w.workers {
		w.workers[i].image = -1
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

// read turns boxes into corners.
func (w *classes) read(s []float32, total int) {
	w.boxes = slices.Grow(w.boxes[:0], total)[:total]
	center := w.c.in.n.Int("center_point_box", 0) != 0
	for i := range w.boxes {
		a, b, c, d := float64(s[4*i]), float64(s[4*i+1]), float64(s[4*i+2]), float64(s[4*i+3])
		r := rect{y0: math.Min(a, c), x0: math.Min(b, d), y1: math.Max(a, c), x1: math.Max(b, d)}
		if center {
			r = rect{y0: b - d/2, x0: a - c/2, y1: b + d/2, x1: a + c/2}
		}
		r.area = (r.y1 - r.y0) * (r.x1 - r.x0)
		w.boxes[i] = r
	}
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
	image := i / w.count
	boxes := w.boxes[image*w.n : (image+1)*w.n]
	if s.image != image {
		s.shape(boxes, w.iou)
		s.image = image
	}
	s.clear()
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
		key := s.keys[k]
		if at := int32(key & math.MaxUint32); s.keep(boxes, at, w.iou) {
			kept = append(kept, at)
		}
	}
}

func init() {
	table.Register("NonMaxSuppression", operator{Signatures: suppressSignatures})
}
