package microsoft

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// step chooses the next tokens by logits [R, tokens, V] of the decoder.
func (s *search) step(g *generated, logits *graph.Value, first bool) {
	x := s.tokenScores(g, logits)
	var token *graph.Value
	if s.beam {
		if first {
			s.beginBeams(g)
		}
		token = s.stepBeams(g, x)
	} else {
		if s.draws {
			token = s.draw(g, x)
		} else {
			token = s.call("ArgMax", attrs(graph.IntAttr("axis", 1), graph.IntAttr("keepdims", 0)), x)
		}
		ends := s.call("Equal", nil, token, s.int(s.eos))
		if !first {
			ends = s.call("Or", nil, g.done, ends)
		}
		g.done = ends
		token = s.call("Where", nil, ends, s.int(s.pad), token)
	}
	g.next = token
	column := s.unsqueeze(token, 1)
	at := s.call("Expand", nil, g.length, s.call("Shape", nil, column))
	g.tokens = s.call("ScatterElements", attrs(graph.IntAttr("axis", 1)), g.tokens, at, column)
	g.length = s.sum(g.length, s.int(1))
}

// tokenScores returns the scores [R, V] of the next tokens: logits, or with beams logarithms of probabilities, of the last token that the
// decoder has read, lowest where a token may not come next.
func (s *search) tokenScores(g *generated, logits *graph.Value) *graph.Value {
	x := s.cast(s.call("Gather", attrs(graph.IntAttr("axis", 1)), logits, s.int(-1)), tensor.Float32)
	if n := s.n.Int("vocab_size", -1); n > 0 {
		x = s.slice(x, 1, 0, n)
	}
	if s.beam {
		x = s.call("LogSoftmax", attrs(graph.IntAttr("axis", 1)), x)
	}
	never := s.scalar(tensor.Float32, lowest(tensor.Float32))
	if s.repeated != nil {
		here := s.call("Less", nil, s.counted(s.most), g.length)
		tokens := s.call("Where", nil, here, g.tokens, s.slice(g.tokens, 1, 0, 1))
		down := s.call("Where", nil, s.call("Less", nil, x, s.like(x, 0)), s.times(x, s.repeated), s.call("Div", nil, x, s.repeated))
		x = s.call("Where", nil, s.among(x, tokens), down, x)
	}
	if s.ngram > 0 {
		x = s.call("Where", nil, s.wouldRepeat(g, x), never, x)
	}
	for _, mask := range []*graph.Value{s.vocabulary, s.allowed} {
		if mask == nil {
			continue
		}
		may := s.cast(mask, tensor.Bool)
		if mask == s.allowed {
			may = s.cast(s.rows(s.cast(mask, tensor.Int64)), tensor.Bool)
		}
		x = s.call("Where", nil, may, x, never)
	}
	if s.least != nil && s.eos >= 0 {
		ends := s.call("Equal", nil, s.counted(s.dim(x, 1)), s.int(s.eos))
		early := s.call("Less", nil, g.length, s.least)
		x = s.call("Where", nil, s.call("And", nil, ends, early), never, x)
	}
	if s.heat != nil {
		x = s.call("Where", nil, s.call("Greater", nil, s.heat, s.like(x, 0)), s.call("Div", nil, x, s.heat), x)
	}
	if s.presence != nil {
		x = s.call("Sub", nil, x, s.presence)
	}
	if s.stamps {
		x = s.timed(g, x)
	}
	return x
}

// among says which of the tokens whose scores are x are in rows of some, [R, V].
func (s *search) among(x, tokens *graph.Value) *graph.Value {
	none := s.full(0, s.call("Shape", nil, x))
	marked := s.call("ScatterElements", attrs(graph.IntAttr("axis", 1)), none, tokens, s.full(1, s.call("Shape", nil, tokens)))
	return s.cast(marked, tensor.Bool)
}

// wouldRepeat says which tokens would end a run of ngram tokens that a row has already, [R, V].
func (s *search) wouldRepeat(g *generated, x *graph.Value) *graph.Value {
	n := s.ngram
	runs := s.call("Max", nil, s.call("Sub", nil, s.most, s.ints(n-1)), s.ints(0)) // that a row has room for
	last := s.sliceTo(g.tokens, 1, s.ints(n-1), s.most)
	match := s.call("Less", nil, s.sum(s.counted(runs), s.int(n-1)), g.length)
	for t := range n - 1 {
		at := s.call("Max", nil, s.sum(g.length, s.ints(t-n+1)), s.ints(0))
		token := s.call("Gather", attrs(graph.IntAttr("axis", 1)), g.tokens, at)
		run := s.sliceTo(g.tokens, 1, s.ints(t), s.sum(runs, s.ints(t)))
		match = s.call("And", nil, match, s.call("Equal", nil, run, token))
	}
	beyond := s.dim(x, 1)
	wide := s.concat(1, x, s.slice(x, 1, 0, 1)) // whose last column stands for no token
	return s.slice(s.among(wide, s.call("Where", nil, match, last, beyond)), 1, 0, -1)
}

// beginBeams gives the scores of beams before the first token: all are the same, so that one of them counts.
func (s *search) beginBeams(g *generated) {
	shape := s.concat(0, s.batch, s.beams)
	first := s.call("Equal", nil, s.counted(s.beams), s.int(0))
	scores := s.call("Where", nil, first, s.scalar(tensor.Float32, 0), s.scalar(tensor.Float32, -1e9))
	g.scores = s.call("Expand", nil, scores, shape)
	g.best = s.call("Expand", nil, s.scalar(tensor.Float32, math.Inf(-1)), shape)
	g.ended = s.full(s.pad, s.concat(0, shape, s.most))
	g.done = s.call("Expand", nil, s.constant(tensor.Scalar(false)), s.batch)
}

// stepBeams goes on with the best tokens of all beams of a row, and keeps sequences that one of the best ends. It returns the tokens.
func (s *search) stepBeams(g *generated, x *graph.Value) *graph.Value {
	axis := attrs(graph.IntAttr("axis", 1))
	vocabulary := s.dim(x, 1)
	x = s.sum(x, s.reshape(g.scores, -1, 1))
	if s.every {
		g.all = append(g.all, s.reshape(x, -1))
	}
	twice := s.times(s.beams, s.ints(2))
	top := s.calls("TopK", 2, axis, s.call("Reshape", nil, x, s.concat(0, s.batch, s.ints(-1))), twice)
	beam, token := s.call("Div", nil, top[1], vocabulary), s.call("Mod", nil, top[1], vocabulary)
	ends := s.call("Equal", nil, token, s.int(s.eos))

	best := func(v *graph.Value) *graph.Value { return s.sliceTo(v, 1, s.ints(0), s.beams) }
	done := s.unsqueeze(g.done, 1)
	kept := s.call("And", nil, best(ends), s.call("Not", nil, done))
	score := s.call("Where", nil, kept, s.perLength(best(top[0]), g.length), s.scalar(tensor.Float32, math.Inf(-1)))
	s.keep(g, score, best(beam))
	worst := s.slice(g.best, 1, -1, toEnd)
	full := s.call("Greater", nil, worst, s.scalar(tensor.Float32, math.Inf(-1)))
	if !s.early {
		// ONNX Runtime takes as many numbers as there are candidates of a row, but from a place that counts rows by beams.
		from := s.unsqueeze(s.times(s.counted(s.batch), s.beams), 1)
		looked := s.call("Gather", nil, s.reshape(top[0], -1), s.sum(from, s.counted(twice)))
		possible := s.perLength(s.call("ReduceMax", nil, looked, s.ints(1)), g.length)
		full = s.call("And", nil, full, s.call("LessOrEqual", nil, possible, worst))
	}
	g.done = s.call("Or", nil, g.done, s.squeeze(full, 1))

	place := s.sum(s.counted(twice), s.call("Where", nil, ends, twice, s.ints(0))) // those that go on before those that end
	at := s.calls("TopK", 2, attrs(graph.IntAttr("axis", 1), graph.IntAttr("largest", 0)), place, s.beams)[1]
	chosen := func(v *graph.Value) *graph.Value { return s.call("GatherElements", axis, v, at) }
	g.scores = chosen(top[0])
	firsts := s.times(s.unsqueeze(s.counted(s.batch), 1), s.beams)
	next, from := chosen(token), s.sum(chosen(beam), firsts)
	cached := from
	if s.every { // of rows that are done all scores are seen: ONNX Runtime goes on with padding and the first row, whose cache it takes where there are several beams
		g.scores = s.call("Where", nil, done, s.scalar(tensor.Float32, 0), g.scores)
		next, from = s.call("Where", nil, done, s.int(s.pad), next), s.call("Where", nil, done, s.int(0), from)
		cached = s.call("Where", nil, s.call("Equal", nil, s.beams, s.int(1)), firsts, from)
	}
	rows := s.reshape(from, -1)
	g.tokens = s.call("Gather", nil, g.tokens, rows)
	rowsAxis := int64(1)
	if s.speaks {
		rowsAxis = 0
	}
	for i, v := range g.past {
		g.past[i] = s.call("Gather", attrs(graph.IntAttr("axis", rowsAxis)), v, s.reshape(cached, -1))
	}
	return s.reshape(next, -1)
}

// perLength returns scores of sequences of a length as they are compared with those of others.
func (s *search) perLength(scores, length *graph.Value) *graph.Value {
	by := s.cast(length, tensor.Float32)
	if s.lengths != nil {
		by = s.call("Pow", nil, by, s.lengths)
	}
	return s.call("Div", nil, scores, by)
}

// keep puts sequences of some beams [batch, beams], with scores, among those that have ended, of which there are no more than beams.
func (s *search) keep(g *generated, scores, beams *graph.Value) {
	pick := func(from, at *graph.Value) *graph.Value {
		return s.call("GatherND", attrs(graph.IntAttr("batch_dims", 1)), from, s.unsqueeze(at, 2))
	}
	now := pick(s.call("Reshape", nil, g.tokens, s.concat(0, s.batch, s.beams, s.ints(-1))), beams)
	top := s.calls("TopK", 2, attrs(graph.IntAttr("axis", 1)), s.concat(1, g.best, scores), s.beams)
	g.best, g.ended = top[0], pick(s.concat(1, g.ended, now), top[1])
}

// allScores returns the scores of all tokens in all steps, [steps, batch, beams, V]: 0 in those that were not needed. most is the longest sequence.
func (s *search) allScores(g *generated, most *graph.Value) *graph.Value {
	first := g.all[0]
	steps := s.call("Sub", nil, most, s.given)
	width := s.call("Div", nil, s.dim(first, 0), s.times(s.batch, s.beams))
	done := s.concat(0, first, s.reshape(g.all[1], -1))
	zero := attrs(graph.TensorAttr("value", tensor.From([]float32{0}, 1)))
	rest := s.call("ConstantOfShape", zero, s.call("Sub", nil, s.times(steps, s.dim(first, 0)), s.dim(done, 0)))
	return s.call("Reshape", nil, s.concat(0, done, rest), s.concat(0, steps, s.batch, s.beams, width))
}
