package dag

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrSize is the cause for lists whose lengths do not fit the graph, or a graph beyond 2³¹−2 nodes or edges.
	ErrSize = errors.New("size does not fit")
	// ErrRange is the cause for a node, colour, bound or group number outside its range.
	ErrRange = errors.New("number out of range")
	// ErrCycle is the cause for a graph, or a quotient, that has a cycle.
	ErrCycle = errors.New("cycle")
	// ErrColor is the cause for a group whose nodes are not all of its colour, or a host group with several nodes.
	ErrColor = errors.New("group mixes colours")
	// ErrEmpty is the cause for a group without nodes.
	ErrEmpty = errors.New("group is empty")
	// ErrBound is the cause for a group that crosses a bound.
	ErrBound = errors.New("group crosses a bound")
	// ErrCut is the cause for a group with both ends of a cut edge.
	ErrCut = errors.New("group holds both ends of a cut edge")
	// ErrAlone is the cause for a group that joins a node that must be alone with others.
	ErrAlone = errors.New("node must be alone in its group")
	// ErrConnected is the cause for a group in several parts where its colour asks for connected ones.
	ErrConnected = errors.New("group is not connected")
)

// maxListed is how many nodes an error names.
const maxListed = 8

// Error says what is wrong with a problem or a grouping. It unwraps to one of the sentinels.
type Error struct {
	Op    string  // "new graph", "group" or "verify"
	What  string  // the list at fault ("bounds", …), "" where there is none
	Group int     // verify: the group at fault
	Node  int32   // the node at fault, or -1
	Cycle []int32 // the nodes (verify: the groups) of one cycle, in order, at most 8
	Err   error
}

// Error names the operation, the subject and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dag: %s: ", e.Op)
	if e.What != "" {
		fmt.Fprintf(&b, "%s: ", e.What)
	}
	if e.Op == "verify" && e.Cycle == nil && e.What == "" {
		fmt.Fprintf(&b, "group %d: ", e.Group)
	}
	if e.Node >= 0 {
		fmt.Fprintf(&b, "node %d: ", e.Node)
	}
	b.WriteString(e.Err.Error())
	for i, v := range e.Cycle {
		sep := " → "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%d", sep, v)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// cycleError lists a cycle, capped.
func cycleError(op string, nodes []int32) *Error {
	return &Error{Op: op, Node: -1, Cycle: nodes[:min(len(nodes), maxListed)], Err: ErrCycle}
}
