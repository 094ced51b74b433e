package carve

import (
	"context"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/constants"
	"github.com/carve-dev/carve/internal/exec"
	"github.com/carve-dev/carve/internal/pool"
	"github.com/carve-dev/carve/partition"
)

// Port describes an input or output of a Program.
type Port struct {
	Name string
	Type graph.Type // dims may be symbols
	// Optional says that a run need not give the input: the model has data for it (see FromONNX).
	Optional bool
}

// Program is a compiled model. It is immutable and safe for concurrent use; each concurrent Run has a Session of its own.
type Program struct {
	o        Options
	model    *Model
	g        *graph.Graph // of groups, conversions and the host scheduler's nodes
	machine  *exec.Machine
	env      exec.Env
	backends []backend.Backend // in order of priority
	opened   opened            // those that the Program closes
	results  map[*graph.Graph]*partition.Result
	folded   []graph.Folded
	wrong    []graph.Contradiction          // declarations that compilation found to be wrong
	before   map[*graph.Graph][]*graph.Node // orders of nodes that the compiler changed
	exes     []backend.Executable
	removed  int               // conversions that were superfluous
	alone    []*graph.Value    // what would be converted if every operator converted on its own; nil where that was not asked for
	packed   *constants.Store  // constants that are the Program's own; those of the model are the Model's
	copied   *constants.Copies // copies of the model's constants, as it stores them
	defaults []*tensor.Tensor  // of inputs that need not be given, by index; nil for the others
}

func newProgram(c *compilation) (*Program, error) {
	p := &Program{o: c.o, model: c.model, g: c.g, backends: c.backends, opened: c.opened, results: c.results, folded: c.folded, wrong: c.wrong, before: c.before,
		removed: c.removed, alone: c.alone, packed: c.packer.Own, copied: &c.copies}
	for _, n := range sortedNodes(c.exes) {
		p.exes = append(p.exes, c.exes[n])
	}
	main, err := exec.NewBlock(c.g, c, c.o.Streams)
	if err != nil {
		return nil, err
	}
	p.takeDefaults(c)
	p.packed.Forget()
	p.env = exec.Env{
		Transfer: c.packer.Transfer, Constants: c.packer, Evaluate: kernels{}.evaluate, Observe: observeLoop(c.o.Observer), Options: c.o.compileOptions, Logger: c.o.Logger,
		OutputNames: names(c.model.graph.Outputs), Declared: doubtful(c.g.Outputs, c.model.graph.Outputs), Defaults: p.defaults, Shapes: c.shapes,
		Threads: c.o.Threads, MaxArenaBytes: c.o.MaxArenaBytes, DeviceLimits: c.limits, MaxSessions: c.o.MaxSessions, MaxSpecializations: c.o.MaxSpecializations,
		Bounds: c.o.Bounds, Strict: c.o.Strict, Verify: c.o.Verify, Poison: c.o.Poison,
	}
	pool.Acquire()
	if p.machine, err = exec.New(c.ctx, p.env, main, p.free); err != nil {
		pool.Release()
		return nil, &PassError{Pass: "specialize", Err: public(err)}
	}
	return p, nil
}

func names(vs []*graph.Value) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = v.Name
	}
	return out
}

// doubtful returns the types of outputs of which the model declares more than the compiler knows: only a run shows whether
// that is right. Those of the others have no kind.
func doubtful(outputs, declared []*graph.Value) []graph.Type {
	out := make([]graph.Type, len(outputs))
	for i, v := range outputs {
		if t := declared[i].Type; !v.Type.Backed() && !t.Equal(v.Type) {
			out[i] = t
		}
	}
	return out
}

// takeDefaults finds the data of inputs that need not be given.
func (p *Program) takeDefaults(c *compilation) {
	p.defaults = make([]*tensor.Tensor, len(p.g.Inputs))
	for i, v := range p.g.Inputs {
		t := p.model.defaults()[v.Name]
		if own := c.copies.Of(t); own != nil {
			t = own
		}
		p.defaults[i] = t
	}
}

// runs returns what runs the Program; nil for Programs that Compile did not make, which count as closed.
func (p *Program) runs() *exec.Machine {
	if p == nil {
		return nil
	}
	return p.machine
}

// background returns ctx, or where there is none one that never ends.
func background(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// Inputs returns the inputs in the model's order.
func (p *Program) Inputs() []Port {
	if p.runs() == nil {
		return nil
	}
	out := ports(p.g.Inputs, nil)
	for i := range out {
		out[i].Optional = p.defaults[i] != nil
	}
	return out
}

// Outputs returns the outputs in the model's order.
func (p *Program) Outputs() []Port {
	if p.runs() == nil {
		return nil
	}
	return ports(p.g.Outputs, p.model.graph.Outputs)
}

func ports(vs, named []*graph.Value) []Port {
	out := make([]Port, len(vs))
	for i, v := range vs {
		out[i] = Port{Name: v.Name, Type: v.Type}
		if named != nil {
			out[i].Name = named[i].Name
		}
	}
	return out
}

// Run computes the outputs for inputs given by name; those that are Optional may be left out. Results are new. It draws a
// Session from the Program's pool and waits for one, honouring ctx, where MaxSessions are in use. Errors: *InputError
// (ErrInput), *StepError (ErrRun), ErrMemoryLimit, ErrClosed, ctx's.
func (p *Program) Run(ctx context.Context, inputs map[string]tensor.Value) (map[string]tensor.Value, error) {
	s, err := p.runs().Acquire(background(ctx))
	if err != nil {
		return nil, err
	}
	defer p.machine.GiveBack(s)
	out, err := s.Run(background(ctx), inputs)
	return out, public(err)
}

// RunInto computes into outputs that the caller provides, one per output in the model's order, nil for those that are not
// wanted: compact host tensors of the right dtype and shape. At a shape that has been run before it allocates nothing.
// Inputs are given in the model's order, nil for one that is Optional. Inputs and outputs must not overlap (ErrOutput).
func (p *Program) RunInto(ctx context.Context, inputs, outputs []*tensor.Tensor) error {
	s, err := p.runs().Acquire(background(ctx))
	if err != nil {
		return err
	}
	defer p.machine.GiveBack(s)
	return public(s.RunInto(background(ctx), inputs, outputs))
}

// Retry gives the groups that failed in a run back to their backends, and returns how many there were. Until then a group
// that has failed once, where the fallback did not fail too, is run by the fallback.
func (p *Program) Retry() int { return p.machine.Retry() }

// Session holds the memory of one run at a time: an arena per device, for every shape that it has run. It is used by one
// goroutine at a time. Between runs its memory may be given up (Program.Trim, Options.DeviceLimits): the next run takes some anew.
type Session struct{ s *exec.Session }

// Trim gives memory that nobody uses back to the system: that of sessions between runs, what the Program keeps for sessions to
// come, what devices keep, and plans for shapes that no run under way has, which are made anew when they come again. It
// returns how many bytes of device memory, the host's included, went back; plans are Go's memory and not counted. It may be
// called at any time, also during runs, which it does not hold up.
func (p *Program) Trim() int64 { return p.runs().Trim() }

// NewSession returns a Session of the caller's own, outside of the pool of Run. Close it.
func (p *Program) NewSession() (*Session, error) {
	s, err := p.runs().NewSession()
	if err != nil {
		return nil, err
	}
	return &Session{s}, nil
}

// Run computes the outputs for inputs given by name, like Program.Run, in this session.
func (s *Session) Run(ctx context.Context, inputs map[string]tensor.Value) (map[string]tensor.Value, error) {
	if s == nil || s.s == nil {
		return nil, ErrClosed
	}
	s.s.Enter()
	defer s.s.Leave()
	out, err := s.s.Run(background(ctx), inputs)
	return out, public(err)
}

// RunInto computes into the caller's outputs, like Program.RunInto, in this session.
func (s *Session) RunInto(ctx context.Context, inputs, outputs []*tensor.Tensor) error {
	if s == nil || s.s == nil {
		return ErrClosed
	}
	s.s.Enter()
	defer s.s.Leave()
	return public(s.s.RunInto(background(ctx), inputs, outputs))
}

// Close gives the session's memory back, to the Program, which keeps it for sessions to come (Trim). It must not be in use.
func (s *Session) Close() error {
	if s == nil || s.s == nil {
		return nil
	}
	return s.s.Close()
}

// Close ends the Program: idle sessions and plans are freed at once, a session in use when its Run returns. Closing twice
// does nothing.
func (p *Program) Close() error {
	if p.runs().Close() {
		pool.Release()
	}
	return nil
}

// free gives back what sessions no longer need.
func (p *Program) free() {
	for _, e := range p.exes {
		e.Close()
	}
	p.packed.Free()
	p.copied.Free()
	p.opened.close()
	p.model.release()
}

func sortedNodes[V any](m map[*graph.Node]V) []*graph.Node {
	out := make([]*graph.Node, 0, len(m))
	for n := range m {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *graph.Node) int { return a.ID - b.ID })
	return out
}

// Memory is what a Program holds outside of Go's heap, in bytes.
type Memory struct {
	Arenas        int64 // of all sessions
	Kept          int64 // for sessions to come; see Program.Trim
	PackedWeights int64 // of the model, shared by its Programs, and of constants that were folded for this one
	CopiedWeights int64 // of this Program: what was copied out of the model's file as it is
	Devices       []DeviceMemory
}

// DeviceMemory is what a Program's sessions hold on one device, in bytes.
type DeviceMemory struct {
	Name   string // as in reports
	InUse  int64  // arenas, and what depends on data
	Kept   int64  // for sessions to come
	Beside int64  // on the host, in Go's memory, where a limit counts it: results that depend on data, sequences, loops
	Peak   int64  // most bytes in use and kept together so far
	Limit  int64  // of Options.DeviceLimits, 0 for none
	Reused int64  // allocations that kept memory served
	Fresh  int64  // allocations that the device served
}

// Memory returns what the Program holds now.
func (p *Program) Memory() Memory {
	if p.runs() == nil {
		return Memory{}
	}
	m := Memory{PackedWeights: p.model.packed.Bytes() + p.packed.Bytes(), CopiedWeights: p.copied.Bytes()}
	devices, stats := p.machine.PoolStats()
	for i, id := range devices {
		s := stats[i]
		m.Arenas += s.InUse
		m.Kept += s.Kept
		m.Devices = append(m.Devices, DeviceMemory{Name: id.String(), InUse: s.InUse, Kept: s.Kept, Beside: s.Reserved, Peak: s.Peak,
			Limit: p.env.DeviceLimits[id], Reused: s.Hits, Fresh: s.Misses})
	}
	return m
}
