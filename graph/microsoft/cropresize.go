package microsoft

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// cropAndResize cuts boxes out of images and samples each at as many points, corners included.
var cropAndResize = operator{
	name: "CropAndResize",
	schema: "in X:T1 rois:T1 batch_indices:T2 crop_size:T2\nout Y:T1\nat extrapolation_value:float=0 mode:string=bilinear\n" +
		"ty T1=double,float,float16 T2=int32",
	infer: func(c *graph.Inference) error {
		if m := c.Node.Str("mode", "bilinear"); m != "bilinear" && m != "nearest" {
			return fmt.Errorf("%w: mode %q", ErrAttribute, m)
		}
		y := graph.Shape{c.Fresh(), c.Fresh(), c.Fresh(), c.Fresh()}
		if s := c.Shape(2); len(s) == 1 {
			y[0] = s[0]
		}
		if s := c.Shape(0); len(s) == 4 {
			y[1] = s[1]
		}
		if t := c.Const(3); t != nil && t.Len() == 2 {
			y[2], y[3] = graph.D(int(max(t.Int64At(0), 0))), graph.D(int(max(t.Int64At(1), 0)))
		}
		c.SetType(0, graph.TensorType(c.DType(0), y))
		return nil
	},
	eval: evalCropAndResize,
}

func evalCropAndResize(c *call) error {
	x, err := c.input(0, 4)
	if err != nil {
		return err
	}
	rois, err := c.input(1, 2)
	if err != nil {
		return err
	}
	images, err := c.input(2, 1)
	if err != nil {
		return err
	}
	size, err := c.input(3, 1)
	if err != nil {
		return err
	}
	bad := fmt.Errorf("%w: boxes %v of %v in %v, in size %v", ErrShape, rois, images, x, size)
	if size.Len() != 2 || rois.Shape[1] != 4 || rois.Shape[0] != images.Shape[0] || x.Len() == 0 {
		return bad
	}
	rows, cols := size.Int64At(0), size.Int64At(1)
	n, channels := images.Shape[0], x.Shape[1]
	if rows < 1 || cols < 1 || rows > 1<<20 || cols > 1<<20 || int64(n*channels) > (1<<31)/(rows*cols) {
		return bad
	}
	from, boxes := make([]float64, x.Len()), make([]float64, rois.Len())
	if err := tensor.Decode(from, x); err != nil {
		return err
	}
	if err := tensor.Decode(boxes, rois); err != nil {
		return err
	}
	height, width := x.Shape[2], x.Shape[3]
	outside, nearest := float64(c.n.Float("extrapolation_value", 0)), c.n.Str("mode", "bilinear") == "nearest"
	out := make([]float32, 0, n*channels*int(rows*cols))
	for i := range n {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		image := images.Int64At(i)
		if image < 0 || image >= int64(x.Shape[0]) {
			return fmt.Errorf("%w: image %d of %d", ErrShape, image, x.Shape[0])
		}
		box := boxes[4*i:][:4]
		ys, xs := cropPoints(box[0], box[2], height, int(rows)), cropPoints(box[1], box[3], width, int(cols))
		for ch := range channels {
			plane := from[(int(image)*channels+ch)*height*width:][:height*width]
			for _, y := range ys {
				for _, x := range xs {
					out = append(out, float32(sampled(plane, height, width, y, x, outside, nearest)))
				}
			}
		}
	}
	return c.put(0, x.DType, out, n, channels, int(rows), int(cols))
}

// cropPoints returns n places from one part of a length to another, in the middle between where it is one.
func cropPoints(begin, end float64, length, n int) []float64 {
	out := make([]float64, n)
	last := float64(length - 1)
	for i := range out {
		switch {
		case n == 1:
			out[i] = float64(float32((begin + end) / 2 * last))
		case i == n-1:
			out[i] = float64(float32(end * last))
		default:
			out[i] = float64(float32(begin*last + float64(i)*(end-begin)*last/float64(n-1)))
		}
	}
	return out
}

// sampled returns what an image has at a point.
func sampled(x []float64, height, width int, at, along, outside float64, nearest bool) float64 {
	if !(at >= 0 && at <= float64(height-1) && along >= 0 && along <= float64(width-1)) {
		return outside
	}
	if nearest {
		return x[int(math.Round(at))*width+int(math.Round(along))]
	}
	top, left := int(at), int(along)
	bottom, right := int(math.Ceil(at)), int(math.Ceil(along))
	u, v := at-float64(top), along-float64(left)
	a, b := x[top*width+left], x[bottom*width+left]
	a, b = a+(x[top*width+right]-a)*v, b+(x[bottom*width+right]-b)*v
	return a + (b-a)*u
}
