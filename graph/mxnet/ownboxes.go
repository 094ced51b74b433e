package mxnet

import (
	"fmt"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

func floats64(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

func anchorsOf(n *graph.Node) (*anchors, error) {
	p := &anchors{sizes: floats64(n.Floats("sizes")), ratios: floats64(n.Floats("ratios")), steps: floats64(n.Floats("steps")),
		offsets: floats64(n.Floats("offsets")), clip: n.Int("clip", 0) != 0}
	if len(p.sizes) == 0 || len(p.ratios) == 0 || len(p.steps) != 2 || len(p.offsets) != 2 {
		return nil, fmt.Errorf("%w: %d sizes, %d ratios, %d steps and %d offsets", ErrAttribute, len(p.sizes), len(p.ratios), len(p.steps), len(p.offsets))
	}
	return p, nil
}

func inferPrior(c *graph.Inference) error {
	p, err := anchorsOf(c.Node)
	if err != nil {
		return err
	}
	n := c.Fresh()
	if s := c.Shape(0); len(s) == 4 {
		n = s[2].Mul(s[3]).Scale(int64(p.each()))
	}
	return c.SetTensor(0, tensor.Float32, graph.Shape{graph.D(1), n, graph.D(4)})
}

func evalPrior(c *call) error {
	p, err := anchorsOf(c.n)
	if err != nil {
		return err
	}
	s := c.in[0].Shape
	if len(s) != 4 {
		return fmt.Errorf("%w: an image [N, C, H, W] is expected, found %v", tensor.ErrShape, s)
	}
	if s[3] > 0 && s[2] > maxRange/s[3]/p.each() {
		return fmt.Errorf("%w: anchors of an image of %d by %d", tensor.ErrTooLarge, s[2], s[3])
	}
	v := p.boxes(s[2], s[3])
	return c.put(tensor.Float32, v, 1, len(v)/4, 4)
}

func inferDetection(c *graph.Inference) error {
	s := c.Shape(0)
	if len(s) != 3 {
		return c.SetShape(0, nil)
	}
	return c.SetShape(0, graph.Shape{s[0], s[2], graph.D(6)})
}

// overlap is the intersection of two boxes, given by corners, divided by what they cover together.
func overlap(a, b []float64) float64 {
	w := math.Max(0, math.Min(a[2], b[2])-math.Max(a[0], b[0]))
	h := math.Max(0, math.Min(a[3], b[3])-math.Max(a[1], b[1]))
	i := w * h
	u := (a[2]-a[0])*(a[3]-a[1]) + (b[2]-b[0])*(b[3]-b[1]) - i
	if u <= 0 {
		return 0
	}
	return i / u
}

// evalDetection makes detections [N, A, 6] of class, score and corners: the most probable class of each anchor, the best first,
// without those that overlap a better one. What is no detection has class -1.
func evalDetection(c *call) error {
	var v [3][]float64
	for i := range v {
		var err error
		if v[i], err = c.floats(i); err != nil {
			return err
		}
	}
	s := c.in[0].Shape
	if len(s) != 3 || s[1] < 1 || len(v[1]) != s[0]*s[2]*4 || len(v[2]) != s[2]*4 {
		return fmt.Errorf("%w: probabilities %v, locations %v and anchors %v", tensor.ErrShape, s, c.in[1].Shape, c.in[2].Shape)
	}
	variances := floats64(c.n.Floats("variances"))
	if len(variances) != 4 {
		return fmt.Errorf("%w: %d variances", ErrAttribute, len(variances))
	}
	d := &detector{variances: variances, clip: c.n.Int("clip", 1) != 0, threshold: float64(c.n.Float("threshold", 0.01)),
		background: int(c.n.Int("background_id", 0)), overlap: float64(c.n.Float("nms_threshold", 0.5)),
		force: c.n.Int("force_suppress", 0) != 0, most: int(c.n.Int("nms_topk", -1))}
	out := make([]float64, s[0]*s[2]*6)
	for i := range out {
		out[i] = -1
	}
	for b := range s[0] {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		d.image(out[b*s[2]*6:][:s[2]*6], v[0][b*s[1]*s[2]:][:s[1]*s[2]], v[1][b*s[2]*4:][:s[2]*4], v[2], s[1], s[2])
	}
	return c.put(c.in[0].DType, out, s[0], s[2], 6)
}

type detector struct {
	variances          []float64
	clip, force        bool
	threshold, overlap float64
	background, most   int
}

// image fills the rows of one image.
func (d *detector) image(out, probability, location, anchors []float64, classes, n int) {
	var rows [][]float64
	for i := range n {
		score, id := -1.0, d.background
		for k := range classes {
			if p := probability[k*n+i]; k != d.background && p > score {
				score, id = p, k
			}
		}
		if id == d.background || score < d.threshold {
			continue
		}
		if id > d.background {
			id-- // classes are counted without the background
		}
		rows = append(rows, append([]float64{float64(id), score}, d.box(anchors[4*i:4*i+4], location[4*i:4*i+4])...))
	}
	if d.overlap > 0 && d.overlap <= 1 {
		found := make([][]float64, len(rows))
		for i, r := range rows {
			found[i] = slices.Clone(r)
		}
		slices.SortStableFunc(rows, func(a, b []float64) int {
			switch {
			case a[1] > b[1]:
				return -1
			case a[1] < b[1]:
				return 1
			}
			return 0
		})
		keep := len(rows)
		if d.most > 0 {
			keep = min(keep, d.most)
		}
		for i := keep; i < len(rows); i++ {
			rows[i] = found[i] // MXNet leaves what stands there, as no detection
			rows[i][0] = -1
		}
		for i := range keep {
			for j := i + 1; j < keep && rows[i][0] >= 0; j++ {
				if rows[j][0] >= 0 && (d.force || rows[i][0] == rows[j][0]) && overlap(rows[i][2:], rows[j][2:]) >= d.overlap {
					rows[j][0] = -1
				}
			}
		}
	}
	for i, r := range rows {
		copy(out[6*i:], r)
	}
}

// box moves an anchor by what was predicted.
func (d *detector) box(a, p []float64) []float64 {
	w, h := a[2]-a[0], a[3]-a[1]
	x, y := p[0]*d.variances[0]*w+(a[0]+a[2])/2, p[1]*d.variances[1]*h+(a[1]+a[3])/2
	hw, hh := math.Exp(p[2]*d.variances[2])*w/2, math.Exp(p[3]*d.variances[3])*h/2
	out := []float64{x - hw, y - hh, x + hw, y + hh}
	if d.clip {
		for i, v := range out {
			out[i] = math.Min(math.Max(v, 0), 1)
		}
	}
	return out
}

// evalNMS leaves of the boxes of each list [..., N, K] those that overlap no better one, the best first; the other rows are -1.
func evalNMS(c *call) error {
	v, err := c.floats(0)
	if err != nil {
		return err
	}
	s := c.in[0].Shape
	if len(s) < 2 {
		return fmt.Errorf("%w: lists of boxes are expected, found %v", tensor.ErrShape, s)
	}
	n, k := s[len(s)-2], s[len(s)-1]
	p := suppression{start: int(c.n.Int("coord_start", 2)), score: int(c.n.Int("score_index", 1)), id: int(c.n.Int("id_index", -1)),
		background: float64(c.n.Int("background_id", -1)), most: int(c.n.Int("topk", -1)), overlap: float64(c.n.Float("overlap_thresh", 0.5)),
		valid: float64(c.n.Float("valid_thresh", 0)), force: c.n.Int("force_suppress", 0) != 0, inCenter: c.n.Int("in_center", 0) != 0,
		outCenter: c.n.Int("out_center", 0) != 0}
	if p.start < 0 || p.start+4 > k || p.score < 0 || p.score >= k || p.id >= k {
		return fmt.Errorf("%w: coordinates from %d, score at %d and class at %d of %d numbers", ErrAttribute, p.start, p.score, p.id, k)
	}
	out := make([]float64, len(v))
	for i := range out {
		out[i] = -1
	}
	for at := 0; at < len(v); at += n * k {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		p.list(out[at:at+n*k], v[at:at+n*k], k)
	}
	return c.put(c.in[0].DType, out, s...)
}

type suppression struct {
	start, score, id, most     int
	background, overlap, valid float64
	force, inCenter, outCenter bool
}

func (p *suppression) list(out, v []float64, k int) {
	var rows [][]float64
	for r := range slices.Chunk(v, k) {
		if r[p.score] > p.valid && (p.id < 0 || p.background < 0 || r[p.id] != p.background) {
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b []float64) int {
		switch {
		case a[p.score] > b[p.score]:
			return -1
		case a[p.score] < b[p.score]:
			return 1
		}
		return 0
	})
	if p.most > 0 {
		rows = rows[:min(len(rows), p.most)]
	}
	var kept, boxes [][]float64
	for _, r := range rows {
		box := cornersOf(r[p.start:p.start+4], p.inCenter)
		bad := false
		for i, other := range kept {
			if (p.force || p.id < 0 || other[p.id] == r[p.id]) && overlap(boxes[i], box) > p.overlap {
				bad = true
				break
			}
		}
		if !bad {
			kept, boxes = append(kept, r), append(boxes, box)
		}
	}
	for i, r := range kept {
		row := out[i*k : (i+1)*k]
		copy(row, r)
		if p.inCenter != p.outCenter && r[p.start] >= 0 { // MXNet leaves others as they are
			b := boxes[i]
			if p.outCenter {
				b = []float64{(b[0] + b[2]) / 2, (b[1] + b[3]) / 2, b[2] - b[0], b[3] - b[1]}
			}
			copy(row[p.start:], b)
		}
	}
}

// cornersOf returns left, top, right and bottom of a box.
func cornersOf(b []float64, center bool) []float64 {
	if !center {
		return b
	}
	return []float64{b[0] - b[2]/2, b[1] - b[3]/2, b[0] + b[2]/2, b[1] + b[3]/2}
}
