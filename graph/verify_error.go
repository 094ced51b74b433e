package graph

import (
	"fmt"
	"strings"
)

// Invariant numbers a rule that every graph keeps between passes. The package documentation lists them.
type Invariant int

// The invariants, by what they speak of.
const (
	InvNodes     Invariant = iota + 1 // 1: the node list
	InvValues                         // 2: the lists of values
	InvSSA                            // 3: definitions
	InvOperands                       // 4: operands
	InvUses                           // 5: use lists
	InvOutputs                        // 6: graph outputs
	InvAcyclic                        // 7: acyclic
	InvAttrs                          // 8: attributes
	InvRegions                        // 9: regions and captures
	InvConstants                      // 10: constants
	InvDims                           // 11: known contents
	InvSchema                         // 12: schemas
	InvFormats                        // 13: formats
)

var invariantNames = [...]string{
	InvNodes: "nodes", InvValues: "values", InvSSA: "ssa", InvOperands: "operands", InvUses: "uses", InvOutputs: "outputs",
	InvAcyclic: "acyclic", InvAttrs: "attrs", InvRegions: "regions", InvConstants: "constants", InvDims: "dims",
	InvSchema: "schema", InvFormats: "formats",
}

// String returns the invariant's name, such as "uses".
func (i Invariant) String() string {
	if i > 0 && int(i) < len(invariantNames) {
		return invariantNames[i]
	}
	return fmt.Sprintf("invariant(%d)", int(i))
}

// VerifyError reports the first violation of an invariant that Verify found.
type VerifyError struct {
	Invariant Invariant
	Graph     string // the graph's name; a region's with its owners: main/if1/then_branch
	Node      string // operator and label of the node, "" where the fault is not a node's
	Value     string // name of the value, "" where the fault is not a value's
	Reason    string
	Err       error // the cause, nil where there is no other error
}

// Error returns `graph "main": node Add "a": value x: invariant 5 (uses): …`.
func (e *VerifyError) Error() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "graph %q: ", capped(e.Graph))
	if e.Node != "" {
		sb.WriteString("node " + plain(capped(e.Node)) + ": ")
	}
	if e.Value != "" {
		sb.WriteString("value " + plain(capped(e.Value)) + ": ")
	}
	fmt.Fprintf(&sb, "invariant %d (%v)", int(e.Invariant), e.Invariant)
	if e.Reason != "" {
		sb.WriteString(": " + e.Reason)
	}
	if e.Err != nil {
		sb.WriteString(": " + e.Err.Error())
	}
	return sb.String()
}

// Unwrap returns the cause.
func (e *VerifyError) Unwrap() error { return e.Err }
