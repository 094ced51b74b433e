package graph

import (
	"fmt"
	"slices"
)

// kernelOf returns the spatial dims of weights [M, C/g, k…]; nil where they are not all numbers.
func (c *Inference) kernelOf(w int) []int {
	s := c.Shape(w)
	if len(s) < 2 {
		return nil
	}
	out := make([]int, 0, len(s)-2)
	for _, d := range s[2:] {
		n, ok := d.Const()
		if !ok || n < 0 || n > maxExtent {
			return nil
		}
		out = append(out, int(n))
	}
	return out
}

func inferConv(c *Inference) error        { return c.conv(1, 2) }
func inferConvInteger(c *Inference) error { return c.conv(1, -1) }
func inferQLinearConv(c *Inference) error { return c.conv(3, 8) }
func inferDeformConv(c *Inference) error  { return c.conv(1, 3) }

// conv: operand 0 is X [N, C, d…]; with W [M, C/group, k…] it gives [N, M, o…]; the bias is [M].
func (c *Inference) conv(w, bias int) error {
	const x = 0
	in, weights := c.Shape(x), c.Shape(w)
	if err := c.convRanks(x, w, bias); err != nil {
		return err
	}
	win, err := ConvAttrs(c.Node, c.kernelOf(w))
	if err != nil {
		return err
	}
	if in == nil && weights == nil {
		return c.SetShape(0, nil)
	}
	rank := max(len(in), len(weights))
	out := make(Shape, rank)
	out[0], out[1] = c.dim(x, 0), c.dim(w, 0)
	if in != nil && weights != nil {
		channels := weights[1].Scale(int64(win.Group))
		if _, ok := sameDim(in[1], channels); !ok {
			return c.shapeError(x, fmt.Sprintf("%v channels (%v per group, %d groups)", channels, weights[1], win.Group))
		}
	}
	if m, ok := out[1].Const(); ok && m%int64(win.Group) != 0 {
		return c.shapeError(w, fmt.Sprintf("a multiple of %d groups at axis 0", win.Group))
	}
	if err := c.spatial(out, in, x, &win); err != nil {
		return err
	}
	return c.SetShape(0, out)
}

func (c *Inference) convRanks(x, w, bias int) error {
	if err := c.needRank(x, 3, anyRank); err != nil {
		return err
	}
	if err := c.needRank(w, 3, anyRank); err != nil {
		return err
	}
	if r, ok := c.rank(x); ok {
		if err := c.needRank(w, r, r); err != nil {
			return err
		}
	}
	if bias >= 0 && c.Has(bias) {
		if err := c.needRank(bias, 1, 1); err != nil {
			return err
		}
		m := c.dim(w, 0)
		if c.Node.Op.Name == "ConvTranspose" {
			m = c.dim(w, 1).Scale(max(1, min(c.Node.Int("group", 1), maxExtent)))
		}
		return c.needDim(bias, 0, m)
	}
	return nil
}

// spatial fills the dims from axis 2 on with the window positions over in, the shape of input x.
func (c *Inference) spatial(out, in Shape, x int, w *Window) error {
	if w.Kernel == nil || in == nil {
		for i := 2; i < len(out); i++ {
			out[i] = c.Fresh()
		}
		return nil
	}
	if len(w.Kernel) != len(in)-2 {
		return c.shapeError(x, fmt.Sprintf("%d spatial dims", len(w.Kernel)))
	}
	for i := range w.Kernel {
		d := w.OutDim(i, in[2+i])
		n, ok := d.Const()
		size, sizeKnown := in[2+i].Const()
		if ok && (n < 0 || n == 0 && sizeKnown && size > 0) {
			return c.shapeError(x, fmt.Sprintf("at least the window's extent of %d at axis %d, pads included", w.Extent(i), 2+i))
		}
		out[2+i] = d
	}
	return nil
}

// inferConvTranspose: X [N, C, d…] and W [C, M/group, k…] give [N, M, o…].
func inferConvTranspose(c *Inference) error {
	in, weights := c.Shape(0), c.Shape(1)
	if err := c.convRanks(0, 1, 2); err != nil {
		return err
	}
	win, err := ConvAttrs(c.Node, c.kernelOf(1))
	if err != nil {
		return err
	}
	if in == nil && weights == nil {
		return c.SetShape(0, nil)
	}
	if in != nil && weights != nil {
		if _, ok := sameDim(in[1], weights[0]); !ok {
			return c.shapeError(0, fmt.Sprintf("%v channels", weights[0]))
		}
	}
	if n, ok := c.dim(1, 0).Const(); ok && n%int64(win.Group) != 0 {
		return c.shapeError(1, fmt.Sprintf("a multiple of %d groups at axis 0", win.Group))
	}
	out := make(Shape, max(len(in), len(weights)))
	out[0] = c.dim(0, 0)
	out[1] = c.dim(1, 1).Scale(int64(win.Group))
	known := win.Kernel != nil && in != nil
	if known && len(win.Kernel) != len(in)-2 {
		return c.shapeError(0, fmt.Sprintf("%d spatial dims", len(win.Kernel)))
	}
	for i := 2; i < len(out); i++ {
		if known && (win.OutputShape == nil || len(win.OutputShape) == len(out)-2) {
			if out[i] = win.TransposeDim(i-2, in[i]); !win.fitsTransposed(i-2, in[i]) {
				return c.shapeError(0, fmt.Sprintf("fewer than %v at axis %d, whose results overflow", in[i], i))
			}
		} else {
			out[i] = c.Fresh()
		}
	}
	return c.SetShape(0, out)
}

// inferPool: AveragePool, MaxPool and LpPool over [N, C, d…]; MaxPool's Indices have the same shape.
func inferPool(c *Inference) error {
	if err := c.needRank(0, 3, anyRank); err != nil {
		return err
	}
	if c.Node.Op.Name == "LpPool" && c.Node.Schema.Since < 2 && c.Node.Attrs.Lookup("kernel_shape") == nil {
		return c.SetShape(0, c.freshShapeOf(c.Shape(0)))
	}
	w, err := PoolAttrs(c.Node)
	if err != nil {
		return err
	}
	in := c.Shape(0)
	if in == nil {
		in = c.freshShape(2 + len(w.Kernel))
	}
	out := append(Shape{}, in...)
	if err := c.spatial(out, in, 0, &w); err != nil {
		return err
	}
	for i := range c.NumOutputs() {
		if err := c.SetShape(i, out); err != nil {
			return err
		}
	}
	return nil
}

// inferGlobalPool: every spatial dim becomes 1.
func inferGlobalPool(c *Inference) error {
	if err := c.needRank(0, 2, anyRank); err != nil {
		return err
	}
	out := append(Shape(nil), c.Shape(0)...)
	for i := 2; i < len(out); i++ {
		out[i] = D(1)
	}
	return c.SetShape(0, out)
}

// inferMaxUnpool: the input size of the MaxPool that it inverts, or the contents of output_shape.
func inferMaxUnpool(c *Inference) error {
	if err := c.needRank(0, 3, anyRank); err != nil {
		return err
	}
	if err := c.sameShapes(0, 1); err != nil {
		return err
	}
	w, err := PoolAttrs(c.Node)
	if err != nil {
		return err
	}
	if c.Has(2) {
		s, err := c.shapeFrom(2)
		if err == nil {
			err = c.unpoolsInto(s)
		}
		if err != nil {
			return err
		}
		return c.SetShape(0, s)
	}
	in := c.Shape(0)
	if in == nil {
		return c.SetShape(0, nil)
	}
	if len(w.Kernel) != len(in)-2 {
		return c.shapeError(0, fmt.Sprintf("%d spatial dims", len(w.Kernel)))
	}
	w.OutputShape, w.AutoPad = nil, PadExplicit
	out := append(Shape{}, in...)
	for i := range w.Kernel {
		out[2+i] = w.TransposeDim(i, in[2+i])
	}
	return c.SetShape(0, out)
}

// unpoolsInto checks that a result of the shape that is asked for has the operand's rank, and a place for its elements.
func (c *Inference) unpoolsInto(s Shape) error {
	in := c.Shape(0)
	if s == nil || in == nil {
		return nil
	}
	if len(s) != len(in) {
		return c.valueError(2, fmt.Sprintf("%d dims", len(in)), s.String())
	}
	full := true
	for _, d := range in {
		n, known := d.Const()
		full = full && known && n > 0
	}
	if full && slices.ContainsFunc(s, func(d Dim) bool { return d.Is(0) }) {
		return c.valueError(2, "dims of at least 1", s.String())
	}
	return nil
}

// inferCol2Im: [N, C·block, L] becomes [N, C, image…].
func inferCol2Im(c *Inference) error {
	if err := c.needRank(0, 3, 3); err != nil {
		return err
	}
	image, ok := c.contents(1)
	block, ok2 := c.contents(2)
	if !ok {
		n, known := c.length(1)
		if !known {
			n, known = c.length(2)
		}
		if !known || n > maxRank {
			return c.SetShape(0, nil)
		}
		image = c.freshShape(n)
	}
	if len(image) > maxRank || ok2 && len(block) != len(image) {
		return c.valueError(2, fmt.Sprintf("%d dims", len(image)), itoa(len(block)))
	}
	channels := c.Fresh()
	if in := c.Shape(0); in != nil && ok2 {
		if size, ok := numElements(Shape(block)); ok && !size.Is(0) && size.NonNegative() {
			n, isConst := in[1].Const()
			if k, kc := size.Const(); isConst && kc && n%k != 0 {
				return c.shapeError(0, fmt.Sprintf("a multiple of %d at axis 1", k))
			}
			channels = quotient(in[1], size)
		}
	}
	if ok && ok2 {
		if err := c.needPositions(image, block); err != nil {
			return err
		}
	}
	return c.SetShape(0, append(Shape{c.dim(0, 0), channels}, image...))
}

// needPositions checks that operand 0 of a Col2Im has a column for each position of a block in an image.
func (c *Inference) needPositions(image, block Shape) error {
	dims, known := image.Static()
	size, known2 := block.Static()
	if !known || !known2 {
		return nil
	}
	if i := slices.IndexFunc(size, func(n int) bool { return n < 1 || n > maxExtent }); i >= 0 {
		return c.valueError(2, fmt.Sprintf("dims from 1 to %d", maxExtent), block.String())
	}
	w, err := ConvAttrs(c.Node, size)
	if err != nil {
		return err
	}
	out, _, _, err := w.Resolve(dims)
	if err != nil {
		return c.valueError(1, fmt.Sprintf("room for a block of %v", block), image.String())
	}
	n := 1
	for _, k := range out {
		if n > 0 && k > maxExtent/n {
			return c.valueError(1, fmt.Sprintf("at most %d positions", maxExtent), image.String())
		}
		n *= k
	}
	return c.needDim(0, 2, D(n))
}

// inferDepthToSpace: [N, C, H, W] becomes [N, C/b², H·b, W·b].
func inferDepthToSpace(c *Inference) error {
	return c.blocks(func(s Shape, b int64) (Shape, error) {
		n, ok := s[1].Const()
		if ok && n%(b*b) != 0 {
			return nil, c.shapeError(0, fmt.Sprintf("a multiple of %d at axis 1", b*b))
		}
		return Shape{s[0], s[1].FloorDiv(Dim{c: b * b}), s[2].Scale(b), s[3].Scale(b)}, nil
	})
}

// inferSpaceToDepth: [N, C, H, W] becomes [N, C·b², H/b, W/b].
func inferSpaceToDepth(c *Inference) error {
	return c.blocks(func(s Shape, b int64) (Shape, error) {
		for i := 2; i < 4; i++ {
			if n, ok := s[i].Const(); ok && n%b != 0 {
				return nil, c.shapeError(0, fmt.Sprintf("a multiple of %d at axis %d", b, i))
			}
		}
		return Shape{s[0], s[1].Scale(b * b), s[2].FloorDiv(Dim{c: b}), s[3].FloorDiv(Dim{c: b})}, nil
	})
}

func (c *Inference) blocks(f func(s Shape, b int64) (Shape, error)) error {
	if err := c.needRank(0, 4, 4); err != nil {
		return err
	}
	b := c.Node.Int("blocksize", 0)
	if b < 1 || b > 1<<15 {
		return c.attrError("blocksize", "at least 1", b)
	}
	in := c.Shape(0)
	if in == nil {
		return c.SetShape(0, c.freshShape(4))
	}
	out, err := f(in, b)
	if err != nil {
		return err
	}
	return c.SetShape(0, out)
}

// inferCausalConvWithState: input [B, C, L], weight [C, 1, K]; the state that is left is [B, C, K-1].
func inferCausalConvWithState(c *Inference) error {
	for i := range 2 {
		if err := c.needRank(i, 3, 3); err != nil {
			return err
		}
	}
	if err := inferSame(c); err != nil {
		return err
	}
	return c.SetShape(1, Shape{c.dim(0, 0), c.dim(0, 1), c.dim(1, 2).Sub(D(1))})
}
