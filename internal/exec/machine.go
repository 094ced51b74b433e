// Package exec runs compiled graphs: it makes instances and memory plans for concrete shapes, binds them to memory, and walks
// through their steps. It knows no compiler: what is run comes as a graph of Subgraph, Convert and host nodes with the
// [Code] of its groups and conversions, and everything else in an [Env].
//
// # Where to start
//
// [NewBlock] makes a [Block], the list of steps, of each graph. A [Machine] holds the main block and, in a bounded cache, its
// specialisations ([Spec]): instances, sizes and the memory plan for concrete values of the symbols. A [Session] binds them to
// memory (a frame each) and runs. Step by step: step.go; control flow: control.go; groups whose shapes depend on data:
// late.go; the interpreter that stands in for groups: interpreter.go. What a caller brings that is no plain tensor of the host:
// operand.go and edges.go.
//
// Exactly one place runs an instance, startInstance, and turns its panics into errors.
package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/constants"
	"github.com/carve-dev/carve/memplan/schedule"
	"github.com/carve-dev/carve/property"
)

// Env is what a Machine works with. It is not changed after New.
type Env struct {
	Transfer  convert.Transfer // converters and devices
	Constants *constants.Packer
	// Evaluate runs one node with the kernels of the oracle: for groups that fall back, and for Check.
	// reserve, where it is not nil, counts what the kernels work in (backend.RunArgs.Reserve).
	Evaluate func(ctx context.Context, n *graph.Node, inputs []tensor.Value, reserve func(bytes int64) error) ([]tensor.Value, error)
	// Observe is told how far a loop of a run is that takes long, of total iterations, 0 where that is not known. Calls come
	// from one goroutine at a time.
	Observe func(node string, done, total int, elapsed time.Duration)
	// Options tells a backend what it compiles a group with.
	Options func(b backend.Backend) backend.CompileOptions
	Logger  *slog.Logger

	OutputNames []string         // the model's, where they are not those of the graph's values
	Declared    []graph.Type     // what the model says of outputs and only a run shows; nothing of the others
	Defaults    []*tensor.Tensor // of inputs that need not be given, by index; nil for the others
	// Leave are the devices on which Session.Run leaves outputs, by index; the host where there is none.
	Leave []tensor.DeviceID
	// Shapes is what the model asks of the shapes of a run, beside what is left of it in the block; nil for nothing.
	Shapes *graph.ShapeChecks

	// Arenas are known plans of the main block's memory (schedule.Problem.Known).
	Arenas []schedule.Known

	// InPlace are the inputs in whose place outputs may lie, by output, -1 for none; nil where there is none at all.
	InPlace            []int
	Threads            int
	MaxArenaBytes      int64                     // of a session, on all devices together
	DeviceLimits       map[tensor.DeviceID]int64 // of all sessions, by canonical ID; nothing for those without
	MaxSessions        int
	MaxSpecializations int
	Bounds             map[string]int
	Strict             bool
	Verify             bool
	Poison             bool
}

// Machine runs a block. It is safe for concurrent use; each concurrent run has a Session of its own. A nil Machine is closed.
type Machine struct {
	env    Env // whose devices are the spaces
	spaces map[tensor.DeviceID]*space
	main   *Block
	spare  []bool // inputs that a run may not read; nil where it reads all
	bound  *Spec  // for Env.Bounds; nil where there is none
	done   func() // called once the last session of a closed machine has ended

	observing sync.Mutex // while Env.Observe is told

	sessions chan *Session // idle sessions of Run; holds up to MaxSessions
	tickets  chan struct{} // rights to make one more

	clock atomic.Int64 // counts uses of specialisations and sessions
	picky atomic.Bool  // an instance has turned down an operand as it lay

	passed  atomic.Pointer[graph.Bindings] // the values of symbols that Env.Shapes has admitted last
	planned sync.Map                       // the last memory plan of each *Block, a *planned

	mu     sync.Mutex
	specs  []*entry
	recent [][]int     // the shapes that were used last, where Trim dropped their specialisation
	closed atomic.Bool // written with mu held
	live   map[*Session]bool
	inside int                              // calls of Trim, and holds, under way
	ended  bool                             // nothing of it is held any more
	fallen map[*graph.Node]*property.Reason // groups that fell back, for the first reason of each

	detours map[*graph.Node]error // of conversions, for the first cause of each

	doubts []*doubt // of Env.Declared; what they have found is written with mu held
}

// New returns a machine for a block. done is called once nothing of it runs any more after Close.
func New(ctx context.Context, env Env, main *Block, done func()) (*Machine, error) {
	m := &Machine{env: env, main: main, spare: spareInputs(main.Graph), done: done, live: map[*Session]bool{}, fallen: map[*graph.Node]*property.Reason{}, detours: map[*graph.Node]error{},
		sessions: make(chan *Session, env.MaxSessions), tickets: make(chan struct{}, env.MaxSessions)}
	m.makeSpaces()
	m.doubts = env.doubts()
	main.number(0)
	for range env.MaxSessions {
		m.tickets <- struct{}{}
	}
	if err := m.planBounds(ctx); err != nil {
		return nil, err
	}
	if shapes, ok := m.staticShapes(); ok {
		if _, err := m.spec(ctx, shapes); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Main returns the main block.
func (m *Machine) Main() *Block { return m.main }

// staticShapes returns the input shapes where no symbol is open.
func (m *Machine) staticShapes() ([][]int, bool) {
	var out [][]int
	for _, v := range m.main.Graph.Inputs {
		dims, ok := v.Type.Shape.Static()
		if !ok && v.Type.IsTensor() {
			return nil, false
		}
		out = append(out, dims)
	}
	return out, true
}

// Acquire draws a session from the pool, entered, and waits for one, honouring ctx, where MaxSessions are in use. GiveBack it.
func (m *Machine) Acquire(ctx context.Context) (*Session, error) {
	s, err := m.draw(ctx)
	if err == nil {
		s.Enter()
	}
	return s, err
}

func (m *Machine) draw(ctx context.Context) (*Session, error) {
	if m == nil {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case s, ok := <-m.sessions:
		if !ok {
			return nil, ErrClosed
		}
		return s, nil
	default:
	}
	select {
	case s, ok := <-m.sessions:
		if !ok {
			return nil, ErrClosed
		}
		return s, nil
	case <-m.tickets:
		s, err := m.NewSession()
		if err != nil {
			m.tickets <- struct{}{}
		}
		return s, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// GiveBack returns a session to the pool.
func (m *Machine) GiveBack(s *Session) {
	defer s.Leave()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed.Load() {
		m.drop(s)
		return
	}
	m.sessions <- s
}

// drop frees a session, which the caller has entered; the last one of a closed machine takes everything else with it. It is
// called with mu held.
func (m *Machine) drop(s *Session) {
	delete(m.live, s)
	s.free()
	m.endUnused()
}

// endUnused ends a closed machine of which nothing runs any more. It is called with mu held.
func (m *Machine) endUnused() {
	if !m.closed.Load() || m.ended || len(m.live) > 0 || m.inside > 0 {
		return
	}
	m.ended = true
	for _, id := range sortedDevices(m.spaces) {
		m.spaces[id].Trim()
	}
	m.done()
}

// Hold keeps what the machine's end takes with it, such as constants and executables, until release is called. The error is ErrClosed.
func (m *Machine) Hold() (release func(), err error) {
	if m == nil || m.closed.Load() {
		return nil, ErrClosed
	}
	return m.HoldStill()
}

// HoldStill is Hold for a machine that may be closed while its last runs go on.
func (m *Machine) HoldStill() (release func(), err error) {
	if m == nil {
		return nil, ErrClosed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return nil, ErrClosed
	}
	m.inside++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.inside--
		m.endUnused()
	}, nil
}

// NewSession returns a session outside of the pool. Close it.
func (m *Machine) NewSession() (*Session, error) {
	if m == nil {
		return nil, ErrClosed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed.Load() {
		return nil, ErrClosed
	}
	s := newSession(m)
	m.live[s] = true
	return s, nil
}

// Close ends the machine: idle sessions and plans are freed at once, a session in use when its run returns. It reports
// whether it was open.
func (m *Machine) Close() bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	if m.closed.Load() {
		m.mu.Unlock()
		return false
	}
	m.closed.Store(true)
	close(m.sessions)
	m.specs = nil
	m.endUnused()
	m.mu.Unlock()
	for s := range m.sessions {
		s.end()
	}
	return true
}

// Fallen returns why a group fell back, the first time; nil where it never did.
func (m *Machine) Fallen(group *graph.Node) *property.Reason {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fallen[group]
}

// fell keeps the reason of a group's first fallback, and logs it.
func (m *Machine) fell(ctx context.Context, st *Step, code property.Code, what string, cause error) {
	m.mu.Lock()
	known := m.fallen[st.Node] != nil
	if !known {
		m.fallen[st.Node] = property.Because(code, "%v", cause)
	}
	m.mu.Unlock()
	if !known {
		m.env.Logger.WarnContext(ctx, what, "backend", st.Node.Backend, "nodes", nodeList(st.Node.Provenance()), "error", cause)
	}
}

// prepare prepares the conversion of a step. Where it is a detour, that is logged and kept, for the first cause; under Strict it is the error.
func (m *Machine) prepare(ctx context.Context, st *Step, dt tensor.DType, dims []int) (convert.Move, error) {
	var detour error
	move, err := st.Hop.Prepare(dt, dims, func(cause error) { detour = cause })
	if err != nil || detour == nil {
		return move, err
	}
	if m.env.Strict {
		return nil, detour
	}
	m.mu.Lock()
	known := m.detours[st.Node] != nil
	if !known {
		m.detours[st.Node] = detour
	}
	m.mu.Unlock()
	if !known {
		m.env.Logger.WarnContext(ctx, "conversion goes another way", "value", ValueName(st.Node.Inputs[0]), "converter", st.Hop.Name, "error", detour)
	}
	return move, nil
}

// Detour returns why a conversion goes another way than its converter is there for, nil where it does not.
func (m *Machine) Detour(conversion *graph.Node) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.detours[conversion]
}

// withForms returns a group's constants with those behind them that an instance wants in formats of its own.
func (m *Machine) withForms(ctx context.Context, body *graph.Graph, own []*tensor.Tensor, forms []backend.ConstantForm) ([]*tensor.Tensor, error) {
	if len(forms) == 0 {
		return own, nil
	}
	var values []*graph.Value
	for v := range body.Constants() {
		values = append(values, v)
	}
	out := append([]*tensor.Tensor(nil), own...)
	for _, f := range forms {
		if f.Index < 0 || f.Index >= len(values) || !values[f.Index].IsConst() {
			return nil, fmt.Errorf("%w: constant %d of %d in %v", convert.ErrConverter, f.Index, len(values), f.Format)
		}
		t, err := m.form(ctx, values[f.Index], f.Format)
		if errors.Is(err, fs.ErrClosed) {
			return nil, ErrClosed
		}
		if err != nil {
			return nil, fmt.Errorf("constant %v to %v: %w", values[f.Index], f.Format, err)
		}
		out = append(out, t)
	}
	return out, nil
}
