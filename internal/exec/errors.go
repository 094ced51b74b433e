package exec

import (
	"errors"
	"fmt"
)

// Errors for errors.Is.
var (
	ErrClosed      = errors.New("program is closed")
	ErrInput       = errors.New("bad input")
	ErrOutput      = errors.New("bad output")
	ErrMemoryLimit = errors.New("more memory than Options.MaxArenaBytes or DeviceLimits allow")
	ErrRun         = errors.New("run failed")
)

// PortError names an input or output that is missing, unknown, of the wrong type or shape, or overlapping.
type PortError struct {
	Name     string
	Problem  string
	Expected string // "" where it does not apply
	Found    string
	Kind     error // ErrInput or ErrOutput
}

// Error names input, problem, expected and found.
func (e *PortError) Error() string {
	s := fmt.Sprintf("%v %q: %s", e.Kind, e.Name, e.Problem)
	switch {
	case e.Expected == "" && e.Found != "":
		s += fmt.Sprintf(" (found %s)", e.Found)
	case e.Expected != "":
		s += fmt.Sprintf(" (expected %s, found %s)", e.Expected, e.Found)
	}
	return s
}

// Unwrap returns ErrInput or ErrOutput.
func (e *PortError) Unwrap() error { return e.Kind }

// StepError is a fault of one step: it names the nodes of the model and the backend. It wraps its kind and the cause.
type StepError struct {
	Nodes   []string // of the model; at most eight are kept
	More    int      // nodes beyond those
	Backend string
	Err     error
	Kind    error // what failed; nil means ErrRun
}

// hostName stands for a backend where the host scheduler runs a node.
const hostName = "host"

// mostNodes is how many a StepError keeps.
const mostNodes = 8

// BlameNodes returns the fault of nodes of the model on a backend.
func BlameNodes(nodes []string, backend string, err error) *StepError {
	kept := nodes[:min(len(nodes), mostNodes)]
	return &StepError{Nodes: kept, More: len(nodes) - len(kept), Backend: backend, Err: err}
}

// Error names nodes, backend and cause.
func (e *StepError) Error() string {
	list := nodeList(e.Nodes)
	if e.More > 0 && len(e.Nodes) > 0 {
		list = fmt.Sprintf("%q … %q and %d more", e.Nodes[0], e.Nodes[len(e.Nodes)-1], e.More)
	}
	return fmt.Sprintf("%v: node %s on %s: %v", e.Unwrap()[0], list, e.Backend, e.Err)
}

// Unwrap returns the kind and the cause.
func (e *StepError) Unwrap() []error {
	if e.Kind != nil {
		return []error{e.Kind, e.Err}
	}
	return []error{ErrRun, e.Err}
}

// nodeList names nodes in a message: the first, the last, and how many.
func nodeList(names []string) string {
	switch len(names) {
	case 0:
		return "(none)"
	case 1:
		return fmt.Sprintf("%q", names[0])
	}
	return fmt.Sprintf("%q … %q (%d nodes)", names[0], names[len(names)-1], len(names))
}

// stepError blames a step for an error, unless that blames one already.
func stepError(st *Step, err error) error {
	var inner *StepError
	if errors.As(err, &inner) {
		return err
	}
	name, nodes := st.Node.Backend, st.Node.Provenance()
	switch st.Kind {
	case StepHost:
		name = hostName
	case StepConvert:
		nodes = []string{st.Node.Inputs[0].String()}
	case StepGroup:
	}
	if name == "" {
		name = "convert"
	}
	return BlameNodes(nodes, name, err)
}
