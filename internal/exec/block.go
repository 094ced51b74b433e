package exec

import (
	"fmt"
	"sync/atomic"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Block is a compiled graph as a list of steps: the main graph of a program, or a region that the host scheduler runs. It is
// immutable.
type Block struct {
	Graph *graph.Graph
	Slots []Slot
	Steps []Step
	// Slots of the graph's inputs, captures and outputs.
	Inputs, Captures, Outputs []int

	lanes []lane    // the first is the host
	finds []finding // in the operands
	asks  []string  // symbols that groups of a region need and that no value of it tells, in order
}

// Slot is a value of the block.
type Slot struct {
	Value *graph.Value
	Kind  SlotKind
	// direct is the index of the graph output whose storage the value is written to, -1 for none.
	direct int
	// own says that the value is an output, once, whose storage is new in each run: the caller's from then on.
	own bool
}

// SlotKind says where a value comes from.
type SlotKind uint8

// Kinds of slots.
const (
	SlotPlanned SlotKind = iota // in an arena, of known size
	SlotDynamic                 // made at run time: its shape depends on data, or it is no tensor
	SlotConst                   // constant
	SlotDims                    // evaluated when shapes are known
	SlotInput                   // the caller's, or a capture
)

// Step is one entry of the schedule.
type Step struct {
	// ID counts groups and the host scheduler's nodes in the order of execution, regions behind their node; -1 for conversions.
	ID       int
	Node     *graph.Node
	Kind     StepKind
	in, out  []int // slots of operands (inputs, then captures) and results; -1 for omitted ones
	lane     int   // of Block.lanes
	barrier  bool  // it waits for all lanes
	state    *stepState
	finds    []finding // in the results
	needs    []string  // symbols that a group's operands do not tell
	contents []int     // operands of a group whose elements its shapes depend on
	settles  []string  // symbols that groups behind need and this one's instances tell

	// Of groups.
	exe       backend.Executable
	backend   backend.Backend
	info      backend.Info
	dynamic   bool
	constants []*tensor.Tensor
	shapes    *graph.ShapeChecks // of groups that a run may leave out, or for whose shapes it has to come; nil for the others

	// Of conversions.
	Hop *convert.Converter

	// Of the host scheduler's nodes.
	regions []*Block
	loops   bool // a Loop or a Scan that runs as loopRun says
}

// stepState is what a machine has learnt of a group.
type stepState struct {
	// failed is the error of the run that had the group fall back; nil while its backend runs it.
	failed atomic.Pointer[error]
	// inputs and outputs have a bit for each of the first 64 ports that an instance could not take as it lay: from then on
	// they get compact storage, aligned to tensor.Alignment.
	inputs, outputs atomic.Uint64
}

// refused reports whether an input, or a result, gets compact storage alone.
func (s *stepState) refused(result bool, k int) bool {
	ports := &s.inputs
	if result {
		ports = &s.outputs
	}
	return k < 64 && ports.Load()&(1<<k) != 0
}

// refuse notes that an input, or a result, was not taken as it lay.
func (s *stepState) refuse(result bool, k int) {
	ports := &s.inputs
	if result {
		ports = &s.outputs
	}
	if k < 64 {
		ports.Or(1 << k)
	}
}

// StepKind says who runs a step.
type StepKind uint8

// Kinds of steps.
const (
	StepGroup   StepKind = iota // a backend's instance
	StepConvert                 // a converter
	StepHost                    // the host scheduler
)

// Code is what the compiler made of a graph's nodes.
type Code interface {
	// Group returns what runs a Subgraph node, and whether its shapes depend on data.
	Group(n *graph.Node) (exe backend.Executable, b backend.Backend, dynamic bool)
	// Hop returns the converter of a Convert node of g, nil where it was not lowered to a single hop.
	Hop(g *graph.Graph, n *graph.Node) *convert.Converter
}

// NewBlock turns a partitioned, lowered and compiled graph into a schedule, with the regions of the host scheduler's nodes.
// Steps on a device are spread over that many of its streams.
func NewBlock(g *graph.Graph, code Code, streams int) (*Block, error) {
	b := &Block{Graph: g}
	order, err := g.Topo()
	if err != nil {
		return nil, err
	}
	at := make([]int, g.ValueIDs())
	add := func(v *graph.Value, k SlotKind) int {
		at[v.ID] = len(b.Slots)
		b.Slots = append(b.Slots, Slot{Value: v, Kind: k, direct: -1})
		return at[v.ID]
	}
	for _, v := range g.Inputs {
		b.Inputs = append(b.Inputs, add(v, SlotInput))
	}
	for _, v := range g.Captures {
		b.Captures = append(b.Captures, add(v, SlotInput))
	}
	for v := range g.Constants() {
		if v.IsConst() {
			add(v, SlotConst)
		} else {
			add(v, SlotDims)
		}
	}
	for _, n := range order {
		s := Step{Node: n, state: &stepState{}}
		for k := range n.NumOperands() {
			if v := n.Operand(k); v != nil {
				s.in = append(s.in, at[v.ID])
			} else {
				s.in = append(s.in, -1)
			}
		}
		if err := s.fill(g, code, streams); err != nil {
			return nil, err
		}
		for _, v := range n.Outputs {
			if v == nil {
				s.out = append(s.out, -1)
				continue
			}
			k := SlotDynamic
			if v.Type.Backed() && v.Type.DType != tensor.String && (s.Kind != StepHost || s.loops || n.Is("If")) && !s.dynamic {
				k = SlotPlanned
			}
			s.out = append(s.out, add(v, k))
		}
		b.Steps = append(b.Steps, s)
	}
	for _, v := range g.Outputs {
		b.Outputs = append(b.Outputs, at[v.ID])
	}
	b.chooseDirect()
	b.chooseOwn()
	b.assignLanes(streams)
	b.reorder()
	b.chooseFindings()
	return b, nil
}

// fill says how the step's node is run.
func (s *Step) fill(g *graph.Graph, code Code, streams int) error {
	n := s.Node
	switch {
	case n.IsCarve(graph.OpConvert):
		s.Kind = StepConvert
		if s.Hop = code.Hop(g, n); s.Hop == nil {
			return fmt.Errorf("%v was not lowered", n)
		}
		s.dynamic = !n.Inputs[0].Type.Backed()
	case n.IsCarve(graph.OpSubgraph):
		s.Kind = StepGroup
		s.exe, s.backend, s.dynamic = code.Group(n)
		s.info = s.backend.Info()
		for v := range n.Regions[0].Graph.Constants() {
			s.constants = append(s.constants, v.Const)
		}
		if s.dynamic || g.Owner() != nil {
			s.shapes = graph.NewShapeChecks(n.Regions[0].Graph)
		}
	default:
		s.Kind = StepHost
		for _, r := range n.Regions {
			inner, err := NewBlock(r.Graph, code, streams)
			if err != nil {
				return err
			}
			inner.chooseHomes(s)
			s.regions = append(s.regions, inner)
		}
		_, s.loops = portsOfLoop(s)
	}
	return nil
}

// chooseDirect finds the outputs that their producer can write to the caller's storage: planned host row-major values
// that are an output exactly once.
func (b *Block) chooseDirect() {
	count := map[int]int{}
	for _, s := range b.Outputs {
		count[s]++
	}
	for i, s := range b.Outputs {
		if b.Slots[s].Kind == SlotPlanned && count[s] == 1 && b.Slots[s].Value.Format == graph.HostFormat {
			b.Slots[s].direct = i
		}
	}
}

// chooseOwn finds the outputs that a run makes when it knows their shape, in storage that nothing else refers to: those of groups, of
// branches and of loops.
func (b *Block) chooseOwn() {
	count := map[int]int{}
	for _, s := range b.Outputs {
		count[s]++
	}
	for i := range b.Steps {
		st := &b.Steps[i]
		for _, s := range st.out {
			if s >= 0 && count[s] == 1 && b.Slots[s].Kind == SlotDynamic && b.Slots[s].Value.Format == graph.HostFormat {
				b.Slots[s].own = st.Kind == StepGroup || st.Node.Is("If") || st.loops
			}
		}
	}
}

// callers reports whether the storage of a slot is that of a result of the model, which the caller gets.
func (b *Block) callers(slot int) bool { return b.Slots[slot].own && b.Graph.Owner() == nil }

// chooseHomes finds the outputs of a region that its owner has a place for: they are written there, and have none in the
// region's plan.
func (b *Block) chooseHomes(owner *Step) {
	ports, loop := portsOfLoop(owner)
	branch := owner.Node.Is("If")
	for i := range b.Slots {
		if !loop && !branch {
			break // its results are copied
		}
		b.Slots[i].direct = -1
	}
	for k, slot := range b.Outputs {
		result := k - ports.results // of the owner
		needed := result >= 0 && (loop && result < ports.carried || result < len(owner.Node.Outputs) && owner.Node.Outputs[result] != nil)
		if sl := &b.Slots[slot]; (loop || branch) && needed && sl.Kind == SlotPlanned && sl.direct < 0 {
			sl.direct = k
		}
	}
}

// number gives the steps their IDs, from next on, and returns the ID behind the last.
func (b *Block) number(next int) int {
	for i := range b.Steps {
		st := &b.Steps[i]
		if st.ID = -1; st.Kind == StepConvert {
			continue
		}
		st.ID = next
		next++
		for _, r := range st.regions {
			next = r.number(next)
		}
	}
	return next
}

// ValueName returns the model's name of a value; for what conversions made, that of what they convert.
func ValueName(v *graph.Value) string {
	for v.Producer != nil && v.Producer.IsCarve(graph.OpConvert) {
		v = v.Producer.Inputs[0]
	}
	return v.String()
}
