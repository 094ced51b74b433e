package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
)

// Errors for errors.Is.
var (
	// ErrPlugin is about a library that keeps the interface badly: no table, a required function that lacks, a list that
	// cannot be.
	ErrPlugin = errors.New("bad plugin")
	// ErrVersion is about a library of another major version of the interface.
	ErrVersion = errors.New("plugin of another version")
	// ErrDeviceLost is about a processor that answers no more.
	ErrDeviceLost = errors.New("device lost")

	// ErrProcess is about a plugin that runs out of process: every *ProcessError wraps it, and one of those below.
	ErrProcess = errors.New("the plugin's process failed")
	// ErrCrashed says that the process was ended by a signal: a fault, abort, or somebody who killed it.
	ErrCrashed = errors.New("crashed")
	// ErrExited says that the plugin ended its process.
	ErrExited = errors.New("exited")
	// ErrHung says that the process did not answer in time, and was killed.
	ErrHung = errors.New("hung")
	// ErrCorrupt says that the process answered what cannot be an answer, and was killed.
	ErrCorrupt = errors.New("corrupt reply")
	// ErrLost says that what is asked for was lost with an earlier process, or that there is none at the moment: it is about to
	// be started again.
	ErrLost = errors.New("lost with its process")
	// ErrHost says that there is no program to run a plugin in: main has to call HostMain, or the option host to name one.
	ErrHost = errors.New("no program to run the plugin in")
)

// ProcessError is the failure of the process that a plugin runs in.
type ProcessError struct {
	Plugin   string // the plugin's name
	Function string // that was called, as in carve_plugin.h
	Reason   string // what became of the process

	cause error
}

// Error names plugin, function and cause.
func (e *ProcessError) Error() string {
	return fmt.Sprintf("plugin %s: %s: %v: its process %s", e.Plugin, e.Function, e.cause, e.Reason)
}

// Unwrap returns ErrProcess, the cause, and device.ErrReset, of ErrLost also device.ErrLost.
func (e *ProcessError) Unwrap() []error {
	if e.cause == ErrLost { //nolint:errorlint // it is one of the causes, unwrapped
		return []error{ErrProcess, e.cause, device.ErrReset, device.ErrLost}
	}
	return []error{ErrProcess, e.cause, device.ErrReset}
}

// causes are the errors of kinds of failures.
var causes = map[isolate.Kind]error{isolate.Crashed: ErrCrashed, isolate.Exited: ErrExited, isolate.Hung: ErrHung,
	isolate.Corrupt: ErrCorrupt, isolate.Gone: ErrLost, isolate.Refused: ErrExited}

// Error is what a function of a plugin has failed with.
type Error struct {
	Plugin   string // the plugin's name
	Function string // as in carve_plugin.h
	Status   int    // as in carve_plugin.h
	Index    int    // of the operand or node that it is about, -1 for none
	Text     string // the plugin's own words
}

// Error names plugin and function, and quotes the plugin.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plugin %s: %s: %s", e.Plugin, e.Function, status(e.Status))
	if e.Index >= 0 {
		fmt.Fprintf(&b, " (operand %d)", e.Index)
	}
	if e.Text != "" {
		fmt.Fprintf(&b, ": %q", e.Text)
	}
	return b.String()
}

// Unwrap returns the error of carve that the status stands for, nil where there is none.
func (e *Error) Unwrap() error {
	switch status(e.Status) {
	case statusOutOfMemory:
		return device.ErrOutOfMemory
	case statusRefused:
		return backend.ErrRefused
	case statusNeedsShapes:
		return graph.ErrUnbound
	case statusNeedsContiguous:
		return backend.ErrContiguous
	case statusCancelled:
		return context.Canceled
	case statusDeviceLost:
		return ErrDeviceLost
	case statusBadArgument, statusNotImplemented:
		return ErrPlugin
	case statusOK, statusPending, statusFailed:
	}
	return nil
}

// String returns the status in words.
func (s status) String() string {
	switch s {
	case statusOK:
		return "ok"
	case statusPending:
		return "pending"
	case statusFailed:
		return "failed"
	case statusNeedsContiguous:
		return "contiguous storage is needed"
	case statusRefused:
		return "refused"
	case statusOutOfMemory:
		return "out of memory"
	case statusCancelled:
		return "cancelled"
	case statusDeviceLost:
		return "device lost"
	case statusNeedsShapes:
		return "concrete shapes are needed"
	case statusBadArgument:
		return "bad argument"
	case statusNotImplemented:
		return "not implemented"
	}
	return fmt.Sprintf("status %d", int32(s))
}
