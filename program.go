package carve

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/pool"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
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
	o          Options
	model      *Model
	main       *block
	registry   *convert.Registry
	devices    map[tensor.DeviceID]device.Device
	opened     []backend.Backend
	backends   []backend.Backend
	results    map[*graph.Graph]*partition.Result
	folded     []graph.Folded
	bound      *spec                          // for Options.Bounds; nil where there is none
	before     map[*graph.Graph][]*graph.Node // orders of nodes that the compiler changed
	exes       map[*graph.Node]backend.Executable
	eliminated int              // conversions that were superfluous
	packed     packedSet        // constants that are the Program's own; those of the model are the Model's
	copied     packedSet        // copies of the model's constants, as it stores them
	defaults   []*tensor.Tensor // of inputs that need not be given, by index; nil for the others

	sessions chan *Session // idle sessions of Run; holds up to MaxSessions
	tickets  chan struct{} // rights to make one more

	clock atomic.Int64 // counts uses of specialisations

	mu     sync.Mutex
	specs  []*entry
	closed atomic.Bool // written with mu held
	live   map[*Session]bool
	fallen map[*graph.Node]*property.Reason // groups that fell back, for the first reason of each
}

// entry is a cached specialisation of the main block, for one list of input shapes.
type entry struct {
	shapes [][]int
	turn   chan struct{} // held by the caller that makes spec
	spec   *spec         // written once, with the Program's mu held
}

func newProgram(c *compilation, opened []backend.Backend) (*Program, error) {
	p := &Program{o: c.o, model: c.model, registry: c.registry, devices: c.devices, opened: opened, backends: c.backends,
		results: c.results, folded: c.folded, before: c.before, eliminated: c.removed, exes: c.exes, live: map[*Session]bool{}, fallen: map[*graph.Node]*property.Reason{}}
	var err error
	if p.main, err = c.buildBlock(c.g); err != nil {
		return nil, err
	}
	p.sessions = make(chan *Session, c.o.MaxSessions)
	p.tickets = make(chan struct{}, c.o.MaxSessions)
	for range c.o.MaxSessions {
		p.tickets <- struct{}{}
	}
	p.copied = c.copied
	p.takeDefaults(c)
	p.packed = packedSet{blocks: c.packed.blocks, bytes: c.packed.bytes} // without the keys, which hold what was packed
	pool.Acquire()
	if err := p.planBounds(c.ctx); err != nil {
		pool.Release()
		return nil, err
	}
	if shapes, ok := p.staticShapes(); ok {
		if _, err := p.spec(c.ctx, shapes); err != nil {
			pool.Release()
			return nil, &PassError{Pass: "specialize", Err: err}
		}
	}
	return p, nil
}

// takeDefaults finds the data of inputs that need not be given.
func (p *Program) takeDefaults(c *compilation) {
	p.defaults = make([]*tensor.Tensor, len(p.main.g.Inputs))
	for i, v := range p.main.g.Inputs {
		t := p.model.defaults()[v.Name]
		if own := c.copies[t]; own != nil {
			t = own
		}
		p.defaults[i] = t
	}
}

// staticShapes returns the input shapes where no symbol is open.
func (p *Program) staticShapes() ([][]int, bool) {
	var out [][]int
	for _, v := range p.main.g.Inputs {
		dims, ok := v.Type.Shape.Static()
		if !ok && v.Type.IsTensor() {
			return nil, false
		}
		out = append(out, dims)
	}
	return out, true
}

// Inputs returns the inputs in the model's order.
func (p *Program) Inputs() []Port {
	out := ports(p.main.g.Inputs, nil)
	for i := range out {
		out[i].Optional = p.defaults[i] != nil
	}
	return out
}

// Outputs returns the outputs in the model's order.
func (p *Program) Outputs() []Port { return ports(p.main.g.Outputs, p.model.graph.Outputs) }

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

// Run computes the outputs for inputs given by name; those that are Optional may be left out. Results are new. It draws a Session from the Program's pool and waits
// for one, honouring ctx, where MaxSessions are in use. Errors: *InputError (ErrInput), *StepError (ErrRun), ErrMemoryLimit,
// ErrClosed, ctx's.
func (p *Program) Run(ctx context.Context, inputs map[string]tensor.Value) (map[string]tensor.Value, error) {
	s, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer p.giveBack(s)
	return s.Run(ctx, inputs)
}

// RunInto computes into outputs that the caller provides, one per output in the model's order, nil for those that are not
// wanted: compact host tensors of the right dtype and shape. At a shape that has been run before it allocates nothing.
// Inputs are given in the model's order, nil for one that is Optional. Inputs and outputs must not overlap (ErrOutput).
func (p *Program) RunInto(ctx context.Context, inputs, outputs []*tensor.Tensor) error {
	s, err := p.acquire(ctx)
	if err != nil {
		return err
	}
	defer p.giveBack(s)
	return s.RunInto(ctx, inputs, outputs)
}

func (p *Program) acquire(ctx context.Context) (*Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case s, ok := <-p.sessions:
		if !ok {
			return nil, ErrClosed
		}
		return s, nil
	default:
	}
	select {
	case s, ok := <-p.sessions:
		if !ok {
			return nil, ErrClosed
		}
		return s, nil
	case <-p.tickets:
		s, err := p.NewSession()
		if err != nil {
			p.tickets <- struct{}{}
		}
		return s, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *Program) giveBack(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		p.drop(s)
		return
	}
	p.sessions <- s
}

// drop frees a session; the last one of a closed Program takes everything else with it. It is called with mu held.
func (p *Program) drop(s *Session) {
	delete(p.live, s)
	s.free()
	if p.closed.Load() && len(p.live) == 0 {
		p.closeBackends()
	}
}

// NewSession returns a Session of the caller's own, outside of the pool of Run. Close it.
func (p *Program) NewSession() (*Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return nil, ErrClosed
	}
	s := &Session{p: p, streams: map[tensor.DeviceID]device.Stream{}}
	p.live[s] = true
	return s, nil
}

// Close ends the Program: idle sessions and plans are freed at once, a session in use when its Run returns. Closing twice
// does nothing.
func (p *Program) Close() error {
	p.mu.Lock()
	if p.closed.Load() {
		p.mu.Unlock()
		return nil
	}
	p.closed.Store(true)
	close(p.sessions)
	for s := range p.sessions {
		delete(p.live, s)
		s.free()
	}
	p.specs = nil
	if len(p.live) == 0 {
		p.closeBackends()
	}
	p.mu.Unlock()
	pool.Release()
	return nil
}

// closeBackends frees what sessions no longer need. It is called with mu held.
func (p *Program) closeBackends() {
	for _, n := range sortedNodes(p.exes) {
		p.exes[n].Close()
	}
	p.packed.free()
	p.copied.free()
	for _, b := range p.opened {
		b.Close()
	}
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

// spec returns the specialisation for concrete input shapes, from the cache or new.
func (p *Program) spec(ctx context.Context, shapes [][]int) (*spec, error) {
	bind, err := p.bind(shapes)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.closed.Load() {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	var e *entry
	if i := slices.IndexFunc(p.specs, func(x *entry) bool { return sameShapes(x.shapes, shapes) }); i >= 0 {
		e = p.specs[i]
	} else {
		p.evict(p.o.MaxSpecializations - 1)
		e = &entry{shapes: cloneShapes(shapes), turn: make(chan struct{}, 1)}
		p.specs = append(p.specs, e)
	}
	s := e.spec
	p.mu.Unlock()
	if s != nil {
		p.touch(s)
		return s, nil
	}
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-e.turn }()
	p.mu.Lock()
	s = e.spec
	p.mu.Unlock()
	if s != nil { // made by the caller before
		return s, nil
	}
	if s, err = p.specialize(ctx, p.main, bind); err != nil {
		p.forget(e)
		return nil, err
	}
	p.touch(s)
	p.mu.Lock()
	e.spec = s
	p.mu.Unlock()
	return s, nil
}

// touch notes that s is used now.
func (p *Program) touch(s *spec) { s.used.Store(p.clock.Add(1)) }

// evict drops the specialisations that were used longest ago until n are left. Those in the making come last. It is called
// with mu held.
func (p *Program) evict(n int) {
	age := func(e *entry) int64 {
		if e.spec == nil {
			return math.MaxInt64
		}
		return e.spec.used.Load()
	}
	for len(p.specs) > n {
		oldest := 0
		for i, e := range p.specs {
			if age(e) < age(p.specs[oldest]) {
				oldest = i
			}
		}
		p.specs = slices.Delete(p.specs, oldest, oldest+1)
	}
}

// newest returns the specialisation that was used last, nil where there is none.
func (p *Program) newest() *spec {
	p.mu.Lock()
	defer p.mu.Unlock()
	var s *spec
	for _, e := range p.specs {
		if e.spec != nil && (s == nil || e.spec.used.Load() > s.used.Load()) {
			s = e.spec
		}
	}
	return s
}

func (p *Program) forget(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.specs = slices.DeleteFunc(p.specs, func(x *entry) bool { return x == e })
}

// cached reports whether the specialisation is still kept.
func (p *Program) cached(s *spec) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.specs, func(e *entry) bool { return e.spec == s })
}

func sameShapes(a, b [][]int) bool {
	return slices.EqualFunc(a, b, func(x, y []int) bool { return slices.Equal(x, y) })
}

func cloneShapes(s [][]int) [][]int {
	out := make([][]int, len(s))
	for i := range s {
		out[i] = slices.Clone(s[i])
	}
	return out
}

// bind gives symbols the values that the input shapes imply.
func (p *Program) bind(shapes [][]int) (graph.Bindings, error) {
	b := graph.Bindings{}
	for i, v := range p.main.g.Inputs {
		if !v.Type.IsTensor() || !v.Type.Shape.Known() {
			continue
		}
		if len(shapes[i]) != len(v.Type.Shape) {
			return nil, &InputError{Name: v.Name, Problem: "wrong rank", Expected: v.Type.Shape.String(), Found: fmt.Sprint(shapes[i]), kind: ErrInput}
		}
		for k, d := range v.Type.Shape {
			n := int64(shapes[i][k])
			if s, ok := d.Symbol(); ok {
				if old, had := b[s]; had && old != n {
					return nil, &InputError{Name: v.Name, Problem: "dim " + s + " has another value in another input",
						Expected: fmt.Sprint(old), Found: fmt.Sprint(n), kind: ErrInput}
				}
				if err := p.checkBound(v, s, n); err != nil {
					return nil, err
				}
				b[s] = n
			} else if c, ok := d.Const(); ok && c != n {
				return nil, &InputError{Name: v.Name, Problem: "wrong shape", Expected: v.Type.Shape.String(), Found: fmt.Sprint(shapes[i]), kind: ErrInput}
			}
		}
	}
	return b, nil
}

// overlaps reports whether two host storages share a byte.
func overlaps(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	a0, b0 := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return a0 < b0+uintptr(len(b)) && b0 < a0+uintptr(len(a))
}
