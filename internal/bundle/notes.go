package bundle

import (
	"encoding/json"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// Kinds of the sections that a compiled model has beside graphs and constants.
const (
	KindNotes  = KindOther + iota // Notes
	KindReport                    // what reports say, which is read when somebody asks
	KindPlan                      // the text of the plan
	KindSaved                     // by number: what an executable saved
)

// Numbers of graphs.
const (
	Carved   uint32 = iota // of groups, conversions and the host scheduler's nodes
	Checks                 // what the model asks of shapes (graph.ShapeChecks)
	Original               // the model as it was loaded, in portable bundles
)

// Notes are what a compiled model has beside graphs and constants.
type Notes struct {
	Facts    [][2]string // what it holds for
	Options  Options
	Outputs  []Port            // as the model names and declares them
	Defaults map[string]uint32 // constants of inputs that need not be given, by name
	Types    map[string]string // of the defaults
	Forms    []Form
	Saved    []Saved
	Checks   bool // there is a graph of checks
}

// Options are those that decisions depend on, with defaults in their places.
type Options struct {
	Backends     []string // names; their options are the caller's
	Devices      map[string][]int
	Disabled     map[string][]string
	Pins         []property.Pin
	Placement    string
	Dims, Bounds map[string]int
	Shapes       map[string][]int
	Threads      int
	MaxFold      int64
	MinNodes     int
	Strict       bool
	Isolated     bool
	Disconnected bool
	KeepOrder    bool
}

// Port is the name of an output and the text of its declared type.
type Port struct{ Name, Type string }

// Form is a constant in a format that an instance wants: that of a group's body at an index.
type Form struct {
	Block, Group, Index int // places of block and node in the order of the graphs
	Format              string
	Constant            uint32
}

// Saved is what the executable of a group saved: section Number of KindSaved.
type Saved struct {
	Block, Group int
	Fingerprint  string
	Number       uint32
}

// Part returns the section of notes.
func (n *Notes) Part() (Part, error) {
	b, err := json.Marshal(n)
	return Bytes(ID{KindNotes, 0}, b), err
}

// ReadNotes reads the notes. The error is a *FormatError.
func ReadNotes(f *File) (*Notes, error) {
	id := ID{KindNotes, 0}
	b, err := f.Section(id, true)
	if err != nil {
		return nil, err
	}
	var n Notes
	if err := json.Unmarshal(b, &n); err != nil {
		return nil, fault(max(f.Offset(id), 0), "notes", "%v", err)
	}
	return &n, nil
}

// Tensor returns constant i of a type that is written as text. The error is a *FormatError.
func (p *Pool) Tensor(i uint32, typ string) (*tensor.Tensor, error) {
	b, err := p.Get(i)
	if err != nil {
		return nil, err
	}
	at := p.f.Offset(ID{KindNotes, 0})
	t, err := graph.ParseType(typ)
	if err != nil {
		return nil, fault(at, "a type", "%v", err)
	}
	shape, ok := t.Shape.Static()
	if !ok || !t.IsTensor() {
		return nil, fault(at, "a type with a shape of numbers", "%s", typ)
	}
	x := &tensor.Tensor{DType: t.DType, Shape: shape, Data: b}
	if x.DType == tensor.String {
		x.Data = nil
		x.Strings, err = readStrings(b)
	}
	if err == nil {
		err = x.Check()
	}
	if err != nil {
		return nil, fault(at, "data of "+typ, "%v", err)
	}
	return x, nil
}

// Fault returns an error about what is in a section.
func (f *File) Fault(id ID, expected string, err error) error {
	return fault(max(f.Offset(id), 0), expected, "%v", err)
}
