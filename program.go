package carve

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
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

// Formatted is a tensor with what a run has to know of it, or tells of it, beyond the tensor itself. It is a tensor.Value: inputs
// of Run are given so, and outputs that it leaves on a device are returned so. A tensor alone is Formatted{Tensor: t}.
type Formatted struct {
	*tensor.Tensor
	// Layout is that of the storage, row-major by default; with the tensor's Device it is its graph.Format. Strides are for
	// row-major alone.
	Layout graph.Layout
	// Ready, where it is not nil, happens when the storage may be read, or written if it is an output's. Streams that use the
	// storage wait for it, the host only where the host does. It stays the caller's to close, after the call. Where what
	// makes an input fails, the run fails with the event's error.
	Ready device.Event
	// Release gives back the storage of an output that Run has left on a device: call it once nothing uses it any more, and
	// before the backend is closed, which Close of the Program does with backends that it opened. Calls after the first do
	// nothing. It is nil for what is the caller's.
	Release func()
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
	groups   map[*graph.Node]backend.Executable // the same
	bans     *partition.Bans
	chooser  partition.Chooser      // that decided
	removed  int                    // conversions that were superfluous
	alone    []partition.Conversion // those of a run if every operator converted on its own; nil where that was not asked for
	tuned    *TunedReport
	times    func() partition.Times
	packed   *constants.Store  // constants that are the Program's own; those of the model are the Model's
	copied   *constants.Copies // copies of the model's constants, as it stores them
	defaults []*tensor.Tensor  // of inputs that need not be given, by index; nil for the others
}

func newProgram(c *compilation) (*Program, error) {
	p := &Program{o: c.o, model: c.model, g: c.g, backends: c.backends, opened: c.opened, results: c.results, folded: c.folded, wrong: c.wrong, before: c.before,
		bans: c.bans, groups: c.exes, chooser: c.chooser, removed: c.removed, alone: c.alone, tuned: c.tuned, times: c.times, packed: c.packer.Own, copied: &c.copies}
	for _, n := range sortedNodes(c.exes) {
		p.exes = append(p.exes, c.exes[n])
	}
	main, err := exec.NewBlock(c.g, c, c.o.Streams)
	if err != nil {
		return nil, err
	}
	p.takeDefaults(c)
	left, err := p.outputDevices(c)
	if err != nil {
		return nil, err
	}
	pairs, err := exec.Pairs(c.o.InPlace, c.g.Inputs, c.g.Outputs, names(c.model.outputs()))
	if err != nil {
		return nil, public(err)
	}
	p.packed.Forget()
	if err := p.packed.Adopt(c.forms); err != nil {
		return nil, err
	}
	p.env = exec.Env{
		Transfer: c.packer.Transfer, Constants: c.packer, Evaluate: kernels{}.evaluate, Observe: observeLoop(c.o.Observer), Options: c.o.compileOptions, Logger: c.o.Logger,
		InPlace:     pairs,
		OutputNames: names(c.model.outputs()), Declared: doubtful(c.g.Outputs, c.model.outputs()), Defaults: p.defaults, Leave: left, Shapes: c.shapes,
		Arenas:  c.o.Plan.of().Known(),
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

// outputDevices returns the devices that Options.OutputDevices names, by output; nil where it names none.
func (p *Program) outputDevices(c *compilation) ([]tensor.DeviceID, error) {
	if len(c.o.OutputDevices) == 0 {
		return nil, nil
	}
	known := names(c.model.outputs())
	list := make([]tensor.DeviceID, len(known))
	for _, name := range slices.Sorted(maps.Keys(c.o.OutputDevices)) {
		i, id := slices.Index(known, name), c.o.OutputDevices[name].Canonical()
		if i < 0 {
			return nil, &InputError{Name: name, Problem: "the model has no such output", kind: ErrOutput}
		}
		if c.devices[id] == nil {
			return nil, &InputError{Name: name, Problem: "to be left on a device that no backend of the program has", Found: fmt.Sprint(id), kind: ErrOutput}
		}
		list[i] = id
	}
	return list, nil
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
	return ports(p.g.Outputs, p.model.outputs())
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
//
// An error that wraps device.ErrGone says that a device is lost for good: every later run fails as well. Compile the model again, with
// the same Options: the nodes of a backend that is unavailable by then get the next one that takes them, and the Report says why;
// under Strict Compile fails with the reason.
//
// Tensors may lie in the memory of any device that a backend of the Program has, with strides, and as *Formatted in another
// layout than row-major, or with the event after which they are there. A group on that device that takes an input as it lies
// reads it in place; for groups that need it compact, better aligned or in another format it is copied once, on the device
// where that can be, otherwise through the host. A device that no backend has, and a layout that nothing converts, are an
// *InputError. Outputs are on the host unless Options.OutputDevices says otherwise.
//
// When Run returns, nothing uses the inputs any more, and the outputs are there.
//
// Results are new memory of Go's heap in every run: it is cold, and its collection begins when as much again was allocated as is in use. Where
// they are large beside what is computed, RunInto, which writes to the caller's tensors, takes a fraction of the time.
func (p *Program) Run(ctx context.Context, inputs map[string]tensor.Value) (map[string]tensor.Value, error) {
	s, err := p.runs().Acquire(background(ctx))
	if err != nil {
		return nil, err
	}
	defer p.machine.GiveBack(s)
	return run(ctx, s, inputs)
}

// run is Run of a session of the run time.
func run(ctx context.Context, s *exec.Session, inputs map[string]tensor.Value) (map[string]tensor.Value, error) {
	for name, v := range inputs {
		if f, ok := v.(*Formatted); ok {
			if inputs = maps.Clone(inputs); f != nil { // a nil one is turned down like a missing one
				inputs[name] = (*exec.Operand)(f)
			} else {
				inputs[name] = nil
			}
		}
	}
	out, err := s.Run(background(ctx), inputs)
	for name, v := range out {
		if o, ok := v.(*exec.Operand); ok {
			out[name] = (*Formatted)(o)
		}
	}
	return out, public(err)
}

// runNamed is Run of what machine.Named has returned, where no input is Formatted and all outputs are on the host.
func (p *Program) runNamed(ctx context.Context, inputs []tensor.Value) (map[string]tensor.Value, error) {
	s, err := p.runs().Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer p.machine.GiveBack(s)
	out, err := s.RunNamed(ctx, inputs)
	return out, public(err)
}

// runProvided is runNamed with results, of shapes that depend on data, where provide says.
func (p *Program) runProvided(ctx context.Context, inputs []tensor.Value, provide exec.Provide) (map[string]tensor.Value, error) {
	s, err := p.runs().Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer p.machine.GiveBack(s)
	out, err := s.RunProvided(ctx, inputs, provide)
	return out, public(err)
}

// RunInto computes into outputs that the caller provides, one per output in the model's order, nil for those that are not
// wanted, of the right dtype and shape. Inputs are given in the model's order, nil for one that is Optional. Both may lie on
// devices and have strides, as for Run: an output is written in place by a group on its device that can, and copied once
// otherwise. With compact host tensors it allocates nothing at a shape that has been run before.
//
// Inputs and outputs must not overlap (ErrOutput), but for those that Options.InPlace pairs: on a device that is looked at among
// tensors of one Handle. When RunInto
// returns, nothing uses them any more.
func (p *Program) RunInto(ctx context.Context, inputs, outputs []*tensor.Tensor) error {
	s, err := p.runs().Acquire(background(ctx))
	if err != nil {
		return err
	}
	defer p.machine.GiveBack(s)
	return public(s.RunInto(background(ctx), inputs, outputs))
}

// Enqueue is RunInto for operands in any layout, with events, that does not wait for the end where devices do the work: it
// returns when everything is on their queues, and the event, which is not nil, tells of the end of the run, with its error.
// Until it has happened inputs and outputs stay as they are, and an end of ctx ends the run; it is the caller's to close, and
// may be the Ready of what reads the outputs next, with this Program or another.
//
// A group that fails before Enqueue returns falls back like in Run. One that fails later is told of by the event, since the
// inputs may be gone by then, and the run is not repeated; the group falls back in later runs. The session is busy until the
// event has happened: its next run waits.
func (p *Program) Enqueue(ctx context.Context, inputs, outputs []*Formatted) (device.Event, error) {
	s, err := p.runs().Acquire(background(ctx))
	if err != nil {
		return nil, err
	}
	defer p.machine.GiveBack(s)
	return enqueue(ctx, s, inputs, outputs)
}

// enqueue is Enqueue of a session of the run time.
func enqueue(ctx context.Context, s *exec.Session, inputs, outputs []*Formatted) (device.Event, error) {
	list := make([]*exec.Operand, 0, len(inputs)+len(outputs))
	for _, f := range inputs {
		list = append(list, (*exec.Operand)(f))
	}
	for _, f := range outputs {
		list = append(list, (*exec.Operand)(f))
	}
	e, err := s.Enqueue(background(ctx), list[:len(inputs)], list[len(inputs):])
	if e == nil && err == nil {
		over := device.NewEvent()
		over.Complete(nil)
		e = over
	}
	return e, public(err)
}

// Retry gives the groups that failed in a run back to their backends, and returns how many there were. Until then a group
// that has failed once, where the fallback did not fail too, is run by the fallback.
func (p *Program) Retry() int { return p.runs().Retry() }

// Session holds the memory of one run at a time: an arena per device, for every shape that it has run. It is used by one
// goroutine at a time. Between runs its memory may be given up (Program.Trim, Options.DeviceLimits): the next run takes some anew.
type Session struct{ s *exec.Session }

// Trim gives memory that nobody uses back to the system: that of sessions between runs, what the Program keeps for sessions to
// come, what devices keep, and plans for shapes that no run under way has, which are made anew when they come again. It
// returns how many bytes of device memory, the host's included, went back; plans are Go's memory and not counted. It may be
// called at any time, also during runs, which it does not hold up.
func (p *Program) Trim() int64 {
	n := p.runs().Trim()
	if p.runs() != nil {
		for _, q := range p.inner() {
			n += q.Trim()
		}
	}
	return n
}

// inner returns the Programs that groups were compiled to in runs; see lateRanks.
func (p *Program) inner() []*Program {
	var out []*Program
	for _, e := range p.exes {
		if l, ok := e.(*lateRanks); ok {
			out = append(out, l.made()...)
		}
	}
	return out
}

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
	return run(ctx, s.s, inputs)
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

// Enqueue computes into the caller's outputs without waiting for the end, like Program.Enqueue, in this session.
func (s *Session) Enqueue(ctx context.Context, inputs, outputs []*Formatted) (device.Event, error) {
	if s == nil || s.s == nil {
		return nil, ErrClosed
	}
	s.s.Enter()
	defer s.s.Leave()
	return enqueue(ctx, s.s, inputs, outputs)
}

// Close gives the session's memory back, to the Program, which keeps it for sessions to come (Trim). It must not be in use; what it
// has enqueued it waits for.
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

// opened are the backends that end with a Program. Their views on one of several devices are closed first.
type opened struct {
	backends, views []backend.Backend
	libraries       []*backend.Library // which never end, but for
	processes       []backend.Running  // of those that have one
}

func (x *opened) close() {
	for _, b := range slices.Concat(x.views, x.backends) {
		b.Close()
	}
	for _, p := range x.processes {
		_ = p.Close() // there is nobody to tell
	}
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
	release, err := p.runs().HoldStill()
	if err != nil {
		return Memory{}
	}
	defer release()
	m := Memory{PackedWeights: p.model.packed.Bytes() + p.packed.Bytes(), CopiedWeights: p.copied.Bytes()}
	devices, stats := p.machine.PoolStats()
	for i, id := range devices {
		s := stats[i]
		m.Arenas += s.InUse
		m.Kept += s.Kept
		m.Devices = append(m.Devices, DeviceMemory{Name: id.String(), InUse: s.InUse, Kept: s.Kept, Beside: s.Reserved, Peak: s.Peak,
			Limit: p.env.DeviceLimits[id], Reused: s.Hits, Fresh: s.Misses})
	}
	for _, q := range p.inner() {
		held := q.Memory()
		m.Arenas, m.Kept, m.PackedWeights = m.Arenas+held.Arenas, m.Kept+held.Kept, m.PackedWeights+held.PackedWeights
	}
	return m
}
