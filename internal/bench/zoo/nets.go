package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// net is a model of another kind than the zoo's.
type net struct {
	name string
	make func(b *builder)
}

// nets returns them: what backends differ most in.
func nets() []net {
	return []net{
		{"net_grouped", grouped}, {"net_dilated", dilated}, {"net_odd", odd}, {"net_line", longLine}, {"net_ragged", ragged},
		{"net_windows", windowed}, {"net_squeeze", squeezed},
	}
}

// builder writes the text of a graph. Weights are inputs whose names begin with w, until they become constants.
type builder struct {
	declared, calls strings.Builder
	shape           []int // of the value that is worked on
	value           string
	made            int
}

// input begins with an input.
func (b *builder) input(dims ...int) {
	fmt.Fprintf(&b.declared, "  input %%x: f32[%s]\n", list(dims))
	b.value, b.shape = "x", dims
}

func list(dims []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", ","), "[]")
}

// weight declares a weight and returns its name.
func (b *builder) weight(dims ...int) string {
	b.made++
	name := fmt.Sprintf("w%d", b.made)
	fmt.Fprintf(&b.declared, "  input %%%s: f32[%s]\n", name, list(dims))
	return name
}

// numbers declares a constant of integers and returns its name.
func (b *builder) numbers(numbers ...int) string {
	b.made++
	name := fmt.Sprintf("n%d", b.made)
	fmt.Fprintf(&b.declared, "  const %%%s = i64[%d]{%s}\n", name, len(numbers), list(numbers))
	return name
}

// call adds a node on the value and others, and goes on with its result.
func (b *builder) call(op, attrs string, others ...string) string {
	b.made++
	args := ""
	for _, o := range others {
		args += ", %" + o
	}
	if attrs != "" {
		attrs = "; " + attrs
	}
	next := fmt.Sprintf("v%d", b.made)
	fmt.Fprintf(&b.calls, "  %%%s = %s(%%%s%s%s)\n", next, op, b.value, args, attrs)
	b.value = next
	return next
}

// conv is a convolution of as many spatial dims as the value has, padded so that stride 1 keeps them, with a bias.
func (b *builder) conv(out, taps, stride, groups, dilation int) {
	spatial := len(b.shape) - 2
	weights, same := []int{out, b.shape[1] / groups}, func(x int) string {
		return strings.TrimSuffix(strings.Repeat(fmt.Sprint(x, ","), spatial), ",")
	}
	pad := dilation * (taps - 1) / 2
	shape := []int{b.shape[0], out}
	for _, d := range b.shape[2:] {
		weights, shape = append(weights, taps), append(shape, (d+2*pad-dilation*(taps-1)-1)/stride+1)
	}
	b.call("Conv", fmt.Sprintf("pads=[%s,%s], strides=[%s], dilations=[%s], group=%d", same(pad), same(pad), same(stride), same(dilation), groups),
		b.weight(weights...), b.weight(out))
	b.shape = shape
}

// dense is a product with a weight, and a bias.
func (b *builder) dense(out int) {
	last := len(b.shape) - 1
	b.call("MatMul", "", b.weight(b.shape[last], out))
	b.call("Add", "", b.weight(out))
	b.shape = append(b.shape[:last:last], out)
}

// swish multiplies the value with its own sigmoid.
func (b *builder) swish() {
	x := b.value
	b.call("Sigmoid", "")
	b.call("Mul", "", x)
}

// residual adds what the value was before to what f makes of it, where that has the same shape.
func (b *builder) residual(f func()) {
	x, shape := b.value, b.shape
	f()
	if slices.Equal(b.shape, shape) {
		b.call("Add", "", x)
	}
}

// grouped has bottlenecks around grouped convolutions of several widths, as RegNet and ResNeXt have.
func grouped(b *builder) {
	b.input(1, 3, 112, 112)
	b.conv(32, 3, 2, 1, 1)
	for _, stage := range [][3]int{{48, 24, 2}, {120, 24, 3}, {128, 4, 2}, {336, 24, 2}, {256, 16, 2}} {
		b.conv(stage[0], 1, 1, 1, 1)
		b.call("Relu", "")
		for range stage[2] {
			b.residual(func() {
				b.conv(stage[0], 1, 1, 1, 1)
				b.call("Relu", "")
				b.conv(stage[0], 3, 1, stage[0]/stage[1], 1)
				b.call("Relu", "")
				b.conv(stage[0], 1, 1, 1, 1)
			})
			b.call("Relu", "")
		}
		b.conv(stage[0], 3, 2, stage[0]/stage[1], 1)
	}
	b.call("GlobalAveragePool", "")
}

// dilated has convolutions with holes, side by side and behind each other, and a bilinear enlargement.
func dilated(b *builder) {
	b.input(1, 3, 128, 128)
	b.conv(32, 3, 2, 1, 1)
	b.call("Relu", "")
	b.conv(64, 3, 2, 1, 1)
	for _, holes := range []int{1, 2, 4, 8} {
		b.residual(func() {
			b.conv(64, 3, 1, 1, holes)
			b.call("Relu", "")
			b.conv(64, 3, 1, 64, holes)
			b.call("Relu", "")
		})
	}
	x, shape := b.value, b.shape
	var parts []string
	for _, holes := range []int{1, 2, 3, 6} {
		b.value, b.shape = x, shape
		b.conv(32, 3, 1, 1, holes)
		parts = append(parts, b.call("Relu", ""))
	}
	b.value = parts[0]
	b.call("Concat", "axis=1", parts[1:]...)
	b.shape = []int{1, 128, 32, 32}
	b.conv(21, 1, 1, 1, 1)
	b.made++
	scales := fmt.Sprintf("s%d", b.made)
	fmt.Fprintf(&b.declared, "  const %%%s = f32[4]{1, 1, 4, 4}\n", scales)
	b.made++
	fmt.Fprintf(&b.calls, "  %%v%d = Resize(%%%s, _, %%%s; mode=\"linear\")\n", b.made, b.value, scales)
	b.value = fmt.Sprintf("v%d", b.made)
}

// odd has numbers of channels that no block divides.
func odd(b *builder) {
	b.input(1, 3, 97, 97)
	for _, channels := range []int{13, 27, 51, 99, 131} {
		b.conv(channels, 3, 2, 1, 1)
		b.call("LeakyRelu", "alpha=0.1")
		b.residual(func() {
			b.conv(channels/2+1, 1, 1, 1, 1)
			b.call("LeakyRelu", "alpha=0.1")
			b.conv(channels, 5, 1, 1, 1)
			b.call("LeakyRelu", "alpha=0.1")
		})
	}
	b.call("GlobalMaxPool", "")
}

// longLine has convolutions over a long line, as models of sound have.
func longLine(b *builder) {
	b.input(1, 1, 16000)
	b.conv(64, 11, 5, 1, 1)
	b.call("Relu", "")
	for range 3 {
		b.conv(128, 3, 2, 1, 1)
		b.call("Relu", "")
		for _, holes := range []int{1, 3, 9} {
			b.residual(func() {
				b.conv(128, 3, 1, 1, holes)
				b.call("Tanh", "")
				b.conv(128, 15, 1, 128, 1)
				b.call("Sigmoid", "")
			})
		}
	}
	b.conv(40, 1, 1, 1, 1)
}

// ragged has many small products of odd sizes.
func ragged(b *builder) {
	b.input(13, 37)
	for k, width := range []int{51, 23, 67, 5, 129, 37, 19, 91, 3, 41, 77, 37} {
		b.dense(width)
		switch k % 4 {
		case 0:
			b.call("Relu", "")
		case 1:
			b.call("Tanh", "")
		case 2:
			b.call("Softmax", "axis=-1")
		default:
			b.swish()
		}
	}
}

// windowed has attention within windows, with norms and wide products, as Swin has.
func windowed(b *builder) {
	const windows, tokens, width, heads = 16, 49, 96, 3
	b.input(windows, tokens, width)
	for range 2 {
		b.residual(func() {
			b.norm(width)
			b.dense(3 * width)
			b.call("Reshape", "", b.numbers(windows, tokens, 3, heads, width/heads))
			all := b.call("Transpose", "perm=[2,0,3,1,4]")
			var parts []string
			for k := range 3 {
				b.value = all
				parts = append(parts, b.call("Gather", "axis=0", b.index(k)))
			}
			b.value = parts[1]
			keys := b.call("Transpose", "perm=[0,1,3,2]")
			b.value = parts[0]
			b.call("MatMul", "", keys)
			b.call("Add", "", b.weight(1, heads, tokens, tokens))
			b.call("Softmax", "axis=-1")
			b.call("MatMul", "", parts[2])
			b.call("Transpose", "perm=[0,2,1,3]")
			b.call("Reshape", "", b.numbers(windows, tokens, width))
			b.shape = []int{windows, tokens, width}
			b.dense(width)
		})
		b.residual(func() {
			b.norm(width)
			b.dense(4 * width)
			x := b.value
			b.call("Div", "", b.scalar(math.Sqrt2))
			b.call("Erf", "")
			b.call("Add", "", b.scalar(1))
			b.call("Mul", "", x)
			b.call("Mul", "", b.scalar(0.5))
			b.dense(width)
		})
	}
}

func (b *builder) norm(width int) {
	b.call("LayerNormalization", "axis=-1, epsilon=0.00001", b.weight(width), b.weight(width))
}

// scalar declares a number and returns its name.
func (b *builder) scalar(x float64) string {
	b.made++
	name := fmt.Sprintf("s%d", b.made)
	fmt.Fprintf(&b.declared, "  const %%%s = f32[]{%g}\n", name, x)
	return name
}

// index declares a whole number and returns its name.
func (b *builder) index(k int) string {
	b.made++
	name := fmt.Sprintf("n%d", b.made)
	fmt.Fprintf(&b.declared, "  const %%%s = i64[]{%d}\n", name, k)
	return name
}

// squeezed has blocks that widen, convolve by channels, and are gated by their mean, as EfficientNet has.
func squeezed(b *builder) {
	b.input(1, 3, 96, 96)
	b.conv(24, 3, 2, 1, 1)
	b.swish()
	for _, stage := range [][3]int{{24, 3, 1}, {40, 5, 2}, {80, 3, 2}, {80, 3, 1}, {112, 5, 1}} {
		b.residual(func() {
			wide := 4 * b.shape[1]
			b.conv(wide, 1, 1, 1, 1)
			b.swish()
			b.conv(wide, stage[1], stage[2], wide, 1)
			b.swish()
			x, shape := b.value, b.shape
			b.call("GlobalAveragePool", "")
			b.shape = []int{1, wide, 1, 1}
			b.conv(wide/16, 1, 1, 1, 1)
			b.swish()
			b.conv(wide, 1, 1, 1, 1)
			b.call("Sigmoid", "")
			b.call("Mul", "", x)
			b.shape = shape
			b.conv(stage[0], 1, 1, 1, 1)
		})
	}
}

// subject makes the model and its input.
func (n net) subject() (*subject, error) {
	b := &builder{}
	n.make(b)
	g, err := graph.Parse(fmt.Sprintf("graph {\n  opset 17\n%s%s  output %%%s\n}\n", b.declared.String(), b.calls.String(), b.value))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	s := &subject{feeds: map[string]tensor.Value{}}
	var inputs []*graph.Value
	for i, v := range g.Inputs {
		dims, _ := v.Type.Shape.Static()
		t := random(uint32(i+1), dims)
		if v.Name[0] == 'w' {
			g.ReplaceUses(v, g.AddConst(v.Name, t))
			continue
		}
		inputs = append(inputs, v)
		s.feeds[v.Name] = t
	}
	g.Inputs = inputs
	s.model = carve.FromGraph(g)
	return s, nil
}

// random returns numbers around zero that are the same each time, so small that a product of rows of them is about as large as
// they are.
func random(seed uint32, dims []int) *tensor.Tensor {
	data, terms := []float32{}, 1
	size := 1
	for _, d := range dims {
		size *= d
	}
	if len(dims) > 1 {
		terms = size / dims[0]
		if len(dims) == 2 {
			terms = dims[0]
		}
	}
	scale := float32(math.Sqrt(3 / float64(max(terms, 1))))
	x := seed * 2654435761
	for range size {
		x = x*1664525 + 1013904223
		data = append(data, (float32(x>>8)/(1<<23)-1)*scale)
	}
	return tensor.From(data, dims...)
}
