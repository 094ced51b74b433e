package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// task is a model that has one operator several times, so that what a run costs beside it is divided by their number: with
// weights or operands of their own each.
type task struct {
	name   string
	inputs []string // "%x: f32[1,64]", where those whose names begin with w are constants, or "const %x = f32[]{1}"
	nodes  []string
	result []string
	flops  float64 // of all
	opset  int     // 0: 17
	unit   bool    // what nodes of a copy read of each other need not be moved; oneDNN, which lacks most, has no column
}

// copies is how often a task has its operator.
const copies = 4

// constant is a product of rows with a constant matrix, copies of them side by side.
func constant(m, k, n int) task {
	t := task{name: fmt.Sprintf("MatMul %d×%d×%d, constant", m, k, n), inputs: []string{fmt.Sprintf("%%x: f32[%d,%d]", m, k)}}
	count := copies
	if k*n > 4<<20 {
		count = 1
	}
	for i := range count {
		t.inputs = append(t.inputs, fmt.Sprintf("%%w%d: f32[%d,%d]", i, k, n))
		t.nodes = append(t.nodes, fmt.Sprintf("%%y%d = MatMul(%%x, %%w%d)", i, i))
		t.result = append(t.result, fmt.Sprintf("%%y%d", i))
		t.flops += 2 * float64(m) * float64(k) * float64(n)
	}
	return t
}

// active is a batch of products of two activations.
func active(batch, m, k, n int) task {
	t := task{name: fmt.Sprintf("MatMul %d of %d×%d×%d, activations", batch, m, k, n)}
	for i := range copies {
		t.inputs = append(t.inputs, fmt.Sprintf("%%a%d: f32[%d,%d,%d]", i, batch, m, k), fmt.Sprintf("%%b%d: f32[%d,%d,%d]", i, batch, k, n))
		t.nodes = append(t.nodes, fmt.Sprintf("%%y%d = MatMul(%%a%d, %%b%d)", i, i, i))
		t.result = append(t.result, fmt.Sprintf("%%y%d", i))
		t.flops += 2 * float64(batch) * float64(m) * float64(k) * float64(n)
	}
	return t
}

// window is a convolution's.
type window struct{ kernel, stride, groups, dilation int }

// conv is a chain of convolutions from c channels to o and back, or, where a map changes its size or is the model's input, one.
func conv(c, o, side int, w window) task {
	t := task{name: fmt.Sprintf("Conv %d×%d/%d %d→%d@%d", w.kernel, w.kernel, w.stride, c, o, side)}
	if w.groups > 1 {
		t.name += fmt.Sprintf(" in %d groups", w.groups)
	}
	if w.dilation > 1 {
		t.name += fmt.Sprintf(" dilated by %d", w.dilation)
	}
	t.inputs = []string{fmt.Sprintf("%%x0: f32[1,%d,%d,%d]", c, side, side)}
	count := copies
	if w.stride > 1 || c <= 4 {
		count = 1
	}
	pad := w.dilation * (w.kernel - 1) / 2
	out := (side+2*pad-w.dilation*(w.kernel-1)-1)/w.stride + 1
	for i := range count {
		from, to := c, o
		if i%2 == 1 {
			from, to = o, c
		}
		t.inputs = append(t.inputs, fmt.Sprintf("%%w%d: f32[%d,%d,%d,%d]", i, to, from/w.groups, w.kernel, w.kernel))
		t.nodes = append(t.nodes, fmt.Sprintf("%%x%d = Conv(%%x%d, %%w%d; pads=[%[4]d,%[4]d,%[4]d,%[4]d], strides=[%[5]d,%[5]d], dilations=[%[6]d,%[6]d], group=%[7]d)",
			i+1, i, i, pad, w.stride, w.dilation, w.groups))
		t.flops += 2 * float64(to) * float64(from/w.groups) * float64(w.kernel*w.kernel*out*out)
	}
	t.result = []string{fmt.Sprintf("%%x%d", count)}
	return t
}

// line is a convolution over one axis of so many numbers, as those that read sound.
func line(c, o, length, kernel, stride int) task {
	out := (length-kernel)/stride + 1
	return task{name: fmt.Sprintf("Conv %d/%d %d→%d@%d", kernel, stride, c, o, length),
		inputs: []string{fmt.Sprintf("%%x: f32[1,%d,%d]", c, length), fmt.Sprintf("%%w: f32[%d,%d,%d]", o, c, kernel)},
		nodes:  []string{fmt.Sprintf("%%y = Conv(%%x, %%w; strides=[%d])", stride)},
		result: []string{"%y"}, flops: 2 * float64(o*c*kernel*out)}
}

// pair has copies of a convolution with a single tap, of c channels to o, with the depthwise one behind it, on so many images.
func pair(images, c, o, side, kernel, stride int) task {
	t := task{name: fmt.Sprintf("Conv 1×1 %d→%d@%d and %d×%d/%d behind, %d images", c, o, side, kernel, kernel, stride, images), unit: true,
		inputs: []string{fmt.Sprintf("%%x: f32[%d,%d,%d,%d]", images, c, side, side)}}
	pad, out := kernel/2, (side-1)/stride+1
	for i := range copies {
		t.inputs = append(t.inputs, fmt.Sprintf("%%w%d: f32[%d,%d,1,1]", 2*i, o, c), fmt.Sprintf("%%w%d: f32[%d,1,%d,%d]", 2*i+1, o, kernel, kernel))
		t.nodes = append(t.nodes, fmt.Sprintf("%%a%d = Conv(%%x, %%w%d)", i, 2*i), fmt.Sprintf("%%b%d = Relu(%%a%d)", i, i),
			fmt.Sprintf("%%c%d = Conv(%%b%d, %%w%d; pads=[%[4]d,%[4]d,%[4]d,%[4]d], strides=[%[5]d,%[5]d], group=%[6]d)", i, i, 2*i+1, pad, stride, o),
			fmt.Sprintf("%%y%d = GlobalAveragePool(%%c%d)", i, i))
		t.result = append(t.result, fmt.Sprintf("%%y%d", i))
		t.flops += 2 * float64(images) * float64(o) * (float64(c*side*side) + float64(kernel*kernel*out*out))
	}
	return t
}

// products are those of transformers, classifiers and detectors: any number of rows, and batches of small ones.
func products() (list []task) {
	for _, m := range []int{1, 2, 4, 8, 16, 49, 128, 197, 384, 784} {
		list = append(list, constant(m, 768, 768))
	}
	for _, s := range [][3]int{{1, 768, 3072}, {1, 2048, 1000}, {1, 4096, 4096}, {49, 768, 3072}, {128, 768, 3072}, {128, 3072, 768}, {197, 768, 3072}, {504, 512, 512},
		{3136, 96, 96}, {3136, 96, 384}, {784, 192, 768}, {196, 384, 1536}, {64, 64, 64}, {37, 51, 23}, {512, 512, 512}, {1024, 1024, 1024}, {256, 4096, 1024}, {300, 12544, 1024}} {
		list = append(list, constant(s[0], s[1], s[2]))
	}
	for _, s := range [][4]int{{12, 128, 64, 128}, {12, 128, 128, 64}, {12, 197, 64, 197}, {12, 197, 197, 64}, {192, 49, 32, 49}, {192, 49, 49, 32}, {8, 1, 64, 200},
		{1, 256, 256, 256}, {1, 512, 512, 512}, {32, 17, 19, 23}, {64, 16, 16, 16}} {
		list = append(list, active(s[0], s[1], s[2], s[3]))
	}
	return list
}

// convolutions are those of the zoo's kinds.
func convolutions() (list []task) {
	dense := func(kernel, stride int) window { return window{kernel, stride, 1, 1} }
	for _, s := range [][3]int{{64, 64, 56}, {128, 128, 28}, {256, 256, 14}, {512, 512, 7}, {32, 32, 112}, {64, 64, 224}, {256, 512, 28}, {16, 64, 55}, {128, 32, 28}, {96, 208, 14}} {
		list = append(list, conv(s[0], s[1], s[2], dense(3, 1)))
	}
	for _, s := range [][3]int{{64, 256, 56}, {128, 512, 28}, {256, 1024, 14}, {512, 2048, 7}, {16, 96, 112}, {24, 144, 56}, {160, 960, 7}, {58, 58, 28}} {
		list = append(list, conv(s[0], s[1], s[2], dense(1, 1)))
	}
	list = append(list, conv(3, 64, 224, dense(7, 2)), conv(3, 32, 224, dense(3, 2)), conv(3, 64, 224, dense(3, 1)), conv(3, 768, 224, dense(16, 16)),
		conv(64, 128, 56, dense(3, 2)), conv(512, 512, 56, dense(3, 2)), conv(256, 512, 64, dense(5, 2)), conv(512, 1024, 28, dense(1, 2)), conv(64, 64, 28, dense(5, 1)))
	for _, s := range [][4]int{{32, 112, 3, 1}, {144, 56, 3, 1}, {384, 14, 3, 1}, {960, 7, 3, 1}, {96, 112, 3, 2}, {240, 28, 5, 1}, {672, 14, 5, 1}, {240, 28, 5, 2}, {384, 14, 7, 1}} {
		list = append(list, conv(s[0], s[0], s[1], window{s[2], s[3], s[0], 1}))
	}
	for _, s := range [][3]int{{128, 56, 32}, {256, 28, 8}, {1024, 14, 32}, {48, 56, 2}, {336, 14, 14}} {
		list = append(list, conv(s[0], s[0], s[1], window{3, 1, s[2], 1}))
	}
	list = append(list, pair(1, 16, 96, 112, 3, 2), pair(4, 24, 144, 56, 3, 1), pair(1, 24, 144, 56, 3, 1), pair(1, 40, 240, 28, 5, 1), pair(1, 64, 384, 14, 3, 1))
	list = append(list, conv(1, 1, 512, dense(3, 1)), conv(3, 3, 512, window{5, 1, 3, 1}), line(32, 1, 40960, 7, 1)) // filters of images, and what makes sound
	return append(list, conv(64, 64, 56, window{3, 1, 1, 2}), conv(256, 256, 28, window{3, 1, 1, 4}), line(1, 512, 16000, 10, 5), line(512, 512, 3199, 3, 2), line(80, 384, 3000, 3, 1))
}

// graph makes a task's model.
func (t task) graph() (*graph.Graph, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "graph {\n  opset %d\n", cmp.Or(t.opset, 17))
	for _, x := range t.inputs {
		if !strings.HasPrefix(x, "const ") {
			x = "input " + x
		}
		fmt.Fprintf(&text, "  %s\n", x)
	}
	fmt.Fprintf(&text, "  %s\n  output %s\n}\n", strings.Join(t.nodes, "\n  "), strings.Join(t.result, "\n  output "))
	g, err := graph.Parse(text.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	var inputs []*graph.Value
	for i, v := range g.Inputs {
		if !strings.HasPrefix(v.Name, "w") {
			inputs = append(inputs, v)
			continue
		}
		data, err := numbers(v, uint32(i), 0.05)
		if err != nil {
			return nil, err
		}
		g.ReplaceUses(v, g.AddConst(v.Name, data))
	}
	g.Inputs = inputs
	return g, graph.InferGraph(g)
}

// feeds are values for the inputs of a model.
func feeds(g *graph.Graph) (map[string]tensor.Value, error) {
	out := map[string]tensor.Value{}
	for i, v := range g.Inputs {
		t, err := numbers(v, uint32(i), 1)
		if err != nil {
			return nil, err
		}
		out[v.Name] = t
	}
	return out, nil
}

// numbers returns float32 between -scale and scale, the same for the same seed.
func numbers(v *graph.Value, seed uint32, scale float64) (*tensor.Tensor, error) {
	dims, ok := v.Type.Shape.Static()
	if !ok {
		return nil, fmt.Errorf("%v is %v", v, v.Type)
	}
	t, err := tensor.New(tensor.Float32, dims...)
	if err != nil {
		return nil, err
	}
	x := 12345 + seed
	for at := 0; at < len(t.Data); at += 4 {
		x = x*1664525 + 1013904223
		binary.LittleEndian.PutUint32(t.Data[at:], math.Float32bits(float32(scale*(float64(x>>8)/(1<<23)-1))))
	}
	return t, nil
}
