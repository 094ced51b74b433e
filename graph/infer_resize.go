package graph

import (
	"fmt"
	"math"
)

// inferResize: sizes, or scales that dims are multiplied with and rounded down, for all axes or those of the attribute.
func inferResize(c *Inference) error {
	if c.Node.Schema.Since < 11 {
		return c.resize(1, -1)
	}
	return c.resize(2, 3)
}

// inferUpsample: scales, as attributes before version 9.
func inferUpsample(c *Inference) error {
	in := c.Shape(0)
	switch {
	case c.Node.Schema.Since >= 9:
		return c.resize(1, -1)
	case in == nil:
		return c.SetShape(0, nil)
	}
	scales := make([]float64, len(in))
	if c.Node.Schema.Since < 7 {
		if err := c.needRank(0, 4, 4); err != nil {
			return err
		}
		scales = []float64{1, 1, float64(c.Node.Float("height_scale", 1)), float64(c.Node.Float("width_scale", 1))}
	} else {
		list := c.Node.Floats("scales")
		if len(list) != len(in) {
			return c.attrError("scales", fmt.Sprintf("%d numbers", len(in)), len(list))
		}
		for i, f := range list {
			scales[i] = float64(f)
		}
	}
	out := make(Shape, len(in))
	for i, d := range in {
		if !(scales[i] > 0) {
			return c.attrError("scales", "numbers above 0", scales[i])
		}
		out[i] = c.scaleDim(d, scales[i])
	}
	return c.SetShape(0, out)
}

func (c *Inference) resize(scalesIn, sizesIn int) error {
	in := c.Shape(0)
	if in == nil {
		return c.SetShape(0, nil)
	}
	axes := make([]int, len(in))
	for i := range axes {
		axes[i] = i
	}
	if list, ok := c.Node.Ints("axes"); ok {
		var err error
		if axes, err = c.normAxes(list, len(in), 0); err != nil {
			return err
		}
	}
	out := append(Shape{}, in...)
	hasScales := c.Has(scalesIn)
	if n, ok := c.length(scalesIn); ok && n == 0 { // how version 11 leaves them out
		hasScales = false
	}
	hasSizes := sizesIn >= 0 && c.Has(sizesIn)
	if hasSizes {
		n, ok := c.length(sizesIn)
		hasSizes = !ok || n > 0
	}
	switch {
	case hasSizes:
		sizes, ok := c.contents(sizesIn)
		if ok && len(sizes) != len(axes) {
			return c.valueError(sizesIn, fmt.Sprintf("%d sizes", len(axes)), itoa(len(sizes)))
		}
		if ok {
			sizes, ok = c.keepRatio(in, axes, sizes)
		}
		for i, a := range axes {
			if out[a] = c.Fresh(); ok {
				out[a] = sizes[i]
			}
		}
	case hasScales:
		if err := c.resizeScales(out, in, axes, scalesIn); err != nil {
			return err
		}
	case c.Node.Schema.Since >= 11:
		return nodeError(c.Node, ErrArity, "scales or sizes", "neither")
	}
	return c.SetShape(0, out)
}

func (c *Inference) resizeScales(out, in Shape, axes []int, scalesIn int) error {
	scales, ok := c.floats(scalesIn)
	if ok && len(scales) != len(axes) {
		return c.valueError(scalesIn, fmt.Sprintf("%d scales", len(axes)), itoa(len(scales)))
	}
	var exact []ratio
	if !ok {
		exact, _ = ratios(c.Node.Input(scalesIn), followDepth)
	}
	for i, a := range axes {
		switch {
		case ok:
			if !(scales[i] > 0) {
				return c.valueError(scalesIn, "scales above 0", fmt.Sprint(scales[i]))
			}
			out[a] = c.scaleDim(in[a], scales[i])
		case len(exact) == len(axes):
			p, fine := mulDims(in[a], exact[i].num)
			if out[a] = c.Fresh(); fine {
				out[a] = p.FloorDiv(Dim{c: exact[i].den})
			}
		default:
			out[a] = c.Fresh()
		}
	}
	return nil
}

// scaleDim returns ⌊d·scale⌋, computed in float32 as runtimes do; for symbols it is exact where the scale is a short
// fraction, and fresh otherwise.
func (c *Inference) scaleDim(d Dim, scale float64) Dim {
	if n, ok := d.Const(); ok {
		f := math.Floor(float64(float32(n) * float32(scale)))
		if f < 0 || f > 1<<53 {
			return c.Fresh()
		}
		return Dim{c: int64(f)}
	}
	if r, ok := ratioOf(scale); ok {
		p, _ := mulDims(d, r.num)
		return p.FloorDiv(Dim{c: r.den})
	}
	return c.Fresh()
}

// keepRatio applies keep_aspect_ratio_policy to sizes; ok is false where they depend on symbols then.
func (c *Inference) keepRatio(in Shape, axes []int, sizes []Dim) (_ []Dim, ok bool) {
	policy := c.Node.Str("keep_aspect_ratio_policy", "stretch")
	if policy == "stretch" {
		return sizes, true
	}
	scale := math.Inf(1)
	if policy == "not_smaller" {
		scale = 0
	}
	for i, a := range axes {
		n, ok := in[a].Const()
		m, ok2 := sizes[i].Const()
		if !ok || !ok2 || n == 0 {
			return nil, false
		}
		s := float64(m) / float64(n)
		if policy == "not_smaller" {
			scale = max(scale, s)
		} else {
			scale = min(scale, s)
		}
	}
	out := make([]Dim, len(axes))
	for i, a := range axes {
		n, _ := in[a].Const()
		f := math.Floor(scale*float64(n) + 0.5)
		if !(f >= 0 && f < 1<<53) {
			return nil, false
		}
		out[i] = Dim{c: int64(f)}
	}
	return out, true
}

// inferGridSample: [N, C, d…] sampled at a grid [N, o…, rank-2] gives [N, C, o…].
func inferGridSample(c *Inference) error {
	x, grid := c.Shape(0), c.Shape(1)
	if err := c.needRank(0, 3, anyRank); err != nil {
		return err
	}
	if err := c.needRank(1, 3, anyRank); err != nil {
		return err
	}
	if x != nil {
		if err := c.needRank(1, len(x), len(x)); err != nil {
			return err
		}
		if err := c.needDim(1, -1, D(len(x)-2)); err != nil {
			return err
		}
		if err := c.needDim(1, 0, x[0]); err != nil {
			return err
		}
	}
	if grid == nil {
		return c.SetShape(0, c.freshShapeOf(x))
	}
	return c.SetShape(0, append(Shape{c.dim(0, 0), c.dim(0, 1)}, grid[1:len(grid)-1]...))
}

// inferAffineGrid: theta [N, r, r+1] and the contents of size, [N, C, d…], give [N, d…, r].
func inferAffineGrid(c *Inference) error {
	if err := c.needRank(0, 3, 3); err != nil {
		return err
	}
	size, err := c.shapeFrom(1)
	if err != nil {
		return err
	}
	if size == nil {
		return c.SetShape(0, nil)
	}
	if len(size) != 4 && len(size) != 5 {
		return c.valueError(1, "4 or 5 dims", itoa(len(size)))
	}
	axes := len(size) - 2
	for axis, d := range []Dim{size[0], D(axes), D(axes + 1)} {
		if err := c.needDim(0, axis, d); err != nil {
			return err
		}
	}
	out := append(Shape{size[0]}, size[2:]...)
	return c.SetShape(0, append(out, D(axes)))
}

// inferRoi: RoiAlign and MaxRoiPool give [rois, C, height, width].
func inferRoi(c *Inference) error {
	if err := c.needRank(0, 4, 4); err != nil {
		return err
	}
	if err := c.needRank(1, 2, 2); err != nil {
		return err
	}
	corners := 4
	if c.Node.Op.Name == "MaxRoiPool" { // behind the number of the image
		corners = 5
	}
	if err := c.needDim(1, 1, D(corners)); err != nil {
		return err
	}
	h, w := c.Node.Int("output_height", 1), c.Node.Int("output_width", 1)
	if c.Node.Op.Name == "MaxRoiPool" {
		list, _ := c.Node.Ints("pooled_shape")
		if len(list) != 2 {
			return c.attrError("pooled_shape", "2 numbers", list)
		}
		h, w = list[0], list[1]
	} else if c.Has(2) {
		if err := c.needDim(2, 0, c.dim(1, 0)); err != nil { // each region has its image
			return err
		}
	}
	return c.SetShape(0, Shape{c.dim(1, 0), c.dim(0, 1), Dim{c: h}, Dim{c: w}})
}
