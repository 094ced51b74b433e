package carve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/measurements"
	"github.com/carve-dev/carve/internal/plan"
	"github.com/carve-dev/carve/internal/single"
	"github.com/carve-dev/carve/internal/tune"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// Who runs what: the ways to choose, and what is reported of the choice.

// choose returns who decides among backends.
func (c *compilation) choose() (_ partition.Chooser, err error) {
	if c.chooser != nil {
		return c.chooser, nil
	}
	switch {
	case c.told != nil:
		c.chooser, err = c.told(c)
	case c.o.Placement == Measured:
		c.chooser, err = c.measured()
	case c.o.Placement == Modelled || c.o.Placement == Automatic && c.rivals():
		c.chooser = c.modelled(nil)
	default:
		c.chooser = partition.Priority{}
	}
	return c.chooser, err
}

// modelled returns who chooses by modelled times, or by those that are known better.
func (c *compilation) modelled(times partition.Times) *partition.Modelled {
	return &partition.Modelled{Launches: partition.Launches(c.backends, c.o.Threads), Budget: c.o.Budget, Times: times}
}

// rivals reports whether two or more backends take part beside that of last resort, all of which say what they achieve.
func (c *compilation) rivals() bool {
	n := 0
	for _, b := range c.backends {
		info := b.Info()
		switch {
		case info.Oracle:
		case info.Efficiency == nil:
			return false
		default:
			n++
		}
	}
	return n > 1
}

// measured reads who chooses from the cache.
func (c *compilation) measured() (partition.Chooser, error) {
	cache, err := c.o.openCache()
	if err != nil {
		return nil, err
	}
	host := c.host()
	if choice := readChoice(cache, c.identity(), c.o.Logger); choice != nil {
		chooser, err := c.whole(choice.Whole, choice)
		if err == nil {
			c.times = func() partition.Times { return tune.NewLookup(host, choice, nil) }
			c.tuned = tunedReport(choice, c.o.Bounds)
			return chooser, nil
		}
		c.o.Logger.WarnContext(c.ctx, "a choice in the cache is ignored", "error", err)
	}
	c.tuned = &TunedReport{}
	c.o.Logger.WarnContext(c.ctx, "the model is not tuned with these options: times that were not measured are modelled")
	c.times = func() partition.Times { return tune.NewLookup(host, nil, cache) }
	return c.modelled(c.times()), nil
}

// wholes names what is compared as a whole: of equal ones the first counts.
func wholes(list []backend.Backend) []string {
	names := []string{"priority"}
	for _, b := range list {
		if info := b.Info(); !info.Oracle {
			names = append(names, "alone "+info.Name)
		}
	}
	names = append(names, "measured", "modelled")
	for i, b := range list {
		if info := b.Info(); i > 0 && !info.Oracle {
			names = append(names, "first "+info.Name)
		}
	}
	return names
}

// whole returns who chooses in a whole of that name.
func (c *compilation) whole(name string, choice *tune.Choice) (partition.Chooser, error) {
	m := c.modelled(nil)
	kind, of, _ := strings.Cut(name, " ")
	first := slices.IndexFunc(c.backends, func(b backend.Backend) bool { return b.Info().Name == of })
	switch {
	case kind == "priority":
		return partition.Priority{}, nil
	case kind == "modelled":
		return m, nil
	case kind == "measured":
		m.Times = tune.NewLookup(c.host(), choice, nil)
		return m, nil
	case first >= 0 && (kind == "first" || kind == "alone"):
		order := []int{first}
		for i, b := range c.backends {
			if i != first && (kind == "first" || b.Info().Oracle) {
				order = append(order, i)
			}
		}
		return partition.Priority{Order: order}, nil
	}
	return nil, fmt.Errorf("%w: choice %q", measurements.ErrEntry, name)
}

// readChoice returns what was found best; nil where nothing was, or what cannot be read.
func readChoice(cache *measurements.Cache, about string, log *slog.Logger) *tune.Choice {
	text, ok := cache.Note(about)
	if !ok {
		return nil
	}
	choice, err := tune.ParseChoice(text)
	if err != nil {
		log.Warn("a choice in the cache is ignored", "error", err)
		return nil
	}
	return choice
}

// TunedReport says what is run by measured times.
type TunedReport struct {
	// Choice is the fastest way to choose: "priority", "modelled", "measured", which is by cost with measured times, "alone NAME",
	// one backend and those that run what it does not, or "first NAME", which is priority with another backend at the front. It is
	// "" where the model has not been tuned with these options.
	Choice string `json:"choice"`
	// Runs are the times of all that were compared, the fastest first: where several values of symbols were measured, in geometric
	// mean over Points.
	Runs []TunedRun `json:"runs,omitempty"`
	// Dims are the values of open symbols for which it was measured, where each has one.
	Dims map[string]int64 `json:"dims,omitempty"`
	// Ranges are the values of these symbols for which it is taken to hold: all up to their bounds (Options.Bounds).
	Ranges map[string]TunedRange `json:"ranges,omitempty"`
	// Points are the combinations of values for which it was measured, where there are several (TuneOptions.Dims).
	Points []TunedPoint `json:"points,omitempty"`
}

// TunedPoint is one of several combinations of values for which a choice was measured.
type TunedPoint struct {
	Dims map[string]int64 `json:"dims"`
	// Ranges are the values for which this measurement is taken to hold: those that are nearer to these, in ratio, than to others that
	// were measured.
	Ranges map[string]TunedRange `json:"ranges"`
	Runs   []TunedRun            `json:"runs"` // the fastest there first
}

// Held lists the values of open symbols that were measured, with those for which each is taken to hold, by symbol and value: "N = 8,
// for 3 to 16".
func (r *TunedReport) Held() (list []string) {
	values, ranges := map[string][]int64{}, map[string]map[int64]TunedRange{}
	for _, p := range append([]TunedPoint{{Dims: r.Dims, Ranges: r.Ranges}}, r.Points...) {
		for name, n := range p.Dims {
			if ranges[name] == nil {
				ranges[name] = map[int64]TunedRange{}
			}
			if _, known := ranges[name][n]; !known {
				values[name] = append(values[name], n)
			}
			ranges[name][n] = p.Ranges[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, n := range slices.Sorted(slices.Values(values[name])) {
			list = append(list, fmt.Sprintf("%s = %d, for %v", name, n, ranges[name][n]))
		}
	}
	return list
}

// TunedRange are values of a symbol: from Least to Most, or all from Least on where Most is 0.
type TunedRange struct {
	Least int64 `json:"least"`
	Most  int64 `json:"most,omitempty"`
}

// String returns "1 to 512", or "1 and more".
func (r TunedRange) String() string {
	if r.Most == 0 {
		return fmt.Sprintf("%d and more", r.Least)
	}
	return fmt.Sprintf("%d to %d", r.Least, r.Most)
}

// TunedRun is how long a run takes that is chosen in some way: the lower quartile of what was seen, and the standard error of the least.
type TunedRun struct {
	Choice      string  `json:"choice"`
	Nanoseconds float64 `json:"nanoseconds"`
	Noise       float64 `json:"noise_nanoseconds"`
}

func tunedReport(c *tune.Choice, bounds map[string]int) *TunedReport {
	r := &TunedReport{Choice: c.Whole, Runs: tunedRuns(c.Overall())}
	for i := range c.Points {
		at := &c.Points[i]
		p := TunedPoint{Runs: tunedRuns(at.Runs)}
		if len(at.At) > 0 {
			p.Dims, p.Ranges = at.At, map[string]TunedRange{}
		}
		for name, n := range at.At {
			p.Ranges[name] = tunedRange(n, c.Values(name), bounds[name])
		}
		if len(c.Points) == 1 {
			r.Dims, r.Ranges = p.Dims, p.Ranges
		} else {
			r.Points = append(r.Points, p)
		}
	}
	return r
}

// tunedRange returns the values for which a measurement at n is taken to hold, among others of a symbol that were measured.
func tunedRange(n int64, values []int64, bound int) TunedRange {
	r := TunedRange{Least: min(n, 1), Most: int64(bound)}
	at := slices.Index(values, n)
	if at > 0 {
		r.Least = tune.Between(values[at-1], n) + 1
	}
	if at+1 < len(values) {
		r.Most = tune.Between(n, values[at+1])
	}
	return r
}

func tunedRuns(list []tune.Run) (out []TunedRun) {
	for _, x := range list {
		out = append(out, TunedRun{Choice: x.Whole, Nanoseconds: x.Nanos, Noise: x.Noise})
	}
	return out
}

// measuredFacts tell where measurements were taken, and for which values of symbols they are taken to hold: as the plan that was
// applied says, or else tuning.
func (p *Program) measuredFacts() (list []plan.Fact) {
	if p.o.Plan != nil {
		return slices.DeleteFunc(slices.Clone(p.o.Plan.of().Facts), func(f plan.Fact) bool { return f.Key != measuredFact })
	}
	r := p.tuned
	if r == nil {
		return nil
	}
	for _, held := range r.Held() {
		list = append(list, plan.Fact{Key: measuredFact, Value: "at " + held})
	}
	return list
}

// PlacementReport says what the choice by cost comes to, over all graphs that were partitioned: the modelled nanoseconds of a run,
// conversions and launches included, and a bound that no choice is below. Symbols count with their bound (Options.Bounds), or else
// with an assumed size; loop bodies once.
type PlacementReport struct {
	Nanoseconds float64 `json:"nanoseconds"`
	Bound       float64 `json:"bound_nanoseconds"`
	// Corrected is the time of what was taken when groups were known, with launches counted by them: Regrouped groups were given
	// to other backends then, since they did not earn their launch and conversions. Both are 0 for a plan that was saved.
	Corrected float64 `json:"corrected_nanoseconds,omitempty"`
	Regrouped int     `json:"regrouped,omitempty"`
	// Rivals are the plans for the main graph that the choice was compared with: none takes less than what was taken.
	Rivals []RivalReport `json:"rivals,omitempty"`
}

// RivalReport is a plan in which one backend has every node that it takes by itself: its modelled time, launches counted by groups.
type RivalReport struct {
	Backend     string  `json:"backend"`
	Nanoseconds float64 `json:"nanoseconds"`
}

// with adds the choice for a graph; nil stands for none.
func (r *PlacementReport) with(p *partition.Placement, main bool) *PlacementReport {
	if p == nil {
		return r
	}
	if r == nil {
		r = &PlacementReport{}
	}
	r.Nanoseconds += p.Nanoseconds
	r.Bound += p.Bound
	r.Corrected += p.Corrected
	r.Regrouped += p.Regrouped
	for _, x := range p.Rivals {
		if main {
			r.Rivals = append(r.Rivals, RivalReport(x))
		}
	}
	return r
}

// nodeTimes returns the times of nodes alone.
func nodeTimes(t partition.Times) func(n *graph.Node, backend string, sig *graph.Signature) float64 {
	return func(n *graph.Node, backend string, sig *graph.Signature) float64 { return t.Node(n, backend, sig, 0) }
}

// keeps reports whether a DequantizeLinear of constants stays: each backend that may have what reads its result, but for that of last
// resort, reads the integers.
func (c *compilation) keeps(n *graph.Node) bool {
	some := false
	for _, u := range n.Outputs[0].Uses() {
		for _, b := range c.backends {
			info := b.Info()
			if info.Oracle || property.Allowed(c.o.Pins, u.Node, info.Name) != nil {
				continue
			}
			r, ok := b.(backend.IntegerReader)
			if !ok || !c.mayHaveOperands(u.Node, info.Name) || !r.ReadsIntegers(u.Node, u.Slot) {
				return false
			}
			some = true
		}
	}
	return some
}

// mayHaveOperands reports whether a backend may have the nodes that dequantise the operands of n.
func (c *compilation) mayHaveOperands(n *graph.Node, name string) bool {
	return !slices.ContainsFunc(n.Inputs, func(v *graph.Value) bool {
		return v != nil && v.Producer != nil && v.Producer.Is("DequantizeLinear") && property.Allowed(c.o.Pins, v.Producer, name) != nil
	})
}

// rank returns the place, in the list, of the first backend that may have a node and takes it as it stands.
func (c *compilation) rank(n *graph.Node) int {
	for i, b := range c.backends {
		if property.Allowed(c.o.Pins, n, b.Info().Name) == nil && b.Supports(n).Reason == nil {
			return i
		}
	}
	return len(c.backends)
}

// One operator at a time: programs of one node, on backends that are open already.

// evaluated is how many operators an Evaluator keeps where Options.MaxSpecializations does not say.
const evaluated = 256

// Evaluator runs one operator at a time: for eager use, and to try a kernel. Each call's operator is compiled like a model of one
// node, once for its attributes, types and shapes, and kept. It is safe for concurrent use.
type Evaluator struct {
	o      Options
	opened opened
	cache  *single.Cache[*Program]
}

// NewEvaluator opens the backends of the options, which mean what they mean to Compile, but that MaxSpecializations bounds the
// operators that are kept compiled, 256 where it is 0: the one that was used longest ago goes first. Close it.
func NewEvaluator(o *Options) (*Evaluator, error) {
	e := &Evaluator{o: o.withDefaults()}
	most := evaluated
	if o != nil && o.MaxSpecializations > 0 {
		most = o.MaxSpecializations
	}
	list, opened, err := e.o.openBackends()
	if err != nil {
		opened.close()
		return nil, err
	}
	e.opened = opened
	options := map[string]map[string]string{}
	for _, c := range e.o.Backends {
		options[c.Name] = c.Options
	}
	e.o.Backends, e.o.Open, e.o.Devices, e.o.Plugins = nil, map[string]backend.Backend{}, nil, nil
	for _, b := range list {
		name := b.Info().Name
		e.o.Open[name] = b
		e.o.Backends = append(e.o.Backends, backend.Config{Name: name, Options: options[name]})
	}
	e.o.MaxSpecializations = 1
	e.cache = single.NewCache(most, func(ctx context.Context, g *graph.Graph) (*Program, error) { return Compile(ctx, FromGraph(g), &e.o) })
	return e, nil
}

// Eval returns the results of an operator: "Add", or of another domain than ONNX's own "com.microsoft.Gelu", of the newest version
// that is known. Inputs are in its order, nil for an optional one that is left out. It gives the results that the operator has in any
// case, and where their number is open as many as num_outputs or the second input say; EvalInto may ask for optional ones.
//
// Errors are those of Compile and Run, wrapping ErrInput for an operator that is not known, or not with these inputs or results;
// ErrClosed after Close.
func (e *Evaluator) Eval(ctx context.Context, op string, attrs []graph.Attr, inputs []*tensor.Tensor) ([]tensor.Value, error) {
	ctx = background(ctx)
	call := single.Call{Op: op, Attrs: attrs, Inputs: inputs}
	x, err := e.acquire(ctx, &call)
	if err != nil {
		return nil, err
	}
	defer e.cache.Release(x)
	feeds, k := map[string]tensor.Value{}, 0
	for i, t := range inputs {
		if x.Call.Runtime(i) {
			feeds[x.Graph.Inputs[k].Name] = t
			k++
		}
	}
	out, err := x.Program.Run(ctx, feeds)
	if err != nil {
		return nil, err
	}
	results := make([]tensor.Value, len(x.Graph.Outputs))
	for i, v := range x.Graph.Outputs {
		results[i] = out[v.Name]
	}
	return results, nil
}

// EvalInto computes into tensors of the caller's, like Program.RunInto: one per result that is wanted, nil for one before it that is
// not. A call with attributes, types and shapes that were there before allocates nothing, unless small inputs decide shapes, like
// those of Reshape. Errors are those of Eval, and ErrOutput.
func (e *Evaluator) EvalInto(ctx context.Context, op string, attrs []graph.Attr, inputs, outputs []*tensor.Tensor) error {
	ctx = background(ctx)
	call := single.Call{Op: op, Attrs: attrs, Inputs: inputs, Outputs: len(outputs)}
	x, err := e.acquire(ctx, &call)
	if err != nil {
		return err
	}
	defer e.cache.Release(x)
	if len(x.Graph.Inputs) < len(inputs) {
		var given []*tensor.Tensor
		for i, t := range inputs {
			if x.Call.Runtime(i) {
				given = append(given, t)
			}
		}
		inputs = given
	}
	return x.Program.RunInto(ctx, inputs, outputs)
}

// acquire returns the program of a call.
func (e *Evaluator) acquire(ctx context.Context, call *single.Call) (*single.Entry[*Program], error) {
	if e == nil || e.cache == nil {
		return nil, ErrClosed
	}
	x, err := e.cache.Acquire(ctx, call)
	switch {
	case err == nil:
		return x, nil
	case errors.Is(err, single.ErrClosed):
		return nil, ErrClosed
	case errors.Is(err, single.ErrCall):
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	return nil, err
}

// Close frees what was compiled and closes the backends; no call may be under way. Closing twice does nothing.
func (e *Evaluator) Close() error {
	if e == nil || e.cache == nil {
		return nil
	}
	if e.cache.Close() {
		e.opened.close()
	}
	return nil
}
