package microsoft

import (
	"runtime"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/cpuid"
)

const (
	xToY       = "in X:T\nout Y:T"
	floatAlone = "\nty T=float"
	nchwcPool  = xToY + "\nat dilations:ints" + poolAttrs
)

// blockedOperators are those of ONNX Runtime's layout of images with blocks of channels. Here images have their channels in order,
// padded to whole blocks as there, and weights, which are constant, are put into order.
var blockedOperators = []operator{
	{domain: DomainNCHWc, name: "ReorderInput", schema: xToY + "\nat channels_last:int=0" + floatAlone, expand: func(o *op) {
		x := o.in[0]
		if o.flag("channels_last") {
			x = o.channelsFirst(x)
		}
		block := o.channelBlock()
		if over := (block - o.static(x, 1)%block) % block; over > 0 {
			x = o.call("Pad", nil, x, o.ints(0, int64(over)), nil, o.ints(1))
		}
		o.set(0, x)
	}},
	{domain: DomainNCHWc, name: "ReorderOutput", schema: xToY + "\nat channels:int=0 channels_last:int=0" + floatAlone, expand: func(o *op) {
		x := o.in[0]
		n := o.n.Int("channels", 0)
		if n != int64(o.static(x, 1)) {
			o.require(n > 0 && n < int64(o.static(x, 1)), ErrAttribute, "%d channels of %v", n, x.Type)
			x = o.slice(x, 1, 0, n)
		}
		if o.flag("channels_last") {
			x = o.channelsLast(x)
		}
		o.set(0, x)
	}},
	{domain: DomainNCHWc, name: "Conv", schema: "in X:T W:T B?:T Sum?:T\nout Y:T\nat activation:string activation_params:floats" + convAttrs + floatAlone, expand: blockedConv},
	{domain: DomainNCHWc, name: "MaxPool", schema: nchwcPool + " storage_order:int=0" + floatAlone, expand: func(o *op) {
		o.set(0, o.call("MaxPool", o.attrsWithout(), o.in[0]))
	}},
	{domain: DomainNCHWc, name: "AveragePool", schema: nchwcPool + " count_include_pad:int=0" + floatAlone, expand: func(o *op) {
		o.set(0, o.call("AveragePool", o.attrsWithout(), o.in[0]))
	}},
	{domain: DomainNCHWc, name: "GlobalMaxPool", schema: xToY + floatAlone, expand: func(o *op) { o.set(0, o.call("GlobalMaxPool", nil, o.in[0])) }},
	{domain: DomainNCHWc, name: "GlobalAveragePool", schema: xToY + floatAlone, expand: func(o *op) { o.set(0, o.call("GlobalAveragePool", nil, o.in[0])) }},
	{domain: DomainNCHWc, name: "Upsample", schema: xToY + "\nat coordinate_transformation_mode:string=asymmetric mode:string=nearest scales:ints" + floatAlone, expand: upsample},
}

// channelBlock returns the number of channels in a block. It is the width of the vectors of the processor on which the model was
// saved, and the model does not say it: 8 where weights are of an odd number of eights, else that of this processor.
func (o *op) channelBlock() int {
	for n := range o.n.Graph().Nodes() {
		if n.Op.Domain != DomainNCHWc || n.Op.Name != "Conv" {
			continue
		}
		if v := n.Input(1); v != nil && len(v.Type.Shape) > 0 {
			if c, ok := v.Type.Shape[0].Const(); ok && c%16 != 0 {
				return 8
			}
		}
	}
	if wideBlocks() {
		return 16
	}
	return 8
}

// blockedConv is a convolution whose weights are in blocks of filters, and of channels where there are as many.
func blockedConv(o *op) {
	x, w := o.in[0], o.in[1].Const
	o.refuse(w == nil, "weights in blocks that are no constant")
	o.require(w.DType == tensor.Float32 && len(w.Shape) == 4, ErrShape, "weights %v", w)
	block, group := o.channelBlock(), o.n.Int("group", 1)
	filters, channels, area := w.Shape[0], w.Shape[1], w.Shape[2]*w.Shape[3]
	o.require(filters%block == 0 && filters > 0 && channels > 0, ErrShape, "%d filters of %d channels in blocks of %d", filters, channels, block)
	inner := 1 // channels in a block
	if channels >= block {
		inner = block
	}
	o.require(channels%inner == 0, ErrShape, "%d filters of %d channels in blocks of %d", filters, channels, block)
	if channels == 1 && group > 1 {
		group = int64(o.static(x, 1)) // those of padding as well
		o.require(group == int64(filters), ErrShape, "%d filters for %d channels", filters, group)
	}
	src := tensor.Elements[float32](w)
	dst := make([]float32, len(src))
	k := 0
	for f := 0; f < filters; f += block {
		for c := 0; c < channels; c += inner {
			for p := range area {
				for i := range inner {
					for j := range block {
						dst[((f+j)*channels+c+i)*area+p] = src[k]
						k++
					}
				}
			}
		}
	}
	as := append(o.attrsWithout("activation", "activation_params", "group"), graph.IntAttr("group", group))
	y := o.call("Conv", as, x, o.constant(tensor.From(dst, w.Shape...)), o.input(2))
	o.set(0, o.listedActivation(o.withBias(y, o.input(3))))
}

func upsample(o *op) {
	scales, _ := o.n.Ints("scales")
	list := make([]float32, len(scales))
	for i, s := range scales {
		list[i] = float32(s)
	}
	as := attrs(graph.StringAttr("mode", o.n.Str("mode", "nearest")),
		graph.StringAttr("coordinate_transformation_mode", o.n.Str("coordinate_transformation_mode", "asymmetric")))
	if o.n.Str("mode", "nearest") == "nearest" {
		as = append(as, graph.StringAttr("nearest_mode", "floor"))
	}
	o.set(0, o.call("Resize", as, o.in[0], nil, o.constant(tensor.From(list, len(list)))))
}

// wideBlocks reports whether ONNX Runtime has blocks of 16 channels on this processor.
func wideBlocks() bool { return runtime.GOARCH == "arm64" || cpuid.Host()&cpuid.AVX512F != 0 }
