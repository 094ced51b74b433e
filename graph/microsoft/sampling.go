package microsoft

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Sampling takes tokens at random, by numbers of the generator that std::default_random_engine is in GCC's library: x becomes 16807·x modulo
// 2^31-1, and two of these make a number between 0 and 1. So a seed gives the tokens that it gives in ONNX Runtime on Linux.
const (
	generatorFactor = 16807
	generatorRange  = math.MaxInt32 // of x, which is not 0
	mostDrawn       = 1 << 12       // rows of a batch
)

// sampling is a greedy search that draws tokens.
func (o *op) sampling() {
	o.refuse(o.wants(1), "filtered logits")
	s := o.search()
	o.require(!s.speaks, ErrUnsupported, "model_type %d", o.n.Int("model_type", 0))
	s.draws = true
	if o.has(3) {
		s.repeated = o.penalty(3)
	}
	s.vocabulary, s.allowed = o.input(4), o.input(5)
	if t := o.n.Float("temperature", 1); t > 0 && t != 1 {
		s.heat = o.scalar(tensor.Float32, float64(t))
	}
	if by := o.n.Float("presence_penalty", 0); o.has(7) && by != 0 {
		s.presence = o.scaled(o.cast(o.in[7], tensor.Float32), float64(by))
	}
	o.set(0, o.cast(s.generate(o.input(6), nil).tokens, tensor.Int32))
}

// beginDrawing seeds the generator: by 1 where no seed is given, since random operators draw the same numbers in every run.
func (s *search) beginDrawing(g *generated) {
	g.random = s.ints(1)
	if s.has(8) {
		seed := s.call("Mod", nil, s.size(8), s.int(1<<32)) // which takes numbers without a sign
		g.random = s.call("Max", nil, s.call("Mod", nil, seed, s.int(generatorRange)), g.random)
	}
}

// uniform draws a number of float64 between 0 and 1 for each row, [R, 1].
func (s *search) uniform(g *generated, rows *graph.Value) *graph.Value {
	powers := make([]int64, 2*mostDrawn)
	for i, p := 0, int64(1); i < len(powers); i++ {
		p = p * generatorFactor % generatorRange
		powers[i] = p
	}
	twice := s.times(rows, s.ints(2))
	next := s.call("Gather", nil, s.ints(powers...), s.counted(twice))
	next = s.call("Mod", nil, s.times(next, g.random), s.int(generatorRange))
	g.random = s.slice(next, 0, -1, toEnd)
	pair := s.cast(s.sum(s.reshape(next, -1, 2), s.int(-1)), tensor.Float64)
	const count = generatorRange - 1 // of numbers
	low, high := s.slice(pair, 1, 0, 1), s.slice(pair, 1, 1, 2)
	sum := s.sum(low, s.scaled(high, count))
	return s.call("Div", nil, sum, s.like(sum, float64(count)*float64(count)))
}

// draw takes a token of each row at random, by scores x [R, V] of which those of the unlikely are filtered.
func (s *search) draw(g *generated, x *graph.Value) *graph.Value {
	if g.random == nil {
		s.beginDrawing(g)
	}
	axis, own, topP := attrs(graph.IntAttr("axis", 1)), s.flag("custom"), float64(s.n.Float("top_p", 0))
	width := s.dim(x, 1)
	largest := int64(0)
	if own {
		largest = 1
	}
	sorted := s.calls("TopK", 2, attrs(graph.IntAttr("axis", 1), graph.IntAttr("largest", largest)), x, width)
	p := s.call("Softmax", axis, sorted[0])
	place := s.counted(width)
	var out *graph.Value
	if own { // what stands behind those that make up the share together, the likeliest first
		before := s.call("CumSum", attrs(graph.IntAttr("exclusive", 1)), p, s.int(1))
		out = s.call("And", nil, s.call("Greater", nil, before, s.like(before, topP)), s.call("Greater", nil, place, s.int(0)))
	} else { // those, from the unlikeliest on, that make up no more than the rest
		upTo := s.call("CumSum", nil, p, s.int(1))
		kept := s.call("Max", nil, s.sum(width, s.ints(-s.n.Int("min_tokens_to_keep", 0))), s.ints(1))
		out = s.call("And", nil, s.call("LessOrEqual", nil, upTo, s.like(upTo, 1-topP)), s.call("Less", nil, place, kept))
	}
	filtered := s.call("Where", nil, out, s.like(x, float64(s.n.Float("filter_value", -1e20))), sorted[0])
	logits := s.cast(s.call("ScatterElements", axis, x, sorted[1], filtered), tensor.Float64)
	top := s.call("ReduceMax", attrs(graph.IntAttr("keepdims", 1)), logits, s.ints(1))
	sums := s.call("CumSum", nil, s.call("Exp", nil, s.call("Sub", nil, logits, top)), s.int(1))
	at := s.times(s.uniform(g, s.dim(x, 0)), s.slice(sums, 1, -1, toEnd))
	below := s.cast(s.call("LessOrEqual", nil, sums, at), tensor.Int64)
	return s.call("ReduceSum", attrs(graph.IntAttr("keepdims", 0)), below, s.ints(1))
}
