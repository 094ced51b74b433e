package carve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/constants"
	"github.com/carve-dev/carve/internal/exec"
	"github.com/carve-dev/carve/internal/pool"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// pass is one stage of the pipeline.
type pass struct {
	name  string
	fn    func(*compilation) error
	again bool // the pass is run again after groups failed to compile
}

// passes is the pipeline, in order. Each arrow of the architecture is one entry.
var passes = []pass{
	{name: "pin-dims", fn: (*compilation).pinDims},
	{name: "name-nodes", fn: (*compilation).nameNodes},
	{name: "infer", fn: (*compilation).infer},
	{name: "simplify", fn: (*compilation).simplify},
	{name: "partition", fn: (*compilation).partition, again: true},
	{name: "eliminate-conversions", fn: (*compilation).eliminate, again: true},
	{name: "lower-conversions", fn: (*compilation).lower, again: true},
	{name: "order-nodes", fn: (*compilation).order, again: true},
	{name: "pack-constants", fn: (*compilation).pack, again: true},
	{name: "own-constants", fn: (*compilation).ownConstants, again: true},
	{name: "compile-groups", fn: (*compilation).compileGroups, again: true},
}

// compilation is the state that passes share.
type compilation struct {
	ctx      context.Context
	model    *Model
	o        Options
	backends []backend.Backend
	opened   []backend.Backend // those of them that end with the Program
	registry *convert.Registry
	devices  map[tensor.DeviceID]device.Device

	g       *graph.Graph
	results map[*graph.Graph]*partition.Result
	hops    map[*graph.Graph]map[*graph.Node]*convert.Converter
	before  map[*graph.Graph][]*graph.Node // the orders that order-nodes changed
	folded  []graph.Folded
	failed  map[failKey]*property.Reason
	removed int // conversions that were superfluous
	packer  *constants.Packer
	copies  constants.Copies // of constants and defaults
	exes    map[*graph.Node]backend.Executable
	dynamic map[*graph.Node]bool // groups whose shapes depend on data
	retry   bool
	started time.Time
	pass    string
}

// failKey is a node of the model and a backend that could not compile it.
type failKey struct{ node, backend string }

// unnamed stands for the nodes that properties added without a name: they fail together.
var unnamed = []string{""}

// Compile runs the pipeline over a model. The Program is generic in the symbols that stay open: plans for concrete shapes
// are made at their first Run. The model may be compiled several times, also concurrently; its weights are shared. Errors
// are typed: *PassError around the cause. Compile stops soon after ctx ends.
func Compile(ctx context.Context, m *Model, o *Options) (*Program, error) {
	opts := o.withDefaults()
	if err := m.retain(); err != nil {
		return nil, err
	}
	list, opened, err := opts.openBackends()
	if err != nil {
		m.release()
		return nil, err
	}
	closeAll := func() {
		for _, b := range opened {
			b.Close()
		}
		m.release()
	}
	if err := opts.checkProperties(list); err != nil {
		closeAll()
		return nil, err
	}
	c := &compilation{ctx: ctx, model: m, o: opts, backends: list, opened: opened, failed: map[failKey]*property.Reason{},
		devices: map[tensor.DeviceID]device.Device{}}
	if c.g, err = m.graph.Clone(); err != nil {
		closeAll()
		return nil, err
	}
	if err := c.openRegistry(); err != nil {
		closeAll()
		return nil, err
	}
	if err := c.run(); err != nil {
		c.closeExecutables()
		c.packer.Own.Free()
		c.copies.Free()
		closeAll()
		return nil, err
	}
	p, err := newProgram(c)
	if err != nil {
		c.closeExecutables()
		c.packer.Own.Free()
		c.copies.Free()
		closeAll()
		return nil, err
	}
	return p, nil
}

func (c *compilation) openRegistry() error {
	var converters []convert.Converter
	var formats []graph.Format
	for _, b := range c.backends {
		converters = append(converters, b.Converters()...)
		for _, l := range b.Info().Layouts {
			formats = append(formats, graph.On(l))
		}
		for _, d := range b.Devices() {
			c.devices[d.ID().Canonical()] = d
		}
	}
	c.devices[tensor.DeviceID{}] = device.Host
	var err error
	if c.registry, err = convert.NewRegistry(converters, formats...); err != nil {
		return err
	}
	for _, b := range c.backends {
		if s, ok := b.(convert.Source); ok {
			c.registry.AddSource(s)
		}
	}
	c.packer = &constants.Packer{Shared: c.model.packed, Own: &constants.Store{}, Private: c.private,
		Transfer: convert.Transfer{Registry: c.registry, Devices: c.devices}}
	return nil
}

// maxAttempts bounds how often groups that fail to compile send the pipeline back to partitioning.
const maxAttempts = 16

func (c *compilation) run() error {
	first := slices.IndexFunc(passes, func(p pass) bool { return p.again })
	if err := c.runPasses(passes[:first]); err != nil {
		return err
	}
	simplified := c.g
	for attempt := 0; ; attempt++ {
		var err error
		if c.g, err = simplified.Clone(); err != nil {
			return err
		}
		c.retry = false
		if err := c.runPasses(passes[first:]); err != nil {
			return err
		}
		if !c.retry {
			return nil
		}
		if attempt == maxAttempts {
			return &PassError{Pass: "compile-groups", Err: errors.New("groups still fail to compile after every fallback")}
		}
		c.closeExecutables()
	}
}

func (c *compilation) runPasses(list []pass) error {
	for _, p := range list {
		if err := c.ctx.Err(); err != nil {
			return &PassError{Pass: p.name, Err: err}
		}
		c.pass, c.started = p.name, time.Now()
		c.o.Observer(Progress{Pass: p.name})
		if err := c.guarded(p); err != nil {
			return &PassError{Pass: p.name, Err: err}
		}
		if c.o.Verify {
			if err := graph.Verify(c.g); err != nil {
				return &PassError{Pass: p.name, Err: err}
			}
		}
		if c.o.Dump != nil {
			c.o.Dump(p.name, c.g)
		}
		c.o.Logger.DebugContext(c.ctx, "pass", "name", p.name, "elapsed", time.Since(c.started))
	}
	return nil
}

// guarded runs a pass and turns a panic, a programmer's error, into an error that names the pass.
func (c *compilation) guarded(p pass) (err error) {
	defer func() {
		if r := recover(); r != nil {
			c.o.Logger.ErrorContext(c.ctx, "panic", "pass", p.name, "value", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	return p.fn(c)
}

// blocks calls fn for the main graph and every region that the host scheduler runs, inner ones first.
func (c *compilation) blocks(fn func(g *graph.Graph) error) error {
	return eachBlock(c.g, fn)
}

func eachBlock(g *graph.Graph, fn func(g *graph.Graph) error) error {
	for n := range g.Nodes() {
		if !partition.HostScheduled(n) {
			continue // whoever runs the node runs its regions
		}
		for _, r := range n.Regions {
			if err := eachBlock(r.Graph, fn); err != nil {
				return err
			}
		}
	}
	return fn(g)
}

// pinDims gives symbols and inputs the values that Options.Dims and Options.Shapes name.
func (c *compilation) pinDims() error {
	sub := map[string]graph.Dim{}
	for name, n := range c.o.Dims {
		if n < 0 {
			return fmt.Errorf("%w: dim %s is %d", graph.ErrDimValue, name, n)
		}
		sub[name] = graph.D(n)
	}
	known := map[string]bool{}
	for _, v := range c.g.Inputs {
		for _, d := range v.Type.Shape {
			d.Symbols(known)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.o.Dims)) {
		if !known[name] {
			return &InputError{Name: name, Problem: "no input has a dim of that name", kind: ErrInput}
		}
	}
	if err := c.checkBounds(known); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.o.Shapes)) {
		i := slices.IndexFunc(c.g.Inputs, func(v *graph.Value) bool { return v.Name == name })
		if i < 0 {
			return &InputError{Name: name, Problem: "the model has no such input", kind: ErrInput}
		}
		t, shape := c.g.Inputs[i].Type, c.o.Shapes[name]
		if t.Shape.Known() && len(t.Shape) != len(shape) {
			return &InputError{Name: name, Problem: "wrong rank", Expected: t.Shape.String(), Found: fmt.Sprint(shape), kind: ErrInput}
		}
		for k, n := range shape {
			if n < 0 {
				return &InputError{Name: name, Problem: "negative dim", Found: fmt.Sprint(shape), kind: ErrInput}
			}
			if !t.Shape.Known() {
				continue
			}
			d := t.Shape[k].Subst(sub)
			if s, ok := d.Symbol(); ok {
				sub[s] = graph.D(n)
			} else if v, ok := d.Const(); ok && v != int64(n) {
				return &InputError{Name: name, Problem: "wrong shape", Expected: t.Shape.String(), Found: fmt.Sprint(shape), kind: ErrInput}
			}
		}
		if !t.Shape.Known() {
			c.g.Inputs[i].Type.Shape = graph.ShapeOf(shape...)
		}
	}
	for _, v := range c.g.Inputs {
		if v.Type.Shape == nil {
			continue
		}
		shape := slices.Clone(v.Type.Shape)
		for k := range shape {
			shape[k] = shape[k].Subst(sub)
		}
		v.Type.Shape = shape
	}
	return nil
}

// checkBounds validates Options.Bounds against the model's inputs.
func (c *compilation) checkBounds(known map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(c.o.Bounds)) {
		if !known[name] {
			return &InputError{Name: name, Problem: "no input has a dim of that name", kind: ErrInput}
		}
		n := c.o.Bounds[name]
		if n < 0 {
			return fmt.Errorf("%w: bound of dim %s is %d", graph.ErrDimValue, name, n)
		}
		if d, pinned := c.o.Dims[name]; pinned && d > n {
			return &InputError{Name: name, Problem: "dim is larger than its bound", Expected: fmt.Sprint(n), Found: fmt.Sprint(d), kind: ErrInput}
		}
	}
	return nil
}

func (c *compilation) infer() error { return graph.InferGraph(c.g) }

func (c *compilation) simplify() error {
	r, err := graph.Simplify(c.ctx, c.g, &graph.SimplifyOptions{Evaluator: kernels{}, MaxFold: c.o.MaxFold, Rank: c.rank})
	if err != nil {
		return err
	}
	c.folded = r.Folded
	return nil
}

// rank returns the place, in the list, of the first backend that may have a node and takes it as it stands.
func (c *compilation) rank(n *graph.Node) int {
	for i, b := range c.backends {
		if property.Allowed(c.o.Pins, n, b.Info().Name) == nil && b.Supports(n).Reason == nil {
			return i
		}
	}
	return len(c.backends)
}

func (c *compilation) partition() error {
	c.results = map[*graph.Graph]*partition.Result{}
	return c.blocks(func(g *graph.Graph) error {
		r, err := partition.Partition(c.ctx, g, &partition.Options{
			Backends: c.backends, Properties: c.o.Properties, Pins: c.o.Pins, Registry: c.registry, Isolated: c.o.Isolated,
			Logger: c.o.Logger,
			Failed: func(n *graph.Node, b string) *property.Reason {
				names := n.Provenance()
				if len(names) == 0 {
					names = unnamed
				}
				for _, name := range names {
					if why := c.failed[failKey{name, b}]; why != nil {
						return why
					}
				}
				return nil
			},
		})
		if err != nil {
			return err
		}
		c.results[g] = r
		return nil
	})
}

func (c *compilation) eliminate() error {
	c.removed = 0
	if c.o.Isolated {
		return nil // what two groups do one after the other is theirs
	}
	return c.blocks(func(g *graph.Graph) error {
		n, err := convert.Eliminate(g)
		c.removed += n
		return err
	})
}

func (c *compilation) lower() error {
	c.hops = map[*graph.Graph]map[*graph.Node]*convert.Converter{}
	return c.blocks(func(g *graph.Graph) error {
		hops, err := convert.Lower(g, c.registry)
		if err != nil {
			return err
		}
		c.hops[g] = hops
		return g.Sort()
	})
}

// progress reports how far the pass is.
func (c *compilation) progress(done, total int) {
	c.o.Observer(Progress{Pass: c.pass, Done: done, Total: total, Elapsed: time.Since(c.started)})
}

// compileGroups compiles every group. A group that fails is given to the next backend: its nodes are marked, and the
// pipeline goes back to partitioning.
func (c *compilation) compileGroups() error {
	type job struct {
		group *partition.Group
		b     backend.Backend
	}
	var jobs []job
	if err := c.blocks(func(g *graph.Graph) error {
		for _, gr := range c.results[g].Groups {
			i := slices.IndexFunc(c.backends, func(b backend.Backend) bool { return b.Info().Name == gr.Backend })
			jobs = append(jobs, job{gr, c.backends[i]})
		}
		return nil
	}); err != nil {
		return err
	}
	c.exes, c.dynamic = map[*graph.Node]backend.Executable{}, map[*graph.Node]bool{}
	exes := make([]backend.Executable, len(jobs))
	fails := make([]error, len(jobs))
	err := pool.Each(c.ctx, len(jobs), c.o.Threads, c.progress, func(i int) error {
		defer func() {
			if r := recover(); r != nil {
				fails[i] = fmt.Errorf("panic: %v", r)
			}
		}()
		exes[i], fails[i] = jobs[i].b.Compile(c.ctx, jobs[i].group.Body, c.o.compileOptions(jobs[i].b))
		return nil
	})
	for i, e := range exes {
		if e != nil {
			c.exes[jobs[i].group.Node], c.dynamic[jobs[i].group.Node] = e, jobs[i].group.Dynamic
		}
	}
	if err != nil {
		return err
	}
	for i, fail := range fails {
		if fail == nil {
			continue
		}
		gr := jobs[i].group
		name := gr.Backend
		if c.o.Strict || jobs[i].b == c.backends[len(c.backends)-1] {
			return (*StepError)(exec.BlameNodes(gr.Node.Provenance(), name, fail))
		}
		c.o.Logger.WarnContext(c.ctx, "group falls back", "backend", name, "nodes", len(gr.Node.Provenance()), "error", fail)
		c.retry = true
		why := property.Because(property.CompileFailed, "%v", fail)
		for n := range gr.Body.Nodes() {
			names := n.Provenance()
			if len(names) == 0 && !n.IsCarve(graph.OpConvert) {
				names = unnamed
			}
			for _, node := range names {
				c.failed[failKey{node, name}] = why
			}
		}
	}
	return nil
}

func (c *compilation) closeExecutables() {
	for _, e := range c.exes {
		e.Close()
	}
	c.exes = nil
}
