package microsoft

import (
	"github.com/carve-dev/carve/graph"
)

// causalConv is a depthwise convolution that sees what came before: of earlier runs by a state, the last columns of what they had.
var causalConv = operator{
	name: "CausalConvWithState",
	schema: "in input:T weight:T bias?:T past_state?:T\nout output:T present_state:T\nat activation:string=\"none\" channels_last:int=0 dilation:int=1 ndim:int=1 " +
		"state_window:int=0\nty T=bfloat16,float,float16",
	expand: expandCausalConv,
}

func expandCausalConv(o *op) {
	o.refuse(o.n.Int("ndim", 1) != 1, "images and volumes")
	o.refuse(o.n.Int("state_window", 0) != 0, "states of several positions")
	dilation, last := o.n.Int("dilation", 1), o.flag("channels_last")
	o.require(dilation > 0 && dilation <= 1<<20, ErrAttribute, "a dilation of %d", dilation)
	w := o.in[1]
	o.ranked(w, 3)
	channels, taps := int64(o.static(w, 0)), int64(o.static(w, 2))
	o.require(taps > 0 && taps <= 1<<20 && channels > 0 && o.static(w, 1) == 1, ErrShape, "weights %v", w.Type)
	state := (taps - 1) * dilation
	x, past := o.in[0], o.input(3)
	if last {
		o.require(o.rank(x) >= 3, ErrShape, "%s has rank %d", x, o.rank(x))
		x = o.transpose(o.reshape(x, 0, 0, channels), 0, 2, 1)
		if past != nil {
			past = o.transpose(o.reshape(past, 0, state, channels), 0, 2, 1)
		}
	}
	o.ranked(x, 3)
	all := x
	switch {
	case past != nil:
		o.ranked(past, 3)
		all = o.concat(2, past, x)
	case state > 0:
		all = o.call("Pad", nil, x, o.ints(state, 0), nil, o.ints(2))
	}
	as := attrs(graph.IntAttr("group", channels), graph.IntsAttr("dilations", dilation))
	y := o.call("Conv", as, all, w, o.input(2))
	switch a := o.n.Str("activation", "none"); a {
	case "none":
	case "silu", "swish":
		y = o.swish(y, 1)
	default:
		o.fail(ErrAttribute, "activation %q", a)
	}
	length := o.dim(x, 2)
	present := o.sliceTo(all, 2, length, o.ints(toEnd))
	if last {
		y = o.call("Reshape", nil, o.transpose(y, 0, 2, 1), o.call("Shape", nil, o.in[0]))
		shape := []*graph.Value{o.dim(x, 0), o.ints(state), o.call("Shape", attrs(graph.IntAttr("start", 2)), o.in[0])}
		present = o.call("Reshape", attrs(graph.IntAttr("allowzero", 1)), o.transpose(present, 0, 2, 1), o.concat(0, shape...))
	}
	o.set(0, y)
	o.set(1, present)
}
