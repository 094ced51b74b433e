package microsoft

import (
	"fmt"
	"math"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// searchOperators generate tokens with a decoder that is a graph of the node: step by step the most likely token, or by beams, those
// sequences of tokens that are the most likely together. They become the first step, and a Loop of the others.
var searchOperators = []operator{
	{name: "GreedySearch", schema: "in input_ids:I max_length:I min_length?:I repetition_penalty?:T vocab_mask?:I prefix_vocab_mask?:I attention_mask?:I\n" +
		"out sequences:I\nat " + searchText + "\nty I=int32 T=float", graphs: searchGraphs, infer: inferSearch, expand: (*op).greedySearch},
	{name: "BeamSearch", schema: "in input_ids:F max_length:I min_length?:I num_beams:I num_return_sequences:I length_penalty?:T repetition_penalty?:T " +
		"vocab_mask?:M prefix_vocab_mask?:M attention_mask?:I decoder_input_ids?:I logits_processor?:I\nout sequences:I sequences_scores?:T scores?:T\n" +
		"at " + searchText + " early_stopping:int=0\nty F=float,float16,int32 I=int32 M=int32 T=float,float16", graphs: searchGraphs, infer: inferSearch, expand: (*op).beamSearch},
	{name: "WhisperBeamSearch", schema: "in input_ids:F max_length:I min_length?:I num_beams:I num_return_sequences:I length_penalty?:T repetition_penalty?:T " +
		"vocab_mask?:M prefix_vocab_mask?:M attention_mask?:I decoder_input_ids?:I logits_processor?:I cross_qk_layer_head?:I extra_decoding_ids?:I temperature?:T\n" +
		"out sequences:I sequences_scores?:T scores?:T cross_qk?:V non_speech_probs?:T\n" +
		"at " + strings.Replace(searchText, "model_type:int=0", "model_type:int=2", 1) + " early_stopping:int=0 decoder_output_cross_qk:int=0 no_speech_token_id:int=-1 " +
		"beginning_timestamp_token_id:int=-1 no_timestamps_token_id:int=-1 start_of_lm_token_id:int=-1 transcribe_token_id:int=-1 translate_token_id:int=-1\n" +
		"ty F=float,float16,int32 I=int32 M=int32 T=float,float16 V=float", graphs: searchGraphs, infer: inferSearch, expand: (*op).beamSearch},
	{name: "Sampling", schema: "in input_ids:I max_length:I min_length?:I repetition_penalty?:T vocab_mask?:I prefix_vocab_mask?:I attention_mask?:I presence_mask?:I seed?:I\n" +
		"out sequences:I filtered_logits?:T\nat " + searchText + " custom:int=0 filter_value:float=-1e20 min_tokens_to_keep:int=0 presence_penalty:float=0 temperature:float=1 top_p:float=0\n" +
		"ty I=int32 T=float", graphs: searchGraphs, infer: inferSearch, expand: (*op).sampling},
}

const searchText = "decoder_start_token_id:int=-1 eos_token_id:int! model_type:int=0 no_repeat_ngram_size:int=0 pad_token_id:int! vocab_size:int=-1"

var searchGraphs = []graph.AttrSpec{{Name: "decoder", Required: true, Declares: true}, {Name: "encoder", Declares: true}, {Name: "init_decoder", Declares: true}}

// inferSearch types what is generated, and what the decoder computes.
func inferSearch(c *graph.Inference) error {
	for _, r := range c.Node.Regions {
		for i, p := range r.Graph.Captures {
			if v := c.Node.Captures[i]; v != nil && v.Type.Kind != graph.KindUnknown {
				p.Type, p.Dims = v.Type, v.Dims
			}
		}
		if err := graph.InferGraph(r.Graph); err != nil {
			return err
		}
	}
	number := func(i int) graph.Dim {
		if v := c.Node.Input(i); v != nil && v.Const != nil && v.Const.Len() == 1 {
			return graph.D(int(v.Const.Float64At(0)))
		}
		return c.Fresh()
	}
	batch, longest := c.Fresh(), number(1)
	if s := c.Shape(0); len(s) > 0 {
		batch = s[0]
	}
	if c.Node.Op.Name == "GreedySearch" || c.Node.Op.Name == "Sampling" {
		c.SetType(0, graph.TensorType(tensor.Int32, graph.Shape{batch, longest}))
		if c.NumOutputs() > 1 {
			c.SetType(1, graph.TensorType(tensor.Float32, graph.Shape{batch, c.Fresh()}))
		}
		return nil
	}
	returned := number(4)
	c.SetType(0, graph.TensorType(tensor.Int32, graph.Shape{batch, returned, longest}))
	if c.NumOutputs() > 1 {
		c.SetType(1, graph.TensorType(tensor.Float32, graph.Shape{batch, returned}))
	}
	if c.NumOutputs() > 2 {
		c.SetType(2, graph.TensorType(tensor.Float32, graph.Shape{c.Fresh(), batch, number(3), c.Fresh()}))
	}
	return nil
}

// search is a node of GreedySearch or BeamSearch whose steps are being added to a graph: its own, or the body of the Loop. Vectors of one int64
// are sizes: of a batch, of its beams, and the most tokens of a sequence.
type search struct {
	*op
	captured func(*graph.Value) *graph.Value // a value of the node's graph in the one at hand

	beam, early, speaks  bool // speaks: an encoder reads what is given, and the decoder begins with a token of its own
	hears                bool // what is given are features of sound
	stamps               bool // times are tokens, to which rules apply
	every                bool // the scores of all tokens are a result
	draws                bool // tokens are taken at random
	eos, pad, ngram      int64
	batch, beams, most   *graph.Value
	returned             *graph.Value // sequences of each row
	given                *graph.Value // tokens of a sequence before the first step
	least                *graph.Value // tokens before the one that ends a sequence, nil for none
	lengths, repeated    *graph.Value // penalties, nil for none
	heat                 *graph.Value // by which scores are divided, nil for nothing
	presence             *graph.Value // [batch, V], what is taken from scores, nil for nothing
	vocabulary, allowed  *graph.Value // tokens that are admitted, [V] and at first [batch, V], nil for all
	encoderMask, encoded *graph.Value // what the encoder was given, and its hidden states, by beams
	cross                map[string]*graph.Value
}

// outer lists the values of a search that its steps read.
func (s *search) outer() []**graph.Value {
	return []**graph.Value{&s.batch, &s.beams, &s.least, &s.lengths, &s.repeated, &s.heat, &s.presence, &s.vocabulary, &s.encoderMask, &s.encoded}
}

// generated is what a step leaves to the next one: R rows are the beams of a batch.
type generated struct {
	tokens *graph.Value   // [R, most], padded
	length *graph.Value   // [1], tokens so far
	next   *graph.Value   // [R], the last of them
	done   *graph.Value   // [batch], rows that have all that they may
	past   []*graph.Value // keys and values
	mask   *graph.Value   // [R, tokens] of a decoder without an encoder
	place  *graph.Value   // [R, 1], the position of the next token, likewise

	scores *graph.Value // [batch, beams], of beams
	best   *graph.Value // [batch, beams], scores of sequences that have ended, the best first, -inf where there are fewer
	ended  *graph.Value // [batch, beams, most], these
	random *graph.Value // [1], of a search that takes tokens at random: the state of its generator

	all []*graph.Value // scores of all tokens in the steps so far, a vector in the order [batch, beams, V], stacked behind the first
}

// carried lists the values of g that there are, with the axis that is longer in each step, -1 for none.
func (g *generated) carried(cacheAxis int) (list []**graph.Value, grows []int) {
	all := []**graph.Value{&g.tokens, &g.length, &g.next, &g.done, &g.place, &g.scores, &g.best, &g.ended, &g.random, &g.mask}
	for _, v := range all {
		if *v != nil {
			list, grows = append(list, v), append(grows, -1)
		}
	}
	if g.mask != nil {
		grows[len(grows)-1] = 1
	}
	for i := range g.past {
		list, grows = append(list, &g.past[i]), append(grows, cacheAxis)
	}
	return list, grows
}

func (o *op) greedySearch() {
	s := o.search()
	if o.has(3) {
		s.repeated = o.penalty(3)
	}
	s.vocabulary, s.allowed = o.input(4), o.input(5)
	g := s.generate(o.input(6), nil)
	o.set(0, o.cast(g.tokens, tensor.Int32))
}

func (o *op) beamSearch() {
	s := o.search()
	o.refuse(o.wants(3) || o.flag("decoder_output_cross_qk"), "products of cross attention")
	o.refuse(o.wants(4), "the probability that nobody speaks")
	if o.has(11) {
		t := o.in[11].Const
		o.require(t != nil && t.Len() == 1, ErrUnsupported, "a logits processor that a run names")
		s.stamps = t.Float64At(0) == 1
		o.require(s.stamps && o.n.Op.Name == "WhisperBeamSearch" || t.Float64At(0) == 0, ErrUnsupported, "logits processor %v", t.Float64At(0))
	}
	s.beam, s.early, s.every = true, o.flag("early_stopping"), o.wants(2)
	s.beams, s.returned = o.size(3), o.size(4)
	if o.has(5) {
		s.lengths = o.penalty(5)
	}
	if o.has(6) {
		s.repeated = o.penalty(6)
	}
	if o.has(14) {
		s.heat = o.penalty(14)
	}
	s.vocabulary, s.allowed = o.input(7), o.input(8)
	begun := s.most
	g := s.generate(o.input(9), o.input(10))
	if s.every {
		o.set(2, o.cast(s.allScores(g, begun), o.n.Outputs[2].Type.DType))
	}
	rest := o.call("Where", nil, o.unsqueeze(g.done, 1), o.scalar(tensor.Float32, math.Inf(-1)), s.perLength(g.scores, g.length))
	s.keep(g, rest, o.call("Expand", nil, o.counted(s.beams), o.concat(0, s.batch, s.beams)))
	o.set(0, o.cast(o.sliceTo(g.ended, 1, o.ints(0), s.returned), tensor.Int32))
	if o.wants(1) {
		o.set(1, o.cast(o.sliceTo(g.best, 1, o.ints(0), s.returned), o.n.Outputs[1].Type.DType))
	}
}

// search reads what both operators have.
func (o *op) search() *search {
	s := &search{op: o, captured: func(v *graph.Value) *graph.Value { return v }, eos: o.n.Int("eos_token_id", -1), pad: o.n.Int("pad_token_id", -1),
		ngram: o.n.Int("no_repeat_ngram_size", 0), beams: o.ints(1), most: o.size(1)}
	kind := o.n.Int("model_type", 0)
	if o.n.Op.Name == "WhisperBeamSearch" {
		kind = 2
	}
	s.hears = kind == 2
	s.speaks = kind == 1 || s.hears
	o.require(kind == 0 || kind == 1 || s.hears && o.n.Op.Name != "GreedySearch", ErrUnsupported, "model_type %d", kind)
	o.require(!s.speaks || o.n.Region("encoder") != nil, ErrAttribute, "no encoder")
	s.batch = o.dim(o.in[0], 0)
	if o.has(2) && (o.in[2].Const == nil || o.in[2].Const.Float64At(0) > 0) {
		s.least = o.size(2)
	}
	return s
}

// size returns operand i, a number, as a vector of one int64.
func (o *op) size(i int) *graph.Value { return o.reshape(o.cast(o.in[i], tensor.Int64), 1) }

// penalty returns operand i, a number of floating point, as a scalar of float32; nil where it is known to be one, which changes nothing.
func (o *op) penalty(i int) *graph.Value {
	if t := o.in[i].Const; t != nil && t.Len() == 1 && t.Float64At(0) == 1 {
		return nil
	}
	return o.call("Reshape", nil, o.cast(o.in[i], tensor.Float32), o.ints())
}

// counted returns the numbers below a size.
func (o *op) counted(n *graph.Value) *graph.Value { return o.positions(o.ints(0), n) }

// full returns a tensor of int64 of some shape.
func (o *op) full(v int64, shape *graph.Value) *graph.Value {
	return o.call("ConstantOfShape", attrs(graph.TensorAttr("value", tensor.From([]int64{v}, 1))), shape)
}

// rows repeats each row of v for the beams.
func (s *search) rows(v *graph.Value) *graph.Value {
	if !s.beam {
		return v
	}
	rest := s.call("Shape", attrs(graph.IntAttr("start", 1)), v)
	wide := s.call("Expand", nil, s.unsqueeze(v, 1), s.concat(0, s.batch, s.beams, rest))
	return s.call("Reshape", nil, wide, s.concat(0, s.ints(-1), rest))
}

// generate adds all steps.
func (s *search) generate(mask, begin *graph.Value) *generated {
	g := &generated{}
	given := s.in[0]
	if s.hears {
		s.require(s.dtype(given).IsFloat(), ErrUnsupported, "features of %v", given.Type.DType)
		logits := s.listen(g, given, nil, begin)
		s.step(g, logits, true)
		s.loop(g)
		return g
	}
	s.require(s.dtype(given) == tensor.Int32, ErrUnsupported, "input_ids of %v", given.Type.DType)
	words := s.cast(s.call("Not", nil, s.call("Equal", nil, given, s.like(given, float64(s.pad)))), tensor.Int64)
	var logits *graph.Value
	if s.speaks {
		if mask == nil { // padding is what stands before the first word
			before := s.call("CumSum", nil, words, s.int(1))
			mask = s.call("Greater", nil, before, s.int(0))
		}
		logits = s.listen(g, given, s.cast(mask, tensor.Int64), begin)
	} else {
		if mask == nil {
			mask = words
		}
		logits = s.read(g, given, words, s.cast(mask, tensor.Int64))
	}
	s.step(g, logits, true)
	s.loop(g)
	return g
}

// begins gives the sequences that all steps go on with.
func (s *search) begins(g *generated, ids *graph.Value) {
	ids = s.rows(s.cast(ids, tensor.Int64))
	g.length = s.dim(ids, 1)
	s.given = g.length
	g.tokens = s.concat(1, ids, s.full(s.pad, s.concat(0, s.dim(ids, 0), s.call("Sub", nil, s.most, g.length))))
	s.most = s.dim(g.tokens, 1)
}

// read has the decoder read what is given, of which it sees what the mask says, and returns its logits. Positions count words, which padding is not.
func (s *search) read(g *generated, given, words, mask *graph.Value) *graph.Value {
	s.begins(g, given)
	before := s.call("CumSum", attrs(graph.IntAttr("exclusive", 1)), words, s.int(1))
	at := s.times(words, before)
	g.mask, g.place = s.rows(mask), s.rows(s.call("ReduceSum", nil, words, s.ints(1)))
	name := "init_decoder"
	if s.n.Region(name) == nil {
		name = "decoder"
	}
	args := map[string]*graph.Value{"input_ids": s.rows(given), "position_ids": s.rows(at), "attention_mask": g.mask}
	for _, p := range s.n.Region(name).Inputs {
		if strings.HasPrefix(p.Name, "past_") {
			args[p.Name] = s.emptyCache(p, 1, 3)
		}
	}
	return s.decoded(g, name, args)
}

// emptyCache returns keys or values before there are any.
func (s *search) emptyCache(p *graph.Value, rowsAxis, axis int) *graph.Value {
	shape := make([]*graph.Value, s.rank(p))
	for i := range shape {
		switch i {
		case rowsAxis:
			shape[i] = s.times(s.batch, s.beams)
		case axis:
			shape[i] = s.ints(0)
		default:
			shape[i] = s.ints(int64(s.static(p, i)))
		}
	}
	zero, err := tensor.New(s.dtype(p), 1)
	s.require(err == nil, ErrUnsupported, "a cache of %v", p.Type.DType)
	return s.call("ConstantOfShape", attrs(graph.TensorAttr("value", zero)), s.concat(0, shape...))
}

// listen has the encoder read what is given, and the decoder its first token, and returns the logits of that.
func (s *search) listen(g *generated, given, mask, begin *graph.Value) *graph.Value {
	if begin == nil {
		start := s.n.Int("decoder_start_token_id", -1)
		s.require(start >= 0, ErrAttribute, "decoder_start_token_id %d", start)
		begin = s.full(start, s.concat(0, s.batch, s.ints(1)))
	}
	s.begins(g, begin)
	if mask != nil {
		s.encoderMask = s.rows(mask)
	}
	out := s.run("encoder", map[string]*graph.Value{"encoder_input_ids": given, "encoder_attention_mask": mask, "decoder_input_ids": begin})
	s.cross = map[string]*graph.Value{}
	for name, v := range out {
		if rest, ok := strings.CutPrefix(name, "present_"); ok && strings.Contains(name, "_cross_") {
			s.cross["past_"+rest] = s.rows(v)
		}
	}
	if v := out["encoder_hidden_states"]; v != nil {
		s.encoded = s.rows(v)
	}
	past := func(get func(p *graph.Value) *graph.Value) map[string]*graph.Value {
		args := map[string]*graph.Value{}
		for _, p := range s.n.Region("decoder").Inputs {
			if strings.HasPrefix(p.Name, "past_") && strings.Contains(p.Name, "_self_") {
				args[p.Name] = get(p)
			}
		}
		return args
	}
	if logits := out["logits"]; logits != nil {
		for _, p := range s.n.Region("decoder").Outputs {
			if strings.HasPrefix(p.Name, "present_") {
				s.require(out[p.Name] != nil, ErrUnsupported, "an encoder without %q", p.Name)
				g.past = append(g.past, s.rows(out[p.Name]))
			}
		}
		return s.rows(logits)
	}
	args := past(func(p *graph.Value) *graph.Value { return s.emptyCache(p, 0, 2) })
	return s.decoded(g, "decoder", s.heard(args, s.rows(s.cast(begin, tensor.Int64))))
}

// heard adds to the arguments of a decoder what the encoder made, and tokens.
func (s *search) heard(args map[string]*graph.Value, ids *graph.Value) map[string]*graph.Value {
	args["input_ids"], args["encoder_attention_mask"], args["encoder_hidden_states"] = ids, s.encoderMask, s.encoded
	for name, v := range s.cross {
		args[name] = s.captured(v)
	}
	return args
}

// decoded runs a decoder, keeps what it gives for the next step, and returns its logits.
func (s *search) decoded(g *generated, name string, args map[string]*graph.Value) *graph.Value {
	out := s.run(name, args)
	g.past = nil
	for _, p := range s.n.Region("decoder").Outputs {
		if strings.HasPrefix(p.Name, "present_") {
			s.require(out[p.Name] != nil, ErrUnsupported, "%s without %q", name, p.Name)
			g.past = append(g.past, out[p.Name])
		}
	}
	s.require(out["logits"] != nil, ErrUnsupported, "a decoder without logits")
	return out["logits"]
}

// run adds the nodes of a graph of the node, with values for its inputs by their names, and returns its results by theirs.
func (s *search) run(name string, args map[string]*graph.Value) map[string]*graph.Value {
	body, err := s.n.Region(name).Clone()
	if err != nil {
		panic(fault{err})
	}
	spec := graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph}, Origins: s.n.Provenance(), Outputs: make([]string, len(body.Outputs)),
		Regions: []graph.Region{{Name: "body", Graph: body}}}
	stands := map[*graph.Value]*graph.Value{}
	for _, p := range body.Inputs {
		v := args[p.Name]
		s.require(v != nil, ErrUnsupported, "input %q of its graph %s", p.Name, name)
		stands[p] = s.cast(v, s.dtype(p))
		spec.Inputs = append(spec.Inputs, stands[p])
	}
	for i, p := range body.Captures {
		stands[p] = s.captured(s.n.Captures[i])
		spec.Captures = append(spec.Captures, stands[p])
	}
	order, err := body.Topo()
	if err != nil {
		panic(fault{err})
	}
	results := append([]*graph.Value{}, body.Outputs...)
	names := make([]string, len(results))
	for i, v := range results {
		names[i] = v.Name
	}
	forgetTypes(body, fmt.Sprintf("%s/%s/", s.n.Name, name))
	n := s.g.AddNode(spec)
	if _, err := s.g.Inline(n); err != nil {
		panic(fault{err})
	}
	for _, m := range order {
		if err := graph.InferNode(m); err != nil {
			panic(fault{err})
		}
	}
	out := map[string]*graph.Value{}
	for i, v := range results {
		if given := stands[v]; given != nil {
			v = given
		}
		out[names[i]] = v
	}
	return out
}

// forgetTypes makes the types of all results unknown, and their names apart from those around them.
func forgetTypes(g *graph.Graph, prefix string) {
	for n := range g.Nodes() {
		n.Name = prefix + strings.TrimPrefix(n.Name, prefix)
		for _, v := range n.Outputs {
			if v != nil {
				v.Name, v.Type, v.Dims = prefix+strings.TrimPrefix(v.Name, prefix), graph.Type{}, nil
			}
		}
		for _, r := range n.Regions {
			forgetTypes(r.Graph, prefix)
		}
	}
}

// loop adds the steps behind the first one.
func (s *search) loop(g *generated) {
	body := graph.New("search")
	inner := &op{n: s.n, g: body}
	var captures []*graph.Value
	here := map[*graph.Value]*graph.Value{}
	in := *s
	in.op = inner
	in.captured = func(v *graph.Value) *graph.Value {
		switch {
		case v == nil || here[v] != nil:
			return here[v]
		case v.Const != nil:
			here[v] = body.AddConst(v.Name, v.Const)
		default:
			here[v] = body.AddCapture(v.Name, v.Type)
			here[v].Dims = v.Dims
			captures = append(captures, v)
		}
		return here[v]
	}
	for _, v := range in.outer() {
		*v = in.captured(*v)
	}
	in.allowed = nil
	cacheAxis := 3
	if s.speaks {
		cacheAxis = 2
	}
	body.AddInput("step", graph.TensorType(tensor.Int64, graph.Shape{}))
	body.AddInput("going", graph.TensorType(tensor.Bool, graph.Shape{}))
	first, grows := g.carried(cacheAxis)
	steps := s.call("Sub", nil, s.most, g.length)
	ins := []*graph.Value{s.squeeze(steps, 0), s.going(g)}
	inside := *g
	inside.past = append([]*graph.Value{}, g.past...)
	list, _ := inside.carried(cacheAxis)
	for i, v := range first {
		t := (*v).Type
		if grows[i] >= 0 && t.Shape != nil {
			t.Shape = append(graph.Shape{}, t.Shape...)
			t.Shape[grows[i]] = body.Fresh()
		}
		ins = append(ins, *v)
		*list[i] = body.AddInput(fmt.Sprintf("carried_%d", i), t)
	}
	in.most = inner.dim(inside.tokens, 1)
	in.step(&inside, in.decodeNext(&inside), false)
	list, _ = inside.carried(cacheAxis)
	outs := []*graph.Value{in.going(&inside)}
	for _, v := range list {
		outs = append(outs, inner.call("Identity", nil, *v))
	}
	if s.every {
		outs = append(outs, inside.all[len(inside.all)-1])
	}
	body.SetOutputs(outs...)
	forgetTypes(body, "")
	label := s.n.Name + "/Loop"
	names := make([]string, len(outs)-1)
	for i := range names {
		names[i] = fmt.Sprintf("%s:%d", label, i)
	}
	n := s.g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Loop", Since: opset}, Name: label, Inputs: ins, Captures: captures, Outputs: names, Regions: []graph.Region{{Name: "body", Graph: body}}, Origins: s.n.Provenance()})
	for i, v := range n.Outputs {
		if i < len(first) {
			*first[i] = v
		} else {
			g.all = append(g.all, v)
		}
	}
	if err := graph.InferNode(n); err != nil {
		panic(fault{err})
	}
}

// going says whether there are rows that are not done.
func (s *search) going(g *generated) *graph.Value {
	left := s.cast(s.call("Not", nil, g.done), tensor.Int32)
	return s.cast(s.call("ReduceMax", attrs(graph.IntAttr("keepdims", 0)), left), tensor.Bool)
}

// decodeNext runs the decoder on the last tokens, and returns its logits.
func (s *search) decodeNext(g *generated) *graph.Value {
	decoder := s.n.Region("decoder")
	args, i := map[string]*graph.Value{}, 0
	for _, p := range decoder.Outputs {
		if rest, ok := strings.CutPrefix(p.Name, "present_"); ok {
			args["past_"+rest] = g.past[i]
			i++
		}
	}
	ids := s.unsqueeze(g.next, 1)
	if s.speaks {
		if s.rereads(decoder) {
			ids = s.sliceTo(g.tokens, 1, s.ints(0), g.length)
		}
		return s.decoded(g, "decoder", s.heard(args, ids))
	}
	one := s.full(1, s.concat(0, s.dim(g.mask, 0), s.ints(1)))
	g.mask = s.concat(1, g.mask, one)
	args["input_ids"], args["position_ids"], args["attention_mask"] = ids, g.place, g.mask
	g.place = s.sum(g.place, s.int(1))
	return s.decoded(g, "decoder", args)
}

// rereads says whether a decoder reads all tokens in each step: whether it declares other than one of them.
func (s *search) rereads(decoder *graph.Graph) bool {
	for _, p := range decoder.Inputs {
		if p.Name == "input_ids" {
			s.ranked(p, 2)
			d, ok := p.Type.Shape[1].Const()
			return !ok || d != 1
		}
	}
	return false
}
