package carve

import (
	"context"
	"errors"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/single"
)

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
