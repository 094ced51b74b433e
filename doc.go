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
	"errors"
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/exec"
)

// Errors for errors.Is. Typed errors of the passes (graph, partition, convert, backend, onnx) are wrapped and can be
// found with errors.As.
var (
	ErrClosed      = exec.ErrClosed
	ErrInput       = exec.ErrInput
	ErrOutput      = exec.ErrOutput
	ErrMemoryLimit = exec.ErrMemoryLimit
	ErrRun         = exec.ErrRun
	ErrCompile     = errors.New("group does not compile")
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

// PassError is a fault of a pass of the compiler.
type PassError struct {
	Pass string
	Err  error
}

// Error names the pass and the cause.
func (e *PassError) Error() string { return fmt.Sprintf("pass %s: %v", e.Pass, e.Err) }

// Unwrap returns the cause.
func (e *PassError) Unwrap() error { return e.Err }

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
