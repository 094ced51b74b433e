package carve

import (
	"cmp"
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
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// compilation is the state that passes share.
type compilation struct {
	ctx      context.Context
	model    *Model
	o        Options
	backends []backend.Backend
	opened   opened // those of them that end with the Program
	registry *convert.Registry
	devices  map[tensor.DeviceID]device.Device
	limits   map[tensor.DeviceID]int64 // of Options.DeviceLimits

	g       *graph.Graph
	bans    *partition.Bans
	banned  int                // bans when the round began
	states  []*partition.State // of the blocks, inner ones first
	results map[*graph.Graph]*partition.Result
	hops    map[*graph.Graph]map[*graph.Node]*convert.Converter
	before  map[*graph.Graph][]*graph.Node // the orders that order-nodes changed
	folded  []graph.Folded
	wrong   []graph.Contradiction  // declarations that are wrong
	shapes  *graph.ShapeChecks     // what the model asks of shapes; nil where they are all known
	typed   bool                   // types are inferred; before, they are the model's word
	removed int                    // conversions that were superfluous
	alone   []partition.Conversion // those of a run if every operator converted on its own
	packer  *constants.Packer
	copies  constants.Copies // of constants and defaults
	exes    map[*graph.Node]backend.Executable
	saved   map[*graph.Node]savedGroup      // what executables saved, of a bundle
	forms   map[constants.Key]device.Memory // constants that instances want, of a bundle
	dynamic map[*graph.Node]bool            // groups whose shapes depend on data
	started time.Time
	pass    string
	// told, where it is not nil, says who chooses, when it is first asked; the graph is simplified by then. An error ends it.
	told    func(*compilation) (partition.Chooser, error)
	chooser partition.Chooser
	tuned   *TunedReport
	times   func() partition.Times // what was measured, for one goroutine each time; nil where Options.Placement is another one
}

// Compile runs the pipeline over a model. The Program is generic in the symbols that stay open: plans for concrete shapes
// are made at their first Run. The model may be compiled several times, also concurrently; its weights are shared. Errors
// are typed: *PassError around the cause. Compile stops soon after ctx ends.
func Compile(ctx context.Context, m *Model, o *Options) (*Program, error) {
	o, err := o.profiled(m)
	if err != nil {
		return nil, err
	}
	if m != nil && m.bundle != nil {
		return m.openProgram(background(ctx), o)
	}
	return compile(ctx, m, o, nil)
}

// profiled returns options with Threads and MaxSessions as Profile has them, for a model.
func (o *Options) profiled(m *Model) (*Options, error) {
	if o == nil || o.Profile == ProfileDefault {
		return o, nil
	}
	threads, sessions := 0, 0
	switch o.Profile {
	case ProfileDefault: // done
	case ProfileLatency:
		sessions = 1
	case ProfileThroughput:
		threads = 1
	case ProfileTuned:
		var err error
		if threads, sessions, err = o.tunedProfile(m); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w: %v", ErrInput, o.Profile)
	}
	out := *o
	out.Profile, out.Threads, out.MaxSessions = ProfileDefault, cmp.Or(o.Threads, threads), cmp.Or(o.MaxSessions, sessions)
	return &out, nil
}

// compile is Compile with another way to choose; see compilation.told.
func compile(ctx context.Context, m *Model, o *Options, told func(*compilation) (partition.Chooser, error)) (*Program, error) {
	ctx = background(ctx)
	opts := o.withDefaults()
	switch {
	case m == nil || m.graph == nil:
		return nil, fmt.Errorf("%w: no model", ErrInput)
	case o != nil && o.Threads < 0:
		return nil, fmt.Errorf("%w: %d threads", ErrInput, o.Threads)
	case o != nil && (o.Placement < 0 || int(o.Placement) >= len(placements) || o.Budget < 0):
		return nil, fmt.Errorf("%w: %v with a budget of %v", ErrInput, o.Placement, o.Budget)
	}
	if err := m.retain(); err != nil {
		return nil, err
	}
	list, opened, err := opts.openBackends()
	closeAll := func() {
		opened.close()
		m.release()
	}
	if err != nil {
		closeAll()
		return nil, err
	}
	opts.bring(opened.libraries, list)
	opts.Properties, opts.DisabledProperties = byEntry(opts.Properties, list), byEntry(opts.DisabledProperties, list)
	if err = opts.checkPins(list); err == nil {
		err = opts.checkProperties(list)
	}
	if err != nil {
		closeAll()
		return nil, err
	}
	c := &compilation{ctx: ctx, model: m, o: opts, backends: list, opened: opened, bans: partition.NewBans(opts.Pins), told: told,
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
		c.free()
		closeAll()
		return nil, err
	}
	p, err := newProgram(c)
	if err != nil {
		c.free()
		closeAll()
		return nil, err
	}
	return p, nil
}

// free frees what a Program would have held.
func (c *compilation) free() {
	c.closeExecutables()
	c.packer.Own.Free()
	c.copies.Free()
}

// placed is an entry of the list of backends: a backend on the device of an index.
type placed struct {
	backend.Config
	index int
	name  string // of the entry
}

// placements returns the list of backends with an entry for each device.
func (o *Options) placements() ([]placed, error) {
	var list []placed
	unused := maps.Clone(o.Devices)
	for _, c := range o.configs() {
		base, index, named := property.CutDevice(c.Name)
		if o.Open[c.Name] != nil && named { // the caller's, under that name
			list = append(list, placed{Config: c, name: c.Name})
			continue
		}
		indices := []int{index}
		if !named && len(o.Devices[base]) > 0 {
			indices = o.Devices[base]
		}
		if !named {
			delete(unused, base)
		}
		c.Name = base
		for _, i := range indices {
			p := placed{Config: c, index: i, name: base}
			if i < 0 {
				return nil, fmt.Errorf("%w: %d of backend %q", backend.ErrNoDevice, i, base)
			}
			if i > 0 {
				p.name = fmt.Sprintf("%s:%d", base, i)
			}
			list = append(list, p)
		}
	}
	for i, p := range list {
		for _, q := range list[:i] {
			if p.name == q.name {
				return nil, fmt.Errorf("backend %q is listed twice", p.name)
			}
		}
	}
	if names := slices.Sorted(maps.Keys(unused)); len(names) > 0 {
		return nil, fmt.Errorf("%w: devices of %q, which is not among the backends", backend.ErrUnknown, names[0])
	}
	return list, nil
}

// openBackends opens the list of backends with its implicit tail, each once for all its devices. What is returned with an
// error has to be closed as well.
func (o *Options) openBackends() (list []backend.Backend, own opened, err error) {
	entries, err := o.placements()
	if err != nil {
		return nil, own, err
	}
	var refused []*backend.RefusedLibrary
	if own.libraries, refused, err = backend.Libraries(o.PluginOptions, o.Backends, o.Plugins...); err != nil {
		return nil, own, err
	}
	if own.processes, err = backend.StartLibraries(own.libraries); err != nil {
		return nil, own, err
	}
	for _, r := range refused {
		o.Logger.Warn("a library is passed over", "path", r.Path, "error", r.Err)
	}
	known := map[string]backend.Backend{}
	for i, e := range entries {
		first := slices.IndexFunc(entries, func(p placed) bool { return p.Name == e.Name })
		if first < i && len(e.Options) > 0 && !maps.Equal(e.Options, entries[first].Options) {
			return nil, own, fmt.Errorf("%w: %q has other options than %q", backend.ErrOption, e.name, entries[first].name)
		}
		b := cmp.Or(known[e.Name], o.Open[e.Name])
		if b == nil {
			b, err = open(own.libraries, e.Config)
			if errors.Is(err, backend.ErrUnavailable) && !o.Strict {
				o.Logger.Warn("backend is unavailable: others take its place", "backend", e.name, "error", err)
				b, err = &absent{e.Name, err}, nil
			}
			if err != nil {
				return nil, own, err
			}
			if unmet := b.Info().Unmet; unmet != "" {
				if o.Strict {
					b.Close()
					return nil, own, fmt.Errorf("%w: %s: %s", backend.ErrUnavailable, e.name, unmet)
				}
				o.Logger.Warn("an option has no effect", "backend", e.name, "option", unmet)
			}
			if x, ok := b.(backend.Logging); ok {
				x.SetLogger(o.Logger)
			}
			own.backends = append(own.backends, b)
		}
		known[e.Name] = b
		if e.index > 0 {
			if b, err = o.view(b, e); err != nil {
				return nil, own, err
			}
			own.views = append(own.views, b)
		}
		list = append(list, b)
	}
	return list, own, nil
}

// open opens a backend: a plugin's processor, or one that is linked in.
func open(libraries []*backend.Library, c backend.Config) (backend.Backend, error) {
	for _, l := range libraries {
		if i := slices.IndexFunc(l.Processors, func(p backend.Processor) bool { return p.Name == c.Name }); i >= 0 {
			return l.Processors[i].Driver(c)
		}
	}
	return backend.Open(c)
}

// view returns a backend as it works on another device than its first.
func (o *Options) view(b backend.Backend, e placed) (backend.Backend, error) {
	if gone, ok := b.(*absent); ok {
		return &absent{e.name, gone.err}, nil
	}
	p, ok := b.(backend.Placeable)
	devices := b.Devices()
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: %q", backend.ErrPlaceable, e.name)
	case e.index >= len(devices):
		return nil, fmt.Errorf("%w: %q of %d that the backend has", backend.ErrNoDevice, e.name, len(devices))
	}
	v, err := p.On(devices[e.index].ID())
	if errors.Is(err, backend.ErrUnavailable) && !o.Strict {
		o.Logger.Warn("device is unavailable: others take its place", "backend", e.name, "error", err)
		return &absent{e.name, err}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", e.name, err)
	}
	if name := v.Info().Name; name != e.name {
		v.Close()
		return nil, fmt.Errorf("%w: %q calls itself %q there", backend.ErrPlaceable, e.name, name)
	}
	return v, nil
}

func (c *compilation) openRegistry() error {
	c.share()
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
	c.devices[tensor.DeviceID{}] = device.HostWith(c.o.Allocator)
	var err error
	if c.limits, err = c.o.deviceLimits(c.devices); err != nil {
		return err
	}
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

// savedGroup is what the executable of a group saved.
type savedGroup struct {
	fingerprint string
	bytes       []byte
}

// rounds runs the passes over copies of the simplified graph until none adds a ban.
func (c *compilation) rounds(simplified *graph.Graph, list []pass) (err error) {
	for range partition.MaxRounds {
		if c.g, err = simplified.Clone(); err != nil {
			return err
		}
		if err := c.beginRound(); err != nil {
			return err
		}
		done, err := c.runPasses(list)
		if err != nil || done {
			return err
		}
		c.closeExecutables()
	}
	return &PassError{Pass: c.pass, Err: fmt.Errorf("%w after %d rounds", partition.ErrRounds, partition.MaxRounds)}
}

// runPasses runs passes up to the first that bans nodes. It reports whether it ran all.
func (c *compilation) runPasses(list []pass) (done bool, err error) {
	c.banned = c.bans.Len()
	for _, p := range list {
		if err := c.ctx.Err(); err != nil {
			return false, &PassError{Pass: p.name, Err: err}
		}
		c.pass, c.started = p.name, time.Now()
		err := c.guarded(func(c *compilation) error {
			c.o.Observer(Progress{Pass: p.name})
			return p.run(c)
		})
		if err == nil {
			err = c.guarded(func(c *compilation) error { return c.inspect(p) })
		}
		if err == nil {
			err = c.strictBans()
		}
		if err != nil {
			return false, &PassError{Pass: p.name, Err: err}
		}
		c.o.Logger.DebugContext(c.ctx, "pass", "name", p.name, "elapsed", time.Since(c.started), "bans", c.bans.Len()-c.banned)
		if c.bans.Len() > c.banned {
			return false, nil
		}
	}
	return true, nil
}

// inspect verifies what a pass has left, and dumps it.
func (c *compilation) inspect(p pass) error {
	if c.o.Verify && c.typed || p.user {
		if err := graph.VerifyBut(c.g, p.open); err != nil {
			return err
		}
	}
	if c.o.Verify && p.check != nil {
		if err := p.check(c); err != nil {
			return err
		}
	}
	if c.o.Dump != nil {
		c.o.Dump(p.name, c.g)
	}
	if c.o.DumpTo == nil {
		return nil
	}
	w := c.o.DumpTo(p.name)
	if w == nil {
		return nil
	}
	if err := graph.Print(w, c.g, nil); err != nil {
		return err
	}
	if p.dump != nil {
		return p.dump(c, w)
	}
	return nil
}

// strictBans returns an error for a group that cannot be where it was, if that is Strict's affair: reviews that send nodes
// elsewhere are the user's, and refusals the backend's wish.
func (c *compilation) strictBans() error {
	if !c.o.Strict {
		return nil
	}
	for _, b := range c.bans.All()[c.banned:] {
		if b.Reason.Code == property.NoConverter {
			return compileError([]string{b.Node}, b.Backend, b.Reason)
		}
	}
	return nil
}

// guarded runs a part of a pass and turns a panic, a programmer's error, into an error.
func (c *compilation) guarded(fn func(*compilation) error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *partition.HookPanic:
			c.o.Logger.ErrorContext(c.ctx, "panic", "pass", c.pass, "property", r.Property, "backend", r.Backend, "value", r.Value, "stack", string(r.Stack))
			err = r
		default:
			c.o.Logger.ErrorContext(c.ctx, "panic", "pass", c.pass, "value", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	return fn(c)
}

// progress reports how far the pass is.
func (c *compilation) progress(done, total int) {
	c.o.Observer(Progress{Pass: c.pass, Done: done, Total: total, Elapsed: time.Since(c.started)})
}
