package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/carve-dev/carve/backend"
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
)

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
