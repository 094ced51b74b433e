// Package carve compiles deep-learning models for several processors at once. It carves the graph of a model into
// subgraphs, each owned by one backend; puts explicit layout and device conversions on the edges between them; plans the
// memory of every subgraph and of the whole; and hands each subgraph to native kernels.
//
// A model is opened with Open, OpenFS or Parse, compiled with Compile, and run with Program.Run or, without allocations,
// Program.RunInto:
//
//	m, err := carve.Open(ctx, "model.onnx")
//	p, err := carve.Compile(ctx, m, nil)
//	out, err := p.Run(ctx, map[string]tensor.Value{"image": tensor.From(pixels, 1, 3, 224, 224)})
//
// Two backends are always linked, see Options.Backends. Others register themselves from init, like database/sql drivers, or
// are handed over in Options.Open. Options.Backends names them in order of priority: earlier wins.
//
// Options.Placement says how backends are chosen: by that order, by modelled cost, or as Tune has measured on this machine. An
// Evaluator runs single operators without a model.
//
// A Batcher takes the calls of many callers in a Program's place, and runs them together where that can be done.
//
// Program.Report tells how a model was carved: groups, conversions with their bytes, the memory plan of each device, and
// for each node the reasons why it is not on a backend that was asked for it.
//
// A Program is immutable and safe for concurrent use. It is generic in the symbols of its input shapes (a batch size, a
// sequence length): what concrete shapes need is made at their first run and kept. The same model and options give the same
// plan, and the same inputs the same outputs for every number of threads.
//
// A model file is untrusted: faults are typed errors that name file, node and value. What the file itself says wrong is found
// in every node. Data of a run are looked at where they are used: a node whose result nobody needs, or of which only the shape
// is asked and known, is removed, as ONNX Runtime does, and what would be wrong in it alone is no error. The package uses no cgo.
package carve

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/exec"
	"github.com/carve-dev/carve/internal/single"
)

// InputError names an input of a Run, or an output of RunInto, that is missing, unknown, of the wrong type or shape, or
// overlapping. It wraps ErrInput or ErrOutput.
type InputError struct {
	Name     string
	Problem  string
	Expected string // "" where it does not apply
	Found    string
	kind     error
}

// Error names input, problem, expected and found.
func (e *InputError) Error() string {
	return (&exec.PortError{Name: e.Name, Problem: e.Problem, Expected: e.Expected, Found: e.Found, Kind: e.kind}).Error()
}

// Unwrap returns ErrInput or ErrOutput.
func (e *InputError) Unwrap() error { return e.kind }

// StepError is a fault of one step of a run, or of the group that would become one when it is compiled: it names the nodes of
// the model and the backend. It wraps ErrRun or ErrCompile, and the cause.
type StepError struct {
	Nodes   []string // of the model; at most eight are kept
	More    int      // nodes beyond those
	Backend string
	Err     error
	Kind    error // ErrCompile; nil means ErrRun
}

// compileError is the fault of a group that a backend does not compile, or that cannot be reached there.
func compileError(nodes []string, backend string, err error) *StepError {
	e := (*StepError)(exec.BlameNodes(nodes, backend, err))
	e.Kind = ErrCompile
	return e
}

// Error names nodes, backend and cause.
func (e *StepError) Error() string { return (*exec.StepError)(e).Error() }

// Unwrap returns ErrRun or ErrCompile, and the cause.
func (e *StepError) Unwrap() []error { return (*exec.StepError)(e).Unwrap() }

// public returns an error of the run time as the package's own.
func public(err error) error {
	if err == nil {
		return nil
	}
	var step *exec.StepError
	var port *exec.PortError
	switch {
	case errors.As(err, &step):
		return worded(err, step, (*StepError)(step))
	case errors.As(err, &port):
		return worded(err, port, &InputError{Name: port.Name, Problem: port.Problem, Expected: port.Expected, Found: port.Found, kind: port.Kind})
	}
	return err
}

// worded returns the package's error own for the part inner of err, with the words that err has around it.
func worded(err, inner, own error) error {
	if before, found := strings.CutSuffix(err.Error(), inner.Error()); found && before != "" {
		return fmt.Errorf("%s%w", before, own)
	}
	return own
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
