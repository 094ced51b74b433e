package cost

import (
	"math"
	"strings"

	"github.com/carve-dev/carve/graph"
)

// Work is what a node does when it runs once.
type Work struct {
	Class string
	FLOPs float64 // those that internal/flops counts, of a fused node all of its body's
	Work  float64 // operations, padding to whole blocks included, of classes that are about arithmetic
	Bytes float64 // of operands and results, as far as they are touched
	Rows  float64 // inner loops
	Items float64 // elements
	Parts []Part  // of a fused node, beside its head
}

// Part is what a node of a fused set adds to its head's time.
type Part struct {
	Class string
	Work  float64
	Items float64
}

// Measure returns what a node does.
func Measure(n *graph.Node) Work { return MeasureAt(n, nil) }

// MeasureAt is Measure with these values of symbols; those that are missing have graph.AssumedSize.
func MeasureAt(n *graph.Node, sizes graph.Bindings) Work {
	if !n.IsCarve(graph.OpFused) || len(n.Regions) == 0 {
		return single(n, shapes(n, sizes))
	}
	return fused(n, sizes, 0)
}

// deepest bounds fused nodes within fused nodes.
const deepest = 16

// fused is the work of a set: of its heaviest node, with the bytes that enter and leave the set.
func fused(n *graph.Node, sizes graph.Bindings, depth int) Work {
	var parts []Work
	var nodes []*graph.Node
	head := -1
	heaviest := -1.0
	flops := 0.0
	for m := range n.Regions[0].Graph.Nodes() {
		var w Work
		if m.IsCarve(graph.OpFused) && len(m.Regions) > 0 && depth < deepest {
			w = fused(m, sizes, depth+1)
		} else {
			w = single(m, shapes(m, sizes))
		}
		flops += w.FLOPs
		if weight := w.Work*weightOfWork + w.Items + w.Rows; weight > heaviest && w.Class != "view" {
			head, heaviest = len(parts), weight
		}
		parts, nodes = append(parts, w), append(nodes, m)
	}
	outer := single(n, shapes(n, sizes))
	if head < 0 {
		outer.Class = "view"
		return outer
	}
	w := parts[head]
	w.FLOPs, w.Bytes = flops, outer.Bytes
	if class, ok := integerSet(n, nodes[head], parts, w.Class, sizes); ok {
		if w.Class, w.Parts = class, nil; strings.HasPrefix(class, convInteger) {
			shapes(nodes[head], sizes).conv(nodes[head], &w)
		}
		return w
	}
	if w.Class == "transpose" || w.Class == "transpose-rows" {
		w.Class = "shuffle" // what properties make of reshapes around a transposition
	}
	for i := range parts {
		if i == head {
			continue
		}
		if !moves(parts[i].Class) {
			w.Parts = append(w.Parts, Part{parts[i].Class, parts[i].Work, parts[i].Items})
		}
		w.Parts = append(w.Parts, parts[i].Parts...)
	}
	return w
}

// weightOfWork makes a convolution or product of the smallest size the head of its set.
const weightOfWork = 1e3

// single is the work of one node.
func single(n *graph.Node, o *operands) Work {
	w := Work{Class: classOf(n, o), Items: max(o.most(), 0), Bytes: o.bytes}
	w.FLOPs = o.flops(n, w.Class)
	w.Rows = o.rows()
	switch w.Class {
	case "conv", "conv-point", "conv-few", "conv-dilated", "conv-odd", "conv-depthwise", "conv-depthwise-line", "conv-grouped",
		"conv-grouped-line", "conv-mixed", "conv-line", "conv-line-few", "conv-volume", "conv-volume-few", "conv-other", "conv-transpose",
		"conv-transpose-grouped", convInteger, convInteger + "-odd", convInteger + "-few", convInteger + "-point", convInteger + "-depthwise", convInteger + "-grouped":
		o.conv(n, &w)
	case "product", "product-thin", "product-batch", "product-other", productInteger, productInteger + "-thin":
		o.product(n, &w)
	case "recurrent":
		w.Work = w.FLOPs
		if x := o.in(0); len(x) > 0 {
			w.Rows = x[0] * max(1, first(o.in(1)))
		}
	case "attention":
		o.attention(&w)
	case "pool", "pool-mean":
		k, _ := n.Ints("kernel_shape")
		taps := 1.0
		for _, x := range k {
			taps *= max(float64(x), 1)
		}
		w.Items = product(o.out())
		w.Work = w.Items * taps
	case "concat", "concat-joined":
		w.Items, w.Bytes = product(o.out()), min(w.Bytes, 2*o.outBytes)
		w.Rows = o.pieces(n)
	case "scatter":
		w.Items = product(o.in(2))
	case "gather", "pick", "fill", "slice", "slice-joined", "pad", "expand":
		// Of a table, or of what is cut, only what reaches the result is read.
		w.Items = product(o.out())
		w.Bytes = min(w.Bytes, 2*o.outBytes)
		if w.Class == "gather" {
			w.Rows = leading(o.out())
		}
	case "transpose-rows":
		w.Rows = o.kept(n)
	case "reduce", "reduce-outer", "reduce-other", "argmax":
		w.Rows = product(o.out())
	case "view":
		w.Items, w.Rows, w.Bytes = 0, 0, 0 // nothing moves
	}
	return w
}

// conv counts the work of a convolution.
func (o *operands) conv(n *graph.Node, w *Work) {
	weights := o.weights(n)
	if len(weights) < 2 {
		return
	}
	groups := max(float64(n.Int("group", 1)), 1)
	y := o.out()
	oc, ic, pixels := weights[0]/groups, weights[1], product(y)/max(weights[0], 1)
	if n.Is("ConvTranspose") {
		x := o.in(0)
		oc, ic = weights[1], weights[0]/groups
		pixels = product(x) / max(weights[0], 1)
	}
	taps := product(weights[2:])
	switch w.Class {
	case "conv-depthwise", "conv-depthwise-line", convInteger + "-depthwise":
		w.Work = 2 * pixels * pad(groups) * taps
	case "conv-mixed", "conv-grouped-line", "conv-transpose-grouped", convInteger + "-grouped", "conv-other":
		w.Work = 2 * pixels * groups * oc * ic * taps
	case "conv-few", "conv-line-few", "conv-volume-few", convInteger + "-few":
		w.Work = 2 * pixels * pad(oc) * ic * taps
	default:
		w.Work = 2 * pixels * groups * pad(oc) * pad(ic) * taps
	}
	w.Items = product(y)
	rows := 1.0
	if len(y) > 2 {
		rows = y[0] * product(y[2:len(y)-1]) // rows of pixels
	}
	if w.Class == "conv-mixed" || w.Class == "conv-grouped-line" || w.Class == "conv-transpose-grouped" || w.Class == convInteger+"-grouped" {
		w.Rows = rows * groups
	} else {
		w.Rows = rows * max(1, pad(groups*oc)/block)
	}
}

// product counts the work of a matrix product.
func (o *operands) product(n *graph.Node, w *Work) {
	m, cols, k, batch := o.productDims(n)
	w.Work = 2 * batch * m * pad(cols) * k
	w.Rows = batch * math.Ceil(m/6) * math.Ceil(cols/block)
	w.Items = batch * m * cols
}

// productDims returns rows, columns, length of the sums and number of products.
func (o *operands) productDims(n *graph.Node) (m, cols, k, batch float64) {
	a, b, y := o.in(0), o.in(1), o.out()
	if n.Is("QLinearMatMul") {
		b = o.in(quantisedWeights)
	}
	if n.Op.Domain == microsoft {
		return o.microsoftDims(n)
	}
	if len(a) == 0 || len(b) == 0 {
		return 1, 1, 1, 1
	}
	if n.Is("Gemm") {
		if len(y) != 2 {
			return 1, 1, 1, 1
		}
		k = a[len(a)-1]
		if n.Int("transA", 0) != 0 {
			k = a[0]
		}
		return y[0], y[1], k, 1
	}
	k = a[len(a)-1]
	if len(b) < 2 { // a vector
		return product(y), 1, k, 1
	}
	cols = b[len(b)-1]
	if len(b) == 2 || len(y) < 2 {
		return product(y) / max(cols, 1), cols, k, 1
	}
	m = 1
	if len(a) > 1 {
		m = a[len(a)-2]
	}
	return m, cols, k, product(y) / max(m*cols, 1)
}

// microsoftDims is productDims of the operators that microsoftClass knows: of attention, both products as one.
func (o *operands) microsoftDims(n *graph.Node) (m, cols, k, batch float64) {
	if n.Op.Name == "MatMulNBits" {
		cols, k = max(float64(n.Int("N", 1)), 1), max(float64(n.Int("K", 1)), 1)
		return product(o.out()) / cols, cols, k, 1
	}
	y, keys := o.out(), o.in(1)
	if len(y) != 3 {
		return 1, 1, 1, 1
	}
	cols = y[1]
	if len(o.outs) > 1 && len(o.outs[1]) == 4 { // a cache of [batch, heads, length, size]
		cols = o.outs[1][2]
	} else if len(keys) == 3 {
		cols = keys[1]
	}
	return y[1], cols, 2 * y[2], y[0]
}

// attention counts two products of queries with keys and of their weights with values, and the softmax between.
func (o *operands) attention(w *Work) {
	q, k := o.in(0), o.in(1)
	if len(q) < 3 || len(k) < 3 {
		return
	}
	scores := product(q) * k[len(k)-2]
	w.Work = 4 * scores
	w.FLOPs = w.Work
	w.Items = scores / max(q[len(q)-1], 1)
	if len(q) == 3 {
		w.Items = scores / 64 // heads are not told by the shape
	}
}

// weights returns the dims of a convolution's weights.
func (o *operands) weights(n *graph.Node) []float64 {
	if n.Is("QLinearConv") {
		return o.in(quantisedWeights)
	}
	return o.in(1)
}

// pad returns n rounded up to whole blocks.
func pad(n float64) float64 { return math.Ceil(n/block) * block }

// leading returns the rows of a tensor of these dims.
func leading(dims []float64) float64 { return product(dims[:max(len(dims)-1, 0)]) }

func first(dims []float64) float64 {
	if len(dims) == 0 {
		return 1
	}
	return dims[0]
}

func product(dims []float64) float64 {
	p := 1.0
	for _, d := range dims {
		p *= d
	}
	return p
}
