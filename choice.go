package carve

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/measurements"
	"github.com/carve-dev/carve/internal/plan"
	"github.com/carve-dev/carve/internal/tune"
	"github.com/carve-dev/carve/partition"
)

// Who runs what: what Placement names, and what is reported of the choice.

// choose returns who decides among backends.
func (c *compilation) choose() (_ partition.Chooser, err error) {
	if c.chooser != nil {
		return c.chooser, nil
	}
	switch {
	case c.told != nil:
		c.chooser, err = c.told(c)
	case c.o.Placement == Measured:
		c.chooser, err = c.measured()
	case c.o.Placement == Modelled || c.o.Placement == Automatic && c.rivals():
		c.chooser = c.modelled(nil)
	default:
		c.chooser = partition.Priority{}
	}
	return c.chooser, err
}

// modelled returns who chooses by modelled times, or by those that are known better.
func (c *compilation) modelled(times partition.Times) *partition.Modelled {
	return &partition.Modelled{Launches: partition.Launches(c.backends, c.o.Threads), Budget: c.o.Budget, Times: times}
}

// rivals reports whether two or more backends take part beside that of last resort, all of which say what they achieve.
func (c *compilation) rivals() bool {
	n := 0
	for _, b := range c.backends {
		info := b.Info()
		switch {
		case info.Oracle:
		case info.Efficiency == nil:
			return false
		default:
			n++
		}
	}
	return n > 1
}

// measured reads who chooses from the cache.
func (c *compilation) measured() (partition.Chooser, error) {
	cache, err := c.o.openCache()
	if err != nil {
		return nil, err
	}
	host := c.host()
	if choice := readChoice(cache, c.identity(), c.o.Logger); choice != nil {
		chooser, err := c.whole(choice.Whole, choice)
		if err == nil {
			c.times = func() partition.Times { return tune.NewLookup(host, choice, nil) }
			c.tuned = tunedReport(choice, c.o.Bounds)
			return chooser, nil
		}
		c.o.Logger.WarnContext(c.ctx, "a choice in the cache is ignored", "error", err)
	}
	c.tuned = &TunedReport{}
	c.o.Logger.WarnContext(c.ctx, "the model is not tuned with these options: times that were not measured are modelled")
	c.times = func() partition.Times { return tune.NewLookup(host, nil, cache) }
	return c.modelled(c.times()), nil
}

// wholes names what is compared as a whole: of equal ones the first counts.
func wholes(list []backend.Backend) []string {
	names := []string{"priority"}
	for _, b := range list {
		if info := b.Info(); !info.Oracle {
			names = append(names, "alone "+info.Name)
		}
	}
	names = append(names, "measured", "modelled")
	for i, b := range list {
		if info := b.Info(); i > 0 && !info.Oracle {
			names = append(names, "first "+info.Name)
		}
	}
	return names
}

// whole returns who chooses in a whole of that name.
func (c *compilation) whole(name string, choice *tune.Choice) (partition.Chooser, error) {
	m := c.modelled(nil)
	kind, of, _ := strings.Cut(name, " ")
	first := slices.IndexFunc(c.backends, func(b backend.Backend) bool { return b.Info().Name == of })
	switch {
	case kind == "priority":
		return partition.Priority{}, nil
	case kind == "modelled":
		return m, nil
	case kind == "measured":
		m.Times = tune.NewLookup(c.host(), choice, nil)
		return m, nil
	case first >= 0 && (kind == "first" || kind == "alone"):
		order := []int{first}
		for i, b := range c.backends {
			if i != first && (kind == "first" || b.Info().Oracle) {
				order = append(order, i)
			}
		}
		return partition.Priority{Order: order}, nil
	}
	return nil, fmt.Errorf("%w: choice %q", measurements.ErrEntry, name)
}

// openCache opens the folder of measurements.
func (o *Options) openCache() (*measurements.Cache, error) {
	dir := o.Cache
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("cache of measurements: %w", err)
		}
		dir = filepath.Join(user, "carve")
	}
	cache, err := measurements.Open(dir, func(path string, err error) {
		o.Logger.Warn("a file in the cache is ignored", "path", path, "error", err)
	})
	if err != nil {
		return nil, fmt.Errorf("cache of measurements: %w", err)
	}
	return cache, nil
}

// identity is a text for what a choice holds for: the graph, and whatever decides how it is carved, or how fast it is. The content of
// large weights does not.
func (c *compilation) identity() string {
	var s strings.Builder
	fmt.Fprintf(&s, "graph %s\nprocessor %s\nstreams %d\n", tune.Fingerprint(c.g), cpuid.Model(), c.o.Streams)
	for _, f := range c.o.facts(c.backends) {
		fmt.Fprintf(&s, "%s: %q\n", f.Key, f.Value)
	}
	return s.String()
}

// readChoice returns what was found best; nil where nothing was, or what cannot be read.
func readChoice(cache *measurements.Cache, about string, log *slog.Logger) *tune.Choice {
	text, ok := cache.Note(about)
	if !ok {
		return nil
	}
	choice, err := tune.ParseChoice(text)
	if err != nil {
		log.Warn("a choice in the cache is ignored", "error", err)
		return nil
	}
	return choice
}

// TunedReport says what is run by measured times.
type TunedReport struct {
	// Choice is the fastest way to choose: "priority", "modelled", "measured", which is by cost with measured times, "alone NAME",
	// one backend and those that run what it does not, or "first NAME", which is priority with another backend at the front. It is
	// "" where the model has not been tuned with these options.
	Choice string `json:"choice"`
	// Runs are the times of all that were compared, the fastest first: where several values of symbols were measured, in geometric
	// mean over Points.
	Runs []TunedRun `json:"runs,omitempty"`
	// Dims are the values of open symbols for which it was measured, where each has one.
	Dims map[string]int64 `json:"dims,omitempty"`
	// Ranges are the values of these symbols for which it is taken to hold: all up to their bounds (Options.Bounds).
	Ranges map[string]TunedRange `json:"ranges,omitempty"`
	// Points are the combinations of values for which it was measured, where there are several (TuneOptions.Dims).
	Points []TunedPoint `json:"points,omitempty"`
}

// TunedPoint is one of several combinations of values for which a choice was measured.
type TunedPoint struct {
	Dims map[string]int64 `json:"dims"`
	// Ranges are the values for which this measurement is taken to hold: those that are nearer to these, in ratio, than to others that
	// were measured.
	Ranges map[string]TunedRange `json:"ranges"`
	Runs   []TunedRun            `json:"runs"` // the fastest there first
}

// Held lists the values of open symbols that were measured, with those for which each is taken to hold, by symbol and value: "N = 8,
// for 3 to 16".
func (r *TunedReport) Held() (list []string) {
	values, ranges := map[string][]int64{}, map[string]map[int64]TunedRange{}
	for _, p := range append([]TunedPoint{{Dims: r.Dims, Ranges: r.Ranges}}, r.Points...) {
		for name, n := range p.Dims {
			if ranges[name] == nil {
				ranges[name] = map[int64]TunedRange{}
			}
			if _, known := ranges[name][n]; !known {
				values[name] = append(values[name], n)
			}
			ranges[name][n] = p.Ranges[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, n := range slices.Sorted(slices.Values(values[name])) {
			list = append(list, fmt.Sprintf("%s = %d, for %v", name, n, ranges[name][n]))
		}
	}
	return list
}

// TunedRange are values of a symbol: from Least to Most, or all from Least on where Most is 0.
type TunedRange struct {
	Least int64 `json:"least"`
	Most  int64 `json:"most,omitempty"`
}

// String returns "1 to 512", or "1 and more".
func (r TunedRange) String() string {
	if r.Most == 0 {
		return fmt.Sprintf("%d and more", r.Least)
	}
	return fmt.Sprintf("%d to %d", r.Least, r.Most)
}

// TunedRun is how long a run takes that is chosen in some way: the lower quartile of what was seen, and the standard error of the least.
type TunedRun struct {
	Choice      string  `json:"choice"`
	Nanoseconds float64 `json:"nanoseconds"`
	Noise       float64 `json:"noise_nanoseconds"`
}

func tunedReport(c *tune.Choice, bounds map[string]int) *TunedReport {
	r := &TunedReport{Choice: c.Whole, Runs: tunedRuns(c.Overall())}
	for i := range c.Points {
		at := &c.Points[i]
		p := TunedPoint{Runs: tunedRuns(at.Runs)}
		if len(at.At) > 0 {
			p.Dims, p.Ranges = at.At, map[string]TunedRange{}
		}
		for name, n := range at.At {
			p.Ranges[name] = tunedRange(n, c.Values(name), bounds[name])
		}
		if len(c.Points) == 1 {
			r.Dims, r.Ranges = p.Dims, p.Ranges
		} else {
			r.Points = append(r.Points, p)
		}
	}
	return r
}

// tunedRange returns the values for which a measurement at n is taken to hold, among others of a symbol that were measured.
func tunedRange(n int64, values []int64, bound int) TunedRange {
	r := TunedRange{Least: min(n, 1), Most: int64(bound)}
	at := slices.Index(values, n)
	if at > 0 {
		r.Least = tune.Between(values[at-1], n) + 1
	}
	if at+1 < len(values) {
		r.Most = tune.Between(n, values[at+1])
	}
	return r
}

func tunedRuns(list []tune.Run) (out []TunedRun) {
	for _, x := range list {
		out = append(out, TunedRun{Choice: x.Whole, Nanoseconds: x.Nanos, Noise: x.Noise})
	}
	return out
}

// measuredFacts tell where measurements were taken, and for which values of symbols they are taken to hold: as the plan that was
// applied says, or else tuning.
func (p *Program) measuredFacts() (list []plan.Fact) {
	if p.o.Plan != nil {
		return slices.DeleteFunc(slices.Clone(p.o.Plan.of().Facts), func(f plan.Fact) bool { return f.Key != measuredFact })
	}
	r := p.tuned
	if r == nil {
		return nil
	}
	for _, held := range r.Held() {
		list = append(list, plan.Fact{Key: measuredFact, Value: "at " + held})
	}
	return list
}

// ProfileRate is how many runs a second there were with so many sessions of so many threads each.
type ProfileRate struct {
	Sessions  int     `json:"sessions"`
	Threads   int     `json:"threads"`
	PerSecond float64 `json:"runs_per_second"`
}

// profileNote says what sessions and threads are measured for: like compilation.identity, but before anything is compiled.
func (o *Options) profileNote(m *Model) string {
	x := *o
	x.Threads, x.MaxSessions = 0, 0
	return fmt.Sprintf("profile of graph %s\nprocessor %s, %d of it\nbackends %v\n%v\n", tune.Fingerprint(m.graph), cpuid.Model(), runtime.GOMAXPROCS(0),
		x.Backends, x.facts(nil))
}

// tunedProfile returns the threads and sessions that tuning has found; zeros where it has not been done.
func (o *Options) tunedProfile(m *Model) (threads, sessions int, err error) {
	if m == nil || m.graph == nil || m.bundle != nil {
		return 0, 0, fmt.Errorf("%w: a profile that is tuned is that of a model, not of a bundle", ErrInput)
	}
	d := o.withDefaults()
	cache, err := d.openCache()
	if err != nil {
		return 0, 0, err
	}
	text, known := cache.Note(o.profileNote(m))
	if known {
		sessions, threads, err = tune.ParseServing(text)
	}
	if !known || err != nil {
		d.Logger.Warn("sessions and threads of the model are not tuned with these options: the default counts", "error", err)
		return 0, 0, nil
	}
	return threads, sessions, nil
}

// tuneProfile measures which sessions and threads give most runs a second, and keeps that. All is compiled by Placement Automatic.
func (t *tuner) tuneProfile(ctx context.Context, m *Model, until time.Time) error {
	o := *t.o.Options
	o.Profile, o.Placement = ProfileDefault, Automatic
	cores := runtime.GOMAXPROCS(0)
	pairs := [][2]int{{cores, cores}}
	for threads := 1; threads <= cores; threads *= 2 {
		pairs = append(pairs, [2]int{(cores + threads - 1) / threads, threads})
	}
	var list []tune.Serving
	for _, x := range slices.Compact(pairs) {
		o.MaxSessions, o.Threads = x[0], x[1]
		p, err := compile(ctx, m, &o, nil)
		if err != nil {
			return err
		}
		defer p.Close()
		points, fault := tune.Points(p.g, t.o.Shapes, t.o.Dims, o.Bounds)
		if fault != nil {
			return &InputError{Name: fault.Input, Problem: fault.Problem, Expected: fault.Expected, Found: fault.Found, kind: ErrInput}
		}
		feeds, err := p.feeds(t.o.Inputs, points[0]) // one will do: it is about threads, not about kernels
		if err != nil {
			return err
		}
		list = append(list, tune.Serving{Sessions: x[0], Threads: x[1], Run: func(ctx context.Context) error {
			_, err := (&timed{p: p, feeds: feeds}).Run(ctx)
			return err
		}})
	}
	rates, err := tune.Rates(ctx, list, cores, until)
	if err != nil {
		return err
	}
	for _, r := range rates {
		t.result.Profiles = append(t.result.Profiles, ProfileRate(r))
	}
	return t.cache.PutNote(t.o.Options.profileNote(m), rates[0].Text())
}

// PlacementReport says what the choice by cost comes to, over all graphs that were partitioned: the modelled nanoseconds of a run,
// conversions and launches included, and a bound that no choice is below. Symbols count with their bound (Options.Bounds), or else
// with an assumed size; loop bodies once.
type PlacementReport struct {
	Nanoseconds float64 `json:"nanoseconds"`
	Bound       float64 `json:"bound_nanoseconds"`
	// Corrected is the time of what was taken when groups were known, with launches counted by them: Regrouped groups were given
	// to other backends then, since they did not earn their launch and conversions. Both are 0 for a plan that was saved.
	Corrected float64 `json:"corrected_nanoseconds,omitempty"`
	Regrouped int     `json:"regrouped,omitempty"`
	// Rivals are the plans for the main graph that the choice was compared with: none takes less than what was taken.
	Rivals []RivalReport `json:"rivals,omitempty"`
}

// RivalReport is a plan in which one backend has every node that it takes by itself: its modelled time, launches counted by groups.
type RivalReport struct {
	Backend     string  `json:"backend"`
	Nanoseconds float64 `json:"nanoseconds"`
}

// with adds the choice for a graph; nil stands for none.
func (r *PlacementReport) with(p *partition.Placement, main bool) *PlacementReport {
	if p == nil {
		return r
	}
	if r == nil {
		r = &PlacementReport{}
	}
	r.Nanoseconds += p.Nanoseconds
	r.Bound += p.Bound
	r.Corrected += p.Corrected
	r.Regrouped += p.Regrouped
	for _, x := range p.Rivals {
		if main {
			r.Rivals = append(r.Rivals, RivalReport(x))
		}
	}
	return r
}
