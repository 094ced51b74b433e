// Package picture turns a compiled program into what people look at: the graph of what runs, with groups that hold nodes, what
// every backend of the list says of each, conversions, memory and a measured run, all linked. A Document is written as JSON,
// as DOT, or as one HTML file that needs nothing else.
//
// Names come from models, which nobody trusts: they are data in every format, cut to a bounded length, and nothing of them is
// ever part of a script, a style or a tag.
package picture

// Version is that of a Document's JSON. Fields that are added do not change it.
const Version = 1

// Document is what is known of a compiled program. Nodes, scopes and buffers refer to each other by index; -1 stands for none.
type Document struct {
	Version  int       `json:"version"`
	Model    string    `json:"model"`
	Backends []Backend `json:"backends"` // in the order of the list
	Facts    []Fact    `json:"facts"`
	Nodes    []Node    `json:"nodes"`
	Scopes   []Scope   `json:"scopes"` // the main graph first
	Folded   []Folded  `json:"folded"`
	Arenas   []Arena   `json:"arenas"`
	Run      *Run      `json:"run,omitempty"` // nil where none was measured

	rejected map[string][]Rejection // by node of the model
}

// Backend is one of the list.
type Backend struct {
	Name      string `json:"name"`
	Version   string `json:"version,omitempty"`
	Processor string `json:"processor,omitempty"`
}

// Fact is a line at the head of a report.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Kinds of nodes.
const (
	KindOp      = "op"      // an operator, or several that are fused
	KindConvert = "convert" // a change of format, in a group or between groups
	KindHost    = "host"    // the host scheduler's: control flow, sequences, optionals and maps
	KindGroup   = "group"   // what one backend runs as a whole
	KindRegion  = "region"  // a branch, or the body of a loop
	KindInput   = "input"   // what a scope reads
	KindOutput  = "output"  // what it makes
)

// Node is something that is drawn.
type Node struct {
	Kind    string `json:"kind"`
	Label   string `json:"label"` // operator or pattern, or what it is
	Name    string `json:"name"`  // the first of the model's nodes, or that of a value; "" for groups
	Backend string `json:"backend,omitempty"`
	Device  string `json:"device,omitempty"` // "" for the host
	Group   int    `json:"group"`            // id of the group, or of the host scheduler's node, as in reports
	Scope   int    `json:"scope"`            // that it stands in
	Inside  int    `json:"inside"`           // the scope that it holds
	// Nodes are the model's that it stands for; of a group all that it runs.
	Nodes []string `json:"nodes,omitempty"`
	// Property is that which fused the nodes.
	Property string   `json:"property,omitempty"`
	Attrs    []string `json:"attrs,omitempty"`
	Inputs   []Value  `json:"inputs,omitempty"` // constants included
	Outputs  []Value  `json:"outputs,omitempty"`
	// Nanoseconds are modelled, of a conversion; those of operators are the chosen candidate's. 0 is not known.
	Nanoseconds float64     `json:"nanoseconds,omitempty"`
	Bytes       int64       `json:"bytes,omitempty"` // that a conversion reads
	Via         string      `json:"via,omitempty"`   // who converts
	Candidates  []Candidate `json:"candidates,omitempty"`
}

// Candidate is what a backend of the list is for a node: chosen, or not for these reasons. Nanoseconds are modelled, of the node by
// itself, with neither conversions nor the launch of a group; 0 where the backend cannot run it or names no time. Measured are those
// that tuning found for the best of its formats, of the chosen one for those that it runs in.
type Candidate struct {
	Backend     string   `json:"backend"`
	Chosen      bool     `json:"chosen,omitempty"`
	Nanoseconds float64  `json:"nanoseconds,omitempty"`
	Measured    float64  `json:"measured_nanoseconds,omitempty"`
	Reasons     []string `json:"reasons,omitempty"`
}

// Value is an operand or a result.
type Value struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Format   string `json:"format,omitempty"` // "" for row-major on the host
	Bytes    int64  `json:"bytes,omitempty"`
	Constant bool   `json:"constant,omitempty"`
}

// Scope is a graph: the main one, the body of a group, or a region. Nodes are in the order of execution, edges lead from nodes to
// such behind them.
type Scope struct {
	Owner int    `json:"owner"` // the node that holds it
	Nodes []int  `json:"nodes"`
	Edges []Edge `json:"edges"`
}

// Edge leads from a result of a node to one that reads it.
type Edge struct {
	From   int `json:"from"`
	Output int `json:"output"`
	To     int `json:"to"`
}

// Folded is a node of the model that nobody runs, and why: constant, forwarded, dead or shape.
type Folded struct {
	Node string `json:"node"`
	Kind string `json:"kind"`
}

// Arena is the memory of a device while a scope runs. Time counts sub-steps of the schedule.
type Arena struct {
	Device     string `json:"device"`
	Scope      int    `json:"scope"`
	Bytes      int64  `json:"bytes"`
	LowerBound int64  `json:"lower_bound_bytes"`
	Naive      int64  `json:"naive_bytes"`
	Method     string `json:"method,omitempty"`
	Steps      int64  `json:"steps"`
	// Starts has sub-steps at which a node begins to run, ascending, and Who these nodes.
	Starts  []int64  `json:"starts"`
	Who     []int    `json:"who"`
	Buffers []Buffer `json:"buffers"`
}

// Buffer is bytes [Offset, Offset+Bytes) of an arena in sub-steps [First, End).
type Buffer struct {
	Name   string `json:"name"`
	Node   int    `json:"node"` // that makes it
	Bytes  int64  `json:"bytes"`
	Offset int64  `json:"offset"`
	First  int64  `json:"first"`
	End    int64  `json:"end"`
}

// Run is a measured run.
type Run struct {
	Nanoseconds int64   `json:"nanoseconds"`
	Tracks      []Track `json:"tracks"`
	Spans       []Timed `json:"spans"`
}

// Timed is a span of a run. Times are nanoseconds.
type Timed struct {
	Name    string  `json:"name"`
	Op      string  `json:"op"`
	Backend string  `json:"backend"`
	Node    int     `json:"node"`
	Track   int     `json:"track"`
	Start   int64   `json:"start"`
	Time    int64   `json:"time"`
	FLOPs   float64 `json:"flops,omitempty"`
}

// Rejection is why a node of the model is not on a backend.
type Rejection struct {
	Node, Backend, Reason string
}

// maxName bounds the characters of a name or a reason in a Document.
const maxName = 300

// short cuts text to maxName characters.
func short(s string) string {
	if len(s) <= maxName {
		return s
	}
	if r := []rune(s[:min(len(s), 4*maxName)]); len(r) > maxName {
		return string(r[:maxName-1]) + "…"
	}
	return s
}
