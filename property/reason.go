package property

import "fmt"

// Code is the kind of a Reason.
type Code string

// The reasons for which a node is not on a backend, or not in a claim.
const (
	Unsupported    Code = "unsupported"     // the backend has no kernel for the operator
	Version        Code = "version"         // not for this version of the operator
	DTypeReason    Code = "dtype"           // not for these element types
	ShapeReason    Code = "shape"           // not for these shapes
	DynamicShape   Code = "dynamic-shape"   // the shape depends on data
	Attribute      Code = "attribute"       // not for this value of an attribute
	Layout         Code = "layout"          // not for these layouts
	Priority       Code = "priority"        // a backend earlier in the list has it
	Dearer         Code = "cost"            // the choice by cost found that it costs less elsewhere
	Pinned         Code = "pinned"          // the user pinned the node elsewhere, or excluded it
	NotSelected    Code = "not-selected"    // a property that limits what the backend takes did not choose it
	Cycle          Code = "cycle"           // taking the node would make groups depend on each other
	Veto           Code = "veto"            // a property or backend turned the finished set down
	TooSmall       Code = "too-small"       // the set is too small, or does not earn its boundary
	NoConverter    Code = "no-converter"    // nobody converts from or to a format that the backend works in
	CompileFailed  Code = "compile-failed"  // the group did not compile
	HostScheduled  Code = "host-scheduled"  // control flow, sequences, optionals and maps run in the host scheduler
	Unavailable    Code = "unavailable"     // the backend's library is absent
	SpecializeFail Code = "specialize-fail" // the group was refused for concrete shapes
	RunFailed      Code = "run-failed"      // the group failed at run time, and was run again by the reference kernels
)

// Reason says why a node is not on a backend.
type Reason struct {
	Code     Code
	Property string // the property that turned the node down, "" where it was the backend
	Detail   string // whole words: what was expected and what was found
}

// Because returns a Reason with a formatted detail.
func Because(code Code, format string, args ...any) *Reason {
	return &Reason{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// String returns "code (property): detail".
func (r *Reason) String() string {
	if r == nil {
		return ""
	}
	s := string(r.Code)
	if r.Property != "" {
		s += " (" + r.Property + ")"
	}
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	return s
}

// Error makes a Reason usable as an error.
func (r *Reason) Error() string { return r.String() }
