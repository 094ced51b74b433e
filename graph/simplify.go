package graph

import (
	"context"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// Evaluator runs single operators, for constant folding.
type Evaluator interface {
	// Eval returns the results of n for inputs, nil standing for an omitted one. Results may share storage with inputs. An
	// error says that the node is not to be folded, unless ctx has ended.
	Eval(ctx context.Context, n *Node, inputs []tensor.Value) ([]tensor.Value, error)
}

// Placer is an Evaluator that can make results where they are to lie, which saves a copy of each.
type Placer interface {
	Evaluator
	// EvalInto is Eval where out returns compact host storage, of any content, for tensor result i, once its type and shape are known, or
	// nil where there is none. A result that is made elsewhere in spite of it is copied. out may be nil.
	EvalInto(ctx context.Context, n *Node, inputs []tensor.Value, out func(i int, dt tensor.DType, shape []int) (*tensor.Tensor, error)) ([]tensor.Value, error)
}

// SimplifyOptions are the settings of Simplify; nil means the defaults.
type SimplifyOptions struct {
	// Evaluator computes nodes whose operands are constants. Without one only Constant nodes become constants.
	Evaluator Evaluator
	// MaxFold bounds the bytes of the results of a node that is evaluated, and of weights that a scale is folded into; 0
	// means 64 MiB, a negative number folds nothing. A constant that is transposed may be as large as it is. Nodes whose results
	// have no known size are evaluated only where their operands bound it.
	MaxFold int64
	// Skip names passes that are left out; see SimplifyPasses.
	Skip []string
	// NewOps tells whether a fusion may bring in an operator, such as Gelu since 20 or LayerNormalization since 17. Nil
	// admits all.
	NewOps func(Op) bool
	// Rank says how well a node would be run as it stands: 0 is best. Nodes on float16 and bfloat16 compute in float32 where
	// that ranks before; nil leaves them as they are. The constants that are converted are not bounded by MaxFold.
	Rank func(*Node) int
	// Keep tells whether a DequantizeLinear of constants is to stay, since whoever will run what reads its result wants the
	// integers: folded, they would be floats of four times the size. It is asked when nothing else changes any more, and of one that
	// it does not want again whenever that is so. Nil keeps none.
	Keep func(*Node) bool
	// Chosen is called with the arm of an If of the main graph that takes its place, which from then on is run always. It must not
	// change or keep it.
	Chosen func(arm *Graph)
	// After is called after each pass that changed the graph, with the graph that it changed; an error ends Simplify. A
	// verifier fits here, or a dump.
	After func(pass string, g *Graph) error
}

// pass is one entry of the table of passes.
type pass struct {
	name string
	fn   func(*simplifier) error
}

// passes in the order in which they run. Folding comes first, since constants enable everything else, but for what need not be folded; twins are merged
// before patterns are sought, so that patterns see one value where the exporter wrote two, and after nodes were widened,
// since some patterns are of float32 alone; what patterns leave behind dies at the end. Then come the regions of the nodes
// that are left, each with the whole table of its own; all that is repeated until nothing changes.
var passes = []pass{
	{"infer-types", (*simplifier).inferTypes},
	{"lower-training", (*simplifier).lowerTraining},
	{"fold-constants", (*simplifier).foldConstants},
	{"fold-shapes", (*simplifier).foldShapes},
	{"lower-einsum", (*simplifier).lowerEinsums},
	{"part-labels", (*simplifier).partLabels},
	{"join-features", (*simplifier).joinFeatures},
	{"remove-no-ops", (*simplifier).removeNoOps},
	{"widen", (*simplifier).widen},
	{"sink-transposes", (*simplifier).sinkTransposes},
	{"part-batches", (*simplifier).partBatches},
	{"merge-views", (*simplifier).mergeViews},
	{"convolve-tokens", (*simplifier).convolveTokens},
	{"merge-twins", (*simplifier).mergeTwins},
	{"cancel-quantize", (*simplifier).cancelQuantize},
	{"sign-weights", (*simplifier).signWeights},
	{"trim-taps", (*simplifier).trimTaps},
	{"fold-batchnorm", (*simplifier).foldBatchNorms},
	{"fold-scale", (*simplifier).foldScales},
	{"merge-branches", (*simplifier).mergeBranches},
	{"fuse-groupnorm", (*simplifier).fuseGroupNorms},
	{"fuse-layernorm", (*simplifier).fuseLayerNorms},
	{"fuse-activation", (*simplifier).fuseActivations},
	{"fold-affine", (*simplifier).foldAffine},
	{"fold-pads", (*simplifier).foldPads},
	{"fold-crops", (*simplifier).foldCrops},
	{"convolve-along", (*simplifier).convolveAlong},
	{"lift-lines", (*simplifier).liftLines},
	{"remove-dead", (*simplifier).removeDead},
}

// SimplifyPasses returns the names of Simplify's passes, in order.
func SimplifyPasses() []string {
	names := make([]string, len(passes))
	for i, p := range passes {
		names[i] = p.name
	}
	return names
}

// maxRounds bounds how often the table of passes is repeated for one graph.
const maxRounds = 16

// Simplify rewrites g, and the graphs nested in it, to fewer and simpler nodes that compute the same: constants and shape
// arithmetic are folded, no-ops, twins and dead nodes removed, changes between integers and floats that cancel each other
// too, and transpositions that element-wise operators and Concats stand between, normalisation and scales folded into the weights before them, convolutions of one operand that are added merged, Einsum lowered to products, and the sequences that
// exporters write for LayerNormalization, GroupNormalization, Gelu, HardSwish, Swish, Mish and LeakyRelu replaced by the
// operator; classifiers' labels that are strings are looked up by a LabelEncoder; constant weights of uint8 become int8, and
// their zero points with them, where they are multiplied by uint8; taps of convolutions that
// see nothing but padding are taken away; tokens that are images are transposed and multiplied as images where these have fewer
// channels to move; scales of channels fold into the convolution behind them, too, where it pads nothing; nodes of half precision compute in float32 where
// SimplifyOptions.Rank wants that; convolutions pad themselves what a Pad before them does, leave out what a Slice behind them cuts off, and become such of images of one row, with what stands
// between them, where lines or whole rows or columns are convolved. Results are the same up to
// rounding, and exactly the same where only folding, removal and merging took place.
//
// Types must have been inferred; they are inferred again where they improve. Inputs and the number of outputs stay;
// outputs may become inputs, constants or dims values, and two may become one value, so that whoever needs the names of
// outputs takes them before. Provenance is kept: every name is an origin of exactly one remaining node, or in the report.
//
// Cost: a few passes of O(V+E), plus evaluation. Errors are those of inference on improved types, of ctx, of After, and of
// regions that are nested deeper than MaxRegionDepth; the graph is consistent then, but only simplified in part, and the
// report tells what vanished.
func Simplify(ctx context.Context, g *Graph, o *SimplifyOptions) (*SimplifyReport, error) {
	if g == nil {
		return &SimplifyReport{}, errNilGraph
	}
	if ctx == nil {
		ctx = context.Background()
	}
	s := &simplifier{ctx: ctx, report: &SimplifyReport{Passes: make([]PassReport, len(passes))}, states: map[*Graph]*graphState{},
		owned: map[*Node]bool{}, failed: map[*Node]bool{}, released: map[*Node]bool{},
		wide: widening{rounds: g.Meta[HalfKey] == HalfRounded, casts: map[*Node]bool{}, tensors: map[*tensor.Tensor]*tensor.Tensor{}, consts: map[*Value]*Value{}}}
	if o != nil {
		s.o = *o
	}
	if s.o.MaxFold == 0 {
		s.o.MaxFold = 64 << 20
	}
	for i, p := range passes {
		s.report.Passes[i].Name = p.name
	}
	s.bound = g.inputSymbols()
	err := s.graph(g)
	s.finish()
	return s.report, err
}

// simplifier is one call of Simplify.
type simplifier struct {
	ctx     context.Context
	o       SimplifyOptions
	report  *SimplifyReport
	bound   map[string]bool // symbols that the outermost inputs bind
	states  map[*Graph]*graphState
	g       *Graph      // the graph that passes work on
	state   *graphState // its state
	depth   int
	changes int            // counts rewrites
	owned   map[*Node]bool // nodes whose Origins are this call's own
	failed  map[*Node]bool // nodes that could not be evaluated
	wide    widening
	infers  Inference // of one node after another

	released map[*Node]bool // nodes that expand constants, which may be folded
}

// graphState is what is known of one graph between passes.
type graphState struct {
	stale  []bool // by node id: operands have changed since the types of the results were inferred
	order  []*Node
	sorted int // the value of changes when order was made, plus 1
	merged int // the value of changes when twins were last merged, plus 1
	consts int // the length of the list of constants then
}

// graph runs the table of passes on g until nothing changes.
func (s *simplifier) graph(g *Graph) error {
	if s.depth > MaxRegionDepth {
		return &VerifyError{Invariant: InvRegions, Graph: g.Name, Reason: fmt.Sprintf("regions are nested deeper than %d", MaxRegionDepth)}
	}
	outer, outerWork := s.g, s.state
	defer func() { s.g, s.state = outer, outerWork }()
	for range maxRounds {
		before := s.changes
		for i, p := range passes {
			if slices.Contains(s.o.Skip, p.name) {
				continue
			}
			if err := s.ctx.Err(); err != nil {
				return err
			}
			s.enter(g)
			start := s.changes
			if err := p.fn(s); err != nil {
				return err
			}
			s.report.Passes[i].Changes += s.changes - start
			if err := s.after(p.name, start); err != nil {
				return err
			}
		}
		s.enter(g)
		if err := s.regions(); err != nil {
			return err
		}
		if s.changes == before && !s.releaseKept() {
			break
		}
	}
	s.enter(g)
	g.Compact()
	return nil
}

// after calls the caller's After where something has changed since start.
func (s *simplifier) after(pass string, start int) error {
	if s.changes == start || s.o.After == nil {
		return nil
	}
	if err := s.o.After(pass, s.g); err != nil {
		return fmt.Errorf("after %s: %w", pass, err)
	}
	return nil
}

func (s *simplifier) enter(g *Graph) {
	s.g = g
	if s.state = s.states[g]; s.state == nil {
		s.state = &graphState{}
		s.states[g] = s.state
	}
	for len(s.state.stale) < g.NodeIDs() {
		s.state.stale = append(s.state.stale, false)
	}
}

// order returns the nodes in topological order. Nodes that were removed since are among them: each asks live.
func (s *simplifier) order() ([]*Node, error) {
	if s.state.sorted == s.changes+1 {
		return s.state.order, nil
	}
	order, err := s.g.Topo()
	if err != nil {
		return nil, err
	}
	s.state.order, s.state.sorted = order, s.changes+1
	return order, nil
}

// each calls fn for every node that is still there, in topological order, its types inferred anew where they were stale.
func (s *simplifier) each(fn func(*Node) error) error {
	order, err := s.order()
	if err != nil {
		return err
	}
	for i, n := range order {
		if i%1024 == 0 && s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		if n.graph != s.g {
			continue
		}
		if err := s.refresh(n); err != nil {
			return err
		}
		if err := fn(n); err != nil {
			return err
		}
	}
	return nil
}

// refresh infers the types of n's results where operands have changed, and passes the word on.
func (s *simplifier) refresh(n *Node) error {
	if n.ID >= len(s.state.stale) || !s.state.stale[n.ID] {
		return nil
	}
	s.state.stale[n.ID] = false
	var before [4]Value
	old := before[:0]
	for _, v := range n.Outputs {
		if v != nil {
			old = append(old, Value{Type: v.Type, Dims: v.Dims})
		}
	}
	if err := s.infers.infer(n); err != nil {
		return err
	}
	k := 0
	for _, v := range n.Outputs {
		if v == nil {
			continue
		}
		if !old[k].Type.Equal(v.Type) || !sameContent(old[k].Dims, v.Dims) {
			s.touch(v)
		}
		k++
	}
	return nil
}

func sameContent(a, b []Dim) bool {
	return (a == nil) == (b == nil) && slices.EqualFunc(a, b, Dim.Equal)
}

// touch marks the readers of v as stale.
func (s *simplifier) touch(v *Value) {
	for _, u := range v.uses {
		s.stale(u.Node)
	}
}

func (s *simplifier) stale(n *Node) {
	for n.ID >= len(s.state.stale) {
		s.state.stale = append(s.state.stale, false)
	}
	s.state.stale[n.ID] = true
}

func (s *simplifier) inferTypes() error {
	return s.each(func(*Node) error { return nil })
}

// replace makes the readers of old read v. An inner value takes over the name of an output of the outermost graph.
func (s *simplifier) replace(old, v *Value) {
	if v.Const != nil || !old.Type.Equal(v.Type) || !sameContent(old.Dims, v.Dims) {
		s.touch(old)
	}
	if old.output > 0 && v.output == 0 && v.Producer != nil && old.Name != "" {
		v.Name, old.Name = old.Name, v.Name
	}
	s.g.ReplaceUses(old, v)
	s.changes++
}

// forward removes n, whose result 0 is src, and tells that src's producer stands for it.
func (s *simplifier) forward(n *Node, src *Value) {
	out := n.Outputs[0]
	if src.Type.Kind == KindUnknown && src.Producer != nil {
		src.Type = out.Type
	}
	s.replace(out, src)
	s.vanish(n, Forwarded)
	s.g.Remove(n)
}

// onlyFirst reports whether nothing reads a result of n but result 0, which it has.
func onlyFirst(n *Node) bool {
	for i, v := range n.Outputs {
		if i > 0 && v != nil && (len(v.uses) > 0 || v.output > 0) {
			return false
		}
	}
	return n.Output(0) != nil
}
