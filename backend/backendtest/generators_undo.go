package backendtest

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// windowGenerators are what undoes windows, or moves what they see.
var windowGenerators = map[string]generator{"MaxUnpool": unpool, "Col2Im": fold, "DeformConv": deform, "AffineGrid": affine, "EyeLike": eye, "MaxRoiPool": poolRegions}

// spread is a window over the axes of an image, with the dims of what it makes.
type spread struct{ kernel, strides, dilations, pads, out []int }

// spreadOver returns a window over an image of these dims.
func (m *maker) spreadOver(image []int) spread {
	s := spread{pads: make([]int, 2*len(image))}
	for i, d := range image {
		k, stride, dilation := m.between(1, min(d, pick(m, 1, 2, 3, 3, 5))), m.between(1, 3), 1
		if k > 1 && m.chance(4) {
			dilation = max(1, min(2, (d-1)/(k-1)))
		}
		s.pads[i], s.pads[len(image)+i] = m.between(0, k/2), m.between(0, k/2)
		s.kernel, s.strides, s.dilations = append(s.kernel, k), append(s.strides, stride), append(s.dilations, dilation)
		s.out = append(s.out, (d+s.pads[i]+s.pads[len(image)+i]-(k-1)*dilation-1)/stride+1)
	}
	return s
}

func volumeOf(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

func integers(v ...int) *tensor.Tensor {
	list := make([]int64, len(v))
	for i, x := range v {
		list[i] = int64(x)
	}
	return tensor.From(list, len(list))
}

// unpool puts elements anywhere in their channel, several to one place at times, and at times in another channel.
func unpool(m *maker, op string) []*graph.Value {
	image := m.image(pick(m, 1, 2, 2, 2, 3))
	var kernel, strides, pads, natural []int
	for _, d := range image[2:] {
		k, s := m.between(1, 4), m.between(1, 3)
		p := m.between(0, (k-1)/2)
		kernel, strides, pads = append(kernel, k), append(strides, s), append(pads, p)
		natural = append(natural, (d-1)*s+k-2*p)
	}
	plane, size := volumeOf(natural), volumeOf(image[2:])
	total, anywhere := plane*image[0]*image[1], m.chance(4)
	places := m.fill(tensor.Int64, image, func(i int) float64 {
		if anywhere {
			return float64(m.r.IntN(total))
		}
		return float64(i/size*plane + m.r.IntN(plane))
	})
	c := m.call(op, m.operand(m.dtype(op, 0), image...), m.leaf(places)).ints("kernel_shape", kernel...).ints("strides", strides...).ints("pads", append(pads, pads...)...)
	if m.chance(4) {
		shape := append([]int{}, image[:2]...)
		for _, d := range natural {
			shape = append(shape, d+m.between(0, 3))
		}
		c.operand(2, m.constant(integers(shape...)))
	}
	return one(c.one())
}

func fold(m *maker, op string) []*graph.Value {
	image := m.image(pick(m, 1, 2, 2, 3))
	dims := image[2:]
	s := m.spreadOver(dims)
	dt := pick(m, tensor.Float32, tensor.Float32, tensor.Float64)
	x := m.operand(dt, image[0], min(image[1], 9)*volumeOf(s.kernel), volumeOf(s.out))
	c := m.call(op, x, m.constant(integers(dims...)), m.constant(integers(s.kernel...)))
	return one(c.ints("strides", s.strides...).ints("dilations", s.dilations...).ints("pads", s.pads...).one())
}

func deform(m *maker, op string) []*graph.Value {
	image := m.image(2)
	in, groups, offsets := pick(m, 1, 3, 5, 8, 16, 20, 32), pick(m, 1, 1, 2, 3), pick(m, 1, 1, 2, 4)
	image[1] = in * groups * offsets
	if m.chance(6) { // one channel a group
		groups = max(image[1], 1)
	}
	out := groups * pick(m, 1, 3, 8, 16, 17, 32)
	if groups > 6 {
		out = groups
	}
	s, per := m.spreadOver(image[2:]), image[1]/groups
	taps := volumeOf(s.kernel)
	x := m.picture(image)
	w := m.weights(tensor.Float32, per*taps, append([]int{out, per}, s.kernel...)...)
	c := m.call(op, x, w, m.within(tensor.Float32, -2.5, 2.5, image[0], 2*offsets*taps, s.out[0], s.out[1]))
	if m.chance(2) {
		c.operand(3, m.weights(tensor.Float32, 1, out))
	}
	if m.chance(2) {
		c.operand(4, m.within(tensor.Float32, 0, 1, image[0], offsets*taps, s.out[0], s.out[1]))
	}
	return one(c.int("group", groups).int("offset_group", offsets).ints("strides", s.strides...).ints("dilations", s.dilations...).ints("pads", s.pads...).one())
}

func affine(m *maker, op string) []*graph.Value {
	axes := m.between(2, 3)
	size := []int64{int64(m.between(1, 3)), int64(m.between(1, 4))}
	for range axes {
		size = append(size, int64(pick(m, 1, 2, 5, 16, 17)))
	}
	c := m.call(op, m.operand(pick(m, tensor.Float32, tensor.Float32, tensor.Float64), int(size[0]), axes, axes+1), m.constant(tensor.From(size)))
	return one(c.flag("align_corners").one())
}

func eye(m *maker, op string) []*graph.Value {
	c := m.call(op, m.operand(m.dtype(op, 0), m.length(m.between(1, 20)), m.between(1, 20))).int("k", pick(m, 0, 0, m.between(-25, 25)))
	if m.chance(2) {
		c.int("dtype", int(pick(m, testedTypes...)))
	}
	return one(c.one())
}

func poolRegions(m *maker, op string) []*graph.Value {
	x, count := m.image(2), m.length(m.between(1, 6))
	if x[0] == 0 {
		count = 0
	}
	rois := m.fill(tensor.Float32, []int{count, 5}, func(i int) float64 {
		if i%5 == 0 {
			return float64(m.r.IntN(x[0]))
		}
		return -3 + 26*m.r.Float64()
	})
	c := m.call(op, m.operand(tensor.Float32, x...), m.feed(rois)).ints("pooled_shape", m.between(1, 4), m.between(1, 4))
	return one(c.float("spatial_scale", pick(m, 1, 0.5, 0.3)).one())
}
