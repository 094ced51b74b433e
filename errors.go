package carve

import (
	"errors"
	"fmt"
)

// Errors for errors.Is. Typed errors of the passes (graph, partition, convert, backend, onnx) are wrapped and can be
// found with errors.As.
var (
	ErrClosed      = errors.New("program is closed")
	ErrInput       = errors.New("bad input")
	ErrOutput      = errors.New("bad output")
	ErrMemoryLimit = errors.New("more memory than Options.MaxArenaBytes")
	ErrRun         = errors.New("run failed")
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
	s := fmt.Sprintf("%v %q: %s", e.kind, e.Name, e.Problem)
	if e.Expected != "" || e.Found != "" {
		s += fmt.Sprintf(" (expected %s, found %s)", e.Expected, e.Found)
	}
	return s
}

// Unwrap returns ErrInput or ErrOutput.
func (e *InputError) Unwrap() error { return e.kind }

// StepError is a fault of one step of a run: it names the nodes of the model and the backend. It wraps ErrRun and the
// cause.
type StepError struct {
	Nodes   []string // of the model; at most eight are kept
	More    int      // nodes beyond those
	Backend string
	Err     error
}

// mostNodes is how many a StepError keeps.
const mostNodes = 8

func nodesError(nodes []string, backend string, err error) *StepError {
	kept := nodes[:min(len(nodes), mostNodes)]
	return &StepError{Nodes: kept, More: len(nodes) - len(kept), Backend: backend, Err: err}
}

// Error names nodes, backend and cause.
func (e *StepError) Error() string {
	list := nodeList(e.Nodes)
	if e.More > 0 && len(e.Nodes) > 0 {
		list = fmt.Sprintf("%q … %q and %d more", e.Nodes[0], e.Nodes[len(e.Nodes)-1], e.More)
	}
	return fmt.Sprintf("%v: node %s on %s: %v", ErrRun, list, e.Backend, e.Err)
}

// Unwrap returns ErrRun and the cause.
func (e *StepError) Unwrap() []error { return []error{ErrRun, e.Err} }

// PassError is a fault of a pass of the compiler.
type PassError struct {
	Pass string
	Err  error
}

// Error names the pass and the cause.
func (e *PassError) Error() string { return fmt.Sprintf("pass %s: %v", e.Pass, e.Err) }

// Unwrap returns the cause.
func (e *PassError) Unwrap() error { return e.Err }

func nodeList(names []string) string {
	switch len(names) {
	case 0:
		return "(none)"
	case 1:
		return fmt.Sprintf("%q", names[0])
	}
	return fmt.Sprintf("%q … %q (%d nodes)", names[0], names[len(names)-1], len(names))
}
