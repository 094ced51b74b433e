package microsoft

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

const rotaryText = "in input:T position_ids:M cos_cache:T sin_cache:T\nout output:T\nat interleaved:int is_packed_batching:int num_heads:int " +
	"rotary_embedding_dim:int scale:float%s\nty T=bfloat16,float,float16 M=int64"

var rotaryOperators = []operator{
	{name: "RotaryEmbedding", schema: fmt.Sprintf(rotaryText, ""), expand: func(o *op) {
		ids := o.in[1]
		if o.rank(ids) == 2 {
			o.standardRotary()
			return
		}
		o.rotary(func(h *graph.Value, cache *graph.Value) *graph.Value { // the position of the first
			return o.call("Gather", nil, cache, o.unsqueeze(o.positions(ids, o.sum(ids, o.dim(h, 2))), 0))
		})
	}},
	{name: "MRotaryEmbedding", schema: fmt.Sprintf(rotaryText, " mrope_layout:int mrope_section:ints!"), expand: func(o *op) {
		o.ranked(o.in[1], 3)
		of := o.sections()
		o.rotary(func(_, cache *graph.Value) *graph.Value {
			all := o.call("Gather", nil, cache, o.in[1])
			part := func(i int64) *graph.Value { return o.squeeze(o.slice(all, 0, i, i+1), 0) }
			return o.call("Where", nil, of[1], part(1), o.call("Where", nil, of[2], part(2), part(0)))
		})
	}},
}

// sections returns which angles are those of the second and of the third of three positions, of time, height and width.
func (o *op) sections() [3]*graph.Value {
	section, _ := o.n.Ints("mrope_section")
	layout := o.n.Int("mrope_layout", 0)
	o.require(len(section) == 3 && (layout == 0 || layout == 1), ErrAttribute, "sections %v in layout %d", section, layout)
	half, sum := int64(o.static(o.in[2], 1)), int64(0)
	for _, n := range section {
		o.require(n >= 0 && n <= half, ErrAttribute, "sections %v of %d angles", section, half)
		sum += n
	}
	o.require(sum == half, ErrAttribute, "sections %v of %d angles", section, half)
	var of [3]*graph.Value
	for i := int64(1); i < 3; i++ {
		mask := make([]bool, half)
		for j := range half {
			if mask[j] = j >= section[0]+(i-1)*section[1] && j < section[0]+(i-1)*section[1]+section[i]; layout == 1 {
				mask[j] = j%3 == i && j < 3*section[i]
			}
		}
		of[i] = o.constant(tensor.From(mask, int(half)))
	}
	return of
}

// rotaryHeads returns how many heads rows of three dims have, and how many elements of each are turned.
func (o *op) rotaryHeads() (heads, width int64) {
	o.refuse(o.flag("is_packed_batching"), "batches that are packed")
	if s := o.n.Float("scale", 1); s != 1 {
		o.fail(ErrUnsupported, "a scale of %v", s)
	}
	x := o.in[0]
	rank := o.rank(x)
	o.require(rank == 3 || rank == 4, ErrShape, "%s has rank %d", x, rank)
	heads, width = o.n.Int("num_heads", 0), o.n.Int("rotary_embedding_dim", 0)
	if width == 0 {
		width = 2 * int64(o.static(o.in[2], 1))
	}
	if rank == 3 && heads == 0 {
		n := int64(o.static(x, 2))
		o.require(width > 0 && n%width == 0, ErrShape, "%d columns for heads of %d", n, width)
		heads = n / width
	}
	return heads, width
}

// standardRotary is rotary by the operator of ONNX, where each element of the batch has positions.
func (o *op) standardRotary() {
	heads, width := o.rotaryHeads()
	as := attrs(graph.IntAttr("interleaved", o.n.Int("interleaved", 0)), graph.IntAttr("rotary_embedding_dim", width))
	if o.rank(o.in[0]) == 3 {
		as = append(as, graph.IntAttr("num_heads", heads))
	}
	o.set(0, o.call("RotaryEmbedding", as, o.in[0], o.in[2], o.in[3], o.in[1]))
}

// rotary turns pairs of elements of each head by the angles of its position: gather takes their rows [batch, length, angles] out of a table.
func (o *op) rotary(gather func(h, cache *graph.Value) *graph.Value) {
	heads, width := o.rotaryHeads()
	x := o.in[0]
	rank, h := o.rank(x), x
	if rank == 3 {
		h = o.split(x, heads)
	}
	y := o.turnedPairs(h, gather(h, o.in[2]), gather(h, o.in[3]), width, o.flag("interleaved"))
	if rank == 3 {
		y = o.merge(y)
	}
	o.set(0, y)
}

// turnedPairs turns pairs of the first width elements of heads [batch, heads, length, size]: halves, or neighbours where they are
// interleaved. cos and sin are [batch, length, width/2].
func (o *op) turnedPairs(h, cos, sin *graph.Value, width int64, interleaved bool) *graph.Value {
	size := int64(o.static(h, 3))
	o.require(width > 0 && width%2 == 0 && width <= size, ErrShape, "%d of %d elements are turned", width, size)
	cos, sin = o.unsqueeze(cos, 1), o.unsqueeze(sin, 1)
	turn := h
	if width < size {
		turn = o.slice(h, 3, 0, width)
	}
	var a, b *graph.Value
	if interleaved {
		p := o.reshape(turn, 0, 0, 0, width/2, 2)
		halves := o.calls("Split", 2, attrs(graph.IntAttr("axis", 4), graph.IntAttr("num_outputs", 2)), p)
		a, b = o.squeeze(halves[0], 4), o.squeeze(halves[1], 4)
	} else {
		halves := o.calls("Split", 2, attrs(graph.IntAttr("axis", 3), graph.IntAttr("num_outputs", 2)), turn)
		a, b = halves[0], halves[1]
	}
	first := o.call("Sub", nil, o.times(a, cos), o.times(b, sin))
	second := o.sum(o.times(a, sin), o.times(b, cos))
	var y *graph.Value
	if interleaved {
		y = o.reshape(o.concat(4, o.unsqueeze(first, 4), o.unsqueeze(second, 4)), 0, 0, 0, width)
	} else {
		y = o.concat(3, first, second)
	}
	if width < size {
		y = o.concat(3, y, o.slice(h, 3, width, size))
	}
	return y
}
