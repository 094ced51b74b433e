package carve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/constants"
	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/measurements"
	"github.com/carve-dev/carve/internal/tune"
	"github.com/carve-dev/carve/partition"
)

// TuneOptions are the settings of Tune. The zero value and nil mean the defaults.
type TuneOptions struct {
	// Options are those of the Programs to come: what is tuned holds for Compile with these, Placement set to Measured. Their
	// Placement is not read; Cache is where measurements are kept, and Observer is told of TunePass.
	Options *Options
	// Time is how long tuning may take, about; 0 means a minute. Programs of one backend alone, and that of the measured times, are
	// compared for half as long again, so that what is chosen is no slower than these.
	Time time.Duration
	// Shapes gives inputs whose shapes have open symbols the shape that is measured, by name. What is measured is taken to hold for
	// all shapes up to Options.Bounds.
	Shapes map[string][]int
	// Dims gives open symbols the values that are measured, by name, in place of a shape: each with each of the others', at most 64
	// combinations. The time is shared among them. Every measurement is taken to hold for the values that are nearer to its own, in
	// ratio, than to another's; a run at one of them counts as much as at any other in what is chosen, which is one choice for all.
	Dims map[string][]int
	// Inputs are measured with; those that are missing are made up: floats spread over [0, 1), and zeros else. So are those of another
	// shape where several are measured.
	Inputs map[string]tensor.Value
}

// TunePass is the Pass of what Options.Observer is told while tuning: Done and Total count candidates, Node names the next.
const TunePass = "tune"

// Tuning is what Tune found.
type Tuning struct {
	TunedReport
	// Known says that the cache had the choice already: nothing was measured.
	Known bool
	// Measured are the candidates that were measured, Cached those that the cache had, and Left those that there was no time for,
	// or that do not run alone: their times are modelled.
	Measured, Cached, Left int
	// Profiles are what was measured where Options.Profile is ProfileTuned, the most runs a second first.
	Profiles []ProfileRate
	Elapsed  time.Duration
}

// Tune measures on this machine which backend runs what of a model fastest, for Compile with Options.Placement Measured. It
// measures, by turns, every operator with every backend and format that could win, and the conversions between these, then whole
// programs: chosen by the measured times, by modelled ones, by priority, with one backend alone, and with each backend first. The
// fastest is kept. What is measured is kept at once, for all models with the same operators; where ctx ends, it stays.
//
// Users' own properties and passes go by their names: one that has changed under the same name wants another folder.
//
// The cache may be used by many processes at one time: of two that tune the same, the first to end has the last word.
//
// Errors are those of Compile, and of the file system; *InputError for an input that has no data.
func Tune(ctx context.Context, m *Model, o *TuneOptions) (*Tuning, error) {
	ctx = background(ctx)
	t := &tuner{start: time.Now(), o: *cmp.Or(o, &TuneOptions{})}
	opts := *cmp.Or(t.o.Options, &Options{})
	t.o.Options = &opts
	t.o.Options.Placement, t.o.Options.CountIsolated = Modelled, false
	d := t.o.Options.withDefaults()
	t.log, t.observe = d.Logger, d.Observer
	if t.o.Time <= 0 {
		t.o.Time = time.Minute
	}
	var err error
	if t.cache, err = d.openCache(); err != nil {
		return nil, err
	}
	if m == nil || m.graph == nil {
		return nil, fmt.Errorf("%w: no model", ErrInput)
	}
	if m.bundle != nil {
		return nil, fmt.Errorf("%w: a bundle is what was decided already: tune the model that it is made of", ErrInput)
	}
	if err := m.retain(); err != nil {
		return nil, err
	}
	defer m.release()
	if opts.Profile == ProfileTuned {
		if err := t.tuneProfile(ctx, m, t.start.Add(t.o.Time/5)); err != nil {
			return nil, err
		}
	}
	if t.o.Options, err = opts.profiled(m); err != nil {
		return nil, err
	}
	// Weights in formats that are only tried are freed in the end.
	t.model = &Model{graph: m.graph, source: m.source}
	t.model.packed = constants.NewShared(m.graph, m.evict)
	defer t.model.packed.Free()
	return t.run(ctx)
}

// tuner is one call of Tune.
type tuner struct {
	o       TuneOptions
	log     *slog.Logger
	observe func(Progress)
	model   *Model
	cache   *measurements.Cache
	start   time.Time
	about   string // the identity of what is tuned
	points  []graph.Bindings
	survey  tune.Surveys
	result  Tuning
}

// errKnown ends a compilation that finds its choice in the cache.
var errKnown = errors.New("it has been tuned")

func (t *tuner) run(ctx context.Context) (*Tuning, error) {
	var known *tune.Choice
	base, err := compile(ctx, t.model, t.o.Options, func(c *compilation) (partition.Chooser, error) {
		t.about = c.identity()
		var fault *tune.ShapeError
		if t.points, fault = tune.Points(c.g, t.o.Shapes, t.o.Dims, c.o.Bounds); fault != nil {
			return nil, &InputError{Name: fault.Input, Problem: fault.Problem, Expected: fault.Expected, Found: fault.Found, kind: ErrInput}
		}
		if known = readChoice(t.cache, t.about, c.o.Logger); known != nil && known.SamePoints(t.points) {
			return nil, errKnown
		}
		t.survey = tune.NewSurveys(c.host(), t.points)
		return c.modelled(t.survey), nil
	})
	if errors.Is(err, errKnown) {
		t.result.Known = true
		return t.finish(known), nil
	}
	if err != nil {
		return nil, err
	}
	defer base.Close()
	if err := t.measure(ctx, base); err != nil {
		return nil, err
	}
	choice := t.survey.Choice()
	if err := t.race(ctx, base, choice); err != nil {
		return nil, err
	}
	if choice, err = t.keep(choice, known != nil); err != nil {
		return nil, err
	}
	return t.finish(choice), nil
}

// keep writes the choice. Where another process was first, its choice counts; one for other shapes is replaced.
func (t *tuner) keep(c *tune.Choice, replace bool) (*tune.Choice, error) {
	if replace {
		return c, t.cache.PutNote(t.about, c.Text())
	}
	text, err := t.cache.AddNote(t.about, c.Text())
	if err != nil {
		return nil, err
	}
	return tune.ParseChoice(text)
}

func (t *tuner) finish(c *tune.Choice) *Tuning {
	t.result.TunedReport = *tunedReport(c, t.o.Options.Bounds)
	t.result.Elapsed = time.Since(t.start)
	return &t.result
}

// measure measures candidates, for a little more than half of the time.
func (t *tuner) measure(ctx context.Context, base *Program) error {
	tasks := t.survey.Tasks()
	missing := tune.Recall(t.cache, tasks)
	began := time.Now()
	done, err := tune.Measure(ctx, missing, &tune.Measuring{
		Make: func(ctx context.Context, x *tune.Task) (tune.Subject, error) { return base.trial(ctx, x) },
		Keep: t.cache.Add, Deadline: t.start.Add(t.o.Time * 11 / 20),
		Progress: func(done int, next *tune.Task) {
			p := Progress{Pass: TunePass, Done: done, Total: len(missing), Elapsed: time.Since(began)}
			if next != nil {
				p.Node = next.String()
			}
			t.observe(p)
		},
		Failed: func(x *tune.Task, err error) {
			t.result.Left++
			t.result.Measured--
			t.log.DebugContext(ctx, "a candidate does not run alone", "candidate", x.String(), "error", err)
		},
	})
	t.result.Cached = len(tasks) - len(missing)
	t.result.Measured += done
	t.result.Left += len(missing) - done
	return err
}

// race runs whole programs by turns, at one point after the other, and notes in the choice which is fastest.
func (t *tuner) race(ctx context.Context, base *Program, c *tune.Choice) error {
	deadline := t.start.Add(t.o.Time)
	var programs []*Program
	defer func() {
		for _, p := range programs {
			p.Close()
		}
	}()
	names, programs, failure := t.wholes(ctx, base, c, deadline)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	left := slices.Clone(names)
	for i := range c.Points {
		at := &c.Points[i]
		given := t.o.Inputs
		if len(c.Points) > 1 {
			given = tune.Fitting(base.g.Inputs, given, at.At)
		}
		feeds, err := base.feeds(given, at.At)
		if err != nil {
			return err
		}
		var list []tune.Whole
		for k, name := range names {
			if slices.Contains(left, name) {
				list = append(list, tune.Whole{Name: name, Subject: &timed{p: programs[k], feeds: feeds}})
			}
		}
		share := max(0, time.Until(deadline)) / time.Duration(len(c.Points)-i)
		if at.Runs, err = tune.Race(ctx, list, time.Now().Add(share), func(name string, err error) {
			failure = err
			left = slices.DeleteFunc(left, func(s string) bool { return s == name })
			t.log.DebugContext(ctx, "a program is not compared", "choice", name, "error", err)
		}); err != nil {
			return err
		}
	}
	overall := c.Overall()
	if len(overall) == 0 {
		return failure
	}
	c.Whole = overall[0].Whole
	return nil
}

// wholes compiles the programs that are compared, by name, each that places nodes in another way than those before it; failure is the
// first reason why one is not among them.
func (t *tuner) wholes(ctx context.Context, base *Program, c *tune.Choice, deadline time.Time) (names []string, programs []*Program, failure error) {
	began := time.Now()
	seen := map[string]bool{}
	for _, name := range wholes(base.backends) {
		last := deadline
		if kind, _, _ := strings.Cut(name, " "); kind == "alone" || kind == "measured" { // what is tuned should be no slower
			last = later(deadline, began).Add(t.o.Time / 2)
		}
		if len(names) > 0 && !time.Now().Before(last) || ctx.Err() != nil {
			continue
		}
		p, err := compile(ctx, t.model, t.o.Options, func(x *compilation) (partition.Chooser, error) { return x.whole(name, c) })
		if err != nil { // a backend alone need not run everything
			failure = cmp.Or(failure, err)
			continue
		}
		if placed := p.placed(); seen[placed] {
			p.Close()
		} else {
			seen[placed] = true
			names, programs = append(names, name), append(programs, p)
		}
	}
	return names, programs, failure
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// host describes what measurements depend on.
func (c *compilation) host() tune.Host {
	h := tune.Host{Backends: map[string]tune.Implementation{}, Threads: c.o.Threads, Processor: cpuid.Model()}
	for _, b := range c.backends {
		info := b.Info()
		x := tune.Implementation{Version: info.Version, Processor: info.Processor}
		for _, config := range c.o.Backends {
			if name, _, _ := strings.Cut(info.Name, ":"); len(config.Options) > 0 && (config.Name == info.Name || config.Name == name) {
				x.Options = fmt.Sprint(config.Options) // maps are printed in the order of keys
			}
		}
		h.Backends[info.Name] = x
	}
	return h
}

// placed is a text for who runs what in which formats: programs with equal ones run alike.
func (p *Program) placed() string {
	var s strings.Builder
	_ = eachBlock(p.g, func(g *graph.Graph) error { // which returns no error
		for n := range g.Nodes() {
			fmt.Fprintln(&s, n.Backend, n.Op, n.Name)
			for _, r := range n.Regions {
				for x := range r.Graph.Nodes() {
					fmt.Fprintln(&s, x.Op, x.SigName, x.Provenance())
					for _, v := range x.Outputs {
						if v != nil {
							fmt.Fprint(&s, v.Format)
						}
					}
				}
			}
		}
		return nil
	})
	return s.String()
}

// trial compiles a candidate by itself, on the backends of p, which has to stay open.
func (p *Program) trial(ctx context.Context, x *tune.Task) (tune.Subject, error) {
	if x.Hop != nil {
		return tune.NewConversion(ctx, &p.env.Transfer, x, p.o.Threads)
	}
	m := FromGraph(x.Graph)
	if err := m.retain(); err != nil {
		return nil, err
	}
	c := &compilation{ctx: ctx, model: m, backends: p.backends, registry: p.env.Transfer.Registry, devices: p.env.Transfer.Devices, bans: partition.NewBans(nil),
		o: Options{Threads: p.o.Threads, MaxSessions: 1, MaxSpecializations: 1, Properties: p.o.Properties, DisabledProperties: p.o.DisabledProperties,
			Strict: true, Allocator: p.o.Allocator, Logger: p.o.Logger, Observer: func(Progress) {}},
		told: func(*compilation) (partition.Chooser, error) {
			return &tune.Only{Backend: x.Backend, Signature: x.Sig}, nil
		}}
	c.packer = &constants.Packer{Shared: m.packed, Own: &constants.Store{}, Private: func(tensor.DeviceID) bool { return true },
		Transfer: p.env.Transfer}
	a, err := c.single(x)
	if err != nil {
		c.free()
		m.release()
		return nil, err
	}
	return a, nil
}

// single makes what trial returns.
func (c *compilation) single(x *tune.Task) (*aloneProgram, error) {
	feeds := map[string]tensor.Value{}
	for _, v := range x.Graph.Inputs {
		t, err := tune.Feed(v.Type, nil)
		if err != nil {
			return nil, err
		}
		feeds[v.Name] = t
	}
	first := slices.IndexFunc(passes, func(p pass) bool { return p.round })
	if err := c.rounds(x.Graph, passes[first:]); err != nil {
		return nil, err
	}
	p, err := newProgram(c)
	if err != nil {
		return nil, err
	}
	return &aloneProgram{p: p, backend: x.Backend, feeds: feeds}, nil
}

// aloneProgram is a tune.Subject: what counts is the time of its node.
type aloneProgram struct {
	p       *Program
	backend string
	feeds   map[string]tensor.Value
}

// Run implements tune.Subject.
func (a *aloneProgram) Run(ctx context.Context) (time.Duration, error) {
	_, prof, err := a.p.RunProfiled(ctx, a.feeds)
	if err != nil {
		return 0, err
	}
	sum := time.Duration(0)
	for _, s := range prof.Spans {
		if s.Backend == a.backend && slices.Contains(s.Nodes, tune.NodeName) {
			sum += s.Time
		}
	}
	return sum, nil
}

// Close implements tune.Subject.
func (a *aloneProgram) Close() error { return a.p.Close() }

// timed is a tune.Subject of a whole program.
type timed struct {
	p     *Program
	feeds map[string]tensor.Value
}

// Run implements tune.Subject.
func (t *timed) Run(ctx context.Context) (time.Duration, error) {
	var out map[string]tensor.Value
	took, err := tune.Taken(func() (err error) {
		out, err = t.p.Run(ctx, t.feeds)
		return err
	})
	for _, v := range out {
		if f, ok := v.(*Formatted); ok {
			f.Release()
		}
	}
	return took, err
}

// Close implements tune.Subject; the program is its maker's.
func (*timed) Close() error { return nil }

// feeds returns data for a program's inputs: what is given, or else made up.
func (p *Program) feeds(given map[string]tensor.Value, at graph.Bindings) (map[string]tensor.Value, error) {
	feeds := map[string]tensor.Value{}
	for i, v := range p.g.Inputs {
		if x, ok := given[v.Name]; ok {
			feeds[v.Name] = x
			continue
		}
		if p.defaults[i] != nil {
			continue
		}
		t, err := tune.Feed(v.Type, at)
		if err != nil {
			return nil, &InputError{Name: v.Name, Problem: "no data to measure with: " + err.Error(), kind: ErrInput}
		}
		feeds[v.Name] = t
	}
	return feeds, nil
}
