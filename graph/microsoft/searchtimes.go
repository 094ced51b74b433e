package microsoft

import "github.com/carve-dev/carve/graph"

// latestStart is how many tokens of times behind the first the first one of a sequence may be: a second, in fiftieths.
const latestStart = 50

// timed returns scores of tokens [R, V], lowest where the rules that Whisper has for tokens of times forbid them (decoding.py, ApplyTimestampRules, of OpenAI's
// Whisper): times come in pairs but for the first, they do not decrease, and one comes where all of them together are likelier than any other token.
func (s *search) timed(g *generated, x *graph.Value) *graph.Value {
	id := func(name string) *graph.Value { return s.int(s.n.Int(name, -1)) }
	begin := s.n.Int("beginning_timestamp_token_id", -1)
	s.require(begin > 0, ErrAttribute, "beginning_timestamp_token_id %d", begin)
	any := func(list ...*graph.Value) *graph.Value {
		all := list[0]
		for _, v := range list[1:] {
			all = s.call("Or", nil, all, v)
		}
		return all
	}
	both := func(a, b *graph.Value) *graph.Value { return s.call("And", nil, a, b) }
	not := func(a *graph.Value) *graph.Value { return s.call("Not", nil, a) }
	isTime := func(v *graph.Value) *graph.Value { return s.call("GreaterOrEqual", nil, v, s.int(begin)) }
	before := func(n int64) *graph.Value { // the n-th token from the end
		at := s.call("Max", nil, s.sum(g.length, s.ints(-n)), s.ints(0))
		return s.call("Gather", attrs(graph.IntAttr("axis", 1)), g.tokens, at)
	}
	token := s.counted(s.dim(x, 1))
	is := func(names ...string) *graph.Value {
		var list []*graph.Value
		for _, name := range names {
			list = append(list, s.call("Equal", nil, token, id(name)))
		}
		return any(list...)
	}

	place := s.sum(s.counted(s.most), s.int(1))
	times := both(isTime(g.tokens), s.call("LessOrEqual", nil, place, g.length))
	most := func(v *graph.Value) *graph.Value {
		return s.call("ReduceMax", attrs(graph.IntAttr("keepdims", 1)), v, s.ints(1))
	}
	last := most(s.call("Where", nil, times, place, s.int(0)))                                                              // where the last time stands, from 1 on, 0 for none
	first := s.call("Neg", nil, most(s.call("Where", nil, times, s.call("Neg", nil, place), s.call("Neg", nil, g.length)))) // where the first one does, or the last token
	began := s.call("Greater", nil, g.length, first)
	wasTime, paired := isTime(before(1)), any(not(began), isTime(before(2)))
	open := both(wasTime, not(paired))
	value := s.call("GatherElements", attrs(graph.IntAttr("axis", 1)), g.tokens, s.call("Max", nil, s.sum(last, s.int(-1)), s.int(0)))
	least := s.call("Where", nil, open, value, s.sum(value, s.int(1)))
	forbidden := any(
		is("no_timestamps_token_id", "start_of_lm_token_id"),
		both(began, is("decoder_start_token_id", "translate_token_id", "transcribe_token_id")),
		both(both(wasTime, paired), isTime(token)),
		both(open, s.call("Less", nil, token, s.int(s.eos))),
		both(s.call("Greater", nil, last, s.int(0)), both(isTime(token), s.call("Less", nil, token, least))),
		both(s.call("Equal", nil, g.length, first), s.call("Greater", nil, token, s.int(begin+latestStart))))
	never := s.scalar(s.dtype(x), lowest(s.dtype(x)))
	x = s.call("Where", nil, forbidden, never, x)

	timesOf, words := s.slice(x, 1, begin, toEnd), most(s.slice(x, 1, 0, begin))
	together := s.call("ReduceLogSumExp", attrs(graph.IntAttr("keepdims", 1)), timesOf, s.ints(1))
	return s.call("Where", nil, both(s.call("Greater", nil, together, words), not(isTime(token))), never, x)
}
